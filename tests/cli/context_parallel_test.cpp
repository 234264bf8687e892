// Context parallelism from outside: points of one model by how many GPUs share its sequences.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// Llama-3 8B on two nodes of p5.
std::string long_scenario(const std::string& keys) {
  return "name: x\nworkload: { model: llama3-8b, precision: bf16, batch_per_gpu: 1, " + keys +
         R"( }
cluster: { instance: p5.48xlarge, nodes: 2 }
allreduce: { algorithm: nccl }
)";
}
nlohmann::json long_points(const std::string& keys) {
  const TemporaryFolder folder;
  return json_of("predict " + folder.write("s.yaml", long_scenario(keys)).string() + " 2>/dev/null")
      .at("points");
}

TEST(ContextParallel, GathersKeysAndValuesOfEachBlock) {
  const nlohmann::json points = long_points("sharding: fsdp, context_parallel: [1, 2, 16]");
  ASSERT_EQ(points.size(), 3u);
  const auto bytes = [](const nlohmann::json& p, const char* kind) {
    for (const nlohmann::json& c : p.at("collectives"))
      if (c.at("kind") == kind) return c.at("bytes").get<double>();
    return 0.0;
  };
  EXPECT_EQ(bytes(points[0], "context_all_gather"), 0);
  // 32 blocks, of 8,192 tokens x 2 x 8 heads x 128 elements of 2 bytes: twice gathered, their
  // gradients scattered once.
  const double once = 32.0 * 8192 * 2 * 8 * 128 * 2;
  for (const std::size_t at : {1u, 2u}) {
    EXPECT_EQ(bytes(points[at], "context_all_gather"), 2 * once);
    EXPECT_EQ(bytes(points[at], "context_reduce_scatter"), once);
    // Parameters are gathered among all, whoever shares sequences.
    EXPECT_EQ(bytes(points[at], "all_gather"), bytes(points[0], "all_gather"));
  }
  EXPECT_EQ(points[1]["context_parallel"], 2);
  EXPECT_NEAR(points[1]["compute_time_s"].get<double>() / points[0]["compute_time_s"].get<double>(),
              0.5, 0.01);
  const auto samples = [](const nlohmann::json& p) {
    return p["throughput_samples_per_s"].get<double>() * p["step_time_s"].get<double>();
  };
  EXPECT_DOUBLE_EQ(samples(points[1]), samples(points[0]) / 2);
  EXPECT_LT(points[1]["peak_memory_bytes"], points[0]["peak_memory_bytes"]);
  // The arithmetic of a step is divided, so MFU falls by nothing but what is exposed.
  EXPECT_NEAR(points[1]["model_flops_utilisation"].get<double>() /
                  points[0]["model_flops_utilisation"].get<double>(),
              points[0]["step_time_s"].get<double>() / points[1]["step_time_s"].get<double>() / 2,
              1e-9);
}

TEST(ContextParallel, ChangesNothingWhereItIsOne) {
  const auto answer = [](const std::string& keys) {
    nlohmann::json point = long_points(keys).at(0);
    for (const char* cost : {"mode", "wall_seconds", "peak_rss_bytes"}) point.erase(cost);
    return point;
  };
  for (const std::string keys : {"sharding: fsdp, tensor_parallel: 2", "accumulation: 2"})
    EXPECT_EQ(answer(keys + ", context_parallel: 1"), answer(keys));
}

// Llama-3 8B's attention hides its keys and values inside a node.
TEST(ContextParallel, TakesLessTimeAroundARing) {
  const auto point = [](const std::string& how) {
    return long_points("context_parallel: 8, recompute: full, context_communication: " + how).at(0);
  };
  const nlohmann::json ring = point("ring"), gathered = point("all_gather");
  EXPECT_LT(ring["step_time_s"], gathered["step_time_s"]);
  EXPECT_EQ(ring["compute_time_s"], gathered["compute_time_s"]);
  EXPECT_EQ(gathered["step_time_s"],
            long_points("context_parallel: 8, recompute: full").at(0)["step_time_s"]);
}

TEST(ContextParallel, IsAStrategyOfATable) {
  const TemporaryFolder folder;
  const Result r = foreduce_says(
      "predict " +
      folder.write("s.yaml", long_scenario("sharding: fsdp, context_parallel: [2, 4]")).string());
  EXPECT_SAYS(r.out, "zero3 cp2");
  EXPECT_SAYS(r.out, "zero3 cp4");
  EXPECT_SAYS(r.out, "has the highest throughput");
}

// A step of 32 samples is eight micro-batches where pairs of 16 GPUs share each.
TEST(ContextParallel, LeavesFewerCopiesForTheGlobalBatch) {
  const nlohmann::json p = long_points("context_parallel: 4, global_batch: 32").at(0);
  EXPECT_EQ(p["accumulation"], 8);
  EXPECT_NEAR(p["throughput_samples_per_s"].get<double>() * p["step_time_s"].get<double>(), 32,
              1e-9);
}

TEST(ContextParallel, IsRefusedWhereASequenceCannotBeShared) {
  const auto error = [](const std::string& text) {
    const TemporaryFolder folder;
    const Result r = foreduce_says("predict " + folder.write("s.yaml", text).string());
    EXPECT_EQ(r.status, 2) << r.out;
    return r.out;
  };
  std::string text = long_scenario("context_parallel: 3");
  text.replace(text.find("nodes: 2"), 8, "nodes: 3");
  EXPECT_SAYS(error(text), "8192 tokens cannot be cut into 6 equal parts, two for each of 3 GPUs");
  EXPECT_SAYS(error(text), "context_parallel: 2");
  EXPECT_SAYS(error(text), "s.yaml:2:");
  EXPECT_SAYS(error(long_scenario("context_parallel: 5")),
              "16 GPUs that have the same parameters cannot be divided into groups of 5");
  for (const auto& [model, why] :
       {std::pair("vit-b16",
                  "a sample of vit-b16 is no single sequence of tokens that GPUs could share"),
        {"./equal.yaml",
         "its tensors name no blocks that tensor_parallel, context_parallel or pipeline"}}) {
    const TemporaryFolder folder;
    folder.write("equal.yaml",
                 R"(workload: equal
parameters: 1 B
blocks: 10
variants: [{ sample: 1024 tokens, flops: 7 TFLOP }]
)");
    text = long_scenario("context_parallel: 2");
    text.replace(text.find("llama3-8b"), 9, model);
    const Result r = foreduce_says("predict " + folder.write("s.yaml", text).string());
    EXPECT_EQ(r.status, 2);
    EXPECT_SAYS(r.out, why);
  }
}

}  // namespace
}  // namespace foreduce
