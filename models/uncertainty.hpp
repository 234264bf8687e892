// How far a predicted collective may be off, from what a profile was compared with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/core/collective.hpp"
#include "models/profile.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

/// Factors of intervals that a profile's own comparison does not give (models/uncertainty.yaml says
/// what each is for, and its source). All are factors either way.
struct UncertaintyConstants {
  /// Of message sizes below `below`.
  struct SizeRange {
    Bytes below;
    double spread = 1;
  };
  /// The same of a power of a factor.
  struct SizePower {
    Bytes below;
    double power = 1;
  };
  double unseen_source = 1, data_sheet = 1, least = 1;
  double other_nodes_reach = 1;  ///< ratio of node counts
  double node_all_to_all = 1;    ///< of small ones in one node
  double alike = 0;              ///< relative difference of bandwidths
  int server_gpus = 0;           ///< GPUs of the largest server
  std::vector<SizeRange> other_collective, unseen_gpu, larger_domain;  ///< ascending
  std::vector<SizePower> published;  ///< ascending; see Uncertainty::published
  /// Families of GPUs with equal links, of which one's collectives take as long as the other's.
  std::vector<std::vector<std::string>> same_links;
};
/// Throws InputError for a malformed file.
const UncertaintyConstants& uncertainty_constants();

/// The 90 % prediction interval of a collective's time on a healthy cluster, as a factor either
/// way. Outside the calibrated range it is the square of the nearest range's factor, and at least
/// UncertaintyConstants::unseen_source.
struct Uncertainty {
  double spread = 1;
  /// The same of what people publish: old software, virtual machines and faults included. Not less
  /// than `spread`. Only of what a library runs, for nobody published other algorithms.
  std::optional<double> published = {};
  std::vector<std::string> reasons;  ///< what is outside the calibrated range; empty: nothing
  Seconds least;  ///< lower bound from the links' bandwidths; no measurement is shorter

  Seconds low(Seconds predicted, double by) const {
    return std::min(predicted, std::max(least, predicted / by));
  }
  Seconds low(Seconds predicted) const { return low(predicted, spread); }
  Seconds high(Seconds predicted) const { return predicted * spread; }
};
/// The interval of an all-reduce of `bytes` on `nodes` instances of one type with `per_node` GPUs
/// in use on each. `family`: of these GPUs, "H100". `least` is not set.
Uncertainty uncertainty(const Profile& profile, const std::string& instance, int nodes,
                        int per_node, Bytes bytes, const std::string& family = "");
/// Who chose the algorithm. Profiles were compared only with what the library itself chooses, so
/// all else widens the interval.
enum class RunBy : std::uint8_t {
  library,
  forced,         ///< by the library, with a protocol or channels that it would not choose
  older_release,  ///< by a release before those that were compared
  own_algorithm
};
/// The interval of any collective on `cluster`. It is widened for clusters that differ from the
/// calibrated ones, and for other collectives than all-reduces.
Uncertainty uncertainty(const Profile& profile, const Cluster& cluster, Bytes bytes, RunBy by,
                        Collective collective = Collective::all_reduce);

}  // namespace foreduce
