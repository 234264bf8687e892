// Reduction server (SMDDP, Herring): workers push their partial sums to CPU processes, which own
// equal chunks; each server sums its chunk and sends it back. Servers run on the workers' own hosts
// (co-located) or on instances of their own. Cost 2α + 2(N-1)/N·Sβ co-located; 2α + max(S, NS/k)β
// with k dedicated servers; + the CPU's reduces; 2 hops for any N. Wins on many nodes at medium
// sizes, and frees the GPU: nothing is reduced there but the sums inside the node. Dedicated
// servers halve the bytes once k·B_server ≥ N·B_worker. Without NVLink, and with a NIC a GPU,
// workers push to dedicated servers directly, as Optcast's do: a sum inside the node would cross
// PCIe twice. Source: Thangakrishnan et al., "Herring", SC 2020; SageMaker developer guide,
// data-parallel-intro; Jiang et al., BytePS, OSDI 2020.
#include <algorithm>
#include <optional>

#include "algorithms/core/node_phases.hpp"
#include "algorithms/core/registry.hpp"
#include "algorithms/core/window.hpp"

namespace foreduce {
namespace {

/// The servers that a worker pushes to: those on its own rail when co-located, else all; at least
/// one.
std::vector<int> servers_for(const Layout& layout, const Member& worker) {
  std::vector<int> mine, all;
  for (int s = layout.workers; s < layout.size(); ++s) {
    all.push_back(s);
    if (layout.at(s).rail == worker.rail) mine.push_back(s);
  }
  return layout.dedicated_servers || mine.empty() ? all : mine;
}

/// Where a worker's way to the servers is as good as to its peers, every worker goes for itself, as
/// if alone on a node.
std::optional<Layout> one_gpu_nodes(const Layout& layout) {
  if (!layout.straight_to_servers) return std::nullopt;
  Layout alone = layout;
  alone.nodes = layout.workers;
  alone.node_rings.clear();
  alone.counted_per_node = 1;
  for (int w = 0; w < layout.workers; ++w) {
    alone.members[static_cast<std::size_t>(w)].node = w;
    alone.members[static_cast<std::size_t>(w)].local = 0;
  }
  return alone;
}

/// The worker `local` of each node.
std::vector<int> column(const Layout& layout, int local) {
  std::vector<int> ranks;
  const int each = layout.per_node();
  for (int node = 0; node < layout.nodes; ++node) ranks.push_back(node * each + local);
  return ranks;
}

Event work(Transport& t, const Layout& layout, Buffer data, Op op, const Plan& plan, Event after) {
  const Member& me = layout.at(t.rank());
  const NodePhases node(layout, t.rank());
  const auto servers = servers_for(layout, me);
  const int chunks = static_cast<int>(servers.size()), last = node.size() - 1;
  std::vector<Event> done;
  Window window;
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer segment = data.segment(plan.cut(), k);
    const Event ready = node.reduce_scatter(t, node.blocks_of(segment), op, {0, k}, after);
    std::vector<Event> back{ready};
    for (int d = 0; d < chunks;
         ++d) {  // start with the own node's server, so that no server is flooded first
      const int j = (me.node + d) % chunks, server = servers[static_cast<std::size_t>(j)];
      const Buffer chunk = node.own(segment).chunk(chunks, j);
      window.send(t, server, {2 * last, k}, chunk, ready);
      back.push_back(t.recv(server, {2 * last + 1, k}, chunk));
    }
    done.push_back(node.all_gather(t, node.blocks_of(segment), {last, k}, t.join(back)));
  }
  return t.join(done);
}

Event serve(Transport& t, const Layout& layout, Buffer workspace, Op op, const Plan& plan,
            Event after) {
  const int each = layout.per_node(), nodes = layout.nodes, last = each - 1;
  std::vector<Event> done{after};
  Window window;
  for (int k = 0; k < plan.segments; ++k)
    for (int local = 0; local < each; ++local) {
      const auto servers = servers_for(layout, layout.at(local));
      const auto mine = std::find(servers.begin(), servers.end(), t.rank());
      if (mine == servers.end()) continue;
      const int j = static_cast<int>(mine - servers.begin());
      const Buffer chunk = workspace.segment(plan.cut(), k)
                               .chunk(each, local)
                               .chunk(static_cast<int>(servers.size()), j);
      const auto workers = column(layout, local);
      // Workers whose turn it is first are reduced first: worker v pushes to chunk v + d in its
      // d-th message.
      const auto nth = [&](int d) {
        return workers[static_cast<std::size_t>(((j - d) % nodes + nodes) % nodes)];
      };
      Event ready = t.recv(nth(0), {2 * last, k}, chunk);
      for (int d = 1; d < nodes; ++d) ready = t.recv_reduce(nth(d), {2 * last, k}, chunk, op);
      for (int d = 0; d < nodes; ++d) window.send(t, nth(d), {2 * last + 1, k}, chunk, ready);
      done.push_back(ready);
    }
  return t.join(done);
}

Event reduction_server(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  const auto alone = one_gpu_nodes(t.layout());
  const Layout& layout = alone ? *alone : t.layout();
  return layout.at(t.rank()).server ? serve(t, layout, data, op, plan, after)
                                    : work(t, layout, data, op, plan, after);
}

std::size_t sends(const Layout& topology, int rank, std::size_t count, const Plan& plan) {
  const auto alone = one_gpu_nodes(topology);
  const Layout& layout = alone ? *alone : topology;
  std::size_t total = 0;
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer segment = Buffer{nullptr, 0, count}.segment(plan.cut(), k);
    if (!layout.at(rank).server) {  // the phases in the node, and the own chunk once
      const NodePhases node(layout, rank);
      const Blocks blocks = node.blocks_of(segment);
      total +=
          node.sends_scattering(blocks) + node.sends_gathering(blocks) + node.own(segment).count;
      continue;
    }
    for (int local = 0; local < layout.per_node(); ++local) {  // each chunk once to every node
      const auto servers = servers_for(layout, layout.at(local));
      const auto mine = std::find(servers.begin(), servers.end(), rank);
      if (mine == servers.end()) continue;
      total +=
          static_cast<std::size_t>(layout.nodes) *
          segment.chunk(layout.per_node(), local)
              .chunk(static_cast<int>(servers.size()), static_cast<int>(mine - servers.begin()))
              .count;
    }
  }
  return total;
}

const Registered entry{
    {.name = "reduction-server",
     .idea = "push chunks of the partial sums to CPU servers, which sum and send back",
     .cost =
         "2α + 2(N-1)/N·Sβ co-located; 2α + max(S, NS/k)β with k dedicated servers; + CPU reduces",
     .wins = "many nodes at medium sizes; leaves the GPU to compute",
     .source = "Thangakrishnan et al., Herring, SC 2020; Jiang et al., BytePS, OSDI 2020",
     .uses_servers = true,
     .symmetry = [](const Plan&) { return Symmetry::translation; },
     .run = reduction_server,
     .sends = sends,
     .steps = [](int n) { return n > 1 ? 2 : 0; },
     .unsupported_reason = [](const Layout& layout, const Plan&) -> std::optional<std::string> {
       if (layout.per_node() == 0) return "every node must have the same number of GPUs";
       if (!layout.uniform_nodes) return "the nodes differ inside (NVLink or rails)";
       return std::nullopt;
     },
     .segments_for = NodePhases::segments_for}};

}  // namespace
}  // namespace foreduce
