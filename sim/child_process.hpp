// Work in child processes: SimGrid's engine is one a process, a crash must not take the others
// along, and a machine has several cores.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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

/// Runs every task in a child of its own, at most `jobs` at a time, and calls `finished` in this
/// process as each ends, in no particular order. Returns when all have ended or `stop` says so
/// after one; children still running are then killed. One that runs longer than `most_seconds` (0:
/// as long as it likes) is killed, and has no answer. Where the system has no room for another
/// process, fewer run at a time. The calling process must be single-threaded.
void run_in_children(const std::vector<std::function<nlohmann::json()>>& work, int jobs,
                     const std::function<void(std::size_t index, ChildResult outcome)>& finished,
                     const std::function<bool()>& stop = nullptr, double most_seconds = 0);

/// One task.
ChildResult run_in_child(const std::function<nlohmann::json()>& work);

}  // namespace foreduce
