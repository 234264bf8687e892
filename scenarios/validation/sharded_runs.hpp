// Published runs with sharding beside their predictions. Nothing was fitted to them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/sweep/predict.hpp"

namespace foreduce {

/// One published run of models/reference/sharded_runs.yaml.
struct ShardedRun {
  std::string series, source, note;
  std::string compare;          ///< scaling, order or rate: what of the series can be compared
  Prediction point;             ///< with an error where it cannot be predicted
  double measured = 0;          ///< tokens/s of a GPU, or samples/s of all
  bool of_all = false;          ///< samples/s of all
  std::optional<Bytes> memory;  ///< peak of a GPU, as published

  /// The predicted rate in the same unit; 0 without a prediction.
  double predicted() const;
};

/// What a series says beyond its single rates.
struct ShardedSeries {
  std::string series;
  /// Of scaling: the last run's rate over the first's. Of order: the first's over the last's, which
  /// is the slower one as measured.
  double measured = 0, predicted = 0;
  bool order = false;  ///< of order
  /// Within 3 points, or in the right order.
  bool good() const;
};

struct ShardedValidation {
  std::vector<ShardedRun> runs;
  std::vector<ShardedSeries> series;
};

/// Predicts all. Throws InputError for malformed data.
ShardedValidation validate_sharded(const BatchOptions& options);

}  // namespace foreduce
