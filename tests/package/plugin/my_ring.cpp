// My ring: each rank owns one chunk; a reduce-scatter around the ring, then an all-gather around
// it, in rank order on one channel. Cost 2(n-1)α + 2(n-1)/n·Sβ + (n-1)/n·Sγ. An example of an
// algorithm outside foreduce's source tree; the built-in ring does the same on all rails. Source:
// Patarasuk & Yuan, JPDC 69(2), 2009.
#include <vector>

#include "algorithms/core/registry.hpp"

namespace {

using namespace foreduce;

/// Posts the rank's whole schedule. `ready[k]` is the event after which segment k may travel on.
Event run(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  const int n = t.layout().workers, me = t.rank();
  if (t.layout().at(me).server) return {};
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  std::vector<Event> ready(static_cast<std::size_t>(plan.segments), after);
  for (int step = 0; step < 2 * (n - 1); ++step)
    for (int k = 0; k < plan.segments; ++k) {
      Event& event = ready[static_cast<std::size_t>(k)];
      const auto segment = [&](int chunk) {
        return data.chunk(n, chunk).segment(plan.segments, k);
      };
      t.send(next, {step, k}, segment(me - step), event);
      event = step < n - 1 ? t.recv_reduce(before, {step, k}, segment(me - step - 1), op)
                           : t.recv(before, {step, k}, segment(me - step - 1));
    }
  return t.join(ready);
}

/// All chunks twice, but not the one that a rank has first and not the one that it gets last.
std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan&) {
  const int n = layout.workers;
  if (n < 2 || layout.at(rank).server) return 0;
  const Buffer data{nullptr, 0, count};
  return 2 * count - data.chunk(n, rank + 1).count - data.chunk(n, rank + 2).count;
}

const Registered entry{{.name = "my-ring",
                        .idea = "a ring reduce-scatter, then a ring all-gather, in rank order",
                        .cost = "2(n-1)α + 2(n-1)/n·Sβ + (n-1)/n·Sγ",
                        .wins = "large messages, few ranks, one rail",
                        .source = "Patarasuk & Yuan, JPDC 69(2), 2009",
                        .symmetry = [](const Plan&) { return Symmetry::translation; },
                        .run = run,
                        .sends = sends,
                        .steps = [](int n) { return 2 * (n - 1); }}};

}  // namespace
