#include "models/memory.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace foreduce {
namespace {

/// The width of most vectors (biases, norms): of a transformer its hidden width.
std::size_t usual_width(const std::vector<Tensor>& tensors) {
  std::map<std::size_t, int> seen;
  for (const Tensor& t : tensors)
    if (t.macs == 0) ++seen[t.elements];
  const auto most = std::max_element(
      seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == seen.end() ? 1 : most->first;
}

/// Elements of a layer's output for one sample. Each weight does one multiply-add per position; the
/// bias or norm behind it is as wide as the output, else the input has the usual width.
double outputs(const std::vector<Tensor>& tensors, std::size_t at, std::size_t width) {
  const Tensor& t = tensors[at];
  const double positions = t.macs / static_cast<double>(t.elements);
  const std::size_t behind =
      at + 1 < tensors.size() && tensors[at + 1].macs == 0 ? tensors[at + 1].elements : 0;
  const bool fits = behind > 0 && behind < t.elements && t.elements % behind == 0;
  const double each = fits
                          ? static_cast<double>(behind)
                          : std::max(1.0, static_cast<double>(t.elements) /
                                              static_cast<double>(std::max<std::size_t>(1, width)));
  return positions * each;
}

}  // namespace

Bytes training_state(const Workload& workload, std::optional<Bytes> per_parameter) {
  return Bytes{static_cast<double>(workload.elements()) *
               (per_parameter ? per_parameter->value : training_constants().state_bytes)};
}

Bytes activations(const Workload& workload, const std::string& sample, const std::string& precision,
                  int batch, Activations how) {
  const std::size_t width = usual_width(workload.tensors);
  double elements = 0;
  for (std::size_t i = 0; i < workload.tensors.size(); ++i)
    if (workload.tensors[i].macs > 0) elements += outputs(workload.tensors, i, width);
  // The tensors' MACs are of the first variant; others have more or fewer positions.
  const Variant *usual = workload.variant(""), *asked = workload.variant(sample);
  if (usual && asked && usual != asked) {
    const double tokens = tokens_of(usual->sample);
    elements *=
        tokens > 0 ? tokens_of(asked->sample) / tokens : asked->train_gflop / usual->train_gflop;
  }
  constexpr double kKeptRecomputed = 2.0 / 34;
  const double each = precision == "fp16" || precision == "bf16" ? 4 : 8;
  return Bytes{elements * batch * each * (how == Activations::kept ? 1 : kKeptRecomputed)};
}

}  // namespace foreduce
