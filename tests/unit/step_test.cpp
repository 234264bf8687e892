// The training step: buckets as the frameworks fill them, and the timeline by hand.
#include "models/compute.hpp"
#include "models/memory.hpp"
#include "models/step.hpp"
#include "models/tensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "tests/support/errors.hpp"
#include "tests/support/files.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

std::vector<double> mebibytes(const std::vector<Bucket>& buckets, std::size_t element_size) {
  std::vector<double> sizes;
  for (const Bucket& b : buckets)
    sizes.push_back(static_cast<double>(b.elements * element_size) / 1048576);
  return sizes;
}

/// Buckets as PyTorch fills them by default: the first of 1 MiB, the others of 25 MiB.
std::vector<Bucket> default_buckets(const Workload& w, std::size_t element_size) {
  return ddp_buckets(w.tensors, element_size, Bytes{1 << 20}, Bytes{25 << 20});
}

void expect_sizes(const std::string& model, const std::vector<double>& published) {
  const auto sizes = mebibytes(default_buckets(Workloads().load(model), 4), 4);
  ASSERT_EQ(sizes.size(), published.size()) << model;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    EXPECT_NEAR(sizes[i], published[i], 0.051) << model << ", bucket " << i;
}

/// fp32, first launched first, as listed with the tensor tables.
TEST(DdpBuckets, MatchPyTorch) {
  expect_sizes("resnet50", {7.8, 30.0, 25.0, 25.3, 9.3});
  expect_sizes("vgg16", {15.6, 64, 392, 27, 27, 2.1});
  expect_sizes("maskrcnn", {1.1, 63.8, 28, 29, 26.8, 20.7});
  expect_sizes("bert-base", {2.3, 27.2, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 93.2});
  expect_sizes("gpt2-124m", {9, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 168.3});
  expect_sizes("vit-b16", {2.9, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 2.8});
  const Workload large = Workloads().load("bert-large");
  EXPECT_EQ(default_buckets(large, 4).size(), 38u);
  EXPECT_EQ(default_buckets(large, 2).size(), 22u);
}

TEST(DdpBuckets, AreReadyWhenMeasuredLayersEnd) {
  const Workload measured = Workloads().load("resnet50");
  Workload counted = measured;
  double backward = 0;
  for (Tensor& t : counted.tensors) {
    backward += t.backward;
    t.backward = 0;
  }
  EXPECT_NEAR(backward, 64.8e3, 50);  // the log's own total, in µs
  const auto buckets = default_buckets(measured, 4), guessed = default_buckets(counted, 4);
  // Late layers take less of backward than of the MACs, early ones (few channels, large images)
  // more.
  ASSERT_EQ(buckets.size(), guessed.size());
  for (std::size_t i = 1; i + 1 < buckets.size(); ++i)
    EXPECT_LT(buckets[i].ready, guessed[i].ready) << i;
  EXPECT_NEAR(buckets[3].ready, 0.3908, 1e-4);  // 25.3 of 64.8 ms in the log; 49 % of the MACs
  EXPECT_EQ(buckets.back().ready, 1);
}

TEST(Workloads, HavePublishedParameterCounts) {
  const Workloads all;
  EXPECT_GE(all.names().size(), 15u);
  for (const std::string& name : all.names())
    EXPECT_NO_THROW(all.load(name)) << name;  // load checks the total
  EXPECT_EQ(all.load("resnet50").elements(), 25557032u);
  EXPECT_EQ(all.load("llama2-7b").elements(), 6738415616u);
}

// `blocks` and `parameters` say nothing of MACs: parameters stand for them, and buckets overlap.
std::string workload_error(const std::string& parameters, const std::string& tensors) {
  const TemporaryFolder folder;
  folder.write("t.csv", tensors);
  const auto file = folder.write("w.yaml", R"(workload: w
title: W
tensors: t.csv
parameters: )" + parameters + R"(
variants: [{ sample: s, train_gflop: 1 }]
estimate: { fp16: 0.4, fp32: 0.5, source: x }
)");
  return error_of([&] { Workloads::load_file(file); });
}

TEST(Workloads, TensorsMustAddUp) {
  const std::string tensors = R"(a,10,5
b,20,0
)";
  EXPECT_EQ(workload_error("30", tensors), "(accepted)");
  EXPECT_NE(workload_error("31", tensors), "(accepted)");
  EXPECT_NE(workload_error("30", R"(a,10,5
b,2x0,0
)"),
            "(accepted)");
}

TEST(Workloads, RefuseATensorTwice) {
  const TemporaryFolder folder;
  const auto file = folder.write("w.yaml", R"(
workload: w
tensors: |
  a,100,100
  b,5,5
  a,100,100
variants: [{ sample: x, train_gflop: 1 }]
)");
  EXPECT_SAYS(error_of([&] { Workloads::load_file(file); }), "'a' was on line 4 already");
}

TEST(DdpBuckets, AreReadyByParametersWhereNoArithmeticIsKnown) {
  std::vector<Tensor> blocks(24);
  for (Tensor& t : blocks) t.elements = 10'000'000;
  const auto buckets = ddp_buckets(blocks, 4, Bytes{1 << 20}, Bytes{25 << 20});
  ASSERT_EQ(buckets.size(), 24u);
  for (std::size_t i = 0; i < buckets.size(); ++i)
    EXPECT_NEAR(buckets[i].ready, static_cast<double>(i + 1) / 24, 1e-12);
}

// nanoGPT's wte.weight is the output layer, too: a third of GPT-2 124M's arithmetic, with which
// backward begins, while its gradient is complete only when the embedding's is.
TEST(DdpBuckets, WaitForATiedOutputLayer) {
  const Workload tied = Workloads().load("gpt2-124m");
  const Tensor& output = tied.tensors.front();
  ASSERT_TRUE(is_tied_output(output)) << output.name;
  double all = 0;
  for (const Tensor& t : tied.tensors) all += t.macs;
  const auto buckets = default_buckets(tied, 4);
  EXPECT_GT(buckets.front().ready, output.macs / all);
  EXPECT_LT(buckets.front().ready, output.macs / all + 0.05);
  EXPECT_EQ(buckets.back().ready, 1);
  // An output layer of its own is the last that is registered, and so the first in backward anyway.
  for (const Tensor& t : Workloads().load("llama2-7b").tensors)
    EXPECT_FALSE(is_tied_output(t)) << t.name;
  for (const Tensor& t : Workloads().load("vit-b16").tensors) EXPECT_FALSE(is_tied_output(t));
}

/// Expects that no bucket is empty, that they are ready in order, and that together they hold
/// `elements`.
void expect_complete(const std::vector<Bucket>& buckets, std::size_t elements) {
  std::size_t sum = 0;
  double ready = 0;
  for (const Bucket& b : buckets) {
    EXPECT_GT(b.elements, 0u);
    EXPECT_GE(b.ready, ready);
    EXPECT_LE(b.ready, 1);
    ready = b.ready;
    sum += b.elements;
  }
  EXPECT_EQ(sum, elements);
}

TEST(Buckets, HoldEveryGradientOnce) {
  for (const char* name : {"resnet50", "bert-large", "gpt2-1.5b", "vgg16"}) {
    const Workload w = Workloads().load(name);
    for (const Bytes cap : {Bytes{1e5}, Bytes{1e6}, Bytes{25e6}, Bytes{1e10}}) {
      SCOPED_TRACE(testing::Message() << name << ", " << cap.value << " bytes");
      expect_complete(ddp_buckets(w.tensors, 2, Bytes{1e6}, cap), w.elements());
      expect_complete(balanced_buckets(w.tensors, 2, cap), w.elements());
      expect_complete(horovod_buckets(w.tensors, 2, cap, Seconds{5e-3}, Seconds{0.2}),
                      w.elements());
    }
  }
}

TEST(BalancedBuckets, AreEqualAndUnderTheCap) {
  const Workload w = Workloads().load("bert-large");
  std::size_t least = SIZE_MAX, most = 0;
  for (const Bucket& b : balanced_buckets(w.tensors, 2, Bytes{25 << 20})) {
    least = std::min(least, b.elements);
    most = std::max(most, b.elements);
  }
  EXPECT_LE(most - least, 1u);
  EXPECT_LE(most * 2, 25u << 20);
}

TEST(HorovodBuckets, WaitForTheCycle) {
  const std::vector<Tensor> tensors{{"a", 100, 1}, {"b", 100, 1}, {"c", 100, 1}, {"d", 100, 1}};
  const auto buckets = horovod_buckets(tensors, 4, Bytes{1e6}, Seconds{0.05}, Seconds{0.1});
  ASSERT_EQ(buckets.size(), 2u);  // ready at 25, 50, 75 and 100 ms: two ticks
  EXPECT_EQ(buckets[0].elements, 200u);
  EXPECT_DOUBLE_EQ(buckets[0].not_before.value, 0.05);
  EXPECT_DOUBLE_EQ(buckets[1].not_before.value, 0.10);
}

StepInput step_of(double forward, double backward, double optimizer, std::vector<Bucket> buckets) {
  StepInput in;
  in.forward = Seconds{forward};
  in.backward = Seconds{backward};
  in.optimizer = Seconds{optimizer};
  in.buckets = std::move(buckets);
  return in;
}

TEST(PlayStep, ExposesWhatBackwardDoesNotHide) {
  // Backward 10 … 30; gradients half way and at the end; each all-reduce takes 8.
  StepInput in = step_of(10, 20, 1, {{1, 0.5}, {1, 1.0}});
  const Step step = play_step(in, [](std::size_t) { return Seconds{8}; });
  EXPECT_DOUBLE_EQ(step.buckets[0].start.value, 20);
  EXPECT_DOUBLE_EQ(step.buckets[1].start.value, 30);
  EXPECT_DOUBLE_EQ(step.backward_end.value, 30);
  EXPECT_DOUBLE_EQ(step.total.value, 39);
  EXPECT_DOUBLE_EQ(step.exposed_communication.value, 8);
}

TEST(PlayStep, CommunicationSlowsBackward) {
  // From 20 to 28 backward runs at half speed: 4 of its last 10 are done by then, the other 6 end
  // at 34.
  StepInput in = step_of(10, 20, 0, {{1, 0.5}, {1, 1.0}});
  in.compute_share = 0.5;
  const Step step = play_step(in, [](std::size_t) { return Seconds{8}; });
  EXPECT_DOUBLE_EQ(step.backward_end.value, 34);
  EXPECT_DOUBLE_EQ(step.buckets[1].start.value, 34);
  EXPECT_DOUBLE_EQ(step.total.value, 42);
}

TEST(PlayStep, BucketsTravelOneAfterTheOther) {
  StepInput in = step_of(0, 10, 0, {{1, 0.1}, {2, 0.2}, {3, 0.3}});
  const Step step =
      play_step(in, [](std::size_t n) { return Seconds{static_cast<double>(10 * n)}; });
  EXPECT_DOUBLE_EQ(step.buckets[0].start.value, 1);
  EXPECT_DOUBLE_EQ(step.buckets[1].start.value, 11);
  EXPECT_DOUBLE_EQ(step.buckets[2].start.value, 31);
  EXPECT_DOUBLE_EQ(step.total.value, 61);
  EXPECT_DOUBLE_EQ(step.communication.value, 60);
}

TEST(PlayStep, WaitsForTheSlowestRank) {
  // Backward on the slowest takes 22 instead of 20: 11 … 33, and gradients come then.
  StepInput in = step_of(10, 20, 1, {{1, 0.5}, {1, 1.0}});
  in.slowest = 1.1;
  const Step step = play_step(in, [](std::size_t) { return Seconds{8}; });
  EXPECT_DOUBLE_EQ(step.buckets[0].start.value, 22);
  EXPECT_DOUBLE_EQ(step.total.value, 33 + 8 + 1);
  EXPECT_DOUBLE_EQ(step.compute.value, 31);
  EXPECT_NEAR(step.waiting.value, 3, 1e-12);
  EXPECT_NEAR(step.exposed_communication.value, 8, 1e-12);
}

TEST(SlowestOf, IsExpectedMaximumOfNormalSample) {
  EXPECT_DOUBLE_EQ(slowest_of(1, 0.5), 1);
  // Expected maxima of so many standard normals (Harter 1961).
  for (const auto& [n, maximum] :
       {std::pair{2, 0.56419}, {8, 1.42360}, {16, 1.76599}, {100, 2.50759}})
    EXPECT_NEAR(slowest_of(n, 0.1), 1 + 0.1 * maximum, 0.1 * 0.03) << n;
}

TEST(PlayStep, AccumulationCommunicatesOnce) {
  StepInput in = step_of(10, 20, 1, {{1, 1.0}});
  in.accumulation = 4;
  const Step step = play_step(in, [](std::size_t) { return Seconds{5}; });
  EXPECT_DOUBLE_EQ(step.total.value, 4 * 30 + 5 + 1);
  EXPECT_DOUBLE_EQ(step.exposed_communication.value, 5);
}

TEST(PlayStep, WithoutCommunicationIsCompute) {
  const Step step =
      play_step(step_of(10, 20, 1, {{1, 0.3}, {1, 1.0}}), [](std::size_t) { return Seconds{0}; });
  EXPECT_DOUBLE_EQ(step.total.value, 31);
  EXPECT_DOUBLE_EQ(step.exposed_communication.value, 0);
}

TEST(PlayStep, TakesAsLongAsComputeAndAsCommunication) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 dice(seed);
    const auto draw = [&] { return static_cast<double>(dice() % 1000) / 100; };
    const auto digit = [&] { return static_cast<std::size_t>(1 + dice() % 9); };
    std::vector<Bucket> buckets;
    double ready = 0;
    for (std::size_t i = 0, n = digit(); i < n; ++i) {
      ready = std::min(1.0, ready + draw() / 20);
      buckets.push_back({digit(), ready});
    }
    const double forward = draw(), backward = draw() + 0.1, optimizer = draw();
    StepInput in = step_of(forward, backward, optimizer, buckets);
    in.compute_share = 0.1 + draw() / 12;
    const Step step = play_step(in, [](std::size_t n) { return Seconds{static_cast<double>(n)}; });
    const double communication = step.communication.value;
    EXPECT_GE(step.total.value, step.compute.value - 1e-9);
    EXPECT_GE(step.total.value, forward + communication + optimizer - 1e-9);
    EXPECT_LE(step.total.value,
              forward + backward / in.compute_share + communication + optimizer + 1e-9);
  }
}

/// A step of which the network's time, 1, is all exposed.
StepInput exposed_step() { return step_of(1, 2, 0, {{100, 1.0}}); }
std::function<Seconds(std::size_t)> takes(double seconds) {
  return [seconds](std::size_t) { return Seconds{seconds}; };
}
constexpr double kUsual = 4;

TEST(SpanOfStep, IsAPointIfNothingIsUncertain) {
  const StepSpan known = span_of_step(exposed_step(), takes(1), takes(1), takes(1), {});
  EXPECT_DOUBLE_EQ(known.low.value, kUsual);
  EXPECT_DOUBLE_EQ(known.high.value, kUsual);
}

TEST(SpanOfStep, AddsSquaresOfUncertainties) {
  const StepInput in = exposed_step();
  const StepSpan by_network = span_of_step(in, takes(1), takes(0.5), takes(3), {});
  EXPECT_DOUBLE_EQ(by_network.low.value, 3.5);
  EXPECT_DOUBLE_EQ(by_network.high.value, 6);
  const StepSpan by_compute = span_of_step(in, takes(1), takes(1), takes(1), {2, 2});
  EXPECT_DOUBLE_EQ(by_compute.low.value, 2.5);
  EXPECT_DOUBLE_EQ(by_compute.high.value, 7);
  const StepSpan both = span_of_step(in, takes(1), takes(0.5), takes(3), {2, 2});
  const double up = std::hypot(std::log(6 / kUsual), std::log(7 / kUsual));
  const double down = std::hypot(std::log(kUsual / 3.5), std::log(kUsual / 2.5));
  EXPECT_NEAR(std::log(both.high.value / kUsual), up, 1e-12);
  EXPECT_NEAR(std::log(kUsual / both.low.value), down, 1e-12);
}

// 43 % of the peak x 2.5 would be 107 % of it.
TEST(SpanOfStep, NothingComputesFasterThanThePeak) {
  StepInput in = exposed_step();
  in.least_compute = Seconds{2.7};  // of 3: 90 % of the peak
  EXPECT_DOUBLE_EQ(span_of_step(in, takes(1), takes(1), takes(1), {2, 2}).low.value, 3.7);
  EXPECT_GE(span_of_step(in, takes(0.01), takes(1e-9), takes(1), {2, 2}).low.value, 2.7);
}

TEST(SpanOfStep, HorovodsCycleDoesNotHoldAFasterStepBack) {
  StepInput in = exposed_step();
  in.buckets = {{100, 1.0, Seconds{2}}};
  EXPECT_DOUBLE_EQ(span_of_step(in, takes(1), takes(1), takes(1), {2, 2}).low.value, 2.5);
}

// By hand: forward 1, backward 2, two buckets that are there after half and all of it and take 1.5
// each, so that the second ends two units after backward: 5.
TEST(PlayStep, WithoutNoSyncEveryMicroBatchReducesItsGradients) {
  StepInput in;
  in.forward = Seconds{1};
  in.backward = Seconds{2};
  in.optimizer = Seconds{0.5};
  in.overhead = Seconds{0.25};
  in.buckets = {{100, 0.5}, {100, 1}};
  in.accumulation = 3;
  in.every_micro_batch = true;
  in.recording = Recording::on;
  const AllReduceTime takes = [](std::size_t) { return Seconds{1.5}; };
  const Step step = play_step(in, takes);
  EXPECT_DOUBLE_EQ(step.total.value, 3 * 5 + 0.75);
  EXPECT_DOUBLE_EQ(step.exposed_communication.value, 3 * 2);
  EXPECT_EQ(step.collectives.at(0).count, 6);
  const auto of = [&](Work work) {
    return std::count_if(step.activities.begin(), step.activities.end(),
                         [&](const Activity& a) { return a.work == work; });
  };
  EXPECT_EQ(of(Work::collective), 6);
  EXPECT_EQ(of(Work::forward), 3);
  EXPECT_EQ(of(Work::optimizer), 1);
  EXPECT_DOUBLE_EQ(step.activities.back().end.value, step.total.value - 0.25);
  in.every_micro_batch = false;
  EXPECT_DOUBLE_EQ(play_step(in, takes).total.value, 2 * 3 + 5 + 0.75);
}

}  // namespace
}  // namespace foreduce
