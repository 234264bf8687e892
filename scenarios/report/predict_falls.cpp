#include "scenarios/report/predict_falls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "input/counted.hpp"
#include "scenarios/report/axes.hpp"
#include "scenarios/report/predict_table.hpp"

namespace foreduce {
namespace {

/// Points that differ in their number of nodes alone, by that number.
using ByNodes = std::map<int, const Json*>;

std::vector<ByNodes> curves_by_nodes(const Json& points) {
  std::vector<ByNodes> curves;
  std::map<std::string, std::size_t> places;  // in `curves`
  for (const Json* p : answered(points)) {
    if (!fits_memory(*p)) continue;
    std::string others;
    for (const char* key : {"model",
                            "sample",
                            "precision",
                            "batch_per_gpu",
                            "accumulation",
                            "instance",
                            "oversubscription",
                            "placement",
                            "gradient_type",
                            "spread",
                            "algorithm",
                            "profile",
                            "segments",
                            "inner",
                            "bucket_bytes",
                            "sharding",
                            "tensor_parallel",
                            "context_parallel",
                            "pipeline",
                            "virtual_pipeline",
                            "expert_parallel",
                            "recompute",
                            "framework",
                            "trainable",
                            "fp8_all_gather"})
      others += p->at(key).dump() + " ";
    // Of all GPUs and of groups there are as many GPUs a group.
    if (p->at("hybrid").is_string()) others += text_or(*p, "hybrid");
    const auto [at, is_new] = places.try_emplace(std::move(others), curves.size());
    if (is_new) curves.emplace_back();
    curves[at->second].try_emplace(p->value("nodes", 0), p);
  }
  return curves;
}

std::string fall_by_nodes(const Json& points, const Json& few, const Json& many, bool trains_less) {
  const char* const key = trains_less ? "throughput_samples_per_s" : "step_time_s";
  const auto amount = [&](const Json& p) {
    const double value = number_or(p, key, 0);
    return trains_less ? samples_words(value) + " samples/s" : milliseconds(value);
  };
  const std::string was = text_or(few, "chosen"), is = text_or(many, "chosen"),
                    instance = varies(points, "instance") ? " " + text_or(few, "instance") : "",
                    training = TrainingWords(points)(few);
  const std::string why =
      was != is && !was.empty() && !is.empty()
          ? fmt::format(" ({}; then {})", was, is)
          : " (the same algorithms, with trees of another depth or messages of another "
            "length)";
  return fmt::format("{} on {}{}{}, {} on {}{}", amount(few), few.value("nodes", 0), instance,
                     training, amount(many), many.value("nodes", 0), why);
}

}  // namespace

std::string predict_falls_lines(const Json& points, const View& view) {
  constexpr double kFall = 0.98;  // what one would see in a measurement
  constexpr std::size_t kMost = 2;
  struct Fall {
    const Json *few, *many;
  };
  std::vector<Fall> less, sooner;
  bool by_nccl = false;
  for (const ByNodes& curve : curves_by_nodes(points))
    for (auto at = curve.begin(); at != curve.end() && std::next(at) != curve.end(); ++at) {
      const Json &few = *at->second, &many = *std::next(at)->second;
      const auto falls = [&](const char* key) {
        return number_or(many, key, 0) <= kFall * number_or(few, key, 0);
      };
      const bool trains_less = falls("throughput_samples_per_s");
      if (!trains_less && (at->first == 1 || !falls("step_time_s"))) continue;
      (trains_less ? less : sooner).push_back({&few, &many});
      by_nccl = by_nccl || (at->first > 1 && text_or(few, "algorithm") == "nccl" &&
                            text_or(few, "chosen") != text_or(many, "chosen"));
    }
  std::string text;
  for (const auto* falls : {&less, &sooner}) {
    if (falls->empty()) continue;
    std::string line =
        falls == &less ? "More nodes train less:" : "More nodes take less time a step:";
    const std::size_t shown = view.explain ? falls->size() : std::min(kMost, falls->size());
    for (std::size_t i = 0; i < shown; ++i)
      line += (i > 0 ? "; " : " ") +
              fall_by_nodes(points, *(*falls)[i].few, *(*falls)[i].many, falls == &less);
    if (shown < falls->size()) line += fmt::format("; and {} more", falls->size() - shown);
    text += wrapped(line + ".", view, 2);
  }
  if (!text.empty() && by_nccl)
    text += "foreduce tune says where another choice of NCCL is faster.\n";
  return text;
}

}  // namespace foreduce
