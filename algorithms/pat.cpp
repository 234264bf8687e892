// PAT (parallel aggregated trees): every block goes down a binomial tree of its own, all trees at
// once, and what a rank sends to another in one step is one transfer. Unlike Bruck's all-gather it
// begins with the most distant rank, so that the longest ways carry the least data. The
// reduce-scatter is the same backwards. Cost Lα + (n-1)/n·Sβ, L = ⌈log2 n⌉ (reduce-scatter +
// (n-1)/n·Sγ). Wins for small and medium S on many nodes; NCCL runs it with one rank a node only.
// Source: Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale",
// arXiv 2506.20252; NCCL 2.23.

#include "algorithms/core/block_phases.hpp"
#include "algorithms/core/power_of_two.hpp"

namespace foreduce {
namespace {

/// A block that started `offset` ranks before has gone over all distances of offset's bits.
Event gather(Transport& t, const Blocks& blocks, Op, Tag first, Event after) {
  const int n = t.layout().workers, me = t.rank();
  PackedBlocks packed(t, blocks, first);
  std::vector<Event> here{after};
  for (int distance = 1 << std::max(0, doublings(n) - 1); n > 1 && distance > 0; distance /= 2) {
    const int to = packed.wrapped(me + distance), from = packed.wrapped(me - distance);
    const Event ready = t.join(here);
    for (int offset = 0; offset + distance < n; offset += 2 * distance)
      packed.send(to, packed.wrapped(me - offset), ready);
    for (int offset = 0; offset + distance < n; offset += 2 * distance)
      here.push_back(packed.recv(from, packed.wrapped(from - offset)));
  }
  return t.join(here);
}

Event scatter(Transport& t, const Blocks& blocks, Op op, Tag first, Event after) {
  const int n = t.layout().workers, me = t.rank();
  PackedBlocks packed(t, blocks, first);
  std::vector<Event> here{after};
  for (int distance = 1; distance < n; distance *= 2) {
    const int to = packed.wrapped(me - distance), from = packed.wrapped(me + distance);
    const Event ready = t.join(here);
    for (int offset = 0; offset + distance < n; offset += 2 * distance)
      packed.send(to, packed.wrapped(to - offset), ready);
    for (int offset = 0; offset + distance < n; offset += 2 * distance)
      here.push_back(packed.recv_reduce(from, packed.wrapped(me - offset), op));
  }
  return t.join(here);
}

std::size_t sends_gathering(int n, int rank, const Blocks& blocks) {
  std::size_t total = 0;
  for (int distance = 1; distance < n; distance *= 2)
    for (int offset = 0; offset + distance < n; offset += 2 * distance)
      total += blocks((rank - offset + n) % n).count;
  return total;
}

std::optional<std::string> unsupported_reason(const Layout& layout, const Plan&) {
  if (layout.workers == layout.nodes) return std::nullopt;
  return "it works with one rank a node, as in NCCL; between nodes hierarchical can use it";
}

const Registered all_gather{
    {.name = "pat",
     .collective = Collective::all_gather,
     .idea = "every block down a binomial tree of its own, the most distant rank first",
     .cost = "Lα + (n-1)/n·Sβ, L = ⌈log2 n⌉",
     .wins = "small and medium messages, one rank on each of many nodes",
     .source = "Jeaugey, arXiv 2506.20252; NCCL 2.23",
     .symmetry = [](const Plan&) { return Symmetry::translation; },
     .run_blocks = gather,
     .sends_blocks = sends_gathering,
     .run = run_by_blocks<gather>,
     .sends = sends_by_blocks<sends_gathering>,
     .steps = doublings,
     .unsupported_reason = unsupported_reason}};

const Registered reduce_scatter{
    {.name = "pat",
     .collective = Collective::reduce_scatter,
     .idea = "every block's sum up a binomial tree of its own, the most distant rank last",
     .cost = "Lα + (n-1)/n·Sβ + (n-1)/n·Sγ, L = ⌈log2 n⌉",
     .wins = "small and medium messages, one rank on each of many nodes",
     .source = "Jeaugey, arXiv 2506.20252; NCCL 2.23",
     .symmetry = [](const Plan&) { return Symmetry::translation; },
     .run_blocks = scatter,
     .sends_blocks = all_but_own,
     .run = run_by_blocks<scatter>,
     .sends = sends_by_blocks<all_but_own>,
     .steps = doublings,
     .unsupported_reason = unsupported_reason}};

}  // namespace
}  // namespace foreduce
