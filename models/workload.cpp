#include "models/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/tensors.hpp"
#include "models/workload_fields.hpp"

namespace foreduce {

struct ConstantSources {
  std::string ddp, horovod, facts, interference, smddp, accumulated, zero, one_node, rates, shares;
};
template <class Fields>
void describe(Fields& f, ConstantSources& s) {
  f.required("ddp", s.ddp, "");
  f.required("horovod", s.horovod, "");
  f.required("facts", s.facts, "");
  f.required("interference", s.interference, "");
  f.required("smddp", s.smddp, "");
  f.required("accumulated", s.accumulated, "");
  f.required("zero", s.zero, "");
  f.required("one_node", s.one_node, "");
  f.required("rates", s.rates, "");
  f.required("shares", s.shares, "");
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
  f.required("state_bytes", c.state_bytes, "");
  f.required("spread", c.spread, "", Limits::between(0, 0.5));
  f.required("same_within", c.same_within, "", Limits::between(1, 10));
  f.required("measured_within", c.measured_within, "", Limits::between(1, 10));
  f.required("estimate_within", c.estimate_within, "", Limits::between(1, 10));
  ConstantSources sources;
  f.required("sources", sources, "where the numbers are from");
}

namespace {

/// Published counts are exact, unless they are written in millions.
double rounding_of(double parameters) { return std::fmod(parameters, 1e6) == 0 ? 0.01 * parameters : 0; }

double most_gflop(const Workload& w) {
  double most = 0;
  for (const Variant& v : w.variants) most = std::max(most, v.train_gflop);
  return most;
}
/// What the tensors' own arithmetic takes, less some rounding; attention comes on top. Where MACs
/// are unknown, half of what a token's way through all parameters takes: embeddings have none.
double least_gflop(const Workload& w) {
  double macs = 0;
  for (const Tensor& t : w.tensors) macs += t.macs;
  if (macs == 0 && !w.variants.empty())
    macs = 0.5 * static_cast<double>(w.elements()) * tokens_of(w.variants[0].sample);
  return 0.98 * kFlopPerMac * macs / 1e9;
}

}  // namespace

double tokens_of(const std::string& sample) {
  constexpr const char* kUnit = " tokens";
  double tokens = 0;
  std::string why;
  const auto at = sample.find(kUnit);
  return at != std::string::npos && parse_number(sample.substr(0, at), tokens, why) ? tokens : 0;
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

Workload Workloads::load_file(const std::filesystem::path& path) {
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
  w.tensors = w.transformer ? transformer_tensors(*w.transformer)
              : w.blocks > 0 ? equal_blocks(w.blocks, w.parameters->value)
                             : load_tensors(path.parent_path() / w.tensors_file);
  if (w.transformer && w.variants.empty())
    w.variants.push_back({fmt::format("{} tokens", w.transformer->sequence),
                          transformer_gflop(*w.transformer, w.tensors)});
  const auto total = static_cast<double>(w.elements());
  if (w.parameters && std::abs(total - w.parameters->value) > rounding_of(w.parameters->value))
    throw fail("parameters", fmt::format("says {:.0f}, but the tensors add up to {:.0f}",
                                         w.parameters->value, total));
  if (const double least = least_gflop(w); most_gflop(w) < least)
    throw fail("variants",
               fmt::format("train_gflop is {:.4g}, but the tensors' multiply-accumulates alone take "
                           "{:.4g} GFLOP (6 FLOP for each)",
                           most_gflop(w), least),
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
  static const TrainingConstants constants = [] {
    YamlFile file = YamlFile::load(data_folder() / "models" / "training.yaml");
    file.citations = YamlFile::Citations::required;
    TrainingConstants c;
    read_file(file, c);
    return c;
  }();
  return constants;
}

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

Bytes training_state(const Workload& workload, std::optional<Bytes> per_parameter) {
  return Bytes{static_cast<double>(workload.elements()) *
               (per_parameter ? per_parameter->value : training_constants().state_bytes)};
}

namespace {
Seconds optimizer_of(const Workload& workload, const Gpu& gpu) {
  if (gpu.memory_bandwidth.value <= 0) return Seconds{0};
  return Bytes{static_cast<double>(workload.elements()) * training_constants().optimizer_bytes} /
         gpu.memory_bandwidth;
}
void check_arithmetic(const Gpu& gpu, const std::string& precision) {
  if (precision == "bf16" && !gpu.bf16)
    throw input_error(fmt::format("{} has no bf16 arithmetic", gpu.model), "use precision: fp16");
  if (precision == "tf32" && !gpu.bf16)  // both came with the A100
    throw input_error(fmt::format("{} has no TF32 arithmetic", gpu.model), "use precision: fp32");
}
}  // namespace

Seconds without_optimizer(const Workload& workload, const Gpu& gpu, Seconds per_batch,
                          int accumulation) {
  return std::max(per_batch - optimizer_of(workload, gpu) / accumulation,
                  0.5 * per_batch);  // theirs may be faster than what we take it for
}

namespace {

/// TF32 runs on tensor cores at half the rate of fp16, dense (NVIDIA's data sheets of A100, A10G,
/// L4, L40S, H100 and B200).
FlopPerSecond peak_of(const Gpu& gpu, const std::string& precision) {
  return precision == "fp32" ? gpu.fp32 : precision == "tf32" ? gpu.fp16 / 2 : gpu.fp16;
}
Flop work_of(const Workload& workload, const std::string& sample, int batch) {
  const Variant* variant = workload.variant(sample);
  return Flop{variant ? variant->train_gflop * 1e9 * batch : 0};
}
/// What nothing is faster than; 0 where the peak is unknown.
Seconds at_peak(const Workload& workload, const Gpu& gpu, const std::string& precision,
                const std::string& sample, int batch) {
  const FlopPerSecond peak = peak_of(gpu, precision);
  return peak.value > 0 ? work_of(workload, sample, batch) / peak : Seconds{0};
}

}  // namespace

ComputeTime compute_time(const Workload& workload, const Gpu& gpu, const std::string& precision,
                         const std::string& sample, int batch, double samples_per_s) {
  check_arithmetic(gpu, precision);
  ComputeTime time;
  time.optimizer = optimizer_of(workload, gpu);
  time.forward_backward = without_optimizer(workload, gpu, Seconds{batch / samples_per_s}, 1);
  time.measured = true;
  time.within = training_constants().same_within;
  time.source = fmt::format("as the scenario says, {} samples a second of one GPU at batch {}",
                            samples_per_s, batch);
  time.least = at_peak(workload, gpu, precision, sample, batch);
  const double share = time.least.value / (batch / samples_per_s);
  constexpr double kHardlyAny = 0.8;  // the fastest large matrix products alone
  const std::string words = fmt::format(
      "{} samples a second are {}, {:.0f} % of {}'s {} peak", samples_per_s,
      to_text(peak_of(gpu, precision) * share), 100 * share, gpu.model, precision);
  if (share > 1)
    throw input_error(words, "samples_per_s is of one GPU alone, not of the cluster");
  if (share > kHardlyAny) time.source += fmt::format(" (doubtful: {})", words);
  return time;
}

ComputeTime compute_time(const Workload& workload, const Gpu& gpu, const std::string& precision,
                         const std::string& sample, int batch) {
  check_arithmetic(gpu, precision);
  const std::string rate = precision == "bf16" ? "fp16" : precision;
  ComputeTime time;
  time.optimizer = optimizer_of(workload, gpu);
  time.least = at_peak(workload, gpu, precision, sample, batch);
  const Measured* best = nullptr;
  const auto distance = [&](const Measured& m) {
    return std::abs(std::log(static_cast<double>(m.batch) / batch));
  };
  for (const Measured& m : workload.measured)
    if (gpu.model.starts_with(m.gpu) && m.precision == rate && m.sample == sample &&
        (!best || distance(m) < distance(*best)))
      best = &m;
  if (best) {
    time.forward_backward =
        without_optimizer(workload, gpu, Seconds{best->batch / best->samples_per_s},
                          best->accumulation) *
        (static_cast<double>(batch) / best->batch);
    time.measured = true;
    time.within = training_constants().measured_within;
    time.source = best->batch == batch ? fmt::format("measured on {} at batch {}: {}", best->gpu,
                                                     batch, best->source)
                                       : fmt::format("measured on {} at batch {}, scaled to {}: {}",
                                                     best->gpu, best->batch, batch, best->source);
    return time;
  }
  const FlopPerSecond peak = peak_of(gpu, precision);
  if (peak.value <= 0)
    throw input_error(fmt::format("{}: neither measured on {} nor is the GPU's {} peak known",
                                  workload.name, gpu.model, rate));
  const double share = rate == "fp32" ? workload.estimate.fp32 : workload.estimate.fp16;
  time.within = training_constants().estimate_within;
  time.forward_backward = time.least / share;
  time.source = fmt::format("estimate, {:.0f} % of {}{}: {}", share * 100, to_text(peak),
                            rate == "fp32" && gpu.bf16 ? " without tensor cores (precision: tf32 "
                                                         "uses them)"
                                                       : "",
                            workload.estimate.source);
  return time;
}

}  // namespace foreduce
