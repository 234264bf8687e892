#include "models/program_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/gpu_arithmetic.hpp"
#include "models/memory.hpp"
#include "models/micro_batch.hpp"
#include "models/tensors.hpp"
#include "models/units.hpp"

namespace foreduce {
namespace {

constexpr double kCausal = 0.5;  // of all scores, those of a token with earlier ones

bool in_megatron(const MicroBatch& b) { return b.workload.framework == Framework::megatron; }
/// "Megatron", as errors name the program.
const char* program_of(const MicroBatch& b) {
  return in_megatron(b) ? "Megatron" : "Hugging Face's transformers";
}

/// Of the arithmetic of all products, what belongs to no block: the layer over the vocabulary.
double root_products(const Workload& workload) {
  double all = 0, root = 0;
  for (const Tensor& t : workload.tensors) {
    all += t.macs;
    if (block_of(t.name).empty()) root += t.macs;
  }
  return all > 0 ? root / all : 0;
}

/// How far published or measured times are from what is said here of such a model on such a GPU.
Spread program_spread(const MicroBatch& b) {
  const TrainingConstants& c = training_constants();
  // Routing, permutation and many small products are not in the shares.
  if (b.workload.experts) return {c.estimate_within, c.estimate_within};
  const auto& gpus = in_megatron(b) ? c.megatron.gpus : c.transformers.gpus;
  const bool known = !b.gpu.altered && std::any_of(gpus.begin(), gpus.end(), [&](const auto& g) {
    return is_model(b.gpu.model, g);
  });
  if (!known) return c.transferred;
  return in_megatron(b) ? c.megatron.within : c.transformers.within;
}

void require_known_program(const MicroBatch& b) {
  check_arithmetic(b.gpu, b.precision);
  if (!is_language_model(b.workload))
    throw key_error("framework",
                    fmt::format("what is known of {} is of language models, which have a "
                                "layer over a vocabulary behind their blocks, and {} has none",
                                program_of(b), b.workload.name),
                    "framework: pytorch");
  if (b.precision == Precision::fp32 || b.precision == Precision::tf32 ||
      (b.precision == Precision::fp8 && !in_megatron(b)))
    throw key_error(
        "framework",
        fmt::format("nothing is known of {} in {}", program_of(b), to_text(b.precision)),
        "precision: bf16, or framework: pytorch");
  if (peak_of(b.gpu, b.precision).value <= 0)
    throw input_error(fmt::format("the peak of {} is not known", b.gpu.model),
                      "fp16: 989 TFLOPS under gpu");
}

/// Parts of a micro-batch's time.
struct Parts {
  Seconds multiplying, attending;
  Seconds moving;     ///< memory traffic between products
  Seconds undivided;  ///< of it, what stands behind a block's attention and feed-forward layer
  Seconds all() const { return multiplying + attending + moving; }
};

/// What attention reaches of a GPU's peak. The share in training.yaml is of H100; of an A100's
/// FlashAttention-2 reaches 0.5 to 0.73 (arXiv 2307.08691, abstract).
double scores_reach(const Gpu& gpu) {
  constexpr double kOfA100 = (0.5 + 0.73) / 2;
  return is_model(gpu.model, "A100") ? kOfA100 : training_constants().megatron.scores;
}

Parts parts_of(const MicroBatch& b) {
  const MegatronConstants& m = training_constants().megatron;
  const TransformersConstants& h = training_constants().transformers;
  const bool fp8 = b.precision == Precision::fp8;
  const FlopPerSecond of_16_bits = peak_of(b.gpu, Precision::bf16);
  const Flop all = work_of(b.workload, b.sample, b.batch),
             products = all * linear_share(b.workload, b.sample),
             root = products * root_products(b.workload);
  Parts parts;
  parts.multiplying =
      (products - root) / (peak_of(b.gpu, b.precision) * (fp8 ? m.products_fp8 : m.products)) +
      root / (of_16_bits * m.products);
  parts.attending = (all - products) * kCausal / (of_16_bits * scores_reach(b.gpu));
  if (b.gpu.memory_bandwidth.value <= 0) return parts;
  const LayerOutputs put_out = layer_outputs(b.workload, b.sample, b.batch);
  Bytes moved = m.moved * put_out.all, behind{0};
  if (!in_megatron(b)) {
    constexpr double kLayersBehind = 2;  // of a block: attention's last and the feed-forward one's
    const Bytes norms = (has_separate_norms(b.workload) ? h.norms : Bytes{0}) * put_out.of_blocks;
    moved = h.moved * (put_out.all - put_out.root) + norms + h.logits * put_out.root;
    behind = h.moved * (kLayersBehind * put_out.of_blocks) + norms;
  }
  parts.moving = moved / b.gpu.memory_bandwidth;
  parts.undivided = behind / b.gpu.memory_bandwidth;
  return parts;
}

}  // namespace

ComputeTime program_time(const MicroBatch& b) {
  require_known_program(b);
  const Parts parts = parts_of(b);
  const FlopPerSecond peak = peak_of(b.gpu, b.precision);
  ComputeTime time;
  time.optimizer = optimizer_of(b.workload, b.gpu);
  time.least = compute_at_peak(b);
  time.forward_backward = parts.all();
  time.within = program_spread(b);
  const double counted = in_megatron(b) ? counted_by_megatron(b.workload, b.sample) : 1;
  time.source = fmt::format(
      "estimate for {}, {:.0f} % of {}'s {} in {}{}: of the time {:.0f} "
      "% is products, {:.0f} % attention and {:.0f} % memory traffic (models/training.yaml, {})",
      in_megatron(b) ? "Megatron with Transformer Engine"
                     : "Hugging Face's transformers, not compiled",
      100 * counted * (work_of(b.workload, b.sample, b.batch) / peak) / parts.all(), b.gpu.model,
      to_text(peak), to_text(b.precision),
      b.workload.experts ? ", as if the mixture's experts were dense layers" : "",
      100 * (parts.multiplying / parts.all()), 100 * (parts.attending / parts.all()),
      100 * (parts.moving / parts.all()), to_text(b.workload.framework));
  time.least = std::min(time.least, time.forward_backward);
  add_scores(time, b);
  wait_for_launches(time, b.workload, Seconds{HUGE_VAL});
  return time;
}

double undivided_by_tensors(const MicroBatch& b) {
  const TrainingConstants& c = training_constants();
  switch (b.workload.framework) {
    case Framework::megatron:
      return std::min(1.0, c.tensor_undivided * c.tensor_width / model_width(b.workload));
    case Framework::transformers:
      if (const Parts parts = parts_of(b); parts.undivided.value > 0)
        return parts.undivided / parts.all();
      break;
    case Framework::pytorch:
    case Framework::deepspeed: break;
  }
  // In PyTorch's programs these are more kernels than in Megatron's, and are as much of a wider
  // model.
  return c.tensor_undivided;
}

double counted_by_megatron(const Workload& workload, const std::string& sample) {
  return 1 - (1 - kCausal) * (1 - linear_share(workload, sample));
}

}  // namespace foreduce
