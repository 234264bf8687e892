#include "scenarios/sweep/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "input/counted.hpp"
#include "models/smddp.hpp"
#include "scenarios/sweep/bucket_step.hpp"
#include "scenarios/sweep/buckets.hpp"
#include "scenarios/sweep/cases.hpp"
#include "scenarios/sweep/global_batch.hpp"
#include "scenarios/sweep/gpu_time.hpp"
#include "scenarios/sweep/sharded_points.hpp"
#include "scenarios/sweep/strategies.hpp"

namespace foreduce {
namespace {

/// A point on its way to its answer.
struct Job {
  Prediction point;
  std::string key;                     // of the scenario, that the point's error is about
  std::vector<std::size_t> questions;  // all that the answer needs
  StepInput step;
  std::vector<Candidate> candidates;
  StepQuestions here, on_one_node;
  Spread compute_within;
  double per_gpu = 0, slowest_rate = 1;  // samples per second of one GPU alone; see GpuTime
  Seconds at_peak;                       // see GpuTime
  std::size_t element = 0;               // bytes of a gradient's element
  bool fresh = false;                    // asks something that no point before it asked
  std::optional<ShardedPoint> sharded;   // in place of the buckets, unless this is DDP
};

/// The axes of a sweep, the slowest first.
enum AxisIndex : std::size_t {
  kModelAxis,
  kPrecisionAxis,
  kGradientAxis,
  kBatchAxis,
  kSplitAxis,
  kRecomputeAxis,
  kSpreadAxis,
  kClusterAxis,
  kStrategyAxis,
  kMethodAxis,
  kBucketAxis
};

/// Why a point has no answer. What the models call wrong by a key is the workload's.
void note_error(Job& job, const InputError& e) {
  const Problem& first = e.problems().front();
  job.point.error = words_of(e);
  if (first.file.empty() && !first.key.empty())
    job.key = (first.key.starts_with("allreduce.") ? "" : "workload.") + first.key;
}

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
  struct Repeats {
    std::vector<std::vector<bool>> strategies;  // by case and precision: each strategy
    bool any = false;
    std::size_t distinct_points = 0;  // of the sweep
  };
  Repeats find_repeats(const AxisProduct& axes) const;
  bool is_repeated(const Repeats& repeats, const std::vector<std::size_t>& at) const;
  Job prepare(std::size_t number, const std::vector<std::size_t>& at);
  void describe_case(Job& job, const std::vector<std::size_t>& at, const ClusterCase& c,
                     const Method& method);
  const MemoryBy& memory_of_same(const MemoryQuestion& question);
  void ask(Job& job, const ClusterCase& c, const Method& method);
  void ask_sharded(Job& job, const ClusterCase& c, const Method& method,
                   const MemoryQuestion& memory);
  void ask_bucket(StepQuestions& of, const std::vector<Candidate>& candidates, std::size_t elements,
                  Type type);
  double compute_share_beside(const Candidate& c, SummedBy by) const;
  void answer(Job& job) const;
  SweepContext context() {
    return {*clusters_, *profiles_, batch_, scenario_.allreduce.channels,
            scenario_.allreduce.algorithm.values};
  }
  void note_cost(Job& job) const;
  void answer_interval(Job& job, const std::vector<std::size_t>& picks) const;
  void answer_rates(Job& job, const std::vector<std::size_t>& picks) const;

  const Scenario& scenario_;
  const SweepOptions& options_;
  const WorkloadSpec& workload_;
  QuestionHash hash_;
  Asked asked_;
  const TrainingConstants& constants_ = training_constants();
  Batch batch_;
  std::optional<Clusters> clusters_;
  std::optional<TransportProfiles> profiles_;
  std::vector<Workload> models_;  // each by every framework
  std::vector<std::string> samples_;
  std::vector<Strategy> strategies_;
  std::vector<Method> methods_;
  std::vector<Bytes> buckets_;
  std::vector<Recompute> recomputes_;
  std::vector<double> spreads_;
  std::optional<std::pair<MemoryQuestion, MemoryBy>> memory_;  // the last asked
  bool by_global_batch_ = false;
};

/// Reads what the axes name, and says how many values each has.
AxisProduct Predictor::expand() {
  clusters_.emplace(scenario_, hash_, options_.change);
  profiles_.emplace(scenario_, hash_, options_.change);
  strategies_ = strategies_of(workload_);
  methods_ = methods_of(scenario_.allreduce, Collective::all_reduce, MethodUse::step);
  for (const std::string& model : workload_.model.values) {
    for (const Framework framework : workload_.framework.values) {
      models_.push_back(clusters_->workload(model, framework));
      samples_.push_back(sample_of(scenario_, models_.back()));
    }
    if (names_file(model)) hash_.add(std::filesystem::path(scenario_.file).parent_path() / model);
  }
  recomputes_ = recomputes_of(workload_);
  buckets_ = scenario_.allreduce.bucket.values;
  if (buckets_.empty())
    buckets_.push_back(scenario_.allreduce.bucketing == Bucketing::horovod
                           ? constants_.fusion_buffer
                           : constants_.bucket);
  by_global_batch_ = !workload_.global_batch.values.empty();
  const std::size_t splits = by_global_batch_ ? workload_.global_batch.values.size()
                                              : workload_.accumulation.values.size();
  spreads_ = workload_.spread.values;
  if (spreads_.empty()) spreads_.push_back(constants_.spread);
  return AxisProduct({models_.size(), workload_.precision.values.size(),
                      std::max<std::size_t>(1, workload_.gradient.values.size()),
                      workload_.batch_per_gpu.values.size(), splits, recomputes_.size(),
                      spreads_.size(), clusters_->cases().size(), strategies_.size(),
                      methods_.size(), buckets_.size()});
}

void Predictor::describe_case(Job& job, const std::vector<std::size_t>& at, const ClusterCase& c,
                              const Method& method) {
  Prediction& p = job.point;
  p.model = models_[at[kModelAxis]].name;
  p.sample = samples_[at[kModelAxis]];
  p.precision = workload_.precision.values[at[kPrecisionAxis]];
  p.batch_per_gpu = workload_.batch_per_gpu.values[at[kBatchAxis]];
  p.instance = c.instance;
  p.nodes = c.nodes;
  p.gpus = c.cluster ? c.cluster->gpus() : 0;
  p.oversubscription = c.oversubscription;
  p.placement = c.placement;
  p.spread = spreads_[at[kSpreadAxis]];
  p.method = method.kind;
  p.algorithm = method.name();
  p.inner = method.inner;
  p.servers = method.servers;
  p.segments = method.segments;
  p.profile = profiles_->name(method.profile, c.cluster);
  p.bucket = buckets_[at[kBucketAxis]];
  p.recompute = recomputes_[at[kRecomputeAxis]];
  p.trainable = workload_.trainable;
  p.framework = models_[at[kModelAxis]].framework;
  p.error = c.error;
  const Strategy& strategy = strategies_[at[kStrategyAxis]];
  p.sharding = unplaced(strategy);
  try {
    if (c.cluster) p.sharding = plan_on(strategy, workload_, p.precision, c, p.framework);
    p.asked_sharding = strategy.sharding;
    p.recomputed_blocks =
        recomputed_part(workload_, models_[at[kModelAxis]], p.recompute, p.sharding.stages);
  } catch (const InputError& e) {
    note_error(job, e);
    p.hybrid = strategy.hybrid;
  }
  p.gradient = workload_.gradient.values.empty()
                   ? default_gradient(p.precision, p.sharding, p.framework)
                   : workload_.gradient.values[at[kGradientAxis]];
  p.accumulation =
      (by_global_batch_ ? workload_.global_batch : workload_.accumulation).values[at[kSplitAxis]];
  if (!by_global_batch_) return;
  if (!split_global_batch(p, p.accumulation, asked_)) job.key = "workload.global_batch";
}

/// Which strategies divide the GPUs of a case as one before them does.
Predictor::Repeats Predictor::find_repeats(const AxisProduct& axes) const {
  Repeats repeats;
  std::size_t kept = 0;
  for (const ClusterCase& c : clusters_->cases())
    for (const Precision precision : workload_.precision.values) {
      const auto& flags = repeats.strategies.emplace_back(repeated_strategies(
          strategies_, workload_, precision, c.nodes, c.cluster ? c.cluster->gpus() : 0));
      kept += static_cast<std::size_t>(std::count(flags.begin(), flags.end(), false));
    }
  const std::size_t all = repeats.strategies.size() * strategies_.size();
  repeats.any = kept < all;
  repeats.distinct_points = all > 0 ? axes.size() / all * kept : 0;
  return repeats;
}

bool Predictor::is_repeated(const Repeats& repeats, const std::vector<std::size_t>& at) const {
  const std::size_t precisions = workload_.precision.values.size();
  return repeats.strategies[at[kClusterAxis] * precisions + at[kPrecisionAxis]][at[kStrategyAxis]];
}

/// The point's questions, or why it has no answer.
Job Predictor::prepare(std::size_t number, const std::vector<std::size_t>& at) {
  Job job;
  Prediction& p = job.point;
  p.number = number;
  const ClusterCase& c = clusters_->cases()[at[kClusterAxis]];
  const Method& method = methods_[at[kMethodAxis]];
  const Workload& workload = models_[at[kModelAxis]];
  describe_case(job, at, c, method);
  if (!p.error.empty()) return job;
  GpuTime gpus;
  try {
    if (p.sharding.is_ddp()) require_all_reduce(method);
    // What NCCL is forced to may be for other collectives of a sharded step alone.
    Method of_cluster = method;
    if (of_cluster.kind == MethodKind::nccl && of_cluster.algorithm &&
        of_cluster.algorithm->collective != of_cluster.collective)
      of_cluster.algorithm = nullptr;
    job.candidates = candidates_of(of_cluster, c, context());
    job.point.best_without_nccl = best_without_nccl(method, job.candidates);
    gpus = gpu_time(scenario_, p, workload, *c.cluster, options_.change.compute_speed);
  } catch (const InputError& e) {
    note_error(job, e);
    return job;
  }
  const ComputeTime& compute = gpus.slowest;
  const Cluster& cluster = *job.candidates.front().cluster;
  p.priced = cluster.priced();
  p.price = cluster.price();
  p.compute_source = compute.source;
  p.compute_doubtful = compute.doubtful;
  p.compute_measured = compute.measured;
  p.launch_bound = compute.launches.value > 0 && compute.forward_backward <= compute.launches;
  p.gpu_memory = smallest_memory(cluster);
  job.compute_within = compute.within;
  job.per_gpu = gpus.samples_per_s;
  job.slowest_rate = gpus.slowest_rate;
  job.at_peak = gpus.at_peak;
  job.here.slowest = slowest_of(p.gpus, p.spread);
  job.on_one_node.slowest = slowest_of(p.gpus / p.nodes, p.spread);
  job.element = size_of(element_type(p.gradient));
  job.step = step_input(scenario_, p, compute, workload, job.here.slowest, cluster);
  job.step.recording = options_.recording;
  try {
    const MemoryQuestion memory{
        &workload,
        p.sample,
        p.precision,
        p.gradient,
        p.batch_per_gpu,
        p.accumulation,
        p.recompute,
        p.recomputed_blocks,
        workload_.state,
        p.sharding,
        copies_gradients(scenario_.allreduce, p.sharding),
        p.sharding.sharding == Sharding::none && p.sharding.data_parallel() == 1};
    p.memory = memory_of_same(memory);
    if (p.sharding.is_ddp()) ask(job, c, method);
    else ask_sharded(job, c, method, memory);
  } catch (const InputError& e) {
    note_error(job, e);
  }
  return job;
}

/// The question's memory. Points that follow one another mostly ask the same one: buckets and
/// algorithms vary fastest, and need none.
const MemoryBy& Predictor::memory_of_same(const MemoryQuestion& question) {
  if (!memory_ || memory_->first != question) memory_.emplace(question, memory_of(question));
  return memory_->second;
}

/// Asks for the collectives of a model whose state is spread over GPUs.
void Predictor::ask_sharded(Job& job, const ClusterCase& c, const Method& method,
                            const MemoryQuestion& memory) {
  const std::size_t known = batch_.size();
  job.step.slowest = job.here.slowest;
  const auto share_beside = [this](const Candidate& candidate) {
    return compute_share_beside(candidate, SummedBy::gpus);
  };
  ShardedPoint& sharded = job.sharded.emplace();
  sharded.step = sharded_step(job.point, job.step, *memory.workload);
  sharded.evenly_divided = (job.step.forward + job.step.backward) / job.point.sharding.model_gpus();
  sharded.collectives.emplace(
      sharded.step, method,
      StepCollectives::Types{job.point.parameter_type(), element_type(job.point.gradient)}, c,
      context());
  sharded.compute_shares = sharded.collectives->compute_shares(share_beside);
  job.point.nodes_as = sharded.collectives->nodes_as();
  StepInput on_one_node = job.step;
  on_one_node.slowest = job.on_one_node.slowest;
  ask_one_node(job.point, sharded, c, on_one_node, memory, {method, context(), share_beside});
  job.questions = sharded.questions();
  job.fresh = batch_.size() > known;
}

/// Asks for every bucket's all-reduce, here and on one node of the same kind.
void Predictor::ask(Job& job, const ClusterCase& c, const Method& method) {
  const Type type = element_type(job.point.gradient);
  std::vector<Candidate> alone;
  if (const ClusterCase* one = clusters_->one_node(c)) {
    try {
      alone = candidates_of(method, *one, on_one_node(context(), *one));
    } catch (const InputError& e) {  // what needs several nodes has nothing to compare with
      job.point.no_efficiency_node = words_of(e);
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
  auto& numbers = of.numbers.emplace_back(ask_each(batch_, candidates, elements, type));
  auto& shares = of.shares.emplace_back();
  for (std::size_t i = 0; i < candidates.size(); ++i)
    shares.push_back(compute_share_beside(
        candidates[i], batch_.question(numbers[i]).schedule.algorithm->summed_by));
}

double Predictor::compute_share_beside(const Candidate& c, SummedBy by) const {
  if (scenario_.allreduce.compute_share) return *scenario_.allreduce.compute_share;
  if (c.method.uses_servers()) return constants_.compute_share_servers;
  const bool by_smddp = c.method.kind == MethodKind::smddp && !c.by_nccl();
  return compute_share(
      *c.cluster, c.layout->subset(c.groups), *c.profile, by,
      by_smddp ? static_cast<int>(smddp().multiprocessors) : c.method.nccl_channels);
}

/// What the point's simulations cost, and whether they all ended well.
void Predictor::note_cost(Job& job) const {
  Prediction& p = job.point;
  std::set<std::size_t> distinct;
  if (job.sharded) distinct.insert(job.questions.begin(), job.questions.end());
  for (const auto& numbers : job.here.numbers) distinct.insert(numbers.begin(), numbers.end());
  std::vector<const Outcome*> outcomes;
  for (const std::size_t n : distinct) {
    const Outcome& outcome = batch_[n];
    outcomes.push_back(&outcome);
    p.messages += outcome.result.messages;
    p.wall_seconds += outcome.result.wall_seconds;
    p.peak_rss_bytes = std::max(p.peak_rss_bytes, outcome.result.peak_rss_bytes);
    p.extrapolation_error = std::max(p.extrapolation_error, outcome.extrapolation_error);
  }
  p.mode = job.fresh ? mode_of(outcomes) : SimulationMode::cached;
  const auto alternatives =
      job.sharded ? job.sharded->collectives->alternatives() : job.here.numbers;
  for (const auto& numbers : alternatives) {
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
  if (p.error.empty()) note_cost(job);
  if (!p.error.empty()) return;
  if (job.sharded) {
    answer_sharded(p, *job.sharded, batch_, job.compute_within);
    p.efficiency_gpu *= job.slowest_rate;  // against GPUs of which some would be faster alone
    p.efficiency_node *= job.slowest_rate;
  } else {
    const std::vector<std::size_t> picks = fastest_picks(job.step, job.here, batch_);
    p.step = play_step(input_of(job.step, job.here, picks),
                       times_of(job.step, job.here, batch_, picks, {}));
    answer_interval(job, picks);
    answer_rates(job, picks);
  }
  // Those that share a model's matrices, sequences or layers compute a part of it each.
  p.mfu = job.at_peak * p.accumulation / p.sharding.model_gpus() / p.step.total;
  if (p.priced) p.usd_per_million_samples = p.price.value / 3600 / p.throughput * 1e6;
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
    const Interval interval = job.candidates[picks[i]].interval(bytes, batch_[winner]);
    low.push_back(time.value > 0 ? interval.low / time : 1);
    high.push_back(time.value > 0 ? interval.high / time : 1);
    p.interval.known = p.interval.known && (interval.known || time.value == 0 || p.gpus == 1);
    if (p.interval.widened.empty()) p.interval.widened = interval.widened;
    if (options_.recording == Recording::on)
      p.traced.push_back(
          traced(Stream::all_reduce, job.step.buckets[i].elements, job.element, batch_, winner));
    note_chosen(p, batch_.question(winner).schedule.name());
  }
  const StepSpan span = span_of_step(
      input_of(job.step, job.here, picks), times_of(job.step, job.here, batch_, picks, {}),
      times_of(job.step, job.here, batch_, picks, low),
      times_of(job.step, job.here, batch_, picks, high), job.compute_within);
  p.interval.low = span.low;
  p.interval.high = span.high;
  note_estimated_compute(p);
}

/// Throughput, efficiency, cost, and what limits the largest bucket.
void Predictor::answer_rates(Job& job, const std::vector<std::size_t>& picks) const {
  Prediction& p = job.point;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < job.step.buckets.size(); ++i)
    if (job.step.buckets[i].elements > job.step.buckets[largest].elements) largest = i;
  note_limits(p, batch_, job.here.numbers[largest][picks[largest]]);
  p.throughput =
      static_cast<double>(p.gpus) * p.batch_per_gpu * p.accumulation / p.step.total.value;
  p.efficiency_gpu = p.throughput / (p.gpus * job.per_gpu);
  p.tokens_per_s = p.throughput * tokens_of(p.sample);
  const StepQuestions& one = job.on_one_node;
  const bool one_known = !one.numbers.empty() &&
                         std::all_of(one.numbers.begin(), one.numbers.end(), [&](const auto& n) {
                           return batch_.all_known(n) && batch_[n[batch_.fastest(n)]].ok;
                         });
  if (one_known) {  // the same samples per GPU in either
    const auto best = fastest_picks(job.step, one, batch_);
    p.efficiency_node =
        play_step(input_of(job.step, one, best), times_of(job.step, one, batch_, best, {})).total /
        p.step.total;
  }
}

Sweep<Prediction> Predictor::run(const OnPoint<Prediction>& on_point) {
  const AxisProduct axes = expand();
  const Repeats repeats = find_repeats(axes);
  check_points_asked(options_, repeats.distinct_points);
  std::vector<Job> jobs;
  const std::optional<std::size_t>& only = options_.shard.only;
  const std::size_t first = only && !repeats.any ? *only : 0;
  for (std::size_t n = first, number = first; n < axes.size(); ++n) {
    if (repeats.any && is_repeated(repeats, axes.at(n))) continue;
    const std::size_t here = number++;
    if (only && here > *only) break;
    if (!options_.shard.contains(here)) continue;
    if (options_.batch.stop && options_.batch.stop()) throw Interrupted();
    jobs.push_back(prepare(here, axes.at(n)));
  }
  Sweep<Prediction> sweep;
  sweep.all = repeats.distinct_points;
  sweep.loads_of = options_.loads_of;
  sweep.provenance = {scenario_.name, scenario_.file, hash_.value(),
                      unused_keys(scenario_, asked_)};
  sweep.provenance.repeated = axes.size() - repeats.distinct_points;
  sweep.provenance.text = scenario_.text;
  if (options_.all_failed == AllFailed::is_error && !jobs.empty())
    refuse_if_all_failed(scenario_, jobs.front().key, jobs);
  answer_in_order(
      jobs, batch_, options_.batch, [this](Job& job) { answer(job); }, on_point, sweep);
  note_speedups(sweep.points, [](const Prediction& p) { return p.step.total; });
  return sweep;
}

}  // namespace

Sweep<Prediction> predict(const Scenario& scenario, const SweepOptions& options,
                          const OnPoint<Prediction>& on_point, Asked asked) {
  if (!scenario.workload)
    throw wrong(scenario, "workload",
                "predict needs a workload; for message sizes use `foreduce compare`");
  refuse_too_many(scenario, asked, options);
  return Predictor(scenario, options, asked).run(on_point);
}

}  // namespace foreduce
