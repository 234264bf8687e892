// How far a predicted collective may be off, from what a profile was compared with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/core/collective.hpp"
#include "models/profile.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

/// What 90 % of points of sources that a fit had not seen are within: the mean over the ranges of
/// size of nccl-v100, -a100 and -h100.
inline constexpr double kUnseenSpread = 1.35;

/// What a collective is uncertain by: a factor either way. Outside what the profile was compared
/// with, the nearest range's, squared, and at least what sources were off by that no fit had seen.
struct Uncertainty {
  double spread = 1;
  std::vector<std::string> reasons;  ///< what is outside the calibrated range; empty: nothing
  Seconds least;  ///< what the links' bandwidth alone takes: no measurement is shorter

  Seconds low(Seconds predicted) const {
    return std::min(predicted, std::max(least, predicted / spread));
  }
  Seconds high(Seconds predicted) const { return predicted * spread; }
};
/// Of this size, on so many nodes of a kind with so many GPUs on each; `family` is that of the
/// GPUs.
Uncertainty uncertainty(const Profile& profile, const std::string& instance, int nodes,
                        int per_node, Bytes bytes, const std::string& family = "");
/// Whose algorithm runs: nobody has compared ours with a library's profile.
enum class RunBy : std::uint8_t {
  library,
  forced,  ///< by the library, with a protocol or channels that it would not choose
  own_algorithm
};
/// The same on a cluster as it is, and for any collective: profiles were compared with all-reduces.
Uncertainty uncertainty(const Profile& profile, const Cluster& cluster, Bytes bytes, RunBy by,
                        Collective collective = Collective::all_reduce);

}  // namespace foreduce
