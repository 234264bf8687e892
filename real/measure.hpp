// The measurement loop: one collective over and over on real ranks, timed as nccl-tests does, its
// results checked.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "algorithms/core/registry.hpp"
#include "real/baseline.hpp"
#include "real/session.hpp"

namespace foreduce {

/// One row of a run.
struct Trial {
  std::string name;  ///< in reports
  const Algorithm* algorithm = nullptr;
  Baseline* baseline = nullptr;  ///< instead of an algorithm
  Plan plan;                     ///< complete: no field is 0
  std::size_t count = 0;         ///< elements of each rank's buffer, as in Collective
  Type type = Type::f32;
  Collective of_baseline = Collective::all_reduce;

  Collective collective() const { return algorithm ? algorithm->collective : of_baseline; }
};

struct MeasureOptions {
  int warmup = 5, iterations = 20;
  bool check = false;     ///< compare every element with what it must be
  double timeout_s = 30;  ///< of a baseline; our algorithms have the session's
  /// Told by one rank of the first process, between iterations, how many are done.
  std::function<void(std::size_t done, std::size_t total)> progress = {};
};

/// The times of one trial.
struct Timing {
  std::vector<double>
      samples;  ///< seconds for each iteration: from a barrier to the end, on the slowest worker
  double wrong = -1;  ///< wrong elements over all workers and iterations; -1: not checked
};
/// Our algorithms work in place, so `out_of_place` includes the copy of what a rank gives.
struct TrialResult {
  Trial trial;
  Timing out_of_place, in_place;
};

/// Runs all trials on all ranks of the session. Collective: every process calls it, and all get the
/// same result.
std::vector<TrialResult> measure(Session& session, const std::vector<Trial>& trials,
                                 const MeasureOptions& options);

}  // namespace foreduce
