#include "sim/fewer_nodes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace foreduce {
namespace {

/// A tree over these nodes has as many levels less as they were halved times. An even number, of
/// which half need be simulated where trees have a mirror image.
int halved(int nodes, int times) {
  const int left = (nodes + (1 << times) - 1) >> times;
  return left + left % 2;
}

/// By how many times more nodes trees need where chains lead through each node.
constexpr int kChainsDelay = 4;

/// GPUs of a node that Algorithm::steady_nodes is meant for. What is simulated grows with the GPUs,
/// so of larger nodes fewer are: a level takes the same from 28 racks of 72 on within 1 %.
constexpr int kUsualGpus = 8;

/// Nodes from which on one more level takes what the last one took.
int steady_nodes(const CollectiveCall& call) {
  const Cluster& cluster = call.cluster;
  // Without chains in the nodes a level takes the same from fewer nodes on: of double trees among
  // p5, p4d and p6-b200, 100 kB to 400 MB, those from 16 nodes on differ by 1 % of the time.
  if (one_rank_a_node(call.groups, cluster)) return call.algorithm.steady_nodes / kChainsDelay;
  const int each = cluster.gpus() / std::max(1, cluster.nodes());
  const int larger = std::max(1, each / kUsualGpus);
  return call.algorithm.steady_nodes /
         static_cast<int>(std::bit_floor(static_cast<unsigned>(larger)));
}

}  // namespace

bool spans_all_nodes(const RankGroups& groups, const Cluster& cluster) {
  return groups.whole() || (groups.size == cluster.nodes() &&
                            groups.stride == cluster.gpus() / std::max(1, cluster.nodes()));
}

bool one_rank_a_node(const RankGroups& groups, const Cluster& cluster) {
  return spans_all_nodes(groups, cluster) && (!groups.whole() || cluster.gpus() == cluster.nodes());
}

RankGroups among_nodes_of(RankGroups groups, const Cluster& cluster) {
  if (!groups.whole()) groups.size = cluster.nodes();
  return groups;
}

int halvings(const CollectiveCall& call) {
  const Cluster& cluster = call.cluster;
  const int steady = steady_nodes(call);
  const bool tells = steady > 0 && spans_all_nodes(call.groups, cluster) && !call.beside &&
                     cluster.homogeneous() && cluster.leaves() == 0 &&
                     cluster.nodes() == cluster.worker_nodes();
  // Below four times as many the three smaller clusters would save little, but of an odd number
  // all nodes are simulated and not half of them.
  const bool without_mirror = cluster.nodes() % 2 == 1 && call.algorithm.symmetry &&
                              call.algorithm.symmetry(call.plan) == Symmetry::mirror;
  if (!tells || cluster.nodes() <= (without_mirror ? 2 : 4) * steady) return 0;
  int times = 1;
  while (halved(cluster.nodes(), times) > 2 * steady) ++times;
  return times;
}

FewerNodes with_fewer_nodes(const Cluster& cluster, int halvings) {
  const std::shared_ptr<const Machine> machine(std::shared_ptr<const Machine>(),
                                               &cluster.node(0).machine());
  FewerNodes all;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto nodes =
        static_cast<std::size_t>(halved(cluster.nodes(), halvings + static_cast<int>(i)));
    all[i] = std::make_shared<const Cluster>(std::vector(nodes, machine), cluster.fabric());
  }
  return all;
}

ManyNodes on_many_nodes(const std::array<const CollectiveResult*, 3>& fewer, int halvings) {
  ManyNodes many{*fewer[0], 0};
  CollectiveResult& result = many.result;
  const Seconds level = fewer[0]->time - fewer[1]->time, before = fewer[1]->time - fewer[2]->time;
  result.time += halvings * level;
  constexpr double kFurther = 1.5;
  many.error = kFurther * halvings * std::abs((level - before).value) / result.time.value;
  result.utilisations.clear();  // of other links
  for (const CollectiveResult* other : {fewer[1], fewer[2]}) {
    result.messages += other->messages;
    result.wall_seconds += other->wall_seconds;
    result.peak_rss_bytes = std::max(result.peak_rss_bytes, other->peak_rss_bytes);
  }
  for (LinkLoad& load : result.loads)
    load.utilisation = load.bytes / (load.bandwidth.value * result.time.value);
  rank_loads(result);
  return many;
}

}  // namespace foreduce
