#include "models/micro_batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/memory.hpp"

namespace foreduce {

Seconds micro_batch_overhead(const Workload& workload, FlopPerSecond rate) {
  const TrainingConstants& c = training_constants();
  // A network of few layers launches few kernels, and each may fill the GPU. Where blocks stand for
  // layers, tensors say nothing of these.
  const double layers = workload.blocks > 0 ? c.micro_batch_tensors
                                            : static_cast<double>(workload.tensors.size()),
               part = std::min(1.0, layers / c.micro_batch_tensors);
  const Seconds launches = workload.cuda_graphs ? Seconds{0} : part * c.micro_batch_overhead;
  return rate.value > 0 ? std::max(launches, part * (c.half_saturated / rate)) : launches;
}

namespace {

/// Lengthens a time to `launches`. How much less a program may wait for them, and how many times as
/// long: `within`.
void wait_for(ComputeTime& time, Seconds launches, const Spread& within) {
  time.without_launches = {time.forward_backward, time.within, time.source};
  time.launches = launches;
  const bool rule = launches > time.forward_backward;
  // Launches that take longer than expected may also rule where the expected ones do not. What was
  // measured at another batch contains its own.
  if (rule || !time.measured)
    time.within.slower = std::max(
        time.within.slower, within.slower * launches / std::max(launches, time.forward_backward));
  if (!rule) return;
  time.within.faster *= std::min(within.faster, launches / time.forward_backward);
  time.forward_backward = launches;
  const std::string said = fmt::format(", at least {} for launches", to_text(launches));
  if (time.source.find(said) == std::string::npos) time.source += said;
}

/// What the host launches of all parameters' forward and backward.
Seconds launches_of(const Workload& workload) {
  const TrainingConstants& c = training_constants();
  return c.launches_of_tensor *
         std::min(c.most_launched_tensors, static_cast<double>(workload.tensors.size()));
}

bool waits(const Workload& workload) { return !workload.cuda_graphs && workload.blocks == 0; }

}  // namespace

void wait_for_launches(ComputeTime& time, const Workload& workload, Seconds most) {
  if (waits(workload))
    wait_for(time, std::min(most, launches_of(workload)),
             {HUGE_VAL, training_constants().launches_slower});
}

void wait_for_adapters(ComputeTime& time, const Workload& workload) {
  const TrainingConstants& c = training_constants();
  if (waits(workload))
    wait_for(time, c.adapter_launches * launches_of(workload), c.adapter_launches_within);
}

void add_scores(ComputeTime& time, const MicroBatch& b) {
  if (b.workload.attention_scores <= 0 || b.gpu.memory_bandwidth.value <= 0) return;
  const TrainingConstants& c = training_constants();
  const double positions = positions_of(b.workload, b.sample);
  const double each =
      b.workload.framework == Framework::megatron ? c.megatron.score_bytes : c.score_bytes;
  const Bytes moved{b.workload.attention_scores * positions * positions * b.batch * each *
                    (kept_type(b.precision) == Precision::fp32 ? 2 : 1)};
  time.scores = moved / (b.gpu.memory_bandwidth * c.memory_share);
  time.forward_backward = time.forward_backward + time.scores;
  time.source += fmt::format("; {} more for attention's scores", to_text(time.scores));
}

double least_memory_part(const MicroBatch& b, const Gpu& on, double share) {
  if (!is_language_model(b.workload) || on.memory_bandwidth.value <= 0) return 0;
  const Seconds moving = training_constants().megatron.moved *
                         layer_outputs(b.workload, b.sample, b.batch).all / on.memory_bandwidth,
                all = compute_at_peak({b.workload, on, b.precision, b.sample, b.batch}) / share;
  return all.value > 0 ? moving / all : 0;
}

Seconds constant_of(const Workload& workload, const std::string& sample, Seconds measured,
                    int batch) {
  const FlopPerSecond rate{work_of(workload, sample, batch).value / measured.value};
  return std::min(0.5 * measured, micro_batch_overhead(workload, rate));
}

Seconds at_batch(const Workload& workload, const std::string& sample, Seconds measured,
                 int measured_batch, int batch) {
  const Seconds constant = constant_of(workload, sample, measured, measured_batch);
  return constant + (measured - constant) * (static_cast<double>(batch) / measured_batch);
}

}  // namespace foreduce
