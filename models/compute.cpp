#include "models/compute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "models/gpu_arithmetic.hpp"
#include "models/gpu_names.hpp"
#include "models/micro_batch.hpp"
#include "models/program_time.hpp"
#include "models/statistics.hpp"
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

namespace {

/// By whose published rates a precision is judged: bf16 computes as fp16 does.
Precision measured_as(Precision precision) {
  return precision == Precision::bf16 ? Precision::fp16 : precision;
}

}  // namespace

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

namespace {

/// Says that a rate is above the GPU's peak, or that it is doubtful, where it is.
void check_rate(ComputeTime& time, const MicroBatch& b, double samples_per_s, const char* hint,
                double arithmetic = 1) {
  const MicroBatch one{b.workload, b.gpu, b.precision, b.sample, 1};
  const double share = arithmetic * compute_at_peak(one).value * samples_per_s;
  constexpr double kHardlyAny = 0.8;  // the fastest large matrix products alone
  const std::string words = fmt::format(
      "{:.6g} samples a second{} are {}, {:.0f} % of {}'s {} peak", samples_per_s,
      arithmetic > 1
          ? fmt::format(", of which {:.0f} % are computed again,", 100 * arithmetic - 100)
          : "",
      to_text(peak_of(b.gpu, b.precision) * share), 100 * share, b.gpu.model, to_text(b.precision));
  if (share > 1) throw input_error(words, hint);
  if (share <= kHardlyAny) return;
  time.doubtful = words;
  time.source += fmt::format(" (doubtful, for {})", words);
}

}  // namespace

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

/// The nearest measured batches: at most `batch`, and at least.
struct NearestBatches {
  const Measured *below = nullptr, *above = nullptr;
};
NearestBatches nearest_batches(const MicroBatch& b) {
  NearestBatches near;
  if (b.gpu.altered) return near;
  for (const Measured& m : b.workload.measured) {
    if (!is_model(b.gpu.model, m.gpu) || m.precision != measured_as(b.precision) ||
        m.sample != b.sample)
      continue;
    if (m.batch <= b.batch && (!near.below || m.batch > near.below->batch)) near.below = &m;
    if (m.batch >= b.batch && (!near.above || m.batch < near.above->batch)) near.above = &m;
  }
  return near;
}

/// From what was measured on such a GPU; false if nothing was.
bool from_measured(ComputeTime& time, const MicroBatch& b, std::string_view framework) {
  const Workload& workload = b.workload;
  const int batch = b.batch;
  const NearestBatches near = nearest_batches(b);
  const Measured* one = near.below ? near.below : near.above;
  if (!one) return false;
  const auto time_of = [&](const Measured& m) {
    return without_optimizer(workload, b.gpu, Seconds{m.batch / m.samples_per_s},
                             1.0 / m.accumulation);
  };
  time.measured = true;
  time.within =
      one->framework == framework ? training_constants().measured : training_constants().elsewhere;
  time.source = fmt::format("measured on {} at batch {}", one->gpu, one->batch);
  if (one->batch == batch) {
    time.forward_backward = time_of(*one);
  } else if (near.below && near.above) {
    const Seconds low = time_of(*near.below), high = time_of(*near.above);
    const double part =
        static_cast<double>(batch - near.below->batch) / (near.above->batch - near.below->batch);
    time.forward_backward = std::max(low, low + (high - low) * part);
    time.source += fmt::format(" and {}, between them at {}", near.above->batch, batch);
  } else {
    time.forward_backward = at_batch(workload, one->sample, time_of(*one), one->batch, batch);
    time.source += fmt::format(", scaled to {}{}", batch,
                               workload.cuda_graphs ? " without waiting for launches" : "");
    wait_for_launches(time, workload, time_of(*one));
  }
  time.source += ": " + one->source;
  check_rate(time, b, one->samples_per_s, one->source.c_str());
  time.forward_backward = std::max(time.forward_backward, time.least);
  return true;
}

/// The share of its peak that a GPU is expected to reach, and why that one.
struct PeakShare {
  double value = 0;
  std::string because;
  Spread within;
  double recomputing = 1;  // see ComputeTime
  /// Whether it is of what is proportional to the samples, beside a constant: see at_batch().
  bool proportional = false;
};

/// The share that the micro-batch's GPU reaches where `from` reaches `share`: arithmetic takes the
/// time that it would at the best share, a small part is fixed, and the rest goes with the memory's
/// bandwidth, of which there is some at any share. At most the best share.
double transferred_share(const Gpu& from, const MicroBatch& b, double share) {
  const TrainingConstants& c = training_constants();
  const Gpu& to = b.gpu;
  const double peaks = peak_of(to, b.precision) / peak_of(from, b.precision);
  const double bandwidths = from.memory_bandwidth.value > 0 && to.memory_bandwidth.value > 0
                                ? to.memory_bandwidth / from.memory_bandwidth
                                : peaks;
  const double none = (1 - c.fixed_share) * (1 - std::min(1.0, share / c.best_share)),
               memory =
                   std::min(1 - c.fixed_share, std::max(none, least_memory_part(b, from, share))),
               arithmetic = 1 - c.fixed_share - memory;
  const double time = c.fixed_share + arithmetic / peaks + memory / bandwidths;
  return std::min(share / (time * peaks), c.best_share);
}

/// The factor that 90 % are within where two independent ones are.
double together(double factor, double other) {
  return std::exp(std::hypot(std::log(factor), std::log(other)));
}

/// A GPU with the arithmetic of `b`'s that was measured with its sample, nearest in bandwidth: an
/// H200 computes as an H100 does, and its memory is faster. Null where there is none.
const Gpu* measured_with_same_peak(const MicroBatch& b) {
  constexpr double kSame = 0.01;  // of a logarithm
  const Gpu* nearest = nullptr;
  const auto away = [&](BytesPerSecond other) {
    return std::abs(std::log(other / b.gpu.memory_bandwidth));
  };
  if (b.gpu.altered || b.gpu.memory_bandwidth.value <= 0) return nullptr;
  for (const Measured& m : b.workload.measured) {
    const Gpu* gpu = known_gpu(m.gpu);
    if (m.precision != measured_as(b.precision) || m.sample != b.sample || !gpu ||
        gpu->memory_bandwidth.value <= 0 || peak_of(*gpu, b.precision).value <= 0 ||
        std::abs(std::log(peak_of(*gpu, b.precision) / peak_of(b.gpu, b.precision))) > kSame)
      continue;
    if (!nearest || away(gpu->memory_bandwidth) < away(nearest->memory_bandwidth)) nearest = gpu;
  }
  return nearest;
}

/// From what was measured on a GPU of the same arithmetic; false if nothing was. A part of the time
/// goes with the memory's bandwidth.
bool from_same_arithmetic(ComputeTime& time, const MicroBatch& b, std::string_view framework) {
  const Gpu* gpu = measured_with_same_peak(b);
  if (!gpu) return false;
  ComputeTime theirs = time;
  if (!from_measured(theirs, {b.workload, *gpu, b.precision, b.sample, b.batch}, framework))
    return false;
  if (theirs.without_launches) {
    theirs.within = theirs.without_launches->within;
    theirs.source = theirs.without_launches->source;
  }
  const Seconds whole =
      theirs.without_launches ? theirs.without_launches->forward_backward : theirs.forward_backward;
  const MemoryPart& part = training_constants().same_chip;
  const auto times_with = [&](double memory) {
    return 1 - memory + memory * (gpu->memory_bandwidth / b.gpu.memory_bandwidth);
  };
  const double times = times_with(part.memory), one = times_with(part.least) / times,
               other = times_with(part.most) / times;
  time.forward_backward = std::max(time.least, whole * times);
  time.within = {together(theirs.within.faster, std::max(1 / one, 1 / other)),
                 together(theirs.within.slower, std::max(one, other))};
  time.source = fmt::format("estimate, {:.2f} times as long, by the memory's bandwidth, as {}",
                            times, theirs.source);
  wait_for_launches(time, b.workload, theirs.forward_backward);
  return true;
}

/// From every GPU that was measured, with the asked sample where any was: the median, so that one
/// program that was not tuned does not decide.
std::optional<PeakShare> share_from_other_gpus(const MicroBatch& b) {
  const Workload& workload = b.workload;
  std::map<std::string, const Measured*> by_gpu;
  const auto farther = [&](const Measured& m) {
    return std::pair(m.sample != b.sample,
                     std::abs(std::log(static_cast<double>(m.batch) / b.batch)));
  };
  bool same_sample = false;
  for (const Measured& m : workload.measured) {
    const Gpu* gpu = known_gpu(m.gpu);
    if (m.precision != measured_as(b.precision) || !gpu || peak_of(*gpu, b.precision).value <= 0)
      continue;
    same_sample = same_sample || m.sample == b.sample;
    const Measured*& best = by_gpu[m.gpu];
    if (!best || farther(m) < farther(*best)) best = &m;
  }
  std::vector<double> shares;
  std::string reached;
  for (const auto& [family, m] : by_gpu) {
    if (same_sample && m->sample != b.sample) continue;
    const Gpu& gpu = *known_gpu(family);
    const Seconds measured{m->batch / m->samples_per_s},
        least = compute_at_peak({workload, gpu, b.precision, m->sample, m->batch});
    const double share = least / measured;
    // What launches take does not shrink with peaks and bandwidths.
    shares.push_back(transferred_share(
        gpu, b, least / (measured - constant_of(workload, m->sample, measured, m->batch))));
    reached += fmt::format("{}{:.0f} % on {} at batch {}", reached.empty() ? "" : ", ", 100 * share,
                           family, m->batch);
  }
  if (shares.empty()) return std::nullopt;
  return PeakShare{
      median(shares),
      fmt::format("measured {}; arithmetic goes with the peak, the rest with the memory's "
                  "bandwidth",
                  reached),
      training_constants().transferred, 1, true};
}

/// As the workload's `estimate` says.
PeakShare assumed_share(const MicroBatch& b) {
  const Estimate& estimate = b.workload.estimate;
  const Gpu& asked = b.gpu;
  const Precision precision = b.precision;
  const double within = training_constants().estimate_within;
  const Spread assumed{within, within};
  if (precision == Precision::fp32) return {estimate.fp32, estimate.source, assumed};
  std::vector<EstimateOn> reached{{estimate.gpu, estimate.fp16, estimate.recomputed}};
  reached.insert(reached.end(), estimate.others.begin(), estimate.others.end());
  // H200 computes as H100 does, and only its memory is faster.
  constexpr double kSamePeaks = 0.01;  // of a logarithm
  const EstimateOn* nearest = nullptr;
  double least = 0;
  for (const EstimateOn& on : reached) {
    const double recomputing = on.recomputed.value_or(on.fp16) / on.fp16;
    if (!asked.altered && is_model(asked.model, on.gpu))
      return {on.fp16, estimate.source,
              precision == Precision::tf32 ? assumed : estimate.within.value_or(assumed),
              recomputing};
    const Gpu* gpu = known_gpu(on.gpu);
    if (!gpu)
      throw input_error(fmt::format("estimate.gpu: no instance type has a GPU called '{}'", on.gpu),
                        suggest_gpu(on.gpu));
    const double away = std::abs(std::log(peak_of(asked, precision) / peak_of(*gpu, precision)));
    if (nearest && away >= least) continue;
    nearest = &on;
    least = away;
  }
  return {transferred_share(*known_gpu(nearest->gpu), b, nearest->fp16),
          fmt::format("{:.0f} % on {} ({}); arithmetic goes with the peak, the rest with the "
                      "memory's bandwidth",
                      100 * nearest->fp16, nearest->gpu, estimate.source),
          !estimate.within     ? assumed
          : least < kSamePeaks ? *estimate.within
                               : training_constants().transferred,
          nearest->recomputed.value_or(nearest->fp16) / nearest->fp16};
}

}  // namespace

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
