// Work in child processes: SimGrid's engine is one a process, a crash must not take the others
// along, and a machine has several cores.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/readiness.hpp"

namespace foreduce {

/// What became of one task.
struct ChildResult {
  bool ok = false;
  nlohmann::json value;  ///< what it returned
  std::string
      error;  ///< why not: the exception's text, or "killed by signal 11 (Segmentation fault)"
  double wall_seconds = 0;
  std::uint64_t peak_rss_bytes = 0;
};

struct ChildOptions {
  int jobs = 1;  ///< children at a time
  /// Tasks that one child may do, one after the other, each as soon as it is free: a task that
  /// takes milliseconds is not worth a process. A child that fails at one of them does no more;
  /// others do what is left.
  std::size_t tasks_each = 1;
  std::function<bool()> stop;  ///< asked now and then; true ends it all
  /// Asked as a task's turn comes; null: all are ready. `finished` is called for what was begun
  /// alone.
  std::function<Readiness(std::size_t index)> readiness;
  double most_seconds = 0;  ///< for one task, which is then killed; 0: as long as it likes
};

/// What an exception says, for a row of an answer; of missing memory it is in our own words.
std::string reason_of(const std::exception& e);

/// Runs every task in a child process, and calls `finished` in this process as each ends, in no
/// particular order. Returns when all have ended or `stop` says so; children still running are then
/// killed. Where the system has no room for another process, fewer run at a time. The calling
/// process must be single-threaded.
void run_in_children(const std::vector<std::function<nlohmann::json()>>& work,
                     const std::function<void(std::size_t index, ChildResult outcome)>& finished,
                     const ChildOptions& options = {});

/// One task; `most_seconds`: as in ChildOptions.
ChildResult run_in_child(const std::function<nlohmann::json()>& work, double most_seconds = 0);

}  // namespace foreduce
