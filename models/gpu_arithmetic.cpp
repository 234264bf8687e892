#include "models/gpu_arithmetic.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreduce {

FlopPerSecond peak_of(const Gpu& gpu, Precision precision) {
  switch (precision) {
    case Precision::fp32: return gpu.fp32;
    case Precision::tf32: return gpu.fp16 / 2;
    case Precision::fp8: return 2 * gpu.fp16;
    case Precision::fp16:
    case Precision::bf16: break;
  }
  return gpu.fp16;
}

void check_arithmetic(const Gpu& gpu, Precision precision) {
  if (precision == Precision::bf16 && !gpu.bf16)
    throw key_error("precision", fmt::format("{} has no bf16 arithmetic", gpu.model),
                    "use precision: fp16");
  if (precision == Precision::tf32 && !gpu.bf16)  // both came with the A100
    throw key_error("precision", fmt::format("{} has no TF32 arithmetic", gpu.model),
                    "use precision: fp32");
  if (precision != Precision::fp8 || gpu.fp8) return;
  for (const char* older : {"K80", "M60", "P100", "V100", "T4", "A10G", "A10", "A100", "A800"})
    if (is_model(gpu.model, older))
      throw key_error(
          "precision",
          fmt::format("{} has no FP8 tensor cores, which came with Ada and Hopper", gpu.model),
          fmt::format("precision: {}", gpu.bf16 ? "bf16" : "fp16"));
  throw key_error(
      "precision", fmt::format("nothing says that {} has FP8 tensor cores", gpu.model),
      fmt::format("fp8: yes under gpu if it has; else precision: {}", gpu.bf16 ? "bf16" : "fp16"));
}

Seconds optimizer_of(const Workload& workload, const Gpu& gpu) {
  if (gpu.memory_bandwidth.value <= 0) return Seconds{0};
  const std::size_t changed = trained_elements(workload.elements(), workload.trainable);
  const TrainingConstants& c = training_constants();
  return Bytes{static_cast<double>(changed) * c.optimizer_bytes} /
         (gpu.memory_bandwidth * c.memory_share);
}

std::string with_remark(const std::string& source, const std::string& remark) {
  const std::size_t at = std::min(source.size(), source.find(": "));
  return source.substr(0, at) + remark + source.substr(at);
}

}  // namespace foreduce
