// Hierarchical (multi-rail): reduce-scatter inside the node over NVLink, one all-reduce per rail
// across the nodes with a chosen inner algorithm, all-gather inside the node; pipelined over
// segments, so NVLink and NICs work together. Cost about max of 2(g-1)/g·Sβ_nv and
// 2(N-1)/N·(S/q)β_nic, + 2(g-1)α_nv + A·α_net; q NICs a node, A the inner steps. Wins on nodes with
// several rails: the NIC's bytes of a ring with 2(N-1) instead of 2(Ng-1) steps. The default to
// beat. Source: Jia et al., arXiv 1807.11205; Cho et al., BlueConnect, MLSys 2019.
#include "algorithms/core/node_phases.hpp"
#include "algorithms/core/registry.hpp"

namespace foreduce {
namespace {

const Algorithm& inner_of(const Plan& plan) { return *find_algorithm(plan.inner); }

Event hierarchical(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  return multi_rail(t, data, op, inner_of(plan), plan, NodeExchange::between_gpus, after);
}

std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  return multi_rail_sends(layout, rank, count, inner_of(plan), plan);
}

std::optional<std::string> unsupported_reason(const Layout& layout, const Plan& plan) {
  if (layout.per_node() == 0) return "every node must have the same number of GPUs";
  if (!layout.uniform_nodes) return "the nodes differ inside (NVLink or rails)";
  const Algorithm* inner = find_algorithm(plan.inner);
  if (!inner) return "there is no inner algorithm called '" + plan.inner + "'";
  if (inner->takes_inner || inner->uses_servers ||
      (inner->unsupported_reason && inner->unsupported_reason(Layout::uniform(layout.nodes), plan)))
    return "'" + plan.inner + "' cannot be the inner algorithm";
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
     .steps = [](int n) { return find_algorithm("ring")->steps(n); },
     .unsupported_reason = unsupported_reason,
     .segments_for = NodePhases::segments_for}};

}  // namespace
}  // namespace foreduce
