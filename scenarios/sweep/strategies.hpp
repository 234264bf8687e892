// How a scenario spreads a model over GPUs: the axes of sharding, hybrid groups, tensor, context,
// pipeline and expert parallelism.
#pragma once

#include <string>
#include <vector>

#include "models/memory.hpp"
#include "models/sharding.hpp"
#include "scenarios/sweep/cases.hpp"
#include "scenarios/sweep/scenario.hpp"

namespace foreduce {

/// One way to spread the model's state.
struct Strategy {
  Sharding sharding = Sharding::none;
  std::string hybrid;  ///< GPUs of a group, "node", or empty: all ("world" in a scenario)
  int tensor = 1, context = 1, stages = 1, parts = 1, expert = 1;

  bool operator==(const Strategy&) const = default;
};

/// Whether some of its GPUs sum what all of them keep.
bool all_reduces(const Strategy& strategy);

/// All that a workload asks for, each once: without sharding there are no groups.
std::vector<Strategy> strategies_of(const WorkloadSpec& workload);

/// The strategy on a cluster of so many equal nodes; only with products in FP8 are blocks gathered
/// in it. Throws InputError where its numbers do not divide, tensor parallelism would leave the
/// node, or no_sync contradicts the sharding.
ShardingPlan plan_of(const Strategy& strategy, const WorkloadSpec& workload, Precision precision,
                     int nodes, int gpus, Framework framework = Framework::pytorch);

/// The same on a cluster of the sweep, whose nodes may differ. Throws InputError, too, for groups
/// of GPUs among nodes with different numbers of them.
ShardingPlan plan_on(const Strategy& strategy, const WorkloadSpec& workload, Precision precision,
                     const ClusterCase& c, Framework framework);

/// Whether a GPU holds gradients twice, in tensors of their own and in DDP's buckets (torch
/// DistributedDataParallel without gradient_as_bucket_view, among several copies of the model).
bool copies_gradients(const AllReduceSpec& how, const ShardingPlan& plan);

/// "8 GPUs", or "4 copies of the model, each on 2 GPUs": what sees different samples.
std::string copies_words(const ShardingPlan& plan);

/// Whether each strategy divides so many GPUs as one before it does: groups of 8 are those of a
/// node of 8, or all GPUs of one. What has no plan there is no other's repetition.
std::vector<bool> repeated_strategies(const std::vector<Strategy>& strategies,
                                      const WorkloadSpec& workload, Precision precision, int nodes,
                                      int gpus);

/// What is known of it before the cluster is.
ShardingPlan unplaced(const Strategy& strategy);

/// The type of the gradients on the wire where the workload names none: fp32, for DDP under
/// autocast keeps parameters and gradients in it; where GPUs share state, that of the
/// arithmetic: DeepSpeed sums in it, and FSDP in its parameters' type (MixedPrecisionPolicy's
/// reduce_dtype). A group of one shares nothing. Megatron-LM keeps and reduces gradients in fp32
/// with --bf16 (megatron/training/arguments.py: accumulate_allreduce_grads_in_fp32).
Precision default_gradient(Precision precision, const ShardingPlan& plan, Framework framework);

/// What backward computes again: all that a workload asks for, each once.
std::vector<Recompute> recomputes_of(const WorkloadSpec& workload);
/// Which part of a stage's blocks is computed again (workload.recompute_blocks); 1: all. Throws
/// InputError where a stage has fewer than are asked for, or the model names no blocks.
double recomputed_part(const WorkloadSpec& asked, const Workload& workload, Recompute how,
                       int stages);

}  // namespace foreduce
