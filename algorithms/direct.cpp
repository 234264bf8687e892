// Direct exchange (two-shot): everybody sends chunk j straight to rank j, which reduces the n
// contributions and sends the sum straight to everybody. Cost 2α + 2(n-1)/n·Sβ + (n-1)/n·Sγ, and
// n-1 messages a phase: the fewest steps at the fewest bytes, paid in messages and connections.
// Rank r starts with r+1, then r+2 …, so that no receiver is flooded first. Wins on a non-blocking
// fabric with many paths (NVSwitch, EFA's SRD) while a message's own cost does not dominate.
// Source: Chan, Heimlich, Purkayastha & van de Geijn, CCPE 19(13), 2007, §6.
#include "algorithms/core/registry.hpp"
#include "algorithms/core/window.hpp"

namespace foreduce {
namespace {

Event direct(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  const int n = t.layout().workers, me = t.rank();
  if (t.layout().at(me).server) return {};
  std::vector<Event> done{after};
  Window chunks,
      sums;  // one for each phase: the next segment's chunks need not wait for this one's sums
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer segment = data.segment(plan.segments, k);
    Event ready = after;
    for (int d = 1; d < n; ++d) {
      const int to = (me + d) % n, from = (me - d + n) % n;
      chunks.send(t, to, {0, k}, segment.chunk(n, to), after);
      ready = t.recv_reduce(from, {0, k}, segment.chunk(n, me),
                            op);  // reduces keep order: the last one is all of them
    }
    done.push_back(ready);
    for (int d = 1; d < n; ++d) {
      const int to = (me + d) % n, from = (me - d + n) % n;
      sums.send(t, to, {1, k}, segment.chunk(n, me), ready);
      done.push_back(t.recv(from, {1, k}, segment.chunk(n, from)));
    }
  }
  return t.join(done);
}

std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  if (layout.at(rank).server) return 0;
  const auto others = static_cast<std::size_t>(layout.workers - 1);
  std::size_t total = 0;
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer segment = Buffer{nullptr, 0, count}.segment(plan.segments, k);
    const std::size_t own = segment.chunk(layout.workers, rank).count;
    total += segment.count - own + others * own;
  }
  return total;
}

const Registered entry{
    {.name = "direct",
     .idea = "send chunk j straight to rank j, which sends the sum straight to everybody",
     .cost = "2α + 2(n-1)/n·Sβ + (n-1)/n·Sγ, n-1 messages a phase",
     .wins = "non-blocking fabrics with many paths, n not too large",
     .source = "Chan et al., CCPE 19(13), 2007",
     .symmetry = [](const Plan&) { return Symmetry::translation; },
     .run = direct,
     .sends = sends,
     .steps = [](int n) { return n > 1 ? 2 : 0; }}};

}  // namespace
}  // namespace foreduce
