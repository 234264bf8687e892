// Points of a sweep whose model is spread over GPUs: their step, and what its answer says.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "scenarios/sweep/predict.hpp"
#include "scenarios/sweep/step_collectives.hpp"

namespace foreduce {

struct ShardedPoint {
  ShardedStepInput step;
  /// What a GPU would compute of a micro-batch if all that work on the model did as much.
  Seconds evenly_divided;
  PerStream compute_shares = for_all_streams(1);  ///< see StreamSpeeds::compute
  std::optional<StepCollectives> collectives;
  std::unique_ptr<ShardedPoint> on_one_node;  ///< the same there, to compare with; null: unknown

  /// Numbers of all questions, those of one node too.
  std::vector<std::size_t> questions() const;
};

/// How the collectives of sharded steps are asked.
struct StepAsker {
  const Method& method;
  SweepContext context;
  /// Speed of computing beside a candidate's collectives.
  std::function<double(const Candidate&)> compute_share;
};

/// The step of one GPU: of its part of each matrix, and of the pipeline's stage that computes the
/// longest. `whole`: of the whole model on one GPU. Throws InputError for more stages than blocks.
ShardedStepInput sharded_step(const Prediction& point, const StepInput& whole,
                              const Workload& workload);

/// Asks for the point's step on one node of the same kind too: as many samples for each GPU, the
/// state shared by the node's GPUs, or by groups of the same size. Where that cannot be, the point
/// says why. `whole`: of the whole model on one GPU of such a node.
void ask_one_node(Prediction& point, ShardedPoint& sharded, const ClusterCase& cluster,
                  const StepInput& whole, const MemoryQuestion& memory, const StepAsker& asker);

/// Fills in the answer but for its cost; all questions are answered. `compute` is what compute may
/// be off by.
void answer_sharded(Prediction& point, const ShardedPoint& sharded, const Batch& batch,
                    const Spread& compute);

}  // namespace foreduce
