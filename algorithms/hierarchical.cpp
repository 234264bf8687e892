// Hierarchical (multi-rail): reduce-scatter inside the node over NVLink, one all-reduce per rail
// across the nodes with a chosen inner algorithm, all-gather inside the node; pipelined over
// segments, so NVLink and NICs work together. Cost about max of 2(g-1)/g·Sβ_nv and
// 2(N-1)/N·(S/q)β_nic, + 2(g-1)α_nv + A·α_net; q NICs a node, A the inner steps. Wins on nodes with
// several rails: the NIC's bytes of a ring with 2(N-1) instead of 2(Ng-1) steps. The default to
// beat. Reduce-scatter and all-gather are one half each: inside the node every worker exchanges
// with its peers the blocks of all nodes that go its way, and workers of equal local number
// exchange theirs over their own rail. Source: Jia et al., arXiv 1807.11205; Cho et al.,
// BlueConnect, MLSys 2019; all-gather: AWS on SMDDP 2.0's AllGather, 2023-12.
#include "algorithms/core/inner.hpp"
#include "algorithms/core/block_phases.hpp"
#include "algorithms/core/node_phases.hpp"

namespace foreduce {
namespace {

const Algorithm& inner_of(const Plan& plan, Collective collective = Collective::all_reduce) {
  return *find_algorithm(plan.inner, collective);
}

MultiRail over_rails(const Plan& plan) {
  return {inner_of(plan), NodeExchange::between_gpus, plan.cut()};
}

Event hierarchical(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  return over_rails(plan).run(t, data, op, after);
}

std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  return over_rails(plan).sends(layout, rank, count);
}

std::optional<std::string> unsupported_reason(const Layout& layout, const Plan& plan) {
  if (layout.per_node() == 0) return "every node must have the same number of GPUs";
  if (!layout.uniform_nodes) return "the nodes differ inside (NVLink or rails)";
  const Algorithm* inner = find_algorithm(plan.inner);
  if (!inner)
    return "there is no inner algorithm called '" + plan.inner + "'" +
           accepted_inner(Collective::all_reduce);
  if (inner->takes_inner || inner->uses_servers ||
      (inner->unsupported_reason && inner->unsupported_reason(Layout::uniform(layout.nodes), plan)))
    return "'" + plan.inner + "' cannot be the inner algorithm" +
           accepted_inner(Collective::all_reduce);
  return std::nullopt;
}

const Registered entry{
    {.name = "hierarchical",
     .idea = "reduce-scatter in the node, all-reduce per rail across nodes, all-gather in the node",
     .cost = "about max(2(g-1)/g·Sβ_nv, 2(N-1)/N·(S/q)β_nic) + 2(g-1)α_nv + A·α_net",
     .wins = "nodes with several rails and fast links inside",
     .source = "Jia et al., arXiv 1807.11205; Cho et al., BlueConnect, MLSys 2019",
     .takes_inner = true,
     .symmetry =
         [](const Plan& plan) {  // inside a node nothing depends on which node it is
           const Algorithm* inner = find_algorithm(plan.inner);
           const Symmetry claimed =
               inner && inner->symmetry ? inner->symmetry(plan) : Symmetry::none;
           // A mirrored inner algorithm swaps halves of a chunk, which are not halves of the whole.
           return claimed == Symmetry::mirror ? Symmetry::none : claimed;
         },
     .run = hierarchical,
     .sends = sends,
     .steps = [](int n) { return find_algorithm(kUsualInner)->steps(n); },
     .unsupported_reason = unsupported_reason,
     .segments_for = NodePhases::segments_for}};

// ------------------------------------------------------------------ reduce-scatter, all-gather

/// Segment k of the block of every worker on every node.
struct BlockSegments {
  Buffer data;
  int workers, per_node;
  Segments cut;
  int k;

  Buffer at(int node, int local) const {
    return data.chunk(workers, node * per_node + local).segment(cut, k);
  }
  /// Those of one node, and those of one local number.
  Blocks of_node(int node) const {
    return [this, node](int local) { return at(node, local); };
  }
  Blocks of_rail(int local) const {
    return [this, local](int node) { return at(node, local); };
  }
};

/// The transfers inside a node: the blocks of all nodes at once, the own node's last, as if packed.
Tag inside(int k, int which) {
  return {.segment = k, .packed = which > 0 ? Packed::yes : Packed::no};
}

template <class Each>
Event by_segments(Transport& t, Buffer data, const Plan& plan, Each each) {
  const Layout& layout = t.layout();
  if (layout.at(t.rank()).server) return {};
  const Transport rails = t.subset(rail_ranks(layout, t.rank()), 1);
  std::vector<Event> done;
  for (int k = 0; k < plan.segments; ++k)
    done.push_back(each(BlockSegments{data, layout.workers, layout.per_node(), plan.cut(), k},
                        rails.in_group(k)));
  return t.join(done);
}

Event reduce_scatter(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  const NodePhases node(t.layout(), t.rank());
  const int nodes = t.layout().nodes, here = t.layout().at(t.rank()).node,
            local = t.layout().at(t.rank()).local;
  const Algorithm& inner = inner_of(plan, Collective::reduce_scatter);
  return by_segments(t, data, plan, [&](const BlockSegments& blocks, Transport rail) {
    std::vector<Event> ready{after};
    for (int i = 0; i < nodes; ++i) {  // a ring first sends what goes to the node before
      const int other = (here - 1 - i + nodes) % nodes;
      Tag tag = inside(blocks.k, i);
      tag.step = i * node.size();
      ready.push_back(node.reduce_scatter(t, blocks.of_node(other), op, tag, after));
    }
    const Event summed = t.join(ready);
    if (nodes == 1) return summed;
    return inner.run_blocks(rail, blocks.of_rail(local), op, {}, summed);
  });
}

Event all_gather(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  const NodePhases node(t.layout(), t.rank());
  const int nodes = t.layout().nodes, here = t.layout().at(t.rank()).node,
            local = t.layout().at(t.rank()).local;
  const Algorithm& inner = inner_of(plan, Collective::all_gather);
  return by_segments(t, data, plan, [&](const BlockSegments& blocks, Transport rail) {
    const Event gathered =
        nodes == 1 ? after : inner.run_blocks(rail, blocks.of_rail(local), op, {}, after);
    std::vector<Event> all;
    for (int i = 0; i < nodes; ++i) {
      Tag tag = inside(blocks.k, i);
      tag.step = i * node.size();
      all.push_back(node.all_gather(t, blocks.of_node((here + i) % nodes), tag, gathered));
    }
    return t.join(all);
  });
}

enum class Phase : std::uint8_t { scatter, gather };

template <Phase phase>
std::size_t sends_blocks(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  if (layout.at(rank).server) return 0;
  const NodePhases node(layout, rank);
  const Algorithm& inner =
      inner_of(plan, phase == Phase::scatter ? Collective::reduce_scatter : Collective::all_gather);
  std::size_t total = 0;
  for (int k = 0; k < plan.segments; ++k) {
    const BlockSegments blocks{
        {nullptr, 0, count}, layout.workers, layout.per_node(), plan.cut(), k};
    for (int n = 0; n < layout.nodes; ++n)
      total += phase == Phase::scatter ? node.sends_scattering(blocks.of_node(n))
                                       : node.sends_gathering(blocks.of_node(n));
    if (layout.nodes > 1)
      total += inner.sends_blocks(layout.nodes, layout.at(rank).node,
                                  blocks.of_rail(layout.at(rank).local));
  }
  return total;
}

template <Collective collective>
std::optional<std::string> cannot_run_blocks(const Layout& layout, const Plan& plan) {
  if (layout.per_node() == 0) return "every node must have the same number of GPUs";
  if (!layout.uniform_nodes) return "the nodes differ inside (NVLink or rails)";
  const Algorithm* inner = find_algorithm(plan.inner, collective);
  if (!inner)
    return "there is no inner " + std::string(title_of(collective)) + " called '" + plan.inner +
           "'" + accepted_inner(collective);
  if (!inner->run_blocks ||
      (inner->unsupported_reason && inner->unsupported_reason(Layout::uniform(layout.nodes), plan)))
    return "'" + plan.inner + "' cannot be the inner algorithm" + accepted_inner(collective);
  return std::nullopt;
}

/// Inside a node nothing depends on which node it is.
template <Collective collective>
Symmetry symmetry(const Plan& plan) {
  const Algorithm* inner = find_algorithm(plan.inner, collective);
  return inner && inner->symmetry ? inner->symmetry(plan) : Symmetry::none;
}

template <Collective collective>
int steps(int n) {
  return find_algorithm(kUsualInner, collective)->steps(n);
}

const Registered of_reduce_scatter{
    {.name = "hierarchical",
     .collective = Collective::reduce_scatter,
     .idea = "reduce-scatter in the node, then one per rail across nodes",
     .cost = "about max((g-1)/g·Sβ_nv, (N-1)/N·(S/q)β_nic) + (g-1)α_nv + A·α_net",
     .wins = "nodes with several rails and fast links inside",
     .source = "Jia et al., arXiv 1807.11205",
     .takes_inner = true,
     .symmetry = symmetry<Collective::reduce_scatter>,
     .run = reduce_scatter,
     .sends = sends_blocks<Phase::scatter>,
     .steps = steps<Collective::reduce_scatter>,
     .unsupported_reason = cannot_run_blocks<Collective::reduce_scatter>,
     .segments_for = NodePhases::segments_for}};

const Registered of_all_gather{
    {.name = "hierarchical",
     .collective = Collective::all_gather,
     .idea = "all-gather per rail across nodes, then in the node",
     .cost = "about max((g-1)/g·Sβ_nv, (N-1)/N·(S/q)β_nic) + (g-1)α_nv + A·α_net",
     .wins = "nodes with several rails and fast links inside",
     .source = "Jia et al., arXiv 1807.11205; AWS on SMDDP 2.0's AllGather, 2023-12",
     .takes_inner = true,
     .symmetry = symmetry<Collective::all_gather>,
     .run = all_gather,
     .sends = sends_blocks<Phase::gather>,
     .steps = steps<Collective::all_gather>,
     .unsupported_reason = cannot_run_blocks<Collective::all_gather>,
     .segments_for = NodePhases::segments_for}};

}  // namespace
}  // namespace foreduce
