#include "algorithms/core/node_phases.hpp"

#include <algorithm>

#include "algorithms/core/ring_phases.hpp"

namespace foreduce {

NodePhases::NodePhases(const Layout& layout, int rank, NodeExchange exchange)
    : layout_(layout),
      peers_(layout.node_peers(rank)),
      local_(layout.at(rank).local),
      exchange_(exchange) {}

/// Each ring carries an equal chunk of every worker's block, so the rings' links are all busy.
template <class Visit>
void NodePhases::each_ring(const Blocks& blocks, Tag first, Visit visit) const {
  const auto& rings = layout_.node_rings;
  for (int r = 0; r < static_cast<int>(rings.size()); ++r) {
    const auto& order = rings[static_cast<std::size_t>(r)];
    const int n = static_cast<int>(order.size());
    std::vector<int> ranks;
    for (const int local : order) ranks.push_back(peers_[static_cast<std::size_t>(local)]);
    const auto chunk = [&, n](int owner, int) {
      return blocks(order[static_cast<std::size_t>(((owner % n) + n) % n)])
          .chunk(static_cast<int>(rings.size()), r);
    };
    const auto position =
        static_cast<int>(std::find(order.begin(), order.end(), local_) - order.begin());
    visit(Ring{ranks, position, first.channel + r, first.segment, chunk, first.packed});
  }
}

Event NodePhases::reduce_scatter(Transport& t, const Blocks& blocks, Op op, Tag first,
                                 Event after) const {
  const int n = size();
  if (n == 1) return after;
  if (layout_.node_rings.empty()) {
    Event ready = after;
    if (exchange_ == NodeExchange::in_switch) first.in_switch = InSwitch::reduce;
    for (int d = 1; d < n; ++d) {
      const int to = (local_ + d) % n, from = (local_ - d + n) % n;
      t.send(peers_[static_cast<std::size_t>(to)], first, blocks(to), after);
      ready = t.recv_reduce(peers_[static_cast<std::size_t>(from)], first, blocks(local_), op);
    }
    return ready;
  }
  std::vector<Event> done;
  each_ring(blocks, first, [&](const Ring& ring) {
    std::vector<Event> ready{after};
    ring_reduce_scatter(t, ring, op, first.step, ready);
    done.push_back(ready[0]);
  });
  return t.join(done);
}

Event NodePhases::all_gather(Transport& t, const Blocks& blocks, Tag first, Event after) const {
  const int n = size();
  std::vector<Event> done{after};
  if (n == 1) return after;
  if (layout_.node_rings.empty()) {
    if (exchange_ ==
        NodeExchange::in_switch) {  // reads and writes of the switch do not wait for each other
      first.in_switch = InSwitch::multicast;
      ++first.channel;
    }
    for (int d = 1; d < n; ++d) {
      const int to = (local_ + d) % n, from = (local_ - d + n) % n;
      t.send(peers_[static_cast<std::size_t>(to)], first, blocks(local_), after);
      done.push_back(t.recv(peers_[static_cast<std::size_t>(from)], first, blocks(from)));
    }
  } else {
    each_ring(blocks, first, [&](const Ring& ring) {
      const Event ready[] = {after};
      done.push_back(ring_all_gather(t, ring, first.step, ready));
    });
  }
  return t.join(done);
}

int NodePhases::segments_for(const Layout& layout, std::size_t bytes) {
  constexpr std::size_t kMessage = 128 * 1024;
  return static_cast<int>(
      std::clamp<std::size_t>(bytes / (static_cast<std::size_t>(layout.workers) * kMessage), 1, 8));
}

/// All blocks but the own one.
std::size_t NodePhases::sends_scattering(const Blocks& blocks) const {
  std::size_t total = 0;
  for (int l = 0; l < size(); ++l)
    if (l != local_) total += blocks(l).count;
  return total;
}

/// The own block to everybody; around rings all blocks but the right neighbour's.
std::size_t NodePhases::sends_gathering(const Blocks& blocks) const {
  const int n = size();
  if (n == 1) return 0;
  if (layout_.node_rings.empty()) return static_cast<std::size_t>(n - 1) * blocks(local_).count;
  std::size_t total = 0;
  each_ring(blocks, {}, [&](const Ring& ring) {
    for (int owner = 0; owner < n; ++owner) total += ring.chunk(owner, 0).count;
    total -= ring.chunk(ring.position + 1, 0).count;
  });
  return total;
}

std::vector<int> rail_ranks(const Layout& layout, int rank) {
  std::vector<int> ranks;
  const int each = layout.per_node();
  for (int node = 0; node < layout.nodes; ++node)
    ranks.push_back(node * each + layout.at(rank).local);
  return ranks;
}

Event MultiRail::run(Transport& t, Buffer data, Op op, Event after) const {
  const Layout& layout = t.layout();
  if (layout.at(t.rank()).server) return {};
  const NodePhases node(layout, t.rank(), exchange);
  const Transport rails = layout.nodes > 1 ? t.subset(rail_ranks(layout, t.rank()), 1) : t;
  const int in_node = node.size() - 1;
  std::vector<Event> done;
  for (int k = 0; k < cut.count; ++k) {
    const Buffer segment = data.segment(cut, k);
    const Blocks blocks = node.blocks_of(segment);
    Event ready = node.reduce_scatter(t, blocks, op, {0, k}, after);
    if (layout.nodes > 1) {
      Transport rail = rails.in_group(k);
      ready = inner.run(rail, node.own(segment), op, {.segments = 1, .channels = 1, .inner = {}},
                        ready);
    }
    done.push_back(node.all_gather(t, blocks, {in_node, k}, ready));
  }
  return t.join(done);
}

std::size_t MultiRail::sends(const Layout& layout, int rank, std::size_t count) const {
  if (layout.at(rank).server) return 0;
  const NodePhases node(layout, rank);
  const Layout rail = layout.subset(rail_ranks(layout, rank));
  std::size_t total = 0;
  for (int k = 0; k < cut.count; ++k) {
    const Buffer segment = Buffer{nullptr, 0, count}.segment(cut, k);
    const Blocks blocks = node.blocks_of(segment);
    total += node.sends_scattering(blocks) + node.sends_gathering(blocks);
    total += inner.sends(rail, layout.at(rank).node, node.own(segment).count, {});
  }
  return total;
}

}  // namespace foreduce
