// Predictions beside what others have published: the common ground of `calibrate --reference` and `validate --reference`.
#pragma once

#include <map>

#include "scenarios/validation/published.hpp"
#include "sim/batch.hpp"

namespace foreduce {

/// One published point with what is predicted for it.
struct Held {
  Published point;
  std::string profile;  ///< by which it was predicted
  Expected expected;
  /// ln(predicted / published).
  double residual() const;
};

/// Errors of a set of points; factors as relative errors (0.08: 8 %).
struct Errors {
  std::size_t points = 0;
  double median = 0;  ///< of the absolute error
  double mean = 0;    ///< geometric mean: exp(mean |ln ratio|) - 1
  double worst = 0;
  double bias = 0;         ///< geometric mean of predicted / published, less 1: its sign says which way
  double in_interval = 0;  ///< share of points within the predicted interval
};
Errors errors_of(const std::vector<const Held*>& points);
/// The same of bare residuals; in_interval stays 0.
Errors errors_of(const std::vector<double>& residuals);

/// Predicts all points that a machine stands for, by the profile for each in `profiles` (by instance), else the shipped one.
std::vector<Held> hold(const std::vector<Published>& points,
                       const std::function<std::shared_ptr<const Profile>(const Published&)>& profile_of, int jobs);

/// Below and from 1 MiB on: latency and bandwidth have their own limits.
inline constexpr double kLarge = 1048576;

}  // namespace foreduce
