// Where real work runs: options that `run` and `calibrate` share, and the processes that they
// start.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "real/session.hpp"
#include "scenarios/cli/shared_options.hpp"

namespace foreduce {

/// Which transports a command offers: those whose data is in host memory, or all.
enum class Memory : std::uint8_t { host, host_or_devices };

struct LaunchOptions {
  std::string transport = "threads", provider = "tcp", address;
  int ranks = 0, per_process = 0, servers = 0, channels = 1, rails = 1;
  int streams = 1;  ///< of communication: each has a thread and connections of its own for a rank
  double timeout = 30;
  bool staged = false;  ///< GPUs' memory goes to the network through the host's

  bool threads() const { return transport == "threads"; }
  bool cuda() const { return transport == "cuda"; }
  void add_to(CLI::App& command, Memory memory);
  /// What a session needs; `settings` must be equal in all processes.
  SessionOptions session(nlohmann::json settings) const;
  /// Runs `work` in every process: the one that a launcher started, or in so many started here.
  /// The status is what it returns; what it throws is one message, and 2 for bad input (reported
  /// once), 1 for a run that broke. Returns the worst.
  int run_processes(const std::function<int(const ProcessPlace&)>& work);
  /// Processes that run_processes() will start here; throws InputError if the numbers do not fit.
  int processes();

 private:
  void check_network() const;
  int guarded(const std::function<int(const ProcessPlace&)>& work, const ProcessPlace& here) const;
};

/// Where a launcher says this process stands; nothing if none started it. Throws InputError if what
/// it says is nonsense.
std::optional<ProcessPlace> detect_launcher();

/// Versions, hosts and hardware; never the environment variables.
Json environment_json(const LaunchOptions& launch, const Session& session);
/// Nodes, ranks and rails.
Json layout_json(const LaunchOptions& launch, const Session& session);

}  // namespace foreduce
