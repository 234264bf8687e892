// Trees over many nodes from those over fewer. The depth of a binary tree grows by one with every
// doubling of the nodes, and one more level takes as long as the last one did.
#pragma once

#include <array>
#include <memory>

#include "sim/collective.hpp"

namespace foreduce {

/// Three clusters of equal nodes, the largest first, each with about half the nodes of the one
/// before.
using FewerNodes = std::array<std::shared_ptr<const Cluster>, 3>;

/// Whether a group has all ranks of a cluster, or one of each node at the same place.
bool spans_all_nodes(const RankGroups& groups, const Cluster& cluster);
/// Whether the ranks of a group that spans all nodes are one of each.
bool one_rank_a_node(const RankGroups& groups, const Cluster& cluster);
/// Such groups on a cluster of other nodes.
RankGroups among_nodes_of(RankGroups groups, const Cluster& cluster);

/// How many times the nodes must be halved at least until their trees can be simulated: 0 where
/// they can as they are, or where fewer nodes would not tell.
int halvings(const CollectiveCall& call);

/// The clusters with the nodes halved so many times, once more, and twice more. The machine is the
/// one of `cluster`, which outlives them.
FewerNodes with_fewer_nodes(const Cluster& cluster, int halvings);

/// An answer for many nodes, and by how much it may be off, relative to the time.
struct ManyNodes {
  CollectiveResult result;  ///< with the loads of the largest that was simulated, at this time
  double error = 0;
};

/// From the results on with_fewer_nodes(): `halvings` levels more than the first of them has, each
/// of which takes what the last one took. The error is 1.5 times `halvings` times the difference
/// between the last two levels.
ManyNodes on_many_nodes(const std::array<const CollectiveResult*, 3>& fewer, int halvings);

}  // namespace foreduce
