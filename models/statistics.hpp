// What many numbers come to.
#pragma once

#include <vector>

namespace foreduce {

/// The q-th quantile, 0 ≤ q ≤ 1, between neighbours linearly. Of at least one value.
double quantile(std::vector<double> values, double q);
/// The middle one, or of an even number the mean of the two; 0 of none.
double median(std::vector<double> values);

}  // namespace foreduce
