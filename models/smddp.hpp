// SageMaker's distributed data-parallel library: which algorithm it has for a collective, and on
// which instance types. What is published is data (models/smddp.yaml); its times are not published,
// so its algorithms are simulated by the instance's profile.
#pragma once

#include <string>
#include <vector>

#include "algorithms/core/collective.hpp"
#include "topologies/machine.hpp"

namespace foreduce {

/// What SMDDP does for one collective.
struct SmddpCollective {
  std::string algorithm, inner;        ///< of ours
  std::vector<std::string> instances;  ///< that it supports
};

struct Smddp {
  std::string source;
  SmddpCollective all_reduce, all_gather;
  double multiprocessors = 0;  ///< of each GPU that its all-gather takes, at most

  /// Null for what it leaves to NCCL.
  const SmddpCollective* of(Collective collective) const {
    return collective == Collective::all_reduce   ? &all_reduce
           : collective == Collective::all_gather ? &all_gather
                                                  : nullptr;
  }
};
/// Of models/smddp.yaml, read once. Throws InputError for a malformed file.
const Smddp& smddp();

/// Why SMDDP does not run on this machine, or nothing. AWS supports p4d and p4de; on others only
/// the all-reduce that it once had there can be asked for.
std::string smddp_unsupported(const Machine& machine, Collective collective);

}  // namespace foreduce
