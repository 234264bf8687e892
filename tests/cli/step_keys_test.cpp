// What a scenario says of a step beyond its model: what it overlaps, and what it takes besides.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

nlohmann::json predicted(const std::string& workload, const std::string& allreduce = "") {
  const TemporaryFolder folder;
  return json_of("predict " +
                 folder
                     .write("s.yaml", "name: x\nworkload: { model: bert-large, batch_per_gpu: 16" +
                                          workload +
                                          " }\ncluster: { instance: p4d.24xlarge, nodes: 4 }\n"
                                          "allreduce: { algorithm: nccl" +
                                          allreduce + " }\n")
                     .string())
      .at("points")[0];
}
double seconds(const nlohmann::json& point, const char* key) { return point.at(key).get<double>(); }

TEST(StepKeys, OverheadIsPaidOnceAStep) {
  for (const std::string way : {"", ", sharding: zero3", ", accumulation: 4"}) {
    const nlohmann::json without = predicted(way), with = predicted(way + ", step_overhead: 50 ms");
    EXPECT_NEAR(seconds(with, "step_time_s"), seconds(without, "step_time_s") + 0.05, 1e-9) << way;
    EXPECT_NEAR(seconds(with, "exposed_communication_s"),
                seconds(without, "exposed_communication_s"), 1e-9)
        << way;
    EXPECT_EQ(seconds(with, "step_overhead_s"), 0.05) << way;
    // One GPU alone pays it too, and so less of the step is communication.
    EXPECT_GT(seconds(with, "scaling_efficiency"), seconds(without, "scaling_efficiency")) << way;
    EXPECT_LE(seconds(with, "scaling_efficiency"), 1) << way;
  }
}

// 16 samples on each of 8 GPUs come in 1 s at 128 a second, and no faster than the step needs.
TEST(StepKeys, AStepIsNoShorterThanItsSamplesTakeToCome) {
  for (const std::string way : {"", ", sharding: zero3", ", accumulation: 4",
                                ", tensor_parallel: 8", ", no_sync: no, accumulation: 2"}) {
    const nlohmann::json usual = predicted(way), slow = predicted(way + ", input_rate: 128"),
                         fast = predicted(way + ", input_rate: 1e6");
    EXPECT_EQ(seconds(fast, "step_time_s"), seconds(usual, "step_time_s")) << way;
    EXPECT_EQ(seconds(fast, "input_wait_s"), 0) << way;
    const double copies = way.find("tensor") == std::string::npos ? 8 : 1,
                 samples = copies * 16 * usual.at("accumulation").get<int>();
    EXPECT_NEAR(seconds(slow, "step_time_s"),
                std::max(samples / 128, seconds(usual, "step_time_s")), 1e-9)
        << way;
    EXPECT_NEAR(seconds(slow, "step_time_s") - seconds(slow, "input_wait_s"),
                seconds(usual, "step_time_s"), 1e-9)
        << way;
    EXPECT_NEAR(seconds(slow, "exposed_communication_s"), seconds(usual, "exposed_communication_s"),
                1e-9)
        << way;
    EXPECT_GE(seconds(slow, "step_time_low_s"), samples / 128 - 1e-9) << way;
  }
}

// Of a pipeline over several nodes the first reads alone, and of unlike nodes the larger one waits.
TEST(StepKeys, TheNodeThatReadsMostDecides) {
  const nlohmann::json staged =
      predicted(", tensor_parallel: 8, pipeline: 4, accumulation: 8, input_rate: 16");
  EXPECT_NEAR(seconds(staged, "step_time_s"), 8.0 * 16 / 16, 1e-9);
  const TemporaryFolder folder;
  const auto mixed = json_of(
      "predict " + folder
                       .write("m.yaml",
                              "workload: { model: resnet50, batch_per_gpu: 8, input_rate: 20 }\n"
                              "cluster: { mixed: [{ instance: p3.16xlarge, nodes: 1 }, { instance: "
                              "p3.8xlarge, nodes: 1 }] }\nallreduce: { algorithm: nccl }\n")
                       .string())["points"][0];
  EXPECT_NEAR(seconds(mixed, "step_time_s"), 8.0 * 8 / 20, 1e-9);
}

TEST(StepKeys, WithoutOverlapEveryAllReduceIsExposed) {
  const nlohmann::json beside = predicted(""), after = predicted("", ", overlap: none");
  EXPECT_NEAR(seconds(after, "exposed_communication_s"), seconds(after, "communication_time_s"),
              1e-9);
  EXPECT_EQ(seconds(after, "communication_time_s"), seconds(beside, "communication_time_s"));
  EXPECT_LT(seconds(beside, "exposed_communication_s"), seconds(after, "exposed_communication_s"));
}

// BERT-large at one sample on an A100 waits for its kernels' launches; a batch that was measured
// does not change.
TEST(StepKeys, CudaGraphsSpareSmallBatchesTheirLaunches) {
  const auto of = [](int batch, const std::string& graphs) {
    const TemporaryFolder folder;
    return json_of("predict " +
                   folder
                       .write("s.yaml", "name: x\nworkload: { model: bert-large, batch_per_gpu: " +
                                            std::to_string(batch) + graphs +
                                            R"( }
cluster: { instance: p4d.24xlarge, nodes: 1 }
allreduce: { algorithm: nccl }
)")
                       .string())
        .at("points")[0];
  };
  const auto spared = [&](int batch) {
    return seconds(of(batch, ""), "compute_time_s") -
           seconds(of(batch, ", cuda_graphs: yes"), "compute_time_s");
  };
  // 136.7 samples/s of 1,008 GFLOP at batch 32: 0.4 TFLOP take 2.9 ms instead of the launches' 13.
  EXPECT_NEAR(spared(8), (0.013 - 0.4 / (1.008 * 136.7)) * 24 / 32, 5e-4);
  // The kernels of 398 tensors take the host 51.7 ms.
  EXPECT_GT(spared(1), 0.025);
  EXPECT_LT(spared(1), 0.0518);
  EXPECT_EQ(seconds(of(32, ""), "compute_time_s"),
            seconds(of(32, ", cuda_graphs: yes"), "compute_time_s"));
}

TEST(StepKeys, HorovodsCycleSaysHowOftenGradientsTravel) {
  const auto count = [](const std::string& cycle) {
    const nlohmann::json point = predicted("", ", bucketing: horovod" + cycle);
    int all = 0;
    for (const nlohmann::json& c : point.at("collectives")) all += c.at("count").get<int>();
    return all;
  };
  EXPECT_EQ(count(""), count(", cycle: 5 ms"));
  EXPECT_GT(count(", cycle: 1 ms"), count(""));
  EXPECT_LT(count(", cycle: 1 s"), count(""));
  const TemporaryFolder folder;
  const auto file = folder.write("s.yaml",
                                 R"(name: x
workload: { model: bert-large, batch_per_gpu: 2 }
cluster: { instance: p4d.24xlarge, nodes: 2 }
allreduce: { algorithm: nccl, cycle: 1 ms }
)");
  const Result r = foreduce_says("predict " + file.string());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "this is for bucketing: horovod");
}

// Megatron's distributed optimizer without --overlap-grad-reduce; tensor-parallel replicas too.
TEST(StepKeys, WithoutOverlapGradientsOfASpreadStateAreSummedAfterBackward) {
  for (const std::string way : {", sharding: zero1", ", tensor_parallel: 2"}) {
    const nlohmann::json beside = predicted(way), after = predicted(way, ", overlap: none");
    EXPECT_GT(seconds(after, "exposed_communication_s"), seconds(beside, "exposed_communication_s"))
        << way;
    EXPECT_NEAR(seconds(after, "exposed_communication_s"), seconds(after, "communication_time_s"),
                1e-9)
        << way;
  }
}

TEST(StepKeys, StepsThatShardGradientsRefuseToDoWithoutOverlap) {
  const TemporaryFolder folder;
  for (const std::string way : {"zero2", "zero3", "fsdp"}) {
    const auto file = folder.write(
        "s.yaml", "name: x\nworkload: { model: gpt2-355m, batch_per_gpu: 2, sharding: " + way +
                      R"( }
cluster: { instance: p4d.24xlarge, nodes: 2 }
allreduce: { overlap: none }
)");
    const Result r = foreduce_says("predict " + file.string());
    EXPECT_EQ(r.status, 2) << way;
    EXPECT_SAYS(r.out, "overlap: none is for gradients that may wait");
  }
  const auto unknown = folder.write("s.yaml",
                                    R"(name: x
workload: { model: gpt2-355m, batch_per_gpu: 2, sharding: zero9 }
cluster: { instance: p4d.24xlarge, nodes: 2 }
allreduce: { overlap: none }
)");
  EXPECT_SAYS(foreduce_says("predict " + unknown.string()).out, "s.yaml:2:");
}

}  // namespace
}  // namespace foreduce
