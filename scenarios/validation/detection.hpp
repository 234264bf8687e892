// How well `check` tells sick clusters from healthy ones: every published run with faults put into
// it, judged without the source that it is from.
#pragma once

#include <string>
#include <vector>

#include "sim/batch.hpp"

namespace foreduce {

/// So many logs, and how many of them are called not normal.
struct DetectionCount {
  int logs = 0, found = 0;
};

/// One fault in all logs; "none": the logs as they were published.
struct DetectionRow {
  std::string fault;
  DetectionCount known;     ///< of EC2's clusters of which another source published times too
  DetectionCount model;     ///< of those that only the model knows
  DetectionCount stand_in;  ///< of other clouds and labs, see models/reference/stand_ins.csv
};

/// Throws InputError for malformed data.
std::vector<DetectionRow> detection_of_faults(const BatchOptions& options);

}  // namespace foreduce
