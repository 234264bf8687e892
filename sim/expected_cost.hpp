// What a simulation will cost, counted before it runs.
#pragma once

#include <string>

#include "sim/collective.hpp"

namespace foreduce {

/// Of one simulation, as it has been on this project's machines; good to a factor of two.
struct ExpectedCost {
  int ranks = 0;        ///< that will be simulated, each with a stack of its own
  double messages = 0;  ///< of theirs; not counted where there are too many ranks
  Bytes memory;
  Seconds time;
  bool symmetric = false;  ///< whether some ranks represent all
};

/// Posts the schedules of some of the ranks that would be simulated, on a transport that only
/// counts.
ExpectedCost expected_cost(const CollectiveCall& asked);
/// The same with a complete plan, the layout of all ranks, and the symmetry that is used, from at
/// most so many ranks' schedules.
ExpectedCost expected_cost(const CollectiveCall& asked, const Plan& plan, const Layout& layout,
                           const SymmetryReduction& symmetry, std::size_t most_samples);

/// What somebody should know before a simulation begins.
struct SizeNotice {
  /// "a simulation of 33.5 million messages takes about 9.4 GiB and 2 min, more than …": why it is
  /// not simulated within that much memory; empty: it fits.
  std::string too_large;
  std::string long_one;  ///< "… takes about 50 s: …" where that is long; empty: it is not
};
SizeNotice size_notice(const CollectiveCall& asked, Bytes most_memory);

}  // namespace foreduce
