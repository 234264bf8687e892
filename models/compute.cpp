#include "models/compute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "models/gpu_arithmetic.hpp"
#include "models/gpu_rates.hpp"
#include "models/micro_batch.hpp"
#include "models/program_time.hpp"
#include "models/tensors.hpp"

namespace foreduce {

double compute_share(const Gpu& gpu, double channels) {
  if (channels <= 0 || gpu.sms <= 0) return training_constants().compute_share;
  return std::max(0.01, 1 - channels / gpu.sms);
}

double compute_share(const Cluster& cluster, const Layout& layout, const Profile& profile,
                     SummedBy by, int forced_channels) {
  const auto& known = profile.channels_over(
      layout.nodes, profile.channels_over(layout.nodes, by) ? by : SummedBy::gpus);
  // Without a profile: between nodes one ring a rail, which NCCL's search doubles (connect.cc).
  const double channels =
      forced_channels > 0
          ? forced_channels
          : value_or(known,
                     layout.nodes > 1 ? 2.0 * static_cast<double>(layout.channels.size()) : 0.0);
  double least = 1;
  for (int n = 0; n < layout.nodes; ++n)
    if (const auto& gpu = cluster.node(n).machine().gpu)
      least = std::min(least, compute_share(*gpu, channels));
  return least;
}

Seconds without_optimizer(const Workload& workload, const Gpu& gpu, Seconds per_batch,
                          double part) {
  return std::max(per_batch - part * optimizer_of(workload, gpu),
                  0.5 * per_batch);  // theirs may be faster than what we take it for
}

Flop work_of(const Workload& workload, const std::string& sample, int batch) {
  const Variant* variant = workload.variant(sample);
  return Flop{variant ? variant->train_gflop * 1e9 * batch : 0};
}

Seconds compute_at_peak(const MicroBatch& b) {
  const FlopPerSecond peak = peak_of(b.gpu, b.precision);
  return peak.value > 0 ? work_of(b.workload, b.sample, b.batch) / peak *
                              arithmetic_share(b.workload, b.sample)
                        : Seconds{0};
}

ComputeTime compute_time(const MicroBatch& b, const AskersRate& rate) {
  check_arithmetic(b.gpu, b.precision);
  ComputeTime time;
  time.optimizer = optimizer_of(b.workload, b.gpu);
  const Seconds measured{b.batch / rate.samples_per_s};
  time.forward_backward = without_optimizer(b.workload, b.gpu, measured, rate.optimizer_part);
  time.measured = true;
  time.within = {training_constants().same_within, training_constants().same_within};
  time.source = fmt::format("as the scenario says, {:.4g} samples a second of one GPU at batch {}",
                            rate.samples_per_s, b.batch);
  time.least = compute_at_peak(b) * rate.arithmetic;
  check_rate(time, b, rate.samples_per_s,
             rate.arithmetic > 1 ? "a rate with recompute is measured with it"
                                 : "a rate is of one GPU alone, not of the cluster",
             rate.arithmetic);
  if (time.forward_backward < time.least) {  // so their optimizer is faster than ours
    time.forward_backward = time.least;
    time.optimizer = (measured - time.least) / rate.optimizer_part;
  }
  return time;
}

namespace {

/// What an estimate is based on, the least reliable first.
enum class EstimateBasis : std::uint8_t { assumed, transferred, measured };

struct ComputeTimeEstimate {
  ComputeTime time;
  EstimateBasis basis = EstimateBasis::assumed;
};

/// The compute time without a look at other precisions.
ComputeTimeEstimate estimate_for_precision(const MicroBatch& b, std::string_view framework) {
  const Workload& workload = b.workload;
  check_arithmetic(b.gpu, b.precision);
  ComputeTime time;
  time.optimizer = optimizer_of(workload, b.gpu);
  time.least = compute_at_peak(b);
  if (from_measured(time, b, framework)) return {time, EstimateBasis::measured};
  const Precision rate = measured_as(b.precision);
  const FlopPerSecond peak = peak_of(b.gpu, b.precision);
  if (peak.value <= 0)
    throw input_error(fmt::format("{}: neither measured on {} nor is the GPU's {} peak known",
                                  workload.name, b.gpu.model, to_text(rate)));
  if (from_same_arithmetic(time, b, framework)) return {time, EstimateBasis::transferred};
  const auto transferred = share_from_other_gpus(b);
  const PeakShare share = transferred.value_or(assumed_share(b));
  time.recomputing = share.recomputing;
  time.within = share.within;
  const Seconds proportional = time.least / share.value,
                constant = micro_batch_overhead(workload, peak * share.value);
  time.forward_backward =
      share.proportional ? proportional + constant : std::max(proportional, constant);
  time.source = fmt::format(
      "estimate, {:.0f} % of {}{}: {}", share.value * 100, to_text(peak),
      rate == Precision::fp32 && b.gpu.bf16
          ? " without tensor cores (tf32 uses them, as PyTorch's convolutions do by default)"
          : "",
      share.because);
  if (!transferred && workload.estimate.fused_attention) add_scores(time, b);
  // Attention's scores are what a sample takes beyond its tensors' products: of a million tokens
  // some tens of times as much.
  constexpr double kHardlyAny = 0.01;
  if (const double linear = linear_share(workload, b.sample);
      linear < kHardlyAny && !workload.transformer)
    time.source = with_remark(
        time.source, fmt::format(" (doubtful, for a sample's train_gflop is {:.3g} times what its "
                                 "tensors' products take)",
                                 1 / linear));
  wait_for_launches(time, workload, Seconds{HUGE_VAL});
  const double reached = time.least / time.forward_backward;
  if (constexpr double kNoticeable = 0.9; reached < kNoticeable * share.value)
    time.source = with_remark(
        time.source,
        fmt::format(" ({:.{}f} % with launches and what else each micro-batch waits for)",
                    reached * 100, reached < 0.095 ? 1 : 0));
  return {time, transferred ? EstimateBasis::transferred : EstimateBasis::assumed};
}

/// With the products of layers in FP8 and all else as in bf16 (Transformer Engine, torchao).
ComputeTime in_fp8(ComputeTime time, const MicroBatch& b) {
  const Workload& workload = b.workload;
  const TrainingConstants& c = training_constants();
  const double linear = linear_share(workload, b.sample);
  const auto width = static_cast<double>(usual_width(workload.tensors));
  // Casts and scales go with the width, products with its square.
  const double halved = c.fp8_share * linear * width / (width + c.fp8_half_width);
  const Seconds in_bf16 = time.forward_backward;
  const double best = 1 - linear * width / (width + c.half_width) / 2;
  time.least = compute_at_peak(b);
  time.forward_backward =
      std::max(time.least, (1 - halved / 2) * (time.forward_backward - time.scores) + time.scores);
  time.measured = false;  // in bf16 it may have been
  time.within = {together(time.within.faster, std::max(c.fp8_within, (1 - halved / 2) / best)),
                 together(time.within.slower, c.fp8_within)};
  time.source = with_remark(
      time.source,
      fmt::format(" in bf16, of whose time FP8 halves {:.0f} % in PyTorch; NVIDIA's own programs, "
                  "framework megatron, gain more",
                  100 * halved));
  wait_for_launches(time, workload, in_bf16);  // FP8 launches no fewer kernels
  return time;
}

/// Precisions from the fastest to the slowest. bf16 counts as fp16 here.
constexpr std::array kPrecisions = {Precision::fp16, Precision::tf32, Precision::fp32};
using ByPrecision = std::array<std::optional<ComputeTimeEstimate>, kPrecisions.size()>;

/// Wider numbers take more of the memory's bandwidth. Where the time with 16 bits is known, the
/// part of it that goes with memory (transferred_share()) grows, beside which there is the wider
/// type's own arithmetic: a GPU with fast fp32 units and slow memory is no faster than that.
void bound_by_memory(ComputeTimeEstimate& wide, const ComputeTime& with_16) {
  const TrainingConstants& c = training_constants();
  const Seconds whole = with_16.without_launches ? with_16.without_launches->forward_backward
                                                 : with_16.forward_backward,
                all = whole - with_16.scores;
  if (wide.basis == EstimateBasis::measured || all.value <= 0) return;
  const double arithmetic = (1 - c.fixed_share) * std::min(1.0, with_16.least / all / c.best_share);
  const Seconds least = all * (c.fixed_share + c.fp32_traffic * (1 - c.fixed_share - arithmetic)) +
                        wide.time.least / c.best_share + wide.time.scores;
  if (wide.time.forward_backward >= least) return;
  wide.time.forward_backward = least;
  wide.time.within = {
      together(std::max(wide.time.within.faster, with_16.within.faster), c.fp32_traffic_within),
      together(std::max(wide.time.within.slower, with_16.within.slower), c.fp32_traffic_within)};
  wide.time.source = with_remark(
      wide.time.source,
      fmt::format(", at least {} for arithmetic and memory traffic of 32 bits", to_text(least)));
}

/// Uses another precision's time.
void adopt_time(ComputeTimeEstimate& mine, const ComputeTimeEstimate& other, const char* how,
                Precision named) {
  mine.time.forward_backward = std::max(mine.time.least, other.time.forward_backward);
  mine.time.within = other.time.within;
  mine.time.scores = other.time.scores;
  mine.time.source =
      fmt::format("taken for as {} as {}: {}", how, to_text(named), other.time.source);
}

/// Makes times monotonic in the precision. Estimates of two precisions are independent, so a
/// narrower type can come out slower than a wider one. Then the estimate with the better basis is
/// used for both: first wider types become slower, then narrower types faster.
void make_monotonic(ByPrecision& times) {
  const auto slower = [](const ComputeTimeEstimate& a, const ComputeTimeEstimate& b) {
    return a.time.forward_backward > b.time.forward_backward;
  };
  for (std::size_t wide = 1; wide < times.size(); ++wide)
    for (std::size_t narrow = 0; narrow < wide; ++narrow)
      if (times[wide] && times[narrow] && times[narrow]->basis > times[wide]->basis &&
          slower(*times[narrow], *times[wide]))
        adopt_time(*times[wide], *times[narrow], "slow", kPrecisions[narrow]);
  for (std::size_t narrow = times.size() - 1; narrow-- > 0;)
    for (std::size_t wide = narrow + 1; wide < times.size(); ++wide)
      if (times[wide] && times[narrow] && times[wide]->basis >= times[narrow]->basis &&
          slower(*times[narrow], *times[wide]))
        adopt_time(*times[narrow], *times[wide], "fast", kPrecisions[wide]);
}

}  // namespace

ComputeTime compute_time(const MicroBatch& b, std::string_view framework) {
  const Workload& workload = b.workload;
  if (workload.trainable < 1) {  // published rates are of training all parameters
    Workload whole = workload;
    whole.trainable = 1;
    ComputeTime time = compute_time({whole, b.gpu, b.precision, b.sample, b.batch}, framework);
    if (auto alone = std::exchange(time.without_launches, {})) {
      time.forward_backward = alone->forward_backward;
      time.within = alone->within;
      time.source = std::move(alone->source);
    }
    const double share = time_share(workload, b.sample);
    time.forward_backward = (time.forward_backward - time.scores) * share + time.scores;
    time.least = time.least * arithmetic_share(workload, b.sample);
    time.optimizer = optimizer_of(workload, b.gpu);
    time.measured = false;  // of training all parameters it may have been
    // Of the share: one publication is 2 % from it; adapters on one H100 took 10 and 19 % longer,
    // for kernels of their own (models/reference/steps.csv). PyTorch's programs with LoRA took 1.7
    // times as long in the median of 9 published runs, NVIDIA's 1.1 times, and Hugging Face's by
    // its own framework 1.1 (docs/accuracy-notes.md).
    constexpr double kFaster = 1.05, kTuned = 1.2, kUntuned = 1.7;
    const double slower = has_pytorch_kernels(workload.framework) ? kUntuned : kTuned;
    time.within = {time.within.faster * kFaster, time.within.slower * slower};
    time.source += fmt::format("; with {:.3g} % of the parameters trained, {:.0f} % of that time",
                               100 * workload.trainable, 100 * share);
    if (workload.framework == Framework::megatron ||
        workload.trainable > training_constants().adapters_below)
      wait_for_launches(time, workload, Seconds{HUGE_VAL});
    else wait_for_adapters(time, workload);
    return time;
  }
  if (!has_pytorch_kernels(workload.framework)) return program_time(b);
  const auto in = [&b](Precision precision) {
    return MicroBatch{b.workload, b.gpu, precision, b.sample, b.batch};
  };
  if (b.precision == Precision::fp8) {
    check_arithmetic(b.gpu, b.precision);
    return in_fp8(compute_time(in(Precision::bf16), framework), b);
  }
  ByPrecision times;
  std::size_t asked = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const bool is_asked = kPrecisions[i] == measured_as(b.precision);
    if (is_asked) asked = i;
    try {
      times[i] = estimate_for_precision(is_asked ? b : in(kPrecisions[i]), framework);
    } catch (const InputError&) {  // the GPU cannot, or nothing is known of it
      if (is_asked) throw;
    }
  }
  for (std::size_t wide = 1; wide < times.size(); ++wide)
    if (times[wide] && times[0]) bound_by_memory(*times[wide], times[0]->time);
  make_monotonic(times);
  return times[asked]->time;
}

}  // namespace foreduce
