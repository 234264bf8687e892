// Hierarchical (multi-rail): reduce-scatter inside the node over NVLink, one all-reduce per rail across the nodes with
// a chosen inner algorithm, all-gather inside the node; pipelined over segments, so NVLink and NICs work together.
// Cost about max of 2(g-1)/g·Sβ_nv and 2(N-1)/N·(S/q)β_nic, + 2(g-1)α_nv + A·α_net; q NICs a node, A the inner steps.
// Wins on nodes with several rails: the NIC's bytes of a ring with 2(N-1) instead of 2(Ng-1) steps. The default to beat.
// Source: Jia et al., arXiv 1807.11205; Cho et al., BlueConnect, MLSys 2019.
#include "algorithms/core/node_phases.hpp"
#include "algorithms/core/registry.hpp"

namespace foreduce {
namespace {

const Algorithm& inner_of(const Plan& plan) { return *find_algorithm(plan.inner); }

std::vector<int> rail_ranks(const Layout& layout, int rank) {
  std::vector<int> ranks;
  const int each = layout.per_node();
  for (int node = 0; node < layout.nodes; ++node) ranks.push_back(node * each + layout.at(rank).local);
  return ranks;
}

Event hierarchical(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  const Layout& layout = t.layout();
  if (layout.at(t.rank()).server) return {};
  const NodePhases node(layout, t.rank());
  const auto mates = rail_ranks(layout, t.rank());
  const int in_node = node.size() - 1;
  std::vector<Event> done;
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer piece = data.part(plan.segments, k);
    Event ready = node.reduce_scatter(t, piece, op, {0, k}, after);
    if (layout.nodes > 1) {
      Transport rail = t.subset(mates, 1 + k);
      ready = inner_of(plan).run(rail, node.own(piece), op, {.segments = 1, .channels = 1, .inner = {}}, ready);
    }
    done.push_back(node.all_gather(t, piece, {in_node, k}, ready));
  }
  return t.join(done);
}

std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  if (layout.at(rank).server) return 0;
  const NodePhases node(layout, rank);
  const Layout rail = layout.subset(rail_ranks(layout, rank));
  std::size_t total = 0;
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer piece = Buffer{nullptr, 0, count}.part(plan.segments, k);
    total += node.sends(piece);
    total += inner_of(plan).sends(rail, layout.at(rank).node, node.own(piece).count, {});
  }
  return total;
}

std::optional<std::string> refuses(const Layout& layout, const Plan& plan) {
  if (layout.per_node() == 0) return "every node must have the same number of GPUs";
  if (!layout.uniform_nodes) return "the nodes differ inside (NVLink or rails)";
  const Algorithm* inner = find_algorithm(plan.inner);
  if (!inner) return "there is no inner algorithm called '" + plan.inner + "'";
  if (inner->takes_inner || inner->uses_servers) return "'" + plan.inner + "' cannot be the inner algorithm";
  return std::nullopt;
}

const Registered entry{{.name = "hierarchical",
                        .idea = "reduce-scatter in the node, all-reduce per rail across nodes, all-gather in the node",
                        .cost = "about max(2(g-1)/g·Sβ_nv, 2(N-1)/N·(S/q)β_nic) + 2(g-1)α_nv + A·α_net",
                        .wins = "nodes with several rails and fast links inside",
                        .source = "Jia et al., arXiv 1807.11205; Cho et al., BlueConnect, MLSys 2019",
                        .takes_inner = true,
                        .symmetry =
                            [](const Plan& plan) {  // inside a node nothing depends on which node it is
                              const Algorithm* inner = find_algorithm(plan.inner);
                              const Symmetry claimed = inner && inner->symmetry ? inner->symmetry(plan) : Symmetry::none;
                              return claimed == Symmetry::mirror ? Symmetry::none : claimed;  // its halves are not halves of the whole
                            },
                        .run = hierarchical,
                        .sends = sends,
                        .steps = [](int n) { return find_algorithm("ring")->steps(n); },
                        .refuses = refuses,
                        .segments_for = NodePhases::segments_for}};

}  // namespace
}  // namespace foreduce
