// What `predict` answers, seen from outside.
#include <gtest/gtest.h>

#include <map>

#include "tests/support/files.hpp"
#include "tests/support/predicted.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

TEST(Predict, StepLiesWithinItsInterval) {
  const nlohmann::json points = points_of(R"(
name: x
workload: { model: resnet50, batch_per_gpu: 64 }
cluster: { instance: p4d.24xlarge, nodes: 2 }
allreduce: { algorithm: [nccl, best] }
)");
  ASSERT_EQ(points.size(), 2u);
  for (const nlohmann::json& p : points) {
    EXPECT_LT(p["step_time_low_s"].get<double>(), p["step_time_s"].get<double>());
    EXPECT_GT(p["step_time_high_s"].get<double>(), p["step_time_s"].get<double>());
    EXPECT_FALSE(p["chosen"].get<std::string>().empty());
  }
  EXPECT_LE(points[1]["step_time_s"].get<double>(),
            points[0]["step_time_s"].get<double>() * (1 + 1e-12));
}

// Servers leave the GPU to compute: the fastest step need not have the fastest all-reduces.
TEST(Predict, BestIsTheFastestStep) {
  const nlohmann::json points = points_of(R"(
name: x
workload: { model: resnet50, batch_per_gpu: 64 }
cluster: { instance: g4dn.12xlarge, nodes: 4 }
allreduce: { algorithm: [reduction-server, best] }
)");
  ASSERT_EQ(points.size(), 2u);
  EXPECT_LE(points[1]["step_time_s"].get<double>(),
            points[0]["step_time_s"].get<double>() * (1 + 1e-12));
}

// 20,000 equal values were as many points.
TEST(Predict, CountsAValueOfAnAxisOnce) {
  const nlohmann::json points = points_of(R"(
name: x
workload: { model: resnet50, batch_per_gpu: [64, 32, 64] }
cluster: { instance: p3dn.24xlarge, nodes: ["2..4:x2", 2] }
allreduce: { algorithm: [ring, ring] }
)");
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[0]["batch_per_gpu"], 64);  // in the order in which they were named
  EXPECT_EQ(points[3]["batch_per_gpu"], 32);
}

TEST(Predict, SaysNothingOfComputeWhereNoPointHasAnAnswer) {
  const TemporaryFolder folder;
  const auto file = folder.write("none.yaml", R"(
name: x
workload: { model: resnet50, batch_per_gpu: 64 }
cluster: { instance: p3dn.24xlarge, nodes: 64 }
allreduce: { algorithm: recursive-doubling }
)");
  const Result r = foreduce_says("predict " + file.string() + " --max-memory 1MiB");
  EXPECT_EQ(r.status, 1) << r.out;
  EXPECT_SAYS(r.out, "--max-memory");
  EXPECT_SAYS_NOT(r.out, "Compute:");
}

TEST(Predict, SaysWhichKeysHaveNoEffect) {
  const TemporaryFolder folder;
  const auto file = folder.write("unused.yaml", R"(
name: x
workload: { model: resnet50, batch_per_gpu: 64 }
cluster: { instance: p4d.24xlarge, nodes: 2 }
allreduce: { algorithm: ring, inner: direct }
messages: { sizes: 1 MiB }
)");
  const Result r = foreduce_says("predict " + file.string());
  EXPECT_EQ(r.status, 0);
  EXPECT_SAYS(r.out, "Keys without effect here: messages, allreduce.inner.\n");
}

TEST(Predict, AlgorithmThatCannotRunIsOneRow) {
  const TemporaryFolder folder;
  folder.write("one.yaml", R"(
instance: p4de.24xlarge
gpu: { model: A100, count: 1, fp16: 312 TFLOPS, reduce_bandwidth: 500 GB/s }
nic: { count: 1, bandwidth: 100 Gbps, latency: 5 us, efa: 1 }
)");
  const auto file = folder.write("mixed.yaml", R"(
name: x
workload: { model: resnet50, batch_per_gpu: 64 }
cluster:
  mixed:
    - { instance: p4d.24xlarge, nodes: 1 }
    - { instance: ./one.yaml, nodes: 1 }
allreduce: { algorithm: [ring, hierarchical] }
)");
  const Result r = foreduce_says("predict " + file.string() + " --format json 2>/dev/null");
  EXPECT_EQ(r.status, 1) << r.out;
  const nlohmann::json points = nlohmann::json::parse(r.out)["points"];
  EXPECT_TRUE(points[0].contains("step_time_s"));
  EXPECT_SAYS(points[1]["error"].get<std::string>(), "same number of GPUs");
}

/// What one bad node of four costs, without a machine file.
TEST(Predict, AsksWhatADegradedNodeCosts) {
  const TemporaryFolder folder;
  const auto point = [&](const std::string& fault) {
    const auto file = folder.write("fault.yaml", R"(
workload: { model: bert-large, precision: fp16, batch_per_gpu: 32 }
cluster: { mixed: [{ instance: p4d.24xlarge, nodes: 3 }, { instance: p4d.24xlarge, nodes: 1)" +
                                                     fault + R"( }] }
)");
    return json_of("predict " + file.string())["points"][0];
  };
  const auto seconds = [](const nlohmann::json& p, const char* key) {
    return p[key].get<double>();
  };
  const nlohmann::json sound = point(""), nics = point(", nic_share: 25 %"),
                       gpus = point(", gpu_speed: 0.5");
  EXPECT_NEAR(seconds(gpus, "compute_time_s"), 2 * seconds(sound, "compute_time_s"),
              1e-3 * seconds(sound, "compute_time_s"));
  EXPECT_GT(seconds(nics, "exposed_communication_s"),
            1.5 * seconds(sound, "exposed_communication_s"));
  EXPECT_SAYS(nics["instance"].get<std::string>(), "1xp4d.24xlarge (NICs at 25 %)");
}

TEST(Predict, SaysOfAnInstanceTypeThatNothingFits) {
  const TemporaryFolder folder;
  const auto file = folder.write("big.yaml", R"(
workload: { model: gpt2-1.5b, precision: fp16, batch_per_gpu: 1 }
cluster: { instance: [g5.48xlarge, p4d.24xlarge], nodes: 2 }
)");
  const std::string said = foreduce_says("predict " + file.string()).out;
  EXPECT_SAYS(said, "On 2 x g5.48xlarge nccl does not fit into the GPUs' memory:");
  EXPECT_SAYS(said, "On 2 x p4d.24xlarge nccl takes");
}

/// A group of every second GPU still sits beside all NICs of its nodes, of which it used the first.
TEST(Predict, GroupsUseAllNicsOfTheirNodes) {
  const TemporaryFolder folder;
  const auto exposed = [&](const char* strategy) {
    const auto file = folder.write("groups.yaml", std::string(R"(
workload: { model: gpt2-1.5b, precision: fp16, batch_per_gpu: 1, )") +
                                                      strategy + R"( }
cluster: { instance: p4de.24xlarge, nodes: 2 }
)");
    return json_of("predict " + file.string())["points"][0]["exposed_communication_s"]
        .get<double>();
  };
  EXPECT_LT(exposed("tensor_parallel: 2"), 1.5 * exposed("sharding: none"));
}

TEST(Predict, MachineThatDoesNotFitIsOneRow) {
  const nlohmann::json points = points_of(R"(
name: x
workload: { model: resnet50, batch_per_gpu: 64 }
cluster: { instance: [p3dn.24xlarge, p4d.24xlarge], nodes: 2 }
allreduce:
  algorithm: [ring, reduction-server]
  servers: { place: dedicated, instance: c5n.18xlarge, count: 2 }
)");
  ASSERT_EQ(points.size(), 4u);
  for (const std::size_t i : {0u, 1u, 2u})
    EXPECT_TRUE(points[i].contains("step_time_s")) << points[i];
  EXPECT_SAYS(points[3]["error"].get<std::string>(), "cannot talk EFA");
}

TEST(Predict, WarnsWhereTheModelDoesNotFit) {
  const TemporaryFolder folder;
  const auto file = folder.write("tight.yaml", R"(
name: q
workload: { model: gpt2-1.5b, precision: fp16, batch_per_gpu: 1 }
cluster: { instance: p3.16xlarge, nodes: 1 }
allreduce: { algorithm: ring }
)");
  const std::string text = foreduce_says("predict --wide " + file.string()).out;
  EXPECT_SAYS(
      std::regex_replace(text, std::regex("\\s+"), " "),
      "1 x p3.16xlarge: gpt2-1.5b does not fit: weights, gradients and optimizer take 23.21 "
      "GiB, a GPU has 16 GiB");
}

TEST(Predict, SaysOnWhichNodesAModelDoesNotFit) {
  const TemporaryFolder folder;
  const auto file = folder.write("sharded.yaml", R"(
workload: { model: llama3-8b, precision: bf16, batch_per_gpu: 4, sharding: zero3 }
cluster: { instance: g5.48xlarge, nodes: [4, 1, 2] }
)");
  const Result r = foreduce_says("predict " + file.string());
  EXPECT_EQ(r.status, 1) << "nothing fits";
  const std::string said = std::regex_replace(r.out, std::regex("\\s+"), " ");
  EXPECT_SAYS(said, "Nothing here fits into the GPUs' memory. With enough of it: On ");
  EXPECT_SAYS(said, " 1, 2, 4 x g5.48xlarge, zero3: llama3-8b at batch 4 does not fit: ");
  EXPECT_SAYS(said, "(as on 2 nodes)");
  EXPECT_EQ(said.find("does not fit"), said.rfind("does not fit")) << said;
}

// A sweep of 2,688 points had 2,300 lines of them.
TEST(Predict, SaysOneReasonOfManySettingsOnce) {
  const TemporaryFolder folder;
  const auto file = folder.write(
      "sweep.yaml",
      "workload: { model: llama2-7b, precision: bf16, batch_per_gpu: 1..32, sharding: [ddp, zero1],"
      " recompute: [no, full] }\n"
      "cluster: { instance: g6e.48xlarge, nodes: 2 }\n");
  const std::string text = foreduce_says("predict " + file.string()).out,
                    said = std::regex_replace(text, std::regex("\\s+"), " ");
  EXPECT_SAYS(said, "2 x g6e.48xlarge, ddp, batch 1, recompute none and 63 other settings: ");
  EXPECT_SAYS(said, " more lack memory, too: the table says how much, and --explain why.");
  const std::string all = foreduce_says("predict " + file.string() + " --explain").out;
  EXPECT_SAYS(all, "2 x g6e.48xlarge, ddp, batch 32, recompute full: ");
  EXPECT_LT(text.size(), all.size() / 2);
}

TEST(Predict, EndsWithZeroWhereSomethingFits) {
  const TemporaryFolder folder;
  const auto file = folder.write("some.yaml", R"(
workload: { model: gpt2-1.5b, precision: fp16, batch_per_gpu: 1 }
cluster: { instance: [g5.48xlarge, p4d.24xlarge], nodes: 2 }
)");
  EXPECT_EQ(foreduce_says("predict " + file.string()).status, 0);
}

TEST(Predict, PathsAreRelativeToTheFileThatNamesThem) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "machines");
  folder.write("machines/mine.yaml", R"(
instance: mine
gpu: { model: A100, count: 1, fp16: 312 TFLOPS, reduce_bandwidth: 500 GB/s }
nic: { count: 1, bandwidth: 100 Gbps, latency: 5 us }
)");
  const auto file = folder.write("s.yaml", R"(
name: mine
workload: { model: resnet50, batch_per_gpu: 64 }
cluster: { instance: ./machines/mine.yaml, nodes: 4 }
allreduce: { algorithm: ring }
)");
  const Result r = shell("cd / && " FOREDUCE_PROGRAM " predict " + file.string());
  EXPECT_EQ(r.status, 0) << r.out;
}

TEST(Predict, ShortAnswerNamesFastestAndCheapest) {
  const TemporaryFolder folder;
  const auto file = folder.write("s.yaml", R"(
name: two sizes
workload: { model: resnet50, batch_per_gpu: 64 }
cluster: { instance: p4d.24xlarge, nodes: [1, 2] }
allreduce: { algorithm: ring }
)");
  const std::string text = foreduce_says("predict " + file.string()).out;
  EXPECT_TRUE(text.starts_with("two sizes\nresnet50, fp16, 224x224 image a sample, ")) << text;
  EXPECT_SAYS(text, "\n\nOn 2 nodes ring takes ");
  EXPECT_SAYS(text, "Compute takes\n  36.10 ms, the wait for the slowest GPU ");
  EXPECT_SAYS(text, "\nCheapest: 1 node, ring, at $");
}

// Both are the same exchange between two ranks: nobody could measure them apart.
TEST(Predict, NamesNcclWhereNothingIsFasterThanNoise) {
  const TemporaryFolder folder;
  const auto file = folder.write("tie.yaml", R"(
name: tie
workload: { model: resnet50, batch_per_gpu: 256 }
cluster: { instance: p4d.24xlarge, nodes: 1 }
allreduce: { algorithm: [hierarchical, nccl] }
)");
  const auto points = json_of("predict " + file.string())["points"];
  const double ours = points[0]["step_time_s"], nccls = points[1]["step_time_s"];
  ASSERT_LT(ours, nccls);
  ASSERT_GT(ours, 0.99 * nccls);
  EXPECT_SAYS(foreduce_says("predict " + file.string()).out,
              "On 1 node nccl is within 1 % of the fastest: ");
}

TEST(Predict, TellsAWorkloadFileFromAScenario) {
  const TemporaryFolder folder;
  const auto file = folder.write("gpt.yaml", R"(
workload: gpt
transformer: { layers: 2, hidden: 64, vocabulary: 100, sequence: 32 }
)");
  const Result r = foreduce_says("predict " + file.string());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "this is a workload file, not a scenario");
  EXPECT_SAYS(r.out, "workload: { model: ./gpt.yaml");
}

TEST(Predict, SetsValuesOfTheFile) {
  const nlohmann::json points =
      json_of("predict " + scenario_path("bert-large-p3dn") +
              " --set cluster.nodes=1..4:x2 --set allreduce.algorithm=nccl")["points"];
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[2]["nodes"], 4);
  const Result r = foreduce_says("predict " + scenario_path("bert-large-p3dn") + " --set nodes=4");
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "nodes: there is no such key here");
}

TEST(Predict, SweepsGradientSpreadAndPlacement) {
  const TemporaryFolder folder;
  const std::string file = folder
                               .write("s.yaml", R"(
name: x
workload: { model: resnet50, batch_per_gpu: 64, gradient: [fp16, fp32], spread: [0, 0.1] }
cluster:
  choices: [{ instance: p3dn.24xlarge, nodes: 4 }, { instance: p3.16xlarge, nodes: 1..2 }]
  fabric: { nodes_per_leaf: 2, oversubscription: "4:1", placement: [packed, spread] }
allreduce: { algorithm: ring }
)")
                               .string();
  const nlohmann::json points = json_of("predict " + file)["points"];
  ASSERT_EQ(points.size(), 2u * 2 * 3 * 2);
  std::map<std::string, double> times;
  for (const nlohmann::json& p : points)
    times[p["gradient_type"].get<std::string>() + (p["spread"] == 0.1 ? " slow " : " ") +
          p["placement"].get<std::string>() + " " + std::to_string(p["nodes"].get<int>())] =
        p["step_time_s"];
  EXPECT_LT(times["fp16 packed 4"], times["fp32 packed 4"]);
  EXPECT_LT(times["fp16 packed 4"], times["fp16 slow packed 4"]);
  EXPECT_LT(times["fp16 packed 4"], times["fp16 spread 4"]);
  EXPECT_SAYS(foreduce_says("predict " + file).out, "gradient  spread  instance");
}

TEST(Predict, RecomputingCostsATurnOfForward) {
  const auto compute = [](const char* recompute) {
    const nlohmann::json p = points_of(std::string(R"(
name: x
workload: { model: gpt2-355m, precision: bf16, batch_per_gpu: 8, recompute: )") +
                                       recompute + R"( }
cluster: { instance: p4d.24xlarge, nodes: 1 }
allreduce: { algorithm: nccl }
)")[0];
    return std::pair(p["compute_time_s"].get<double>(), p["activation_bytes"].get<double>());
  };
  const auto kept = compute("no"), again = compute("yes");
  EXPECT_NEAR(again.first / kept.first, 4.0 / 3, 0.02);
  // The logits, each block's input, and one block: 24 of 1024 wide, 8 x 1024 tokens.
  EXPECT_DOUBLE_EQ(again.second, 8192 * (4.0 * 50257 + 2.0 * 24 * 1024 + 36.0 * 1024));
}

/// The slower of each part sets the pace, and the peaks of all GPUs are the peak.
TEST(Predict, MixedClustersAreNoFasterThanTheirSlowerHalf) {
  const TemporaryFolder folder;
  const auto point = [&](const std::string& cluster) {
    const auto file = folder.write("mixed.yaml",
                                   "workload: { model: bert-large, precision: fp16, batch_per_gpu: "
                                   "1 }\ncluster: " +
                                       cluster + "\nallreduce: { algorithm: ring }\n");
    return json_of("predict " + file.string())["points"][0];
  };
  const auto compute = [](const nlohmann::json& p) { return p["compute_time_s"].get<double>(); };
  const nlohmann::json p5 = point("{ instance: p5.48xlarge, nodes: 2 }"),
                       mixed = point(
                           "{ mixed: [{ instance: p6-b200.48xlarge, nodes: 1 }, { instance: "
                           "p5.48xlarge, nodes: 1 }] }");
  EXPECT_GE(compute(mixed), compute(p5) * (1 - 1e-9));
  const nlohmann::json sound = point("{ instance: p4d.24xlarge, nodes: 2 }"),
                       slow = point(
                           "{ mixed: [{ instance: p4d.24xlarge, nodes: 1 }, { instance: "
                           "p4d.24xlarge, nodes: 1, gpu_speed: 50 % }] }");
  EXPECT_LT(slow["model_flops_utilisation"], sound["model_flops_utilisation"]);
}

// Half of the GPUs at half their speed: whether state is sharded or not, a step that waits for them
// uses three fifths of what there is.
TEST(Predict, EfficiencyCountsWhatFasterGpusCouldDo) {
  const TemporaryFolder folder;
  const auto of = [&](const std::string& sharding) {
    const auto file = folder.write("m.yaml", R"(
workload: { model: bert-large, precision: fp16, batch_per_gpu: 32, sharding: )" +
                                                 sharding + R"( }
cluster:
  mixed:
    - { instance: p4d.24xlarge, nodes: 2 }
    - { instance: p4d.24xlarge, nodes: 2, gpu_speed: 50 % }
)");
    const auto points = json_of("predict " + file.string());
    return points["points"][0]["scaling_efficiency"].get<double>();
  };
  EXPECT_NEAR(of("zero3"), of("ddp"), 0.05);
  EXPECT_LT(of("zero3"), 0.67) << "2/3: the mean GPU does three quarters, the slow one a half";
}

TEST(Predict, ShowsTheMemoryOfModelsThatAreTooLarge) {
  const TemporaryFolder folder;
  const auto file = folder.write("h.yaml", R"(
workload: { model: llama3-8b, precision: bf16, batch_per_gpu: 1, sharding: [ddp, fsdp] }
cluster: { instance: p5.48xlarge, nodes: [1, 2] }
)");
  EXPECT_SAYS(foreduce_says("predict " + file.string()).out, "> 79.6 GiB");
}

// They were in the order of the alphabet, where notes are in that of the rows.
TEST(Predict, NamesProfilesInTheOrderOfTheRows) {
  EXPECT_SAYS(foreduce_says("predict " + scenario_path("resnet50-p3-to-p5")).out,
              "Profile: nccl-v100+tcp, nccl-v100, nccl-a100, nccl-h100.");
}

}  // namespace
}  // namespace foreduce
