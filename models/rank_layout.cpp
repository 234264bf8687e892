#include "models/rank_layout.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include "models/tree_packing.hpp"

namespace foreduce {

namespace {

/// Whether all nodes are as the first one, so that one description serves for all.
bool are_alike(const Cluster& cluster) {
  const NodeGraph& one = cluster.node(0);
  bool same = true;
  for (int n = 1; same && n < cluster.worker_nodes(); ++n) {
    const NodeGraph& other = cluster.node(n);
    if (&other == &one) continue;
    same = other.rings() == one.rings() && other.switched() == one.switched() &&
           other.machine().gpus() == one.machine().gpus();
    for (int g = 0; same && g < one.machine().gpus(); ++g)
      same = other.rail_of(g) == one.rail_of(g);
  }
  return same;
}

/// The rings inside each node, where no switch connects its GPUs.
std::vector<std::vector<int>> rings_inside(const NodeGraph& one) {
  if (one.switched() || one.machine().gpus() <= 1) return {};
  std::vector<std::vector<int>> rings = one.rings();
  if (rings.empty()) {  // PCIe only: a ring crosses each link once
    rings.emplace_back(static_cast<std::size_t>(one.machine().gpus()));
    std::iota(rings[0].begin(), rings[0].end(), 0);
  }
  return rings;
}

/// Rings among some GPUs of a node, found once for each set of them.
std::function<std::vector<std::vector<int>>(const std::vector<int>&)> rings_among_gpus(
    const Cluster& cluster) {
  struct Found {
    std::mutex mutex;
    std::map<std::vector<int>, std::vector<std::vector<int>>> rings;
  };
  return [cluster, found = std::make_shared<Found>()](const std::vector<int>& gpus) {
    const std::lock_guard lock(found->mutex);
    const auto [at, is_new] = found->rings.try_emplace(gpus);
    if (is_new) at->second = cluster.node(0).rings_among(gpus);
    return at->second;
  };
}

void add_servers(Layout& layout, const Cluster& cluster) {
  const ServerSpec& servers = cluster.servers();
  layout.dedicated_servers = servers.dedicated != nullptr;
  const Machine& machine = cluster.node(0).machine();
  // Inside, part-sums and results cross a GPU's PCIe link besides what goes to the servers; a GPU's
  // share of the NICs must be half of that link.
  layout.straight_to_servers =
      layout.dedicated_servers && machine.gpus() > 1 && !machine.nvlink && machine.pcie &&
      2 * (machine.nic.bandwidth * machine.nic.count / machine.gpus()).value >=
          machine.pcie->bandwidth.value;
  const int begin = servers.co_located ? 0 : layout.nodes;
  const int end = servers.dedicated ? cluster.nodes() : servers.co_located ? layout.nodes : 0;
  for (int n = begin; n < end; ++n)
    for (int r = 0; r < cluster.node(n).rails(); ++r) layout.members.push_back({n, r, r, true});
}

}  // namespace

Layout rank_layout(const Cluster& cluster) {
  Layout layout;
  layout.nodes = cluster.worker_nodes();
  std::vector<int> first;
  std::size_t channels = SIZE_MAX;
  for (int n = 0; n < layout.nodes; ++n) {
    const NodeGraph& node = cluster.node(n);
    first.push_back(layout.size());
    for (int g = 0; g < node.machine().gpus(); ++g)
      layout.members.push_back({n, g, node.rail_of(g), false});
    channels = std::min(channels, node.chains().size());
  }
  layout.workers = layout.size();

  const NodeGraph& one = cluster.node(0);
  layout.uniform_nodes = are_alike(cluster);
  layout.switch_reduces =
      layout.uniform_nodes && one.machine().nvlink && one.machine().nvlink->multicast;
  if (layout.uniform_nodes) layout.node_rings = rings_inside(one);
  if (layout.uniform_nodes && !one.rings().empty()) layout.rings_among = rings_among_gpus(cluster);
  if (layout.nodes == 1 && !one.switched() && one.machine().gpus() > 1) {
    layout.channels = layout.node_rings;
  } else {
    if (layout.nodes == 1) channels = 1;  // a switch gives one ring its full width
    for (std::size_t c = 0; c < channels; ++c) {
      auto& order = layout.channels.emplace_back();
      for (int n = 0; n < layout.nodes; ++n)
        for (const int g : cluster.node(n).chains()[c])
          order.push_back(first[static_cast<std::size_t>(n)] + g);
    }
  }

  add_servers(layout, cluster);
  layout.counted_per_node = layout.per_node();
  layout.trees = std::make_shared<const SpanningTrees>(
      [cluster] { return pack_trees(cluster, rank_layout(cluster)).trees; });
  return layout;
}

Place place_of(const Layout& layout, int rank) {
  const Member& m = layout.at(rank);
  return {m.node, {m.server, m.local}};
}

}  // namespace foreduce
