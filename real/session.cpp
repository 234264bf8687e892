#include "real/session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

namespace foreduce {
namespace {

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

RendezvousOptions rendezvous_of(const ProcessPlace& place, const SessionOptions& options) {
  RendezvousOptions r;
  r.address = place.address;
  r.port = place.port;
  r.listening_socket = place.listening_socket;
  r.process = place.process;
  r.processes = place.processes;
  r.job = place.job;
  r.token = place.token;
  r.process_end_fd = place.process_end_fd;
  r.timeout_s = options.timeout_s;
  return r;
}

}  // namespace

Session::Session(const ProcessPlace& place, const SessionOptions& options)
    : place_(place), options_(options), rendezvous_(rendezvous_of(place, options)) {
  std::vector<std::unique_ptr<OfiPort>> ports = open_ports();
  std::vector<std::string> addresses;
  for (const auto& port : ports) addresses.push_back(port->address());
  const ProcessAbout mine{host_name(), place.node, addresses};
  std::vector<ProcessAbout> about;
  const Meeting meeting = rendezvous_.meet(options.settings, mine.message());
  for (const auto& message : meeting.everyone) {
    const auto decoded = decode_about(message, ports.size());
    if (!decoded)
      throw TransportError(
          fmt::format("process {} does not say what host it is on, or has not {} "
                      "addresses",
                      about.size(), ports.size()));
    about.push_back(*decoded);
  }
  lay_out(about);
  create_ranks(std::move(ports), addresses_by_rank(about), meeting.token);
  rendezvous_.watch([this](const std::string& why) { ranks_.stop(why); });
}

/// The rank of a process's worker or server. All workers come first, then all servers, both by
/// process.
int Session::rank_of(int process, int index) const {
  const int workers = options_.ranks_per_process, servers = options_.servers_per_process;
  if (index < workers) return process * workers + index;
  return place_.processes * workers + process * servers + index - workers;
}

std::vector<std::unique_ptr<OfiPort>> Session::open_ports() const {
  std::vector<std::unique_ptr<OfiPort>> ports;
  if (place_.processes == 1) return ports;
  OfiOptions network = options_.network;
  if (network.address.empty()) network.address = rendezvous_.local_address();
  for (int i = 0; i < ranks_each(); ++i) {
    network.first_interface = place_.process * ranks_each() + i;
    ports.push_back(open_ofi(network));
  }
  return ports;
}

/// Makes the layouts from what each process says about itself. Nodes are numbered in order of
/// appearance. If a launcher numbers the nodes, its numbers count instead of host names, so that
/// one machine can act as several nodes.
void Session::lay_out(const std::vector<ProcessAbout>& about) {
  std::vector<std::string> nodes;
  std::vector<int> workers_on;  // by node
  const int workers = place_.processes * options_.ranks_per_process;
  everyone_.members.resize(static_cast<std::size_t>(place_.processes * ranks_each()));
  for (int p = 0; p < place_.processes; ++p) {
    const auto& one = about[static_cast<std::size_t>(p)];
    hosts_.push_back(one.host);
    const std::string name = one.node >= 0 ? std::to_string(one.node) : one.host;
    const auto found = std::find(nodes.begin(), nodes.end(), name);
    const int node = static_cast<int>(found - nodes.begin());
    if (found == nodes.end()) {
      nodes.push_back(name);
      workers_on.push_back(0);
    } else if (node != static_cast<int>(nodes.size()) - 1) {
      throw TransportError(
          fmt::format("the ranks of {} are not next to each other: process {} is there again; let "
                      "the launcher number node by node",
                      hosts_.back(), p));
    }
    for (int i = 0; i < ranks_each(); ++i) {
      const bool server = i >= options_.ranks_per_process;
      const int local =
          server ? i - options_.ranks_per_process : workers_on[static_cast<std::size_t>(node)]++;
      everyone_.members[static_cast<std::size_t>(rank_of(p, i))] = {node, local, 0, server};
    }
  }
  everyone_.workers = workers;
  everyone_.nodes = static_cast<int>(nodes.size());
  std::vector<int> order(static_cast<std::size_t>(workers));
  std::iota(order.begin(), order.end(), 0);
  everyone_.channels.assign(static_cast<std::size_t>(options_.channels), order);
  workers_ = everyone_;
  workers_.members.resize(static_cast<std::size_t>(workers));
}

/// Port addresses of the ranks of other processes; empty for those of this process.
std::vector<std::string> Session::addresses_by_rank(const std::vector<ProcessAbout>& about) const {
  std::vector<std::string> addresses(everyone_.members.size());
  for (int p = 0; p < place_.processes; ++p) {
    const auto& theirs = about[static_cast<std::size_t>(p)].addresses;
    if (p == place_.process || theirs.empty()) continue;
    for (int i = 0; i < ranks_each(); ++i)
      addresses[static_cast<std::size_t>(rank_of(p, i))] = theirs[static_cast<std::size_t>(i)];
  }
  return addresses;
}

void Session::create_ranks(std::vector<std::unique_ptr<OfiPort>> ports,
                           const std::vector<std::string>& addresses, const RunToken& token) {
  ranks_.timeout_s = options_.timeout_s;
  const auto& host = hosts_[static_cast<std::size_t>(place_.process)];
  ranks_.oversubscribed = oversubscribes_cores(
      static_cast<int>(std::count(hosts_.begin(), hosts_.end(), host)) * ranks_each());
  ranks_.by_rank.resize(everyone_.members.size());
  // All workers of this machine share its devices, even if the machine acts as several nodes.
  const auto workers_before =
      static_cast<int>(std::count(hosts_.begin(), hosts_.begin() + place_.process, host)) *
      options_.ranks_per_process;
  for (int i = 0; i < ranks_each(); ++i) {
    const int rank = rank_of(place_.process, i);
    std::unique_ptr<OfiPort> port;
    if (!ports.empty()) {
      port = std::move(ports[static_cast<std::size_t>(i)]);
      port->connect(addresses, token);
    }
    const bool uses_device = options_.device && i < options_.ranks_per_process;
    ranks_.by_rank[static_cast<std::size_t>(rank)] = std::make_unique<HostRank>(
        ranks_, rank, std::move(port),
        uses_device ? options_.device(rank, workers_before + i) : nullptr);
  }
}

std::string Session::to_network() const {
  bool all = true, any = false;
  for (const auto& rank : ranks_.by_rank) {
    if (!rank || !rank->device()) continue;
    all = all && rank->always_gpudirect();
    any = any || rank->uses_gpudirect();
  }
  return !any ? "through the host" : all ? "FI_HMEM" : "FI_HMEM in part";
}

void Session::run(const std::function<void(HostRank&)>& rank_function) {
  try {
    run_ranks(ranks_, everyone_, [&](HostRank& rank, Transport&) { rank_function(rank); });
  } catch (const std::exception& e) {
    // The other processes add what they waited for themselves, so the first two lines of ours are
    // enough.
    const std::string why = e.what();
    const auto first = why.find('\n');
    const std::string short_why =
        first == std::string::npos ? why : why.substr(0, why.find('\n', first + 1));
    rendezvous_.give_up(fmt::format("process {} ({}) gave up: {}", place_.process,
                                    hosts_[static_cast<std::size_t>(place_.process)], short_why));
    throw;
  }
}

}  // namespace foreduce
