// What NVIDIA published of its own programs (models/reference/megatron.csv), beside what is
// predicted: rows that set the shares of models/training.yaml, and rows that no fit has seen.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "input/csv.hpp"
#include "models/statistics.hpp"
#include "scenarios/sweep/predict.hpp"
#include "tests/support/files.hpp"

namespace foreduce {
namespace {

using namespace test;

/// A published row and its prediction.
struct MegatronRow {
  std::string use, gpu, model, precision;
  int tensor = 1;
  double measured = 0;  // tokens a second of a GPU
  Prediction point;

  double predicted() const { return point.error.empty() ? point.tokens_per_s / point.gpus : 0; }
  double error() const { return std::abs(std::log(predicted() / measured)); }
  bool inside() const {
    const double times = measured / predicted();
    return point.interval.low <= point.step.total / times &&
           point.step.total / times <= point.interval.high;
  }
};

struct ReferenceMachine {
  const char* file;
  int gpus;
};
ReferenceMachine machine_with(const std::string& gpu) {
  if (gpu == "H100") return {"hgx-h100-ib", 8};
  if (gpu == "B200") return {"hgx-b200-ib", 8};
  return {"gb200-nvl72-ib", 64};
}

MegatronRow predicted_row(const Csv::Row& row, const std::string& framework) {
  const TemporaryFolder folder;
  const auto& c = row.cells;
  const auto number = [&](std::size_t at) { return std::stoi(c[at]); };
  const int gpus = number(3), micro = number(7), tensor = number(10), stages = number(11),
            context = number(12),
            accumulation = number(6) * tensor * stages * context / (gpus * micro);
  folder.write("model.yaml", fmt::format("workload: {}\ntransformer: {{ {}, sequence: {} }}\n",
                                         c[4], c[15], c[8]));
  const ReferenceMachine machine = machine_with(c[2]);
  std::string keys = fmt::format(
      "model: ./model.yaml, framework: {}, precision: {}, gradient: bf16, batch_per_gpu: {}, "
      "accumulation: {}, sharding: {}",
      framework, c[5], micro, std::max(1, accumulation), c[9] == "1" ? "fsdp" : "zero1");
  if (tensor > 1) keys += fmt::format(", tensor_parallel: {}, sequence_parallel: yes", tensor);
  if (stages > 1) keys += fmt::format(", pipeline: {}", stages);
  if (number(13) > 1) keys += fmt::format(", virtual_pipeline: {}", number(13));
  if (context > 1)
    keys += fmt::format(", context_parallel: {}, context_communication: ring", context);
  const std::string text = fmt::format(
      R"(name: {}
workload: {{ {} }}
cluster: {{ instance: {}, nodes: {}, gpus_per_node: {} }}
)",
      c[4], keys, machine.file, std::max(1, gpus / machine.gpus), std::min(gpus, machine.gpus));
  SweepOptions options;
  options.all_failed = AllFailed::is_answer;
  MegatronRow r{c[1], c[2], c[4], c[5], tensor, std::stod(c[14]), {}};
  r.point =
      predict(parse_scenario((folder.path() / "s.yaml").string(), text), options).points.at(0);
  return r;
}

/// What the framework's estimate says of every row, or of one of `step` rows.
std::vector<MegatronRow> rows_of(const std::string& framework, std::size_t step = 1) {
  std::vector<MegatronRow> all;
  const Csv published = Csv::load(data_folder() / "models" / "reference" / "megatron.csv");
  for (std::size_t i = 0; i < published.rows.size(); i += step) {
    const Csv::Row& row = published.rows[i];
    all.push_back(predicted_row(row, framework));
    const MegatronRow& r = all.back();
    if (r.predicted() > 0)
      std::printf("%-18s %-4s %-6s %-14s %s %5.0f predicted %5.0f, %+3.0f %%, %s%s\n",
                  row.cells[0].c_str(), r.use.c_str(), r.gpu.c_str(), r.model.c_str(),
                  r.precision.c_str(), r.measured, r.predicted(),
                  100 * (r.predicted() / r.measured - 1), r.inside() ? "inside" : "outside",
                  r.point.fits() ? "" : ", does not fit");
    else
      std::printf("%-18s %-4s %-6s %-14s %s\n", row.cells[0].c_str(), r.use.c_str(), r.gpu.c_str(),
                  r.model.c_str(), r.point.error.c_str());
  }
  return all;
}

/// Errors of the rows that are used so and were answered, and how many are inside.
struct Errors {
  std::vector<double> all;
  int inside = 0;

  double size() const { return static_cast<double>(all.size()); }
};
Errors errors_of(const std::vector<MegatronRow>& rows, const std::string& use) {
  Errors errors;
  for (const MegatronRow& r : rows) {
    if (r.use != use || r.predicted() <= 0) continue;
    errors.all.push_back(r.error());
    errors.inside += r.inside();
  }
  return errors;
}

// The shares were fitted to 11 rows. The others are of releases, models and GPUs that these are not
// of: their error is what to expect.
TEST(Megatron, RowsThatNoFitKnowsAreWithinTheInterval) {
  const std::vector<MegatronRow> rows = rows_of("megatron");
  const Errors fitted = errors_of(rows, "fit"), held_out = errors_of(rows, "test");
  EXPECT_EQ(fitted.size(), 11);
  EXPECT_EQ(held_out.size(), 39);
  EXPECT_LE(median(fitted.all), std::log(1.10));
  EXPECT_LE(median(held_out.all), std::log(1.06));
  EXPECT_LE(*std::max_element(held_out.all.begin(), held_out.all.end()), std::log(1.4));
  EXPECT_GE(held_out.inside, 0.85 * held_out.size());
}

// So one must say which program runs: PyTorch's estimate is of other kernels.
TEST(Megatron, PyTorchsEstimateIsOfSlowerPrograms) {
  const Errors held_out = errors_of(rows_of("pytorch", 4), "test");
  EXPECT_GE(median(held_out.all), std::log(1.4));
}

}  // namespace
}  // namespace foreduce
