// One training step as a timeline: backward produces gradients, buckets fill, are all-reduced one
// after another on one stream while backward goes on (slower), and the optimizer waits for the
// last.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "input/words.hpp"
#include "models/timeline.hpp"
#include "models/workload.hpp"

namespace foreduce {

/// Gradients that travel together.
struct Bucket {
  std::size_t elements = 0;
  double ready = 0;  ///< how much of the backward pass must be done, 0 … 1
  Seconds not_before{
      0};  ///< and no earlier than this after the start of backward (Horovod's cycle)
};

/// PyTorch DDP after its first iteration: gradients in reverse registration order; a bucket closes
/// when it has reached its limit (so it overshoots: no tensor is split); the first limit is
/// `first`, the others `cap`. Source: reducer.cpp.
std::vector<Bucket> ddp_buckets(const std::vector<Tensor>& tensors, std::size_t element_size,
                                Bytes first, Bytes cap);

/// Horovod: whatever has become ready by a tick of the cycle is fused, up to the threshold a
/// buffer; a larger tensor goes alone. `backward` is the undisturbed length of the backward pass.
std::vector<Bucket> horovod_buckets(const std::vector<Tensor>& tensors, std::size_t element_size,
                                    Bytes threshold, Seconds cycle, Seconds backward);

/// SMDDP's balanced fusion buffers: equal shares by bytes, none larger than `cap`, tensors may be
/// cut. Source: SageMaker developer guide, data-parallel-intro.
std::vector<Bucket> balanced_buckets(const std::vector<Tensor>& tensors, std::size_t element_size,
                                     Bytes cap);

/// Whether a step's activities are kept, for who wants to look at one.
enum class Recording : std::uint8_t { off, on };

/// When gradients are summed. zero2 and zero3 need their memory at once.
enum class GradientSums : std::uint8_t {
  beside_backward,  ///< as soon as each unit has them
  after_backward    ///< when all are there
};
template <>
struct EnumWords<GradientSums> {  // what a scenario says that they overlap with
  static constexpr EnumWord<GradientSums> all[] = {{GradientSums::beside_backward, "backward"},
                                                   {GradientSums::after_backward, "none"}};
};

/// All that play_step() needs besides the times of all-reduces.
struct StepInput {
  Seconds forward, backward, optimizer;  ///< undisturbed, of one micro-batch; optimizer once a step
  int accumulation = 1;                  ///< micro-batches
  /// Whether every micro-batch's gradients travel, and its all-reduces end before the next one
  /// begins: DDP without no_sync. Else the last one's alone do.
  bool every_micro_batch = false;
  std::vector<Bucket> buckets;  ///< in launch order
  Seconds launches = {};     ///< what forward and backward take at least, however many GPUs divide
                             ///< each tensor: the host launches as many kernels
  double undivided = 0;      ///< part of a micro-batch's time that tensor parallelism leaves whole
                             ///< where sequences are not divided
  double compute_share = 1;  ///< speed of backward while an all-reduce is under way
  double slowest = 1;     ///< forward and backward on the slowest GPU, over those of the usual one
  Seconds overhead = {};  ///< once a step, when nothing computes or travels
  Seconds input = {};     ///< in which a step's samples come, while the step before runs
  Seconds least_compute = {};  ///< of all arithmetic of a micro-batch at the GPU's peak, what is
                               ///< computed again included; 0: unknown
  GradientSums sums = GradientSums::beside_backward;  ///< of zero1, and of replicas
  Recording recording = Recording::off;
};

/// What the slowest of `gpus` takes when the usual one takes 1 and their times vary normally with
/// that standard deviation: the expected maximum, by Blom's approximation (Statistical Estimates
/// and Transformed Beta-Variables, 1958).
double slowest_of(int gpus, double spread);

/// When a bucket's all-reduce ran, from the start of the step.
struct BucketSpan {
  Seconds start, end;
};
/// All collectives of one kind and size in a step.
struct CollectiveUse {
  Stream kind = Stream::all_reduce;
  std::size_t elements = 0;  ///< of the whole buffer: what is all-gathered is there after it, what
                             ///< is reduce-scattered before (as nccl-tests has it)
  int count = 0;
  Seconds time = {};     ///< of all of them, each alone
  Seconds exposed = {};  ///< what of a step they cost, by Timeline::delayed
};
/// What an Activity does.
enum class Work : std::uint8_t { forward, backward, optimizer, collective };
/// A piece of work on one stream of the slowest GPU.
struct Activity {
  Stream stream = Stream::compute;
  Work work = Work::forward;
  int micro_batch = 0;
  std::size_t index = 0;     ///< of the bucket or unit
  std::string unit = {};     ///< its name, of a sharded model
  std::size_t elements = 0;  ///< of a collective, as in CollectiveUse
  Seconds alone = {};        ///< what it takes while nothing else runs
  Seconds start = {}, end = {};
};
/// A training step that was played: its length and what the time is spent on.
struct Step {
  /// When the pipeline bubble begins, after all activities; the overhead is last.
  Seconds bubble_start() const { return total - overhead - bubble; }
  Seconds total;
  Seconds compute;  ///< forward, backward and optimizer, undisturbed, on the usual GPU
  Seconds backward_end;
  Seconds waiting;                ///< what forward and backward take longer on the slowest GPU
  Seconds overhead = {};          ///< when nothing computes or travels
  Seconds input_wait = {};        ///< the part of it that waits for samples
  Seconds exposed_communication;  ///< total - compute - waiting - bubble - overhead: waiting for
                                  ///< gradients, and computing more slowly
  Seconds communication;          ///< sum of all all-reduces
  Seconds bubble = {};            ///< of a pipeline: idle while other stages fill and drain it
  std::vector<BucketSpan> buckets;
  std::vector<CollectiveUse> collectives;  ///< by kind and size; their `exposed` adds up
  std::vector<Activity> activities;        ///< if recorded; on one stream they do not overlap
};

/// Lengthens a step whose samples take longer to come: loaders work ahead, so it waits for no more
/// than the rest.
void wait_for_input(Step& step, Seconds input);

/// How long an all-reduce of that many elements takes alone.
using AllReduceTime = std::function<Seconds(std::size_t elements)>;

/// Plays the step.
Step play_step(const StepInput& input, const AllReduceTime& all_reduce);

/// The same as tasks, of which collectives take no time yet: each bucket's all-reduce comes after
/// the part of backward that fills it. `compute_share` and `slowest` do not count.
std::vector<Task> tasks_of(const StepInput& input);

/// The 90 % prediction interval of a step's length.
struct StepSpan {
  Seconds low, high;
};
/// The span from a step's length as it is expected, with the fastest and slowest communication, and
/// with the fastest and slowest compute. `least`: of all its compute at the GPU's peak.
StepSpan span_of_totals(Seconds usual, const StepSpan& by_communication, const StepSpan& by_compute,
                        Seconds least);
/// The factor on compute times at the fast end of their interval: 1 / `faster`, but never below the
/// time at the GPU's peak (`least`).
double fastest_compute(double faster, Seconds compute, Seconds least);
/// All-reduces take between `low` and `high`, and forward and backward are `compute` off. One has
/// nothing to do with the other, so the logarithms of what each does to the step add as squares.
/// Nothing computes faster than the GPU's peak.
StepSpan span_of_step(const StepInput& input, const AllReduceTime& all_reduce,
                      const AllReduceTime& low, const AllReduceTime& high, const Spread& compute);

}  // namespace foreduce
