// Rates of one program on several GPUs (models/reference/compute_gpus.csv): each is predicted from
// each other one of the same program. The limits are today's figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "input/csv.hpp"
#include "input/files.hpp"
#include "models/compute.hpp"
#include "models/statistics.hpp"
#include "topologies/machine.hpp"

namespace foreduce {
namespace {

struct Rate {
  std::string source, gpu, model, precision;
  int batch = 1;
  double samples_per_s = 0, train_gflop = 0;
};

std::vector<Rate> published_rates() {
  const Csv csv = Csv::load(data_folder() / "models" / "reference" / "compute_gpus.csv");
  std::vector<Rate> rates;
  for (const Csv::Row& row : csv.rows)
    rates.push_back({row.cells[0], row.cells[1], row.cells[2], row.cells[3],
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

/// |ln(predicted / published)| of every rate from every other GPU's, and what the ratio of peaks
/// alone would say.
struct Errors {
  std::vector<double> transferred, by_peak;
};
Errors errors_of(bool fitted) {
  Errors errors;
  const std::vector<Rate> rates = published_rates();
  for (const Rate& from : rates)
    for (const Rate& to : rates) {
      if (from.source != to.source || from.model != to.model || from.precision != to.precision ||
          from.gpu == to.gpu || from.source.starts_with("mlperf") != fitted)
        continue;
      Workload workload;
      workload.name = from.model;
      workload.variants = {{"it", from.train_gflop}};
      workload.measured = {
          {from.gpu, from.precision, "it", from.batch, from.samples_per_s, 1, from.source}};
      const Gpu gpu = gpu_of(to.gpu);
      const ComputeTime time = compute_time(workload, gpu, to.precision, "it", 100);
      EXPECT_FALSE(time.measured);
      const double rate = 100 / (time.forward_backward + time.optimizer).value;
      errors.transferred.push_back(std::abs(std::log(rate / to.samples_per_s)));
      errors.by_peak.push_back(std::abs(
          std::log(from.samples_per_s * (gpu.fp16 / gpu_of(from.gpu).fp16) / to.samples_per_s)));
    }
  return errors;
}

TEST(ComputeElsewhere, FollowsPeakAndMemoryBandwidth) {
  const Errors fitted = errors_of(true), held_out = errors_of(false);
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
  const Errors held_out = errors_of(false);
  const auto inside = std::count_if(
      held_out.transferred.begin(), held_out.transferred.end(),
      [](double e) { return e <= std::log(training_constants().transferred_within); });
  EXPECT_GE(static_cast<double>(inside), 0.9 * static_cast<double>(held_out.transferred.size()));
}

}  // namespace
}  // namespace foreduce
