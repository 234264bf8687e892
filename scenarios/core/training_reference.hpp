// The step model against published training runs: compute from the measured rate of one GPU, everything else predicted.
#pragma once

#include <string>
#include <vector>

#include "scenarios/core/report.hpp"

namespace foreduce {

/// One published run and what we say of it.
struct TrainingPoint {
  std::string source;            ///< "dlperf", "pytorch-ddp-bench", "adaptdl-g4dn", "aws-samples-dlm", "dle"
  std::string library, workload, precision;
  int line = 0;                  ///< in models/reference/training.csv
  int nodes = 0, gpus = 0, batch = 0;
  double measured_step = 0, predicted_step = 0;          ///< seconds
  double measured_efficiency = 0, predicted_efficiency = 0;  ///< against the same GPU alone, same library

  /// Throughput predicted over measured, less one: positive is optimistic.
  double error() const { return measured_step / predicted_step - 1; }
};

/// What a group of points is off by.
struct TrainingErrors {
  std::string group;
  std::size_t n = 0;
  double median = 0, worst = 0;  ///< of the absolute error of throughput
  double bias = 0;               ///< median of the signed error; positive: optimistic
  double efficiency = 0;         ///< median absolute error of scaling efficiency, as a fraction
};

/// Every published run whose workload, machine and single-GPU rate are known; the all-reduces are simulated on `jobs` cores (0: all).
/// Throws InputError if the reference data cannot be read.
std::vector<TrainingPoint> training_reference(int jobs);
/// Per source on one node and on more, then all beyond one node.
std::vector<TrainingErrors> training_errors(const std::vector<TrainingPoint>& points);
/// The same as a table for people.
Table training_table(const std::vector<TrainingErrors>& errors);

}  // namespace foreduce
