#include "scenarios/validation/training_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "input/csv.hpp"
#include "models/compute.hpp"
#include "models/micro_batch.hpp"
#include "models/nccl_constants.hpp"
#include "models/rank_layout.hpp"
#include "scenarios/validation/nccl_words.hpp"

namespace foreduce {

/// How a source's runs are predicted.
struct TrainingSource {
  std::string source;
  std::string instance;  ///< how the source's name of the machine begins; empty: any
  std::string model;     ///< as the source calls it; empty: any
  std::string machine;
  std::string buckets;  ///< "ddp", "horovod" or "one", which travels when backward has ended;
                        ///< empty: as the library's name says
  std::optional<Precision> gradient;  ///< its type; null: as the library's name says
  std::string nccl;                   ///< the release that it ran; empty: the newest known
  int most_nodes = 0;                 ///< 0: any number
  int tcp_flows = 0;  ///< more than 0: NCCL over TCP, with so many flows a connection
  bool fit_flow = false, one_node = false, prints_scaling = false, base_in_table = false,
       cuda_graphs = false;
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
  f.optional("model", s.model, "as the source calls it, where its models differ");
  f.required("machine", s.machine, "a file of topologies/, without its ending");
  f.optional("buckets", s.buckets, "default: as the library's name says",
             OneOf{"kind of buckets", {"ddp", "horovod", "one"}});
  f.optional("gradient", s.gradient, "default: as the library's name says",
             OneOf{"type", {"fp16", "fp32"}});
  f.optional("nccl", s.nccl, "the release that it ran", OneOf{"release of NCCL", nccl_releases()});
  f.optional("most_nodes", s.most_nodes, "only its runs on so many nodes", Limits::at_least(1));
  f.optional("tcp_flows", s.tcp_flows, "NCCL over TCP, with so many flows a connection",
             Limits::at_least(1));
  f.optional("fit_flow", s.fit_flow, "what a flow got is fitted to runs of one GPU a node");
  f.optional("one_node", s.one_node, "only its runs on one node");
  f.optional("prints_scaling", s.prints_scaling,
             "scaling efficiency is printed, the rate of one GPU is not");
  f.optional("base_in_table", s.base_in_table,
             "compute comes from the same submitter's run on the fewest GPUs, at its batch");
  f.optional("cuda_graphs", s.cuda_graphs, "its steps are replayed as CUDA graphs");
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

using nccl_words::lower;

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

/// "mlperf-v1.1:NVIDIA" of "mlperf-v1.1:NVIDIA/dgxa100_n8_ngc21.09_mxnet".
std::string submitter_of(const std::string& id) { return id.substr(0, id.find('/')); }
/// "(8 x NVIDIA A100-SXM4-80GB (400W))", where one submitter names machines of several kinds.
std::string hardware_of(const std::string& instance) {
  const auto at = instance.find('(');
  return at == std::string::npos ? instance : instance.substr(at);
}

/// The run of the same submitter, hardware, program, model and precision on the fewest GPUs.
const Csv::Row& base_of(const Reference& training, const Csv::Row& run) {
  const auto key = [&](const Csv::Row& row) {
    return submitter_of(training.text(row, "source_id")) + "|" +
           hardware_of(training.text(row, "instance")) + "|" +
           lower(training.text(row, "library")) + "|" + training.text(row, "model") + "|" +
           training.text(row, "precision");
  };
  const std::string wanted = key(run);
  const Csv::Row* base = &run;
  for (const Csv::Row& row : training.rows())
    if (key(row) == wanted && training.number(row, "gpus") < training.number(*base, "gpus"))
      base = &row;
  return *base;
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
  const TrainingSource* source_of(const TrainingPoint& p, const Csv::Row& row) const {
    for (const TrainingSource& s : sources_.sources)
      if (s.source == p.source && training_.text(row, "instance").starts_with(s.instance) &&
          (s.model.empty() || s.model == training_.text(row, "model")) &&
          (s.most_nodes == 0 || p.nodes <= s.most_nodes) && (!s.one_node || p.nodes == 1))
        return &s;
    return nullptr;
  }
  std::optional<PublishedRun> read(const Csv::Row& row);
  /// What one GPU takes alone, and how we know.
  struct Alone {
    double time = 0;  ///< seconds of a micro-batch, the optimizer's step included
    int gpus = 1;     ///< that were measured together, so that the slowest of them counts already
  };
  /// Null where nobody measured it.
  std::optional<Alone> alone_time(const Csv::Row& row, const TrainingSource& source,
                                  const PublishedRun& run, bool whole);
  std::optional<Alone> alone_at_base(const Csv::Row& row, const TrainingSource& source,
                                     const TrainingPoint& p);
  void make_step(PublishedRun& run, const TrainingSource& source, const Alone& alone);
  const Workload& workload_of(const TrainingPoint& p) {
    return known_.try_emplace(p.workload, workloads_.load(p.workload)).first->second;
  }

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
  const std::string& precision = training_.text(row, "precision");
  p.precision = has(precision, "AMP") || has(precision, "FP16") ? Precision::fp16 : Precision::fp32;
  p.line = row.line;
  p.nodes = static_cast<int>(training_.number(row, "nodes").value_or(0));
  p.gpus = static_cast<int>(training_.number(row, "gpus").value_or(0));
  p.batch =
      whole ? kMicroBatch : static_cast<int>(training_.number(row, "batch_per_gpu").value_or(0));
  if (p.nodes < 1 || p.gpus < 2 || p.batch < 1 || p.gpus % p.nodes != 0) return std::nullopt;
  const TrainingSource* source = source_of(p, row);
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
  p.measured_efficiency = alone->time * run.step.accumulation / *step;
  auto& profile = profiles_[run.machine.name + " over " + to_text(run.machine.fabric())];
  if (!profile) profile = std::make_shared<const Profile>(Profiles().nearest_to(run.machine));
  run.profile = profile;
  make_step(run, *source, *alone);
  return run;
}

std::optional<RunReader::Alone> RunReader::alone_time(const Csv::Row& row,
                                                      const TrainingSource& source,
                                                      const PublishedRun& run, bool whole) {
  if (source.base_in_table) return alone_at_base(row, source, run.point);
  const auto printed = training_.number(row, "scaling_efficiency");
  // No GPU was timed alone: the scaling is printed instead, against one node, or against one GPU (1
  // where there is none).
  const bool by_scaling = whole ? run.point.nodes > 1 : source.prints_scaling;
  if (by_scaling && printed && (whole || *printed != 1))
    return Alone{*printed * run.point.measured_step / run.step.accumulation,
                 whole ? run.point.gpus / run.point.nodes : 1};
  if (whole || source.prints_scaling) return std::nullopt;
  const auto time = alone(compute_, training_, row, run.point.measured_step, printed);
  if (!time) return std::nullopt;
  return Alone{*time};
}

std::optional<RunReader::Alone> RunReader::alone_at_base(const Csv::Row& row,
                                                         const TrainingSource& source,
                                                         const TrainingPoint& p) {
  const Csv::Row& base = base_of(training_, row);
  const int gpus = static_cast<int>(training_.number(base, "gpus").value_or(0)),
            batch = static_cast<int>(training_.number(base, "batch_per_gpu").value_or(0));
  const auto step = step_of(training_.text(base, "metric"),
                            training_.number(base, "value").value_or(0), batch, gpus);
  if (gpus >= p.gpus || batch < 1 || !step) return std::nullopt;
  Workload w = workload_of(p);
  w.cuda_graphs = source.cuda_graphs;
  return Alone{at_batch(w, w.variants.front().sample, Seconds{*step}, batch, p.batch).value, gpus};
}

void RunReader::make_step(PublishedRun& run, const TrainingSource& source, const Alone& alone) {
  const TrainingConstants& constants = training_constants();
  const TrainingPoint& p = run.point;
  // Automatic mixed precision keeps fp32 variables, and so fp32 gradients; MXNet casts the whole
  // network (recalled).
  const Precision cast = has(p.library, "MXNet") ? p.precision : Precision::fp32;
  run.nccl = source.nccl;
  run.element = size_of(element_type(source.gradient.value_or(cast)));
  const Workload& w = workload_of(p);
  const Seconds bare =
      without_optimizer(w, *run.machine.gpu, Seconds{alone.time}, 1.0 / run.step.accumulation);
  run.step.backward = bare * constants.backward_share;
  run.step.forward = bare - run.step.backward;
  run.step.optimizer = (Seconds{alone.time} - bare) * run.step.accumulation;
  const Cluster cluster(
      std::vector(static_cast<std::size_t>(p.nodes), std::make_shared<const Machine>(run.machine)),
      FabricSpec{});
  run.step.compute_share =
      compute_share(cluster, rank_layout(cluster), *run.profile, SummedBy::gpus);
  run.step.slowest =
      slowest_of(p.gpus, constants.spread) / slowest_of(alone.gpus, constants.spread);
  const std::string buckets =
      !source.buckets.empty() ? source.buckets
      : has(p.library, "TensorFlow") || has(p.library, "MXNet") || has(p.library, "Horovod")
          ? "horovod"
          : "ddp";
  const Bytes cap = has(p.library, "bucket_cap_mb=1") ? Bytes{1 << 20} : constants.bucket;
  run.step.buckets =
      buckets == "one" ? std::vector<Bucket>{{w.elements(), 1, Seconds{0}}}
      : buckets == "horovod"
          ? horovod_buckets(w.tensors, run.element, constants.fusion_buffer, constants.fusion_cycle,
                            run.step.backward * run.step.slowest)
          : ddp_buckets(w.tensors, run.element, constants.first_bucket, cap);
}

}  // namespace

std::vector<PublishedRun> published_runs() { return RunReader().all(); }

}  // namespace foreduce
