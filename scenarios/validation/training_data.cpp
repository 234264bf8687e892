#include "scenarios/validation/training_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "input/csv.hpp"
#include "models/compute.hpp"
#include "models/rank_layout.hpp"

namespace foreduce {

/// How a source's runs are predicted.
struct TrainingSource {
  std::string source,
      instance;  ///< instance: how the source's name of the machine begins; empty: any
  std::string machine, profile_of;
  int tcp_flows = 0;  ///< more than 0: NCCL over TCP, with so many flows a connection
  bool fit_flow = false, one_node = false, prints_scaling = false;
};
struct TrainingSources {
  struct Name {
    std::string published, workload;
  };
  std::vector<TrainingSource> sources;
  std::vector<Name> workloads;
};
template <class Fields>
void describe(Fields& f, TrainingSource& s) {
  f.required("source", s.source, "of training.csv, up to the colon");
  f.optional("instance", s.instance, "how its name of the machine begins");
  f.required("machine", s.machine, "a file of topologies/, without its ending");
  f.required("profile_of", s.profile_of, "the instance type whose profile fits");
  f.optional("tcp_flows", s.tcp_flows, "NCCL over TCP, with so many flows a connection",
             Limits::at_least(1));
  f.optional("fit_flow", s.fit_flow, "what a flow got is fitted to runs of one GPU a node");
  f.optional("one_node", s.one_node, "only its runs on one node");
  f.optional("prints_scaling", s.prints_scaling,
             "scaling efficiency is printed, the rate of one GPU is not");
}
template <class Fields>
void describe(Fields& f, TrainingSources::Name& n) {
  f.required("published", n.published, "the source's name of a model");
  f.required("workload", n.workload, "ours");
}
template <class Fields>
void describe(Fields& f, TrainingSources& s) {
  f.required("sources", s.sources, "how each source's runs are predicted");
  f.required("workloads", s.workloads, "names of models");
}

namespace {

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// A table of models/reference by the names of its columns.
class Reference {
 public:
  explicit Reference(const char* file)
      : csv_(Csv::load(data_folder() / "models" / "reference" / file)) {}
  const std::vector<Csv::Row>& rows() const { return csv_.rows; }
  const std::string& text(const Csv::Row& row, const char* column) const {
    return row.cells[csv_.column(column)];
  }
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

/// "minutes (14064 steps, GBS 32K)": a whole training, of a fixed number of steps of a fixed number
/// of samples.
struct WholeTraining {
  double steps = 0, samples = 0;
};
std::optional<WholeTraining> whole_training(const std::string& metric) {
  WholeTraining w;
  int thousands = 0;
  if (std::sscanf(metric.c_str(), "minutes (%lf steps, GBS %dK)", &w.steps, &thousands) != 2)
    return std::nullopt;
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
/// Samples of a micro-batch where a source accumulates and does not say: what fits on a V100 of 32
/// GB.
constexpr int kMicroBatch = 64;

/// Seconds of a step, from the metric of its row; null where it says something else.
std::optional<double> step_of(const std::string& metric, double value, int batch, int gpus) {
  if (metric == "step_time_s" || metric == "sec/iter p50" || metric == "sec/iter p75") return value;
  if (metric == "img/s" || metric == "sentences/s" || metric == "seq/s")
    return batch * gpus / value;
  return std::nullopt;
}

/// What one GPU of the same table takes for a step: same source, model, precision and batch; of
/// several, the library's (where it was timed alone with DDP's hooks, with them); of several still,
/// the one that the printed efficiency was computed from.
std::optional<double> alone(const Reference& compute, const Reference& training,
                            const Csv::Row& run, double step, std::optional<double> efficiency) {
  const std::string& library = training.text(run, "library");
  std::vector<double> all, same;
  const int batch = static_cast<int>(training.number(run, "batch_per_gpu").value_or(0));
  for (const Csv::Row& row : compute.rows()) {
    if (compute.text(row, "source_id") != training.text(run, "source_id") ||
        compute.text(row, "model") != training.text(run, "model") ||
        compute.text(row, "precision") != training.text(run, "precision") ||
        compute.number(row, "batch") != training.number(run, "batch_per_gpu"))
      continue;
    const auto takes =
        step_of(compute.text(row, "metric"), compute.number(row, "value").value_or(0), batch, 1);
    if (!takes) continue;
    all.push_back(*takes);
    const std::string& notes = compute.text(row, "notes");
    if (notes.compare(0, library.size() + 1, library + ";") == 0 || has(notes, "DDP, 1 process"))
      same.push_back(*takes);
  }
  const std::vector<double>& fitting = same.empty() ? all : same;
  if (fitting.empty()) return std::nullopt;
  if (!efficiency) return fitting.front();
  return *std::min_element(fitting.begin(), fitting.end(), [&](double a, double b) {
    return std::abs(a / step - *efficiency) < std::abs(b / step - *efficiency);
  });
}

/// The machine that a source's run is predicted on, with the GPUs that took part on each node; null
/// where there is none.
std::optional<Machine> machine_of(const TrainingSource& s, int gpus_per_node) {
  Machine m = load_machine(data_folder() / "topologies" / (s.machine + ".yaml"));
  if (s.tcp_flows > 0) {
    const bool gpudirect = m.nic.gpudirect;
    m = over_ena(m);
    m.nic.gpudirect = gpudirect;
    m.nic.flows = s.tcp_flows;
  }
  if (gpus_per_node > m.gpus()) return std::nullopt;
  return m.with_gpus(gpus_per_node);
}

class RunReader {
 public:
  RunReader() {
    YamlFile file =
        YamlFile::load(data_folder() / "models" / "reference" / "training_sources.yaml");
    read_file(file, sources_);
  }
  std::vector<PublishedRun> all() {
    std::vector<PublishedRun> runs;
    for (const Csv::Row& row : training_.rows())
      if (auto run = read(row)) runs.push_back(std::move(*run));
    return runs;
  }

 private:
  const TrainingSource* source_of(const TrainingPoint& p, const std::string& instance) const {
    for (const TrainingSource& s : sources_.sources)
      if (s.source == p.source && instance.starts_with(s.instance) && (!s.one_node || p.nodes == 1))
        return &s;
    return nullptr;
  }
  std::optional<PublishedRun> read(const Csv::Row& row);
  /// Seconds of a micro-batch on one GPU alone; null where nobody measured it.
  std::optional<double> alone_time(const Csv::Row& row, const TrainingSource& source,
                                   const PublishedRun& run, bool whole) const;
  void make_step(PublishedRun& run, double alone, bool whole);

  Reference training_{"training.csv"}, compute_{"compute.csv"};
  TrainingSources sources_;
  Workloads workloads_;
  std::map<std::string, Workload> known_;
  std::map<std::string, std::shared_ptr<const Profile>> profiles_;
};

std::optional<PublishedRun> RunReader::read(const Csv::Row& row) {
  PublishedRun run;
  TrainingPoint& p = run.point;
  const std::string id = training_.text(row, "source_id"), model = training_.text(row, "model");
  const auto name = std::find_if(sources_.workloads.begin(), sources_.workloads.end(),
                                 [&](const auto& n) { return n.published == model; });
  if (name == sources_.workloads.end()) return std::nullopt;
  const std::string& metric = training_.text(row, "metric");
  const auto whole = whole_training(metric);
  p.source = id.substr(0, id.find(':'));
  p.library = training_.text(row, "library");
  p.workload = name->workload;
  p.precision = has(training_.text(row, "precision"), "AMP") ? "fp16" : "fp32";
  p.line = row.line;
  p.nodes = static_cast<int>(training_.number(row, "nodes").value_or(0));
  p.gpus = static_cast<int>(training_.number(row, "gpus").value_or(0));
  p.batch =
      whole ? kMicroBatch : static_cast<int>(training_.number(row, "batch_per_gpu").value_or(0));
  if (p.nodes < 1 || p.gpus < 2 || p.batch < 1 || p.gpus % p.nodes != 0) return std::nullopt;
  const TrainingSource* source = source_of(p, training_.text(row, "instance"));
  const auto machine = source ? machine_of(*source, p.gpus / p.nodes) : std::nullopt;
  if (!machine) return std::nullopt;
  run.machine = *machine;
  run.fit_flow = source->fit_flow;
  if (whole) run.step.accumulation = static_cast<int>(whole->samples) / p.gpus / kMicroBatch;
  if (source->prints_scaling) run.step.accumulation = accumulation_of(training_.text(row, "notes"));
  const double value = training_.number(row, "value").value_or(0);
  const auto step = whole ? value * 60 / whole->steps
                          : step_of(metric, value, p.batch * run.step.accumulation, p.gpus);
  if (!step) return std::nullopt;
  p.measured_step = *step;
  const auto alone = alone_time(row, *source, run, whole.has_value());
  if (!alone) return std::nullopt;
  p.measured_efficiency = *alone * run.step.accumulation / *step;
  auto& profile = profiles_[source->profile_of];
  if (!profile) profile = std::make_shared<const Profile>(Profiles().made_for(source->profile_of));
  run.profile = profile;
  make_step(run, *alone, whole.has_value());
  return run;
}

std::optional<double> RunReader::alone_time(const Csv::Row& row, const TrainingSource& source,
                                            const PublishedRun& run, bool whole) const {
  const auto printed = training_.number(row, "scaling_efficiency");
  // No GPU was timed alone: the scaling is printed instead, against one node, or against one GPU (1
  // where there is none).
  const bool by_scaling = whole ? run.point.nodes > 1 : source.prints_scaling;
  if (by_scaling && printed && (whole || *printed != 1))
    return *printed * run.point.measured_step / run.step.accumulation;
  if (whole || source.prints_scaling) return std::nullopt;
  return alone(compute_, training_, row, run.point.measured_step, printed);
}

void RunReader::make_step(PublishedRun& run, double alone, bool whole) {
  const TrainingConstants& constants = training_constants();
  const TrainingPoint& p = run.point;
  // Automatic mixed precision keeps fp32 variables, and so fp32 gradients; MXNet casts the whole
  // network (recalled).
  run.element = size_of(p.precision == "fp16" && has(p.library, "MXNet") ? Type::f16 : Type::f32);
  const Workload& w = known_.try_emplace(p.workload, workloads_.load(p.workload)).first->second;
  const Seconds bare =
      without_optimizer(w, *run.machine.gpu, Seconds{alone}, run.step.accumulation);
  run.step.backward = bare * constants.backward_share;
  run.step.forward = bare - run.step.backward;
  run.step.optimizer = (Seconds{alone} - bare) * run.step.accumulation;
  const Cluster cluster(
      std::vector(static_cast<std::size_t>(p.nodes), std::make_shared<const Machine>(run.machine)),
      FabricSpec{});
  run.step.compute_share =
      compute_share(cluster, rank_layout(cluster), *run.profile, SummedBy::gpus);
  run.step.slowest =
      slowest_of(p.gpus, constants.spread) / (whole ? slowest_of(p.gpus / p.nodes, constants.spread)
                                                    : 1);  // of that node, which waited too
  const bool horovod =
      has(p.library, "TensorFlow") || has(p.library, "MXNet") || has(p.library, "Horovod");
  const Bytes cap = has(p.library, "bucket_cap_mb=1") ? Bytes{1 << 20} : constants.bucket;
  run.step.buckets =
      horovod ? horovod_buckets(w.tensors, run.element, constants.fusion_buffer,
                                constants.fusion_cycle, run.step.backward * run.step.slowest)
              : ddp_buckets(w.tensors, run.element, constants.first_bucket, cap);
}

}  // namespace

std::vector<PublishedRun> published_runs() { return RunReader().all(); }

}  // namespace foreduce
