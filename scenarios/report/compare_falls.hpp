// Where larger collectives, or those on more nodes, take less time.
#pragma once

#include "scenarios/report/words.hpp"

namespace foreduce {

/// Where a larger collective, or one on more nodes, takes less time: by the library's own choice,
/// which a reader would take for a mistake of the model, or by the model's.
std::string falls_lines(const Json& points, const View& view);

}  // namespace foreduce
