// Models that are divided among GPUs, from outside: efficiency, one node, and what fits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/files.hpp"
#include "tests/support/predicted.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
using nlohmann::json;

json points_of_model(const std::string& workload, const std::string& cluster) {
  const TemporaryFolder folder;
  return json_of("predict " +
                 folder
                     .write("s.yaml", fmt::format("workload: {{ {} }}\ncluster: {{ {} }}\n",
                                                  workload, cluster))
                     .string())
      .at("points");
}

const char* const kBert = "model: bert-large, precision: fp16, batch_per_gpu: 32";

// Stages of one and two blocks, and what tensor parallelism does not divide, are no efficiency.
TEST(ModelParallel, EfficiencyIsBesideOneGpuAlone) {
  const double alone = points_of_model(std::string(kBert) + ", accumulation: 64",
                                       "instance: p4d.24xlarge, nodes: 1, gpus_per_node: 1")[0]
                           .at("throughput_samples_per_s");
  for (const char* divided : {"sharding: zero3", "pipeline: 16", "tensor_parallel: 8"}) {
    const json p = points_of_model(fmt::format("{}, accumulation: 64, {}", kBert, divided),
                                   "instance: p4d.24xlarge, nodes: 2")[0];
    EXPECT_NEAR(p.at("scaling_efficiency").get<double>(),
                p.at("throughput_samples_per_s").get<double>() / (16 * alone), 0.01)
        << divided;
  }
}

// The experts' groups of one node were those of several, which read beyond its GPUs.
TEST(ModelParallel, ExpertsOnOneNodeHaveGroupsOfThatNode) {
  const json p = points_of_model(
      "model: mixtral-8x7b, precision: bf16, batch_per_gpu: 1, sharding: zero1, tensor_parallel: "
      "4, expert_parallel: 4, sequence_parallel: yes, state: 4 B, recompute: full",
      "instance: p5.48xlarge, nodes: 2")[0];
  EXPECT_FALSE(p.contains("error")) << p;
  EXPECT_TRUE(p.at("scaling_efficiency_vs_one_node").is_number() ||
              p.at("scaling_efficiency_vs_one_node_unknown_because").is_string())
      << p;
}

TEST(ModelParallel, OddNumbersOfStagesAreAnsweredOnAnyCluster) {
  const char* const model = "model: llama2-7b, precision: bf16, batch_per_gpu: 1, accumulation: 8";
  for (const auto& [keys, cluster] :
       {std::pair("pipeline: 3, tensor_parallel: 8",
                  "instance: p5.48xlarge, nodes: 3, fabric: { nodes_per_leaf: 2 }"),
        {"pipeline: 3, tensor_parallel: 2", "instance: p5.48xlarge, nodes: 1, gpus_per_node: 6"}}) {
    const json p = points_of_model(fmt::format("{}, {}", model, keys), cluster)[0];
    EXPECT_FALSE(p.contains("error")) << p;
  }
}

// It is its own default of zero3, and what falls back to DDP on one GPU was refused for it.
TEST(ModelParallel, NoSyncIsOfTheStrategyThatWasAskedFor) {
  const json points = points_of_model(
      std::string(kBert) + ", sharding: zero3, no_sync: no, accumulation: 2, tensor_parallel: 8",
      "instance: p4d.24xlarge, nodes: [1, 2]");
  for (const json& p : points) EXPECT_FALSE(p.contains("error")) << p;
}

TEST(ModelParallel, OneNodeHasAsManyChannelsAsItCan) {
  const TemporaryFolder folder;
  for (const char* sharding : {"none", "zero3"}) {
    const auto scenario =
        folder.write("s.yaml", fmt::format("workload: {{ {}, sharding: {} }}\ncluster: {{ "
                                           "instance: p4d.24xlarge, nodes: 2 }}\nallreduce: {{ "
                                           "algorithm: ring, channels: 2 }}\n",
                                           kBert, sharding));
    const json p = json_of("predict " + scenario.string()).at("points")[0];
    EXPECT_TRUE(p.at("scaling_efficiency_vs_one_node").is_number()) << p;
  }
}

// Every micro-batch of a sharded step is played.
TEST(ModelParallel, FarTooManyMicroBatchesAreAnErrorOfThatPointAlone) {
  const json points =
      points_of_model(std::string(kBert) + ", sharding: zero3, accumulation: [1, 1000000]",
                      "instance: p4d.24xlarge, nodes: 1");
  EXPECT_FALSE(points[0].contains("error"));
  EXPECT_SAYS(points[1].value("error", ""), "1000000 micro-batches are more than the 20000");
}

}  // namespace
}  // namespace foreduce
