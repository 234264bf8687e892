// What hierarchical algorithms do inside a node: reduce-scatter before, all-gather after what crosses the network.
#pragma once

#include "algorithms/core/registry.hpp"

namespace foreduce {

/// Reduce-scatter and all-gather among the workers of this rank's node: worker l owns part l of `piece`. Direct
/// exchange where any pair is connected (NVSwitch), laps around the layout's node rings otherwise (cube mesh). With `in_switch`
/// the switch sums and multicasts what is exchanged.
class NodePhases {
 public:
  NodePhases(const Layout& layout, int rank, bool in_switch = false);

  Buffer own(Buffer piece) const { return piece.part(size(), local_); }
  int size() const { return static_cast<int>(mates_.size()); }
  /// Steps first … first + size - 2. Returns when the own part is reduced.
  Event reduce_scatter(Transport& t, Buffer piece, Op op, Tag first, Event after) const;
  /// As many steps. Returns when the whole piece is here. `after`: the own part is complete.
  Event all_gather(Transport& t, Buffer piece, Tag first, Event after) const;
  /// Elements this rank sends in both phases.
  std::size_t sends(Buffer piece) const;
  /// Segments so that NVLink and network work at once, without messages between nodes so short (below 128 KiB, where
  /// aws-ofi-nccl stops striping) that their own cost shows: 1 … 8.
  static int segments_for(const Layout& layout, std::size_t bytes);

 private:
  template <class Visit>
  void each_ring(Buffer piece, Tag first, Visit visit) const;

  const Layout& layout_;
  std::vector<int> mates_;
  int local_;
  bool in_switch_;
};

/// The whole of it: reduce-scatter in the node, `inner` between the workers of equal local number, all-gather in the node, segment
/// by segment. `in_switch`: the switch sums and multicasts in the node.
Event multi_rail(Transport& t, Buffer data, Op op, const Algorithm& inner, const Plan& plan, bool in_switch, Event after);
/// Elements that `rank` sends so.
std::size_t multi_rail_sends(const Layout& layout, int rank, std::size_t count, const Algorithm& inner, const Plan& plan);

}  // namespace foreduce
