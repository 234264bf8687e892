#include "scenarios/core/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <thread>

#include "models/layout_of.hpp"
#include "sim/collective_json.hpp"
#include "sim/isolate.hpp"

namespace foreduce {
namespace {

/// Distinct collectives, simulated on all cores. Asking twice for an equal one costs nothing.
class Collectives {
 public:
  /// Registers one and returns its number.
  std::size_t ask(const Collective& c) {
    const std::string key = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", static_cast<const void*>(c.cluster.get()), c.algorithm->name, c.plan.segments,
                                        c.plan.channels, c.plan.inner, c.count, static_cast<int>(c.type), static_cast<const void*>(c.sending.profile.get()), c.sending.protocol);
    const auto [at, fresh] = known_.try_emplace(key, asked_.size());
    if (fresh) asked_.push_back(c);
    return at->second;
  }
  /// Simulates all that was asked for, in the order of asking; `one_done` is called after each.
  void run(const SweepOptions& options, const std::function<void()>& one_done) {
    outcomes_.resize(asked_.size());
    for (CollectiveOutcome& o : outcomes_) o.error = kInterrupted;
    std::vector<std::function<nlohmann::json()>> work;
    for (const Collective& c : asked_)
      work.emplace_back([&c] {
        SimOptions how;
        how.sending = c.sending;
        return to_json(simulate_here(*c.cluster, *c.algorithm, c.plan, c.count, c.type, Op::sum, how));
      });
    const int jobs = options.jobs > 0 ? options.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    std::size_t done = 0;
    run_isolated(work, jobs, [&](std::size_t index, Outcome outcome) {
      CollectiveOutcome& out = outcomes_[index];
      out.known = true;
      out.ok = outcome.ok;
      out.error = outcome.error;
      if (outcome.ok) {
        out.result = collective_from_json(outcome.value);
        out.result.peak_rss_bytes = outcome.peak_rss_bytes;
      }
      if (options.progress) options.progress(++done, work.size());
      one_done();
    }, options.stop);
  }
  const CollectiveOutcome& operator[](std::size_t number) const { return outcomes_[number]; }

 private:
  std::map<std::string, std::size_t> known_;
  std::vector<Collective> asked_;
  std::vector<CollectiveOutcome> outcomes_;
};

/// The question is also what its files say: parts of a sweep that read different machines do not fit together.
void add_to_hash(Scenario& scenario, const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  scenario.hash = sha1(scenario.hash + std::string(std::istreambuf_iterator<char>(in), {}));
}

/// Machines by name or file, read once.
class Machines {
 public:
  explicit Machines(Scenario& scenario) : scenario_(scenario), folder_(std::filesystem::path(scenario.file).parent_path()) {}

  std::shared_ptr<const Machine> get(const std::string& name) {
    auto& known = machines_[name];
    if (known) return known;
    known = std::make_shared<const Machine>(names_file(name) ? load_machine(folder_ / name, false) : Catalogue().load(name));
    add_to_hash(scenario_, known->file);
    return known;
  }

 private:
  Scenario& scenario_;
  std::filesystem::path folder_;  // paths in a scenario are relative to its file
  std::map<std::string, std::shared_ptr<const Machine>> machines_;
};

FabricSpec fabric_of(const FabricFields& f, double oversubscription) {
  FabricSpec fabric;
  fabric.nodes_per_leaf = f.nodes_per_leaf;
  fabric.oversubscription = oversubscription;
  fabric.spine_latency = f.spine_latency;
  fabric.spread = f.placement == "spread";
  fabric.placement_group = f.placement_group;
  return fabric;
}

/// The message of an error without "error: " and places: what stands in a row.
std::string words_of(const InputError& e) {
  const Problem& first = e.problems().front();
  return first.message + (first.hint.empty() ? "" : "; " + first.hint);
}

/// One way to sum: what is left of the all-reduce's axes.
struct Way {
  const Algorithm* algorithm;  ///< null: what NCCL would choose
  std::string inner;
  int segments, servers;
  Plan plan(int channels) const { return {segments, channels, inner.empty() ? "ring" : inner}; }
  std::string name() const { return algorithm ? std::string(algorithm->name) : "nccl"; }
  bool uses_servers() const { return algorithm && algorithm->uses_servers; }
};

/// The profile of NCCL on a cluster; each is read once.
std::shared_ptr<const Profile> nccl_on(const Cluster& cluster) {
  static std::map<std::string, std::shared_ptr<const Profile>> known;
  auto& profile = known[cluster.node(0).machine().name];
  if (!profile) profile = std::make_shared<const Profile>(Profiles().made_for(cluster.node(0).machine().name));
  return profile;
}

/// What is to be simulated for `count` elements.
Collective collective(const Way& way, const std::shared_ptr<const Cluster>& cluster, const Layout& layout, int channels, std::size_t count, Type type) {
  const std::size_t bytes = count * size_of(type);
  if (way.algorithm) return {cluster, way.algorithm, completed(*way.algorithm, way.plan(channels), layout, bytes), {}, count, type};
  const AsNccl as = as_nccl(*cluster, layout, nccl_on(*cluster), Bytes{static_cast<double>(bytes)});
  return {cluster, as.algorithm, as.plan, as.sending, count, type};
}

/// The axes of the cluster, in the order in which a reader would vary them.
class Clusters {
 public:
  explicit Clusters(Scenario& scenario) : scenario_(scenario), machines_(scenario) {
    const ClusterSpec& spec = scenario.cluster;
    const auto add = [&](std::string instance, const std::vector<std::shared_ptr<const Machine>>& nodes) {
      for (const double over : spec.fabric.oversubscription.values) {
        ClusterCase& c = cases.emplace_back();
        c.instance = instance;
        c.nodes = static_cast<int>(nodes.size());
        c.oversubscription = over;
        try {
          c.cluster = std::make_shared<Cluster>(nodes, fabric_of(spec.fabric, over));
        } catch (const InputError& e) {  // one machine of a sweep that does not fit is not the end of the others
          c.error = words_of(e);
        }
      }
    };
    for (const std::string& instance : spec.instance.values)
      for (const int n : spec.nodes.values) add(instance, {static_cast<std::size_t>(n), machines_.get(instance)});
    if (spec.flat)
      for (const BytesPerSecond bandwidth : spec.flat->bandwidth.values)
        for (const Seconds latency : spec.flat->latency.values)
          for (const BytesPerSecond fold : spec.flat->fold_rate.values)
            for (const int ranks : spec.flat->ranks.values)
              add(fmt::format("switch {} {}{}", to_text(bandwidth), to_text(latency), spec.flat->fold_rate.values.size() > 1 ? ", folds " + to_text(fold) : ""),
                  {static_cast<std::size_t>(ranks), std::make_shared<Machine>(Machine::flat(bandwidth, latency, fold))});
    if (!spec.mixed.empty()) {
      std::vector<std::shared_ptr<const Machine>> nodes;
      std::string name;
      for (const MixedSpec& m : spec.mixed) {
        nodes.insert(nodes.end(), static_cast<std::size_t>(m.nodes), machines_.get(m.instance));
        name += fmt::format("{}{}x{}", name.empty() ? "" : "+", m.nodes, m.instance);
      }
      add(name, nodes);
    }
  }

  /// The same cluster with what the algorithm needs.
  std::shared_ptr<const Cluster> with_servers(ClusterCase& c, const Way& way) {
    if (!way.uses_servers()) return c.cluster;
    const int count = way.servers;
    const ServersSpec& spec = scenario_.allreduce.servers;
    const bool dedicated = spec.place == "dedicated";
    auto& known = c.with_servers[dedicated ? fmt::format("{}", count) : "co-located"];
    if (known) return known;
    ServerSpec servers;
    servers.co_located = !dedicated;
    if (dedicated) {
      servers.dedicated = machines_.get(spec.instance);
      servers.dedicated_count = count;
    }
    std::vector<std::shared_ptr<const Machine>> nodes;
    for (int n = 0; n < c.cluster->worker_nodes(); ++n) nodes.push_back(std::shared_ptr<const Machine>(c.cluster, &c.cluster->node(n).machine()));
    known = std::make_shared<Cluster>(nodes, c.cluster->fabric(), servers);
    return known;
  }
  /// One node of the same kind, to compare with; null for mixed clusters.
  ClusterCase* one_node(const ClusterCase& c) {
    if (!c.cluster->homogeneous()) return nullptr;
    auto& known = ones_[c.instance];
    if (!known) {
      known = std::make_unique<ClusterCase>();
      known->instance = c.instance;
      known->nodes = 1;
      known->cluster = std::make_shared<Cluster>(
          std::vector<std::shared_ptr<const Machine>>{std::shared_ptr<const Machine>(c.cluster, &c.cluster->node(0).machine())}, FabricSpec{});
    }
    return known.get();
  }

  std::vector<ClusterCase> cases;

 private:
  const Scenario& scenario_;
  Machines machines_;
  std::map<std::string, std::unique_ptr<ClusterCase>> ones_;
};

std::vector<Way> ways_of(const AllReduceSpec& spec) {
  std::vector<Way> ways;
  for (const std::string& name : spec.algorithm.values) {
    const Algorithm* algorithm = find_algorithm(name);
    const auto inners = algorithm && algorithm->takes_inner ? spec.inner.values : std::vector<std::string>{""};
    const auto counts = algorithm && algorithm->uses_servers && spec.servers.place == "dedicated" ? spec.servers.count.values : std::vector<int>{0};
    for (const std::string& inner : inners)
      for (const int count : counts)
        for (const int segments : spec.segments.values) ways.push_back({algorithm, inner, segments, count});
  }
  return ways;
}

void note_unused(Scenario& s, bool predicting) {
  const auto any = [&](auto matches) { return std::any_of(s.allreduce.algorithm.values.begin(), s.allreduce.algorithm.values.end(), matches); };
  if (predicting && s.messages) s.unused.emplace_back("messages");
  if (!predicting && s.workload) s.unused.emplace_back("workload");
  if (!predicting && !s.allreduce.bucket.values.empty()) s.unused.emplace_back("allreduce.bucket");
  if (s.allreduce.inner.values != std::vector<std::string>{"ring"} && !any([](const std::string& a) { return a != "nccl" && find_algorithm(a)->takes_inner; }))
    s.unused.emplace_back("allreduce.inner");
  if (s.allreduce.servers.place == "dedicated" && !any([](const std::string& a) { return a != "nccl" && find_algorithm(a)->uses_servers; }))
    s.unused.emplace_back("allreduce.servers");
}

/// The slowest GPU sets the pace of a mixed cluster.
ComputeTime slowest(const Workload& workload, const Cluster& cluster, const std::string& precision, const std::string& sample, int batch) {
  ComputeTime slow;
  for (int n = 0; n < cluster.worker_nodes(); ++n) {
    if (n > 0 && &cluster.node(n) == &cluster.node(n - 1)) continue;
    const ComputeTime t = compute_time(workload, *cluster.node(n).machine().gpu, precision, sample, batch);
    if (n == 0 || t.forward_backward > slow.forward_backward) slow = t;
  }
  return slow;
}

/// If no point can be answered for what was asked, that is the user's error, not a row.
template <class Points>
void refuse_if_all_failed(const Scenario& scenario, const Points& points) {
  if (points.empty()) return;
  for (const auto& p : points)
    if (p.error.empty()) return;
  throw InputError(Problem{scenario.file, 0, 0, "", points.front().error, "", ""});
}

/// Checks channels against what the topology has: more is not silently less.
std::string check_plan(const Way& way, const Cluster& cluster, int channels) {
  const Layout layout = layout_of(cluster);
  if (!way.algorithm) {
    try {
      as_nccl(cluster, layout, nccl_on(cluster), Bytes{1});
      return "";
    } catch (const InputError& e) {
      return words_of(e);
    }
  }
  const Plan plan = way.plan(channels);
  if (channels > static_cast<int>(layout.channels.size()))
    return fmt::format("{} channels are asked for; this topology has {}", channels, layout.channels.size());
  return refusal(*way.algorithm, layout, completed(*way.algorithm, plan, layout, 1)).value_or("");
}

}  // namespace

std::shared_ptr<const Cluster> only_cluster(Scenario scenario) {
  Clusters clusters(scenario);
  if (clusters.cases.size() != 1)
    throw InputError(Problem{scenario.file, 0, 0, "cluster", fmt::format("one cluster is needed here, and this describes {}", clusters.cases.size()), "no lists in cluster", ""});
  return clusters.cases.front().cluster;
}

Sweep<Prediction> predict(Scenario& scenario, const SweepOptions& options, const OnPoint<Prediction>& on_point) {
  if (!scenario.workload)
    throw InputError(Problem{scenario.file, 0, 0, "workload", "predict needs a workload; for message sizes use `foreduce compare`", "", ""});
  note_unused(scenario, true);
  const TrainingConstants& constants = training_constants();
  const WorkloadSpec& asked = *scenario.workload;
  AllReduceSpec& ar = scenario.allreduce;
  if (ar.bucket.values.empty()) ar.bucket.values.push_back(ar.bucketing == "horovod" ? constants.fusion_buffer : constants.bucket);

  Clusters clusters(scenario);
  Collectives collectives;
  const auto ways = ways_of(ar);

  struct Job {
    Prediction point;
    StepInput step;
    std::vector<std::size_t> collectives, on_one_node;  // of each bucket
    double per_gpu = 0;                                  // samples per second of one GPU alone
    bool fresh = false;
  };
  std::vector<Job> jobs;
  std::map<std::string, Workload> workloads;
  std::size_t known = 0, number = 0;
  for (const std::string& model : asked.model.values) {
    if (!workloads.contains(model)) {
      workloads[model] = names_file(model) ? Workloads::load_file(std::filesystem::path(scenario.file).parent_path() / model) : Workloads().load(model);
    }
    const Workload& workload = workloads[model];
    if (names_file(model)) add_to_hash(scenario, std::filesystem::path(scenario.file).parent_path() / model);
    std::string sample = asked.sample.empty() ? workload.variants[0].sample : asked.sample;
    std::vector<std::string> samples;
    for (const Variant& v : workload.variants) samples.push_back(v.sample);
    if (std::find(samples.begin(), samples.end(), sample) == samples.end())
      throw InputError(Problem{scenario.file, 0, 0, "workload.sample", fmt::format("{} has no sample '{}'", model, sample), suggest(sample, samples), ""});
    for (const std::string& precision : asked.precision.values)
      for (const int batch : asked.batch_per_gpu.values)
        for (const int accumulation : asked.accumulation.values)
          for (ClusterCase& c : clusters.cases)
            for (const Way& way : ways)
              for (const Bytes bucket : ar.bucket.values) {
                if (!options.shard.mine(number++)) continue;
                Job& job = jobs.emplace_back();
                Prediction& p = job.point;
                p.number = number - 1;
                p.model = model;
                p.precision = precision;
                p.instance = c.instance;
                p.algorithm = way.name();
                p.inner = way.inner;
                p.nodes = c.nodes;
                p.gpus = c.cluster ? c.cluster->gpus() : 0;
                p.batch_per_gpu = batch;
                p.accumulation = accumulation;
                p.servers = way.servers;
                p.oversubscription = c.oversubscription;
                p.bucket = bucket;
                p.segments = way.segments;

                p.error = c.error;
                if (!p.error.empty()) continue;
                std::shared_ptr<const Cluster> cluster;
                ComputeTime compute;
                try {
                  cluster = clusters.with_servers(c, way);
                  compute = slowest(workload, *cluster, precision, sample, batch);
                } catch (const InputError& e) {
                  p.error = words_of(e);
                  continue;
                }
                p.priced = cluster->priced();
                p.price = cluster->price();
                p.error = check_plan(way, *cluster, ar.channels);
                if (!p.error.empty()) continue;

                p.compute_source = compute.source;
                p.compute_measured = compute.measured;

                Type type{};
                parse_type(asked.gradient.empty() ? precision : asked.gradient, type);
                StepInput& in = job.step;
                in.backward = compute.forward_backward * constants.backward_share;
                in.forward = compute.forward_backward - in.backward;
                in.optimizer = compute.optimizer;
                in.accumulation = accumulation;
                in.compute_share = ar.compute_share.value_or(way.uses_servers() ? constants.compute_share_servers : constants.compute_share);
                in.buckets = ar.bucketing == "ddp"      ? ddp_buckets(workload.tensors, size_of(type), ar.first_bucket.value_or(constants.first_bucket), bucket)
                             : ar.bucketing == "smddp" ? balanced_buckets(workload.tensors, size_of(type), bucket)
                                                       : horovod_buckets(workload.tensors, size_of(type), bucket, constants.fusion_cycle, in.backward);
                job.per_gpu = batch * accumulation / (compute.forward_backward * accumulation + compute.optimizer).value;

                ClusterCase* one = clusters.one_node(c);
                const auto alone = one ? clusters.with_servers(*one, way) : nullptr;
                const Layout layout = layout_of(*cluster), one_layout = one ? layout_of(*alone) : Layout{};
                for (const Bucket& b : in.buckets) {
                  job.collectives.push_back(collectives.ask(collective(way, cluster, layout, ar.channels, b.elements, type)));
                  if (job.collectives.back() >= known) {
                    known = job.collectives.back() + 1;
                    job.fresh = true;
                  }
                  if (one)
                    job.on_one_node.push_back(collectives.ask(
                        collective(way, alone, one_layout, std::min<int>(ar.channels, static_cast<int>(one_layout.channels.size())), b.elements, type)));
                }
              }
  }

  std::vector<Prediction> before;
  for (const Job& job : jobs) before.push_back(job.point);
  refuse_if_all_failed(scenario, before);

  // The answer of a job whose collectives are all known.
  const auto answer = [&](Job& job) {
    Prediction& p = job.point;
    const auto play = [&](const std::vector<std::size_t>& numbers) {
      std::map<std::size_t, Seconds> times;
      for (std::size_t i = 0; i < numbers.size(); ++i) times[job.step.buckets[i].elements] = collectives[numbers[i]].result.time;
      return play_step(job.step, [&](std::size_t elements) { return times.at(elements); });
    };
    std::vector<std::size_t> distinct = job.collectives;
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (const std::size_t n : distinct) {
      const CollectiveOutcome& c = collectives[n];
      if (!c.ok && p.error.empty()) p.error = c.error;
      p.messages += c.result.messages;
      p.wall_seconds += c.result.wall_seconds;
      p.peak_rss_bytes = std::max(p.peak_rss_bytes, c.result.peak_rss_bytes);
      p.folded = p.folded || c.result.folded;
    }
    p.cached = !job.fresh;
    if (!p.error.empty()) return;
    std::size_t largest = 0;
    for (std::size_t i = 0; i < job.step.buckets.size(); ++i)
      if (job.step.buckets[i].elements > job.step.buckets[largest].elements) largest = i;
    const CollectiveResult& most = collectives[job.collectives[largest]].result;
    p.step = play(job.collectives);
    p.bottleneck = most.bottleneck;
    if (!most.loads.empty()) {
      p.bottleneck_kind = most.loads[0].kind;
      p.bottleneck_utilisation = most.loads[0].utilisation;
    }
    const double samples = static_cast<double>(p.gpus) * p.batch_per_gpu * p.accumulation;
    p.throughput = samples / p.step.total.value;
    p.efficiency_gpu = p.throughput / (p.gpus * job.per_gpu);
    const bool one_known = !job.on_one_node.empty() && std::all_of(job.on_one_node.begin(), job.on_one_node.end(), [&](std::size_t n) { return collectives[n].ok; });
    if (one_known) p.efficiency_node = play(job.on_one_node).total / p.step.total;  // the same samples per GPU in either
    if (p.priced) p.usd_per_million_samples = p.price.value / 3600 / p.throughput * 1e6;
  };

  Sweep<Prediction> sweep;
  sweep.all = number;
  const auto emit = [&](bool final) {
    while (sweep.points.size() < jobs.size()) {
      Job& job = jobs[sweep.points.size()];
      const auto ended = [&](std::size_t n) { return collectives[n].known; };
      if (!final && !(std::all_of(job.collectives.begin(), job.collectives.end(), ended) && std::all_of(job.on_one_node.begin(), job.on_one_node.end(), ended))) return;
      answer(job);
      sweep.points.push_back(std::move(job.point));
      if (on_point && sweep.points.back().error != kInterrupted) on_point(sweep.points.back());
    }
  };
  collectives.run(options, [&] { emit(false); });
  emit(true);
  return sweep;
}

Sweep<Comparison> compare(Scenario& scenario, const SweepOptions& options, const OnPoint<Comparison>& on_point) {
  if (!scenario.messages)
    throw InputError(Problem{scenario.file, 0, 0, "messages", "compare needs message sizes; for a training step use `foreduce predict`", "", ""});
  note_unused(scenario, false);
  Type type{};
  parse_type(scenario.messages->dtype, type);
  Clusters clusters(scenario);
  Collectives collectives;
  const auto ways = ways_of(scenario.allreduce);
  std::vector<Comparison> points;
  std::vector<std::size_t> numbers;  // of each point's collective; SIZE_MAX: it has none
  std::size_t number = 0;
  for (ClusterCase& c : clusters.cases)
    for (const Bytes size : scenario.messages->sizes.values)
      for (const Way& way : ways) {
        if (!options.shard.mine(number++)) continue;
        Comparison p;
        p.number = number - 1;
        p.instance = c.instance;
        p.algorithm = way.name();
        p.inner = way.inner;
        p.nodes = c.nodes;
        p.ranks = c.cluster ? c.cluster->gpus() : 0;
        p.oversubscription = c.oversubscription;
        p.count = static_cast<std::size_t>(size.value) / size_of(type);
        p.bytes = p.count * size_of(type);
        p.dtype = scenario.messages->dtype;
        p.error = c.error;
        if (p.count == 0) p.error = fmt::format("{} is less than one element of {}", to_text(size), p.dtype);
        std::shared_ptr<const Cluster> cluster;
        try {
          if (p.error.empty()) cluster = clusters.with_servers(c, way);
        } catch (const InputError& e) {
          p.error = words_of(e);
        }
        if (p.error.empty()) {
          p.bound = all_reduce_bound(*cluster, Bytes{static_cast<double>(p.bytes)});
          p.error = check_plan(way, *cluster, scenario.allreduce.channels);
        }
        std::size_t asked = SIZE_MAX;
        if (p.error.empty()) {
          const Collective made = collective(way, cluster, layout_of(*cluster), scenario.allreduce.channels, p.count, type);
          p.segments = made.plan.segments;
          if (!way.algorithm) p.chosen = std::string(made.algorithm->name) + " " + made.sending.protocol;
          asked = collectives.ask(made);
        }
        points.push_back(std::move(p));
        numbers.push_back(asked);
      }

  refuse_if_all_failed(scenario, points);

  Sweep<Comparison> sweep;
  sweep.all = number;
  const auto emit = [&](bool final) {
    while (sweep.points.size() < points.size()) {
      const std::size_t i = sweep.points.size();
      Comparison& p = points[i];
      if (numbers[i] != SIZE_MAX) {
        const CollectiveOutcome& outcome = collectives[numbers[i]];
        if (!final && !outcome.known) return;
        p.error = outcome.error;
        p.time = outcome.result.time;
        p.bottleneck = outcome.result.bottleneck;
        p.folded = outcome.result.folded;
        p.messages = outcome.result.messages;
        p.peak_rss_bytes = outcome.result.peak_rss_bytes;
        p.wall_seconds = outcome.result.wall_seconds;
      }
      sweep.points.push_back(std::move(p));
      if (on_point && sweep.points.back().error != kInterrupted) on_point(sweep.points.back());
    }
  };
  collectives.run(options, [&] { emit(false); });
  emit(true);
  return sweep;
}

}  // namespace foreduce
