// Whether a schedule sums rightly: simulated with real bytes, since a wrong one has a time as well.
#pragma once

#include <string>

#include "algorithms/core/registry.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

/// More segments than these repeat the same; a check has at most so many.
inline constexpr int kCheckedSegments = 8;

/// Sums whole numbers on every rank, in this process (see simulate_here), in every one of `groups`
/// among its own ranks. Of a cluster whose check would take long, the first so many nodes that are
/// quick; of groups, the fewest nodes that they fill. Returns what is wrong: "the all-reduce of
/// ring is wrong on 2 nodes: …", or that it never ends; "" if every rank has the exact sum.
std::string wrong_sum(const Cluster& cluster, const Algorithm& algorithm, Plan plan,
                      const RankGroups& groups = {});

}  // namespace foreduce
