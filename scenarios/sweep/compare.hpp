// Collectives by message size: every point of a scenario's axes, beside what no algorithm can
// beat.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "models/bounds.hpp"
#include "scenarios/sweep/methods.hpp"
#include "scenarios/sweep/sweep.hpp"

namespace foreduce {

/// How many of `count` elements a collective moves that has so many equal blocks (counted_blocks):
/// blocks are multiples of 16 bytes, as nccl-tests rounds them down (its src/reduce_scatter.cu,
/// all_gather.cu, alltoall.cu).
std::size_t counted_elements(std::size_t count, int blocks, std::size_t element_size);

/// A point's answer.
struct Comparison {
  std::size_t number = 0;  ///< of the point in the whole sweep, from 0
  Collective collective = Collective::all_reduce;
  std::string instance, inner, profile;
  MethodKind method = MethodKind::ours;
  std::string algorithm;  ///< the method's name
  bool best_without_nccl = false;
  int nodes = 0, ranks = 0;
  double oversubscription = 1;
  Placement placement = Placement::packed;
  std::size_t bytes = 0, count = 0;
  Type dtype = Type::f32;
  ScheduleName chosen;         ///< nccl: what it chooses; best: the fastest; ours: none
  std::string chosen_because;  ///< nccl: by which rule, "the cost model of NCCL 2.30"
  int nccl_channels = 0;       ///< that NCCL takes of its own; 0: the algorithm is ours
  int segments = 0;
  std::string error;
  Seconds time;
  Interval interval;           ///< of the time
  double speedup_vs_nccl = 0;  ///< 0: NCCL was not asked
  LowerBound bound;
  bool bound_is_exact = false;  ///< asked for, and known for this collective and cluster
  std::string bottleneck;       ///< busiest link, or "latency"
  LinkKind bottleneck_kind = LinkKind::network;
  double bottleneck_utilisation = 0;
  SimulationMode mode = SimulationMode::full;
  double extrapolation_error =
      0;  ///< where the time was extrapolated from a steady state; 0: it was not
  std::uint64_t messages = 0, peak_rss_bytes = 0;
  double wall_seconds = 0;
  std::shared_ptr<const CollectiveResult> recorded;  ///< once more, recorded, if asked for
  std::shared_ptr<const ClusterLoads> loads;         ///< of the fastest point

  double algbw() const {
    return time.value > 0 ? static_cast<double>(bytes) / time.value / 1e9 : 0;
  }
  /// All that the point is, but for who runs the collective.
  auto question() const {
    return std::make_tuple(instance, placement, profile, nodes, oversubscription, bytes);
  }
  /// By which the fastest point is found.
  double rate() const { return busbw(); }
  double busbw() const { return ranks > 1 ? algbw() * bus_factor(collective, ranks) : 0; }
};

/// Throws InputError for a scenario without messages.
Sweep<Comparison> compare(const Scenario& scenario, const SweepOptions& options,
                          const OnPoint<Comparison>& on_point = nullptr);

}  // namespace foreduce
