// GPUs that share sequences: their groups, their step, and what each keeps in memory.
#include <gtest/gtest.h>

#include <map>

#include "models/memory.hpp"
#include "models/sharded_step.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

ShardingPlan plan_of_context(Sharding sharding, int hybrid, int context, int tensor = 2) {
  return divide(64, sharding, hybrid, tensor, 2, 1, context);
}

// Megatron-LM's order tp-cp-dp-pp, and torchtitan's mesh dp_shard_cp.
TEST(ContextParallel, StandsBehindTensorParallelismAndSharesTheState) {
  const ShardingPlan plan = plan_of_context(Sharding::zero3, 0, 4);
  EXPECT_EQ(plan.shard_ranks, 16);     // of 64 / (2 x 2)
  EXPECT_EQ(plan.data_parallel(), 4);  // copies that see different samples
  EXPECT_EQ(plan.model_gpus(), 16);
  for (const Stream kind : {Stream::context_all_gather, Stream::context_reduce_scatter}) {
    EXPECT_EQ(group_of(kind, plan).ranks, 4);
    EXPECT_EQ(group_of(kind, plan).stride, 2);
  }
  EXPECT_EQ(group_of(Stream::all_gather, plan).ranks, 16);
  EXPECT_EQ(group_of(Stream::all_gather, plan).stride, 2);
  EXPECT_EQ(group_of(Stream::pipeline, plan).stride, 32);
  // Without sharding gradients are summed among all that have the same parameters.
  const ShardingPlan whole = plan_of_context(Sharding::none, 0, 4);
  EXPECT_EQ(group_of(Stream::all_reduce, whole).ranks, 16);
  EXPECT_EQ(whole.data_parallel(), 4);
  EXPECT_FALSE(divide(8, Sharding::none, 0, 1, 1, 1, 8).is_ddp());
  EXPECT_SAYS(error_of([] { plan_of_context(Sharding::none, 0, 3); }),
              "16 GPUs that have the same parameters cannot be divided into groups of 3 that share "
              "sequences");
}

TEST(ContextParallel, IsNoneWhereItIsOne) {
  EXPECT_EQ(divide(64, Sharding::zero3, 8, 2, 2, 1, 1), divide(64, Sharding::zero3, 8, 2, 2));
}

/// Two blocks among 8 GPUs; forward takes 1 a block, backward 2, the optimizer 1.
ShardedStepInput step_of_context(int context) {
  ShardedStepInput in;
  in.forward = Seconds{2};
  in.backward = Seconds{4};
  in.optimizer = Seconds{1};
  for (const char* name : {"block.0", "block.1"}) in.units.push_back({name, 800, 1, false});
  in.plan = divide(8, Sharding::none, 0, 1, 1, 1, context);
  in.block_output = 100;
  in.keys_and_values = 50;
  return in;
}
Step played(const ShardedStepInput& in, const std::map<Stream, double>& each) {
  return play_sharded_step(in, {[each](Stream kind, std::size_t) {
                                  const auto at = each.find(kind);
                                  return Seconds{at == each.end() ? 0 : at->second};
                                },
                                {}});
}

// Keys and values are gathered forward and backward, and their gradients reduce-scattered:
// computing waits for all (Llama 3, arXiv 2407.21783, section 3.3.2).
TEST(ContextParallel, WaitsForKeysAndValues) {
  const std::map<Stream, double> times{{Stream::context_all_gather, 0.25},
                                       {Stream::context_reduce_scatter, 0.5}};
  ShardedStepInput in = step_of_context(4);
  const Step step = played(in, times);
  EXPECT_DOUBLE_EQ(step.total.value, 6 + 1 + 2 * (2 * 0.25 + 0.5));
  std::map<Stream, int> counts;
  for (const CollectiveUse& use : step.collectives) {
    counts[use.kind] += use.count;
    if (use.kind == Stream::context_all_gather) {
      EXPECT_EQ(use.elements, 50u);
      EXPECT_DOUBLE_EQ(use.exposed.value, 1);
    }
  }
  EXPECT_EQ(counts[Stream::context_all_gather], 4);
  EXPECT_EQ(counts[Stream::context_reduce_scatter], 2);
  in.passes_in_backward = 2;  // forward is computed again, and gathers again
  EXPECT_DOUBLE_EQ(played(in, times).total.value, 6 + 1 + 2 * (3 * 0.25 + 0.5));
  EXPECT_DOUBLE_EQ(played(step_of_context(1), times).total.value, 7);
}

// Around a ring keys and values travel beside attention, which is 0.5 of a block's 1 s forward and
// 1 of its 2 s backward; what is left of them the rest of the block waits for.
TEST(ContextParallel, HidesARingBesideAttention) {
  ShardedStepInput in = step_of_context(4);
  in.plan.context_communication = ContextCommunication::ring;
  in.attention = 0.5;
  const auto ring = [](double gather, double scatter) {
    return std::map<Stream, double>{{Stream::context_all_gather, gather},
                                    {Stream::context_reduce_scatter, scatter}};
  };
  EXPECT_DOUBLE_EQ(played(in, ring(0.4, 0.6)).total.value, 7);  // all are hidden
  // Forward 0.1 s of each gather are left, backward 0.6 + 0.8 - 1 s.
  const Step step = played(in, ring(0.6, 0.8));
  EXPECT_DOUBLE_EQ(step.total.value, 7 + 2 * (0.1 + 0.4));
  EXPECT_DOUBLE_EQ(step.exposed_communication.value, 1);
  in.plan.context_communication = ContextCommunication::all_gather;
  EXPECT_DOUBLE_EQ(played(in, ring(0.6, 0.8)).total.value, 7 + 2 * (2 * 0.6 + 0.8));
  EXPECT_TRUE(computing_waits(Stream::context_all_gather, in.plan));
}

// What of a ring is not hidden delays the stages behind as well.
TEST(ContextParallel, LeavesAPipelinesBubbleWhatARingDoesNotHide) {
  ShardedStepInput in = step_of_context(4);
  in.plan.context_communication = ContextCommunication::ring;
  in.plan.stages = 2;
  in.other_stages = 1;
  in.attention = 0.5;
  const auto bubble = [&](double gather) {
    return played(in, {{Stream::context_all_gather, gather}}).bubble.value;
  };
  EXPECT_DOUBLE_EQ(bubble(0.4), 6);
  EXPECT_DOUBLE_EQ(bubble(0.7), 6 + 2 * 0.2);
}

/// Elements of keys and values of a token in a block.
double keys_and_values_of_token(const char* model, double tokens) {
  const Workload w = Workloads().load(model);
  return keys_and_values(w, "", 1) / tokens;
}

// With grouped queries keys and values are narrower than the model.
TEST(KeysAndValues, AreAsWideAsTheirMatricesSay) {
  EXPECT_DOUBLE_EQ(keys_and_values_of_token("llama3-8b", 8192), 2 * 8 * 128);
  EXPECT_DOUBLE_EQ(keys_and_values_of_token("llama2-7b", 4096), 2 * 4096);
  EXPECT_DOUBLE_EQ(keys_and_values_of_token("gpt2-1.5b", 1024), 2 * 1600);
  // Eight heads of keys among 4 GPUs, and among 16, of which two have the same head each.
  const Workload llama = Workloads().load("llama3-8b");
  EXPECT_DOUBLE_EQ(keys_and_values(llama, "", 1, 4), 8192 * 2 * 2 * 128);
  EXPECT_DOUBLE_EQ(keys_and_values(llama, "", 1, 16), 8192 * 2 * 1 * 128);
  EXPECT_DOUBLE_EQ(keys_and_values_of_token("bert-large", 512), 2 * 1024);
}

// Where nothing is named as attention's matrices are, keys and values are as wide as the model.
TEST(KeysAndValues, AreTwiceABlocksOutputWhereNobodySays) {
  Workload w;
  w.variants = {{"16 tokens", 1}};
  w.tensors = {{"layers.0.mixer", 64 * 64, 64.0 * 64 * 16, 0}, {"layers.0.norm", 64, 0, 0}};
  EXPECT_DOUBLE_EQ(keys_and_values(w, "", 3), 2 * block_output(w, "", 3));
  EXPECT_DOUBLE_EQ(keys_and_values(w, "", 3), 3.0 * 2 * 64 * 16);
}

// Activations are divided, parameters are not; one block's keys and values are there whole.
TEST(MemoryBy, ContextParallelDividesActivationsAlone) {
  const Workload w = Workloads().load("llama3-8b");
  MemoryQuestion q;
  q.workload = &w;
  q.sample = w.variants[0].sample;
  q.precision = q.gradient = Precision::bf16;
  const auto with = [&](int context, int tensor) {
    q.sharding = divide(64, Sharding::none, 0, tensor, 1, 1, context);
    return memory_of(q);
  };
  const MemoryBy whole = with(1, 1), part = with(8, 1);
  EXPECT_EQ(part.state().value, whole.state().value);
  EXPECT_DOUBLE_EQ(part.working.value, whole.working.value / 8);
  EXPECT_DOUBLE_EQ(part.activations.value, whole.activations.value / 8 + 2.0 * 8192 * 2 * 8 * 128);
  EXPECT_DOUBLE_EQ(with(8, 8).activations.value - with(1, 8).activations.value / 8,
                   2.0 * 8192 * 2 * 8 * 128 / 8);
}

}  // namespace
}  // namespace foreduce
