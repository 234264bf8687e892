#include "scenarios/validation/kineto_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "input/problem.hpp"
#include "scenarios/validation/kineto_events.hpp"
#include "topologies/machine.hpp"

namespace foreduce {
namespace {

/// A stretch of time in µs.
struct TimeSpan {
  double begin = 0, end = 0;
};

/// The same time without overlaps, in order.
std::vector<TimeSpan> merged(std::vector<TimeSpan> all) {
  std::sort(all.begin(), all.end(),
            [](const TimeSpan& a, const TimeSpan& b) { return a.begin < b.begin; });
  std::vector<TimeSpan> out;
  for (const TimeSpan& i : all)
    if (!out.empty() && i.begin <= out.back().end) out.back().end = std::max(out.back().end, i.end);
    else out.push_back(i);
  return out;
}
double length_of(const std::vector<TimeSpan>& apart) {
  double sum = 0;
  for (const TimeSpan& i : apart) sum += i.end - i.begin;
  return sum;
}
double length_of_both(const std::vector<TimeSpan>& a, const std::vector<TimeSpan>& b) {
  double sum = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max(0.0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    if (a[i].end < b[j].end) ++i;
    else ++j;
  }
  return sum;
}

/// Bytes of an element, by c10::ScalarType's names; 0: unknown.
double element_bytes(const std::string& type) {
  static const std::map<std::string, double> all = {{"Byte", 1},
                                                    {"Char", 1},
                                                    {"Bool", 1},
                                                    {"Short", 2},
                                                    {"Half", 2},
                                                    {"BFloat16", 2},
                                                    {"Int", 4},
                                                    {"Float", 4},
                                                    {"Long", 8},
                                                    {"Double", 8},
                                                    {"Float8_e5m2", 1},
                                                    {"Float8_e4m3fn", 1},
                                                    {"UInt16", 2},
                                                    {"Float8_e4m3fnuz", 1},
                                                    {"Float8_e5m2fnuz", 1}};
  const auto at = all.find(type);
  return at == all.end() ? 0 : at->second;
}

bool reduces_gradients(const std::string& name) {
  return name.find("allreduce") != std::string::npos ||
         name.find("AllReduce") != std::string::npos ||
         name.find("reduce_scatter") != std::string::npos ||
         name.find("ReduceScatter") != std::string::npos;
}

constexpr std::size_t kMostKernels = 50'000'000;

/// Keeps of each event what the answer needs, and joins kernels with their launches at the end.
class TraceReader {
 public:
  explicit TraceReader(const std::filesystem::path& file) { out_.file = file.string(); }

  void take(const TraceEvent& e) {
    if (e.category == "kernel") take_kernel(e);
    else if (e.category == "cuda_runtime" || e.category == "cuda_driver") take_launch(e);
    else if (e.category == "cpu_op" && e.name.starts_with("autograd::engine::evaluate_function"))
      autograd_.insert(thread(e.thread));
    else if (e.category == "user_annotation" && e.name.starts_with("ProfilerStep"))
      steps_.push_back({e.start, e.start + e.duration});
    else if (e.category == "user_annotation" && e.name.starts_with("Optimizer.step"))
      optimizers_.push_back({e.start, e.start + e.duration});
  }

  TrainingTrace finish(const TraceHead& head) {
    if (kernels_.empty())
      throw file_error(out_.file, "there are no GPU kernels in it",
                       "a trace with ProfilerActivity.CUDA");
    out_.gpu = head.gpu;
    out_.rank = head.rank;
    out_.world = head.world;
    out_.kernels = kernels_.size();
    const auto by_begin = [](const TimeSpan& a, const TimeSpan& b) { return a.begin < b.begin; };
    std::sort(steps_.begin(), steps_.end(), by_begin);
    optimizers_ = merged(std::move(optimizers_));
    for (const TimeSpan& s : steps_) out_.steps.push_back(Seconds{(s.end - s.begin) * 1e-6});
    std::sort(launches_.begin(), launches_.end(),
              [](const Launch& a, const Launch& b) { return a.correlation < b.correlation; });
    unions();
    place_kernels();
    phases();
    place_collectives();
    return std::move(out_);
  }

 private:
  enum class Phase : std::uint8_t { forward, backward, optimizer };
  struct Launch {
    long long correlation = 0;
    double time = 0;
    std::size_t thread = 0;
  };
  struct Kernel {
    TimeSpan time;
    long long correlation = -1;
    int step = -1;
    Phase phase = Phase::forward;
    std::uint32_t collective = 0;  // its number from 1 on; 0: it computes
  };

  std::size_t thread(const std::string& name) {
    return threads_.emplace(name, threads_.size()).first->second;
  }

  void take_launch(const TraceEvent& e) {
    if (e.correlation >= 0 && e.name.find("Launch") != std::string::npos)
      launches_.push_back({e.correlation, e.start, thread(e.thread)});
  }

  void take_kernel(const TraceEvent& e) {
    if (kernels_.size() >= kMostKernels)
      throw file_error(out_.file, fmt::format("more than {} kernels", kMostKernels));
    if (e.name.find("Memcpy") != std::string::npos || e.name.find("Memset") != std::string::npos)
      return;
    Kernel kernel{{e.start, e.start + e.duration}, e.correlation, -1, Phase::forward, 0};
    if (e.name.starts_with("nccl")) {
      KinetoCollective c;
      c.name = e.collective.empty() ? e.name.substr(0, e.name.find('(')) : e.collective;
      c.type = e.type;
      c.elements = std::max(0.0, e.elements);
      if (const double each = element_bytes(e.type); each > 0 && e.elements >= 0)
        c.bytes = Bytes{e.elements * each};
      c.group = e.group;
      c.start = Seconds{e.start};  // µs until all are known
      c.duration = Seconds{e.duration * 1e-6};
      out_.collectives.push_back(std::move(c));
      kernel.collective = static_cast<std::uint32_t>(out_.collectives.size());
    }
    kernels_.push_back(kernel);
  }

  void unions() {
    std::vector<TimeSpan> communicating, computing;
    for (const Kernel& k : kernels_)
      (k.collective > 0 ? communicating : computing).push_back(k.time);
    communicating = merged(std::move(communicating));
    computing = merged(std::move(computing));
    out_.communicating = Seconds{length_of(communicating) * 1e-6};
    out_.computing = Seconds{length_of(computing) * 1e-6};
    out_.both = Seconds{length_of_both(communicating, computing) * 1e-6};
  }

  /// The place among intervals that do not overlap; -1: in none.
  static int place_in(const std::vector<TimeSpan>& all, double time) {
    const auto after = std::upper_bound(all.begin(), all.end(), time,
                                        [](double t, const TimeSpan& i) { return t < i.begin; });
    if (after == all.begin() || time > std::prev(after)->end) return -1;
    return static_cast<int>(after - all.begin()) - 1;
  }

  void place_kernels() {
    for (Kernel& k : kernels_) {
      const auto launch = std::lower_bound(
          launches_.begin(), launches_.end(), k.correlation,
          [](const Launch& l, long long correlation) { return l.correlation < correlation; });
      const bool known = launch != launches_.end() && launch->correlation == k.correlation;
      if (steps_.empty()) k.step = 0;
      else if (known) k.step = place_in(steps_, launch->time);
      if (known && autograd_.contains(launch->thread)) k.phase = Phase::backward;
      else if (known && place_in(optimizers_, launch->time) >= 0) k.phase = Phase::optimizer;
      if (k.phase == Phase::backward) out_.last_step = std::max(out_.last_step, k.step);
    }
  }

  /// From the first computing kernel of a phase in the last step to the end of its last.
  TimeSpan span_of(Phase phase) const {
    TimeSpan span{HUGE_VAL, -HUGE_VAL};
    for (const Kernel& k : kernels_)
      if (k.step == out_.last_step && k.phase == phase && k.collective == 0)
        span = {std::min(span.begin, k.time.begin), std::max(span.end, k.time.end)};
    return span;
  }

  void phases() {
    const TimeSpan forward = span_of(Phase::forward), optimizer = span_of(Phase::optimizer);
    backward_ = span_of(Phase::backward);
    const auto seconds = [](double begin, double end) {
      return Seconds{end > begin && std::isfinite(end - begin) ? (end - begin) * 1e-6 : 0};
    };
    out_.forward = seconds(forward.begin, std::min(forward.end, backward_.begin));
    // What computes on between forward's kernels and backward's first belongs to forward.
    if (std::isfinite(backward_.begin)) out_.forward = seconds(forward.begin, backward_.begin);
    out_.backward = seconds(backward_.begin, backward_.end);
    out_.optimizer = seconds(optimizer.begin, optimizer.end);
  }

  void place_collectives() {
    double first = HUGE_VAL;
    for (const Kernel& k : kernels_) {
      first = std::min(first, k.time.begin);
      if (k.collective == 0) continue;
      KinetoCollective& c = out_.collectives[k.collective - 1];
      c.step = k.step;
      c.of_gradients = k.phase == Phase::backward && reduces_gradients(c.name);
    }
    std::stable_sort(out_.collectives.begin(), out_.collectives.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
    for (KinetoCollective& c : out_.collectives) {
      if (c.of_gradients && c.step == out_.last_step)
        out_.ready.push_back(Seconds{std::max(0.0, c.start.value - backward_.begin) * 1e-6});
      c.start = Seconds{(c.start.value - first) * 1e-6};
    }
  }

  TrainingTrace out_;
  std::map<std::string, std::size_t> threads_;
  std::set<std::size_t> autograd_;
  std::vector<TimeSpan> steps_, optimizers_;
  std::vector<Launch> launches_;
  std::vector<Kernel> kernels_;
  TimeSpan backward_;
};

/// "A100" of "NVIDIA A100-SXM4-40GB".
std::string family_of(std::string gpu) {
  for (const std::string prefix : {"NVIDIA ", "Tesla "})
    if (gpu.starts_with(prefix)) gpu.erase(0, prefix.size());
  return gpu.substr(0, gpu.find_first_of(" -"));
}

/// The peak of the catalogue's first GPU of that family; 0: there is none.
FlopPerSecond peak_of(const std::string& family, Precision precision) {
  const Catalogue catalogue;
  for (const std::string& name : catalogue.names()) {
    const Machine m = catalogue.load(name);
    if (m.gpu && is_model(m.gpu->model, family))
      return precision == Precision::fp16 ? m.gpu->fp16 : m.gpu->fp32;
  }
  return FlopPerSecond{0};
}

}  // namespace

std::vector<KinetoCollective> TrainingTrace::gradients() const {
  std::vector<KinetoCollective> all;
  for (const KinetoCollective& c : collectives)
    if (c.of_gradients && c.step == last_step) all.push_back(c);
  return all;
}

TrainingTrace load_trace(const std::filesystem::path& file) {
  TraceReader reader(file);
  const TraceHead head =
      read_trace_events(file, [&reader](const TraceEvent& event) { reader.take(event); });
  return reader.finish(head);
}

Workload workload_from_trace(const TrainingTrace& trace, const TraceChoices& choices) {
  const std::vector<KinetoCollective> buckets = trace.gradients();
  const auto known = [](const KinetoCollective& c) {
    return c.elements >= 1 && c.elements <= 1e15 && std::floor(c.elements) == c.elements;
  };
  if (buckets.empty() || !std::all_of(buckets.begin(), buckets.end(), known))
    throw file_error(trace.file,
                     buckets.empty()
                         ? "it has no collective that backward launched, so no gradients"
                         : "it does not tell how many elements its collectives have",
                     "a trace of a step of DDP or FSDP, by PyTorch 2.3 or later");
  Workload w;
  w.name = choices.name;
  w.title = fmt::format("traced on {}", trace.gpu.empty() ? "a GPU" : trace.gpu);
  double before = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    constexpr double kLeast = 0.001;  // µs: 0 would mean that nothing was measured
    const double ready = trace.ready[b].value * 1e6;
    w.tensors.push_back({fmt::format("bucket.{}", buckets.size() - 1 - b),
                         static_cast<std::size_t>(buckets[b].elements), 0,
                         std::max(kLeast, ready - before)});
    before = std::max(before, ready);
  }
  std::reverse(w.tensors.begin(), w.tensors.end());  // gradients come last tensor first
  w.parameters = Count{static_cast<double>(w.elements())};
  const std::string family = family_of(trace.gpu);
  const bool half = buckets[0].type == "Half" || buckets[0].type == "BFloat16";
  const Precision precision = half ? Precision::fp16 : Precision::fp32;
  const Seconds step = trace.forward + trace.backward + trace.optimizer;
  const double share = half ? w.estimate.fp16 : w.estimate.fp32;
  const double flop = peak_of(family, precision).value * share * step.value / choices.batch;
  w.variants.push_back({"sample", flop > 0 ? flop / 1e9 : 6 * w.parameters->value / 1e9});
  if (step.value > 0 && !family.empty())
    w.measured.push_back({family, precision, "sample", choices.batch, choices.batch / step.value, 1,
                          "pytorch",
                          "a trace of " + trace.gpu + ", pauses between kernels included"});
  return w;
}

}  // namespace foreduce
