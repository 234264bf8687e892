// How long computing takes on a GPU, and what memory it needs: measured rates, estimates, batches.
#include "models/compute.hpp"
#include "models/memory.hpp"
#include "models/micro_batch.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "scenarios/sweep/predict.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// As if nobody had measured it on an H100.
Workload without_h100(const std::string& name) {
  Workload workload = Workloads().load(name);
  std::erase_if(workload.measured, [](const Measured& m) { return m.gpu == "H100"; });
  return workload;
}

TEST(ComputeTime, IsMeasuredElseEstimated) {
  const Workload bert = without_h100("bert-large");
  const ComputeTime v100 =
      compute_time({bert, *ec2("p3dn.24xlarge")->gpu, Precision::fp16, "512 tokens", 8});
  EXPECT_TRUE(v100.measured);
  EXPECT_NEAR(v100.forward_backward.value, 8 / 52.8,
              1e-3);  // 256 micro-batches share an optimizer step
  EXPECT_NEAR(v100.optimizer.value, 336226108.0 * 28 / (0.78 * 900e9), 1e-9);
  const ComputeTime h100 =
      compute_time({bert, *ec2("p5.48xlarge")->gpu, Precision::bf16, "512 tokens", 8});
  EXPECT_FALSE(h100.measured);
  // Beside a constant of 13 ms: what would be arithmetic at the best share of 60 % goes with the
  // peak, a twentieth with nothing, and the rest with the memory's bandwidth.
  const auto moved = [](double share, double peak, double bandwidth) {
    const double arithmetic = 0.95 * share / 0.6, peaks = 989 / peak,
                 time = 0.05 + arithmetic / peaks + (0.95 - arithmetic) * bandwidth / 3350;
    return share / (peaks * time);
  };
  const double by_a100 = moved(136.7 * 1.008 / 312 / (1 - 13 / (32 / 0.1367)), 312, 2039),
               by_v100 = moved(52.8 * 1.008 / 125 / (1 - 13 / (8 / 0.0528)), 125, 900);
  const auto on_h100 = [&](int batch) {
    return compute_time({bert, *ec2("p5.48xlarge")->gpu, Precision::bf16, "512 tokens", batch});
  };
  EXPECT_NEAR(on_h100(32).forward_backward.value,
              13e-3 + 32 * 1008e9 / ((by_a100 + by_v100) / 2 * 989e12), 1e-4);
  // The host launches the kernels of 398 tensors one by one.
  EXPECT_NEAR(on_h100(4).forward_backward.value, 51.74e-3, 1e-6);
  EXPECT_GT(on_h100(4).within.faster, 1.2 * on_h100(32).within.faster);
  EXPECT_SAYS(
      h100.source,
      "estimate, 33 % of 989 TFLOPS (16 % with launches and what else each micro-batch waits "
      "for): measured 44 % on A100 at batch 32, 43 % on V100 at batch 8");
}

// The peak beside it is that of the estimate, which is of bf16.
TEST(ComputeTime, SaysWhosePeakATimeInFp8IsOf) {
  const Workload llama = Workloads().load("llama3-8b");
  const ComputeTime fp8 =
      compute_time({llama, *ec2("p5.48xlarge")->gpu, Precision::fp8, "8192 tokens", 1});
  EXPECT_SAYS(fp8.source,
              "estimate, 44 % of 989 TFLOPS in bf16, of whose time FP8 halves 40 % in PyTorch; "
              "NVIDIA's own programs, framework megatron, gain more: ");
}

// Estimates of two precisions knew nothing of each other: TF32 took 3.7 times as long as fp32.
TEST(ComputeTime, IsNoLongerInANarrowerPrecision) {
  const Workloads all;
  for (const std::string& name : all.names()) {
    const Workload workload = all.load(name);
    for (const char* instance : {"g5.48xlarge", "g6.48xlarge", "p4d.24xlarge", "p5.48xlarge"})
      for (const int batch : {1, 4, 32}) {
        const auto of = [&](Precision precision) {
          return compute_time(
              {workload, *ec2(instance)->gpu, precision, workload.variants.front().sample, batch});
        };
        const ComputeTime fp16 = of(Precision::fp16), tf32 = of(Precision::tf32),
                          fp32 = of(Precision::fp32);
        SCOPED_TRACE(testing::Message() << name << " on " << instance << " at batch " << batch);
        EXPECT_TRUE(tf32.measured || tf32.forward_backward <= fp32.forward_backward);
        EXPECT_TRUE(fp16.measured || tf32.measured ||
                    fp16.forward_backward <= tf32.forward_backward);
      }
  }
}

// What launches take is the same on every GPU: eight images on an H100, from which the others'
// rates are, took longer than on an A100, and 1.75 times as long as on an H200.
TEST(ComputeTime, ASmallBatchTakesHardlyLessOnAFasterGpu) {
  for (const char* model : {"vgg16", "vit-b16", "vit-l16", "gpt2-124m", "resnet50", "bert-large"})
    for (const int batch : {1, 8, 32}) {
      const Workload workload = Workloads().load(model);
      const auto seconds = [&](const char* instance) {
        return compute_time({workload, *ec2(instance)->gpu, Precision::fp16,
                             workload.variants.front().sample, batch})
            .forward_backward.value;
      };
      SCOPED_TRACE(testing::Message() << model << " at batch " << batch);
      EXPECT_LE(seconds("p5.48xlarge"), 1.01 * seconds("p4de.24xlarge"));
      EXPECT_LE(seconds("p5.48xlarge"), 1.44 * seconds("p5en.48xlarge"));
      // Launches on H200 are those of any host, on H100 no longer than was measured there.
      EXPECT_LE(seconds("p5en.48xlarge"), 1.05 * seconds("p5.48xlarge"));
    }
}

// Three layers do not launch the kernels of a network of fifty.
TEST(ComputeTime, FewLayersWaitForFewLaunches) {
  Workload small = Workloads().load("resnet50");
  small.measured.clear();
  small.tensors.resize(6);
  small.variants = {{"4096 features", 0.2259}};
  const Gpu gpu = *ec2("p5.48xlarge")->gpu;
  const double seconds =
      compute_time({small, gpu, Precision::bf16, "4096 features", 64}).forward_backward.value;
  EXPECT_LT(seconds, 1e-3);
}

Measured rate_at(int batch, double samples_per_s) {
  return {"A100",        Precision::fp16, "512 tokens", batch,
          samples_per_s, 1'000'000,       "pytorch",    "test"};
}

// 64 times the batch is not 64 times the time: a micro-batch costs something beyond its samples.
TEST(ComputeTime, GrowsSlowerThanTheBatch) {
  Workload bert = Workloads().load("bert-large");
  const Gpu gpu = *ec2("p4d.24xlarge")->gpu;
  const auto seconds = [&](int batch) {
    return compute_time({bert, gpu, Precision::fp16, "512 tokens", batch}).forward_backward.value;
  };
  bert.measured = {rate_at(64, 200)};
  EXPECT_NEAR(seconds(64), 0.32, 1e-4);
  EXPECT_GT(seconds(4), seconds(64) / 16 + 0.01);
  EXPECT_LT(seconds(4), seconds(64) / 4);
  EXPECT_LT(seconds(256), 4 * seconds(64));
  for (int b = 1; b < 300; ++b) EXPECT_LE(seconds(b), seconds(b + 1));  // launches take as long
  for (int b = 16; b < 300; ++b) EXPECT_LT(seconds(b), seconds(b + 1));
  bert.measured.push_back(rate_at(16, 160));  // 100 ms
  EXPECT_NEAR(seconds(40), (0.1 + 0.32) / 2, 1e-4);
  EXPECT_NEAR(seconds(16), 0.1, 1e-4);
}

// petuum/adaptdl measured ResNet-50 on one T4 at many batches; the shipped rate is of batch 115.
TEST(ComputeTime, FollowsTheT4AtSmallBatches) {
  const Workload resnet = Workloads().load("resnet50");
  const Gpu t4 = *ec2("g4dn.12xlarge")->gpu;
  for (const auto& [batch, seconds] :
       {std::pair{20, 0.147}, {40, 0.253}, {81, 0.421}, {200, 0.924}})
    EXPECT_NEAR(
        compute_time({resnet, t4, Precision::fp16, "224x224 image", batch}).forward_backward.value /
            seconds,
        1, 0.12)
        << batch;
}

// The estimate does not see the rates of the GPU that it is made for; 90 % must be within its
// factor.
TEST(ComputeTime, EstimatesAGpuFromTheOthers) {
  int good = 0, all = 0;
  const std::vector<std::string> names = Workloads().names();
  for (const std::string& name : names) {
    const Workload whole = Workloads().load(name);
    for (const Measured& m : whole.measured) {
      Workload others = whole;
      std::erase_if(others.measured, [&](const Measured& o) { return o.gpu == m.gpu; });
      const char* instance = m.gpu == "V100"   ? "p3dn.24xlarge"
                             : m.gpu == "A100" ? "p4de.24xlarge"
                             : m.gpu == "H100" ? "p5.48xlarge"
                             : m.gpu == "H200" ? "p5en.48xlarge"
                                               : "g4dn.12xlarge";
      const Gpu gpu = *ec2(instance)->gpu;
      const ComputeTime guess = compute_time({others, gpu, m.precision, m.sample, m.batch});
      ASSERT_FALSE(guess.measured);
      const double truth = (m.batch / m.samples_per_s) / guess.forward_backward.value;
      ++all;
      good += truth < guess.within.slower && truth > 1 / guess.within.faster;
    }
  }
  EXPECT_GE(all, 15);
  EXPECT_GE(good, 0.9 * all) << good << " of " << all;
}

// ResNet-50 reaches 19 % of the A100's peak. Less than a third of its time is arithmetic, so an L4
// with 0.39 of the peak and 0.15 of the bandwidth is nearer to 0.15. MLPerf measured 0.21 (v3.0).
TEST(ComputeTime, GoesWithMemoryBandwidthWhereArithmeticIsTheLesserPart) {
  Workload resnet = Workloads().load("resnet50");
  std::erase_if(resnet.measured, [](const Measured& m) { return m.gpu != "A100"; });
  const auto seconds = [&](const char* instance) {
    return compute_time({resnet, *ec2(instance)->gpu, Precision::fp16, "224x224 image", 256})
        .forward_backward.value;
  };
  EXPECT_NEAR(seconds("p4de.24xlarge") / seconds("g6.48xlarge"), 0.205, 0.03);
  // 1.61 by models/reference/steps.csv, which sets no rate of ResNet-50's.
  EXPECT_NEAR(seconds("p4de.24xlarge") / seconds("p5.48xlarge"), 1.61, 0.12);
}

// What an estimate says is of the A100; a user's own GPU may take its place.
TEST(ComputeTime, MovesTheEstimateFromItsGpu) {
  Workload gpt2 = Workloads().load("gpt2-355m");
  gpt2.measured.clear();
  const Gpu h100 = *ec2("p5.48xlarge")->gpu, a100 = *ec2("p4de.24xlarge")->gpu;
  const auto share = [&](const Gpu& gpu) {
    return compute_at_peak({gpt2, gpu, Precision::fp16, "1024 tokens", 64}) /
           compute_time({gpt2, gpu, Precision::fp16, "1024 tokens", 64}).forward_backward;
  };
  EXPECT_NEAR(share(a100), 0.43, 1e-9);
  EXPECT_LT(share(h100), 0.4);
  gpt2.estimate.gpu = "H100";
  EXPECT_NEAR(share(h100), 0.43, 1e-9);
  EXPECT_GT(share(a100), 0.43);
  const auto slower = [&](const Gpu& gpu) {
    return compute_time({gpt2, gpu, Precision::fp16, "1024 tokens", 64}).within.slower;
  };
  EXPECT_EQ(slower(h100), training_constants().estimate_within);
  gpt2.estimate.within = Spread{1.1, 1.3};
  EXPECT_EQ(slower(h100), 1.3) << "published of this GPU";
  EXPECT_EQ(slower(a100), training_constants().transferred.slower) << "and both data sheets";
  gpt2.estimate.gpu = "A10O";
  EXPECT_SAYS(error_of([&] { share(h100); }), "no instance type has a GPU called 'A10O'");
}

TEST(ComputeTime, RefusesAMeasurementAboveThePeak) {
  Workload bert = Workloads().load("bert-large");
  bert.measured = {rate_at(32, 400)};
  EXPECT_SAYS(error_of([&] {
                compute_time({bert, *ec2("p4d.24xlarge")->gpu, Precision::fp16, "512 tokens", 32});
              }),
              "129 % of A100");
  const std::vector<std::string> names = Workloads().names();
  for (const std::string& name : names) {
    const Workload shipped = Workloads().load(name);
    for (const Measured& m : shipped.measured)
      for (const char* instance : {"p3dn.24xlarge", "p4d.24xlarge", "g4dn.12xlarge"})
        if (const Gpu gpu = *ec2(instance)->gpu; gpu.model.starts_with(m.gpu)) {
          const Seconds least = compute_at_peak({shipped, gpu, m.precision, m.sample, 1});
          EXPECT_LT(least.value * m.samples_per_s, 1)
              << name << " " << m.gpu << " " << to_text(m.precision);
        }
  }
}

TEST(Activations, AreThirtyFourBytesATokenAndHiddenUnit) {
  const Workload gpt = Workloads().load("gpt2-1.5b");  // 48 layers, 1600 wide, 1024 tokens
  const auto bytes = [&](Precision precision, int batch, Recompute how) {
    return activations(gpt, "1024 tokens", precision, batch, how).value;
  };
  const double logits = 4.0 * 1024 * 50257, korthikanti = 34.0 * 1024 * 1600 * 48;
  EXPECT_NEAR((bytes(Precision::fp16, 1, Recompute::none) - logits) / korthikanti, 1, 0.1);
  EXPECT_DOUBLE_EQ(bytes(Precision::fp16, 8, Recompute::none),
                   8 * bytes(Precision::fp16, 1, Recompute::none));
  EXPECT_DOUBLE_EQ(bytes(Precision::fp32, 1, Recompute::none),
                   2 * bytes(Precision::bf16, 1, Recompute::none));
  // Each block's input in 16 bits, one block whole, and the logits, which nothing recomputes.
  EXPECT_DOUBLE_EQ(bytes(Precision::fp16, 1, Recompute::full),
                   logits + 2.0 * 1024 * 1600 * 48 + 36.0 * 1024 * 1600);
  // Of the 9 outputs of a block half, its input, and attention's output.
  EXPECT_DOUBLE_EQ(bytes(Precision::fp16, 1, Recompute::selective),
                   logits + (9 + 4) * 1024.0 * 1600 * 48 + 36.0 * 1024 * 1600);
  const Workload bert = Workloads().load("bert-large");
  EXPECT_NEAR(activations(bert, "128 tokens", Precision::fp16, 4, Recompute::none) /
                  activations(bert, "512 tokens", Precision::fp16, 1, Recompute::none),
              1, 1e-9);
}

// What somebody trained with did fit.
TEST(Activations, FitWhereSomebodyMeasured) {
  const auto memory = [](const std::string& gpu) {
    return gpu == "V100"   ? ec2("p3dn.24xlarge")->gpu->memory
           : gpu == "A100" ? ec2("p4de.24xlarge")->gpu->memory
           : gpu == "H100" ? ec2("p5.48xlarge")->gpu->memory
                           : ec2("g4dn.12xlarge")->gpu->memory;
  };
  const std::vector<std::string> names = Workloads().names();
  for (const std::string& name : names) {
    const Workload w = Workloads().load(name);
    for (const Measured& m : w.measured)
      EXPECT_LE(Bytes{16.0 * static_cast<double>(w.elements())} +
                    activations(w, m.sample, m.precision, m.batch, Recompute::none),
                memory(m.gpu))
          << name << " on " << m.gpu << " in " << to_text(m.precision) << " at batch " << m.batch;
  }
}

/// Each channel keeps one multiprocessor: 2 of a T4's 40. Where either is unknown, the measured
/// average.
TEST(ComputeShare, LosesOneMultiprocessorPerChannel) {
  Gpu t4 = *ec2("g4dn.12xlarge")->gpu;
  EXPECT_DOUBLE_EQ(compute_share(t4, 2), 0.95);
  EXPECT_DOUBLE_EQ(compute_share(t4, 0), training_constants().compute_share);
  EXPECT_GT(compute_share(t4, 100), 0);
  t4.sms = 0;
  EXPECT_DOUBLE_EQ(compute_share(t4, 2), training_constants().compute_share);
}

TEST(ComputeTime, RefusesBf16OnGpusWithoutIt) {
  const Workload bert = Workloads().load("bert-large");
  EXPECT_THROW(compute_time({bert, *ec2("p3dn.24xlarge")->gpu, Precision::bf16, "512 tokens", 8}),
               InputError);
  EXPECT_THROW(compute_time({bert, *ec2("g4dn.12xlarge")->gpu, Precision::bf16, "512 tokens", 8}),
               InputError);
  EXPECT_GT(compute_time({bert, *ec2("p4d.24xlarge")->gpu, Precision::bf16, "512 tokens", 8})
                .forward_backward.value,
            0);
}

TEST(ComputeTime, RefusesARateAboveThePeak) {
  const Workload bert = Workloads().load("bert-large");
  const Gpu gpu = *ec2("p4d.24xlarge")->gpu;  // 312 TFLOPS; a sample of 512 tokens is 1.008 TFLOP
  const auto error = error_of([&] {
    compute_time({bert, gpu, Precision::bf16, "512 tokens", 8}, AskersRate{15000});
  });
  EXPECT_SAYS(error, "15000 samples a second are 1.512e+04 TFLOPS, 4846 % of A100");
  EXPECT_SAYS(error, "a rate is of one GPU alone");
  EXPECT_SAYS(compute_time({bert, gpu, Precision::bf16, "512 tokens", 8}, AskersRate{270}).source,
              "doubtful");
  EXPECT_SAYS_NOT(
      compute_time({bert, gpu, Precision::bf16, "512 tokens", 8}, AskersRate{200}).source,
      "doubtful");
}

TEST(ComputeTime, Tf32IsHalfOfFp16AndOnlyFromTheA100On) {
  Workload gpt2 = Workloads().load("gpt2-355m");
  gpt2.measured.clear();
  const auto seconds = [&](const char* instance, Precision precision) {
    return compute_time({gpt2, *ec2(instance)->gpu, precision, "1024 tokens", 8})
        .forward_backward.value;
  };
  EXPECT_NEAR(seconds("p4d.24xlarge", Precision::tf32) / seconds("p4d.24xlarge", Precision::bf16),
              2, 1e-9);
  EXPECT_GT(seconds("p4d.24xlarge", Precision::fp32), 2 * seconds("p4d.24xlarge", Precision::tf32));
  EXPECT_SAYS(error_of([&] { seconds("p3dn.24xlarge", Precision::tf32); }),
              "has no TF32 arithmetic");
}

// FP8 is of products alone: faster than bf16 by less than two, with its memory and its wires.
TEST(ComputeTime, InFp8IsBetweenBf16AndTwiceAsFast) {
  const Workload llama = Workloads().load("llama3-8b");
  const std::string sample = llama.variants.front().sample;
  for (const char* instance : {"p5.48xlarge", "p6-b200.48xlarge", "g6e.48xlarge"}) {
    const Gpu gpu = *ec2(instance)->gpu;
    const ComputeTime bf16 = compute_time({llama, gpu, Precision::bf16, sample, 1}),
                      fp8 = compute_time({llama, gpu, Precision::fp8, sample, 1});
    EXPECT_LT(fp8.forward_backward, bf16.forward_backward);
    EXPECT_GT(fp8.forward_backward, 0.75 * bf16.forward_backward);
    EXPECT_GT(fp8.within.slower, bf16.within.slower);
    EXPECT_DOUBLE_EQ(2 * fp8.least.value, bf16.least.value);
    EXPECT_EQ(fp8.optimizer, bf16.optimizer);
    EXPECT_FALSE(
        compute_time({Workloads().load("bert-large"), gpu, Precision::fp8, "512 tokens", 8})
            .measured);
  }
  EXPECT_SAYS(
      error_of([&] {
        compute_time({llama, *ec2("p4d.24xlarge")->gpu, Precision::fp8, sample, 1});
      }),
      "A100-SXM4-40GB has no FP8 tensor cores, which came with Ada and Hopper\n  precision: "
      "bf16");
  MemoryQuestion question;
  question.workload = &llama;
  question.sample = sample;
  question.precision = question.gradient = Precision::bf16;
  MemoryQuestion eight = question;
  eight.precision = Precision::fp8;
  EXPECT_EQ(memory_of(eight).peak(), memory_of(question).peak());
}

// 90 % of the peak with what is computed again: the time stays what the rate says, the optimizer
// takes what is left of it, and the rate is called doubtful.
TEST(ComputeTime, AUsersRateHoldsWithRecomputation) {
  const Workload llama = Workloads().load("llama2-7b");
  const Gpu h100 = *ec2("p5.48xlarge")->gpu;
  const std::string sample = llama.variants[0].sample;
  const double again = 4.0 / 3,
               at_peak =
                   1 / (again * compute_at_peak({llama, h100, Precision::bf16, sample, 1}).value);
  const ComputeTime time =
      compute_time({llama, h100, Precision::bf16, sample, 1}, AskersRate{0.9 * at_peak, 1, again});
  EXPECT_NEAR((time.forward_backward + time.optimizer).value, 1 / (0.9 * at_peak), 1e-9);
  EXPECT_GE(time.forward_backward, time.least);
  EXPECT_SAYS(time.source, "doubtful");
  EXPECT_SAYS(error_of([&] {
                compute_time({llama, h100, Precision::bf16, sample, 1},
                             AskersRate{1.1 * at_peak, 1, again});
              }),
              "a rate with recompute is measured with it");
}

// A card with fast fp32 units and slow memory: wider numbers take more of its bandwidth, so it is
// slower in fp32 than in 16 bits, and 16 bits do not inherit the units' speed.
TEST(ComputeTime, InFp32TakesMoreOfTheMemorysBandwidth) {
  for (const char* model : {"resnet50", "bert-base", "maskrcnn", "vgg16", "t5-large"}) {
    const Workload workload = Workloads().load(model);
    const std::string sample = workload.variants.front().sample;
    const auto seconds = [&](const char* instance, Precision precision) {
      return compute_time({workload, *ec2(instance)->gpu, precision, sample, 64})
          .forward_backward.value;
    };
    for (const char* card : {"g5.48xlarge", "g6.48xlarge", "g6e.48xlarge", "g7e.48xlarge"}) {
      EXPECT_GT(seconds(card, Precision::fp32), 1.3 * seconds(card, Precision::bf16))
          << model << " on " << card;
      EXPECT_GE(seconds(card, Precision::fp32), seconds(card, Precision::tf32));
    }
    if (model != std::string("vgg16")) {  // whose fp32 is hardly anything but products
      EXPECT_LT(seconds("p5.48xlarge", Precision::fp32), seconds("g6e.48xlarge", Precision::fp32))
          << model;
    }
    EXPECT_LT(seconds("p4d.24xlarge", Precision::bf16), seconds("g6e.48xlarge", Precision::bf16))
        << model;
  }
}

// FP8 and frozen weights launch no fewer kernels, and leave attention's scores as they are.
// Adapters launch four times as many, but for NVIDIA's programs.
TEST(ComputeTime, LaunchesAndScoresAreNotShortened) {
  Workload bert = Workloads().load("bert-large");
  const Gpu h100 = *ec2("p5.48xlarge")->gpu;
  const auto seconds = [&](Precision precision, int batch) {
    return compute_time({bert, h100, precision, "512 tokens", batch}).forward_backward.value;
  };
  EXPECT_NEAR(seconds(Precision::bf16, 1), 51.74e-3, 1e-6);
  EXPECT_NEAR(seconds(Precision::fp8, 1), 51.74e-3, 1e-6);
  bert.trainable = 0.5;
  EXPECT_NEAR(seconds(Precision::bf16, 1), 51.74e-3, 1e-6);
  bert.trainable = 0.01;
  EXPECT_NEAR(seconds(Precision::bf16, 1), 4 * 51.74e-3, 1e-6);
  Workload llama = Workloads().load("llama2-7b");
  const auto of_scores = [&](Precision precision) {
    llama.attention_scores = 0;
    const Seconds fused = compute_time({llama, h100, precision, "4096 tokens", 4}).forward_backward;
    llama.attention_scores = 32.0 * 32 * 4096 * 4096;
    return (compute_time({llama, h100, precision, "4096 tokens", 4}).forward_backward - fused)
        .value;
  };
  const double whole = of_scores(Precision::bf16);
  EXPECT_GT(whole, 0.5);
  EXPECT_NEAR(of_scores(Precision::fp8), whole, 1e-6);
  llama.trainable = 0.001;
  EXPECT_NEAR(of_scores(Precision::bf16), whole, 1e-6);
}

// Each GPU of a tensor-parallel group launches the kernels of all tensors; a stage those of its
// own.
TEST(ComputeTime, TensorParallelismDividesNoLaunches) {
  const auto compute = [](const std::string& divided) {
    const Scenario scenario = parse_scenario("s.yaml", R"(
workload: { model: bert-large, precision: bf16, batch_per_gpu: 1, sharding: zero1, )" +
                                                           divided + R"( }
cluster: { instance: p5.48xlarge, nodes: 1 }
allreduce: { algorithm: ring }
)");
    const Step step = predict(scenario, {}).points.at(0).step;
    return (step.compute - step.overhead).value;
  };
  EXPECT_GT(compute("tensor_parallel: 1"), 51.74e-3);
  EXPECT_GT(compute("tensor_parallel: 8"), 51.74e-3);
  EXPECT_LT(compute("pipeline: 4"), 26e-3);
}

TEST(ComputeTime, IsTheUsersOwnMeasurement) {
  const Workload bert = Workloads().load("bert-large");
  const Gpu gpu = *ec2("p3dn.24xlarge")->gpu;
  const ComputeTime t = compute_time({bert, gpu, Precision::fp16, "512 tokens", 8}, AskersRate{40});
  EXPECT_NEAR((t.forward_backward + t.optimizer).value, 8.0 / 40, 1e-12);
  EXPECT_THROW(compute_time({bert, gpu, Precision::bf16, "512 tokens", 8}, AskersRate{40}),
               InputError);
  const auto slower = [&](const Gpu& on, std::string_view framework) {
    return compute_time({bert, on, Precision::fp16, "512 tokens", 8}, framework).within.slower;
  };
  EXPECT_LT(t.within.slower, slower(gpu, "pytorch"));
  EXPECT_LT(slower(gpu, "pytorch"), slower(gpu, "tensorflow"));
  EXPECT_LT(slower(gpu, "pytorch"), slower(*ec2("g5.48xlarge")->gpu, "pytorch"));
}

/// ZeRO, section 3.1: GPT-2 of 1.5 billion parameters needs 24 GB.
TEST(TrainingState, IsSixteenBytesPerParameter) {
  const Workload gpt2 = Workloads().load("gpt2-1.5b");
  MemoryQuestion question;
  question.workload = &gpt2;
  question.sample = gpt2.variants.front().sample;
  question.precision = question.gradient = Precision::fp16;
  EXPECT_NEAR(memory_of(question).state().value, 24e9, 1e9);
}

}  // namespace
}  // namespace foreduce
