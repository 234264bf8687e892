#include "models/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "input/cited_data.hpp"
#include "models/tensors.hpp"
#include "models/workload_fields.hpp"

namespace foreduce {

template <class Fields>
void describe(Fields& f, MegatronConstants& m) {
  f.required("products", m.products, "", Limits::between(0.1, 1));
  f.required("products_fp8", m.products_fp8, "", Limits::between(0.1, 1));
  f.required("scores", m.scores, "", Limits::between(0.1, 1));
  f.required("moved", m.moved, "");
  f.required("fp8_kept", m.fp8_kept, "", Limits::between(0.25, 1));
  f.required("score_bytes", m.score_bytes, "", Limits::between(0, 1000));
  f.required("kept_score", m.kept_score, "", Limits::between(0, 100));
  f.required("within", m.within, "");
  f.required("gpus", m.gpus, "");
}

template <class Fields>
void describe(Fields& f, TransformersConstants& t) {
  f.required("moved", t.moved, "");
  f.required("norms", t.norms, "");
  f.required("logits", t.logits, "");
  f.required("kept_norms", t.kept_norms, "");
  f.required("kept_norms_16", t.kept_norms_16, "");
  f.required("within", t.within, "");
  f.required("gpus", t.gpus, "");
}

template <class Fields>
void describe(Fields& f, TrainingConstants& c) {
  f.required("first_bucket", c.first_bucket, "");
  f.required("bucket", c.bucket, "");
  f.required("fusion_buffer", c.fusion_buffer, "");
  f.required("fusion_cycle", c.fusion_cycle, "");
  f.required("backward_share", c.backward_share, "", Limits::between(0, 1));
  f.required("compute_share", c.compute_share, "", Limits::between(0.01, 1));
  f.required("compute_share_servers", c.compute_share_servers, "", Limits::between(0.01, 1));
  f.required("optimizer_bytes", c.optimizer_bytes, "");
  f.required("memory_share", c.memory_share, "", Limits::between(0.1, 1));
  f.required("state_bytes", c.state_bytes, "");
  f.required("spread", c.spread, "", Limits::between(0, 0.5));
  f.required("same_within", c.same_within, "", Limits::between(1, 10));
  f.required("measured", c.measured, "");
  f.required("elsewhere", c.elsewhere, "");
  f.required("transferred", c.transferred, "");
  f.required("same_chip", c.same_chip, "");
  f.required("best_share", c.best_share, "", Limits::between(0.01, 1));
  f.required("fixed_share", c.fixed_share, "", Limits::between(0, 0.9));
  f.required("half_width", c.half_width, "", Limits::between(1, 1e5));
  f.required("fp8_share", c.fp8_share, "", Limits::between(0, 1));
  f.required("fp8_half_width", c.fp8_half_width, "", Limits::between(1, 1e5));
  f.required("fp8_within", c.fp8_within, "", Limits::between(1, 10));
  f.required("fp32_traffic", c.fp32_traffic, "", Limits::between(1, 4));
  f.required("fp32_traffic_within", c.fp32_traffic_within, "", Limits::between(1, 4));
  f.required("score_bytes", c.score_bytes, "", Limits::between(0, 1000));
  f.required("estimate_within", c.estimate_within, "", Limits::between(1, 10));
  f.required("micro_batch_overhead", c.micro_batch_overhead, "");
  f.required("tensor_undivided", c.tensor_undivided, "share of 1", Limits::between(0, 1));
  f.required("tensor_width", c.tensor_width, "hidden units", Limits::positive());
  f.required("micro_batch_tensors", c.micro_batch_tensors, "", Limits::between(1, 10000));
  f.required("launches_of_tensor", c.launches_of_tensor, "");
  f.required("launches_slower", c.launches_slower, "", Limits::between(1, 10));
  f.required("adapters_below", c.adapters_below, "", Limits::between(0, 1));
  f.required("adapter_launches", c.adapter_launches, "", Limits::between(1, 10));
  f.required("adapter_launches_within", c.adapter_launches_within, "");
  f.required("tensor_launches", c.tensor_launches, "");
  f.required("most_launched_tensors", c.most_launched_tensors, "", Limits::between(1, 10000));
  f.required("half_saturated", c.half_saturated, "");
  f.required("megatron", c.megatron, "");
  f.required("transformers", c.transformers, "");
  f.required("memory_within", c.memory_within, "", Limits::between(1, 2));
  f.required("memory_outside", c.memory_outside, "");
  f.sources("sources");
}

namespace {

/// Published counts are exact, unless they are written in millions.
double rounding_of(double parameters) {
  return std::fmod(parameters, 1e6) == 0 ? 0.01 * parameters : 0;
}

/// Of the sample that the tensors' MACs are of.
double usual_gflop(const Workload& w) { return w.variants.empty() ? 0 : w.variants[0].train_gflop; }
/// What the tensors' own arithmetic takes, less some rounding; attention comes on top. Where MACs
/// are unknown, a hundredth of what a token's way through all parameters takes: a mixture of
/// experts uses few of them for a token, and embeddings have none.
double least_gflop(const Workload& w) {
  double macs = 0;
  for (const Tensor& t : w.tensors) macs += t.macs;
  if (macs == 0 && !w.variants.empty())
    macs = 0.01 * static_cast<double>(w.elements()) * tokens_of(w.variants[0].sample);
  return 0.98 * kFlopPerMac * macs / 1e9;
}

}  // namespace

double positions_of(const Workload& workload, const std::string& sample) {
  const Variant *usual = workload.variant(""), *asked = workload.variant(sample);
  if (!usual || !asked || usual == asked) return 1;
  const double tokens = tokens_of(usual->sample);
  return tokens > 0 ? tokens_of(asked->sample) / tokens : asked->train_gflop / usual->train_gflop;
}

Estimate at_width(Estimate estimate, double known, double width) {
  const double half = training_constants().half_width;
  const double more = (width / (width + half)) / (known / (known + half));
  const auto scaled = [more](double share) {
    return std::min(1.0, std::round(1000 * more * share) / 1000);
  };
  const auto scale = [&](double& fp16, std::optional<double>& recomputed) {
    fp16 = scaled(fp16);
    if (recomputed) recomputed = scaled(*recomputed);
  };
  scale(estimate.fp16, estimate.recomputed);
  for (EstimateOn& on : estimate.others) scale(on.fp16, on.recomputed);
  if (width != known)
    estimate.source += fmt::format(
        "; {:.2f} times as much, for a width of {:g} instead of {:g} (models/training.yaml, "
        "half_width)",
        more, width, known);
  return estimate;
}

double tokens_of(const std::string& sample) {
  constexpr std::string_view kUnit = " tokens";
  double tokens = 0;
  std::string why;
  if (!sample.ends_with(kUnit)) return 0;
  return parse_number(sample.substr(0, sample.size() - kUnit.size()), tokens, why) ? tokens : 0;
}

double linear_share(const Workload& workload, const std::string& sample) {
  double macs = 0;
  for (const Tensor& t : workload.tensors) macs += t.macs;
  const Variant* variant = workload.variant(sample);
  const double all = variant ? variant->train_gflop * 1e9 : 0;
  if (macs <= 0 || all <= 0) return 1;
  return std::min(1.0, kFlopPerMac * macs * positions_of(workload, sample) / all);
}

void add_length(Workload& workload, const std::string& sample) {
  const double asked = tokens_of(sample);
  const auto longest = std::max_element(
      workload.variants.begin(), workload.variants.end(),
      [](const Variant& a, const Variant& b) { return tokens_of(a.sample) < tokens_of(b.sample); });
  if (longest == workload.variants.end()) return;
  const double most = tokens_of(longest->sample), linear = linear_share(workload, longest->sample);
  constexpr double kLongest = 1e8;
  if (most < 1 || workload.variant(sample) || asked < 1 ||
      asked > (workload.any_length() ? kLongest : most) || asked != std::floor(asked) ||
      linear >= 1)
    return;
  const double part = asked / most;
  workload.variants.push_back(
      {sample, longest->train_gflop * (linear * part + (1 - linear) * part * part)});
}

namespace {
/// What is left without the gradients of frozen weights, which are this part of all.
double without_frozen(const Workload& workload, double weights) {
  return 1 - (1 - workload.trainable) * weights;
}
/// Half of backward, as far as it is products of layers.
double weight_gradients(const Workload& workload, const std::string& sample) {
  return training_constants().backward_share / 2 * linear_share(workload, sample);
}
}  // namespace

double arithmetic_share(const Workload& workload, const std::string& sample) {
  return without_frozen(workload, weight_gradients(workload, sample));
}

double time_share(const Workload& workload, const std::string& sample) {
  if (workload.trainable >= 1) return 1;  // the width takes a look at every tensor
  const auto width = static_cast<double>(usual_width(workload.tensors));
  return without_frozen(workload, weight_gradients(workload, sample) * width /
                                      (width + training_constants().half_width));
}

double backward_share(const Workload& workload, const std::string& sample) {
  return 1 - (1 - training_constants().backward_share) / time_share(workload, sample);
}

std::size_t trained_elements(std::size_t elements, double trainable) {
  return trainable >= 1
             ? elements
             : static_cast<std::size_t>(std::ceil(trainable * static_cast<double>(elements)));
}

std::size_t Workload::elements() const {
  return std::accumulate(tensors.begin(), tensors.end(), std::size_t{0},
                         [](std::size_t n, const Tensor& t) { return n + t.elements; });
}

const Variant* Workload::variant(const std::string& sample) const {
  const auto at = std::find_if(variants.begin(), variants.end(), [&](const Variant& v) {
    return sample.empty() || v.sample == sample;
  });
  return at == variants.end() ? nullptr : &*at;
}

std::string Workload::suggest_sample(const std::string& sample) const {
  std::vector<std::string> known;
  for (const Variant& v : variants) known.push_back(v.sample);
  return suggest(sample, known);
}

Estimate decoder_estimate(double width) {
  const auto scaled = [&](const char* model) {
    const Workload known = Workloads().load(model);
    return at_width(known.estimate, static_cast<double>(usual_width(known.tensors)), width);
  };
  // Up to GPT-NeoX 20B's width as Llama-2 7B, from that of 34B and 70B on as these.
  constexpr double kAsSmall = 6144, kAsLarge = 8192;
  if (width >= kAsLarge) return scaled("llama2-70b");
  Estimate estimate = scaled("llama2-7b");
  if (width <= kAsSmall) return estimate;
  const Estimate large = scaled("llama2-70b");
  const double part = std::log(width / kAsSmall) / std::log(kAsLarge / kAsSmall);
  const auto blend = [part](double& share, double other) {
    share = std::round(1000 * std::pow(share, 1 - part) * std::pow(other, part)) / 1000;
  };
  blend(estimate.fp16, large.fp16);
  if (estimate.recomputed && large.recomputed) blend(*estimate.recomputed, *large.recomputed);
  for (EstimateOn& on : estimate.others)
    for (const EstimateOn& other : large.others)
      if (on.gpu == other.gpu) {
        blend(on.fp16, other.fp16);
        if (on.recomputed && other.recomputed) blend(*on.recomputed, *other.recomputed);
      }
  return estimate;
}

Workload Workloads::load_file(const std::filesystem::path& path) {
  if (path.extension() == ".json")
    throw file_error(path, "a workload is a YAML file",
                     fmt::format("of a model's config.json one is made by: foreduce workload "
                                 "from-config {} -o model.yaml",
                                 path.filename().string()));
  YamlFile file = YamlFile::load(path);
  Workload w;
  read_file(file, w);
  file.throw_if_problems();
  const auto fail = [&](const char* key, std::string message, std::string hint = {}) {
    return InputError(Problem{path.string(), 0, 0, key, std::move(message), std::move(hint), ""});
  };
  constexpr double kMostParameters = 1e15;
  if (w.blocks > 0 && (w.parameters->value < w.blocks || w.parameters->value > kMostParameters))
    throw fail("parameters", fmt::format("{:.4g} cannot be divided into {} blocks",
                                         w.parameters->value, w.blocks));
  w.tensors =
      w.transformer  ? transformer_tensors(*w.transformer, w.experts)
      : w.blocks > 0 ? equal_blocks(w.blocks, w.parameters->value)
      : w.tensors_in.find('\n') == std::string::npos
          ? load_tensors(path.parent_path() / w.tensors_in)
          : parse_tensors(path.string(), w.tensors_in, file.root().find("tensors")->mark.line + 1);
  // Of a decoder more is known than of any network.
  if (w.transformer && !file.root().find("estimate"))
    w.estimate = decoder_estimate(w.transformer->hidden);
  // Nobody's rate of a mixture of experts is among those that the estimate is within.
  if (w.experts) w.estimate.within.reset();
  if (w.transformer && w.variants.empty())
    w.variants.push_back({fmt::format("{} tokens", w.transformer->sequence),
                          transformer_gflop(*w.transformer, w.tensors)});
  // A rate of a sample of which no more is known says nothing.
  for (const Measured& m : w.measured) {
    add_length(w, m.sample);
    if (!w.variant(m.sample))
      throw fail("measured",
                 fmt::format("the rate of '{}' is of a sample that variants lack", m.sample),
                 w.suggest_sample(m.sample));
  }
  if (w.experts && std::none_of(w.tensors.begin(), w.tensors.end(),
                                [&](const Tensor& t) { return is_of_experts(t, w); }))
    throw fail("experts", "no tensor is of experts by its name",
               "as model.layers.0.mlp.experts.down_proj; of a transformer all blocks have them");
  const auto total = static_cast<double>(w.elements());
  if (w.parameters &&
      std::abs(total - std::round(w.parameters->value)) > rounding_of(w.parameters->value))
    throw fail("parameters", fmt::format("says {:.0f}, but the tensors add up to {:.0f}",
                                         w.parameters->value, total));
  if (const double least = least_gflop(w); usual_gflop(w) < least)
    throw fail(
        "variants",
        fmt::format("train_gflop is {:.4g}, but the tensors' multiply-accumulates alone take "
                    "{:.4g} GFLOP (6 FLOP for each)",
                    usual_gflop(w), least),
        "1 TFLOP is 1000 GFLOP");
  return w;
}

Workloads::Workloads(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error))
    if (entry.path().extension() == ".yaml") names_.push_back(entry.path().stem().string());
  if (error || names_.empty())
    throw input_error(fmt::format("{}: no workloads there", folder_.string()));
  std::sort(names_.begin(), names_.end());
}

Workload Workloads::load(const std::string& name) const {
  if (!std::binary_search(names_.begin(), names_.end(), name))
    throw input_error(fmt::format("unknown workload '{}'", name), suggest(name, names_));
  return load_file(folder_ / (name + ".yaml"));
}

const TrainingConstants& training_constants() {
  static const auto constants =
      load_cited<TrainingConstants>(data_folder() / "models" / "training.yaml");
  return constants;
}

}  // namespace foreduce
