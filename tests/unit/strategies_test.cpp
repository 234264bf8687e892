// What a scenario says of sharding, and what is wrong with it.
#include "scenarios/sweep/strategies.hpp"

#include <gtest/gtest.h>

#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

Scenario scenario(const std::string& keys) {
  return parse_scenario("s.yaml", "name: x\nworkload: { model: gpt2-124m, batch_per_gpu: 1, " +
                                      keys +
                                      R"( }
cluster: { instance: p4d.24xlarge, nodes: 2 }
allreduce: { algorithm: ring }
)");
}
std::string error(const std::string& keys) {
  return error_of([&] { scenario(keys); });
}
ShardingPlan plan(const std::string& keys) {
  const Scenario s = scenario(keys);
  return plan_of(strategies_of(*s.workload).at(0), *s.workload, s.workload->precision.values.at(0),
                 2, 16);
}

TEST(ShardingKeys, AreAxes) {
  const Scenario s = scenario(
      "sharding: [none, ddp, zero3, fsdp], hybrid: [node, 2], tensor_parallel: [1, 2], "
      "pipeline: 1..4:x2");
  // none has no groups; ddp is none, and fsdp is zero3.
  EXPECT_EQ(strategies_of(*s.workload).size(), (1 + 2) * 2 * 3u);
}

TEST(ShardingKeys, MakeAPlan) {
  const ShardingPlan p = plan(
      "sharding: fsdp, hybrid: node, tensor_parallel: 2, units: 100 MB, prefetch: 2, "
      "reshard_after_forward: no, no_sync: yes");
  EXPECT_EQ(p.sharding, Sharding::zero3);
  EXPECT_EQ(p.shard_ranks, 4);
  EXPECT_EQ(p.replicas, 2);
  EXPECT_EQ(p.units.by, UnitRule::By::size);
  EXPECT_EQ(p.units.size.value, 100e6);
  EXPECT_EQ(p.prefetch, 2);
  EXPECT_EQ(p.reshard, Reshard::after_backward);
  EXPECT_EQ(p.synchronised, Synchronised::last_micro_batch);
  EXPECT_EQ(plan("sharding: zero3").synchronised, Synchronised::every_micro_batch);
  EXPECT_EQ(plan("sharding: zero3").reshard, Reshard::after_forward);
  EXPECT_EQ(plan("sharding: zero3, pipeline: 2").synchronised, Synchronised::last_micro_batch);
  EXPECT_EQ(plan("sharding: zero3, pipeline: 2").reshard, Reshard::after_backward);
  EXPECT_EQ(plan("sharding: zero3, pipeline: 2, reshard_after_forward: yes, no_sync: no").reshard,
            Reshard::after_forward);
  EXPECT_EQ(plan("sharding: zero3").shard_ranks, 16);
  EXPECT_EQ(plan("sharding: zero1").synchronised, Synchronised::last_micro_batch);
}

// What goes over the wire where the workload does not say: fp32 where nothing is sharded, as DDP
// under autocast does, else the type of the arithmetic, whatever else is compared. A group of one
// is DDP.
TEST(ShardingKeys, SayWhatGradientsAreByDefault) {
  const auto gradients = [](const std::string& keys, Precision precision,
                            Framework framework = Framework::pytorch) {
    std::vector<Precision> all;
    for (const Strategy& s : strategies_of(*scenario(keys).workload))
      all.push_back(default_gradient(precision, unplaced(s), framework));
    return all;
  };
  using All = std::vector<Precision>;
  EXPECT_EQ(gradients("sharding: none", Precision::bf16), All{Precision::fp32});
  EXPECT_EQ(gradients("sharding: zero1", Precision::bf16, Framework::megatron),
            All{Precision::fp32});
  EXPECT_EQ(gradients("sharding: zero1", Precision::fp16, Framework::megatron),
            All{Precision::fp16});
  EXPECT_EQ(gradients("sharding: zero3, hybrid: [1, node]", Precision::bf16),
            (All{Precision::fp32, Precision::bf16}));
  EXPECT_EQ(gradients("sharding: [ddp, zero1, zero2]", Precision::bf16),
            (All{Precision::fp32, Precision::bf16, Precision::bf16}));
  EXPECT_EQ(gradients("sharding: zero3", Precision::tf32), All{Precision::fp32});
}

TEST(ShardingKeys, SayWhatIsWrong) {
  EXPECT_SAYS(error("sharding: zero_3"), "did you mean 'zero3'?");
  EXPECT_SAYS(error("sharding: zero3, hybrid: nodes"), "there is no group called 'nodes'");
  EXPECT_SAYS(error("sharding: zero3, hybrid: nodes"), "did you mean 'node'?");
  EXPECT_SAYS(error("sharding: zero3, hybrid: 2.5"), "expected a whole number");
  EXPECT_SAYS(error("sharding: zero3, hybrid: 0"), "hybrid");
  EXPECT_SAYS(error("sharding: zero3, units: 100 Mb"), "units");
  EXPECT_SAYS(error("sharding: zero3, units: blocks"), "did you mean 'block'?");
  EXPECT_SAYS(error("sharding: zero3, offload: cpu"), "offload to the host is not modelled");
  EXPECT_SAYS(error("hybrid: 8"), "sharding is none");
  EXPECT_SAYS(error("context_communication: ring"), "context_parallel is 1");
  EXPECT_SAYS(error("context_parallel: 2, context_communication: rings"), "did you mean 'ring'?");
  EXPECT_SAYS(error("recompute: selectiv"), "did you mean 'selective'?");
  EXPECT_SAYS(error("recompute_blocks: 4"), "nothing is computed again");
}

TEST(ShardingKeys, GatherInFp8WhereTheProductsAreInIt) {
  EXPECT_EQ(plan("precision: fp8, sharding: fsdp, fp8_all_gather: yes").gathered, Gathered::fp8);
  EXPECT_EQ(plan("precision: fp8, sharding: fsdp").gathered, Gathered::as_kept);
  EXPECT_EQ(plan("precision: [bf16, fp8], sharding: fsdp, fp8_all_gather: yes").gathered,
            Gathered::as_kept);
  EXPECT_SAYS(error("precision: bf16, sharding: fsdp, fp8_all_gather: yes"), "no precision here");
  EXPECT_SAYS(error("precision: fp8, sharding: zero1, fp8_all_gather: yes"),
              "no sharding here gathers parameters");
  EXPECT_SAYS(error("precision: fp8, fp8_all_gather: yes"), "sharding is none");
}

TEST(ShardingKeys, MustDivideTheCluster) {
  const auto wrong = [](const std::string& keys) { return error_of([&] { plan(keys); }); };
  EXPECT_SAYS(wrong("tensor_parallel: 16"),
              "8 GPUs of a node cannot be divided into tensor-parallel groups of 16");
  EXPECT_SAYS(wrong("sharding: zero3, hybrid: 5"),
              "16 data-parallel GPUs cannot be divided into sharding groups of 5");
  EXPECT_SAYS(wrong("pipeline: 3"), "16 GPUs cannot be divided into groups of 3");
  EXPECT_SAYS(wrong("sharding: zero2, no_sync: yes"), "zero2 keeps no whole gradients");
  EXPECT_SAYS(wrong("sharding: zero1, no_sync: no"), "sums them after the last micro-batch");
}

TEST(ShardingKeys, LeaveBucketsWithoutEffect) {
  const auto unused = [](const std::string& sharding) {
    Scenario s = scenario("sharding: " + sharding);
    s.allreduce.bucket.values = {Bytes{1e6}};
    return unused_keys(s, Asked::training);
  };
  EXPECT_EQ(unused("zero3"), std::vector<std::string>{"allreduce.bucket"});
  EXPECT_TRUE(unused("[ddp, zero3]").empty());
}

TEST(StepKeys, AreAllNamedWhereMessagesAreAskedFor) {
  const Scenario s = parse_scenario(
      "s.yaml",
      "messages: { sizes: 1 MiB }\nworkload: { model: gpt2-124m, batch_per_gpu: 1 }\ncluster: { "
      "instance: p4d.24xlarge, nodes: 4 }\nallreduce: { bucketing: horovod, cycle: 1 ms, overlap: "
      "none, compute_share: 0.5, bucket: 3 MiB }\n");
  EXPECT_EQ(unused_keys(s, Asked::messages),
            (std::vector<std::string>{"workload", "allreduce.bucket", "allreduce.bucketing",
                                      "allreduce.cycle", "allreduce.overlap",
                                      "allreduce.compute_share"}));
}

TEST(ShardingKeys, ATreeOfNcclsNeedsAnAllReduce) {
  const auto unused = [](const std::string& keys, const std::string& algo) {
    return unused_keys(
        parse_scenario("s.yaml", "name: x\nworkload: { model: gpt2-124m, batch_per_gpu: 1, " +
                                     keys +
                                     " }\ncluster: { instance: p4d.24xlarge, nodes: 4 }\n"
                                     "allreduce: { algorithm: nccl, nccl: { algo: " +
                                     algo + " } }\n"),
        Asked::training);
  };
  const std::vector<std::string> told{"allreduce.nccl.algo"};
  EXPECT_EQ(unused("sharding: zero3", "Tree"), told);
  EXPECT_EQ(unused("sharding: [zero1, zero3]", "[Tree, NVLSTree]"), told);
  EXPECT_TRUE(unused("sharding: zero3", "[Ring, Tree]").empty());
  EXPECT_TRUE(unused("sharding: [ddp, zero3]", "Tree").empty());
  EXPECT_TRUE(unused("sharding: zero3, hybrid: node", "Tree").empty());
  EXPECT_TRUE(unused("sharding: zero3, tensor_parallel: 2", "Tree").empty());
}

TEST(FabricKeys, PlacementWithoutLeavesIsTold) {
  const auto unused = [](const std::string& fabric) {
    return unused_keys(parse_scenario("s.yaml",
                                      "name: x\nworkload: { model: gpt2-124m, batch_per_gpu: 1 }\n"
                                      "cluster: { instance: p4d.24xlarge, nodes: 4, fabric: " +
                                          fabric + " }\nallreduce: { algorithm: nccl }\n"),
                       Asked::training);
  };
  EXPECT_EQ(unused("{ placement: spread }"), std::vector<std::string>{"cluster.fabric.placement"});
  EXPECT_EQ(unused("{ spine_latency: 1 ms }"),
            std::vector<std::string>{"cluster.fabric.spine_latency"});
  EXPECT_TRUE(unused("{ placement: spread, spine_latency: 1 ms, nodes_per_leaf: 2 }").empty());
}

TEST(ShardingKeys, WithoutEffectAreTold) {
  const auto unused = [](const std::string& keys) {
    return unused_keys(scenario(keys), Asked::training);
  };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(unused("sharding: zero2, prefetch: 5, reshard_after_forward: no"),
            (Keys{"workload.prefetch", "workload.reshard_after_forward"}));
  EXPECT_EQ(unused("sharding: zero1, communicators: separate"), Keys{"workload.communicators"});
  EXPECT_TRUE(unused("sharding: [zero2, zero3], prefetch: 5, communicators: separate").empty());
  EXPECT_EQ(unused("sharding: zero3, no_sync: yes"), Keys{"workload.no_sync"});
  EXPECT_TRUE(unused("sharding: zero3, no_sync: yes, accumulation: [1, 4]").empty());
}

TEST(ShardingKeys, RecomputeSaysHowMuch) {
  const auto how = [](const std::string& word) {
    return recomputes_of(*scenario("recompute: " + word).workload).front();
  };
  EXPECT_EQ(how("no"), Recompute::none);
  EXPECT_EQ(how("false"), Recompute::none);
  EXPECT_EQ(how("yes"), Recompute::full);
  EXPECT_EQ(how("full"), Recompute::full);
  EXPECT_EQ(how("selective"), Recompute::selective);
  EXPECT_EQ(recomputes_of(*scenario("recompute: [none, selective, full, yes, no]").workload),
            (std::vector{Recompute::none, Recompute::selective, Recompute::full}));
}

TEST(ShardingKeys, RecomputeBlocksAreOfAStage) {
  const Workload model = Workloads().load("llama2-7b");  // 32 blocks
  const auto part = [&](int blocks, int stages, Recompute how = Recompute::full) {
    WorkloadSpec asked;
    asked.recompute_blocks = blocks;
    return recomputed_part(asked, model, how, stages);
  };
  EXPECT_EQ(part(0, 1), 1);
  EXPECT_EQ(part(8, 1), 0.25);
  EXPECT_EQ(part(8, 2), 0.5);
  EXPECT_EQ(part(6, 6), 1);  // of stages of five and six
  EXPECT_EQ(part(8, 1, Recompute::none), 1);
  EXPECT_SAYS(error_of([&] { part(17, 2); }), "recompute_blocks: 17 of the 16 blocks of a stage");
}

}  // namespace
}  // namespace foreduce
