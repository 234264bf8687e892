// Direct exchange (two-shot): everybody sends chunk j straight to rank j, which reduces the n
// contributions and sends the sum straight to everybody. Cost 2α + 2(n-1)/n·Sβ + (n-1)/n·Sγ, and
// n-1 messages a phase: the fewest steps at the fewest bytes, paid in messages and connections.
// Rank r starts with r+1, then r+2 …, so that no receiver is flooded first. Wins on a non-blocking
// fabric with many paths (NVSwitch, EFA's SRD) while a message's own cost does not dominate.
// Source: Chan, Heimlich, Purkayastha & van de Geijn, CCPE 19(13), 2007, §6.
#include "algorithms/core/block_phases.hpp"
#include "algorithms/core/window.hpp"

namespace foreduce {
namespace {

/// Everybody's part of block i to rank i, which reduces them. Reduces keep order, so the last one
/// is all of them.
Event scatter(Transport& t, const Blocks& blocks, Op op, Tag tag, Event after, Window& sending) {
  const int n = t.layout().workers, me = t.rank();
  Event ready = after;
  for (int d = 1; d < n; ++d) {
    const int to = (me + d) % n, from = (me - d + n) % n;
    sending.send(t, to, tag, blocks(to), after);
    ready = t.recv_reduce(from, tag, blocks(me), op);
  }
  return ready;
}

/// The own block to everybody.
Event gather(Transport& t, const Blocks& blocks, Tag tag, Event after, Window& sending) {
  const int n = t.layout().workers, me = t.rank();
  std::vector<Event> here{after};
  for (int d = 1; d < n; ++d) {
    const int to = (me + d) % n, from = (me - d + n) % n;
    sending.send(t, to, tag, blocks(me), after);
    here.push_back(t.recv(from, tag, blocks(from)));
  }
  return t.join(here);
}

Event all_reduce(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  const int n = t.layout().workers;
  if (t.layout().at(t.rank()).server) return {};
  std::vector<Event> done{after};
  Window chunks,
      sums;  // one for each phase: the next segment's chunks need not wait for this one's sums
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer segment = data.segment(plan.cut(), k);
    const Blocks blocks = [segment, n](int owner) { return segment.chunk(n, owner); };
    const Event ready = scatter(t, blocks, op, {0, k}, after, chunks);
    done.push_back(gather(t, blocks, {1, k}, ready, sums));
  }
  return t.join(done);
}

Event scatter_blocks(Transport& t, const Blocks& blocks, Op op, Tag first, Event after) {
  Window sending;
  return scatter(t, blocks, op, first, after, sending);
}

Event gather_blocks(Transport& t, const Blocks& blocks, Op, Tag first, Event after) {
  Window sending;
  return gather(t, blocks, first, after, sending);
}

std::size_t sends_gathering(int n, int rank, const Blocks& blocks) {
  return static_cast<std::size_t>(n - 1) * blocks(rank).count;
}

std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  if (layout.at(rank).server) return 0;
  const auto others = static_cast<std::size_t>(layout.workers - 1);
  std::size_t total = 0;
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer segment = Buffer{nullptr, 0, count}.segment(plan.cut(), k);
    const std::size_t own = segment.chunk(layout.workers, rank).count;
    total += segment.count - own + others * own;
  }
  return total;
}

int one_step(int n) { return n > 1 ? 1 : 0; }

const Registered entry{
    {.name = "direct",
     .idea = "send chunk j straight to rank j, which sends the sum straight to everybody",
     .cost = "2α + 2(n-1)/n·Sβ + (n-1)/n·Sγ, n-1 messages a phase",
     .wins = "non-blocking fabrics with many paths, n not too large",
     .source = "Chan et al., CCPE 19(13), 2007",
     .symmetry = [](const Plan&) { return Symmetry::translation; },
     .many_peers = true,
     .compared_up_to = 64,  // n² messages
     .run = all_reduce,
     .sends = sends,
     .steps = [](int n) { return n > 1 ? 2 : 0; }}};

const Registered reduce_scatter_entry{
    {.name = "direct",
     .collective = Collective::reduce_scatter,
     .idea = "send block j straight to rank j, which sums what arrives",
     .cost = "α + (n-1)/n·Sβ + (n-1)/n·Sγ, n-1 messages",
     .wins = "non-blocking fabrics with many paths, n not too large",
     .source = "Chan et al., CCPE 19(13), 2007",
     .symmetry = [](const Plan&) { return Symmetry::translation; },
     .many_peers = true,
     .compared_up_to = 64,  // n² messages
     .run_blocks = scatter_blocks,
     .sends_blocks = all_but_own,
     .run = run_by_blocks<scatter_blocks>,
     .sends = sends_by_blocks<all_but_own>,
     .steps = one_step}};

const Registered all_gather_entry{{.name = "direct",
                                   .collective = Collective::all_gather,
                                   .idea = "send the own block straight to everybody",
                                   .cost = "α + (n-1)/n·Sβ, n-1 messages",
                                   .wins = "non-blocking fabrics with many paths, n not too large",
                                   .source = "Chan et al., CCPE 19(13), 2007",
                                   .symmetry = [](const Plan&) { return Symmetry::translation; },
                                   .many_peers = true,
                                   .compared_up_to = 64,  // n² messages
                                   .run_blocks = gather_blocks,
                                   .sends_blocks = sends_gathering,
                                   .run = run_by_blocks<gather_blocks>,
                                   .sends = sends_by_blocks<sends_gathering>,
                                   .steps = one_step}};

}  // namespace
}  // namespace foreduce
