// Why a GPU has not enough memory for a training step, and what would need less.
#pragma once

#include <string>

#include "scenarios/sweep/predict.hpp"

namespace foreduce {

/// Why a point whose fits() is false cannot be trained so: a sentence for an error or a table.
std::string memory_shortage(const Prediction& point);

}  // namespace foreduce
