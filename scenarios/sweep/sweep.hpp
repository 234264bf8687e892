// From a scenario to its points, and from the points to answers: expands the axes, simulates each distinct collective once,
// on all cores, and puts the training steps together.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "algorithms/core/registry.hpp"
#include "models/bounds.hpp"
#include "models/step.hpp"
#include "models/workload.hpp"
#include "scenarios/sweep/scenario.hpp"
#include "sim/batch.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

/// One all-reduce to be simulated; equal ones are simulated once.
struct Collective {
  std::shared_ptr<const Cluster> cluster;
  const Algorithm* algorithm = nullptr;
  Plan plan;
  Sending sending;
  std::size_t count = 0;
  Type type = Type::f32;
  std::string name;  ///< what a reader calls it: "ring", "nccl: double-tree LL128"
};

/// What became of it.
struct CollectiveOutcome {
  bool known = false;  ///< it has ended, well or not
  bool ok = false;
  std::string error;
  CollectiveResult result;
};

/// A cluster of the sweep.
struct ClusterCase {
  std::string instance;
  int nodes = 0;
  double oversubscription = 1;
  std::shared_ptr<const Cluster> cluster;  ///< without servers; null if there can be no such cluster
  std::string error;                       ///< why not
  std::map<std::string, std::shared_ptr<const Cluster>> with_servers;
};

/// Part of a sweep: every count-th point from the index-th on, counted from 1.
struct Shard {
  int index = 1, count = 1;
  std::string from;  ///< where it came from ("--shard", "SLURM_ARRAY_TASK_ID"); empty: the whole sweep
  bool mine(std::size_t point) const { return point % static_cast<std::size_t>(count) == static_cast<std::size_t>(index - 1); }
};

/// Within which bounds nine of ten measurements are expected, by what the profile was compared with.
struct Bounds {
  Seconds low, high;
  bool known = false;         ///< false for the textbook's switch, which nobody can measure
  bool extrapolated = false;  ///< outside what was compared: sizes, nodes, instance, algorithm
  std::string why;            ///< what is outside; empty if nothing is
};

/// A point's answer, `predict`.
struct Prediction {
  std::size_t number = 0;  ///< of the point in the whole sweep, from 0
  std::string model, sample, precision, instance, algorithm, inner, profile;
  int nodes = 0, gpus = 0, batch_per_gpu = 0, accumulation = 1, servers = 0;
  double oversubscription = 1;
  Bytes bucket;
  int segments = 0;   ///< 0: chosen by size
  std::string error;  ///< why there is no answer; then the rest is empty
  bool died = false;  ///< its simulation did not end well, so that there may be an answer; else there can be none
  Step step;
  Bounds step_bounds;               ///< of its total: by all-reduces' bounds, and by how far compute was off elsewhere
  std::vector<std::string> chosen;  ///< nccl and best: what each bucket is summed with, in order, repeated ones once
  double throughput = 0;            ///< samples per second of the whole cluster
  double efficiency_gpu = 0;        ///< against as many times one GPU without communication
  double efficiency_node = 0;       ///< against as many times one node with the same algorithm; 0: unknown
  bool priced = false;
  DollarsPerHour price;  ///< of all instances, servers included
  double usd_per_million_samples = 0;
  std::string bottleneck;  ///< busiest link of the largest bucket's all-reduce
  LinkKind bottleneck_kind = LinkKind::network;
  double bottleneck_utilisation = 0;
  std::string compute_source;
  bool compute_measured = false;
  Bytes state,
      gpu_memory;  ///< what a GPU must keep of the model at least (activations come on top), and what the smallest has; 0: unknown
  bool symmetric = false, cached = false;
  std::uint64_t messages = 0, peak_rss_bytes = 0;
  double wall_seconds = 0;

  bool fits() const { return gpu_memory.value <= 0 || state <= gpu_memory; }
};

/// A point's answer, `compare`.
struct Comparison {
  std::size_t number = 0;  ///< of the point in the whole sweep, from 0
  std::string instance, algorithm, inner, profile;
  int nodes = 0, ranks = 0;
  double oversubscription = 1;
  std::size_t bytes = 0, count = 0;
  std::string dtype;
  std::string chosen;  ///< nccl: algorithm and protocol that it chooses; best: the fastest
  int segments = 0;
  std::string error;
  Seconds time;
  Bounds bounds;  ///< of the time
  LowerBound bound;
  std::string bottleneck;
  bool symmetric = false;
  std::uint64_t messages = 0, peak_rss_bytes = 0;
  double wall_seconds = 0;

  double algbw() const { return time.value > 0 ? static_cast<double>(bytes) / time.value / 1e9 : 0; }
  double busbw() const { return ranks > 1 ? algbw() * 2 * (ranks - 1) / ranks : 0; }
};

/// The error of a point that was not reached before the user stopped the sweep.
inline constexpr const char* kInterrupted = "interrupted";

struct SweepOptions {
  int jobs = 0;  ///< collectives at a time; 0: as many as there are cores
  Shard shard;
  bool all_may_fail = false;   ///< a sweep without a single answer is no error of the scenario
  std::function<bool()> stop;  ///< asked now and then; true ends the sweep, what is done is kept
  /// Called as collectives finish: how many of how many.
  std::function<void(std::size_t done, std::size_t total)> progress;
};

/// What became of a sweep: `all` points there are, of which the shard's are answered, in order.
template <class Point>
struct Sweep {
  std::size_t all = 0;
  std::vector<Point> points;
};

/// Called with each point as soon as it and all before it are known.
template <class Point>
using OnPoint = std::function<void(const Point&)>;

/// A workload that a scenario names: one that ships, or a file beside the scenario.
Workload workload_of(const Scenario& scenario, const std::string& model);
/// The sample that it asks for, or the workload's first. Throws InputError for one that the workload does not have.
std::string sample_of(const Scenario& scenario, const Workload& workload);

Sweep<Prediction> predict(Scenario& scenario, const SweepOptions& options, const OnPoint<Prediction>& on_point = nullptr);
Sweep<Comparison> compare(Scenario& scenario, const SweepOptions& options, const OnPoint<Comparison>& on_point = nullptr);

/// The one cluster that a scenario describes; throws InputError for several.
std::shared_ptr<const Cluster> only_cluster(Scenario scenario);

}  // namespace foreduce
