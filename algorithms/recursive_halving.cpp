// Recursive halving (reduce-scatter) and recursive doubling (all-gather) of blocks, between ranks
// whose numbers differ in one bit: halving exchanges halves with the most distant partner first,
// doubling goes back. Cost Lα + (n-1)/n·Sβ, L = log2 n (reduce-scatter + (n-1)/n·Sγ). Wins for
// small and medium S where n is a power of two; for other n there is bruck. Source: Thakur,
// Rabenseifner & Gropp, IJHPCA 19(1), 2005, §4.1 and 4.2.
#include <bit>

#include "algorithms/core/block_phases.hpp"
#include "algorithms/core/power_of_two.hpp"

namespace foreduce {
namespace {

/// The first of the `length` neighbouring blocks that hold block `i`; a power of two.
int first_of(int i, int length) { return i & ~(length - 1); }

Event halving(Transport& t, const Blocks& blocks, Op op, Tag first, Event after) {
  const int n = t.layout().workers, me = t.rank();
  PackedBlocks packed(t, blocks, first, PackedBlocks::Between::exclusive_or);
  std::vector<Event> here{after};
  for (int distance = n / 2; distance > 0; distance /= 2) {
    const int partner = me ^ distance;
    const int keep = first_of(me, distance), give = first_of(partner, distance);
    const Event ready = t.join(here);
    for (int i = 0; i < distance; ++i) packed.send(partner, give + i, ready);
    for (int i = 0; i < distance; ++i) here.push_back(packed.recv_reduce(partner, keep + i, op));
  }
  return t.join(here);
}

Event doubling(Transport& t, const Blocks& blocks, Op, Tag first, Event after) {
  const int n = t.layout().workers, me = t.rank();
  PackedBlocks packed(t, blocks, first, PackedBlocks::Between::exclusive_or);
  std::vector<Event> here{after};
  for (int distance = 1; distance < n; distance *= 2) {
    const int partner = me ^ distance;
    const int mine = first_of(me, distance), theirs = first_of(partner, distance);
    const Event ready = t.join(here);
    for (int i = 0; i < distance; ++i) packed.send(partner, mine + i, ready);
    for (int i = 0; i < distance; ++i) here.push_back(packed.recv(partner, theirs + i));
  }
  return t.join(here);
}

std::size_t sends_doubling(int n, int rank, const Blocks& blocks) {
  std::size_t total = 0;
  for (int distance = 1; distance < n; distance *= 2)
    for (int i = 0; i < distance; ++i) total += blocks(first_of(rank, distance) + i).count;
  return total;
}

std::optional<std::string> unsupported_reason(const Layout& layout, const Plan&) {
  if (std::has_single_bit(static_cast<unsigned>(layout.workers))) return std::nullopt;
  return "the number of ranks must be a power of two; bruck takes any";
}

const Registered reduce_scatter{
    {.name = "recursive-halving",
     .collective = Collective::reduce_scatter,
     .idea = "exchange halves, quarters … with partners n/2, n/4 … 1 away",
     .cost = "Lα + (n-1)/n·Sβ + (n-1)/n·Sγ, L = log2 n",
     .wins = "small and medium messages, a power of two of ranks",
     .source = "Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005",
     .symmetry = [](const Plan&) { return Symmetry::exclusive_or; },
     .run_blocks = halving,
     .sends_blocks = all_but_own,
     .run = run_by_blocks<halving>,
     .sends = sends_by_blocks<all_but_own>,
     .steps = doublings,
     .unsupported_reason = unsupported_reason}};

const Registered all_gather{{.name = "recursive-doubling",
                             .collective = Collective::all_gather,
                             .idea = "exchange all that is here with partners 1, 2, 4 … away",
                             .cost = "Lα + (n-1)/n·Sβ, L = log2 n",
                             .wins = "small and medium messages, a power of two of ranks",
                             .source = "Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005",
                             .symmetry = [](const Plan&) { return Symmetry::exclusive_or; },
                             .run_blocks = doubling,
                             .sends_blocks = sends_doubling,
                             .run = run_by_blocks<doubling>,
                             .sends = sends_by_blocks<sends_doubling>,
                             .steps = doublings,
                             .unsupported_reason = unsupported_reason}};

}  // namespace
}  // namespace foreduce
