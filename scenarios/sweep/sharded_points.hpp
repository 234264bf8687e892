// Points of a sweep whose model is spread over GPUs: their step, and what its answer says.
#pragma once

#include <optional>

#include "scenarios/sweep/predict.hpp"
#include "scenarios/sweep/step_collectives.hpp"

namespace foreduce {

struct ShardedPoint {
  ShardedStepInput step;
  double compute_share = 1;  ///< speed of computing while a collective runs
  std::optional<StepCollectives> collectives;
};

/// The step of one GPU: of its part of each matrix, and of the pipeline's stage that computes the
/// longest. `whole`: of the whole model on one GPU. Throws InputError for more stages than blocks.
ShardedStepInput sharded_step(const Prediction& point, const StepInput& whole,
                              const Workload& workload);

/// Fills in the answer but for its cost; all questions are answered. `compute_within`: compute is
/// right to within this factor.
void answer_sharded(Prediction& point, const ShardedPoint& sharded, const Batch& batch,
                    double compute_within);

}  // namespace foreduce
