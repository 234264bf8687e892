// What PyTorch measured on one H100 (models/reference/steps.csv, by tests/bench/training_on_gpu.py)
// beside what foreduce says of a step: its memory, when its gradients are there, the optimizer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <sstream>
#include <tuple>

#include "input/csv.hpp"
#include "models/compute.hpp"
#include "models/memory.hpp"
#include "models/model_config.hpp"
#include "models/statistics.hpp"
#include "models/step.hpp"
#include "models/units.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/program.hpp"

namespace foreduce {
namespace {

using namespace test;

struct MeasuredStep {
  std::string workload, sample, unlike;
  std::string variant;  ///< how the program differs from what is usual; empty: in nothing
  bool recompute = false;
  int layers = 0, batch = 0;
  double step = 0, backward = 0, optimizer = 0, peak = 0, held = 0;  ///< seconds and bytes
  std::vector<double> ready;  ///< of DDP's buckets, in parts of backward
};

/// What was not compiled.
std::vector<MeasuredStep> all_measured_steps() {
  const Csv csv = Csv::load(data_folder() / "models" / "reference" / "steps.csv");
  const auto column = [&](const char* heading) { return csv.column(heading); };
  std::vector<MeasuredStep> steps;
  for (const Csv::Row& row : csv.rows) {
    const auto text = [&](const char* heading) { return row.cells[column(heading)]; };
    const auto number = [&](const char* heading) { return csv.number(row, column(heading)); };
    MeasuredStep s;
    s.workload = text("workload");
    s.sample = text("sample");
    s.unlike = text("unlike");
    s.variant = text("variant");
    s.recompute = text("recompute") == "full";
    s.layers = text("layers").empty() ? 0 : static_cast<int>(number("layers"));
    s.batch = static_cast<int>(number("batch"));
    s.step = number("step_ms") / 1e3;
    s.backward = text("backward_ms").empty() ? 0 : number("backward_ms") / 1e3;
    s.optimizer = number("optimizer_ms") / 1e3;
    s.peak = number("peak_bytes");
    s.held = number("held_bytes");
    std::istringstream ready(text("ready"));
    for (double part = 0; ready >> part;) s.ready.push_back(part);
    if (text("compiled") == "no") steps.push_back(s);
  }
  return steps;
}

std::vector<MeasuredStep> measured_steps(const std::string& variant = "") {
  std::vector<MeasuredStep> steps;
  for (MeasuredStep& s : all_measured_steps())
    if (s.variant == variant) steps.push_back(std::move(s));
  return steps;
}

/// What a block adds to a step without its optimizer, of a program of two depths. Seconds.
double measured_block(const std::string& workload, int batch, const std::string& variant,
                      const std::string& sample = "") {
  std::vector<MeasuredStep> depths;
  for (const MeasuredStep& s : measured_steps(variant))
    if (s.workload == workload && s.layers > 0 && s.batch == batch && !s.recompute &&
        (sample.empty() || s.sample == sample))
      depths.push_back(s);
  EXPECT_GE(depths.size(), 2u) << workload << " " << variant;
  const MeasuredStep &few = depths.front(), &many = depths.back();
  return (many.step - many.optimizer - few.step + few.optimizer) / (many.layers - few.layers);
}

const Gpu& h100() {
  static const Machine machine = *ec2("p5.4xlarge");
  return *machine.gpu;
}

// Without the fp32 copies of gradients in DDP's buckets, of which one GPU has none.
TEST(PeakMemory, IsWhatPyTorchAllocates) {
  std::vector<double> errors;
  for (const MeasuredStep& s : measured_steps()) {
    if (s.layers > 0 || !s.unlike.empty()) continue;
    const Workload workload = Workloads().load(s.workload);
    MemoryQuestion q;
    q.workload = &workload;
    q.sample = s.sample;
    q.precision = Precision::bf16;
    q.gradient = Precision::fp32;
    q.batch = s.batch;
    q.recompute = s.recompute ? Recompute::full : Recompute::none;
    const double ratio = memory_of(q).peak().value / s.peak;
    std::printf("%-10s %3d %-4s %.2f\n", s.workload.c_str(), s.batch, s.recompute ? "full" : "none",
                ratio);
    // What convolutions take for themselves counts beside few images.
    EXPECT_GT(ratio, s.batch < 16 ? 0.85 : 0.95) << s.workload << " " << s.batch;
    EXPECT_LT(ratio, 1.15) << s.workload << " " << s.batch;
    errors.push_back(std::abs(ratio - 1));
  }
  ASSERT_GE(errors.size(), 12u);
  EXPECT_LE(median(errors), 0.05);
}

// Backward begins with the loss, which is no layer's; where the vocabulary is large that is a tenth
// of it. A tied embedding's gradient is the last, and its output layer's arithmetic the first:
// GPT-2 124M's first bucket is there after 0.46 to 0.50 of backward, and was predicted after 0.02.
TEST(GradientsOfAStep, AreThereWhenPyTorchHasThem) {
  int compared = 0;
  for (const MeasuredStep& s : measured_steps()) {
    if (s.ready.empty()) continue;
    const auto buckets =
        ddp_buckets(Workloads().load(s.workload).tensors, 4, Bytes{1 << 20}, Bytes{25 << 20});
    ASSERT_EQ(buckets.size(), s.ready.size()) << s.workload;
    double off = 0, all = 0, worst = 0;
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      const double error = std::abs(buckets[i].ready - s.ready[i]);
      off += error * static_cast<double>(buckets[i].elements);
      all += static_cast<double>(buckets[i].elements);
      worst = std::max(worst, error);
    }
    std::printf("%-10s %3d mean %.3f worst %.3f\n", s.workload.c_str(), s.batch, off / all, worst);
    EXPECT_LT(off / all, 0.11) << s.workload << " " << s.batch;
    EXPECT_LT(worst, 0.30) << s.workload << " " << s.batch;
    ++compared;
  }
  EXPECT_GE(compared, 9);
}

TEST(OptimizerOfAStep, MovesItsBytesAtTheMemorysRate) {
  for (const MeasuredStep& s : measured_steps()) {
    if (s.layers > 0 || s.batch < 16 || s.recompute) continue;  // the host launches too slowly
    const Workload workload = Workloads().load(s.workload);
    if (workload.elements() < 300'000'000) continue;  // launches count
    const Seconds predicted =
        compute_time({workload, h100(), Precision::bf16, s.sample, s.batch}).optimizer;
    EXPECT_NEAR(predicted.value / s.optimizer, 1, 0.05) << s.workload;
  }
}

// How long a step took, of workloads that have no rate from here. Programs of separate kernels
// (BERT-large) are slower than those that rates are of, and outside: docs/accuracy-notes.md.
TEST(ComputeEstimate, IsBesideTheStepsOfPyTorch) {
  int inside = 0, all = 0;
  for (const MeasuredStep& s : measured_steps()) {
    const Workload workload = Workloads().load(s.workload);
    const ComputeTime time = compute_time({workload, h100(), Precision::bf16, s.sample, s.batch});
    if (s.layers > 0 || s.recompute || time.source.find("steps.csv") != std::string::npos) continue;
    const double slower = s.step / (time.forward_backward + time.optimizer).value;
    const bool holds = slower < time.within.slower && slower > 1 / time.within.faster;
    std::printf("%-10s %-13s %3d took %.2f times as long, %s%s%s\n", s.workload.c_str(),
                s.sample.c_str(), s.batch, slower, holds ? "inside" : "outside",
                s.unlike.empty() ? "" : "; ", s.unlike.c_str());
    if (!s.unlike.empty()) continue;
    ++all;
    inside += holds;
  }
  EXPECT_GE(all, 7);
  EXPECT_GE(inside, 0.9 * all);
}

// Two depths of a model that does not fit whole give the time of a block. Nothing was fitted to
// them.
TEST(ComputeEstimate, HoldsBlocksOfLlama) {
  const auto steps = measured_steps();
  int models = 0;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i)
    for (std::size_t j = i + 1; j < steps.size(); ++j) {
      const MeasuredStep &few = steps[i], &many = steps[j];
      if (few.layers == 0 || few.layers >= many.layers || few.workload != many.workload ||
          few.sample != many.sample || few.batch != many.batch || few.recompute != many.recompute)
        continue;
      const Workload whole = Workloads().load(few.workload);
      if (!whole.variant(few.sample)) continue;
      const auto block = [&](auto of) { return (of(many) - of(few)) / (many.layers - few.layers); };
      const double measured = block([](const MeasuredStep& s) { return s.step - s.optimizer; });
      const ComputeTime time =
          compute_time({whole, h100(), Precision::bf16, few.sample, few.batch});
      const double share = units_of(whole, {}, 2)[1].share;
      const double predicted =
          share * time.forward_backward.value * (few.recompute ? (4.0 / 3) / time.recomputing : 1);
      std::printf("%-10s %s a block %.1f ms, predicted %.1f\n", few.workload.c_str(),
                  few.recompute ? "full" : "none", measured * 1e3, predicted * 1e3);
      EXPECT_LT(predicted / measured, time.within.slower) << few.workload;
      EXPECT_GT(predicted / measured, 1 / time.within.faster) << few.workload;
      ++models;
    }
  EXPECT_GE(models, 5);
}

// Of mixtures nobody's rates are known, so the interval is wide. Nothing was fitted to these:
// Mixtral is right, and OLMoE, whose 64 experts are 1,024 wide, takes 1.8 times as long.
TEST(ComputeEstimate, HoldsBlocksOfMixtures) {
  const Workload olmoe =
      workload_from_config(source_folder() / "tests" / "configs" / "olmoe-1b-7b.json", {}).workload;
  for (const auto& [workload, batch] :
       {std::pair(Workloads().load("mixtral-8x7b"), 1), std::pair(olmoe, 2)}) {
    const std::string name = workload.name.starts_with("olmoe") ? "olmoe" : workload.name;
    const double measured = measured_block(name, batch, "kept in bf16");
    const ComputeTime time =
        compute_time({workload, h100(), Precision::bf16, workload.variants[0].sample, batch});
    const double predicted = units_of(workload, {}, 2)[1].share * time.forward_backward.value;
    std::printf("%-12s a block %.1f ms, predicted %.1f\n", name.c_str(), measured * 1e3,
                predicted * 1e3);
    EXPECT_LT(measured / predicted, time.within.slower) << name;
    EXPECT_GT(measured / predicted, 1 / time.within.faster) << name;
  }
}

// What `trainable` says of a block of Llama-2 7B at two ways of putting adapters (rank 16) beside
// its frozen products. The adapters' own kernels, which it does not count, take the rest.
TEST(TimeOfFrozenParts, FallsShortOfAdaptersByAFifthAtMost) {
  Workload w = Workloads().load("llama2-7b");
  w.trainable = 0.001;
  const double predicted = time_share(w, "4096 tokens"),
               whole = measured_block("llama2-7b", 2, "kept in bf16");
  for (const char* adapters : {"adapters of queries and values", "adapters of all products"}) {
    const double measured = measured_block("llama2-7b", 2, adapters) / whole;
    std::printf("%s: %.3f of the time, predicted %.3f\n", adapters, measured, predicted);
    EXPECT_LT(predicted, measured);
    EXPECT_GT(predicted, measured / 1.2);
  }
}

/// As Hugging Face's program takes it, of `layers` of all blocks. Seconds.
double in_transformers(const Workload& whole, const MeasuredStep& s) {
  Workload w = whole;
  w.framework = Framework::transformers;
  const double all =
      compute_time({w, h100(), Precision::bf16, s.sample, s.batch}).forward_backward.value;
  return s.layers == 0 ? all : all * units_of(w, {}, 2)[1].share;
}

// Nothing was fitted to these: traffic is of blocks of Llama-2 7B alone. Micro-batches that wait
// for launches are left out, as are programs of more kernels (gelu_new).
TEST(TransformersTime, IsThatOfStepsThatNoFitKnows) {
  std::vector<double> errors;
  const auto compare = [&](const std::string& what, double measured, double predicted) {
    const Spread within = training_constants().transformers.within;
    std::printf("%-28s %.1f ms, predicted %.1f (%.2f)\n", what.c_str(), measured * 1e3,
                predicted * 1e3, predicted / measured);
    EXPECT_LT(measured / predicted, within.slower) << what;
    EXPECT_GT(measured / predicted, 1 / within.faster) << what;
    errors.push_back(std::abs(std::log(predicted / measured)));
  };
  for (const MeasuredStep& s : measured_steps()) {
    const Workload w = Workloads().load(s.workload);
    const bool known = s.unlike.empty() || s.unlike == "predicts every position";
    const double tokens = tokens_of(s.sample) * s.batch;
    if (!is_language_model(w) || s.layers > 0 || s.recompute || !known || tokens < 8192 ||
        s.workload.starts_with("t5"))
      continue;
    compare(fmt::format("{} {} x {}", s.workload, s.batch, s.sample), s.step - s.optimizer,
            in_transformers(w, s));
  }
  for (const auto& [name, sample, batch] :
       {std::tuple("llama2-13b", "4096 tokens", 2), std::tuple("llama3-8b", "8192 tokens", 1),
        std::tuple("llama3-8b", "2048 tokens", 8)}) {
    Workload w = Workloads().load(name);
    add_length(w, sample);
    MeasuredStep s;
    s.workload = name, s.sample = sample, s.batch = batch, s.layers = 1;
    compare(fmt::format("a block of {} {} x {}", name, batch, sample),
            measured_block(name, batch, "", sample), in_transformers(w, s));
  }
  ASSERT_GE(errors.size(), 7u);
  EXPECT_LE(median(errors), 0.12);
}

// Held between steps, less than at the peak: the rest is what backward needs, and autocast's copies
// of a block's weights in 16 bits.
TEST(TransformersMemory, IsWhatBlocksOfLlamaKeep) {
  for (const auto& [name, batch, variant, fitted] :
       {std::tuple("llama2-7b", 2, "", true), std::tuple("llama2-7b", 2, "kept in bf16", true),
        std::tuple("llama2-13b", 2, "", false), std::tuple("llama3-8b", 1, "", false)}) {
    Workload w = Workloads().load(name);
    w.framework = Framework::transformers;
    std::vector<MeasuredStep> depths;
    for (const MeasuredStep& s : measured_steps(variant))
      if (s.workload == name && s.batch == batch && !s.recompute &&
          s.sample == w.variants[0].sample)
        depths.push_back(s);
    ASSERT_GE(depths.size(), 2u) << name;
    const MeasuredStep &few = depths.front(), &many = depths.back();
    const bool autocast = std::string_view(variant).empty();
    const auto units = units_of(w, {}, 2);
    const double copies = autocast ? 2.0 * static_cast<double>(units[1].elements) : 0;
    const double measured =
        (many.peak - many.held - few.peak + few.held) / (many.layers - few.layers) - copies;
    const LayerOutputs put_out = layer_outputs(w, few.sample, few.batch);
    const Bytes all = activations(w, few.sample, Precision::bf16, few.batch, Recompute::none,
                                  autocast ? MixedPrecision::autocast : MixedPrecision::model);
    const double predicted = (all.value - 4 * put_out.root) / static_cast<double>(units.size() - 1);
    std::printf("%s %s: a block keeps %.2f GB, predicted %.2f\n", name, variant, measured / 1e9,
                predicted / 1e9);
    EXPECT_NEAR(predicted / measured, 1, fitted ? 0.02 : 0.07) << name << " " << variant;
  }
}

// The constant is of these three; of each two of them, the third is within 15 %.
TEST(AttentionsScores, TakeAsLongAsInTheProgramsThatTheConstantIsOf) {
  const auto predicted = [](Workload w, double scores, int batch) {
    const std::string sample = w.variants[0].sample;
    w.measured.clear();
    w.estimate.fused_attention = true;
    const Seconds fused =
        compute_time({w, h100(), Precision::bf16, sample, batch}).forward_backward;
    w.attention_scores = scores;
    return (compute_time({w, h100(), Precision::bf16, sample, batch}).forward_backward - fused)
        .value;
  };
  const auto step = [](const std::string& workload, int batch, const std::string& variant) {
    for (const MeasuredStep& s : measured_steps(variant))
      if (s.workload == workload && s.batch == batch && !s.recompute && s.layers == 0)
        return s.step;
    throw std::runtime_error("no such step");
  };
  const auto measured = [&](const std::string& workload, int batch) {
    return step(workload, batch, "eager attention") - step(workload, batch, "");
  };
  const double llama =
      measured_block("llama2-7b", 1, "eager attention") - measured_block("llama2-7b", 1, "");
  EXPECT_NEAR(predicted(Workloads().load("llama2-7b"), 32.0 * 4096 * 4096, 1) / llama, 1, 0.12);
  EXPECT_NEAR(predicted(Workloads().load("bert-large"), 24.0 * 16 * 512 * 512, 32) /
                  measured("bert-large", 32),
              1, 0.05);
  EXPECT_NEAR(predicted(Workloads().load("gpt2-124m"), 12.0 * 12 * 1024 * 1024, 12) /
                  measured("gpt2-124m", 12),
              1, 0.05);
}

}  // namespace
}  // namespace foreduce
