// Reduce-scatter and all-gather around a ring of ranks: the building blocks of ring and of the
// phases of hierarchical all-reduce inside a node.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "algorithms/core/transport.hpp"

namespace foreduce {

/// A ring and this rank's position on it. `chunk(owner, k)` is segment k of the chunk that the rank
/// at position `owner` (taken modulo the ring's size) ends up owning.
struct Ring {
  std::span<const int> ranks;
  int position = 0;
  int channel = 0;
  int first_segment = 0;  ///< tags of segment k say first_segment + k
  std::function<Buffer(int owner, int segment)> chunk;
  Packed packed = Packed::no;  ///< behind the messages of a ring before it, see Tag

  int size() const { return static_cast<int>(ranks.size()); }
  int neighbour(int distance) const {
    return ranks[static_cast<std::size_t>((position + distance + size()) % size())];
  }
};

/// Afterwards the chunk this rank owns is complete here: ready[k] tells when for segment k. On
/// entry ready[k] is the event after which segment k of this rank's data may be read. Uses steps
/// first_step … first_step+n-2.
void ring_reduce_scatter(Transport& t, const Ring& ring, Op op, int first_step,
                         std::vector<Event>& ready);

/// Sends every owned chunk around the ring. On entry ready[k]: segment k of the own chunk is
/// complete. Returns when all chunks are here. Uses steps first_step … first_step+n-2.
Event ring_all_gather(Transport& t, const Ring& ring, int first_step, std::span<const Event> ready);

}  // namespace foreduce
