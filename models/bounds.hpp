// What no collective can beat on a topology.
#pragma once

#include <string>

#include "algorithms/core/registry.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

/// The best that any algorithm could do on a topology, and which cut says so.
struct LowerBound {
  Seconds time;
  std::string because;  ///< "node egress", "GPU ingress", "leaf ingress", "one rank"
  Seconds latency;      ///< the part of the time that no bandwidth would shorten
};

/// Lower bound on a collective of nccl-tests' size `bytes` over all GPUs. For each way of cutting
/// the cluster into groups (GPUs, nodes, leaves), in an all-reduce every group must send and
/// receive its sum once, S over its capacity; and together the groups must move 2(n-1)S, n the
/// groups with data (each element needs n-1 combinations and n-1 deliveries across groups). Nothing
/// arrives before one latency. Reduction servers' capacity counts. With SummedBy::switches, the
/// switch between a node's GPUs adds and multicasts, so that each of them need not do more than
/// send its data and receive the sum. Of other collectives, a group of m of all n GPUs must send
/// (reduce-scatter) or receive (all-gather) the other GPUs' share of the bytes, and receive (send)
/// its own; all groups together move G-1 times the bytes, G the groups with data. A broadcast
/// leaves the root's group once and reaches all others; in an all-to-all a group exchanges the
/// share of others of what each of its GPUs holds. A switch that multicasts lets one copy leave for
/// several, one that adds lets one sum arrive for several. Source: Patarasuk & Yuan 2009; Chan et
/// al. 2007, generalised to unequal capacities.
LowerBound collective_bound(const Cluster& cluster, Collective collective, Bytes bytes,
                            SummedBy by = SummedBy::gpus);

/// What may sum on a cluster's nodes: the switches between GPUs where those of all nodes can.
SummedBy summed_at_best(const Cluster& cluster);

}  // namespace foreduce
