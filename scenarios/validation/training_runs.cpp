#include "scenarios/validation/training_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "input/csv.hpp"
#include "models/rank_layout.hpp"
#include "models/statistics.hpp"
#include "models/step.hpp"
#include "sim/batch.hpp"

namespace foreduce {
namespace {

constexpr const char* kAdaptDl = "adaptdl-g4dn";

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// A table of models/reference by the names of its columns.
class Reference {
 public:
  explicit Reference(const char* file) : csv_(Csv::load(data_folder() / "models" / "reference" / file)) {}
  const std::vector<Csv::Row>& rows() const { return csv_.rows; }
  const std::string& text(const Csv::Row& row, const char* column) const { return row.cells[csv_.column(column)]; }
  /// Null where the source prints nothing.
  std::optional<double> number(const Csv::Row& row, const char* column) const {
    if (text(row, column).empty()) return std::nullopt;
    if (text(row, column)[0] != '.') return csv_.number(row, csv_.column(column));
    Csv::Row whole = row;
    whole.cells[csv_.column(column)].insert(0, "0");
    return csv_.number(whole, csv_.column(column));
  }

 private:
  Csv csv_;
};

/// Ours for a published model; "" where the tensors are not known.
std::string workload_of(const std::string& model) {
  static const std::map<std::string, std::string> kOurs = {{"resnet50", "resnet50"},
                                                           {"ResNet-50", "resnet50"},
                                                           {"ResNet-50 v1.5", "resnet50"},
                                                           {"BERT-base", "bert-base"},
                                                           {"BERT-base phase1 seq128", "bert-base"},
                                                           {"BERT-base SQuAD", "bert-base"},
                                                           {"BERT-large", "bert-large"}};
  const auto found = kOurs.find(model);
  return found == kOurs.end() ? "" : found->second;
}

/// "minutes (14064 steps, GBS 32K)": a whole training, of a fixed number of steps of a fixed number of samples.
struct WholeTraining {
  double steps = 0, samples = 0;
};
std::optional<WholeTraining> whole_training(const std::string& metric) {
  WholeTraining w;
  int thousands = 0;
  if (std::sscanf(metric.c_str(), "minutes (%lf steps, GBS %dK)", &w.steps, &thousands) != 2) return std::nullopt;
  w.samples = thousands * 1024.0;
  return w;
}
/// NVIDIA/DeepLearningExamples names in its notes how many micro-batches it accumulates.
int accumulation_of(const std::string& notes) {
  int accumulation = 1;
  if (const auto at = notes.find("grad_accum="); at != std::string::npos)
    std::sscanf(notes.c_str() + at, "grad_accum=%d", &accumulation);
  return std::max(1, accumulation);
}
/// Samples of a micro-batch where a source accumulates and does not say: what fits on a V100 of 32 GB.
constexpr int kMicroBatch = 64;

/// The machine of a source, with the GPUs that took part on each node. `name`: what the source calls it.
std::optional<Machine> machine_of(const std::string& source, const std::string& name, int nodes, int gpus_per_node) {
  static const std::map<std::string, std::string> kFiles = {{"dlperf", "v100-8-edr"}, {"pytorch-ddp-bench", "dgx-1v"}};
  Machine m;
  if (const auto file = kFiles.find(source); file != kFiles.end()) {
    m = load_machine(data_folder() / "topologies" / "elsewhere" / (file->second + ".yaml"));
  } else if (source == kAdaptDl) {
    // NCCL over TCP: what a flow over ENA can do is in the catalogue, at an instance that has nothing else.
    m = Catalogue().load("g4dn.12xlarge");
    const Nic ena = Catalogue().load("p3.16xlarge").nic;
    m.nic.efa = 0;
    m.nic.latency = ena.latency;
    m.nic.flow_limit = ena.flow_limit;
    m.nic.flows =
        1;  // in a pod NCCL sees a veth without a vendor, so it does not recognise ENA and opens one socket (net_socket, recalled)
  } else if (source == "aws-samples-dlm") {
    m = Catalogue().load("p3dn.24xlarge");
  } else if (source == "dle" && nodes == 1 && name.starts_with("DGX-1 ")) {
    m = load_machine(data_folder() / "topologies" / "elsewhere" / "dgx-1v.yaml");
  } else if (source == "dle" && nodes == 1 && name.starts_with("DGX A100")) {
    m = Catalogue().load("p4d.24xlarge");  // the same board inside
  } else {
    return std::nullopt;
  }
  if (gpus_per_node > m.gpus()) return std::nullopt;
  return m.with_gpus(gpus_per_node);
}

/// Seconds of a step, from the metric of its row; null where it says something else.
std::optional<double> step_of(const std::string& metric, double value, int batch, int gpus) {
  if (metric == "step_time_s" || metric == "sec/iter p50" || metric == "sec/iter p75") return value;
  if (metric == "img/s" || metric == "sentences/s" || metric == "seq/s") return batch * gpus / value;
  return std::nullopt;
}

/// What one GPU of the same table takes for a step: same source, model, precision and batch; of several, the library's (where it
/// was timed alone with DDP's hooks, with them); of several still, the one that the printed efficiency was computed from.
std::optional<double> alone(const Reference& compute, const Reference& training, const Csv::Row& run, double step,
                            std::optional<double> efficiency) {
  const std::string& library = training.text(run, "library");
  std::vector<double> all, same;
  const int batch = static_cast<int>(training.number(run, "batch_per_gpu").value_or(0));
  for (const Csv::Row& row : compute.rows()) {
    if (compute.text(row, "source_id") != training.text(run, "source_id") ||
        compute.text(row, "model") != training.text(run, "model") ||
        compute.text(row, "precision") != training.text(run, "precision") ||
        compute.number(row, "batch") != training.number(run, "batch_per_gpu"))
      continue;
    const auto takes = step_of(compute.text(row, "metric"), compute.number(row, "value").value_or(0), batch, 1);
    if (!takes) continue;
    all.push_back(*takes);
    const std::string& notes = compute.text(row, "notes");
    if (notes.compare(0, library.size() + 1, library + ";") == 0 || has(notes, "DDP, 1 process")) same.push_back(*takes);
  }
  const std::vector<double>& fitting = same.empty() ? all : same;
  if (fitting.empty()) return std::nullopt;
  if (!efficiency) return fitting.front();
  return *std::min_element(fitting.begin(), fitting.end(),
                           [&](double a, double b) { return std::abs(a / step - *efficiency) < std::abs(b / step - *efficiency); });
}

/// One published run, ready to be predicted.
struct Job {
  TrainingPoint point;
  StepInput step;
  std::size_t element = 0;  ///< bytes of a gradient's element
  Machine machine;
  std::shared_ptr<const Profile> profile;
};
/// How long an all-reduce of so many elements takes: as predicted, and its bounds.
using Times = std::map<std::size_t, Expected>;

/// Each job's all-reduces, simulated on `cores` cores; equal ones once. Throws std::runtime_error where one cannot be.
std::vector<Times> simulated(const std::vector<Job>& all, int cores) {
  std::vector<Question> questions;
  std::vector<std::vector<std::size_t>> numbers;
  std::map<std::string, std::size_t> asked;
  std::map<std::string, std::shared_ptr<const Cluster>> clusters;
  for (const Job& job : all) {
    const std::string where = fmt::format("{}|{}|{}|{}|{}", job.point.source, job.machine.name, job.point.nodes, job.point.gpus,
                                          job.machine.nic.flow_limit.value);
    auto& cluster = clusters[where];
    if (!cluster)
      cluster = std::make_shared<const Cluster>(
          std::vector(static_cast<std::size_t>(job.point.nodes), std::make_shared<const Machine>(job.machine)), FabricSpec{});
    auto& of = numbers.emplace_back();
    for (const Bucket& b : job.step.buckets) {
      const Bytes bytes{static_cast<double>(b.elements * job.element)};
      const auto [at, fresh] = asked.try_emplace(fmt::format("{}|{}", where, bytes.value), questions.size());
      // NCCL before 2.8 over PCIe and one socket runs a ring; no profile knows it.
      if (fresh) questions.push_back({cluster, job.profile, bytes, job.profile->protocols.empty() ? "ring" : "nccl"});
      of.push_back(at->second);
    }
  }
  const std::vector<Expected> expected = expected_all_reduces(questions, cores);
  std::vector<Times> times(all.size());
  for (std::size_t j = 0; j < all.size(); ++j)
    for (std::size_t i = 0; i < numbers[j].size(); ++i) {
      const Expected& e = expected[numbers[j][i]];
      if (!e.error.empty()) throw std::runtime_error("an all-reduce could not be simulated: " + e.error);
      times[j][all[j].step.buckets[i].elements] = e;
    }
  return times;
}

/// AdaptDL's table does not say what a TCP flow got between its hosts, and it was not the same between all: what its runs of one
/// GPU a node say of each set of hosts (absolute errors' least sum) is what its runs of several GPUs on them are predicted with.
void measure_flows(std::vector<Job>& all, int cores) {
  constexpr double kSlowest = 0.1e9, kFastest = 1.25e9;  // bytes/s
  const auto gives = [](const Job& job) {
    return job.point.source == kAdaptDl && job.point.nodes > 1 && job.point.gpus == job.point.nodes;
  };
  std::vector<Job> slow, fast;
  for (const Job& job : all)
    if (gives(job)) {
      slow.push_back(job);
      slow.back().machine.nic.flow_limit = BytesPerSecond{kSlowest};
      fast.push_back(job);
      fast.back().machine.nic.flow_limit = BytesPerSecond{kFastest};
    }
  const std::vector<Times> at_slow = simulated(slow, cores), at_fast = simulated(fast, cores);
  /// A ring's time is a latency and so many bytes over the flow's rate.
  const auto error = [&](int nodes, double rate) {
    const double part = (1 / rate - 1 / kFastest) / (1 / kSlowest - 1 / kFastest);
    double sum = 0;
    for (std::size_t j = 0; j < slow.size(); ++j) {
      if (slow[j].point.nodes != nodes) continue;
      const Step step = play_step(slow[j].step, [&](std::size_t n) {
        return at_fast[j].at(n).time + (at_slow[j].at(n).time - at_fast[j].at(n).time) * part;
      });
      sum += std::abs(std::log(slow[j].point.measured_step / step.total.value));
    }
    return sum;
  };
  std::map<int, double> flows;
  for (const Job& job : slow) {
    auto [at, fresh] = flows.try_emplace(job.point.nodes, kSlowest);
    if (!fresh) continue;
    for (double rate = kSlowest, least = error(job.point.nodes, rate); rate < kFastest; rate *= 1.01)
      if (const double e = error(job.point.nodes, rate); e < least) {
        least = e;
        at->second = rate;
      }
  }
  for (Job& job : all) {
    const auto found = job.point.source == kAdaptDl ? flows.find(job.point.nodes) : flows.end();
    if (found == flows.end()) continue;
    job.machine.nic.flow_limit = BytesPerSecond{found->second};
    job.point.flow = job.machine.nic.flow_limit;
    job.point.gave_flow = gives(job);
  }
}

}  // namespace

std::vector<TrainingPoint> training_reference(int jobs) {
  const Reference training("training.csv"), compute("compute.csv");
  const Workloads workloads;
  const TrainingConstants& constants = training_constants();
  std::map<std::string, Workload> known;

  std::vector<Job> all;
  std::map<std::string, std::shared_ptr<const Profile>> profiles;

  for (const Csv::Row& run : training.rows()) {
    Job job;
    TrainingPoint& p = job.point;
    const std::string id = training.text(run, "source_id");
    p.source = id.substr(0, id.find(':'));
    p.library = training.text(run, "library");
    p.workload = workload_of(training.text(run, "model"));
    p.precision = has(training.text(run, "precision"), "AMP") ? "fp16" : "fp32";
    p.line = run.line;
    if (p.workload.empty()) continue;
    p.nodes = static_cast<int>(training.number(run, "nodes").value_or(0));
    p.gpus = static_cast<int>(training.number(run, "gpus").value_or(0));
    p.batch = static_cast<int>(training.number(run, "batch_per_gpu").value_or(0));
    const double value = training.number(run, "value").value_or(0);
    const auto whole = whole_training(training.text(run, "metric"));
    if (whole) p.batch = kMicroBatch;
    if (p.nodes < 1 || p.gpus < 2 || p.batch < 1 || p.gpus % p.nodes != 0) continue;
    const bool dle = p.source == "dle";
    const auto machine = machine_of(p.source, training.text(run, "instance"), p.nodes, p.gpus / p.nodes);
    if (whole) job.step.accumulation = static_cast<int>(whole->samples) / p.gpus / kMicroBatch;
    if (dle) job.step.accumulation = accumulation_of(training.text(run, "notes"));
    const auto step =
        whole ? value * 60 / whole->steps : step_of(training.text(run, "metric"), value, p.batch * job.step.accumulation, p.gpus);
    const auto printed = training.number(run, "scaling_efficiency");
    auto one = step && !whole && !dle ? alone(compute, training, run, *step, printed) : std::nullopt;
    // Of one node: no GPU was timed alone. DeepLearningExamples print the scaling only (1 where they have none).
    if (step && printed && (whole ? p.nodes > 1 : dle && *printed != 1)) one = *printed * *step / job.step.accumulation;
    if (!machine || !step || !one) continue;
    p.measured_step = *step;
    p.measured_efficiency = *one * job.step.accumulation / *step;

    // Automatic mixed precision keeps fp32 variables, and so fp32 gradients; MXNet casts the whole network (recalled).
    const Type gradient = p.precision == "fp16" && has(p.library, "MXNet") ? Type::f16 : Type::f32;
    const Workload& w = known.try_emplace(p.workload, workloads.load(p.workload)).first->second;
    const Seconds bare = without_optimizer(w, *machine->gpu, Seconds{*one}, job.step.accumulation);
    job.step.backward = bare * constants.backward_share;
    job.step.forward = bare - job.step.backward;
    job.step.optimizer = (Seconds{*one} - bare) * job.step.accumulation;
    auto& profile = profiles[p.source + machine->gpu->model];
    if (!profile)
      profile = std::make_shared<const Profile>(Profiles().made_for(p.source == kAdaptDl ? "g4dn.12xlarge"
                                                                    : machine->gpu->model.starts_with("A100")
                                                                        ? "p4d.24xlarge"
                                                                        : "p3.16xlarge"));  // by the GPU
    job.profile = profile;
    const Cluster cluster(std::vector(static_cast<std::size_t>(p.nodes), std::make_shared<const Machine>(*machine)), FabricSpec{});
    job.step.compute_share = compute_share(cluster, rank_layout(cluster), *profile, false);
    job.step.slowest = slowest_of(p.gpus, constants.spread) /
                       (whole ? slowest_of(p.gpus / p.nodes, constants.spread) : 1);  // of that node, which waited too
    const bool horovod = has(p.library, "TensorFlow") || has(p.library, "MXNet") || has(p.library, "Horovod");
    const Bytes cap = has(p.library, "bucket_cap_mb=1") ? Bytes{1 << 20} : constants.bucket;
    job.step.buckets = horovod ? horovod_buckets(w.tensors, size_of(gradient), constants.fusion_buffer, constants.fusion_cycle,
                                                 job.step.backward * job.step.slowest)
                               : ddp_buckets(w.tensors, size_of(gradient), constants.first_bucket, cap);

    job.element = size_of(gradient);
    job.machine = *machine;
    all.push_back(std::move(job));
  }

  measure_flows(all, jobs);
  const std::vector<Times> times = simulated(all, jobs);
  std::vector<TrainingPoint> points;
  for (std::size_t j = 0; j < all.size(); ++j) {
    Job& job = all[j];
    const AllReduceTime usual = [&](std::size_t elements) { return times[j].at(elements).time; };
    const Step step = play_step(job.step, usual);
    const StepSpan span = span_of_step(
        job.step, usual, [&](std::size_t elements) { return times[j].at(elements).low; },
        [&](std::size_t elements) { return times[j].at(elements).high; }, constants.same_within);
    job.point.low = span.low.value;
    job.point.high = span.high.value;
    job.point.predicted_step = step.total.value;
    job.point.predicted_efficiency = step.compute / step.total;
    points.push_back(std::move(job.point));
  }
  for (TrainingPoint& p : points)
    for (const TrainingPoint& one : points) {
      const double alone = p.measured_efficiency * p.measured_step, there = one.measured_efficiency * one.measured_step;
      if (p.nodes > 1 && one.nodes == 1 && one.gpus * p.nodes == p.gpus && one.source == p.source && one.library == p.library &&
          one.workload == p.workload && one.precision == p.precision && one.batch == p.batch && std::abs(alone / there - 1) < 1e-3)
        p.error_from_one_node = p.measured_step / one.measured_step / (p.predicted_step / one.predicted_step) - 1;
    }
  return points;
}

std::vector<TrainingErrors> training_errors(const std::vector<TrainingPoint>& points) {
  std::map<std::string, std::vector<const TrainingPoint*>> groups;
  std::vector<const TrainingPoint*> beyond, others;
  for (const TrainingPoint& p : points) {
    groups[p.source + (p.gave_flow ? ", gave the flows" : p.nodes == 1 ? ", one node" : ", more nodes")].push_back(&p);
    if (p.nodes > 1 && !p.gave_flow) beyond.push_back(&p);
    if (p.nodes > 1 && p.source != kAdaptDl) others.push_back(&p);
  }
  std::vector<TrainingErrors> all;
  const auto sum_up = [&](const std::string& name, const std::vector<const TrainingPoint*>& of) {
    std::vector<double> absolute, signed_, efficiency, from_one_node;
    std::size_t inside = 0;
    for (const TrainingPoint* p : of) {
      absolute.push_back(std::abs(p->error()));
      signed_.push_back(p->error());
      efficiency.push_back(std::abs(p->predicted_efficiency - p->measured_efficiency));
      inside += p->low <= p->measured_step && p->measured_step <= p->high;
      if (p->error_from_one_node) from_one_node.push_back(std::abs(*p->error_from_one_node));
    }
    const auto worst = [](const std::vector<double>& errors) {
      return errors.empty() ? 0 : *std::max_element(errors.begin(), errors.end());
    };
    all.push_back({name, of.size(), median(absolute), worst(absolute), median(signed_),
                   of.empty() ? 0 : static_cast<double>(inside) / static_cast<double>(of.size()), median(efficiency),
                   from_one_node.size(), median(from_one_node), worst(from_one_node)});
  };
  for (const auto& [name, of] : groups) sum_up(name, of);
  sum_up("all beyond one node", beyond);
  sum_up("the same without adaptdl-g4dn", others);
  return all;
}

Table training_table(const std::vector<TrainingErrors>& errors) {
  Table table;
  table.headings = {"training", "n", "median", "worst", "bias", "inside", "efficiency", "from one node: n", "median", "worst"};
  for (const TrainingErrors& e : errors) {
    table.rows.push_back({e.group, fmt::format("{}", e.n), fmt::format("{:.1f} %", 100 * e.median),
                          fmt::format("{:.0f} %", 100 * e.worst), fmt::format("{:+.1f} %", 100 * e.bias),
                          fmt::format("{:.0f} %", 100 * e.inside), fmt::format("{:.1f} points", 100 * e.efficiency),
                          fmt::format("{}", e.n_from_one_node),
                          e.n_from_one_node ? fmt::format("{:.1f} %", 100 * e.median_from_one_node) : "-",
                          e.n_from_one_node ? fmt::format("{:.0f} %", 100 * e.worst_from_one_node) : "-"});
  }
  return table;
}

}  // namespace foreduce
