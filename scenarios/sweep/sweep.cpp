#include "scenarios/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <thread>

#include "models/rank_layout.hpp"
#include "sim/collective_json.hpp"
#include "models/uncertainty.hpp"
#include "sim/child_process.hpp"

namespace foreduce {
namespace {

/// Distinct collectives, simulated on all cores. Asking twice for an equal one costs nothing.
class Collectives {
 public:
  /// Registers one and returns its number.
  std::size_t ask(const Collective& c) {
    const std::string key =
        fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{:a}|{:a}|{:a}|{}", static_cast<const void*>(c.cluster.get()), c.algorithm->name,
                    c.plan.segments, c.plan.channels, c.plan.inner, c.count, static_cast<int>(c.type),
                    static_cast<const void*>(c.sending.profile.get()), c.sending.protocol, c.sending.channels_each,
                    c.sending.messages_each, c.sending.slots, c.sending.separate_halves);
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
        return to_json(simulate_here({*c.cluster, *c.algorithm, c.plan, c.count, c.type, Op::sum}, how));
      });
    const int jobs = options.jobs > 0 ? options.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    std::size_t done = 0;
    run_in_children(
        work, jobs,
        [&](std::size_t index, ChildResult outcome) {
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
        },
        options.stop);
  }
  const CollectiveOutcome& operator[](std::size_t number) const { return outcomes_[number]; }
  const std::string& name(std::size_t number) const { return asked_[number].name; }
  const Plan& plan(std::size_t number) const { return asked_[number].plan; }
  /// Whether all have ended.
  bool all_known(const std::vector<std::size_t>& numbers) const {
    return std::all_of(numbers.begin(), numbers.end(), [this](std::size_t n) { return outcomes_[n].known; });
  }
  /// The place in `numbers` of the one that is fastest; the first if none has an answer.
  std::size_t fastest(const std::vector<std::size_t>& numbers) const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      const CollectiveOutcome &a = outcomes_[numbers[i]], &b = outcomes_[numbers[best]];
      if (a.ok && (!b.ok || a.result.time < b.result.time)) best = i;
    }
    return best;
  }

 private:
  std::map<std::string, std::size_t> known_;
  std::vector<Collective> asked_;
  std::vector<CollectiveOutcome> outcomes_;
};

/// The question is also what its files say: parts of a sweep that read different machines do not fit together.
void add_to_hash(Scenario& scenario, const std::filesystem::path& file) { scenario.hash = sha1(scenario.hash + read_text(file)); }

/// Machines by name or file, read once.
class Machines {
 public:
  explicit Machines(Scenario& scenario) : scenario_(scenario), folder_(std::filesystem::path(scenario.file).parent_path()) {}

  std::shared_ptr<const Machine> get(const std::string& name) {
    auto& known = machines_[name];
    if (known) return known;
    known = std::make_shared<const Machine>(machine_named(name, folder_));
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
  enum class Kind : std::uint8_t { ours, nccl, best };
  Kind kind = Kind::ours;
  const Algorithm* algorithm = nullptr;  ///< ours; null: what NCCL would choose, or the fastest of all
  std::string inner;
  int segments = 0, servers = 0;
  std::string profile;
  Plan plan(int channels) const { return {segments, channels, inner.empty() ? "ring" : inner}; }
  std::string name() const { return kind == Kind::nccl ? "nccl" : kind == Kind::best ? "best" : std::string(algorithm->name); }
  bool uses_servers() const { return algorithm && algorithm->uses_servers; }
};

/// Profiles by name or file, or the one made for a machine; each is read once.
class TransportProfiles {
 public:
  /// Files are read at once, whatever part of the sweep this is: they are part of the question, and so is what ships.
  explicit TransportProfiles(Scenario& scenario) {
    const auto models = data_folder() / "models";
    for (const std::string& name : shipped_.names()) add_to_hash(scenario, models / "profiles" / (name + ".yaml"));
    for (const char* file : {"nccl.yaml", "training.yaml", "ofi_tuner_regions.csv"}) add_to_hash(scenario, models / file);
    for (const std::string& name : scenario.allreduce.profile.values) {
      if (!names_file(name)) continue;
      const auto file = std::filesystem::path(scenario.file).parent_path() / name;
      known_[name] = std::make_shared<const Profile>(load_profile(file));
      add_to_hash(scenario, file);
    }
  }

  std::shared_ptr<const Profile> get(const std::string& name, const Cluster& cluster) {
    const std::string& instance = cluster.node(0).machine().name;
    auto& known = known_[name == "auto" ? "auto " + instance : name];
    if (!known) known = std::make_shared<const Profile>(name == "auto" ? shipped_.made_for(instance) : shipped_.load(name));
    return known;
  }
  /// What a report calls it: what was asked for, or what that comes to here.
  std::string name(const std::string& asked, const std::shared_ptr<const Cluster>& cluster) {
    return asked == "auto" && cluster ? get(asked, *cluster)->name : asked;
  }

 private:
  Profiles shipped_;
  std::map<std::string, std::shared_ptr<const Profile>> known_;
};

/// What one way is on one cluster; of several the fastest is the answer.
struct Candidate {
  Way way;
  std::shared_ptr<const Cluster> cluster;
  std::shared_ptr<const Profile> profile;
  std::shared_ptr<const Layout> layout;
  int channels = 0;

  /// Why it cannot run; empty if it can. Channels are checked against what the topology has: more is not silently less.
  std::string refused() const {
    if (way.kind == Way::Kind::nccl) {
      try {
        as_nccl(*cluster, *layout, profile, Bytes{1});
        return "";
      } catch (const InputError& e) {
        return words_of(e);
      }
    }
    if (channels > static_cast<int>(layout->channels.size()))
      return fmt::format("{} channels are asked for; this topology has {}", channels, layout->channels.size());
    return unsupported_reason(*way.algorithm, *layout, with_defaults(*way.algorithm, way.plan(channels), *layout, 1)).value_or("");
  }
  /// What is to be simulated for `count` elements.
  Collective collective(std::size_t count, Type type) const {
    const Bytes bytes{static_cast<double>(count * size_of(type))};
    if (way.kind == Way::Kind::ours)
      return {cluster,
              way.algorithm,
              with_defaults(*way.algorithm, way.plan(channels), *layout, count * size_of(type)),
              as_ours(*layout, profile),
              count,
              type,
              way.name()};
    const AsNccl as = as_nccl(*cluster, *layout, profile, bytes);
    return {cluster, as.algorithm, as.plan, as.sending, count, type, fmt::format("{} {}", as.algorithm->name, as.sending.protocol)};
  }
};

/// Bounds of an all-reduce of `bytes` that takes `time` by `way`.
Bounds bounds_of(const Candidate& c, Bytes bytes, Seconds time) {
  const std::string& instance = c.cluster->node(0).machine().name;
  if (instance == "switch" || c.layout->workers < 2) return {time, time, false, false, ""};
  const Uncertainty u = uncertainty(*c.profile, *c.cluster, bytes, c.way.kind == Way::Kind::ours);
  return {u.low(time), u.high(time), true, u.extrapolated, u.why};
}

/// The axes of the cluster, in the order in which a reader would vary them.
class Clusters {
 public:
  explicit Clusters(Scenario& scenario) : scenario_(scenario), machines_(scenario) {
    const ClusterSpec& spec = scenario.cluster;
    if (dedicated_servers())
      machines_.get(scenario.allreduce.servers.instance);  // part of the question, whatever part of the sweep this is
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
          for (const BytesPerSecond reduce : spec.flat->reduce_bandwidth.values)
            for (const int ranks : spec.flat->ranks.values)
              add(fmt::format("switch {} {}{}", to_text(bandwidth), to_text(latency),
                              spec.flat->reduce_bandwidth.values.size() > 1 ? ", reduces " + to_text(reduce) : ""),
                  {static_cast<std::size_t>(ranks), std::make_shared<Machine>(Machine::flat(bandwidth, latency, reduce))});
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
    for (int n = 0; n < c.cluster->worker_nodes(); ++n)
      nodes.push_back(std::shared_ptr<const Machine>(c.cluster, &c.cluster->node(n).machine()));
    known = std::make_shared<Cluster>(nodes, c.cluster->fabric(), servers);
    return known;
  }
  /// Its layout, made once.
  std::shared_ptr<const Layout> layout(const std::shared_ptr<const Cluster>& cluster) {
    auto& known = layouts_[cluster];
    if (!known) known = std::make_shared<const Layout>(rank_layout(*cluster));
    return known;
  }
  /// Whether reduction servers would be machines of their own.
  bool dedicated_servers() const { return scenario_.allreduce.servers.place == "dedicated"; }
  /// One node of the same kind, to compare with; null for mixed clusters.
  ClusterCase* one_node(const ClusterCase& c) {
    if (!c.cluster->homogeneous()) return nullptr;
    auto& known = ones_[c.instance];
    if (!known) {
      known = std::make_unique<ClusterCase>();
      known->instance = c.instance;
      known->nodes = 1;
      known->cluster = std::make_shared<Cluster>(
          std::vector<std::shared_ptr<const Machine>>{std::shared_ptr<const Machine>(c.cluster, &c.cluster->node(0).machine())},
          FabricSpec{});
    }
    return known.get();
  }

  std::vector<ClusterCase> cases;

 private:
  const Scenario& scenario_;
  Machines machines_;
  std::map<std::string, std::unique_ptr<ClusterCase>> ones_;
  std::map<std::shared_ptr<const Cluster>, std::shared_ptr<const Layout>> layouts_;
};

std::vector<Way> ways_of(const AllReduceSpec& spec) {
  std::vector<Way> ways;
  for (const std::string& name : spec.algorithm.values)
    for (const std::string& profile : spec.profile.values) {
      if (name == "nccl" || name == "best") {
        ways.push_back({name == "nccl" ? Way::Kind::nccl : Way::Kind::best, nullptr, "", 0, 0, profile});
        continue;
      }
      const Algorithm* algorithm = find_algorithm(name);
      const auto inners = algorithm->takes_inner ? spec.inner.values : std::vector<std::string>{""};
      const auto counts =
          algorithm->uses_servers && spec.servers.place == "dedicated" ? spec.servers.count.values : std::vector<int>{0};
      for (const std::string& inner : inners)
        for (const int count : counts)
          for (const int segments : spec.segments.values)
            ways.push_back({Way::Kind::ours, algorithm, inner, segments, count, profile});
    }
  return ways;
}

/// Where `direct` is still tried for `best`: its n² messages cost the simulator more than they can gain beyond.
constexpr int kMostDirect = 64;

/// What `way` can be on a cluster: one candidate, or for `best` every algorithm that can run there without machines of its own, and
/// what NCCL would choose. Throws InputError where nothing can.
std::vector<Candidate> candidates_of(const Way& way, Clusters& clusters, ClusterCase& c, TransportProfiles& profiles,
                                     int channels) {
  const auto made = [&](const Way& w) {
    const auto cluster = clusters.with_servers(c, w);
    return Candidate{w, cluster, profiles.get(w.profile, *c.cluster), clusters.layout(cluster), channels};
  };
  if (way.kind != Way::Kind::best) {
    Candidate one = made(way);
    if (const std::string why = one.refused(); !why.empty()) throw input_error(why);
    return {std::move(one)};
  }
  std::vector<Candidate> all;
  const auto add = [&](const Way& w) {
    Candidate one = made(w);
    if (one.refused().empty()) all.push_back(std::move(one));
  };
  for (const Algorithm* a : algorithms()) {
    if ((a->uses_servers && clusters.dedicated_servers()) || (a->name == "direct" && c.cluster->gpus() > kMostDirect)) continue;
    add({Way::Kind::ours, a, a->takes_inner ? "ring" : "", 0, 0, way.profile});
  }
  if (c.cluster->node(0).machine().gpu) add({Way::Kind::nccl, nullptr, "", 0, 0, way.profile});
  if (all.empty()) throw input_error("no algorithm can run here");
  return all;
}

void note_unused(Scenario& s, bool predicting) {
  const auto any = [&](auto matches) {
    return std::any_of(s.allreduce.algorithm.values.begin(), s.allreduce.algorithm.values.end(), matches);
  };
  if (predicting && s.messages) s.unused.emplace_back("messages");
  if (s.goal) s.unused.emplace_back("goal");
  if (!predicting && s.workload) s.unused.emplace_back("workload");
  if (!predicting && !s.allreduce.bucket.values.empty()) s.unused.emplace_back("allreduce.bucket");
  if (s.allreduce.inner.values != std::vector<std::string>{"ring"} &&
      !any([](const std::string& a) { return find_algorithm(a) && find_algorithm(a)->takes_inner; }))
    s.unused.emplace_back("allreduce.inner");
  if (s.allreduce.segments.values != std::vector<int>{0} && !any([](const std::string& a) { return find_algorithm(a); }))
    s.unused.emplace_back("allreduce.segments");
  if (s.allreduce.servers.place == "dedicated" &&
      !any([](const std::string& a) { return find_algorithm(a) && find_algorithm(a)->uses_servers; }))
    s.unused.emplace_back("allreduce.servers");
}

/// The slowest GPU sets the pace of a mixed cluster.
ComputeTime slowest(const Workload& workload, const Cluster& cluster, const std::string& precision, const std::string& sample,
                    int batch) {
  ComputeTime slow;
  for (int n = 0; n < cluster.worker_nodes(); ++n) {
    if (n > 0 && &cluster.node(n) == &cluster.node(n - 1)) continue;
    const ComputeTime t = compute_time(workload, *cluster.node(n).machine().gpu, precision, sample, batch);
    if (n == 0 || t.forward_backward > slow.forward_backward) slow = t;
  }
  return slow;
}

/// Of the GPUs; 0 where one's is unknown.
Bytes smallest_memory(const Cluster& cluster) {
  Bytes least = cluster.node(0).machine().gpu->memory;
  for (int n = 1; n < cluster.worker_nodes(); ++n) least = std::min(least, cluster.node(n).machine().gpu->memory);
  return least;
}

/// If no point can be answered for what was asked, that is the user's error, not a row.
template <class Points>
void refuse_if_all_failed(const Scenario& scenario, const Points& points) {
  if (points.empty()) return;
  for (const auto& p : points)
    if (p.error.empty()) return;
  throw file_error(scenario.file, points.front().error);
}

}  // namespace

std::shared_ptr<const Cluster> only_cluster(Scenario scenario) {
  Clusters clusters(scenario);
  if (clusters.cases.size() != 1)
    throw wrong(scenario, "cluster", fmt::format("one cluster is needed here, and this describes {}", clusters.cases.size()),
                "no lists in cluster");
  return clusters.cases.front().cluster;
}

Workload workload_of(const Scenario& scenario, const std::string& model) {
  return names_file(model) ? Workloads::load_file(std::filesystem::path(scenario.file).parent_path() / model)
                           : Workloads().load(model);
}

std::string sample_of(const Scenario& scenario, const Workload& workload) {
  const std::string& asked = scenario.workload->sample;
  const Variant* variant = workload.variant(asked);
  if (!variant)
    throw wrong(scenario, "workload.sample", fmt::format("{} has no sample '{}'", workload.name, asked),
                workload.suggest_sample(asked));
  return variant->sample;
}

Sweep<Prediction> predict(Scenario& scenario, const SweepOptions& options, const OnPoint<Prediction>& on_point) {
  if (!scenario.workload) throw wrong(scenario, "workload", "predict needs a workload; for message sizes use `foreduce compare`");
  note_unused(scenario, true);
  const TrainingConstants& constants = training_constants();
  const WorkloadSpec& asked = *scenario.workload;
  AllReduceSpec& ar = scenario.allreduce;
  if (ar.bucket.values.empty()) ar.bucket.values.push_back(ar.bucketing == "horovod" ? constants.fusion_buffer : constants.bucket);

  Clusters clusters(scenario);
  TransportProfiles profiles(scenario);
  Collectives collectives;
  const auto ways = ways_of(ar);

  struct Asked {
    std::vector<std::vector<std::size_t>> numbers;  // of each bucket's collectives, by candidate
    std::vector<std::vector<double>> shares;        // speed of backward beside each of them
    double slowest = 1;                             // GPU's compute time over the usual one's
  };
  const auto share_of = [&](const Candidate& c, const Algorithm& algorithm) {
    if (ar.compute_share) return *ar.compute_share;
    if (c.way.uses_servers()) return constants.compute_share_servers;
    return compute_share(*c.cluster, *c.layout, *c.profile, algorithm.name.starts_with("nvls"));
  };
  struct Job {
    Prediction point;
    StepInput step;
    std::vector<Candidate> candidates;
    Asked here, on_one_node;
    double compute_within = 1;
    double per_gpu = 0;       // samples per second of one GPU alone
    std::size_t element = 0;  // bytes of a gradient's element
    bool fresh = false;
  };
  std::vector<Job> jobs;
  std::map<std::string, Workload> workloads;
  std::size_t known = 0, number = 0;
  for (const std::string& model : asked.model.values) {
    if (!workloads.contains(model)) workloads[model] = workload_of(scenario, model);
    const Workload& workload = workloads[model];
    if (names_file(model)) add_to_hash(scenario, std::filesystem::path(scenario.file).parent_path() / model);
    const std::string sample = sample_of(scenario, workload);
    const bool by_step = !asked.global_batch.values.empty();
    for (const std::string& precision : asked.precision.values)
      for (const int batch : asked.batch_per_gpu.values)
        for (const int split : by_step ? asked.global_batch.values : asked.accumulation.values)
          for (ClusterCase& c : clusters.cases)
            for (const Way& way : ways)
              for (const Bytes bucket : ar.bucket.values) {
                if (!options.shard.mine(number++)) continue;
                Job& job = jobs.emplace_back();
                Prediction& p = job.point;
                p.number = number - 1;
                p.model = model;
                p.sample = sample;
                p.precision = precision;
                p.instance = c.instance;
                p.algorithm = way.name();
                p.inner = way.inner;
                p.profile = profiles.name(way.profile, c.cluster);
                p.nodes = c.nodes;
                p.gpus = c.cluster ? c.cluster->gpus() : 0;
                p.batch_per_gpu = batch;
                p.accumulation = split;
                if (by_step)
                  p.accumulation =
                      static_cast<int>(std::max<std::int64_t>(1, split / std::max<std::int64_t>(1, std::int64_t{batch} * p.gpus)));
                p.servers = way.servers;
                p.oversubscription = c.oversubscription;
                p.bucket = bucket;
                p.segments = way.segments;

                p.error = c.error;
                if (p.error.empty() && by_step && std::int64_t{p.accumulation} * batch * p.gpus != split)
                  p.error =
                      fmt::format("a step of {} samples cannot be cut into micro-batches of {} on {} GPUs", split, batch, p.gpus);
                if (!p.error.empty()) continue;
                ComputeTime compute;
                try {
                  job.candidates = candidates_of(way, clusters, c, profiles, ar.channels);
                  compute = asked.samples_per_s
                                ? compute_time(workload, *c.cluster->node(0).machine().gpu, precision, *asked.samples_per_s, batch)
                                : slowest(workload, *c.cluster, precision, sample, batch);
                } catch (const InputError& e) {
                  p.error = words_of(e);
                  continue;
                }
                const Cluster& cluster = *job.candidates.front().cluster;
                p.priced = cluster.priced();
                p.price = cluster.price();

                p.compute_source = compute.source;
                p.state = training_state(workload, asked.state);
                p.gpu_memory = smallest_memory(cluster);
                p.compute_measured = compute.measured;
                job.compute_within = compute.within;

                Type type{};
                parse_type(asked.gradient.empty() ? precision : asked.gradient, type);
                const double spread = asked.spread.value_or(constants.spread);
                job.here.slowest = slowest_of(p.gpus, spread);
                job.on_one_node.slowest = slowest_of(p.gpus / p.nodes, spread);
                StepInput& in = job.step;
                in.backward = compute.forward_backward * constants.backward_share;
                in.forward = compute.forward_backward - in.backward;
                in.optimizer = compute.optimizer;
                in.accumulation = p.accumulation;
                in.buckets = ar.bucketing == "ddp"     ? ddp_buckets(workload.tensors, size_of(type),
                                                                     ar.first_bucket.value_or(constants.first_bucket), bucket)
                             : ar.bucketing == "smddp" ? balanced_buckets(workload.tensors, size_of(type), bucket)
                                                       : horovod_buckets(workload.tensors, size_of(type), bucket,
                                                                         constants.fusion_cycle, in.backward * job.here.slowest);
                job.per_gpu = batch * p.accumulation / (compute.forward_backward * p.accumulation + compute.optimizer).value;

                job.element = size_of(type);
                std::vector<Candidate> alone;
                if (ClusterCase* one = clusters.one_node(c)) {
                  try {
                    const int rails = static_cast<int>(clusters.layout(one->cluster)->channels.size());
                    alone = candidates_of(way, clusters, *one, profiles, std::min(ar.channels, rails));
                  } catch (const InputError&) {  // what needs several nodes has nothing to compare with
                  }
                }
                const auto ask = [&](Asked& of, const std::vector<Candidate>& candidates, std::size_t elements) {
                  auto& numbers = of.numbers.emplace_back();
                  auto& shares = of.shares.emplace_back();
                  for (const Candidate& candidate : candidates) {
                    const Collective collective = candidate.collective(elements, type);
                    shares.push_back(share_of(candidate, *collective.algorithm));
                    numbers.push_back(collectives.ask(collective));
                  }
                };
                for (const Bucket& b : in.buckets) {
                  ask(job.here, job.candidates, b.elements);
                  for (const std::size_t n : job.here.numbers.back())
                    if (n >= known) {
                      known = n + 1;
                      job.fresh = true;
                    }
                  if (!alone.empty()) ask(job.on_one_node, alone, b.elements);
                }
              }
  }

  std::vector<Prediction> before;
  for (const Job& job : jobs) before.push_back(job.point);
  if (!options.all_may_fail) refuse_if_all_failed(scenario, before);

  // The answer of a job whose collectives are all known.
  const auto answer = [&](Job& job) {
    Prediction& p = job.point;
    /// The step with the candidate `picks` says for each bucket.
    const auto input_of = [&](const Asked& of, const std::vector<std::size_t>& picks) {
      StepInput step = job.step;
      step.slowest = of.slowest;
      for (std::size_t i = 0; i < picks.size(); ++i)
        step.compute_share = i == 0 ? of.shares[i][picks[i]] : std::min(step.compute_share, of.shares[i][picks[i]]);
      return step;
    };
    /// How long its all-reduces take. `stretch`: of each bucket's time; empty: 1.
    const auto times_of = [&](const Asked& of, const std::vector<std::size_t>& picks,
                              const std::vector<double>& stretch) -> AllReduceTime {
      std::map<std::size_t, Seconds> times;
      for (std::size_t i = 0; i < picks.size(); ++i)
        times[job.step.buckets[i].elements] = collectives[of.numbers[i][picks[i]]].result.time * (stretch.empty() ? 1 : stretch[i]);
      return [times = std::move(times)](std::size_t elements) { return times.at(elements); };
    };
    const auto play = [&](const Asked& of, const std::vector<std::size_t>& picks) {
      return play_step(input_of(of, picks), times_of(of, picks, {}));
    };
    /// What makes the step shortest: the fastest for each bucket, or one for all, which may leave the GPU more to compute with.
    const auto pick = [&](const Asked& of) {
      std::vector<std::size_t> best;
      for (const auto& numbers : of.numbers) best.push_back(collectives.fastest(numbers));
      const std::size_t candidates = of.numbers.empty() ? 0 : of.numbers[0].size();
      for (std::size_t c = 0; candidates > 1 && c < candidates; ++c) {
        const std::vector<std::size_t> one(of.numbers.size(), c);
        if (std::all_of(of.numbers.begin(), of.numbers.end(), [&](const auto& n) { return collectives[n[c]].ok; }) &&
            play(of, one).total < play(of, best).total)
          best = one;
      }
      return best;
    };
    std::vector<std::size_t> distinct;
    for (const auto& numbers : job.here.numbers) distinct.insert(distinct.end(), numbers.begin(), numbers.end());
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (const std::size_t n : distinct) {
      const CollectiveOutcome& c = collectives[n];
      p.messages += c.result.messages;
      p.wall_seconds += c.result.wall_seconds;
      p.peak_rss_bytes = std::max(p.peak_rss_bytes, c.result.peak_rss_bytes);
      p.symmetric = p.symmetric || c.result.symmetric;
    }
    for (const auto& numbers : job.here.numbers) {
      if (!collectives.all_known(numbers)) p.error = kInterrupted;
      if (const CollectiveOutcome& c = collectives[numbers[collectives.fastest(numbers)]]; !c.ok && p.error.empty()) {
        p.error = c.error;
        p.died = true;
      }
    }
    p.cached = !job.fresh;
    if (!p.error.empty()) return;
    const std::vector<std::size_t> picks = pick(job.here);
    std::size_t largest = 0;
    std::vector<double> low, high;
    p.step_bounds.known = true;
    for (std::size_t i = 0; i < job.step.buckets.size(); ++i) {
      const Bucket& bucket = job.step.buckets[i];
      if (bucket.elements > job.step.buckets[largest].elements) largest = i;
      const std::size_t winner = job.here.numbers[i][picks[i]];
      const Seconds time = collectives[winner].result.time;
      const Bounds bounds = bounds_of(job.candidates[picks[i]], Bytes{static_cast<double>(bucket.elements * job.element)}, time);
      low.push_back(time.value > 0 ? bounds.low / time : 1);
      high.push_back(time.value > 0 ? bounds.high / time : 1);
      p.step_bounds.known = p.step_bounds.known && (bounds.known || time.value == 0);
      if (bounds.extrapolated && !p.step_bounds.extrapolated) p.step_bounds.why = bounds.why;
      p.step_bounds.extrapolated = p.step_bounds.extrapolated || bounds.extrapolated;
      if (p.algorithm == "nccl" || p.algorithm == "best") {
        const std::string& name = collectives.name(winner);
        if (std::find(p.chosen.begin(), p.chosen.end(), name) == p.chosen.end()) p.chosen.push_back(name);
      }
    }
    const CollectiveResult& most = collectives[job.here.numbers[largest][picks[largest]]].result;
    p.step = play(job.here, picks);
    const StepSpan span = span_of_step(input_of(job.here, picks), times_of(job.here, picks, {}), times_of(job.here, picks, low),
                                       times_of(job.here, picks, high), job.compute_within);
    p.step_bounds.low = span.low;
    p.step_bounds.high = span.high;
    if (!p.compute_measured) {
      p.step_bounds.extrapolated = true;
      p.step_bounds.why += (p.step_bounds.why.empty() ? "" : "; ") +
                           fmt::format("nobody measured {} in {} on such a GPU: its compute is an estimate", p.model, p.precision);
    }
    p.bottleneck = most.bottleneck;
    if (!most.loads.empty()) {
      p.bottleneck_kind = most.loads[0].kind;
      p.bottleneck_utilisation = most.loads[0].utilisation;
    }
    const double samples = static_cast<double>(p.gpus) * p.batch_per_gpu * p.accumulation;
    p.throughput = samples / p.step.total.value;
    p.efficiency_gpu = p.throughput / (p.gpus * job.per_gpu);
    const bool one_known = !job.on_one_node.shares.empty() &&
                           std::all_of(job.on_one_node.numbers.begin(), job.on_one_node.numbers.end(), [&](const auto& n) {
                             return collectives.all_known(n) && collectives[n[collectives.fastest(n)]].ok;
                           });
    if (one_known)
      p.efficiency_node = play(job.on_one_node, pick(job.on_one_node)).total / p.step.total;  // the same samples per GPU in either
    if (p.priced) p.usd_per_million_samples = p.price.value / 3600 / p.throughput * 1e6;
  };

  Sweep<Prediction> sweep;
  sweep.all = number;
  const auto emit = [&](bool final) {
    while (sweep.points.size() < jobs.size()) {
      Job& job = jobs[sweep.points.size()];
      const auto ended = [&](const std::vector<std::size_t>& numbers) { return collectives.all_known(numbers); };
      if (!final && !(std::all_of(job.here.numbers.begin(), job.here.numbers.end(), ended) &&
                      std::all_of(job.on_one_node.numbers.begin(), job.on_one_node.numbers.end(), ended)))
        return;
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
    throw wrong(scenario, "messages", "compare needs message sizes; for a training step use `foreduce predict`");
  note_unused(scenario, false);
  Type type{};
  parse_type(scenario.messages->dtype, type);
  Clusters clusters(scenario);
  TransportProfiles profiles(scenario);
  Collectives collectives;
  const auto ways = ways_of(scenario.allreduce);
  std::vector<Comparison> points;
  struct Asked {
    std::vector<Candidate> candidates;
    std::vector<std::size_t> numbers;  // of each candidate's collective; none if the point has an error
  };
  std::vector<Asked> asked;
  std::size_t number = 0;
  for (ClusterCase& c : clusters.cases)
    for (const Bytes size : scenario.messages->sizes.values)
      for (const Way& way : ways) {
        if (!options.shard.mine(number++)) continue;
        Comparison& p = points.emplace_back();
        Asked& a = asked.emplace_back();
        p.number = number - 1;
        p.instance = c.instance;
        p.algorithm = way.name();
        p.inner = way.inner;
        p.profile = profiles.name(way.profile, c.cluster);
        p.nodes = c.nodes;
        p.ranks = c.cluster ? c.cluster->gpus() : 0;
        p.oversubscription = c.oversubscription;
        p.count = static_cast<std::size_t>(size.value) / size_of(type);
        p.bytes = p.count * size_of(type);
        p.dtype = scenario.messages->dtype;
        p.error = c.error;
        if (p.count == 0) p.error = fmt::format("{} is less than one element of {}", to_text(size), p.dtype);
        if (!p.error.empty()) continue;
        try {
          a.candidates = candidates_of(way, clusters, c, profiles, scenario.allreduce.channels);
        } catch (const InputError& e) {
          p.error = words_of(e);
          continue;
        }
        p.bound = all_reduce_bound(*a.candidates.front().cluster, Bytes{static_cast<double>(p.bytes)});
        for (const Candidate& candidate : a.candidates) a.numbers.push_back(collectives.ask(candidate.collective(p.count, type)));
      }

  refuse_if_all_failed(scenario, points);

  Sweep<Comparison> sweep;
  sweep.all = number;
  const auto emit = [&](bool final) {
    while (sweep.points.size() < points.size()) {
      const std::size_t i = sweep.points.size();
      Comparison& p = points[i];
      if (const Asked& a = asked[i]; !a.numbers.empty()) {
        const bool ended = collectives.all_known(a.numbers);
        if (!final && !ended) return;
        const std::size_t best = collectives.fastest(a.numbers), chosen = a.numbers[best];
        const CollectiveOutcome& outcome = collectives[chosen];
        p.error = ended ? outcome.error : kInterrupted;
        p.segments = collectives.plan(chosen).segments;
        if (p.algorithm == "nccl" || p.algorithm == "best") p.chosen = collectives.name(chosen);
        p.time = outcome.result.time;
        p.bounds = bounds_of(a.candidates[best], Bytes{static_cast<double>(p.bytes)}, p.time);
        p.bottleneck = outcome.result.bottleneck;
        for (const std::size_t n : a.numbers) {
          const CollectiveResult& r = collectives[n].result;
          p.symmetric = p.symmetric || r.symmetric;
          p.messages += r.messages;
          p.peak_rss_bytes = std::max(p.peak_rss_bytes, r.peak_rss_bytes);
          p.wall_seconds += r.wall_seconds;
        }
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
