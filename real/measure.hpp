// The measurement loop: one all-reduce over and over on real ranks, timed as nccl-tests does, its sums checked.
#pragma once

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
  std::size_t count = 0;         ///< elements
  Type type = Type::f32;
};

struct MeasureOptions {
  int warmup = 5, iterations = 20;
  bool check = false;     ///< compare every element with the sum it must have
  double timeout_s = 30;  ///< of a baseline; ours have the session's
};

/// What one trial showed, for out of place (our algorithms work in place, so the copy into the result is part of the time) and in
/// place.
struct Timing {
  std::vector<double> samples;  ///< seconds, one an iteration: from a barrier to the end, on the slowest worker
  double wrong = -1;            ///< elements with a wrong sum over all workers and iterations; -1: not checked
};
struct TrialResult {
  Trial trial;
  Timing out_of_place, in_place;
};

/// Runs all trials on all ranks of the session's processes; the same on every worker. Collective.
std::vector<TrialResult> measure(Session& session, const std::vector<Trial>& trials, const MeasureOptions& options);

/// All-reduces of a training step: bucket i is ready `ready[i]` seconds after the step starts.
struct Replay {
  const Algorithm* algorithm = nullptr;
  std::vector<Plan> plans;          ///< one a bucket
  std::vector<std::size_t> counts;  ///< elements
  std::vector<double> ready;        ///< seconds of backward, ascending
  double compute = 0;               ///< seconds of the whole backward
  Type type = Type::f32;
};
/// Times `options.iterations` steps on the slowest worker: backward is a thread of its own that spins, buckets are reduced in order
/// as they become ready, one at a time, as NCCL's stream does.
std::vector<double> replay(Session& session, const Replay& step, const MeasureOptions& options);

}  // namespace foreduce
