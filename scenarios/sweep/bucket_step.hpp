// The step of a model that every GPU holds whole: its buckets' all-reduces, and which of several
// algorithms each takes.
#pragma once

#include <vector>

#include "models/step.hpp"
#include "sim/batch.hpp"

namespace foreduce {

/// The all-reduces of one step on one cluster: for each bucket a question a candidate.
struct StepQuestions {
  std::vector<std::vector<std::size_t>> numbers;  ///< by bucket and candidate
  std::vector<std::vector<double>> shares;        ///< speed of backward beside each of them
  double slowest = 1;  ///< compute time of the slowest GPU over the usual one's
};

/// The step with the candidate that `picks` says for each bucket.
StepInput input_of(StepInput step, const StepQuestions& of, const std::vector<std::size_t>& picks);

/// How long the step's all-reduces take. `stretch`: factor for each bucket's time; empty: 1.
AllReduceTime times_of(const StepInput& step, const StepQuestions& of, const Batch& batch,
                       const std::vector<std::size_t>& picks, const std::vector<double>& stretch);

/// The candidates that make the step shortest: the fastest for each bucket, or one for all, which
/// may leave the GPU more to compute with. All questions are answered.
std::vector<std::size_t> fastest_picks(const StepInput& step, const StepQuestions& of,
                                       const Batch& batch);

}  // namespace foreduce
