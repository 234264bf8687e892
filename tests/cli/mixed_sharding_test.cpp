// What nodes that are not alike cost a sharded step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// GPT-2 355M on such nodes.
std::string on_nodes(const std::string& keys, const std::string& cluster) {
  return "name: x\nworkload: { model: gpt2-355m, precision: bf16, batch_per_gpu: 2, " + keys +
         " }\ncluster: { " + cluster + " }\nallreduce: { algorithm: nccl }\n";
}
/// So many nodes of which one is as `what` says.
std::string one_of(int nodes, const std::string& what) {
  return fmt::format(
      "mixed: [{{ instance: p4d.24xlarge, nodes: {} }}, {{ instance: p4d.24xlarge, nodes: 1, {} "
      "}}]",
      nodes - 1, what);
}
nlohmann::json point_on(const std::string& keys, const std::string& cluster) {
  const TemporaryFolder folder;
  return json_of("predict " + folder.write("s.yaml", on_nodes(keys, cluster)).string())
      .at("points")
      .at(0);
}
double seconds_on(const std::string& keys, const std::string& cluster) {
  return point_on(keys, cluster).at("step_time_s");
}

// A slow node costs something, and no more than if all were as slow.
TEST(MixedSharding, CostsNoMoreThanIfAllNodesWereAsSlow) {
  for (const std::string keys :
       {"sharding: fsdp", "sharding: fsdp, hybrid: node", "sharding: zero1",
        "sharding: fsdp, tensor_parallel: 4", "context_parallel: 2", "pipeline: 2"})
    for (const std::string what :
         {"nic_share: 25 %", "slow_links: [{ device: gpu3, share: 25 % }]"}) {
      const std::string slow = "{ instance: p4d.24xlarge, nodes: 2, " + what + " }";
      const double all_well = seconds_on(keys, "instance: p4d.24xlarge, nodes: 2"),
                   one_slow = seconds_on(keys, one_of(2, what)),
                   all_slow = seconds_on(keys, "mixed: [" + slow + "]");
      // A collective that is late may meet less of the others: parts of a per cent.
      EXPECT_GE(one_slow, 0.995 * all_well) << keys << ", " << what;
      if (keys.starts_with("sharding: fsdp") && what.starts_with("nic")) {
        EXPECT_GT(one_slow, 1.05 * all_well) << keys << ", " << what;
      }
      EXPECT_LE(one_slow, all_slow * 1.01) << keys << ", " << what;
    }
}

// Nodes that are alike are one cluster, however a scenario lists them.
TEST(MixedSharding, IsThatOfOneKindWhereNodesAreEqual) {
  EXPECT_EQ(seconds_on("sharding: fsdp", "mixed: [{ instance: p4d.24xlarge, nodes: 2 }]"),
            seconds_on("sharding: fsdp", "instance: p4d.24xlarge, nodes: 2"));
}

// Beyond 64 nodes no node would stand for another one: all are taken for the slowest, which is
// said.
TEST(MixedSharding, TakesManyNodesForTheSlowest) {
  const nlohmann::json many = point_on("sharding: fsdp", one_of(66, "nic_share: 50 %"));
  EXPECT_EQ(many.at("all_nodes_simulated_as"), "p4d.24xlarge (NICs at 50 %)");
  EXPECT_EQ(many.at("step_time_s"),
            seconds_on("sharding: fsdp",
                       "mixed: [{ instance: p4d.24xlarge, nodes: 66, nic_share: 50 % }]"));
  EXPECT_FALSE(point_on("sharding: fsdp", one_of(4, "nic_share: 50 %"))
                   .at("all_nodes_simulated_as")
                   .is_string());
  const TemporaryFolder folder;
  const auto file =
      folder.write("s.yaml", on_nodes("sharding: fsdp", one_of(66, "nic_share: 50 %")));
  EXPECT_SAYS(foreduce_says("predict " + file.string()).out, "simulated as if all nodes were");
}

// A node with fewer GPUs has its place in one group of all, and in no smaller one.
TEST(MixedSharding, PutsDifferentNumbersOfGpusIntoOneGroup) {
  const nlohmann::json all = point_on("sharding: fsdp", one_of(2, "gpus: 4"));
  EXPECT_EQ(all.at("gpus"), 12);
  EXPECT_GT(all.at("step_time_s").get<double>(), 0);
  const TemporaryFolder folder;
  const auto file = folder.write("s.yaml", on_nodes("tensor_parallel: 2", one_of(2, "gpus: 4")));
  const Result r = foreduce_says("predict " + file.string());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "groups of GPUs among nodes with different numbers of them (cluster.mixed)");
  // The mean of their GPUs is no node's number of them.
  const Result by_node = foreduce_says(
      "predict " +
      folder.write("n.yaml", on_nodes("sharding: fsdp, hybrid: node", one_of(8, "gpus: 4")))
          .string());
  EXPECT_SAYS(by_node.out, "groups of GPUs among nodes with different numbers of them");
  EXPECT_SAYS_NOT(by_node.out, "of 7");
}

// Which of two nodes is slower nobody can say: one lacks GPUs, and the other's link is slow.
TEST(MixedSharding, SimulatesFewNodesAsTheyAreWhateverIsSlow) {
  EXPECT_GT(seconds_on("sharding: fsdp",
                       "mixed: [{ instance: p5.48xlarge, nodes: 1, gpus: 4 }, { instance: "
                       "p5.48xlarge, nodes: 1, slow_links: [{ device: gpu7, share: 50 % }] }]"),
            0);
}

}  // namespace
}  // namespace foreduce
