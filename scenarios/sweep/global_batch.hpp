// How a step of so many samples is cut into micro-batches.
#pragma once

#include "scenarios/sweep/predict.hpp"

namespace foreduce {

/// Sets the point's accumulation so that a step has so many samples, if it can be cut so; else its
/// error says which numbers can. A plan takes the nearest that is within a tenth, and notes what
/// was asked for. False where there is an error of this.
bool split_global_batch(Prediction& point, std::int64_t samples, Asked asked);

}  // namespace foreduce
