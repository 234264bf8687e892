// NVLS: the NVSwitch itself sums what the GPUs of a node send and multicasts the result; across
// nodes a double tree per rail joins the nodes' sums. Each GPU's link carries the data about once
// instead of 2(g-1)/g times. Cost about 2α + Sβ_nv in a node; across nodes max of Sβ_nv and
// 2(S/q)β_nic, + 2Dα_net, D the depth of the tree. Wins for medium and large S where the switch can
// do it (H100 and later). Source: NVIDIA/nccl src/graph/tuning.cc and src/transport/nvls.cc; facts
// restated in NCCL's documentation of NCCL_NVLS_ENABLE.
#include "algorithms/core/block_phases.hpp"
#include "algorithms/core/node_phases.hpp"

namespace foreduce {
namespace {

const Algorithm& between_nodes() { return *find_algorithm("double-tree"); }

MultiRail over_rails(const Plan& plan) {
  return {between_nodes(), NodeExchange::in_switch, plan.cut()};
}

Event nvls(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  return over_rails(plan).run(t, data, op, after);
}

std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  return over_rails(plan).sends(layout, rank, count);
}

/// Reduce-scatter and all-gather of the own blocks in the switch of one node.
Event scatter_in_switch(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  const NodePhases node(t.layout(), t.rank(), NodeExchange::in_switch);
  std::vector<Event> done;
  for (int k = 0; k < plan.segments; ++k)
    done.push_back(
        node.reduce_scatter(t, own_blocks(data, node.size(), plan, k), op, {0, k}, after));
  return t.join(done);
}

Event gather_in_switch(Transport& t, Buffer data, Op, const Plan& plan, Event after) {
  const NodePhases node(t.layout(), t.rank(), NodeExchange::in_switch);
  std::vector<Event> done;
  for (int k = 0; k < plan.segments; ++k)
    done.push_back(node.all_gather(t, own_blocks(data, node.size(), plan, k), {0, k}, after));
  return t.join(done);
}

std::size_t sends_gathering(int n, int rank, const Blocks& blocks) {
  return static_cast<std::size_t>(n - 1) * blocks(rank).count;
}

std::optional<std::string> cannot(const Layout& layout) {
  if (!layout.uniform_nodes) return "the nodes differ inside (NVLink or rails)";
  if (!layout.switch_reduces)
    return "the switch between the GPUs cannot reduce (NVLS needs H100 or later)";
  if (layout.per_node() < 2) return "every node must have the same number of GPUs, two or more";
  return std::nullopt;
}

std::optional<std::string> cannot_in_node(const Layout& layout, const Plan&) {
  const auto why = cannot(layout);
  return why || layout.nodes == 1 ? why : "it works inside one node";
}

const Registered reduce_scatter{{.name = "nvls",
                                 .collective = Collective::reduce_scatter,
                                 .idea = "the NVSwitch sums every block on the way to its owner",
                                 .cost = "about α + Sβ_nv",
                                 .wins = "one node with a switch that reduces",
                                 .source = "NCCL 2.18; NVIDIA/nccl src/device/reduce_scatter.h",
                                 .gpus_alike = true,
                                 .summed_by = SummedBy::switches,
                                 .steady_segments = 16,
                                 .run = scatter_in_switch,
                                 .sends = sends_by_blocks<all_but_own>,
                                 .steps = [](int n) { return n > 1 ? 1 : 0; },
                                 .unsupported_reason = cannot_in_node,
                                 .segments_for = NodePhases::segments_for}};

const Registered all_gather{{.name = "nvls",
                             .collective = Collective::all_gather,
                             .idea = "the NVSwitch copies every block to all GPUs",
                             .cost = "about α + Sβ_nv",
                             .wins = "one node with a switch that multicasts",
                             .source = "NCCL 2.18; NVIDIA/nccl src/device/all_gather.h",
                             .gpus_alike = true,
                             .summed_by = SummedBy::switches,
                             .steady_segments = 16,
                             .run = gather_in_switch,
                             .sends = sends_by_blocks<sends_gathering>,
                             .steps = [](int n) { return n > 1 ? 1 : 0; },
                             .unsupported_reason = cannot_in_node,
                             .segments_for = NodePhases::segments_for}};

const Registered in_node{{.name = "nvls",
                          .idea = "the NVSwitch sums and multicasts, inside one node",
                          .cost = "about 2α + Sβ_nv",
                          .wins = "one node with a switch that reduces",
                          .source = "NCCL 2.17, NVLS; NVIDIA/nccl src/transport/nvls.cc",
                          .gpus_alike = true,
                          .summed_by = SummedBy::switches,
                          .steady_segments = 16,
                          .run = nvls,
                          .sends = sends,
                          .steps = [](int n) { return n > 1 ? 2 : 0; },
                          .unsupported_reason =
                              [](const Layout& layout, const Plan&) {
                                const auto why = cannot(layout);
                                return why || layout.nodes == 1
                                           ? why
                                           : "it works inside one node; nvls-tree joins several";
                              },
                          .segments_for = NodePhases::segments_for}};

const Registered across{
    {.name = "nvls-tree",
     .idea =
         "the NVSwitch sums and multicasts in each node, a double tree per rail joins the nodes",
     .cost = "about max(Sβ_nv, 2(S/q)β_nic) + 2Dα_net, D = depth",
     .wins = "large messages on nodes with a switch that reduces",
     .source = "NCCL 2.18, NVLSTree; NVIDIA/nccl src/graph/tuning.cc",
     .symmetry = [](const Plan&) { return between_nodes().symmetry({}); },
     .gpus_alike = true,
     .summed_by = SummedBy::switches,
     .steady_segments = 32,
     .steady_nodes = 512,
     .run = nvls,
     .sends = sends,
     .steps = [](int n) { return find_algorithm("tree")->steps(n) + 2; },
     .unsupported_reason =
         [](const Layout& layout, const Plan&) {
           const auto why = cannot(layout);
           return why || layout.nodes > 1 ? why : "it joins several nodes; in one there is nvls";
         },
     .segments_for = NodePhases::segments_for}};

}  // namespace
}  // namespace foreduce
