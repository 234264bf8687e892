#include "models/rank_layout.hpp"

#include <algorithm>
#include <numeric>

#include "models/tree_packing.hpp"

namespace foreduce {

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
  for (int n = 1; n < layout.nodes; ++n) {
    const NodeGraph& other = cluster.node(n);
    if (&other == &one) continue;
    bool same = other.rings() == one.rings() && other.switched() == one.switched() &&
                other.machine().gpus() == one.machine().gpus();
    for (int g = 0; same && g < one.machine().gpus(); ++g)
      same = other.rail_of(g) == one.rail_of(g);
    layout.uniform_nodes = layout.uniform_nodes && same;
  }
  layout.switch_reduces =
      layout.uniform_nodes && one.machine().nvlink && one.machine().nvlink->multicast;
  if (layout.uniform_nodes) {
    if (!one.switched() && one.machine().gpus() > 1) {
      layout.node_rings = one.rings();
      if (layout.node_rings.empty()) {  // PCIe only: a ring crosses each link once
        layout.node_rings.emplace_back(static_cast<std::size_t>(one.machine().gpus()));
        std::iota(layout.node_rings[0].begin(), layout.node_rings[0].end(), 0);
      }
    }
  }
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

  const ServerSpec& servers = cluster.servers();
  layout.dedicated_servers = servers.dedicated != nullptr;
  const Machine& machine = one.machine();
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
