// Strategies in combinations that are asked for less: groups of one GPU, algorithms that have one
// phase of a sharded step, stages within a node.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

std::string scenario_with(const TemporaryFolder& folder, const std::string& keys,
                          const std::string& cluster, const std::string& allreduce) {
  return folder
      .write("s.yaml", fmt::format("workload: {{ model: gpt2-355m, precision: bf16, batch_per_gpu: "
                                   "2, {} }}\ncluster: {{ {} }}\nallreduce: {{ {} }}\n",
                                   keys, cluster, allreduce))
      .string();
}
nlohmann::json point_of(const std::string& keys,
                        const std::string& cluster = "instance: p4d.24xlarge, nodes: 2",
                        const std::string& allreduce = "algorithm: nccl") {
  const TemporaryFolder folder;
  return json_of("predict " + scenario_with(folder, keys, cluster, allreduce))["points"][0];
}
std::string error_with(const std::string& keys, const std::string& cluster,
                       const std::string& allreduce) {
  const TemporaryFolder folder;
  return foreduce_says("predict " + scenario_with(folder, keys, cluster, allreduce)).out;
}

// Nothing of FSDP is left of a group of one GPU, its units and prefetching neither.
TEST(Strategies, AGroupOfOneGpuIsDdpWhateverElseIsAsked) {
  for (const std::string others : {"tensor_parallel: 2", "pipeline: 2, accumulation: 4"}) {
    const nlohmann::json ddp = point_of(others);
    for (const std::string how : {"units: block", "prefetch: 3", "reshard_after_forward: no"}) {
      const nlohmann::json one = point_of("sharding: zero3, hybrid: 1, " + how + ", " + others);
      EXPECT_EQ(one["step_time_s"], ddp["step_time_s"]) << how << ", " << others;
      EXPECT_EQ(one["memory_by"], ddp["memory_by"]) << how << ", " << others;
    }
  }
  EXPECT_EQ(
      point_of("sharding: zero3, hybrid: 1, units: 64 MiB, tensor_parallel: 2")["step_time_s"],
      point_of("tensor_parallel: 2")["step_time_s"]);
}

TEST(Strategies, ANoteSaysWhereNothingIsSharded) {
  const TemporaryFolder folder;
  const Result r = foreduce_says(
      "predict " + scenario_with(folder, "sharding: zero3, hybrid: node, tensor_parallel: 8",
                                 "instance: p4d.24xlarge, nodes: 2", "algorithm: nccl"));
  EXPECT_SAYS(r.out, "Rows called ddp were asked for as zero3");
}

// Of an algorithm that has one phase, the other one goes by its counterpart.
TEST(Strategies, ShardedStepsTakeAlgorithmsOfOnePhase) {
  const std::string cluster = "instance: p4d.24xlarge, nodes: 2";
  for (const char* name : {"bruck", "recursive-doubling", "recursive-halving"}) {
    const nlohmann::json p =
        point_of("sharding: zero3", cluster, fmt::format("algorithm: {}", name));
    EXPECT_GT(p["step_time_s"].get<double>(), 0) << name;
  }
  for (const char* name : {"bruck", "recursive-halving"})
    EXPECT_SAYS(error_with("sharding: ddp", cluster, fmt::format("algorithm: {}", name)),
                fmt::format("{} has no all-reduce", name));
  EXPECT_SAYS(error_with("sharding: zero3", cluster, "algorithm: double-tree"),
              "double-tree has none of what this step needs: reduce-scatter, all-gather");
  EXPECT_SAYS(error_with("sharding: zero3", cluster, "algorithm: hierarchical, inner: double-tree"),
              "double-tree has none of what this step needs");
  // Between sharding groups there is an all-reduce, which the inner algorithm has.
  EXPECT_GT(point_of("sharding: zero3, hybrid: 4", cluster,
                     "algorithm: hierarchical, inner: double-tree")["step_time_s"]
                .get<double>(),
            0);
}

TEST(Strategies, NodesGroupsAreOfOneStage) {
  const nlohmann::json node =
      point_of("sharding: zero3, hybrid: node, pipeline: 2, accumulation: 4",
               "instance: p4d.24xlarge, nodes: 1");
  const nlohmann::json four = point_of("sharding: zero3, hybrid: 4, pipeline: 2, accumulation: 4",
                                       "instance: p4d.24xlarge, nodes: 1");
  EXPECT_EQ(node["step_time_s"], four["step_time_s"]);
  EXPECT_SAYS(error_with("sharding: zero1, units: 1 GB, pipeline: 2, accumulation: 4",
                         "instance: p4d.24xlarge, nodes: 1", "algorithm: nccl"),
              "stages are cut between blocks");
}

// PyTorch's DDP all-reduces after every backward that is not under no_sync().
TEST(Strategies, DdpWithoutNoSyncReducesAfterEveryMicroBatch) {
  const auto step = [](int micro_batches, const char* no_sync) {
    return point_of(fmt::format("accumulation: {}, no_sync: {}", micro_batches, no_sync));
  };
  const auto seconds = [&](int micro_batches, const char* no_sync) {
    return step(micro_batches, no_sync)["step_time_s"].get<double>();
  };
  const double one = seconds(1, "no"), two = seconds(2, "no"), four = seconds(4, "no");
  EXPECT_DOUBLE_EQ(one, seconds(1, "yes"));
  EXPECT_NEAR(four - two, 2 * (two - one), 1e-9);
  EXPECT_GT(four, seconds(4, "yes"));
  const nlohmann::json every = step(4, "no"), last = step(4, "yes");
  EXPECT_EQ(every["collectives"][0]["count"], 4 * last["collectives"][0]["count"].get<int>());
  EXPECT_NEAR(every["exposed_communication_s"].get<double>(),
              4 * last["exposed_communication_s"].get<double>(), 1e-9);
}

// DDP's buckets count where gradients wait for other micro-batches.
TEST(Strategies, DdpsBucketsTakeMemoryUnlessGradientsAreViewsOfThem) {
  const std::string cluster = "instance: p4d.24xlarge, nodes: 1";
  const auto buckets = [&](const std::string& keys, const std::string& allreduce) {
    return point_of(keys, cluster, allreduce)["memory_by"]["buckets"].get<double>();
  };
  EXPECT_DOUBLE_EQ(buckets("accumulation: 4", "algorithm: nccl"), 4.0 * 354823168);
  EXPECT_EQ(buckets("accumulation: 4", "algorithm: nccl, gradient_as_bucket_view: yes"), 0);
  EXPECT_EQ(buckets("accumulation: 4", "algorithm: nccl, bucketing: horovod"), 0);
  EXPECT_EQ(buckets("accumulation: 4, sharding: zero2", "algorithm: nccl"), 0);
}

// Its ZeRO-3 gathers each tensor when it is needed; all else is PyTorch's.
TEST(Strategies, DeepSpeedWaitsForWhatItGathers) {
  const nlohmann::json deepspeed = point_of("sharding: zero3, framework: deepspeed"),
                       same = point_of("sharding: zero3, units: tensors, prefetch: 0"),
                       fsdp = point_of("sharding: zero3");
  EXPECT_EQ(deepspeed["step_time_s"], same["step_time_s"]);
  EXPECT_GT(deepspeed["step_time_s"], fsdp["step_time_s"]);
  EXPECT_NEAR(deepspeed["compute_time_s"].get<double>() / fsdp["compute_time_s"].get<double>(), 1,
              1e-9);
  EXPECT_EQ(
      point_of("sharding: zero3, framework: deepspeed, units: block, prefetch: 1")["step_time_s"],
      fsdp["step_time_s"]);
  for (const std::string how : {"zero2", "ddp"})
    EXPECT_EQ(point_of("framework: deepspeed, sharding: " + how)["step_time_s"],
              point_of("sharding: " + how)["step_time_s"])
        << how;
}

// Forward's exchanges are launched again with what is computed again; a step was shorter with it.
TEST(Strategies, ComputingAgainTakesLongerWhereLaunchesRule) {
  const auto compute = [](const std::string& recompute) {
    return point_of("sharding: zero1, tensor_parallel: 8, recompute: " +
                    recompute)["compute_time_s"]
        .get<double>();
  };
  EXPECT_GT(compute("full"), 1.1 * compute("none"));
}

// Units have no buckets whose views gradients could be.
TEST(Strategies, SayThatUnitsTakeNoBucketsOptions) {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& sharding) {
    return foreduce_says("predict " +
                         scenario_with(folder, "sharding: " + sharding,
                                       "instance: p4d.24xlarge, nodes: 2",
                                       "algorithm: nccl, gradient_as_bucket_view: yes"))
        .out;
  };
  const std::string line = "Keys without effect here: allreduce.gradient_as_bucket_view.";
  EXPECT_SAYS(said("zero3"), line);
  EXPECT_SAYS_NOT(said("ddp"), line);
}

}  // namespace
}  // namespace foreduce
