#include "algorithms/core/layout.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace foreduce {

std::vector<int> RankGroups::of(int rank) const {
  const int first = rank / (size * stride) * (size * stride) + rank % stride;
  std::vector<int> members;
  for (int i = 0; i < size; ++i) members.push_back(first + i * stride);
  return members;
}

int Layout::per_node() const {
  if (counted_per_node >= 0) return counted_per_node;
  if (nodes == 0 || workers % nodes != 0) return 0;
  const int each = workers / nodes;
  for (int r = 0; r < workers; ++r)
    if (at(r).node != r / each || at(r).local != r % each) return 0;
  return each;
}

std::vector<int> Layout::node_peers(int rank) const {
  std::vector<int> peers;
  if (const int each = per_node(); each > 0) {  // the common case, without a search
    peers.resize(static_cast<std::size_t>(each));
    std::iota(peers.begin(), peers.end(), at(rank).node * each);
    return peers;
  }
  for (int r = 0; r < workers; ++r)
    if (at(r).node == at(rank).node) peers.push_back(r);
  return peers;
}

Layout Layout::uniform(int nodes, int per_node, int servers_per_node) {
  Layout layout;
  layout.nodes = nodes;
  layout.workers = nodes * per_node;
  for (int r = 0; r < layout.workers; ++r)
    layout.members.push_back({r / per_node, r % per_node, 0, false});
  for (int s = 0; s < nodes * servers_per_node; ++s)
    layout.members.push_back({s / servers_per_node, s % servers_per_node, 0, true});
  layout.channels.emplace_back(static_cast<std::size_t>(layout.workers));
  std::iota(layout.channels[0].begin(), layout.channels[0].end(), 0);
  return layout;
}

namespace {

std::vector<std::vector<int>> channels_among(const Layout& all, std::span<const int> ranks,
                                             int on_nodes) {
  std::vector<std::vector<int>> made;
  // Several GPUs of each of several nodes have several NICs: channels pass their nodes as they do
  // when all ranks take part, so that each begins at another rail.
  const auto members = static_cast<int>(ranks.size());
  if (on_nodes > 1 && members > on_nodes) {
    std::vector<int> number(static_cast<std::size_t>(all.size()), -1);
    for (int i = 0; i < members; ++i)
      number[static_cast<std::size_t>(ranks[static_cast<std::size_t>(i)])] = i;
    for (const std::vector<int>& channel : all.channels) {
      std::vector<int>& order = made.emplace_back();
      for (const int rank : channel)
        if (const int own = number[static_cast<std::size_t>(rank)]; own >= 0) order.push_back(own);
      if (static_cast<int>(order.size()) != members) made.pop_back();  // it leaves servers out
    }
  }
  if (made.empty()) {
    made.emplace_back(ranks.size());
    std::iota(made[0].begin(), made[0].end(), 0);
  }
  return made;
}

}  // namespace

Layout Layout::subset(std::span<const int> ranks) const {
  const bool all =
      static_cast<int>(ranks.size()) == size() && std::is_sorted(ranks.begin(), ranks.end());
  if (all) return *this;  // with its channels and servers
  Layout made;
  made.workers = static_cast<int>(ranks.size());
  struct Host {
    int number = -1, members = 0;
  };
  std::vector<Host> hosts;
  for (const int r : ranks) {
    Member member = at(r);
    const auto node = static_cast<std::size_t>(member.node);
    if (node >= hosts.size()) hosts.resize(node + 1);
    if (hosts[node].number < 0) hosts[node].number = made.nodes++;
    member.node = hosts[node].number;
    member.local = hosts[node].members++;
    made.members.push_back(member);
  }
  made.switch_reduces = switch_reduces;
  if (made.nodes == 1 && made.workers > 2 && rings_among) {
    std::vector<int> locals;
    for (const int r : ranks) locals.push_back(at(r).local);
    made.node_rings = rings_among(locals);
  }
  made.channels =
      made.node_rings.empty() ? channels_among(*this, ranks, made.nodes) : made.node_rings;
  made.counted_per_node = made.per_node();
  return made;
}

Layout Layout::subset(const RankGroups& groups) const {
  if (groups.whole()) return *this;
  std::vector<int> widest = groups.of(0);
  const int span = groups.size * groups.stride, each = per_node();
  if (each > 0 && (each % span == 0 || span % each == 0)) return subset(widest);
  std::size_t most = 0;
  for (int first = 0; first < workers; first += span)
    for (int r = first; r < first + groups.stride; ++r) {
      const std::vector<int> ranks = groups.of(r);
      std::set<int> reached;
      for (const int member : ranks) reached.insert(at(member).node);
      if (reached.size() <= most) continue;
      most = reached.size();
      widest = ranks;
    }
  return subset(widest);
}

}  // namespace foreduce
