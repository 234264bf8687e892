// From a scenario to its points, and from the points to answers: expands the axes, simulates each distinct collective once,
// on all cores, and puts the training steps together.
#pragma once

#include <functional>
#include <memory>

#include "algorithms/core/registry.hpp"
#include "models/bounds.hpp"
#include "models/step.hpp"
#include "scenarios/core/scenario.hpp"
#include "sim/collective.hpp"
#include "topologies/core/cluster.hpp"

namespace foreduce {

/// One all-reduce to be simulated; equal ones are simulated once.
struct Collective {
  std::shared_ptr<const Cluster> cluster;
  const Algorithm* algorithm = nullptr;
  Plan plan;
  std::size_t count = 0;
  Type type = Type::f32;
};

/// What became of it.
struct CollectiveOutcome {
  bool ok = false;
  std::string error;
  CollectiveResult result;
};

/// A cluster of the sweep.
struct ClusterCase {
  std::string instance;
  int nodes = 0;
  double oversubscription = 1;
  std::shared_ptr<const Cluster> cluster;                 ///< without servers
  std::map<std::string, std::shared_ptr<const Cluster>> with_servers;
};

/// A point's answer, `predict`.
struct Prediction {
  std::string model, precision, instance, algorithm, inner;
  int nodes = 0, gpus = 0, batch_per_gpu = 0, accumulation = 1, servers = 0;
  double oversubscription = 1;
  Bytes bucket;
  int segments = 0;               ///< 0: chosen by size
  std::string error;              ///< why there is no answer; then the rest is empty
  Step step;
  double throughput = 0;          ///< samples per second of the whole cluster
  double efficiency_gpu = 0;      ///< against as many times one GPU without communication
  double efficiency_node = 0;     ///< against as many times one node with the same algorithm; 0: unknown
  bool priced = false;
  DollarsPerHour price;           ///< of all instances, servers included
  double usd_per_million_samples = 0;
  std::string bottleneck;         ///< busiest link of the largest bucket's all-reduce
  LinkKind bottleneck_kind = LinkKind::network;
  double bottleneck_utilisation = 0;
  std::string compute_source;
  bool compute_measured = false;
  bool folded = false, cached = false;
  std::uint64_t messages = 0, peak_rss_bytes = 0;
  double wall_seconds = 0;
};

/// A point's answer, `compare`.
struct Comparison {
  std::string instance, algorithm, inner;
  int nodes = 0, ranks = 0;
  double oversubscription = 1;
  std::size_t bytes = 0, count = 0;
  std::string dtype;
  int segments = 0;
  std::string error;
  Seconds time;
  LowerBound bound;
  std::string bottleneck;
  bool folded = false;
  std::uint64_t messages = 0, peak_rss_bytes = 0;
  double wall_seconds = 0;

  double algbw() const { return time.value > 0 ? static_cast<double>(bytes) / time.value / 1e9 : 0; }
  double busbw() const { return ranks > 1 ? algbw() * 2 * (ranks - 1) / ranks : 0; }
};

struct SweepOptions {
  int jobs = 0;  ///< collectives at a time; 0: as many as there are cores
  /// Called as collectives finish: how many of how many.
  std::function<void(std::size_t done, std::size_t total)> progress;
};

std::vector<Prediction> predict(Scenario& scenario, const SweepOptions& options);
std::vector<Comparison> compare(Scenario& scenario, const SweepOptions& options);

}  // namespace foreduce
