// Spanning trees that together use the links of a topology as well as can be.
#pragma once

#include <vector>

#include "algorithms/core/spanning_trees.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

struct TreePacking {
  std::vector<SpanningTree> trees;
  /// No all-reduce whose messages take these routes is faster: by the prices of links. 0: unknown.
  double least_seconds_per_byte = 0;
};

/// Trees over the workers of `layout`, which is that of `cluster`, for an all-reduce that reduces
/// up and broadcasts down each of them, all at once. An edge between two workers takes the routes
/// that messages take. The shares are chosen so that the fullest link carries as little as can be,
/// to half a percent: a linear program over all trees, by column generation (Ford & Fulkerson
/// 1958), where the tree to add is a least spanning tree for the prices of the links. At most
/// as many trees as there are links that can be full. Links that need not be full are left some
/// room, and PCIe beside NVLink is left out where that costs less than 5 %: messages that wait for
/// it would lose more. Limits of a connection (ENA's flows) and latencies are not looked at. Of
/// more than kMostTreeWorkers it is two_level_trees().
///
/// The prices bound every all-reduce. Merge workers that are nearer than d to each other: with m
/// groups left, each byte needs m - 1 combinations and m - 1 deliveries across a distance of at
/// least d. Summed over all d, a byte pays for the least spanning tree, there and back.
TreePacking pack_trees(const Cluster& cluster, const Layout& layout);

/// How many bytes of every byte of data the fullest link carries, relative to a link of one byte
/// per second: seconds per byte of an all-reduce over `trees`.
double seconds_per_byte(const std::vector<SpanningTree>& trees, const Cluster& cluster,
                        const Layout& layout);

}  // namespace foreduce
