// NVLS: the NVSwitch itself sums what the GPUs of a node send and multicasts the result; across
// nodes a double tree per rail joins the nodes' sums. Each GPU's link carries the data about once
// instead of 2(g-1)/g times. Cost about 2α + Sβ_nv in a node; across nodes max of Sβ_nv and
// 2(S/q)β_nic, + 2Dα_net, D the depth of the tree. Wins for medium and large S where the switch can
// do it (H100 and later). Source: NVIDIA/nccl src/graph/tuning.cc and src/transport/nvls.cc; facts
// restated in NCCL's documentation of NCCL_NVLS_ENABLE.
#include "algorithms/core/node_phases.hpp"
#include "algorithms/core/registry.hpp"

namespace foreduce {
namespace {

const Algorithm& between_nodes() { return *find_algorithm("double-tree"); }

Event nvls(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  return multi_rail(t, data, op, between_nodes(), plan, NodeExchange::in_switch, after);
}

std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  return multi_rail_sends(layout, rank, count, between_nodes(), plan);
}

std::optional<std::string> cannot(const Layout& layout) {
  if (!layout.switch_reduces)
    return "the switch between the GPUs cannot reduce (NVLS needs H100 or later)";
  if (layout.per_node() < 2) return "every node must have the same number of GPUs, two or more";
  return std::nullopt;
}

const Registered in_node{{.name = "nvls",
                          .idea = "the NVSwitch sums and multicasts, inside one node",
                          .cost = "about 2α + Sβ_nv",
                          .wins = "one node with a switch that reduces",
                          .source = "NCCL 2.17, NVLS; NVIDIA/nccl src/transport/nvls.cc",
                          .gpus_alike = true,
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
     .gpus_alike = true,
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
