// How long computing takes in NVIDIA's own programs and in Hugging Face's, and what memory it needs
// there.
#include <gtest/gtest.h>

#include "models/compute.hpp"
#include "models/memory.hpp"
#include "models/program_time.hpp"
#include "models/tensors.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

// NVIDIA's own programs: products of blocks take half in FP8, and so do layers' inputs in memory;
// the layer over the vocabulary, attention and memory traffic take as long as in 16 bits.
TEST(MegatronTime, AddsUpProductsAttentionAndTraffic) {
  Workload llama = Workloads().load("llama3-8b");
  llama.framework = Framework::megatron;
  const Gpu h100 = *ec2("p5.48xlarge")->gpu;
  const std::string sample = llama.variants.front().sample;
  const auto in = [&](Precision precision, int batch) {
    return compute_time({llama, h100, precision, sample, batch});
  };
  const ComputeTime bf16 = in(Precision::bf16, 1), fp8 = in(Precision::fp8, 1);
  const double tokens = 8192, root = 128256.0 * 4096, blocks = 8030261248.0 - 2 * root - 266240,
               scores = 12 * 32 * 4096 * tokens,
               outputs = 32 * (3 * 4096 + 2 * 1024 + 2 * 14336) + 128256;
  const auto seconds = [&](double products) {
    return tokens * (6 * blocks / products + 6 * root / (0.79 * 989e12) +
                     scores / 2 / (0.45 * 989e12) + 51 * outputs / 3350e9);
  };
  EXPECT_NEAR(bf16.forward_backward.value, seconds(0.79 * 989e12), 1e-4);
  EXPECT_NEAR(fp8.forward_backward.value, seconds(0.69 * 1978e12), 1e-4);
  EXPECT_NEAR(in(Precision::fp8, 4).forward_backward / fp8.forward_backward, 4, 1e-9);
  EXPECT_SAYS(fp8.source, "estimate for Megatron with Transformer Engine, 36 % of ");
  EXPECT_NEAR(counted_by_megatron(llama, sample), 1 - scores / 2 / (6 * (blocks + root) + scores),
              1e-4)
      << "the causal half of scores";
  EXPECT_DOUBLE_EQ(fp8.within.slower, training_constants().megatron.within.slower);
  const ComputeTime a100 =
      compute_time({llama, *ec2("p4d.24xlarge")->gpu, Precision::bf16, sample, 1});
  EXPECT_DOUBLE_EQ(a100.within.slower, fp8.within.slower);
  const ComputeTime l40s =
      compute_time({llama, *ec2("g6e.48xlarge")->gpu, Precision::bf16, sample, 1});
  EXPECT_GT(l40s.within.slower, fp8.within.slower) << "none of these programs is published on L40S";
  MemoryQuestion question;
  question.workload = &llama;
  question.sample = sample;
  question.precision = question.gradient = Precision::bf16;
  MemoryQuestion eight = question;
  eight.precision = Precision::fp8;
  EXPECT_LT(memory_of(eight).activations, memory_of(question).activations);
  EXPECT_GT(memory_of(eight).activations, 0.75 * memory_of(question).activations);
  eight.recompute = question.recompute = Recompute::full;
  EXPECT_EQ(memory_of(eight).activations, memory_of(question).activations);
}

TEST(MegatronTime, IsRefusedForOtherModelsAndPrecisions) {
  Workload resnet = Workloads().load("resnet50"), llama = Workloads().load("llama3-8b");
  resnet.framework = llama.framework = Framework::megatron;
  const Gpu h100 = *ec2("p5.48xlarge")->gpu;
  EXPECT_SAYS(error_of([&] {
                compute_time({resnet, h100, Precision::fp16, "224x224 image", 64});
              }),
              "layer over a vocabulary behind their blocks, and resnet50 has none");
  EXPECT_SAYS(error_of([&] {
                compute_time({llama, h100, Precision::tf32, llama.variants.front().sample, 1});
              }),
              "nothing is known of Megatron in tf32");
}

// Products and attention take what they take in Megatron; norms of several kernels cost besides.
TEST(TransformersTime, AddsUpProductsAttentionAndTraffic) {
  const Gpu h100 = *ec2("p5.48xlarge")->gpu;
  const auto time_of = [&](Workload w) {
    w.framework = Framework::transformers;
    return compute_time({w, h100, Precision::bf16, w.variants.front().sample, 4});
  };
  const double tokens = 4.0 * 4096, root = 32000.0 * 4096,
               blocks = 32 * (4 * 4096.0 * 4096 + 3 * 4096.0 * 11008),
               scores = 12 * 32 * 4096 * 4096.0, ends = 32 * 4096,
               outputs = 32 * (5 * 4096 + 2 * 11008);
  const double seconds =
      tokens * (6 * (blocks + root) / (0.79 * 989e12) + scores / 2 / (0.45 * 989e12) +
                (78 * outputs + 366 * ends + 112 * 32000) / 3350e9);
  const ComputeTime llama = time_of(Workloads().load("llama2-7b"));
  EXPECT_NEAR(llama.forward_backward.value, seconds, 1e-3 * seconds);
  EXPECT_SAYS(llama.source, "estimate for Hugging Face's transformers, not compiled");
  EXPECT_DOUBLE_EQ(llama.within.slower, training_constants().transformers.within.slower);
  EXPECT_TRUE(has_separate_norms(Workloads().load("llama2-7b")));
  EXPECT_TRUE(has_separate_norms(Workloads().load("t5-base")));
  EXPECT_FALSE(has_separate_norms(Workloads().load("gpt2-124m"))) << "LayerNorm is one kernel";
  EXPECT_FALSE(has_separate_norms(Workloads().load("bert-large")));
  Workload refused = Workloads().load("llama2-7b");
  refused.framework = Framework::transformers;
  EXPECT_SAYS(error_of([&] {
                compute_time({refused, h100, Precision::fp8, "4096 tokens", 1});
              }),
              "nothing is known of Hugging Face's transformers in fp8");
}

TEST(TransformersTime, NormsAreWhatTensorParallelismLeavesWhole) {
  const Gpu h100 = *ec2("p5.48xlarge")->gpu;
  const auto part = [&](const char* name, Framework framework) {
    Workload w = Workloads().load(name);
    w.framework = framework;
    return undivided_by_tensors({w, h100, Precision::bf16, w.variants.front().sample, 2});
  };
  // Of two samples: two layers' outputs and two norms of each block, beside the whole.
  const double ends = 32 * 4096.0 * 4096 * 2, seconds = (2 * 78 + 366) * ends / 3350e9;
  Workload llama = Workloads().load("llama2-7b");
  llama.framework = Framework::transformers;
  const ComputeTime whole = compute_time({llama, h100, Precision::bf16, "4096 tokens", 2});
  EXPECT_NEAR(part("llama2-7b", Framework::transformers), seconds / whole.forward_backward.value,
              1e-3);
  EXPECT_LT(part("llama2-70b", Framework::transformers),
            part("llama2-7b", Framework::transformers));
  EXPECT_DOUBLE_EQ(part("llama2-7b", Framework::pytorch), 0.055);
}

// FSDP and DeepSpeed have the model itself in 16 bits, where autocast keeps fp32 between blocks.
TEST(TransformersMemory, NormsOfSeveralKernelsKeepWhatTheyRead) {
  const auto kept = [](const char* name, Framework framework, Sharding sharding) {
    Workload w = Workloads().load(name);
    w.framework = framework;
    MemoryQuestion q;
    q.workload = &w;
    q.sample = w.variants.front().sample;
    q.precision = q.gradient = Precision::bf16;
    q.sharding.sharding = sharding;
    return memory_of(q).activations.value;
  };
  const double tuned = kept("llama2-7b", Framework::pytorch, Sharding::none),
               each = 32.0 * 4096 * 4096;  // element that a block hands on
  EXPECT_DOUBLE_EQ(kept("llama2-7b", Framework::transformers, Sharding::none), tuned + 14 * each);
  EXPECT_DOUBLE_EQ(kept("llama2-7b", Framework::transformers, Sharding::zero3), tuned + 4 * each);
  EXPECT_DOUBLE_EQ(kept("gpt2-355m", Framework::transformers, Sharding::none),
                   kept("gpt2-355m", Framework::pytorch, Sharding::none));
}

// 500,000 times what the tensors take was taken without a word.
TEST(ComputeTime, IsDoubtfulWhereASampleTakesFarMoreThanItsTensors) {
  const Gpu gpu = *ec2("p5.48xlarge")->gpu;
  const auto source = [&](const Workload& w, const char* sample) {
    return compute_time({w, gpu, Precision::bf16, sample, 1}).source;
  };
  Workload bert = Workloads().load("bert-large");
  bert.measured.clear();
  EXPECT_SAYS_NOT(source(bert, "512 tokens"), "doubtful");
  for (Variant& v : bert.variants) v.train_gflop *= 1000;
  EXPECT_SAYS(source(bert, "512 tokens"), "times what its tensors' products take)");
  // What a shape says of long sequences nobody wrote down wrongly.
  Workload llama = Workloads().load("llama3-8b");
  llama.variants[0].train_gflop *= 1000;
  EXPECT_SAYS_NOT(source(llama, "8192 tokens"), "doubtful");
}

// An A100's tensor cores wait less for memory than an H100's: by H100's shares fine-tuning 7B to 8B
// on A100 was predicted to take up to 1.3 times as long as it took.
TEST(TransformersTime, AnA100ReachesMoreOfItsPeak) {
  Workload llama = Workloads().load("llama2-7b");
  llama.framework = Framework::transformers;
  const auto share = [&](const char* instance) {
    const Gpu gpu = *ec2(instance)->gpu;
    const MicroBatch b{llama, gpu, Precision::bf16, "4096 tokens", 4};
    return compute_at_peak(b) / compute_time(b).forward_backward;
  };
  EXPECT_GT(share("p4de.24xlarge"), 1.04 * share("p5.48xlarge"));
  EXPECT_LT(share("p4de.24xlarge"), 0.8);
}

}  // namespace
}  // namespace foreduce
