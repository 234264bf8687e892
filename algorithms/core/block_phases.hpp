// What reduce-scatters and all-gathers over blocks share: a schedule for any blocks, run for each
// segment of every worker's own block.
#pragma once

#include <cstdint>

#include "algorithms/core/registry.hpp"

namespace foreduce {

/// Segment k of every worker's own block of `data`.
inline Blocks own_blocks(Buffer data, int workers, const Plan& plan, int k) {
  return [data, workers, cut = plan.cut(), k](int owner) {
    return data.chunk(workers, owner).segment(cut, k);
  };
}

/// Algorithm::run by Algorithm::run_blocks.
template <auto phase>
Event run_by_blocks(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  if (t.layout().at(t.rank()).server) return {};
  std::vector<Event> done{after};
  for (int k = 0; k < plan.segments; ++k)
    done.push_back(
        phase(t, own_blocks(data, t.layout().workers, plan, k), op, Tag{.segment = k}, after));
  return t.join(done);
}

/// Algorithm::sends by Algorithm::sends_blocks.
template <auto sends>
std::size_t sends_by_blocks(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  if (layout.at(rank).server) return 0;
  std::size_t total = 0;
  for (int k = 0; k < plan.segments; ++k)
    total +=
        sends(layout.workers, rank, own_blocks(Buffer{nullptr, 0, count}, layout.workers, plan, k));
  return total;
}

/// Who sends every block of others exactly once.
inline std::size_t all_but_own(int n, int rank, const Blocks& blocks) {
  std::size_t total = 0;
  for (int owner = 0; owner < n; ++owner)
    if (owner != rank) total += blocks(owner).count;
  return total;
}

/// Sends the blocks of several owners in one transfer: block by block, all but the first packed.
/// Every block has its own step, first.step + what lies between owner and receiver, so that steps
/// first.step … first.step + n - 1 are used and the tags keep the schedule's symmetry.
class PackedBlocks {
 public:
  enum class Between : std::uint8_t { distance, exclusive_or };

  PackedBlocks(Transport& t, const Blocks& blocks, Tag first, Between between = Between::distance)
      : t_(t), blocks_(blocks), first_(first), between_(between), n_(t.layout().workers) {}

  int wrapped(int rank) const { return ((rank % n_) + n_) % n_; }
  void send(int to, int owner, Event after) {
    t_.send(to, tag(to, owner, to == last_to_ ? Packed::yes : Packed::no), blocks_(owner), after);
    last_to_ = to;
  }
  Event recv(int from, int owner) {
    const Packed packed = from == last_from_ ? Packed::yes : Packed::no;
    last_from_ = from;
    return t_.recv(from, tag(t_.rank(), owner, packed), blocks_(owner));
  }
  Event recv_reduce(int from, int owner, Op op) {
    const Packed packed = from == last_from_ ? Packed::yes : Packed::no;
    last_from_ = from;
    return t_.recv_reduce(from, tag(t_.rank(), owner, packed), blocks_(owner), op);
  }

 private:
  Tag tag(int to, int owner, Packed packed) const {
    Tag made = first_;
    made.step += between_ == Between::distance ? wrapped(to - owner) : to ^ owner;
    made.packed = packed;
    return made;
  }

  Transport& t_;
  const Blocks& blocks_;
  Tag first_;
  Between between_;
  int n_, last_to_ = -1, last_from_ = -1;
};

}  // namespace foreduce
