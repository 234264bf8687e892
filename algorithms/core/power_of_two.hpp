// Algorithms that pair ranks by the bits of their numbers need a power of two. Of n ranks, the r = n - 2^L extra
// ones each hand their data to a partner before, and are told the result after (Rabenseifner 2004).
#pragma once

#include <bit>

#include "algorithms/core/transport.hpp"

namespace foreduce {

/// Ranks 0, 2, … 2r-2 are extra and belong to their right neighbours 1, 3, … 2r-1; the others form the group,
/// numbered in rank order.
class PowerOfTwo {
 public:
  PowerOfTwo(int n, int rank) : size_(static_cast<int>(std::bit_floor(static_cast<unsigned>(n)))), extra_(n - size_), rank_(rank) {}

  int steps() const { return std::countr_zero(static_cast<unsigned>(size_)); }
  int size() const { return size_; }
  bool inside() const { return rank_ >= 2 * extra_ || rank_ % 2 == 1; }
  bool has_extra() const { return rank_ < 2 * extra_; }
  int number() const { return rank_ < 2 * extra_ ? rank_ / 2 : rank_ - extra_; }
  int rank_of(int number) const { return number < extra_ ? 2 * number + 1 : number + extra_; }

  /// Step 0. Returns the event after which `piece` may be read on.
  Event fold_extra(Transport& t, Buffer piece, Op op, int segment, Event after) const {
    if (!has_extra()) return after;
    if (inside()) return t.recv_reduce(rank_ - 1, {0, segment}, piece, op);
    t.send(rank_ + 1, {0, segment}, piece, after);
    return after;
  }
  /// Step `step`. Returns the event after which the result is here.
  Event tell_extra(Transport& t, Buffer piece, int step, int segment, Event ready) const {
    if (!has_extra()) return ready;
    if (!inside()) return t.recv(rank_ + 1, {step, segment}, piece);
    t.send(rank_ - 1, {step, segment}, piece, ready);
    return ready;
  }

 private:
  int size_, extra_, rank_;
};

}  // namespace foreduce
