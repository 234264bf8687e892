// What is said of a profile that was fitted to messages.
#pragma once

#include <string>

#include "models/fit.hpp"

namespace foreduce {

/// How far the fitted model is from its points, and whether it is good enough to predict with.
std::string calibration_text(const Calibration& calibration);
/// Whether every kind of message is within 30 % in the median; the text says which is not.
bool describes_its_messages(const Calibration& calibration);

}  // namespace foreduce
