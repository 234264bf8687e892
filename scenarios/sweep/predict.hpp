// Training steps: every point of a scenario's axes, its all-reduces simulated and put together with
// compute.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "models/compute.hpp"
#include "models/memory.hpp"
#include "models/step.hpp"
#include "models/sharded_step.hpp"
#include "scenarios/sweep/methods.hpp"
#include "scenarios/sweep/sweep.hpp"

namespace foreduce {

struct Prediction;

/// A collective of a step that was recorded: what it puts on the links.
struct TracedCollective {
  Stream kind = Stream::all_reduce;
  std::size_t elements = 0;  ///< as in Activity
  Bytes bytes;               ///< of its buffer
  ScheduleName schedule;     ///< what it runs
  /// Of each class of links the busiest link's bytes. Where a pipeline was extrapolated, by the
  /// utilisation of the longest that was simulated.
  std::vector<LinkLoad> loads;
  std::shared_ptr<const Question> question;
  Seconds time;                ///< alone
  std::uint64_t messages = 0;  ///< simulated for it
};
/// Says in `point` which link limits a collective of it, as the batch answered that question.
void note_limits(Prediction& point, const Batch& batch, std::size_t question);
/// Adds a schedule to Prediction::chosen, unless it is there or one of ours was asked for by name.
void note_chosen(Prediction& point, const ScheduleName& schedule);
/// Gives the interval's reason where the compute time is an estimate.
void note_estimated_compute(Prediction& point);
/// As the batch answered that question.
TracedCollective traced(Stream kind, std::size_t elements, std::size_t element_bytes,
                        const Batch& batch, std::size_t question);

/// A point's answer.
struct Prediction {
  std::size_t number = 0;  ///< of the point in the whole sweep, from 0
  std::string model, sample, instance, inner, profile;
  Precision precision = Precision::fp16, gradient = Precision::fp16;
  MethodKind method = MethodKind::ours;
  std::string algorithm;  ///< the method's name
  bool best_without_nccl = false;
  int nodes = 0, gpus = 0, batch_per_gpu = 0, accumulation = 1, servers = 0;
  double oversubscription = 1;
  Placement placement = Placement::packed;
  double spread = 0;  ///< standard deviation of GPUs' compute times
  Bytes bucket;
  int segments = 0;   ///< 0: chosen by size
  std::string error;  ///< why there is no answer; then the rest is empty
  bool died = false;  ///< its simulation did not end well, so that there may be an answer; else
                      ///< there can be none
  Step step;
  Interval interval;  ///< of the step's total: by the all-reduces', and by how far compute was off
                      ///< elsewhere
  std::vector<ScheduleName>
      chosen;  ///< nccl and best: what each bucket is summed with, in order, repeated ones once
  double throughput = 0;      ///< samples per second of the whole cluster
  double efficiency_gpu = 0;  ///< against as many times one GPU without communication
  double efficiency_node =
      0;  ///< against as many times one node with the same algorithm; 0: unknown
  double speedup_vs_nccl = 0;      ///< of the step; 0: NCCL was not asked
  std::string no_efficiency_node;  ///< why that is unknown, where one node cannot do the same
  bool priced = false;
  DollarsPerHour price;     ///< of all instances, servers included
  double tokens_per_s = 0;  ///< 0 where a sample is no number of tokens
  double mfu = 0;           ///< model FLOPs utilisation: of the GPUs' peak; 0 where that is unknown
  double usd_per_million_samples = 0;
  std::string bottleneck;  ///< busiest link of the largest bucket's all-reduce, or "latency"
  LinkKind bottleneck_kind = LinkKind::network;
  double bottleneck_utilisation = 0;
  std::string compute_source, compute_doubtful;
  bool compute_measured = false;
  bool launch_bound = false;  ///< whether forward and backward take as long as the host launches
                              ///< their kernels
  ShardingPlan sharding;      ///< how the model's state is spread
  std::string hybrid;  ///< sharding groups that were asked for, where GPUs cannot be divided so
  MemoryBy memory;     ///< of the GPU that needs the most, at least
  Recompute recompute = Recompute::none;
  double recomputed_blocks = 1;         ///< which part of the blocks is
  std::int64_t asked_global_batch = 0;  ///< of which the nearest possible was taken; 0: as asked
  Sharding asked_sharding = Sharding::none;  ///< of which a group of one GPU leaves nothing
  double trainable = 1;                      ///< see Workload
  Framework framework = Framework::pytorch;
  Bytes gpu_memory;  ///< of the smallest GPU; 0: unknown
  SimulationMode mode = SimulationMode::full;
  double extrapolation_error =
      0;  ///< of the worst all-reduce that was extrapolated from its steady state; 0: none was
  std::uint64_t messages = 0, peak_rss_bytes = 0;
  double wall_seconds = 0;
  std::vector<TracedCollective> traced;  ///< of each kind and size, if the point is recorded
  std::string nodes_as;  ///< of a sharded step on unequal nodes, see StepCollectives::nodes_as()
  /// Of the fastest point, by the collective that `bottleneck` is of.
  std::shared_ptr<const ClusterLoads> loads;

  /// All that the point is, but for who runs its collectives.
  auto question() const {
    const ShardingPlan& s = sharding;
    return std::make_tuple(model, precision, gradient, instance, placement, profile, nodes,
                           batch_per_gpu, accumulation, oversubscription, spread, bucket.value,
                           s.sharding, s.shard_ranks, s.tensor, s.context, s.stages, s.parts,
                           s.expert, recompute, framework);
  }
  /// By which the fastest point is found.
  double rate() const { return throughput; }
  /// Whether the GPU's memory is enough, or may be: more by no more than the estimate is off.
  bool fits() const {
    return gpu_memory.value <= 0 || needed() <= gpu_memory * training_constants().memory_within;
  }
  /// Whether it may as well be too little.
  bool may_not_fit() const { return gpu_memory.value > 0 && fits() && needed() > gpu_memory; }
  /// Of the GPU's memory, with what CUDA and NCCL take for themselves.
  Bytes needed() const { return memory.peak() + training_constants().memory_outside; }
  /// Of parameters on the wire.
  Type parameter_type() const { return element_type(precision); }
};

/// Predicts every point of `scenario`. `asked`: for a plan or for itself. Throws InputError for a
/// scenario without a workload.
Sweep<Prediction> predict(const Scenario& scenario, const SweepOptions& options,
                          const OnPoint<Prediction>& on_point = nullptr,
                          Asked asked = Asked::training);

}  // namespace foreduce
