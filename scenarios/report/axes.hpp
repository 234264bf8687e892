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

/// ", zero3/8, bf16, batch 4": what of a point's training tells it from the others'.
class TrainingWords {
 public:
  explicit TrainingWords(const Json& points);
  std::string operator()(const Json& point) const;

 private:
  bool sharded_, precision_, gradient_, batch_, recompute_, framework_;
};

/// Whether points differ in their gradients' type and not only because their models, precisions or
/// strategies do, of which each has its own.
bool gradient_is_chosen(const Json& points);

/// One for each axis that varies among the points, and always nodes, GPUs and algorithm.
std::vector<AxisColumn> axis_columns(const Json& points);

}  // namespace foreduce
