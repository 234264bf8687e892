#include "scenarios/cli/replays.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "input/files.hpp"
#include "input/holds.hpp"
#include "input/machine_memory.hpp"
#include "models/compute.hpp"
#include "models/statistics.hpp"
#include "models/step.hpp"
#include "scenarios/report/sharding_report.hpp"
#include "scenarios/sweep/buckets.hpp"
#include "scenarios/sweep/step_collectives.hpp"
#include "scenarios/sweep/strategies.hpp"
#include "topologies/machine.hpp"

namespace foreduce {
namespace {

/// The step of a workload on so many ranks, as `predict` would have it.
struct AskedStep {
  Workload workload;
  ShardingPlan plan;
  StepInput whole;           // with DDP's buckets
  ShardedStepInput sharded;  // unless this is DDP
  ComputeTime computing;     // of one micro-batch, as it would be without --compute-scale

  bool ddp() const { return plan.is_ddp(); }
  std::vector<Task> tasks() const { return ddp() ? tasks_of(whole) : tasks_of(sharded); }
  Seconds compute() const { return whole.forward + whole.backward; }
};

/// As the first machine that ships with it has it; without peaks where none does.
Gpu shipped_gpu(const std::string& model) {
  for (const std::string& name : machine_names())
    if (const Machine machine = machine_named(name);
        machine.gpu && is_model(machine.gpu->model, model)) {
      Gpu gpu = *machine.gpu;
      gpu.model = model;
      return gpu;
    }
  Gpu unknown;
  unknown.model = model;
  return unknown;
}

Workload named_workload(const std::string& name) {
  return names_file(name) ? Workloads::load_file(name) : Workloads().load(name);
}

/// Those on which the workload was measured, and those that machines have.
std::vector<std::string> known_gpus(const Workload& workload) {
  std::set<std::string> all;
  for (const Measured& m : workload.measured) all.insert(m.gpu);
  for (const std::string& name : machine_names())
    if (const Machine machine = machine_named(name); machine.gpu)
      all.insert(family_of(*machine.gpu));
  return {all.begin(), all.end()};
}

/// Sets forward and backward of one micro-batch.
void set_compute(AskedStep& asked, const ReplayOptions& a) {
  const Workload& workload = asked.workload;
  const Variant* variant = workload.variant(a.sample);
  if (!variant)
    throw input_error(fmt::format("--sample: {} has no sample '{}'", workload.name, a.sample),
                      workload.suggest_sample(a.sample));
  if (const auto gpus = known_gpus(workload); !holds(gpus, a.gpu))
    throw input_error(fmt::format("--gpu: nobody measured {} on '{}', and no machine that ships "
                                  "has one",
                                  workload.name, a.gpu),
                      suggest(a.gpu, gpus));
  asked.computing =
      compute_time({workload, shipped_gpu(a.gpu), a.arithmetic(), variant->sample, a.batch});
  const Seconds all = asked.computing.forward_backward * a.compute_scale;
  asked.whole.backward = all * training_constants().backward_share;
  asked.whole.forward = all - asked.whole.backward;
}

AskedStep asked_step(const ReplayOptions& a, int nodes, int ranks, Type type) {
  AskedStep asked;
  asked.workload = named_workload(a.workload);
  set_compute(asked, a);
  WorkloadSpec spec;
  spec.sharding = Axis<std::string>{a.sharding};
  if (!a.hybrid.empty()) spec.hybrid = Axis<std::string>{a.hybrid};
  spec.units = a.units;
  spec.prefetch = a.prefetch;
  spec.reshard_after_forward = !a.keep_gathered;
  spec.communicators = *value_named<Communicators>(a.communicators);
  asked.plan = plan_of(strategies_of(spec).front(), spec, a.arithmetic(), nodes, ranks);
  Bytes cap{0};
  std::string why;
  if (!parse_quantity(a.bucket, UnitsOf<Bytes>::table, "size", cap.value, why))
    throw input_error("--bucket: " + why);
  if (constexpr double kLeast = 1024; cap.value < kLeast)
    throw input_error(fmt::format("--bucket {}: at least 1 KiB", a.bucket));
  if (asked.ddp()) {
    AllReduceSpec buckets;
    buckets.bucketing = Bucketing::ddp;
    asked.whole.buckets =
        buckets_of(buckets, asked.workload, size_of(type), cap, asked.whole.backward);
    return asked;
  }
  asked.sharded.forward = asked.whole.forward;
  asked.sharded.backward = asked.whole.backward;
  asked.sharded.plan = asked.plan;
  asked.sharded.units = units_of(asked.workload, asked.plan.units, size_of(type));
  return asked;
}

/// What a report says of the step, for `validate` to predict it.
Json step_json(const AskedStep& asked) {
  Json j{{"sharding", name_of(asked.plan.sharding)},
         {"shard_ranks", asked.plan.shard_ranks},
         {"replicas", asked.plan.replicas}};
  if (asked.ddp()) {
    for (const Bucket& b : asked.whole.buckets)
      j["buckets"].push_back({{"elements", b.elements}, {"ready", b.ready}});
    return j;
  }
  j["prefetch"] = asked.plan.prefetch;
  j["communicators"] = to_text(asked.plan.communicators);
  j["reshard_after_forward"] = asked.plan.reshard == Reshard::after_forward;
  for (const ModelUnit& u : asked.sharded.units)
    j["units"].push_back(
        {{"name", u.name}, {"elements", u.elements}, {"share", u.share}, {"root", u.root}});
  return j;
}

/// Each of the step's collectives, with the medians of what was measured on one rank.
std::vector<CollectiveUse> measured_uses(const std::vector<Task>& tasks,
                                         const std::vector<ReplayedStep>& steps) {
  std::vector<CollectiveUse> uses;
  std::vector<std::vector<double>> times;
  std::array<std::vector<double>, kStreams> exposed;
  const auto use_of = [&](const Task& task) {
    auto at = std::find_if(uses.begin(), uses.end(), [&](const CollectiveUse& use) {
      return use.kind == task.stream && use.elements == task.elements;
    });
    if (at == uses.end()) {
      at = uses.insert(at, {task.stream, task.elements, 0});
      times.emplace_back(steps.size());
    }
    return static_cast<std::size_t>(at - uses.begin());
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<Seconds> start, end;
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      start.emplace_back(steps[i].start[t]);
      end.emplace_back(steps[i].end[t]);
      if (tasks[t].stream == Stream::compute) continue;
      const std::size_t use = use_of(tasks[t]);
      times[use][i] += (end[t] - start[t]).value;
      if (i == 0) ++uses[use].count;
    }
    const auto delayed = delays(tasks, start, end);
    for (std::size_t s = 0; s < kStreams; ++s) exposed[s].push_back(delayed[s].value);
  }
  std::array<double, kStreams> all{};
  for (std::size_t u = 0; u < uses.size(); ++u) {
    uses[u].time = Seconds{quantile(times[u], 0.5)};
    all[static_cast<std::size_t>(uses[u].kind)] += uses[u].time.value;
  }
  for (CollectiveUse& use : uses)  // of a kind in proportion to what each size takes
    if (const auto kind = static_cast<std::size_t>(use.kind); all[kind] > 0)
      use.exposed = Seconds{quantile(exposed[kind], 0.5)} * (use.time.value / all[kind]);
  return uses;
}

/// The collectives of a step as one algorithm runs them.
class Replayed {
 public:
  Replayed(const AskedStep& asked, const ReplayOptions& options, const ReplayMethod& method,
           const Session& session, const LaunchOptions& launch)
      : asked_(asked),
        queues_(options.queues()),
        method_(method),
        session_(session),
        streams_(launch.streams) {}

  Replay by(const std::string& algorithm) const {
    Replay step;
    step.streams = streams_;
    for (const Task& task : asked_.tasks()) {
      ReplayTask& real = step.tasks.emplace_back();
      real.after = task.after;
      real.seconds = task.alone.value;
      real.type = method_.type;
      if (task.stream == Stream::compute) continue;
      const auto at = std::find(queues_.begin(), queues_.end(), task.queue);
      real.stream = static_cast<int>(at - queues_.begin()) + 1;
      real.algorithm = find_algorithm(algorithm, collective_of(task.stream));
      real.count = task.elements;
      const RankGroup group = group_of(task.stream, asked_.plan);
      if (!asked_.ddp() && group.ranks < ranks()) real.groups = {group.ranks, group.stride};
      real.plan = planned(*real.algorithm, real.groups, real.count * size_of(real.type));
    }
    return step;
  }

 private:
  int ranks() const { return session_.workers().size() / streams_; }

  Plan planned(const Algorithm& algorithm, const RankGroups& groups, std::size_t bytes) const {
    const Layout& all = algorithm.uses_servers ? session_.everyone() : session_.workers();
    std::vector<int> mine;
    for (int rank = 0; rank < ranks(); ++rank) mine.push_back(rank);
    if (!groups.whole()) mine = groups.of(0);
    for (int& rank : mine) rank *= streams_;
    const bool every = streams_ == 1 && groups.whole();
    const Layout layout = every ? all : all.subset(mine);
    const Plan plan = with_defaults(algorithm, method_.plan, layout, bytes);
    if (const auto why = unsupported_reason(algorithm, layout, plan))
      throw input_error(fmt::format("{}: {}", algorithm.name, *why));
    return plan;
  }

  const AskedStep& asked_;
  std::vector<Stream> queues_;
  const ReplayMethod& method_;
  const Session& session_;
  int streams_;
};

/// Each stream of a rank has a buffer for its largest collective.
void check_replay_memory(const Replay& step, const LaunchOptions& launch) {
  std::size_t largest = 0;
  for (const ReplayTask& t : step.tasks) largest = std::max(largest, t.count * size_of(t.type));
  const double wanted = static_cast<double>(largest) * step.streams *
                        std::max(1, std::max(launch.per_process, launch.ranks));
  const double there = machine_memory().value;
  if (!launch.cuda() && wanted > there)
    throw input_error(fmt::format("--workload: these ranks need {} of memory, and {} are there",
                                  to_text(Bytes{wanted}), to_text(Bytes{there})),
                      launch.streams > 1 ? "--units '16 MiB', or fewer --ranks" : "fewer --ranks");
}

}  // namespace

std::vector<Stream> ReplayOptions::kinds() const {
  if (sharding_named(sharding) == Sharding::none) return {Stream::all_reduce};
  if (hybrid.empty()) return {Stream::all_gather, Stream::reduce_scatter};
  return {Stream::all_gather, Stream::reduce_scatter, Stream::all_reduce};
}

std::vector<Stream> ReplayOptions::queues() const {
  ShardingPlan plan;
  plan.communicators = *value_named<Communicators>(communicators);
  std::vector<Stream> queues;
  for (const Stream kind : kinds())
    if (queue_of(kind, plan) == kind) queues.push_back(kind);
  return queues;
}

nlohmann::json ReplayOptions::settings() const {
  // A file may be another one on another host.
  const bool is_file = !workload.empty() && std::filesystem::is_regular_file(workload);
  return {{"workload", workload},
          {"workload's file", is_file ? sha1(read_text(workload)) : ""},
          {"bucket", bucket},
          {"sharding", sharding},
          {"hybrid", hybrid},
          {"units", units},
          {"prefetch", prefetch},
          {"gpu", gpu},
          {"batch", batch},
          {"keep gathered", keep_gathered},
          {"communicators", communicators},
          {"sample", sample},
          {"precision", precision},
          {"scale", compute_scale}};
}

Seconds ReplayOptions::computing() const {
  if (workload.empty()) return Seconds{0};
  AskedStep step;
  step.workload = named_workload(workload);
  set_compute(step, *this);
  return step.compute();
}

void ReplayOptions::check(const LaunchOptions& launch) const {
  if (sharding_named(sharding) == Sharding::none) {
    if (!hybrid.empty() || units != ReplayOptions{}.units || keep_gathered ||
        prefetch != ReplayOptions{}.prefetch || communicators != ReplayOptions{}.communicators)
      throw input_error(
          "--hybrid, --units, --prefetch, --keep-gathered and --communicators say how state is "
          "shared, and --sharding is none",
          "--sharding zero3");
    return;
  }
  if (workload.empty())
    throw input_error("--sharding is about a training step", "--workload resnet50");
  const ReplayOptions usual;
  if (sharding_named(sharding) != Sharding::zero3 &&
      (keep_gathered || prefetch != usual.prefetch || communicators != usual.communicators))
    throw input_error(
        fmt::format("--prefetch, --keep-gathered and --communicators say how parameters are "
                    "gathered for each unit, and --sharding {} gathers none",
                    sharding),
        "--sharding zero3");
  if (bucket != usual.bucket)
    throw input_error(
        fmt::format("--bucket cuts gradients that are all-reduced, and --sharding {} has units",
                    sharding),
        "leave --bucket away; --units says how blocks are divided");
  if (launch.cuda())
    throw input_error("--sharding is replayed in the memory of hosts", "--transport ofi");
  if (launch.channels > 1)
    throw input_error("--channels: a sharded step is replayed on one channel",
                      "leave --channels away");
}

void ReplayOptions::add_to(CLI::App& command) {
  command.add_option("--workload", workload,
                     "Replay a training step of this workload: forward and backward pass time, and "
                     "collectives run beside them as soon as they may.");
  command
      .add_option("--gpu", gpu,
                  "With --workload: the GPU whose speed is replayed, measured or estimated.")
      ->capture_default_str();
  command.add_option("--batch", batch, "With --workload: samples per GPU.")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--precision", precision, "With --workload: precision of the computation.")
      ->transform(one_of({"fp16", "bf16", "fp32"}))
      ->capture_default_str();
  command.add_option("--sample", sample,
                     "With --workload: e.g. '128 tokens'. Default: the workload's first.");
  command.add_option("--bucket", bucket, "With --workload: DDP's bucket size.")
      ->capture_default_str();
  command
      .add_option("--sharding", sharding,
                  "With --workload: what ranks share of the model's state, as in scenarios. "
                  "Each communicator has a thread and connections of its own.")
      ->transform(one_of(sharding_words()))
      ->capture_default_str();
  command.add_option("--hybrid", hybrid,
                     "With --sharding: ranks that share one state, or node. Default: all.");
  command
      .add_option("--units", units,
                  "With --sharding: block, tensors, or the size of what travels together.")
      ->capture_default_str();
  command
      .add_option("--prefetch", prefetch,
                  "With --sharding: units that are gathered before they are needed.")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command.add_flag("--keep-gathered", keep_gathered,
                   "With --sharding zero3: keep parameters between forward and backward.");
  command
      .add_option(
          "--communicators", communicators,
          "With --sharding: whether all-gathers and reduce-scatters run one after the other "
          "(shared), or at once (separate).")
      ->transform(one_of(names_of<Communicators>()))
      ->capture_default_str();
  command
      .add_option("--compute-scale", compute_scale,
                  "With --workload: lengthen or shorten computing by this factor.")
      ->check(CLI::Range(1e-6, 1e6))
      ->capture_default_str();
}

Json replayed_rows(Session& session, const LaunchOptions& launch, const ReplayOptions& asked,
                   const ReplayMethod& method, const MeasureOptions& options) {
  const int ranks = session.workers().size() / launch.streams;
  if (sharding_named(asked.sharding) != Sharding::none && ranks < 2)
    throw input_error("--sharding: one rank has nobody to share with", "--ranks 2");
  const AskedStep step = asked_step(asked, session.workers().nodes, ranks, method.type);
  const Replayed replayed(step, asked, method, session, launch);
  const std::vector<Task> tasks = step.tasks();
  Json rows = Json::array();
  std::size_t step_of = 0;
  for (const std::string& name : method.algorithms) {
    const Replay real = replayed.by(name);
    check_replay_memory(real, launch);
    MeasureOptions one = options;
    if (options.progress)
      one.progress = [&](std::size_t done, std::size_t total) {
        options.progress(step_of * total + done, method.algorithms.size() * total);
      };
    const auto steps = replay(session, real, one);
    ++step_of;
    if (!session.first()) continue;
    std::vector<double> samples;
    for (const ReplayedStep& s : steps) samples.push_back(s.seconds);
    const double median = quantile(samples, 0.5);
    Json& row = rows.emplace_back(Json{{"algorithm", name},
                                       {"workload", step.workload.name},
                                       {"dtype", method.dtype},
                                       {"segments", method.plan.segments},
                                       {"inner", method.plan.inner},
                                       {"compute_measured", step.computing.measured},
                                       {"compute_source", step.computing.source},
                                       {"compute_scale", asked.compute_scale},
                                       {"forward_s", step.whole.forward.value},
                                       {"backward_s", step.whole.backward.value},
                                       {"median_s", median},
                                       {"p95_s", quantile(samples, 0.95)},
                                       {"exposed_s", median - step.compute().value},
                                       {"samples_s", samples}});
    row["step"] = step_json(step);
    row["collectives"] =
        collectives_report(measured_uses(tasks, steps), step.plan, method.type, method.type);
  }
  return rows;
}

}  // namespace foreduce
