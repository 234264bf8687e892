// How many points a scenario has, before any is made.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/sweep/cases.hpp"
#include "scenarios/sweep/strategies.hpp"

namespace foreduce {
namespace {

template <class T>
double values_of(const Axis<T>& axis) {
  return static_cast<double>(axis.values.size());
}
/// Of an axis that may be left out.
template <class T>
double values_or_one(const Axis<T>& axis) {
  return std::max(1.0, values_of(axis));
}

double count_clusters(const ClusterSpec& cluster) {
  double nodes = 0;
  for (const ClusterChoice& choice : cluster.choices)
    nodes += values_of(choice.instance) * values_of(choice.nodes);
  if (cluster.choices.empty()) nodes = values_of(cluster.instance) * values_of(cluster.nodes);
  nodes *= values_or_one(cluster.gpus_per_node);
  if (const auto& flat = cluster.flat)
    nodes += values_of(flat->ranks) * values_of(flat->bandwidth) * values_of(flat->latency) *
             values_of(flat->reduce_bandwidth);
  if (!cluster.mixed.empty()) nodes += 1;
  return nodes * values_of(cluster.fabric.placement) * values_of(cluster.fabric.oversubscription);
}

/// Ways to run a collective. As methods_of(), but for servers and inner algorithms, of which only
/// some algorithms have several.
double count_methods(const AllReduceSpec& spec, Collective collective) {
  if (spec.algorithm.values.empty()) return 1 + static_cast<double>(algorithms(collective).size());
  return static_cast<double>(methods_of(spec, collective, MethodUse::step).size());
}

}  // namespace

double count_points(const Scenario& scenario, Asked asked) {
  const double clusters = count_clusters(scenario.cluster);
  if (asked == Asked::messages && scenario.messages)
    return clusters * values_of(scenario.messages->sizes) *
           count_methods(scenario.allreduce, scenario.messages->collective);
  if (!scenario.workload) return clusters;
  const WorkloadSpec& w = *scenario.workload;
  const double splits =
      w.global_batch.values.empty() ? values_of(w.accumulation) : values_of(w.global_batch);
  return clusters * values_of(w.model) * values_of(w.framework) * values_of(w.precision) *
         values_or_one(w.gradient) * values_of(w.batch_per_gpu) * splits *
         static_cast<double>(recomputes_of(w).size()) * values_or_one(w.spread) *
         static_cast<double>(strategies_of(w).size()) *
         count_methods(scenario.allreduce, Collective::all_reduce) *
         values_or_one(scenario.allreduce.bucket);
}

void refuse_too_many(const Scenario& scenario, Asked asked, const SweepOptions& options) {
  if (options.many == Many::accept || options.shard.only || options.shard.count > 1) return;
  const double points = count_points(scenario, asked);
  if (points > kMostPoints)
    throw input_error(
        fmt::format("this sweep has {:.0f} points; more than {:.0f} are not begun unasked", points,
                    kMostPoints),
        "--yes begins it; --shard K/N or --point N answers a part");
}

}  // namespace foreduce
