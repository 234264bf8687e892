#include "models/megatron.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/gpu_arithmetic.hpp"
#include "models/memory.hpp"
#include "models/micro_batch.hpp"
#include "models/units.hpp"

namespace foreduce {
namespace {

constexpr double kCausal = 0.5;  // of all scores, those of a token with earlier ones

/// Of the arithmetic of all products, what belongs to no block: the layer over the vocabulary.
double root_products(const Workload& workload) {
  double all = 0, root = 0;
  for (const Tensor& t : workload.tensors) {
    all += t.macs;
    if (block_of(t.name).empty()) root += t.macs;
  }
  return all > 0 ? root / all : 0;
}

/// How far published rates are from what is said here of such a model on such a GPU.
Spread megatron_spread(const MicroBatch& b) {
  const TrainingConstants& c = training_constants();
  // Routing, permutation and many small products are not in the shares.
  if (b.workload.experts) return {c.estimate_within, c.estimate_within};
  const auto& gpus = c.megatron.gpus;
  const bool published =
      !b.gpu.altered && std::any_of(gpus.begin(), gpus.end(),
                                    [&](const auto& g) { return is_model(b.gpu.model, g); });
  return published ? c.megatron.within : c.transferred;
}

void require_megatrons(const MicroBatch& b) {
  check_arithmetic(b.gpu, b.precision);
  if (!is_language_model(b.workload))
    throw key_error("framework",
                    fmt::format("what is known of Megatron is of language models, which have a "
                                "layer over a vocabulary behind their blocks, and {} has none",
                                b.workload.name),
                    "framework: pytorch");
  if (b.precision == Precision::fp32 || b.precision == Precision::tf32)
    throw key_error("framework",
                    fmt::format("nothing is known of Megatron in {}", to_text(b.precision)),
                    "precision: bf16, or framework: pytorch");
  if (peak_of(b.gpu, b.precision).value <= 0)
    throw input_error(fmt::format("the peak of {} is not known", b.gpu.model),
                      "fp16: 989 TFLOPS under gpu");
}

}  // namespace

ComputeTime megatron_time(const MicroBatch& b) {
  require_megatrons(b);
  const MegatronConstants& m = training_constants().megatron;
  const bool fp8 = b.precision == Precision::fp8;
  const FlopPerSecond peak = peak_of(b.gpu, b.precision),
                      of_16_bits = peak_of(b.gpu, Precision::bf16);
  const Flop all = work_of(b.workload, b.sample, b.batch),
             products = all * linear_share(b.workload, b.sample),
             root = products * root_products(b.workload);
  ComputeTime time;
  time.optimizer = optimizer_of(b.workload, b.gpu);
  time.least = compute_at_peak(b);
  const Seconds multiplying = (products - root) / (peak * (fp8 ? m.products_fp8 : m.products)) +
                              root / (of_16_bits * m.products);
  const Seconds attending = (all - products) * kCausal / (of_16_bits * m.scores);
  Seconds moving{0};
  if (b.gpu.memory_bandwidth.value > 0)
    moving = m.moved * layer_outputs(b.workload, b.sample, b.batch) / b.gpu.memory_bandwidth;
  time.forward_backward = multiplying + attending + moving;
  time.within = megatron_spread(b);
  time.source = fmt::format(
      "estimate for Megatron with Transformer Engine, {:.0f} % of {}'s {} in {}{}: of the time "
      "{:.0f} "
      "% is products, {:.0f} % attention and {:.0f} % memory traffic (models/training.yaml, "
      "megatron)",
      100 * counted_by_megatron(b.workload, b.sample) * (all / peak) / time.forward_backward,
      b.gpu.model, to_text(peak), to_text(b.precision),
      b.workload.experts ? ", as if the mixture's experts were dense layers" : "",
      100 * (multiplying / time.forward_backward), 100 * (attending / time.forward_backward),
      100 * (moving / time.forward_backward));
  time.least = std::min(time.least, time.forward_backward);
  wait_for_launches(time, b.workload, Seconds{HUGE_VAL});
  return time;
}

double counted_by_megatron(const Workload& workload, const std::string& sample) {
  return 1 - (1 - kCausal) * (1 - linear_share(workload, sample));
}

}  // namespace foreduce
