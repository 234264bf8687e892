// A training step as a drawing: a row for computing and one for each kind of collective.
#pragma once

#include <string>

#include "scenarios/sweep/predict.hpp"

namespace foreduce {

/// A step that was recorded, as SVG: what the slowest GPU computes and what travels meanwhile, over
/// milliseconds, with what of the communication is exposed in a row of its own. Where the pointer
/// rests on a box, its name, bytes and times are told.
std::string step_svg(const Prediction& point);

}  // namespace foreduce
