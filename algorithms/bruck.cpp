// Bruck: all-gather in ⌈log2 n⌉ steps for any n. In step i a rank sends all blocks that it has, at
// most 2^i, to the rank 2^i before it; the blocks that it has are always its own and those that
// follow. The reduce-scatter is the same backwards: partial sums travel where blocks came from.
// Cost Lα + (n-1)/n·Sβ, L = ⌈log2 n⌉ (reduce-scatter + (n-1)/n·Sγ). Wins for small S, and where n
// is no power of two; the largest messages go the longest way. Source: Bruck et al., IEEE TPDS
// 8(11), 1997; Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005.
#include <algorithm>

#include "algorithms/core/block_phases.hpp"
#include "algorithms/core/power_of_two.hpp"

namespace foreduce {
namespace {

Event gather(Transport& t, const Blocks& blocks, Op, Tag first, Event after) {
  const int n = t.layout().workers, me = t.rank();
  PackedBlocks packed(t, blocks, first);
  std::vector<Event> here{after};
  for (int distance = 1; distance < n; distance *= 2) {
    const int length = std::min(distance, n - distance);
    const int to = packed.wrapped(me - distance), from = packed.wrapped(me + distance);
    const Event ready = t.join(here);
    for (int i = 0; i < length; ++i) packed.send(to, packed.wrapped(me + i), ready);
    for (int i = 0; i < length; ++i) here.push_back(packed.recv(from, packed.wrapped(from + i)));
  }
  return t.join(here);
}

Event scatter(Transport& t, const Blocks& blocks, Op op, Tag first, Event after) {
  const int n = t.layout().workers, me = t.rank();
  PackedBlocks packed(t, blocks, first);
  std::vector<Event> here{after};
  for (int distance = 1 << std::max(0, doublings(n) - 1); n > 1 && distance > 0; distance /= 2) {
    const int length = std::min(distance, n - distance);
    const int to = packed.wrapped(me + distance), from = packed.wrapped(me - distance);
    const Event ready = t.join(here);
    for (int i = 0; i < length; ++i) packed.send(to, packed.wrapped(to + i), ready);
    for (int i = 0; i < length; ++i)
      here.push_back(packed.recv_reduce(from, packed.wrapped(me + i), op));
  }
  return t.join(here);
}

/// The first `length` blocks from the own one on in each step of the gather …
std::size_t sends_gathering(int n, int rank, const Blocks& blocks) {
  std::size_t total = 0;
  for (int distance = 1; distance < n; distance *= 2)
    for (int i = 0; i < std::min(distance, n - distance); ++i)
      total += blocks((rank + i) % n).count;
  return total;
}

const Registered all_gather{{.name = "bruck",
                             .collective = Collective::all_gather,
                             .idea = "send all blocks that are here to the ranks 1, 2, 4 … before",
                             .cost = "Lα + (n-1)/n·Sβ, L = ⌈log2 n⌉",
                             .wins = "small messages, any number of ranks",
                             .source = "Bruck et al., IEEE TPDS 8(11), 1997",
                             .symmetry = [](const Plan&) { return Symmetry::translation; },
                             .run_blocks = gather,
                             .sends_blocks = sends_gathering,
                             .run = run_by_blocks<gather>,
                             .sends = sends_by_blocks<sends_gathering>,
                             .steps = doublings}};

const Registered reduce_scatter{
    {.name = "bruck",
     .collective = Collective::reduce_scatter,
     .idea = "send partial sums to the ranks …, 4, 2, 1 behind: the all-gather backwards",
     .cost = "Lα + (n-1)/n·Sβ + (n-1)/n·Sγ, L = ⌈log2 n⌉",
     .wins = "small messages, any number of ranks",
     .source = "Bruck et al., IEEE TPDS 8(11), 1997, backwards",
     .symmetry = [](const Plan&) { return Symmetry::translation; },
     .run_blocks = scatter,
     .sends_blocks = all_but_own,
     .run = run_by_blocks<scatter>,
     .sends = sends_by_blocks<all_but_own>,
     .steps = doublings}};

}  // namespace
}  // namespace foreduce
