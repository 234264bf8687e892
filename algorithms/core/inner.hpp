// Which algorithms hierarchical can run between nodes.
#pragma once

#include <string>
#include <vector>

#include "algorithms/core/collective.hpp"

namespace foreduce {

/// Names of those that it can run between nodes for a collective, sorted; some want a power of two
/// of nodes.
std::vector<std::string> inner_algorithms(Collective collective);
/// "; accepted: direct, double-tree, …", for a message that refuses another one.
std::string accepted_inner(Collective collective);

}  // namespace foreduce
