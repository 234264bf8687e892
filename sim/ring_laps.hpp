// A ring over many equal nodes from a ring over few: once it is in its steady state, every further
// node adds one more lap that is like the last.
#pragma once

#include <memory>
#include <optional>

#include "sim/collective.hpp"

namespace foreduce {

/// Whether a call is a ring on one switch with enough equal nodes that follow each other, so that a
/// few of them may stand for all. Other nodes may differ, as one whose NICs are slow.
bool has_equal_laps(const CollectiveCall& call);

/// No estimated error is smaller where nodes differ.
inline constexpr double kLeastLapsError = 0.001;

/// The result of such a call by few nodes' ring of the same chunks. Where all nodes are equal, the
/// times of all messages must repeat from lap to lap in each phase (reduce, gather): the network's
/// state then repeats too, and each node left out takes the time of one more lap. Where some
/// differ, rings with 16, 24, 25 and 26 of the equal nodes must be on a straight line, which is no
/// proof (kLeastLapsError). Nothing if these times do not agree. Simulates in this process, as
/// simulate_here() does.
std::optional<CollectiveResult> simulate_by_laps(const CollectiveCall& call,
                                                 const SimOptions& options);

}  // namespace foreduce
