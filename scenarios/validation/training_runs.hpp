// The step model against published training runs: compute from the measured rate of one GPU,
// everything else predicted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/batch.hpp"
#include "input/units.hpp"
#include "models/precision.hpp"

namespace foreduce {

/// One published run and what we say of it.
struct TrainingPoint {
  std::string source;  ///< "dlperf", "pytorch-ddp-bench", "adaptdl-g4dn", "aws-samples-dlm", "dle"
  std::string library, workload;
  Precision precision = Precision::fp32;
  int line = 0;  ///< in models/reference/training.csv
  int nodes = 0, gpus = 0, batch = 0;
  double measured_step = 0, predicted_step = 0;  ///< seconds
  double low = 0, high = 0;                      ///< 90 % prediction interval; seconds
  double measured_efficiency = 0,
         predicted_efficiency = 0;  ///< against the same GPU alone, same library
  BytesPerSecond flow{0};  ///< of a TCP flow between the hosts, where it was fitted; else 0
  bool gave_flow = false;  ///< it was fitted to this run (one GPU a node) and its like, whose
                           ///< errors then say little

  /// The same for what one node with as many GPUs of the same table loses or gains by being one of
  /// several; null on one node, and where the table has none. Input, framework and GPUs that are
  /// slow on one node already cancel out; what more nodes add is left, whatever it is.
  std::optional<double> error_from_one_node;

  /// Throughput predicted over measured, less one: positive is optimistic.
  double error() const { return measured_step / predicted_step - 1; }
};

/// What a group of points is off by.
struct TrainingErrors {
  std::string group;
  std::size_t n = 0;
  double median = 0, worst = 0;  ///< of the absolute error of throughput
  double bias = 0;               ///< median of the signed error; positive: optimistic
  double inside = 0;             ///< share that lies between `low` and `high`
  double efficiency = 0;         ///< median absolute error of scaling efficiency, as a fraction
  std::size_t n_from_one_node = 0;
  double median_from_one_node = 0, worst_from_one_node = 0;  ///< of error_from_one_node
};

/// Every published run of published_runs(), predicted. Throws InputError if the reference data
/// cannot be read.
std::vector<TrainingPoint> training_runs(const BatchOptions& options);
/// Per source on one node and on more, then all beyond one node but for those that gave the flows,
/// and those of other sources than the one with flows.
std::vector<TrainingErrors> training_errors(const std::vector<TrainingPoint>& points);

}  // namespace foreduce
