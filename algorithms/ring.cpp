// Ring: each rank owns one chunk; a reduce-scatter around the ring, then an all-gather around it.
// Cost 2(n-1)α + 2(n-1)/n·Sβ + (n-1)/n·Sγ: it sends the fewest bytes there are, in the most steps.
// Wins while bandwidth, not latency, is the limit: large S, few ranks. Neighbours only, so no
// contention anywhere. Source: Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms", JPDC
// 69(2), 2009.
//
// With several rails the data is split over channels, each a ring that enters and leaves every node
// through a rail of its own. `segments` lets step s+1 start on the front of a chunk while its tail
// is still arriving. Reduce-scatter and all-gather are also collectives of their own; a broadcast
// is the chain that the ring is without one link.
#include <algorithm>
#include <numeric>

#include "algorithms/core/block_phases.hpp"
#include "algorithms/core/ring_phases.hpp"
#include "algorithms/core/trees.hpp"

namespace foreduce {
namespace {

int position_of(const std::vector<int>& order, int rank) {
  return static_cast<int>(std::find(order.begin(), order.end(), rank) - order.begin());
}

/// Whose chunk a chunk is: that of a place on the ring, or that of the rank whose own block it is.
enum class Chunks : std::uint8_t { by_place, by_rank };

/// Channel c's ring over all workers, for the segments from `first` on.
Ring ring_of(Transport& t, Buffer data, const Plan& plan, int c, int first, Chunks chunks) {
  const int n = t.layout().workers;
  const auto& order = t.layout().channel(c);
  const auto chunk = [=, &order](int owner, int k) {
    const int place = ((owner % n) + n) % n;
    const Buffer whole =
        chunks == Chunks::by_place
            ? data.chunk(plan.channels, c).chunk(n, place)
            : data.chunk(n, order[static_cast<std::size_t>(place)]).chunk(plan.channels, c);
    return whole.segment(plan.cut(), first + k);
  };
  return {order, position_of(order, t.rank()), c, first, chunk};
}

/// What `phases` does on the ring of every channel, for as many segments at a time as travel
/// together.
template <class Phases>
Event on_all_channels(Transport& t, Buffer data, const Plan& plan, Chunks chunks, Event after,
                      Phases phases) {
  if (t.layout().at(t.rank()).server) return {};
  std::vector<Event> done;
  const int together = plan.together > 0 ? plan.together : plan.segments;
  for (int c = 0; c < plan.channels; ++c) {
    Event before = after;
    for (int first = 0; first < plan.segments; first += together) {
      const int few = std::min(together, plan.segments - first);
      std::vector<Event> ready(static_cast<std::size_t>(few), before);
      before = phases(ring_of(t, data, plan, c, first, chunks), ready);
    }
    done.push_back(before);
  }
  return t.join(done);
}

Event all_reduce(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  return on_all_channels(t, data, plan, Chunks::by_place, after,
                         [&](const Ring& ring, std::vector<Event>& ready) {
                           ring_reduce_scatter(t, ring, op, 0, ready);
                           return ring_all_gather(t, ring, ring.size(), ready);
                         });
}

Event reduce_scatter(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  return on_all_channels(t, data, plan, Chunks::by_rank, after,
                         [&](const Ring& ring, std::vector<Event>& ready) {
                           ring_reduce_scatter(t, ring, op, 0, ready);
                           return t.join(ready);
                         });
}

Event all_gather(Transport& t, Buffer data, Op, const Plan& plan, Event after) {
  return on_all_channels(t, data, plan, Chunks::by_rank, after,
                         [&](const Ring& ring, std::vector<Event>& ready) {
                           return ring_all_gather(t, ring, 0, ready);
                         });
}

/// From rank 0 on around each channel's ring to the rank before it, segment by segment.
Event broadcast(Transport& t, Buffer data, Op, const Plan& plan, Event after) {
  const int n = t.layout().workers;
  if (t.layout().at(t.rank()).server) return {};
  std::vector<Event> done{after};
  for (int c = 0; c < plan.channels; ++c) {
    const auto& order = t.layout().channel(c);
    const int root = position_of(order, 0), place = position_of(order, t.rank());
    const auto neighbour = [&](int distance) {
      return order[static_cast<std::size_t>((place + distance + n) % n)];
    };
    for (int k = 0; k < plan.segments; ++k) {
      const Buffer segment = data.chunk(plan.channels, c).segment(plan.cut(), k);
      const Tag tag{0, k, c};
      const Event here = place == root ? after : t.recv(neighbour(-1), tag, segment);
      if ((place + 1) % n != root) t.send(neighbour(+1), tag, segment, here);
      done.push_back(here);
    }
  }
  return t.join(done);
}

/// A reduce-scatter sends all chunks but the own one, an all-gather all but the right neighbour's.
std::size_t sends_all_reduce(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
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

std::size_t sends_reduce_scatter(const Layout& layout, int rank, std::size_t count, const Plan&) {
  if (layout.at(rank).server) return 0;
  return count - Buffer{nullptr, 0, count}.chunk(layout.workers, rank).count;
}

std::size_t sends_all_gather(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  if (layout.at(rank).server || layout.workers < 2) return 0;
  const Buffer data{nullptr, 0, count};
  const int n = layout.workers;
  std::size_t total = count;
  for (int c = 0; c < plan.channels; ++c) {
    const auto& order = layout.channel(c);
    const auto right = static_cast<std::size_t>((position_of(order, rank) + 1) % n);
    total -= data.chunk(n, order[right]).chunk(plan.channels, c).count;
  }
  return total;
}

std::size_t sends_broadcast(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  if (layout.at(rank).server) return 0;
  std::size_t total = 0;
  for (int c = 0; c < plan.channels; ++c) {
    const auto& order = layout.channel(c);
    const int next = (position_of(order, rank) + 1) % layout.workers;
    if (order[static_cast<std::size_t>(next)] != 0)
      total += Buffer{nullptr, 0, count}.chunk(plan.channels, c).count;
  }
  return total;
}

/// The ring in rank order over any blocks, see Algorithm::run_blocks.
Ring ring_of_blocks(const Blocks& blocks, std::span<const int> order, int rank, Tag first) {
  const int n = static_cast<int>(order.size());
  return {order, rank, first.channel, first.segment,
          [&blocks, n](int owner, int) { return blocks(((owner % n) + n) % n); }};
}
std::vector<int> in_rank_order(int n) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Event scatter_blocks(Transport& t, const Blocks& blocks, Op op, Tag first, Event after) {
  const std::vector<int> order = in_rank_order(t.layout().workers);
  std::vector<Event> ready{after};
  ring_reduce_scatter(t, ring_of_blocks(blocks, order, t.rank(), first), op, first.step, ready);
  return ready[0];
}

Event gather_blocks(Transport& t, const Blocks& blocks, Op, Tag first, Event after) {
  const std::vector<int> order = in_rank_order(t.layout().workers);
  const Event ready[] = {after};
  return ring_all_gather(t, ring_of_blocks(blocks, order, t.rank(), first), first.step, ready);
}

std::size_t sends_gathering_blocks(int n, int rank, const Blocks& blocks) {
  return n < 2 ? 0 : all_but_own(n, (rank + 1) % n, blocks);
}

const Registered of_all_reduce{{.name = "ring",
                                .idea = "a ring reduce-scatter, then a ring all-gather",
                                .cost = "2(n-1)α + 2(n-1)/n·Sβ + (n-1)/n·Sγ",
                                .wins = "large messages, few ranks: bandwidth is the limit",
                                .source = "Patarasuk & Yuan, JPDC 69(2), 2009",
                                .uses_channels = true,
                                .symmetry = [](const Plan&) { return Symmetry::translation; },
                                .channels_alike = true,
                                .in_ring = true,
                                .usual = true,
                                .run = all_reduce,
                                .sends = sends_all_reduce,
                                .steps = [](int n) { return 2 * (n - 1); }}};

const Registered of_reduce_scatter{
    {.name = "ring",
     .collective = Collective::reduce_scatter,
     .idea = "every block once around the ring, summed on the way to its owner",
     .cost = "(n-1)α + (n-1)/n·Sβ + (n-1)/n·Sγ",
     .wins = "large messages, few ranks: bandwidth is the limit",
     .source = "Patarasuk & Yuan, JPDC 69(2), 2009",
     .uses_channels = true,
     .symmetry = [](const Plan&) { return Symmetry::translation; },
     .channels_alike = true,
     .in_ring = true,
     .usual = true,
     .run_blocks = scatter_blocks,
     .sends_blocks = all_but_own,
     .run = reduce_scatter,
     .sends = sends_reduce_scatter,
     .steps = [](int n) { return n - 1; }}};

const Registered of_all_gather{{.name = "ring",
                                .collective = Collective::all_gather,
                                .idea = "every block once around the ring",
                                .cost = "(n-1)α + (n-1)/n·Sβ",
                                .wins = "large messages, few ranks: bandwidth is the limit",
                                .source = "Patarasuk & Yuan, JPDC 69(2), 2009",
                                .uses_channels = true,
                                .symmetry = [](const Plan&) { return Symmetry::translation; },
                                .channels_alike = true,
                                .in_ring = true,
                                .usual = true,
                                .run_blocks = gather_blocks,
                                .sends_blocks = sends_gathering_blocks,
                                .run = all_gather,
                                .sends = sends_all_gather,
                                .steps = [](int n) { return n - 1; }}};

/// So many segments that the chain's length costs little.
int broadcast_segments(const Layout& layout, std::size_t bytes) {
  return pipeline_segments(layout, layout.workers - 2, bytes / layout.channels.size());
}

const Registered of_broadcast{
    {.name = "ring",
     .collective = Collective::broadcast,
     .idea = "from rank 0 along the ring, segment by segment",
     .cost = "(n-2+k)(α + S/k·β) with k segments",
     .wins = "large messages: every link carries the data once",
     .source = "NVIDIA/nccl src/device/broadcast.h; facts of a pipelined chain",
     .uses_channels = true,
     .in_ring = true,
     .usual = true,
     .run = broadcast,
     .sends = sends_broadcast,
     .steps = [](int n) { return n - 1; },
     .segments_for = broadcast_segments}};

}  // namespace
}  // namespace foreduce
