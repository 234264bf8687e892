#include "algorithms/core/node_phases.hpp"

#include <algorithm>

#include "algorithms/core/laps.hpp"

namespace foreduce {

NodePhases::NodePhases(const Layout& layout, int rank, bool in_switch)
    : layout_(layout), mates_(layout.node_mates(rank)), local_(layout.at(rank).local), in_switch_(in_switch) {}

/// Each ring carries an equal share of every worker's part, so the rings' links are all busy.
template <class Visit>
void NodePhases::each_ring(Buffer piece, Tag first, Visit visit) const {
  const auto& rings = layout_.node_rings;
  for (int r = 0; r < static_cast<int>(rings.size()); ++r) {
    const auto& order = rings[static_cast<std::size_t>(r)];
    const int n = static_cast<int>(order.size());
    std::vector<int> ranks;
    for (const int local : order) ranks.push_back(mates_[static_cast<std::size_t>(local)]);
    const auto chunk = [&, n](int owner, int) {
      return piece.part(n, order[static_cast<std::size_t>(((owner % n) + n) % n)]).part(static_cast<int>(rings.size()), r);
    };
    const auto position = static_cast<int>(std::find(order.begin(), order.end(), local_) - order.begin());
    visit(Ring{ranks, position, first.channel + r, first.segment, chunk});
  }
}

Event NodePhases::reduce_scatter(Transport& t, Buffer piece, Op op, Tag first, Event after) const {
  const int n = size();
  if (n == 1) return after;
  if (layout_.node_rings.empty()) {
    Event ready = after;
    if (in_switch_) first.in_switch = InSwitch::reduce;
    for (int d = 1; d < n; ++d) {
      const int to = (local_ + d) % n, from = (local_ - d + n) % n;
      t.send(mates_[static_cast<std::size_t>(to)], first, piece.part(n, to), after);
      ready = t.recv_reduce(mates_[static_cast<std::size_t>(from)], first, piece.part(n, local_), op);
    }
    return ready;
  }
  std::vector<Event> done;
  each_ring(piece, first, [&](const Ring& ring) {
    std::vector<Event> ready{after};
    reduce_lap(t, ring, op, first.step, ready);
    done.push_back(ready[0]);
  });
  return t.join(done);
}

Event NodePhases::all_gather(Transport& t, Buffer piece, Tag first, Event after) const {
  const int n = size();
  std::vector<Event> done{after};
  if (n == 1) return after;
  if (layout_.node_rings.empty()) {
    if (in_switch_) {  // reads and writes of the switch do not wait for each other
      first.in_switch = InSwitch::multicast;
      ++first.channel;
    }
    for (int d = 1; d < n; ++d) {
      const int to = (local_ + d) % n, from = (local_ - d + n) % n;
      t.send(mates_[static_cast<std::size_t>(to)], first, piece.part(n, local_), after);
      done.push_back(t.recv(mates_[static_cast<std::size_t>(from)], first, piece.part(n, from)));
    }
  } else {
    each_ring(piece, first, [&](const Ring& ring) {
      const Event ready[] = {after};
      done.push_back(gather_lap(t, ring, first.step, ready));
    });
  }
  return t.join(done);
}

int NodePhases::segments_for(const Layout& layout, std::size_t bytes) {
  constexpr std::size_t kMessage = 128 * 1024;
  return static_cast<int>(std::clamp<std::size_t>(bytes / (static_cast<std::size_t>(layout.workers) * kMessage), 1, 8));
}

std::size_t NodePhases::sends(Buffer piece) const {
  const int n = size();
  if (n == 1) return 0;
  const std::size_t own_part = own(piece).count;
  if (layout_.node_rings.empty()) return piece.count - own_part + static_cast<std::size_t>(n - 1) * own_part;
  std::size_t total = 0;  // as in ring.cpp: all parts but the own one, then all but the right neighbour's
  each_ring(piece, {}, [&](const Ring& ring) {
    for (int owner = 0; owner < n; ++owner) total += 2 * ring.chunk(owner, 0).count;
    total -= ring.chunk(ring.position, 0).count + ring.chunk(ring.position + 1, 0).count;
  });
  return total;
}

namespace {
std::vector<int> rail_ranks(const Layout& layout, int rank) {
  std::vector<int> ranks;
  const int each = layout.per_node();
  for (int node = 0; node < layout.nodes; ++node) ranks.push_back(node * each + layout.at(rank).local);
  return ranks;
}
}  // namespace

Event multi_rail(Transport& t, Buffer data, Op op, const Algorithm& inner, const Plan& plan, bool in_switch, Event after) {
  const Layout& layout = t.layout();
  if (layout.at(t.rank()).server) return {};
  const NodePhases node(layout, t.rank(), in_switch);
  const auto mates = rail_ranks(layout, t.rank());
  const int in_node = node.size() - 1;
  std::vector<Event> done;
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer piece = data.part(plan.segments, k);
    Event ready = node.reduce_scatter(t, piece, op, {0, k}, after);
    if (layout.nodes > 1) {
      Transport rail = t.subset(mates, 1 + k);
      ready = inner.run(rail, node.own(piece), op, {.segments = 1, .channels = 1, .inner = {}}, ready);
    }
    done.push_back(node.all_gather(t, piece, {in_node, k}, ready));
  }
  return t.join(done);
}

std::size_t multi_rail_sends(const Layout& layout, int rank, std::size_t count, const Algorithm& inner, const Plan& plan) {
  if (layout.at(rank).server) return 0;
  const NodePhases node(layout, rank);
  const Layout rail = layout.subset(rail_ranks(layout, rank));
  std::size_t total = 0;
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer piece = Buffer{nullptr, 0, count}.part(plan.segments, k);
    total += node.sends(piece);
    total += inner.sends(rail, layout.at(rank).node, node.own(piece).count, {});
  }
  return total;
}

}  // namespace foreduce
