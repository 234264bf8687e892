// What hierarchical algorithms do inside a node: reduce-scatter before, all-gather after what
// crosses the network.
#pragma once

#include <cstdint>

#include "algorithms/core/registry.hpp"

namespace foreduce {

/// How the workers of a node exchange data: between themselves, or in a switch that sums and
/// multicasts (NVLS).
enum class NodeExchange : std::uint8_t { between_gpus, in_switch };

/// Reduce-scatter and all-gather among the workers of this rank's node: worker l owns block l.
/// Direct exchange where any pair is connected (NVSwitch), the layout's node rings
/// otherwise (cube mesh).
class NodePhases {
 public:
  NodePhases(const Layout& layout, int rank, NodeExchange exchange = NodeExchange::between_gpus);

  /// The blocks of a segment that is cut into a chunk for each worker.
  Blocks blocks_of(Buffer segment) const {
    return [segment, n = size()](int local) { return segment.chunk(n, local); };
  }
  Buffer own(Buffer segment) const { return segment.chunk(size(), local_); }
  int size() const { return static_cast<int>(peers_.size()); }
  /// Steps first … first + size - 2. Returns when the own block is reduced.
  Event reduce_scatter(Transport& t, const Blocks& blocks, Op op, Tag first, Event after) const;
  /// As many steps. Returns when all blocks are here. `after`: the own block is complete.
  Event all_gather(Transport& t, const Blocks& blocks, Tag first, Event after) const;
  /// Elements that this rank sends in either phase.
  std::size_t sends_scattering(const Blocks& blocks) const;
  std::size_t sends_gathering(const Blocks& blocks) const;
  /// Segments so that NVLink and network work at once, without messages between nodes so short
  /// (below 128 KiB, where aws-ofi-nccl stops striping) that their own cost shows: 1 … 8.
  static int segments_for(const Layout& layout, std::size_t bytes);

 private:
  template <class Visit>
  void each_ring(const Blocks& blocks, Tag first, Visit visit) const;

  const Layout& layout_;
  std::vector<int> peers_;
  int local_;
  NodeExchange exchange_;
};

/// The ranks with this rank's local number, one a node.
std::vector<int> rail_ranks(const Layout& layout, int rank);

/// An all-reduce over rails, segment by segment: reduce-scatter in the node, `inner` between the
/// workers of equal local number, all-gather in the node.
struct MultiRail {
  const Algorithm& inner;
  NodeExchange exchange;
  Segments cut;

  /// Reduces `data` once `after` has happened. Returns when the result is here.
  Event run(Transport& t, Buffer data, Op op, Event after) const;
  /// Elements that `rank` sends of `count`.
  std::size_t sends(const Layout& layout, int rank, std::size_t count) const;
};

}  // namespace foreduce
