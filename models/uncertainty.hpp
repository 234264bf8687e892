// How far a predicted all-reduce may be off, from what a profile was compared with.
#pragma once

#include <string>

#include "models/profile.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

/// What an all-reduce is uncertain by: a factor either way. Outside what the profile was compared with, the nearest range's,
/// squared, and at least what sources were off by that no fit had seen; `why` says what is outside.
struct Uncertainty {
  double spread = 1;
  bool extrapolated = false;
  std::string why;
  Seconds least;  ///< what the links' bandwidth alone takes: no measurement is shorter

  Seconds low(Seconds predicted) const { return std::min(predicted, std::max(least, predicted / spread)); }
  Seconds high(Seconds predicted) const { return predicted * spread; }
};
/// Of this size, on so many nodes of a kind with so many GPUs on each.
Uncertainty uncertainty(const Profile& profile, const std::string& instance, int nodes, int per_node, Bytes bytes);
/// The same on a cluster as it is; `ours`: by an algorithm of ours, which nobody has compared with a library's profile.
Uncertainty uncertainty(const Profile& profile, const Cluster& cluster, Bytes bytes, bool ours);

}  // namespace foreduce
