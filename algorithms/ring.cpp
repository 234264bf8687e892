// Ring: each rank owns one chunk; a reduce-scatter around the ring, then an all-gather around it.
// Cost 2(n-1)α + 2(n-1)/n·Sβ + (n-1)/n·Sγ: it sends the fewest bytes there are, in the most steps.
// Wins while bandwidth, not latency, is the limit: large S, few ranks. Neighbours only, so no
// contention anywhere. Source: Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms", JPDC
// 69(2), 2009.
//
// With several rails the data is split over channels, each a ring that enters and leaves every node
// through a rail of its own. `segments` lets step s+1 start on the front of a chunk while its tail
// is still arriving.
#include <algorithm>

#include "algorithms/core/ring_phases.hpp"
#include "algorithms/core/registry.hpp"

namespace foreduce {
namespace {

int position_of(const std::vector<int>& order, int rank) {
  return static_cast<int>(std::find(order.begin(), order.end(), rank) - order.begin());
}

Event ring(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  const int n = t.layout().workers;
  if (t.layout().at(t.rank()).server) return {};
  std::vector<Event> done;
  for (int c = 0; c < plan.channels; ++c) {
    const auto& order = t.layout().channel(c);
    const Buffer mine = data.chunk(plan.channels, c);
    const Ring ring{order, position_of(order, t.rank()), c, 0, [&](int owner, int k) {
                      return mine.chunk(n, owner).segment(plan.segments, k);
                    }};
    std::vector<Event> ready(static_cast<std::size_t>(plan.segments), after);
    ring_reduce_scatter(t, ring, op, 0, ready);
    done.push_back(ring_all_gather(t, ring, n, ready));
  }
  return t.join(done);
}

/// The reduce-scatter sends all chunks but the own one, the all-gather all but the right
/// neighbour's.
std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  if (layout.at(rank).server || layout.workers < 2) return 0;
  std::size_t total = 0;
  for (int c = 0; c < plan.channels; ++c) {
    const Buffer mine = Buffer{nullptr, 0, count}.chunk(plan.channels, c);
    const int p = position_of(layout.channel(c), rank);
    total += 2 * mine.count - mine.chunk(layout.workers, p).count -
             mine.chunk(layout.workers, p + 1).count;
  }
  return total;
}

const Registered entry{{.name = "ring",
                        .idea = "a ring reduce-scatter, then a ring all-gather",
                        .cost = "2(n-1)α + 2(n-1)/n·Sβ + (n-1)/n·Sγ",
                        .wins = "large messages, few ranks: bandwidth is the limit",
                        .source = "Patarasuk & Yuan, JPDC 69(2), 2009",
                        .symmetry = [](const Plan&) { return Symmetry::translation; },
                        .channels_alike = true,
                        .run = ring,
                        .sends = sends,
                        .steps = [](int n) { return 2 * (n - 1); }}};

}  // namespace
}  // namespace foreduce
