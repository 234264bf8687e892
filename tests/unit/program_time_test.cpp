// How long computing takes in NVIDIA's own programs, and what memory it needs there.
#include <gtest/gtest.h>

#include "models/compute.hpp"
#include "models/megatron.hpp"
#include "models/memory.hpp"
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
  EXPECT_GT(a100.within.slower, fp8.within.slower) << "none of these programs is published on A100";
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

}  // namespace
}  // namespace foreduce
