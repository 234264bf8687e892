#include "scenarios/cli/launch_options.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <new>
#include <thread>

#include "real/host_addresses.hpp"
#include "real/transports.hpp"
#include "scenarios/cli/plugin_options.hpp"

namespace foreduce {
namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (const auto colon = line.find(": "); line.starts_with("model name") && colon != line.npos)
      return line.substr(colon + 2);
  return "unknown";
}

}  // namespace

std::optional<ProcessPlace> detect_launcher() {
  try {
    return place_from_environment(
        [](const char* name) -> const char* { return std::getenv(name); });
  } catch (const std::invalid_argument& e) {
    throw input_error(e.what());
  }
}

void LaunchOptions::add_to(CLI::App& command, Memory memory) {
  const bool devices = memory == Memory::host_or_devices;
  std::vector<std::string> known{"threads", "ofi"};
  if (devices) known.emplace_back("cuda");
  command
      .add_option("--transport", transport,
                  fmt::format("How ranks exchange data: threads of one process, or ofi for "
                              "processes over libfabric{}.",
                              devices ? ", or cuda for threads whose data is on GPUs (and their "
                                        "processes over libfabric)"
                                      : ""))
      ->transform(one_of(known))
      ->capture_default_str();
  command.add_option("--provider", provider, "Provider of libfabric: tcp, shm, or efa on EC2.")
      ->capture_default_str();
  command.add_option("--address", address,
                     "This host's address on the network to use. Default: that of the route to the "
                     "first process.");
  command.add_option("--rails", rails, "Spread messages over so many network interfaces.")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  if (devices)
    command.add_flag("--staged", staged,
                     "Send GPU memory through host memory, even where the provider has FI_HMEM.");
  command
      .add_option("--ranks", ranks,
                  "Start so many ranks here. Default: what torchrun, mpirun or srun say, else 2.")
      ->check(CLI::Range(1, 4096));
  command
      .add_option("--per-process", per_process,
                  "Run so many ranks as threads of one process that share its memory. Default: 1; "
                  "all with threads or cuda and --ranks.")
      ->check(CLI::Range(1, 1024));
  command.add_option("--timeout", timeout, "End all ranks after so many seconds without progress.")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
}

SessionOptions LaunchOptions::session(nlohmann::json settings) const {
  SessionOptions options;
  options.ranks_per_process = per_process * streams;
  options.servers_per_process = servers;
  options.channels = channels;
  options.timeout_s = timeout;
  options.network.provider = provider;
  options.network.address = address;
  options.network.rails = rails;
  settings["version"] = FOREDUCE_VERSION;
  settings["plugins"] = plugins_json();
  settings["provider"] = provider;
  settings["rails"] = rails;
  settings["channels"] = channels;
  settings["streams"] = streams;
  settings["ranks per process"] = per_process;
  settings["servers per process"] = servers;
  options.settings = std::move(settings);
  if (cuda()) use_cuda(options, staged ? Staging::through_host : Staging::direct);
  return options;
}

int LaunchOptions::processes() {
  if (ranks == 0) ranks = 2;
  if (per_process == 0) per_process = threads() || cuda() ? ranks : 1;
  if (ranks % per_process != 0)
    throw input_error(
        fmt::format("--ranks {} is no multiple of --per-process {}", ranks, per_process));
  if (threads() &&
      (provider != LaunchOptions{}.provider || !address.empty() || rails != LaunchOptions{}.rails))
    throw input_error(
        "--provider, --address and --rails are about a network, which --transport threads has not",
        "--transport ofi");
  if (threads() && ranks != per_process)
    throw input_error("--transport threads is one process: leave --per-process away",
                      "--transport ofi");
  return ranks / per_process;
}

/// Throws InputError for an address that this host has not.
void LaunchOptions::check_network() const {
  if (address.empty()) return;
  const std::vector<std::string> known = host_addresses();
  if (std::find(known.begin(), known.end(), address) == known.end())
    throw input_error(fmt::format("--address: this host has no IPv4 address '{}'", address),
                      fmt::format("accepted: {}", fmt::join(known, ", ")));
}

int LaunchOptions::guarded(const std::function<int(const ProcessPlace&)>& work,
                           const ProcessPlace& here) const {
  try {
    if (here.processes > 1 && !has_ofi())
      throw input_error(
          fmt::format("--transport {} in several processes: this build has no libfabric",
                      transport),
          "apt install libfabric-dev, or the EFA installer, and configure again");
    if (cuda()) {  // here and not before: a process that has talked to CUDA cannot fork others that
                   // do
      if (const std::string why = cuda_unavailable(); !why.empty()) {
        if (here.process != 0)
          throw TransportError(
              fmt::format("process {}: {}", here.process, why));  // perhaps here alone
        throw input_error(fmt::format("--transport cuda: {}", why), "--transport threads");
      }
    }
    return work(here);
  } catch (const InputError& e) {
    // Processes started here read the same; those of a launcher may be on hosts where something
    // else is wrong.
    if (here.process == 0 || !here.from.empty())
      std::cerr << (here.process == 0 ? "" : fmt::format("process {}: ", here.process))
                << error_text(e) << "\n";
    return 2;
  } catch (const std::bad_alloc&) {
    throw;  // main() has words for it
  } catch (const std::exception& e) {
    std::string why = e.what();
    while (why.ends_with('\n')) why.pop_back();
    std::cerr << fmt::format("foreduce: {}\n",
                             why);  // at once, so that the words of several processes do not mix
    return 1;
  }
}

int LaunchOptions::run_processes(const std::function<int(const ProcessPlace&)>& work) {
  check_network();
  if (staged && !cuda()) throw input_error("--staged is about GPUs' memory", "--transport cuda");
  if (cuda() && !built_with_cuda())
    throw input_error(
        "--transport cuda: this build has no CUDA",
        "apt install nvidia-cuda-toolkit, or NVIDIA's CUDA toolkit, and configure again");
  const auto in_process = [&](const ProcessPlace& here) { return guarded(work, here); };
  // --ranks means: here, whatever a launcher says.
  if (const auto place = ranks > 0 ? std::nullopt : detect_launcher()) {
    if (threads())
      throw input_error(fmt::format("--transport threads is one process, and {} started {}",
                                    place->from, place->processes),
                        "--transport ofi");
    if (per_process == 0) per_process = 1;
    return in_process(*place);
  }
  const int count = processes();
  return count == 1 ? in_process({}) : spawn(count, in_process);
}

Json environment_json(const LaunchOptions& launch, const Session& session) {
  utsname system{};
  ::uname(&system);
  Json hosts = Json::array();
  for (const auto& host : session.hosts())
    if (hosts.empty() || hosts.back() != host) hosts.push_back(host);
  Json e{{"foreduce_version", FOREDUCE_VERSION}, {"transport", launch.transport}};
  if (session.place().processes > 1)
    e["provider"] = ofi_version({.provider = launch.provider, .address = {}});
  if (const auto versions = launch.cuda() ? cuda_versions() : std::nullopt) {
    e["cuda"] = {{"runtime", versions->runtime},
                 {"driver", versions->driver},
                 {"devices", versions->devices}};
    if (session.place().processes > 1) e["cuda"]["to_network"] = session.to_network();
  }
  e["launcher"] = session.place().from.empty() ? "foreduce" : session.place().from;
  e["hosts"] = hosts;
  e["kernel"] = fmt::format("{} {}", system.sysname, system.release);
  e["cpu"] = cpu_model();
  e["cores"] = std::thread::hardware_concurrency();
  return e;
}

Json layout_json(const LaunchOptions& launch, const Session& session) {
  return {{"nodes", session.workers().nodes},
          {"ranks", session.workers().size() / launch.streams},
          {"ranks_per_process", launch.per_process},
          {"servers", session.everyone().servers()},
          {"rails", launch.rails},
          {"channels", launch.channels}};
}

}  // namespace foreduce
