// Columns that tell the points of a training sweep apart; predict and plan share them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "scenarios/report/report.hpp"

namespace foreduce {

struct AxisColumn {
  std::string heading;
  int rank = 0;  ///< as in Table::column
  std::function<std::string(const Json& point)> cell;
};

/// One for each axis that varies among the points, and always nodes, GPUs and algorithm.
std::vector<AxisColumn> axis_columns(const Json& points);

}  // namespace foreduce
