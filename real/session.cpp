#include "real/session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace foreduce {
namespace {

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

RendezvousOptions meeting(const ProcessPlace& place, const SessionOptions& options) {
  RendezvousOptions r;
  r.address = place.address;
  r.port = place.port;
  r.listening = place.listening;
  r.process = place.process;
  r.processes = place.processes;
  r.job = place.job;
  r.timeout_s = options.timeout_s;
  return r;
}

}  // namespace

Session::Session(const ProcessPlace& place, const SessionOptions& options)
    : place_(place), options_(options), rendezvous_(meeting(place, options)) {
  const int each = options.ranks_per_process, servers_each = options.servers_per_process;
  std::vector<std::unique_ptr<OfiPort>> ports;
  std::vector<std::string> addresses;
  if (place.processes > 1) {
    OfiOptions network = options.network;
    if (network.address.empty()) network.address = rendezvous_.local_address();
    for (int i = 0; i < each + servers_each; ++i) {
      network.turn = place.process * (each + servers_each) + i;
      ports.push_back(open_ofi(network));
      addresses.push_back(ports.back()->address());
    }
  }
  const auto about = rendezvous_.meet(options.settings, {{"host", host_name()}, {"node", place.node}, {"addresses", addresses}});

  // Hosts in order of appearance; a launcher that numbers nodes is believed, so that one machine can play many.
  std::vector<std::string> nodes;
  std::vector<int> filled;
  const int workers = place.processes * each;
  everyone_.members.resize(static_cast<std::size_t>(workers + place.processes * servers_each));
  std::vector<std::string> by_rank(everyone_.members.size());
  for (int p = 0; p < place.processes; ++p) {
    const auto& one = about[static_cast<std::size_t>(p)];
    hosts_.push_back(one.at("host").get<std::string>());
    const int number = one.at("node").get<int>();
    const std::string name = number >= 0 ? std::to_string(number) : hosts_.back();
    const auto found = std::find(nodes.begin(), nodes.end(), name);
    const int node = static_cast<int>(found - nodes.begin());
    if (found == nodes.end()) {
      nodes.push_back(name);
      filled.push_back(0);
    } else if (node != static_cast<int>(nodes.size()) - 1) {
      throw TransportError(
          fmt::format("the ranks of {} are not next to each other: process {} is there again; let the launcher number node by node",
                      hosts_.back(), p));
    }
    for (int i = 0; i < each + servers_each; ++i) {
      const bool server = i >= each;
      const int rank = server ? workers + p * servers_each + i - each : p * each + i;
      everyone_.members[static_cast<std::size_t>(rank)] = {node, server ? i - each : filled[static_cast<std::size_t>(node)]++, 0,
                                                           server};
      if (p != place.process && !one.at("addresses").empty())
        by_rank[static_cast<std::size_t>(rank)] = one.at("addresses").at(static_cast<std::size_t>(i)).get<std::string>();
    }
  }
  everyone_.workers = workers;
  everyone_.nodes = static_cast<int>(nodes.size());
  std::vector<int> order(static_cast<std::size_t>(workers));
  for (int r = 0; r < workers; ++r) order[static_cast<std::size_t>(r)] = r;
  everyone_.channels.assign(static_cast<std::size_t>(options.channels), order);
  workers_ = everyone_;
  workers_.members.resize(static_cast<std::size_t>(workers));

  world_.timeout_s = options.timeout_s;
  const auto here = static_cast<int>(std::count(hosts_.begin(), hosts_.end(), host_name())) * (each + servers_each);
  world_.crowded = crowded(here);
  world_.ranks.resize(everyone_.members.size());
  // One machine may play several nodes; its devices are shared out among all its workers.
  const auto before = static_cast<int>(std::count(hosts_.begin(), hosts_.begin() + place.process,
                                                  hosts_[static_cast<std::size_t>(place.process)])) *
                      each;
  for (int i = 0; i < each + servers_each; ++i) {
    const int rank = i >= each ? workers + place.process * servers_each + i - each : place.process * each + i;
    std::unique_ptr<OfiPort> port;
    if (!ports.empty()) {
      port = std::move(ports[static_cast<std::size_t>(i)]);
      port->connect(by_rank);
    }
    world_.ranks[static_cast<std::size_t>(rank)] = std::make_unique<HostRank>(
        world_, rank, std::move(port), options.device && i < each ? options.device(rank, before + i) : nullptr);
  }
  rendezvous_.watch([this](const std::string& why) { world_.break_up(why); });
}

std::string Session::to_network() const {
  bool all = true, any = false;
  for (const auto& rank : world_.ranks) {
    if (!rank || !rank->device()) continue;
    all = all && rank->always_past_host();
    any = any || rank->past_host();
  }
  return !any ? "through the host" : all ? "FI_HMEM" : "FI_HMEM in part";
}

void Session::run(const std::function<void(HostRank&)>& rank_function) {
  try {
    run_ranks(world_, everyone_, [&](HostRank& rank, Transport&) { rank_function(rank); });
  } catch (const std::exception& e) {
    // The others add what they waited for themselves; of ours the first line says enough.
    const std::string why = e.what();
    const auto first = why.find('\n');
    const std::string short_why = first == std::string::npos ? why : why.substr(0, why.find('\n', first + 1));
    rendezvous_.give_up(
        fmt::format("process {} ({}) gave up: {}", place_.process, hosts_[static_cast<std::size_t>(place_.process)], short_why));
    throw;
  }
}

}  // namespace foreduce
