#include "scenarios/sweep/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "scenarios/sweep/cases.hpp"

namespace foreduce {
namespace {

/// The slowest GPU sets the pace of a mixed cluster.
ComputeTime slowest(const Workload& workload, const Cluster& cluster, const std::string& precision,
                    const std::string& sample, int batch) {
  ComputeTime slow;
  for (int n = 0; n < cluster.worker_nodes(); ++n) {
    if (n > 0 && &cluster.node(n) == &cluster.node(n - 1)) continue;
    const ComputeTime t =
        compute_time(workload, *cluster.node(n).machine().gpu, precision, sample, batch);
    if (n == 0 || t.forward_backward > slow.forward_backward) slow = t;
  }
  return slow;
}

/// Of the GPUs; 0 where one's is unknown.
Bytes smallest_memory(const Cluster& cluster) {
  Bytes least = cluster.node(0).machine().gpu->memory;
  for (int n = 1; n < cluster.worker_nodes(); ++n)
    least = std::min(least, cluster.node(n).machine().gpu->memory);
  return least;
}

/// The all-reduces of one step on one cluster: for each bucket a question a candidate.
struct StepQuestions {
  std::vector<std::vector<std::size_t>> numbers;  // by bucket and candidate
  std::vector<std::vector<double>> shares;        // speed of backward beside each of them
  double slowest = 1;  // compute time of the slowest GPU over the usual one's
};

/// A point on its way to its answer.
struct Job {
  Prediction point;
  std::vector<std::size_t> questions;  // all that the answer needs
  StepInput step;
  std::vector<Candidate> candidates;
  StepQuestions here, on_one_node;
  double compute_within = 1;
  double per_gpu = 0;       // samples per second of one GPU alone
  std::size_t element = 0;  // bytes of a gradient's element
  bool fresh = false;       // asks something that no point before it asked
};

enum Axis : std::size_t {
  kModel,
  kPrecision,
  kGradient,
  kBatch,
  kSplit,
  kSpread,
  kCluster,
  kMethod,
  kBucket
};

class Predictor {
 public:
  Predictor(const Scenario& scenario, const SweepOptions& options, Asked asked)
      : scenario_(scenario),
        options_(options),
        workload_(*scenario.workload),
        hash_(scenario.hash),
        asked_(asked) {}

  Sweep<Prediction> run(const OnPoint<Prediction>& on_point);

 private:
  AxisProduct expand();
  Job prepare(std::size_t number, const std::vector<std::size_t>& at);
  void describe_case(Prediction& p, const std::vector<std::size_t>& at, const ClusterCase& c,
                     const Method& method);
  std::optional<double> own_rate(const Prediction& p, const Workload& workload,
                                 const Gpu& gpu) const;
  void prepare_step(Job& job, const ComputeTime& compute, const Workload& workload);
  void ask(Job& job, const ClusterCase& c, const Method& method);
  void ask_bucket(StepQuestions& of, const std::vector<Candidate>& candidates, std::size_t elements,
                  Type type);
  double compute_share_beside(const Candidate& c, const Algorithm& algorithm) const;
  void answer(Job& job) const;
  void note_cost(Job& job) const;
  void answer_interval(Job& job, const std::vector<std::size_t>& picks) const;
  void answer_rates(Job& job, const std::vector<std::size_t>& picks) const;
  StepInput input_of(const Job& job, const StepQuestions& of,
                     const std::vector<std::size_t>& picks) const;
  AllReduceTime times_of(const Job& job, const StepQuestions& of,
                         const std::vector<std::size_t>& picks,
                         const std::vector<double>& stretch) const;
  std::vector<std::size_t> pick(const Job& job, const StepQuestions& of) const;

  const Scenario& scenario_;
  const SweepOptions& options_;
  const WorkloadSpec& workload_;
  QuestionHash hash_;
  Asked asked_;
  const TrainingConstants& constants_ = training_constants();
  Batch batch_;
  std::optional<Clusters> clusters_;
  std::optional<TransportProfiles> profiles_;
  std::vector<Workload> models_;
  std::vector<std::string> samples_;
  std::vector<Method> methods_;
  std::vector<Bytes> buckets_;
  std::vector<double> spreads_;
  bool by_global_batch_ = false;
};

/// Reads what the axes name, and says how many values each has.
AxisProduct Predictor::expand() {
  clusters_.emplace(scenario_, hash_);
  profiles_.emplace(scenario_, hash_);
  methods_ = methods_of(scenario_.allreduce);
  for (const std::string& model : workload_.model.values) {
    models_.push_back(workload_of(scenario_, model));
    if (names_file(model)) hash_.add(std::filesystem::path(scenario_.file).parent_path() / model);
    samples_.push_back(sample_of(scenario_, models_.back()));
  }
  buckets_ = scenario_.allreduce.bucket.values;
  if (buckets_.empty())
    buckets_.push_back(scenario_.allreduce.bucketing == "horovod" ? constants_.fusion_buffer
                                                                  : constants_.bucket);
  by_global_batch_ = !workload_.global_batch.values.empty();
  const std::size_t splits = by_global_batch_ ? workload_.global_batch.values.size()
                                              : workload_.accumulation.values.size();
  spreads_ = workload_.spread.values;
  if (spreads_.empty()) spreads_.push_back(constants_.spread);
  return AxisProduct({models_.size(), workload_.precision.values.size(),
                      std::max<std::size_t>(1, workload_.gradient.values.size()),
                      workload_.batch_per_gpu.values.size(), splits, spreads_.size(),
                      clusters_->cases().size(), methods_.size(), buckets_.size()});
}

void Predictor::describe_case(Prediction& p, const std::vector<std::size_t>& at,
                              const ClusterCase& c, const Method& method) {
  p.model = models_[at[kModel]].name;
  p.sample = samples_[at[kModel]];
  p.precision = workload_.precision.values[at[kPrecision]];
  p.gradient = !workload_.gradient.values.empty() ? workload_.gradient.values[at[kGradient]]
               : p.precision == "tf32"            ? "fp32"
                                                  : p.precision;
  p.batch_per_gpu = workload_.batch_per_gpu.values[at[kBatch]];
  p.instance = c.instance;
  p.nodes = c.nodes;
  p.gpus = c.cluster ? c.cluster->gpus() : 0;
  p.oversubscription = c.oversubscription;
  p.placement = c.placement;
  p.spread = spreads_[at[kSpread]];
  p.method = method.kind;
  p.algorithm = method.name();
  p.inner = method.inner;
  p.servers = method.servers;
  p.segments = method.segments;
  p.profile = profiles_->name(method.profile, c.cluster);
  p.bucket = buckets_[at[kBucket]];
  p.error = c.error;
  p.accumulation =
      (by_global_batch_ ? workload_.global_batch : workload_.accumulation).values[at[kSplit]];
  if (!by_global_batch_) return;
  const std::int64_t split = p.accumulation,
                     each = std::max<std::int64_t>(1, std::int64_t{p.batch_per_gpu} * p.gpus);
  p.accumulation = static_cast<int>(std::max<std::int64_t>(1, split / each));
  if (p.error.empty() && p.accumulation * each != split)
    p.error = fmt::format("a step of {} samples cannot be cut into micro-batches of {} on {} GPUs",
                          split, p.batch_per_gpu, p.gpus);
}

/// The point's questions, or why it has no answer.
Job Predictor::prepare(std::size_t number, const std::vector<std::size_t>& at) {
  Job job;
  Prediction& p = job.point;
  p.number = number;
  const ClusterCase& c = clusters_->cases()[at[kCluster]];
  const Method& method = methods_[at[kMethod]];
  const Workload& workload = models_[at[kModel]];
  describe_case(p, at, c, method);
  if (!p.error.empty()) return job;
  ComputeTime compute;
  bool own_rate_given = false;
  try {
    job.candidates = candidates_of(method, c, *clusters_, *profiles_, scenario_.allreduce.channels);
    const Gpu& gpu = *c.cluster->node(0).machine().gpu;
    const std::optional<double> own = own_rate(p, workload, gpu);
    own_rate_given = own.has_value();
    compute = own ? compute_time(workload, gpu, p.precision, p.sample, p.batch_per_gpu, *own)
                  : slowest(workload, *c.cluster, p.precision, p.sample, p.batch_per_gpu);
  } catch (const InputError& e) {
    p.error = words_of(e);
    return job;
  }
  const Cluster& cluster = *job.candidates.front().cluster;
  p.priced = cluster.priced();
  p.price = cluster.price();
  p.compute_source = compute.source;
  p.compute_measured = compute.measured;
  p.state = training_state(workload, workload_.state);
  p.recompute = workload_.recompute;
  p.activations = activations(workload, p.sample, p.precision, p.batch_per_gpu,
                              p.recompute ? Activations::recomputed : Activations::kept);
  p.gpu_memory = smallest_memory(cluster);
  // Forward is a third of the arithmetic; what the asker measured has it twice already.
  const bool again = p.recompute && !own_rate_given;
  if (again) compute.forward_backward = compute.forward_backward * (4.0 / 3);
  job.compute_within = compute.within;
  job.per_gpu = p.batch_per_gpu * p.accumulation /
                (compute.forward_backward * p.accumulation + compute.optimizer).value;
  job.here.slowest = slowest_of(p.gpus, p.spread);
  job.on_one_node.slowest = slowest_of(p.gpus / p.nodes, p.spread);
  job.element = size_of(type_named(p.gradient));
  prepare_step(job, compute, workload);
  ask(job, c, method);
  return job;
}

/// What the asker measured one GPU to do in such a case, in samples a second.
std::optional<double> Predictor::own_rate(const Prediction& p, const Workload& workload,
                                          const Gpu& gpu) const {
  if (workload_.samples_per_s) return workload_.samples_per_s;
  for (const OwnRate& m : workload_.measured) {
    if (m.instance != p.instance || (!m.precision.empty() && m.precision != p.precision) ||
        (m.batch > 0 && m.batch != p.batch_per_gpu))
      continue;
    if (m.samples_per_s) return m.samples_per_s;
    if (m.mfu) {
      const Seconds least = compute_at_peak(workload, gpu, p.precision, p.sample, 1);
      if (least.value <= 0)
        throw input_error(
            fmt::format("mfu: the {} peak of {} is not known", p.precision, gpu.model),
            "samples_per_s");
      return *m.mfu / least.value;
    }
    const double tokens = tokens_of(p.sample);
    if (tokens <= 0)
      throw input_error(fmt::format("tokens_per_s: a sample of {} is no number of tokens", p.model),
                        "samples_per_s");
    return *m.tokens_per_s / tokens;
  }
  return std::nullopt;
}

void Predictor::prepare_step(Job& job, const ComputeTime& compute, const Workload& workload) {
  StepInput& in = job.step;
  const double forward = 1 - constants_.backward_share;  // without recomputing, of all
  in.backward = compute.forward_backward *
                (workload_.recompute ? 1 / (1 + forward) : constants_.backward_share);
  in.forward = compute.forward_backward - in.backward;
  in.optimizer = compute.optimizer;
  in.least_compute = compute.least;
  in.accumulation = job.point.accumulation;
  const auto& bucketing = scenario_.allreduce.bucketing;
  job.step.buckets =
      bucketing == "ddp"
          ? ddp_buckets(workload.tensors, job.element,
                        scenario_.allreduce.first_bucket.value_or(constants_.first_bucket),
                        job.point.bucket)
      : bucketing == "smddp"
          ? balanced_buckets(workload.tensors, job.element, job.point.bucket)
          : horovod_buckets(workload.tensors, job.element, job.point.bucket,
                            constants_.fusion_cycle, job.step.backward * job.here.slowest);
}

/// Asks for every bucket's all-reduce, here and on one node of the same kind.
void Predictor::ask(Job& job, const ClusterCase& c, const Method& method) {
  const Type type = type_named(job.point.gradient);
  std::vector<Candidate> alone;
  if (const ClusterCase* one = clusters_->one_node(c)) {
    try {
      const int rails = static_cast<int>(clusters_->layout(one->cluster)->channels.size());
      alone = candidates_of(method, *one, *clusters_, *profiles_,
                            std::min(scenario_.allreduce.channels, rails));
    } catch (const InputError&) {  // what needs several nodes has nothing to compare with
    }
  }
  std::set<std::size_t> all;
  for (const Bucket& b : job.step.buckets) {
    const std::size_t known = batch_.size();
    ask_bucket(job.here, job.candidates, b.elements, type);
    job.fresh = job.fresh || batch_.size() > known;
    all.insert(job.here.numbers.back().begin(), job.here.numbers.back().end());
    if (alone.empty()) continue;
    ask_bucket(job.on_one_node, alone, b.elements, type);
    all.insert(job.on_one_node.numbers.back().begin(), job.on_one_node.numbers.back().end());
  }
  job.questions.assign(all.begin(), all.end());
}

void Predictor::ask_bucket(StepQuestions& of, const std::vector<Candidate>& candidates,
                           std::size_t elements, Type type) {
  auto& numbers = of.numbers.emplace_back();
  auto& shares = of.shares.emplace_back();
  for (const Candidate& candidate : candidates) {
    const Question question = candidate.question(elements, type);
    shares.push_back(compute_share_beside(candidate, *question.schedule.algorithm));
    numbers.push_back(batch_.ask(question));
  }
}

double Predictor::compute_share_beside(const Candidate& c, const Algorithm& algorithm) const {
  if (scenario_.allreduce.compute_share) return *scenario_.allreduce.compute_share;
  if (c.method.uses_servers()) return constants_.compute_share_servers;
  return compute_share(*c.cluster, *c.layout, *c.profile,
                       algorithm.name.starts_with("nvls") ? SummedBy::switches : SummedBy::gpus,
                       c.method.nccl_channels);
}

/// The step with the candidate that `picks` says for each bucket.
StepInput Predictor::input_of(const Job& job, const StepQuestions& of,
                              const std::vector<std::size_t>& picks) const {
  StepInput step = job.step;
  step.slowest = of.slowest;
  for (std::size_t i = 0; i < picks.size(); ++i)
    step.compute_share =
        i == 0 ? of.shares[i][picks[i]] : std::min(step.compute_share, of.shares[i][picks[i]]);
  return step;
}

/// How long the step's all-reduces take. `stretch`: factor for each bucket's time; empty: 1.
AllReduceTime Predictor::times_of(const Job& job, const StepQuestions& of,
                                  const std::vector<std::size_t>& picks,
                                  const std::vector<double>& stretch) const {
  std::map<std::size_t, Seconds> times;
  for (std::size_t i = 0; i < picks.size(); ++i)
    times[job.step.buckets[i].elements] =
        batch_[of.numbers[i][picks[i]]].result.time * (stretch.empty() ? 1 : stretch[i]);
  return [times = std::move(times)](std::size_t elements) { return times.at(elements); };
}

/// What makes the step shortest: the fastest for each bucket, or one for all, which may leave the
/// GPU more to compute with.
std::vector<std::size_t> Predictor::pick(const Job& job, const StepQuestions& of) const {
  const auto total = [&](const std::vector<std::size_t>& picks) {
    return play_step(input_of(job, of, picks), times_of(job, of, picks, {})).total;
  };
  std::vector<std::size_t> best;
  for (const auto& numbers : of.numbers) best.push_back(batch_.fastest(numbers));
  const std::size_t candidates = of.numbers.empty() ? 0 : of.numbers[0].size();
  for (std::size_t c = 0; candidates > 1 && c < candidates; ++c) {
    const bool all_ok = std::all_of(of.numbers.begin(), of.numbers.end(),
                                    [&](const auto& n) { return batch_[n[c]].ok; });
    const std::vector<std::size_t> one(of.numbers.size(), c);
    if (all_ok && total(one) < total(best)) best = one;
  }
  return best;
}

/// What the point's simulations cost, and whether they all ended well.
void Predictor::note_cost(Job& job) const {
  Prediction& p = job.point;
  std::set<std::size_t> distinct;
  for (const auto& numbers : job.here.numbers) distinct.insert(numbers.begin(), numbers.end());
  bool symmetric = false, all_from_disk = !distinct.empty();
  for (const std::size_t n : distinct) {
    const Outcome& outcome = batch_[n];
    all_from_disk = all_from_disk && outcome.from_disk;
    p.messages += outcome.result.messages;
    p.wall_seconds += outcome.result.wall_seconds;
    p.peak_rss_bytes = std::max(p.peak_rss_bytes, outcome.result.peak_rss_bytes);
    p.extrapolation_error = std::max(p.extrapolation_error, outcome.extrapolation_error);
    symmetric = symmetric || outcome.result.symmetric;
  }
  p.mode = !job.fresh || all_from_disk ? SimulationMode::cached
           : symmetric                 ? SimulationMode::symmetric
                                       : SimulationMode::full;
  for (const auto& numbers : job.here.numbers) {
    if (!batch_.all_known(numbers)) p.error = kInterrupted;
    if (const Outcome& best = batch_[numbers[batch_.fastest(numbers)]];
        !best.ok && p.error.empty()) {
      p.error = best.error;
      p.died = true;
    }
  }
}

void Predictor::answer(Job& job) const {
  Prediction& p = job.point;
  if (!p.error.empty()) return;
  note_cost(job);
  if (!p.error.empty()) return;
  const std::vector<std::size_t> picks = pick(job, job.here);
  p.step = play_step(input_of(job, job.here, picks), times_of(job, job.here, picks, {}));
  answer_interval(job, picks);
  answer_rates(job, picks);
}

/// The step's interval from its all-reduces' and from compute's.
void Predictor::answer_interval(Job& job, const std::vector<std::size_t>& picks) const {
  Prediction& p = job.point;
  std::vector<double> low, high;
  p.interval.known = true;
  for (std::size_t i = 0; i < job.step.buckets.size(); ++i) {
    const std::size_t winner = job.here.numbers[i][picks[i]];
    const Seconds time = batch_[winner].result.time;
    const Bytes bytes{static_cast<double>(job.step.buckets[i].elements * job.element)};
    const Interval interval = job.candidates[picks[i]].interval(bytes, time);
    low.push_back(time.value > 0 ? interval.low / time : 1);
    high.push_back(time.value > 0 ? interval.high / time : 1);
    p.interval.known = p.interval.known && (interval.known || time.value == 0);
    if (p.interval.widened.empty()) p.interval.widened = interval.widened;
    const std::string& name = batch_.question(winner).schedule.name;
    if (p.method != MethodKind::ours &&
        std::find(p.chosen.begin(), p.chosen.end(), name) == p.chosen.end())
      p.chosen.push_back(name);
  }
  const StepSpan span =
      span_of_step(input_of(job, job.here, picks), times_of(job, job.here, picks, {}),
                   times_of(job, job.here, picks, low), times_of(job, job.here, picks, high),
                   job.compute_within);
  p.interval.low = span.low;
  p.interval.high = span.high;
  if (!p.compute_measured)
    p.interval.widened.push_back(
        fmt::format("compute of {} in {} on this GPU is an estimate", p.model, p.precision));
}

/// Throughput, efficiency, cost, and what limits the largest bucket.
void Predictor::answer_rates(Job& job, const std::vector<std::size_t>& picks) const {
  Prediction& p = job.point;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < job.step.buckets.size(); ++i)
    if (job.step.buckets[i].elements > job.step.buckets[largest].elements) largest = i;
  const CollectiveResult& most = batch_[job.here.numbers[largest][picks[largest]]].result;
  p.bottleneck = most.bottleneck;
  if (!most.loads.empty()) {
    p.bottleneck_kind = most.loads[0].kind;
    p.bottleneck_utilisation = most.loads[0].utilisation;
  }
  p.throughput =
      static_cast<double>(p.gpus) * p.batch_per_gpu * p.accumulation / p.step.total.value;
  p.efficiency_gpu = p.throughput / (p.gpus * job.per_gpu);
  p.tokens_per_s = p.throughput * tokens_of(p.sample);
  p.mfu = job.step.least_compute * p.accumulation / p.step.total;
  const StepQuestions& one = job.on_one_node;
  const bool one_known = !one.numbers.empty() &&
                         std::all_of(one.numbers.begin(), one.numbers.end(), [&](const auto& n) {
                           return batch_.all_known(n) && batch_[n[batch_.fastest(n)]].ok;
                         });
  if (one_known) {  // the same samples per GPU in either
    const auto best = pick(job, one);
    p.efficiency_node =
        play_step(input_of(job, one, best), times_of(job, one, best, {})).total / p.step.total;
  }
  if (p.priced) p.usd_per_million_samples = p.price.value / 3600 / p.throughput * 1e6;
}

Sweep<Prediction> Predictor::run(const OnPoint<Prediction>& on_point) {
  const AxisProduct axes = expand();
  std::vector<Job> jobs;
  for (std::size_t n = 0; n < axes.size(); ++n)
    if (options_.shard.contains(n)) jobs.push_back(prepare(n, axes.at(n)));
  Sweep<Prediction> sweep;
  sweep.all = axes.size();
  sweep.provenance = {scenario_.name, scenario_.file, hash_.value(),
                      unused_keys(scenario_, asked_)};
  if (options_.all_failed == AllFailed::is_error) refuse_if_all_failed(sweep.provenance, jobs);
  answer_in_order(
      jobs, batch_, options_.batch, [this](Job& job) { answer(job); }, on_point, sweep);
  return sweep;
}

}  // namespace

const char* name_of(SimulationMode mode) {
  return mode == SimulationMode::cached      ? "cached"
         : mode == SimulationMode::symmetric ? "symmetric"
                                             : "full";
}

Sweep<Prediction> predict(const Scenario& scenario, const SweepOptions& options,
                          const OnPoint<Prediction>& on_point, Asked asked) {
  if (!scenario.workload)
    throw wrong(scenario, "workload",
                "predict needs a workload; for message sizes use `foreduce compare`");
  return Predictor(scenario, options, asked).run(on_point);
}

}  // namespace foreduce
