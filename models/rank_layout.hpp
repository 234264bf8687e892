// From a cluster to who is who: ranks, rails, channels, servers.
#pragma once

#include "algorithms/core/layout.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

/// The layout of an all-reduce over all GPUs of `cluster`, one worker a GPU, node by node; then its
/// reduction servers: one a rail on each host that has them. Channels: one a rail between nodes;
/// inside a single node the rings of its NVLink mesh. Trees: pack_trees(), when they are asked for.
Layout rank_layout(const Cluster& cluster);

/// Where a rank of that layout sits.
Place place_of(const Layout& layout, int rank);

}  // namespace foreduce
