#include "models/gpu_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "models/gpu_arithmetic.hpp"
#include "models/gpu_names.hpp"
#include "models/micro_batch.hpp"
#include "models/statistics.hpp"

namespace foreduce {

Precision measured_as(Precision precision) {
  return precision == Precision::bf16 ? Precision::fp16 : precision;
}

void check_rate(ComputeTime& time, const MicroBatch& b, double samples_per_s, const char* hint,
                double arithmetic) {
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

}  // namespace

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

namespace {

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

}  // namespace

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

}  // namespace foreduce
