// Tables of many axes, and machines that say little: the answer is there all the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/report_checks.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

constexpr const char* kManyAxes = R"(
workload: { model: bert-large, precision: [fp16, bf16], batch_per_gpu: [16, 32], gradient: [fp16, fp32] }
cluster: { instance: [p4d.24xlarge, p5.48xlarge], nodes: [1, 2] }
allreduce: { algorithm: [nccl, ring], bucket: [25 MiB, 100 MiB] }
goal: { samples: 10 million }
)";

// Axes alone filled the eight columns: 64 rows without a time.
TEST(ManyAxes, LeaveRoomForTheAnswer) {
  const TemporaryFolder folder;
  const std::string file = folder.write("many.yaml", kManyAxes).string();
  for (const char* format : {"", " --format markdown"}) {
    EXPECT_SAYS(foreduce_says("predict " + file + format).out, " ms ");
    const std::string plan = foreduce_says("plan " + file + format).out;
    EXPECT_SAYS(plan, "USD");
    EXPECT_SAYS(plan, "time, ");
  }
}

// The memory column went first, and a model of 173 GiB had a step time on a GPU of 40.
TEST(ManyAxes, LeaveRoomForWhatDoesNotFit) {
  const TemporaryFolder folder;
  const Result r = foreduce_says("predict " + folder
                                                  .write("tight.yaml", R"(
workload: { model: llama3-8b, precision: bf16, batch_per_gpu: [1, 2], sharding: [ddp, fsdp], recompute: [none, full] }
cluster: { instance: [p4d.24xlarge, p5.48xlarge], nodes: [1, 2] }
allreduce: { algorithm: [nccl, ring] }
)")
                                                  .string());
  const auto tables = tables_in(r.out);
  ASSERT_FALSE(tables.empty()) << r.out;
  int too_large = 0;
  for (const std::string& row : tables[0].rows)
    too_large += row.find(" > 40 GiB") != std::string::npos;
  EXPECT_EQ(too_large, 28) << r.out;
}

// --point takes numbers that nothing showed.
TEST(ManyAxes, AreNumberedForThePoint) {
  const TemporaryFolder folder;
  const std::string file = folder.write("many.yaml", kManyAxes).string();
  const auto tables = tables_in(foreduce_says("predict " + file + " --wide").out);
  ASSERT_FALSE(tables.empty());
  EXPECT_EQ(tables[0].headings.front(), "point");
  ASSERT_EQ(tables[0].rows.size(), 128u);
  for (const std::size_t i : {0u, 127u})
    EXPECT_EQ(std::stoul(tables[0].rows[i]), i) << tables[0].rows[i];
  EXPECT_SAYS(foreduce_says("explain " + file + " --point 128").out, "they are numbered 0 to 127");
}

// Sharded gradients are of the parameters' type and DDP's are fp32, which nobody chose.
TEST(ManyAxes, AreNotThoseThatTheStrategyImplies) {
  const TemporaryFolder folder;
  const std::string file = folder
                               .write("implied.yaml", R"(
workload: { model: gpt2-1.5b, precision: bf16, batch_per_gpu: 1, sharding: [ddp, fsdp] }
cluster: { instance: p5.48xlarge, nodes: 1 }
)")
                               .string();
  const Result implied = foreduce_says("predict " + file);
  EXPECT_SAYS_NOT(implied.out, "gradients in");
  for (const PrintedTable& table : tables_in(implied.out))
    EXPECT_NE(table.headings.front(), "gradient") << implied.out;
  const Result chosen =
      foreduce_says("predict " + file + " --set workload.gradient='[bf16, fp32]'");
  EXPECT_SAYS(chosen.out, "gradients in");
}

TEST(ManyAxes, TellAlgorithmsOfShardedStepsApart) {
  const TemporaryFolder folder;
  const Result r = foreduce_says("predict " + folder
                                                  .write("sharded.yaml", R"(
workload: { model: llama2-7b, precision: bf16, batch_per_gpu: 1, recompute: full, sharding: [zero3, zero1], hybrid: node }
cluster: { instance: p4d.24xlarge, nodes: [2, 4] }
allreduce: { algorithm: [nccl, smddp] }
)")
                                                  .string());
  const auto tables = tables_in(r.out);
  ASSERT_FALSE(tables.empty()) << r.out;
  int smddp = 0;
  for (const std::string& row : tables[0].rows) smddp += row.find("smddp") != std::string::npos;
  EXPECT_EQ(smddp, 4) << r.out;
}

// Each needed a scenario of its own.
TEST(RecomputeAndFramework, AreAxes) {
  const TemporaryFolder folder;
  const std::string file = folder
                               .write("ways.yaml", R"(
workload: { model: llama2-7b, precision: bf16, batch_per_gpu: 1, recompute: [none, selective, full], framework: [pytorch, megatron], sharding: zero3 }
cluster: { instance: p5.48xlarge, nodes: 2 }
)")
                               .string();
  const auto points = json_of("predict " + file).at("points");
  ASSERT_EQ(points.size(), 6u);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i]["framework"], i < 3 ? "pytorch" : "megatron");
    EXPECT_EQ(points[i]["mfu_counts_scores"], i < 3 ? "all" : "causal half");
    EXPECT_EQ(points[i]["recompute"], (std::array{"none", "selective", "full"})[i % 3]);
    const std::string one = fmt::format(
        "predict {} --set workload.recompute={} --set workload.framework={}", file,
        points[i]["recompute"].get<std::string>(), points[i]["framework"].get<std::string>());
    EXPECT_EQ(json_of(one).at("points").at(0)["step_time_s"], points[i]["step_time_s"]);
  }
  const Result table = foreduce_says("predict " + file);
  EXPECT_SAYS(table.out, "framework  recompute");
  EXPECT_SAYS(table.out, "On 2 nodes, zero3, megatron, recompute none, nccl is fastest");
}

// One rate would have been that of all ways.
TEST(RecomputeAndFramework, AreNoAxesOfARateOfYourOwn) {
  const TemporaryFolder folder;
  for (const char* several : {"recompute: [no, full]", "framework: [pytorch, megatron]"}) {
    const Result r = foreduce_says("predict " + folder
                                                    .write("own.yaml", fmt::format(R"(
workload: {{ model: llama2-7b, precision: bf16, batch_per_gpu: 1, samples_per_s: 2, {} }}
cluster: {{ instance: p5.48xlarge, nodes: 2 }}
)",
                                                                                   several))
                                                    .string());
    EXPECT_EQ(r.status, 2);
    EXPECT_SAYS(r.out, "a rate of your own was measured in one way");
  }
}

TEST(Memory, AboveNineTenthsIsTold) {
  const Result r = foreduce_says("predict " + scenario_path("llama2-7b-p4d-fsdp"));
  EXPECT_SAYS(r.out, "above 90 % of it");
  const Result less = foreduce_says("predict " + scenario_path("first-look"));
  EXPECT_SAYS_NOT(less.out, "above 90 %");
}

// Nobody asked for reduction servers, which would run on the host's CPUs.
TEST(AMachineWithoutHost, IsComparedWithoutServers) {
  const TemporaryFolder folder;
  folder.write("mine.yaml", R"(
instance: mine
gpu: { model: A100-SXM4-40GB, count: 4, memory: 40 GiB, memory_bandwidth: 1555 GB/s, fp16: 312 TFLOPS, fp32: 19.5 TFLOPS, reduce_bandwidth: 500 GB/s }
nvlink: { kind: switch, links: 12, bandwidth: 25 GB/s, latency: 3 us }
nic: { count: 1, bandwidth: 100 Gbps, latency: 15 us }
)");
  const std::string asked =
      "compare --instance " + (folder.path() / "mine.yaml").string() + " --nodes 2 --sizes 1MiB";
  const Result all = foreduce_says(asked);
  EXPECT_EQ(all.status, 0) << all.out;
  EXPECT_SAYS(all.out, "Not tried here: forest, nvls, nvls-tree, reduction-server");
  EXPECT_SAYS(foreduce_says(asked + " --explain").out, "mine has no host section");
  EXPECT_EQ(foreduce_says(asked + " --algorithm best").status, 0);
  const Result named = foreduce_says(asked + " --algorithm reduction-server");
  EXPECT_EQ(named.status, 2) << named.out;
}

// 400 GB/s where 400 Gb/s was meant made all-reduces eight times as fast without a word.
TEST(AMachineFile, IsDoubtedWhereNoCardHasItsRate) {
  const TemporaryFolder folder;
  folder.write("mine.yaml",
               R"(like: p5.48xlarge
instance: mine
nic: { count: 8, bandwidth: 400 GB/s }
)");
  const std::string file = folder
                               .write("s.yaml", R"(
workload: { model: bert-large, precision: bf16, batch_per_gpu: 8 }
cluster: { instance: ./mine.yaml, nodes: [2, 4] }
goal: { samples: 1 million }
)")
                               .string(),
                    own = (folder.path() / "mine.yaml").string();
  for (const std::string& question :
       {"predict " + file, "plan " + file, "explain " + file + " --point 0 --no-changes",
        "compare --instance " + own + " --nodes 2 --sizes 1MiB --algorithm ring",
        "topology " + own}) {
    const Result warned = foreduce_says(question + " 2>&1 >/dev/null");
    EXPECT_EQ(warned.status, 0) << question << warned.out;
    EXPECT_EQ(lines_of(warned.out).size(), 1u) << question << warned.out;
    EXPECT_SAYS(warned.out, "warning: nic.bandwidth: 400 GB/s is 3.2 Tb/s a card");
    EXPECT_SAYS(warned.out, "did you mean 400 Gb/s?");
  }
}

// NCCL's own choice may cost more than the nodes bring, which a reader would take for a mistake.
TEST(ManyNodes, AreToldWhereTheyTrainLess) {
  const TemporaryFolder folder;
  const auto file = folder.write("g6e.yaml", R"(
workload: { model: gpt2-1.5b, precision: bf16, batch_per_gpu: 1, recompute: full }
cluster: { instance: g6e.48xlarge, nodes: [4, 5] }
)");
  EXPECT_SAYS_NOT(foreduce_says("predict " + file.string()).out, "More nodes");
  const auto report = folder.path() / "report.json";
  foreduce_says("predict " + file.string() + " -o " + report.string());
  nlohmann::json j = nlohmann::json::parse(read_text(report));
  j["points"][1]["throughput_samples_per_s"] = 20.0;
  j["points"][1]["chosen"] = "double-tree Simple";
  const auto shown = folder.write("slower.json", j.dump());
  const Result r = foreduce_says("show " + shown.string());
  EXPECT_SAYS(r.out,
              "More nodes train less: 33.7 samples/s on 4, 20.0 samples/s on 5 (ring Simple;");
  EXPECT_SAYS(r.out, "foreduce tune says");
}

}  // namespace
}  // namespace foreduce
