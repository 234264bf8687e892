// What Qwen's authors published of fine-tuning by Hugging Face's program on an A100
// (models/reference/hugging_face.csv), beside what is predicted. Nothing was fitted to it; that the
// interval of the program holds on A100 too was decided in sight of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "input/csv.hpp"
#include "models/statistics.hpp"
#include "scenarios/sweep/predict.hpp"
#include "tests/support/files.hpp"

namespace foreduce {
namespace {

using namespace test;

struct FineTuning {
  bool lora = false;
  double measured = 0;  // seconds a step
  double memory = 0;    // GiB, as nvidia-smi counts
  Prediction point;

  double error() const { return std::abs(std::log(point.step.total.value / measured)); }
  bool inside() const {
    return point.interval.low.value <= measured && measured <= point.interval.high.value;
  }
};

std::vector<FineTuning> fine_tunings(const std::string& framework) {
  const Csv published = Csv::load(data_folder() / "models" / "reference" / "hugging_face.csv");
  std::vector<FineTuning> all;
  for (const Csv::Row& row : published.rows) {
    const auto text = [&](const char* heading) { return row.cells[published.column(heading)]; };
    const TemporaryFolder folder;
    folder.write(
        "model.yaml",
        fmt::format("workload: qwen\ntransformer: {{ layers: {}, hidden: {}, heads: {}, "
                    "feed_forward: {}, vocabulary: {}, sequence: {}, gated: yes, bias: no, "
                    "norm: rms, positions: rotary, tied: no }}\n",
                    text("layers"), text("hidden"), text("heads"), text("feed_forward"),
                    text("vocabulary"), text("tokens")));
    const bool lora = text("method") == "lora";
    const std::string scenario = fmt::format(
        "workload: {{ model: ./model.yaml, framework: {}, precision: bf16, batch_per_gpu: 1, "
        "accumulation: {}, recompute: full{} }}\n"
        "cluster: {{ instance: p4de.24xlarge, nodes: 1, gpus_per_node: 1 }}\n",
        framework, text("micro_batches"), lora ? ", trainable: 1 %" : "");
    FineTuning f{lora, std::stod(text("step_s")), std::stod(text("memory_gb")), {}};
    f.point =
        predict(parse_scenario((folder.path() / "s.yaml").string(), scenario), {}).points.at(0);
    EXPECT_EQ(f.point.error, "");
    std::printf("%-10s %-4s %5s tokens: %5.1f s, predicted %5.2f (%.2f to %.2f), %s; memory %.2f\n",
                text("model").c_str(), text("method").c_str(), text("tokens").c_str(), f.measured,
                f.point.step.total.value, f.point.interval.low.value, f.point.interval.high.value,
                f.inside() ? "inside" : "outside",
                f.point.memory.peak().value / (f.memory * 1024 * 1024 * 1024));
    all.push_back(std::move(f));
  }
  return all;
}

double median_error(const std::vector<FineTuning>& all) {
  std::vector<double> errors;
  for (const FineTuning& f : all) errors.push_back(f.error());
  return median(errors);
}

TEST(TransformersTime, HoldsQwensFineTuning) {
  const std::vector<FineTuning> all = fine_tunings("transformers");
  ASSERT_EQ(all.size(), 17u);
  EXPECT_LE(median_error(all), std::log(1.15));
  int inside = 0;
  for (const FineTuning& f : all) {
    inside += f.inside();
    // Adapters' launches differ by more than products do.
    EXPECT_LT(f.point.interval.high / f.point.interval.low, f.lora ? 6.0 : 3.2)
        << "an interval to act on";
    // nvidia-smi counts what PyTorch keeps for later, and CUDA's own.
    const double memory = f.point.memory.peak().value / (f.memory * 1024 * 1024 * 1024);
    EXPECT_GT(memory, 0.6);
    EXPECT_LT(memory, 1.0);
  }
  EXPECT_GE(inside, 15);
  EXPECT_GT(median_error(fine_tunings("pytorch")), 1.5 * median_error(all))
      << "tuned programs are faster";
}

}  // namespace
}  // namespace foreduce
