// Which settings of a training sweep do not fit into the GPUs' memory, and why.
#pragma once

#include <string>

#include "scenarios/report/report.hpp"

namespace foreduce {

/// A line for each cluster and setting that lacks memory, in the order of the rows; of several
/// numbers of nodes the last says by how much, as in a plan. Settings that lack it for one reason
/// have one line, and there are six at most, unless `view` asks to explain.
std::string predict_shortage_lines(const Json& points, const View& view);

}  // namespace foreduce
