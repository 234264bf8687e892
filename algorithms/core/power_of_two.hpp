// Algorithms that pair ranks by the bits of their numbers need a power of two. Of n ranks, the r =
// n - 2^L extra ones each hand their data to a partner before, and receive the result after
// (Rabenseifner 2004).
#pragma once

#include <bit>

#include "algorithms/core/transport.hpp"

namespace foreduce {

/// ⌈log2 n⌉: how often something must double to reach n ranks.
inline int doublings(int n) {
  return n > 1 ? static_cast<int>(std::bit_width(static_cast<unsigned>(n - 1))) : 0;
}

/// Ranks 0, 2, … 2r-2 are extra and belong to their right neighbours 1, 3, … 2r-1; the others form
/// the group, numbered in rank order.
class PowerOfTwo {
 public:
  PowerOfTwo(int n, int rank)
      : size_(static_cast<int>(std::bit_floor(static_cast<unsigned>(n)))),
        extra_(n - size_),
        rank_(rank) {}

  int steps() const { return std::countr_zero(static_cast<unsigned>(size_)); }
  int size() const { return size_; }
  bool inside() const { return rank_ >= 2 * extra_ || rank_ % 2 == 1; }
  bool has_extra() const { return rank_ < 2 * extra_; }
  int number() const { return rank_ < 2 * extra_ ? rank_ / 2 : rank_ - extra_; }
  int rank_of(int number) const { return number < extra_ ? 2 * number + 1 : number + extra_; }

  /// Step 0. Returns the event after which `data` may be read on.
  Event reduce_extra(Transport& t, Buffer data, Op op, int segment, Event after) const {
    if (!has_extra()) return after;
    if (inside()) return t.recv_reduce(rank_ - 1, {0, segment}, data, op);
    t.send(rank_ + 1, {0, segment}, data, after);
    return after;
  }
  /// Step `step`. Returns the event after which the result is here.
  Event return_extra(Transport& t, Buffer data, int step, int segment, Event ready) const {
    if (!has_extra()) return ready;
    if (!inside()) return t.recv(rank_ + 1, {step, segment}, data);
    t.send(rank_ - 1, {step, segment}, data, ready);
    return ready;
  }

 private:
  int size_, extra_, rank_;
};

}  // namespace foreduce
