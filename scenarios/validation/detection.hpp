// How well `check` tells sick clusters from healthy ones: every published run with faults put into
// it, judged without the source that it is from.
#pragma once

#include <string>
#include <vector>

#include "sim/batch.hpp"

namespace foreduce {

/// One fault in all logs; "none": the logs as they were published.
struct DetectionRow {
  std::string fault;
  /// Logs of clusters of which another source published times too, and how many of them are called
  /// not normal.
  int logs_known = 0, found_known = 0;
  int logs_model = 0, found_model = 0;  ///< the same of clusters that only the model knows
};

/// Throws InputError for malformed data.
std::vector<DetectionRow> detection_of_faults(const BatchOptions& options);

}  // namespace foreduce
