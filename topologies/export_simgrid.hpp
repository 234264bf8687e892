// The same cluster as a platform file for SimGrid's own programs.
#pragma once

#include <string>

#include "topologies/cluster.hpp"

namespace foreduce {

/// SimGrid's platform XML (version 4.1, SimGrid 3.32): a zone a node, whose hosts are the worker
/// nodes' GPUs ("node0/gpu3"), a link a direction ("node0/gpu0>pcie0"), and the routes that our
/// simulations take. It does not hold what SimGrid has no word for: what a message costs beyond its
/// bytes, and limits of one flow.
std::string to_simgrid(const Cluster& cluster);

}  // namespace foreduce
