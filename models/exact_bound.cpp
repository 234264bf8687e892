#include "models/exact_bound.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "models/rank_layout.hpp"
#include "models/tree_packing.hpp"
#include "topologies/max_flow.hpp"

namespace foreduce {
namespace {

using Group = std::vector<std::size_t>;  // of terminals

/// A rate that is less than this share lower is no other.
constexpr double kRounding = 1e-9;

/// Cuts of a network, with a source and a sink that terminals can be tied to.
class Cuts {
 public:
  explicit Cuts(const LinkNetwork& network)
      : network_(network),
        source_(network.vertices),
        sink_(network.vertices + 1),
        flow_(network.vertices + 2) {
    for (const LinkNetwork::Link& l : network.links) {
      flow_.connect(l.from, l.to, l.width);
      total_ += l.width;
    }
    for (const LinkNetwork::Terminal& t : network.terminals) {
      from_source_.push_back(flow_.connect(source_, t.vertex, 0));
      to_sink_.push_back(flow_.connect(t.vertex, sink_, 0));
    }
  }

  std::size_t terminals() const { return network_.terminals.size(); }
  double gpus(std::size_t terminal) const {
    return static_cast<double>(network_.terminals[terminal].gpus.size());
  }
  /// More than any cut.
  double unbounded() const { return 2 * total_ + 1; }
  void tie(std::size_t terminal, double to_source, double to_sink) {
    flow_.set_width(from_source_[terminal], to_source);
    flow_.set_width(to_sink_[terminal], to_sink);
  }
  /// The narrowest cut between source and sink.
  double narrowest() { return flow_.between(source_, sink_); }
  Group inside() const {
    Group found;
    for (std::size_t t = 0; t < terminals(); ++t)
      if (flow_.beside_source(network_.terminals[t].vertex)) found.push_back(t);
    return found;
  }
  /// What can flow from the group to all other terminals.
  double leaving(const Group& group) {
    for (std::size_t t = 0; t < terminals(); ++t) tie(t, 0, unbounded());
    for (const std::size_t t : group) tie(t, unbounded(), 0);
    return narrowest();
  }

 private:
  const LinkNetwork& network_;
  std::size_t source_, sink_;
  MaxFlow flow_;
  double total_ = 0;
  std::vector<std::size_t> from_source_, to_sink_;
};

std::vector<Group> each_alone(std::size_t terminals) {
  std::vector<Group> groups;
  for (std::size_t t = 0; t < terminals; ++t) groups.push_back({t});
  return groups;
}

double rate_of(Cuts& cuts, const std::vector<Group>& partition) {
  double sum = 0;
  for (const Group& group : partition) sum += cuts.leaving(group);
  return sum / (2 * static_cast<double>(partition.size() - 1));
}

/// The partition with the least sum of half of what leaves each group, less `rate` for each group.
/// Terminal by terminal (Dilworth truncation): a price for each, so that no group of those seen is
/// worth less than its prices add up to; groups whose prices reach it and that overlap are merged.
std::vector<Group> least_partition(Cuts& cuts, double rate) {
  const std::size_t n = cuts.terminals();
  std::vector<double> price(n, 0);
  std::vector<Group> partition;
  for (std::size_t now = 0; now < n; ++now) {
    double positive = 0;
    for (std::size_t t = 0; t < n; ++t) {
      if (t == now) cuts.tie(t, cuts.unbounded(), 0);
      else if (t > now) cuts.tie(t, 0, cuts.unbounded());
      else cuts.tie(t, std::max(0.0, 2 * price[t]), std::max(0.0, -2 * price[t]));
      if (t < now) positive += std::max(0.0, 2 * price[t]);
    }
    // With every terminal inside nothing need leave, and there is no way to the sink.
    price[now] = (cuts.narrowest() - positive) / 2 - rate;
    Group merged = cuts.inside();
    std::vector<Group> kept;
    for (Group& group : partition) {
      const bool overlaps = std::any_of(group.begin(), group.end(), [&](std::size_t t) {
        return std::find(merged.begin(), merged.end(), t) != merged.end();
      });
      if (!overlaps) {
        kept.push_back(std::move(group));
        continue;
      }
      for (const std::size_t t : group)
        if (std::find(merged.begin(), merged.end(), t) == merged.end()) merged.push_back(t);
    }
    kept.push_back(std::move(merged));
    partition = std::move(kept);
  }
  return partition;
}

BestRate best_all_reduce(Cuts& cuts) {
  BestRate best{0, each_alone(cuts.terminals())};
  best.bytes_per_second = rate_of(cuts, best.groups);
  for (;;) {
    std::vector<Group> partition = least_partition(cuts, best.bytes_per_second);
    if (partition.size() < 2) return best;
    const double rate = rate_of(cuts, partition);
    if (rate >= best.bytes_per_second * (1 - kRounding)) return best;
    best = {rate, std::move(partition)};
  }
}

/// The rate is of all data; each terminal has its GPUs' share of them.
BestRate best_all_gather(Cuts& cuts) {
  double all = 0;
  for (std::size_t t = 0; t < cuts.terminals(); ++t) all += cuts.gpus(t);
  const auto rate_with = [&](const Group& set) {
    double share = 0;
    for (const std::size_t t : set) share += cuts.gpus(t) / all;
    return cuts.leaving(set) / share;
  };
  BestRate best{cuts.unbounded() * all, {}};
  for (std::size_t t = 0; t < cuts.terminals(); ++t)
    if (const double rate = rate_with({t}); rate < best.bytes_per_second) best = {rate, {{t}}};
  for (std::size_t end = 0; end < cuts.terminals(); ++end) {
    for (;;) {
      for (std::size_t t = 0; t < cuts.terminals(); ++t)
        cuts.tie(t, best.bytes_per_second * cuts.gpus(t) / all, t == end ? cuts.unbounded() : 0);
      if (cuts.narrowest() >= best.bytes_per_second * (1 - kRounding)) break;
      const Group set = cuts.inside();
      const double rate = rate_with(set);
      if (rate >= best.bytes_per_second * (1 - kRounding)) break;
      best = {rate, {set}};
    }
  }
  return best;
}

BestRate best_broadcast(Cuts& cuts) {
  BestRate best{cuts.unbounded(), {}};
  for (std::size_t end = 1; end < cuts.terminals(); ++end) {
    for (std::size_t t = 0; t < cuts.terminals(); ++t)
      cuts.tie(t, t == 0 ? cuts.unbounded() : 0, t == end ? cuts.unbounded() : 0);
    if (const double rate = cuts.narrowest(); rate < best.bytes_per_second)
      best = {rate, {cuts.inside()}};
  }
  return best;
}

// ------------------------------------------------------------------ from a cluster

/// Which links of a machine lie on a route: between its GPUs, and to the network and back unless
/// it is alone. An ideal link is on no list of links.
std::vector<bool> links_on_routes(const NodeGraph& node, const Cluster& cluster) {
  std::vector<bool> used(node.link_count());
  const auto use = [&](const Path& path) {
    for (const std::size_t link : path.links) used[link] = true;
  };
  for (int a = 0; a < node.machine().gpus(); ++a) {
    for (int b = 0; b < node.machine().gpus(); ++b)
      if (a != b) use(node.inside({false, a}, {false, b}));
    if (cluster.worker_nodes() == 1) continue;
    use(node.outward({false, a}));
    use(node.inward({false, a}));
  }
  for (std::size_t link = 0; link < used.size(); ++link)
    if (std::isinf(node.link(link).bandwidth.value)) used[link] = true;
  return used;
}

/// The NVLinks of a machine alone.
LinkNetwork nvlinks_of(const NodeGraph& node) {
  LinkNetwork network;
  const Graph& graph = node.graph();
  network.vertices = boost::num_vertices(graph);
  for (std::size_t v = 0; v < network.vertices; ++v)
    if (graph[v].kind == VertexKind::gpu) network.terminals.push_back({v, {{0, graph[v].index}}});
  for (const auto& e : boost::make_iterator_range(boost::edges(graph)))
    if (graph[e].kind == LinkKind::nvlink)
      network.links.push_back(
          {boost::source(e, graph), boost::target(e, graph), graph[e].bandwidth.value});
  return network;
}

/// Nodes whose NVLinks alone carry what cluster-wide bounds allow: no cut that separates their GPUs
/// can be the narrowest, for with trees between nodes there are as many inside.
std::vector<bool> joined_nodes(const Cluster& cluster, Collective collective) {
  constexpr Bytes kMany{1e15};
  const LowerBound rough = collective_bound(cluster, collective, kMany);
  const double needed = kMany.value / (rough.time - rough.latency).value;
  // Inside a node data come from anywhere: what a broadcast can do is what every cut carries.
  const Collective inside =
      collective == Collective::all_reduce ? Collective::all_reduce : Collective::broadcast;
  std::map<const NodeGraph*, bool> known;
  std::vector<bool> joined;
  for (int n = 0; n < cluster.worker_nodes(); ++n) {
    const NodeGraph& node = cluster.node(n);
    const auto [at, fresh] = known.try_emplace(&node, false);
    if (fresh && cluster.worker_nodes() > 1)
      at->second = node.machine().gpus() == 1 ||
                   best_rate(nvlinks_of(node), inside).bytes_per_second >= needed;
    joined.push_back(at->second);
  }
  return joined;
}

std::string name_of(const LinkNetwork& network, const Group& group, const Cluster& cluster) {
  std::vector<LinkNetwork::Gpu> gpus;
  for (const std::size_t t : group)
    gpus.insert(gpus.end(), network.terminals[t].gpus.begin(), network.terminals[t].gpus.end());
  std::map<int, std::vector<int>> by_node;
  for (const LinkNetwork::Gpu& g : gpus) by_node[g.node].push_back(g.gpu);
  constexpr std::size_t kMost = 3;
  std::string text;
  std::size_t shown = 0;
  for (const auto& [node, local] : by_node) {
    if (++shown > kMost) return text + fmt::format(" and {} nodes more", by_node.size() - kMost);
    text += fmt::format("{}node{}", text.empty() ? "" : ", ", node);
    if (static_cast<int>(local.size()) == cluster.node(node).machine().gpus()) continue;
    for (std::size_t i = 0; i < local.size(); ++i)
      text += fmt::format("{}{}", i == 0 ? "/gpu" : "+", local[i]);
  }
  return text;
}

/// What the groups are: all GPUs, all nodes, all leaves, or some of them.
std::string name_of_cut(const LinkNetwork& network, const BestRate& best, const Cluster& cluster) {
  bool gpus = true, nodes = true, leaves = cluster.leaves() > 0;
  std::map<int, std::size_t> group_of_node, group_of_leaf;
  for (std::size_t g = 0; g < best.groups.size(); ++g) {
    int members = 0;
    for (const std::size_t t : best.groups[g])
      for (const LinkNetwork::Gpu& gpu : network.terminals[t].gpus) {
        ++members;
        nodes = nodes && group_of_node.try_emplace(gpu.node, g).first->second == g;
        const int leaf = cluster.leaf_of(gpu.node);
        leaves = leaves && group_of_leaf.try_emplace(leaf, g).first->second == g;
      }
    gpus = gpus && members == 1;
  }
  if (best.groups.size() == 1) return "cut around " + name_of(network, best.groups[0], cluster);
  if (gpus) return "cut into GPUs";
  if (nodes && group_of_node.size() == best.groups.size()) return "cut into nodes";
  if (leaves && group_of_leaf.size() == best.groups.size()) return "cut into leaves";
  const auto smaller = [](const Group& a, const Group& b) { return a.size() < b.size(); };
  const Group& least = *std::min_element(best.groups.begin(), best.groups.end(), smaller);
  return fmt::format("cut into {} groups, one of them {}", best.groups.size(),
                     name_of(network, least, cluster));
}

}  // namespace

BestRate best_rate(const LinkNetwork& network, Collective collective) {
  Cuts cuts(network);
  switch (collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter: return best_all_gather(cuts);
    case Collective::broadcast: return best_broadcast(cuts);
    case Collective::all_reduce:
    case Collective::all_to_all: break;
  }
  return best_all_reduce(cuts);
}

LinkNetwork link_network(const Cluster& cluster, const std::vector<bool>& joined) {
  LinkNetwork network;
  const auto leaves = static_cast<std::size_t>(cluster.leaves());
  network.vertices = leaves == 0 ? 1 : leaves + 1;  // the spine is the last
  const auto join = [&](std::size_t a, std::size_t b, double there, double back) {
    network.links.push_back({a, b, there});
    network.links.push_back({b, a, back});
  };
  for (std::size_t l = 0; l < leaves; ++l) {
    const double width = cluster.uplink_bandwidth(static_cast<int>(l)).value;
    join(l, leaves, width, width);
  }
  for (int n = 0; n < cluster.worker_nodes(); ++n) {
    const NodeGraph& node = cluster.node(n);
    const Graph& graph = node.graph();
    const auto hub = static_cast<std::size_t>(cluster.leaf_of(n));
    if (joined[static_cast<std::size_t>(n)]) {
      LinkNetwork::Terminal all{network.vertices++, {}};
      for (int g = 0; g < node.machine().gpus(); ++g) all.gpus.push_back({n, g});
      join(all.vertex, hub, node.cut_out().value, node.cut_in().value);
      network.terminals.push_back(std::move(all));
      continue;
    }
    std::vector<std::size_t> vertex(boost::num_vertices(graph), hub);
    for (std::size_t v = 0; v < vertex.size(); ++v) {
      if (graph[v].kind == VertexKind::fabric) continue;
      vertex[v] = network.vertices++;
      if (graph[v].kind == VertexKind::gpu)
        network.terminals.push_back({vertex[v], {{n, graph[v].index}}});
    }
    const std::vector<bool> used = links_on_routes(node, cluster);
    for (const auto& e : boost::make_iterator_range(boost::edges(graph))) {
      const VertexId from = boost::source(e, graph), to = boost::target(e, graph);
      if (used[graph[e].id] || used[graph[boost::edge(to, from, graph).first].id])
        network.links.push_back({vertex[from], vertex[to], graph[e].bandwidth.value});
    }
  }
  // An ideal link is wider than all real ones together.
  double total = 0;
  for (const LinkNetwork::Link& l : network.links)
    if (std::isfinite(l.width)) total += l.width;
  for (LinkNetwork::Link& l : network.links) l.width = std::min(l.width, total);
  return network;
}

std::optional<ExactCut> exact_cut(const Cluster& cluster, Collective collective) {
  if (collective == Collective::all_to_all || cluster.servers().co_located ||
      cluster.servers().dedicated)
    return std::nullopt;
  if (cluster.gpus() < 2) return ExactCut{0, "one rank"};
  const LinkNetwork network = link_network(cluster, joined_nodes(cluster, collective));
  constexpr std::size_t kMost = 2048;
  if (network.terminals.size() > kMost)
    throw input_error(
        fmt::format("bound: exact: this cluster has {} GPUs or nodes to cut between, and at most "
                    "{} can be",
                    network.terminals.size(), kMost),
        "bound: groups");
  const BestRate best = best_rate(network, collective);
  const ExactCut cut{1 / best.bytes_per_second, name_of_cut(network, best, cluster)};
  if (collective != Collective::all_reduce) return cut;
  const double along_routes = pack_trees(cluster, rank_layout(cluster)).least_seconds_per_byte;
  constexpr double kMore = 1 + 1e-6;
  return along_routes > kMore * cut.seconds_per_byte ? ExactCut{along_routes, "routes"} : cut;
}

LowerBound exact_bound(const Cluster& cluster, Collective collective, Bytes bytes,
                       const ExactCut& cut) {
  LowerBound bound = collective_bound(cluster, collective, bytes);
  const Seconds time{cut.seconds_per_byte * bytes.value};
  // Where groups say as much, they know of latencies besides.
  if (cluster.gpus() > 1 && time >= (bound.time - bound.latency) * (1 - kRounding))
    bound.because = cut.because;
  if (time > bound.time) bound = {time, cut.because, Seconds{0}};
  return bound;
}

}  // namespace foreduce
