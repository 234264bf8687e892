// Training a part of the parameters while the rest is frozen, as LoRA does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/memory.hpp"
#include "models/sharded_step.hpp"
#include "scenarios/sweep/predict.hpp"
#include "tests/support/files.hpp"

namespace foreduce {
namespace {

/// Llama-2 7B on two nodes, with these keys of its workload.
Prediction predicted(const std::string& keys) {
  const Scenario scenario = parse_scenario("s.yaml", fmt::format(R"(
workload: {{ model: llama2-7b, precision: bf16, batch_per_gpu: 1, {} }}
cluster: {{ instance: p4de.24xlarge, nodes: 2 }}
allreduce: {{ algorithm: ring }}
)",
                                                                 keys));
  return predict(scenario, {}).points.at(0);
}

// Hu et al., LoRA, ICLR 2022, section 4.2: GPT-3 175B goes from 32.5 to 43.1 tokens/s a GPU. So
// large a model computes its forward pass a second time.
TEST(FrozenParameters, MakeAStepAsMuchShorterAsLoraPublished) {
  const test::TemporaryFolder folder;
  Workload gpt3 = Workloads::load_file(folder.write("gpt3.yaml", R"(
workload: gpt3
transformer: { layers: 96, hidden: 12288, heads: 96, vocabulary: 50257, sequence: 2048 }
)"));
  gpt3.trainable = 0.0001;
  const double forward = 1.0 / 3;
  EXPECT_NEAR((1 + forward) / (time_share(gpt3, "2048 tokens") + forward), 43.1 / 32.5, 0.03);
}

// Weights' gradients are a third of what products of layers compute; attention's scores have none.
TEST(FrozenParameters, SpareThePartOfProductsOnly) {
  const Prediction all = predicted("sharding: zero3"),
                   some = predicted("sharding: zero3, trainable: 0.002 %");
  const double ratio = all.step.compute / some.step.compute;
  EXPECT_GT(ratio, 1.3);
  EXPECT_LT(ratio, 1.5);  // three passes against two
  Workload w = Workloads().load("llama2-7b");
  w.trainable = 0;
  const double linear = linear_share(w, "4096 tokens");
  EXPECT_GT(linear, 0.8);
  EXPECT_LT(linear, 0.9);
  EXPECT_NEAR(arithmetic_share(w, "4096 tokens"), 1 - linear / 3, 1e-4);
}

TEST(FrozenParameters, AllOfThemTrainedIsTheDefault) {
  for (const std::string sharding : {"sharding: ddp", "sharding: zero3", "sharding: zero1"}) {
    const Prediction usual = predicted(sharding), all = predicted(sharding + ", trainable: 100 %");
    EXPECT_EQ(all.step.total, usual.step.total) << sharding;
    EXPECT_EQ(all.memory.peak(), usual.memory.peak()) << sharding;
  }
}

TEST(FrozenParameters, SendNoGradients) {
  const double elements = static_cast<double>(Workloads().load("llama2-7b").elements());
  const auto sent = [](const Prediction& p, Stream kind) {
    double all = 0;
    for (const CollectiveUse& use : p.step.collectives)
      if (use.kind == kind) all += static_cast<double>(use.elements) * use.count;
    return all;
  };
  const double tensors = 300;  // each rounded up to a whole element
  for (const double part : {0.005, 0.3}) {
    const std::string keys = fmt::format(", trainable: {}", part);
    const Prediction ddp = predicted("sharding: ddp" + keys),
                     zero1 = predicted("sharding: zero1" + keys),
                     zero3 = predicted("sharding: zero3" + keys);
    EXPECT_NEAR(sent(ddp, Stream::all_reduce), part * elements, tensors);
    EXPECT_NEAR(sent(zero1, Stream::reduce_scatter), part * elements, tensors);
    EXPECT_NEAR(sent(zero1, Stream::all_gather), part * elements, tensors) << "what has changed";
    EXPECT_NEAR(sent(zero3, Stream::reduce_scatter), part * elements, tensors);
    EXPECT_EQ(sent(zero3, Stream::all_gather),
              sent(predicted("sharding: zero3"), Stream::all_gather))
        << "layers need frozen parameters too";
  }
}

TEST(FrozenParameters, KeepTwoBytesAndNothingElse) {
  Workload w = Workloads().load("llama2-7b");
  const double n = static_cast<double>(w.elements());
  w.trainable = 0.25;
  MemoryQuestion q;
  q.workload = &w;
  q.sample = w.variants[0].sample;
  q.precision = q.gradient = Precision::bf16;
  EXPECT_DOUBLE_EQ(memory_of(q).state().value, n * (0.25 * 16 + 0.75 * 2));
  q.sharding = divide(64, Sharding::zero3, 0, 1, 1);
  EXPECT_DOUBLE_EQ(memory_of(q).state().value, n * (0.25 * 16 + 0.75 * 2) / 64);
}

// One's own rate is of this very training.
TEST(FrozenParameters, LeaveAMeasuredRateAsItIs) {
  const Prediction own = predicted("samples_per_s: 0.5, trainable: 0.1 %");
  EXPECT_NEAR((own.step.compute).value, 2, 0.02);
  // 68 % of the A100's peak if all were trained.
  EXPECT_NO_THROW(predicted("samples_per_s: 1.9, trainable: 0.1 %"));
}

}  // namespace
}  // namespace foreduce
