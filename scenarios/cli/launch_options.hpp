// Where real work runs: words of the command line that `run` and `calibrate` share, and the processes they start.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "real/session.hpp"
#include "scenarios/cli/shared_options.hpp"

namespace foreduce {

struct LaunchOptions {
  std::string transport = "threads", provider = "tcp", address;
  int ranks = 0, per_process = 0, servers = 0, channels = 1, rails = 1;
  double timeout = 30;
  bool staged = false;  // GPUs' memory through the host's

  bool threads() const { return transport == "threads"; }
  bool cuda() const { return transport == "cuda"; }
  /// Which transports: all, or those whose data is in host memory.
  void add_to(CLI::App& command, bool devices);
  /// What a session needs; `settings` must be equal in all processes.
  SessionOptions session(nlohmann::json settings) const;
  /// Runs `work` in every process: the one that a launcher started, or in so many started here. What it throws is one message and a
  /// status: 2 for bad input (said once), 1 for a run that broke. Returns the worst.
  int go(const std::function<void(const ProcessPlace&)>& work);
  /// Processes that go() will start here; throws InputError if the numbers do not fit.
  int processes();
};

/// Where a launcher says this process stands; nothing if none started it. Throws InputError if what it says is nonsense.
std::optional<ProcessPlace> detect_launcher();

/// Versions, hosts and hardware; never the environment variables.
nlohmann::ordered_json environment_json(const LaunchOptions& launch, const Session& session);
/// Nodes, ranks and rails.
nlohmann::ordered_json layout_json(const LaunchOptions& launch, const Session& session);

}  // namespace foreduce
