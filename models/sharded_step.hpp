// One training step of a model whose state is spread over GPUs, as PyTorch's FSDP2 and DeepSpeed's
// ZeRO order it on streams.
#pragma once

#include "models/sharding.hpp"
#include "models/step.hpp"
#include "models/timeline.hpp"

namespace foreduce {

/// A kind of collective runs in groups of so many ranks, each `stride` ranks from the one before
/// it.
struct RankGroup {
  int ranks = 1, stride = 1;
  /// Whether it has ranks of several nodes of `per_node` GPUs.
  bool leaves_node(int per_node) const { return ranks * stride > per_node; }
};
/// Tensor-parallel ranks are next to each other, then come those that share sequences
/// (Megatron-LM's order tp-cp-dp-pp), those of a sharding group, which these are the first of, the
/// groups among which gradients are all-reduced, and the stages of a pipeline.
RankGroup group_of(Stream kind, const ShardingPlan& plan);

/// In whose order collectives of a kind run: all-gathers' where reduce-scatters share their
/// communicator, else its own. Experts' are in the order of the others, for FSDP2 has one stream
/// for all of its all-gathers, and one for its reduce-scatters (FSDPCommContext).
Stream queue_of(Stream kind, const ShardingPlan& plan);

/// Whether collectives of a kind carry activations or their gradients.
bool carries_activations(Stream kind);

/// Whether computing waits for collectives of a kind, so that nothing is computed beside them: for
/// those of activations, but for keys and values that go around a ring.
bool computing_waits(Stream kind, const ShardingPlan& plan);

/// Whether collectives of a kind sum parameters' gradients.
bool carries_gradients(Stream kind);

/// What each GPU sends of a buffer of so many bytes, at least: 2(n-1)/n of it in an all-reduce,
/// (n-1)/n in an all-gather, a reduce-scatter and an all-to-all, all to the next stage.
Bytes sent_bytes(Stream kind, Bytes buffer, int ranks);

struct ShardedStepInput {
  Seconds forward, backward, optimizer;  ///< undisturbed, of one micro-batch and of this GPU's part
                                         ///< of the model; optimizer of its shard, once a step
  int accumulation = 1;                  ///< micro-batches
  /// Of this GPU's stage, in order of registration, as much as it has of their matrices. `elements`
  /// are without `experts`, of which it has its own, where experts are divided among GPUs.
  std::vector<ModelUnit> units;
  ShardingPlan plan;
  double other_stages = 0;  ///< what a micro-batch takes on all other stages together, over what it
                            ///< takes on this one, which is the longest
  double slowest = 1;     ///< forward and backward on the slowest GPU, over those of the usual one
  Seconds overhead = {};  ///< once a step, when nothing computes or travels
  Seconds input = {};     ///< as in StepInput
  Seconds least_compute = {};       ///< as in StepInput
  std::size_t block_output = 0;     ///< elements that a block hands to the next, of a micro-batch
                                    ///< and of the GPU's part of its sequences
  std::size_t exchanged = 0;        ///< elements that it sends to a block's experts, likewise
  std::size_t experts_output = 0;   ///< elements of a tensor-parallel all-reduce behind experts
  std::size_t keys_and_values = 0;  ///< elements of a block's attention that GPUs which share
                                    ///< sequences gather
  double attention = 0;  ///< attention's part of a block's arithmetic, beside which keys and values
                         ///< go around a ring
  int passes_in_backward = 1;  ///< how often a block's activations travel in backward: twice where
                               ///< forward is computed again
  GradientSums sums = GradientSums::beside_backward;  ///< of zero1, and of replicas
  bool launch_bound = false;    ///< whether forward and backward are as long as launches take
  Spread launches_within = {};  ///< what launches add to the uncertainty of compute
  Recording recording = Recording::off;
};

/// What the step's collectives cost.
struct CollectiveCosts {
  /// Of a collective alone. `elements`: of the whole buffer, as in CollectiveUse.
  std::function<Seconds(Stream kind, std::size_t elements)> alone;
  StreamSpeeds speeds;
};

/// Plays the step. For zero3, in every micro-batch:
/// - The root is gathered first, and stays until its backward ends. A unit is gathered before its
///   forward, as soon as computing has begun with the unit `prefetch` before it; again before its
///   backward, but for the last, if parameters are resharded after forward.
/// - After a unit's backward its gradients are reduce-scattered, and all-reduced between groups.
///   The unit after the next waits for that, as FSDP2 holds one such buffer at a time; the next
///   micro-batch and the optimizer wait for all. Where both use one communicator (Communicators),
///   a reduce-scatter waits for the all-gather posted before it, and the next all-gather for it.
/// Source: torch/distributed/fsdp/_fully_shard, _fsdp_param_group.py; that the last unit stays:
/// torchtitan, parallelize_llama.py. zero1 and zero2 reduce-scatter after a unit's backward too,
/// or after all of backward where that is asked for (Megatron's distributed optimizer without
/// --overlap-grad-reduce), and gather all units after the optimizer, which nothing hides
/// (DeepSpeed, stage_1_and_2.py). Without sharding a unit's gradients are all-reduced. The root's
/// arithmetic is at the end of forward, where the output layer is, and its gradients come last,
/// with the embedding's. A block has two tensor-parallel all-reduces in forward, and computing
/// waits for them (Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3). Where GPUs share a
/// block's experts, an all-to-all brings tokens to them and another one brings them back, and
/// computing waits for both (GShard, arXiv 2006.16668, section 3; Megatron-LM's alltoall
/// dispatcher). Where GPUs share sequences, each block's keys and values are gathered before its
/// attention, forward and again backward, and their gradients are reduce-scattered; computing waits
/// for all three, unless they go around a ring beside attention, which the rest of the block waits
/// for (Llama 3, arXiv 2407.21783, section 3.3.2; that keys and values are gathered
/// again: Megatron-LM, docs/source/api-guide/context_parallel.rst). An expert's parameters and
/// gradients travel among the GPUs that have the same one, behind those of the rest of its unit. A
/// pipeline's stage receives from its neighbours before each forward and each backward, and is idle
/// for as long as a micro-batch takes on all other stages (1F1B: Narayanan et al., SC21,
/// section 2.2), or on a part of each where stages are cut into parts.
Step play_sharded_step(const ShardedStepInput& input, const CollectiveCosts& costs);

/// The tasks that it plays, of which collectives take no time yet.
std::vector<Task> tasks_of(const ShardedStepInput& input);

/// Elements of each kind of collective that the step has, with how many of them: all questions that
/// play_sharded_step asks.
std::vector<CollectiveUse> collectives_of(const ShardedStepInput& input);

}  // namespace foreduce
