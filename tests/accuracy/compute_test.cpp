// Rates of one program on several GPUs (models/reference/compute_gpus.csv): each is predicted from
// each other one of the same program. The limits are today's figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "input/csv.hpp"
#include "input/files.hpp"
#include "models/compute.hpp"
#include "models/statistics.hpp"
#include "models/tensors.hpp"
#include "topologies/machine.hpp"

namespace foreduce {
namespace {

struct Rate {
  std::string source, gpu, model;
  Precision precision = Precision::fp16;
  int batch = 1;
  double samples_per_s = 0, train_gflop = 0;
};

std::vector<Rate> published_rates() {
  const Csv csv = Csv::load(data_folder() / "models" / "reference" / "compute_gpus.csv");
  std::vector<Rate> rates;
  for (const Csv::Row& row : csv.rows)
    rates.push_back({row.cells[0], row.cells[1], row.cells[2],
                     value_named<Precision>(row.cells[3]).value(),
                     row.cells[4].empty() ? 1 : std::stoi(row.cells[4]), std::stod(row.cells[5]),
                     std::stod(row.cells[6])});
  return rates;
}

Gpu gpu_of(const std::string& model) {
  const Catalogue catalogue;
  for (const std::string& name : catalogue.names())
    if (const Machine machine = catalogue.load(name);
        machine.gpu && machine.gpu->model.starts_with(model))
      return *machine.gpu;
  ADD_FAILURE() << model << " is not in the catalogue";
  return {};
}

/// What the rate of one GPU says of another's.
ComputeTime transferred(const Rate& from, const Rate& to) {
  Workload workload;
  workload.name = from.model;
  workload.variants = {{"it", from.train_gflop}};
  workload.measured = {
      {from.gpu, from.precision, "it", from.batch, from.samples_per_s, 1, "pytorch", from.source}};
  return compute_time({workload, gpu_of(to.gpu), to.precision, "it", 100});
}

double rate_at_100(const ComputeTime& time) {
  return 100 / (time.forward_backward + time.optimizer).value;
}

/// |ln(predicted / published)| of every rate from every other GPU's, and what the ratio of peaks
/// alone would say.
struct RateErrors {
  std::vector<double> transferred, by_peak;
  int inside = 0;  // of the interval
};
RateErrors rate_errors_of(bool fitted) {
  RateErrors errors;
  const std::vector<Rate> rates = published_rates();
  for (const Rate& from : rates)
    for (const Rate& to : rates) {
      if (from.source != to.source || from.model != to.model || from.precision != to.precision ||
          from.gpu == to.gpu || from.source.starts_with("mlperf") != fitted)
        continue;
      const ComputeTime time = transferred(from, to);
      EXPECT_FALSE(time.measured);
      const double rate = rate_at_100(time);
      errors.transferred.push_back(std::abs(std::log(rate / to.samples_per_s)));
      const double slower = rate / to.samples_per_s;
      errors.inside += slower < time.within.slower && slower > 1 / time.within.faster;
      errors.by_peak.push_back(std::abs(std::log(
          from.samples_per_s * (gpu_of(to.gpu).fp16 / gpu_of(from.gpu).fp16) / to.samples_per_s)));
    }
  return errors;
}

// Four programs ran on H100 and on H200, which no constant was fitted to. An H200 was slower than
// an H100 at batch 64, for an estimate stood beside a measured rate.
TEST(ComputeElsewhere, AChipWithFasterMemoryIsALittleFaster) {
  int pairs = 0;
  const std::vector<Rate> rates = published_rates();
  for (const Rate& from : rates)
    for (const Rate& to : rates) {
      if (from.source != to.source || from.model != to.model || from.gpu != "H100" ||
          to.gpu != "H200" || from.source.starts_with("mlperf"))
        continue;
      ++pairs;
      const double gain = rate_at_100(transferred(from, to)) / rate_at_100(transferred(from, from)),
                   published = to.samples_per_s / from.samples_per_s;
      EXPECT_GT(gain, 1);
      EXPECT_NEAR(gain, published, 0.08) << from.model;
    }
  EXPECT_EQ(pairs, 4);
}

TEST(ComputeElsewhere, FollowsPeakAndMemoryBandwidth) {
  const RateErrors fitted = rate_errors_of(true), held_out = rate_errors_of(false);
  ASSERT_GT(fitted.transferred.size(), 50u);
  ASSERT_GE(held_out.transferred.size(), 50u);
  RecordProperty("fitted_median", std::to_string(std::exp(median(fitted.transferred))));
  RecordProperty("held_out_median", std::to_string(std::exp(median(held_out.transferred))));
  RecordProperty("held_out_90", std::to_string(std::exp(quantile(held_out.transferred, 0.9))));
  EXPECT_LE(median(fitted.transferred), std::log(1.08));
  EXPECT_LE(median(held_out.transferred), std::log(1.17));
  EXPECT_LE(quantile(held_out.transferred, 0.9), std::log(1.63));
  EXPECT_LE(median(held_out.transferred), 0.6 * median(held_out.by_peak));
}

// The promise of the interval: what the nearest measured GPU says holds for nine rates in ten.
TEST(ComputeElsewhere, IntervalHoldsRatesThatWereLeftOut) {
  const RateErrors held_out = rate_errors_of(false);
  EXPECT_GE(held_out.inside, 0.9 * static_cast<double>(held_out.transferred.size()));
}

/// Whether a rate lies inside the interval that the shipped one of the same GPU gives.
struct Inside {
  int good = 0, all = 0;
  void count(const Workload& workload, const Rate& rate, const std::string& sample,
             const std::string& framework) {
    Workload of_others = workload;  // what ships is no prediction of itself
    for (const Measured& m : workload.measured)
      if (rate.gpu.starts_with(m.gpu) && m.precision == rate.precision && m.sample == sample &&
          m.batch == rate.batch && m.samples_per_s == rate.samples_per_s)
        return;
    std::erase_if(of_others.measured, [&](const Measured& m) { return m.sample != sample; });
    const ComputeTime time =
        compute_time({workload, gpu_of(rate.gpu), rate.precision, sample, rate.batch}, framework);
    if (!time.measured) return;
    const double slower =
        rate.batch / rate.samples_per_s / (time.forward_backward + time.optimizer).value;
    ++all;
    const bool inside = slower < time.within.slower && slower > 1 / time.within.faster;
    good += inside;
    if (!inside)
      std::printf("outside: %s %s %s batch %d %s: %.2f\n", rate.source.c_str(), rate.gpu.c_str(),
                  to_text(rate.precision).c_str(), rate.batch, framework.c_str(), slower);
  }
};

/// The published model's name, and ours with the sample.
struct Known {
  const char *published, *workload, *sample;
};
constexpr Known kKnown[] = {{"ResNet-50 v1.5", "resnet50", "224x224 image"},
                            {"ResNet-50", "resnet50", "224x224 image"},
                            {"resnet50", "resnet50", "224x224 image"},
                            {"BERT-base", "bert-base", "128 tokens"},
                            {"BERT-large", "bert-large", ""},  // of as many tokens as the row says
                            {"Mask R-CNN R50-FPN", "maskrcnn", "COCO image"}};

// Somebody else's rate on the same GPU, with the same framework and with another.
TEST(ComputeMeasured, IntervalHoldsTheRatesOfOthers) {
  Inside same, other;
  const auto count = [&](const Rate& rate, const std::string& tokens, bool pytorch) {
    for (const Known& k : kKnown)
      if (rate.model == k.published)
        (pytorch ? same : other)
            .count(Workloads().load(k.workload), rate, *k.sample ? k.sample : tokens + " tokens",
                   pytorch ? "pytorch" : "other");
  };
  const Csv csv = Csv::load(data_folder() / "models" / "reference" / "compute.csv");
  for (const Csv::Row& row : csv.rows) {
    const std::string& metric = row.cells[6];
    if (metric != "seq/s" && metric != "img/s" && metric != "sentences/s") continue;
    const std::string& precision = row.cells[3];
    if (precision == "TF32" || row.cells[1] == "n/a") continue;
    Rate rate{row.cells[0],
              row.cells[1].substr(0, 4),
              row.cells[2],
              precision == "FP32" ? Precision::fp32 : Precision::fp16,
              0,
              std::stod(row.cells[7]),
              0};
    // NVIDIA prints no batch of ResNet-50's; its recipes have these.
    rate.batch = row.cells[4].empty() ? (rate.precision == Precision::fp32 ? 128 : 256)
                                      : std::stoi(row.cells[4]);
    // These sequences have 512 tokens at most, in bins of 64 (models/workloads/bert-large.yaml).
    if (rate.source == "dle:PyTorch/LanguageModeling/BERT" && row.cells[5] == "512") continue;
    count(rate, row.cells[5], (row.cells[0] + row.cells[8]).find("PyTorch") != std::string::npos);
  }
  for (const Rate& rate : published_rates())  // Lambda and csc run PyTorch, MLPerf MXNet
    if (rate.source.starts_with("lambda") || rate.source.starts_with("csc")) count(rate, "", true);
  std::printf("same framework: %d of %d, another: %d of %d\n", same.good, same.all, other.good,
              other.all);
  EXPECT_GE(same.all, 15);
  EXPECT_GE(same.good, 0.9 * same.all);
  EXPECT_GE(other.all, 50);
  EXPECT_GE(other.good, 0.9 * other.all);
}

// Language models whose estimate is of one publication: what others published, which it has not
// seen. The prediction is of Llama-2 7B, for the estimate is the same for all sizes.
TEST(ComputeEstimate, IntervalHoldsPublishedSharesOfOtherSources) {
  const Workload llama = Workloads().load("llama2-7b");
  const std::string sample = llama.variants.front().sample;
  const Csv csv = Csv::load(data_folder() / "models" / "reference" / "language_models.csv");
  std::vector<double> errors;
  int inside = 0;
  for (const Csv::Row& row : csv.rows) {
    const Gpu gpu = gpu_of(row.cells[1]);
    const ComputeTime time = compute_time({llama, gpu, Precision::bf16, sample, 8});
    ASSERT_FALSE(time.measured);
    const double recomputing = row.cells[5] == "full" ? time.recomputing : 1,
                 predicted = recomputing * time.least.value / time.forward_backward.value,
                 slower = predicted / std::stod(row.cells[6]);
    errors.push_back(std::abs(std::log(slower)));
    const bool holds = slower < time.within.slower && slower > 1 / time.within.faster;
    inside += holds;
    std::printf("%-18s %-15s %-14s %4s %5.2f predicted %4.2f, %s\n", row.cells[0].c_str(),
                row.cells[1].c_str(), row.cells[2].c_str(), row.cells[5].c_str(),
                std::stod(row.cells[6]), predicted, holds ? "inside" : "outside");
  }
  const double all = static_cast<double>(errors.size());
  EXPECT_GE(all, 17);
  EXPECT_GE(inside, 0.9 * all);
  EXPECT_LE(median(errors), std::log(1.12));
  const ComputeTime known = compute_time({llama, gpu_of("H100"), Precision::bf16, sample, 8}),
                    follows = compute_time({llama, gpu_of("B200"), Precision::bf16, sample, 8});
  EXPECT_LE(known.within.faster * known.within.slower, 2);
  EXPECT_GT(follows.within.faster * follows.within.slower,
            1.5 * known.within.faster * known.within.slower)
      << "of a GPU that nobody measured, less is known";
}

// Decoders of one program from 768 to 5,120 wide: Llama-2 7B's estimate, scaled by the width alone.
// Of 13 billion parameters micro-batches are of two samples.
TEST(ComputeEstimate, ShareGoesWithTheWidthAsPublished) {
  const Csv csv = Csv::load(data_folder() / "models" / "reference" / "decoder_widths.csv");
  std::vector<double> errors;
  for (const Csv::Row& row : csv.rows) {
    const Estimate e = decoder_estimate(std::stod(row.cells[3]));
    const double predicted = row.cells[1] == "H100" ? e.others.at(0).fp16 : e.fp16,
                 published = std::stod(row.cells[4]);
    errors.push_back(std::abs(std::log(predicted / published)));
    EXPECT_LE(errors.back(), std::log(1.15)) << row.cells[1] << " " << row.cells[2];
  }
  EXPECT_GE(errors.size(), 17U);
  EXPECT_LE(median(errors), std::log(1.06));
}

// A described decoder answers as the workload of its shape that ships.
TEST(ComputeEstimate, ShapeAnswersAsTheWorkloadOfThatShape) {
  for (const char* name : {"llama2-7b", "llama3-8b", "llama2-34b", "llama2-70b", "llama3-70b"}) {
    const Workload shipped = Workloads().load(name);
    const Estimate shape = decoder_estimate(static_cast<double>(usual_width(shipped.tensors)));
    EXPECT_NEAR(shape.fp16, shipped.estimate.fp16, 0.001) << name;
    EXPECT_NEAR(shape.others.at(0).fp16, shipped.estimate.others.at(0).fp16, 0.001) << name;
    EXPECT_NEAR(*shape.recomputed, *shipped.estimate.recomputed, 0.001) << name;
  }
  double before = 0;
  for (double width = 4096; width <= 10000; width += 128) {  // and steadily between them
    const double share = decoder_estimate(width).others.at(0).fp16;
    EXPECT_GE(share, before) << width;
    EXPECT_LE(share, before == 0 ? 1 : 1.02 * before) << width;
    before = share;
  }
}

// What published programs gained by FP8 beside bf16: attention's share of the arithmetic gains
// nothing, which is why long sequences gain little; wide models gain more. The two constants are
// not fitted to runs with tensor parallelism.
TEST(ComputeInFp8, GainsWhatPublishedProgramsGained) {
  const Csv csv = Csv::load(data_folder() / "models" / "reference" / "fp8.csv");
  const Gpu h100 = gpu_of("H100");
  std::vector<double> fitted, left_out, longer;
  std::map<double, double> by_width;  // of 8,192 tokens
  for (const Csv::Row& row : csv.rows) {
    const auto number = [&](std::size_t cell) { return std::stod(row.cells[cell]); };
    const double layers = number(3), hidden = number(4), parameters = number(5), tokens = number(6),
                 attention = 12 * layers * hidden * tokens * tokens;
    Workload model;
    model.name = row.cells[2];
    model.tensors = {{"norm", static_cast<std::size_t>(hidden), 0},
                     {"all", 1, parameters * tokens}};
    model.variants = {{row.cells[6] + " tokens", (6 * parameters * tokens + attention) / 1e9}};
    model.measured = {{"H100", Precision::fp16, model.variants[0].sample, 8, number(7) / tokens, 1,
                       "pytorch", row.cells[0]}};
    const auto seconds = [&](Precision precision) {
      return compute_time({model, h100, precision, model.variants[0].sample, 8})
          .forward_backward.value;
    };
    const double gain = seconds(Precision::bf16) / seconds(Precision::fp8),
                 published = number(8) / number(7);
    std::printf("%-12s %-13s %6.0f tokens %4.2f predicted %4.2f\n", row.cells[0].c_str(),
                model.name.c_str(), tokens, published, gain);
    (row.cells[9] == "yes" ? fitted : left_out).push_back(std::abs(std::log(gain / published)));
    if (tokens > 20000) longer.push_back(gain);
    if (tokens == 8192) by_width[hidden] = gain;
  }
  EXPECT_GE(fitted.size(), 14u);
  EXPECT_GE(left_out.size(), 4u);
  EXPECT_LE(quantile(fitted, 0.9), std::log(1.1));
  EXPECT_LE(*std::max_element(fitted.begin(), fitted.end()), std::log(1.12));
  EXPECT_LE(*std::max_element(left_out.begin(), left_out.end()), std::log(1.1));
  EXPECT_LT(*std::max_element(longer.begin(), longer.end()), 1.09);
  EXPECT_LT(by_width.at(4096), 1.28);
  EXPECT_GT(by_width.at(8192), 1.35);
}

// "A10" is the beginning of "A100", and another GPU.
TEST(ComputeTime, IsMeasuredOnTheVeryGpu) {
  Workload model = Workloads().load("gpt2-124m");
  const std::string sample = model.variants[0].sample;
  model.measured = {{"A10", Precision::fp16, sample, 8, 20, 1, "pytorch", "test"}};
  const auto measured = [&](const char* instance) {
    return compute_time({model, *Catalogue().load(instance).gpu, Precision::fp16, sample, 8})
        .measured;
  };
  EXPECT_FALSE(measured("p4d.24xlarge"));
  EXPECT_FALSE(measured("g5.48xlarge"));
  model.measured[0].gpu = "A10G";
  EXPECT_TRUE(measured("g5.48xlarge"));
}

}  // namespace
}  // namespace foreduce
