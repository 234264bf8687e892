// A ring over many equal nodes from a ring over few: once it is in its steady state, every further
// node adds one more lap that is like the last.
#pragma once

#include <memory>
#include <optional>

#include "sim/collective.hpp"

namespace foreduce {

/// Whether a call is a ring that enough equal nodes on one switch run, so that a few of them may
/// stand for all.
bool has_equal_laps(const CollectiveCall& call);

/// The result of such a call by few nodes' ring of the same chunks. In each of its phases (reduce,
/// gather) the times of all messages must repeat from lap to lap. The network's state then repeats
/// too, and each of the nodes left out takes the time of one more lap. Exact but for rounding.
/// Nothing if the times do not repeat. Simulates in this process, as simulate_here() does.
std::optional<CollectiveResult> simulate_by_laps(const CollectiveCall& call,
                                                 const SimOptions& options);

}  // namespace foreduce
