// Where training on more nodes is slower, or a step on them takes less time.
#pragma once

#include "scenarios/report/words.hpp"

namespace foreduce {

/// Neighbouring numbers of nodes of which the larger trains less, or takes less time for a step
/// though each GPU does as much: a reader would take it for a mistake. Says which choice of the
/// library changes there.
std::string predict_falls_lines(const Json& points, const View& view);

}  // namespace foreduce
