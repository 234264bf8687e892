// Predictions beside published times: the common ground of `calibrate --reference` and
// `validate --reference`.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>

#include "scenarios/sweep/estimate.hpp"
#include "scenarios/validation/published.hpp"

namespace foreduce {

/// One published point with what is predicted for it.
struct EvaluatedPoint {
  Published point;
  std::string profile;  ///< by which it was predicted
  CollectiveEstimate estimate;
  /// ln(predicted / published).
  double residual() const;
};

/// Errors of a set of points; factors as relative errors (0.08: 8 %).
struct Errors {
  std::size_t points = 0;
  double median = 0;  ///< of the absolute error
  double mean = 0;    ///< geometric mean: exp(mean |ln ratio|) - 1
  double worst = 0;
  double bias = 0;  ///< geometric mean of predicted / published, less 1: its sign says which way
  double in_interval = 0;  ///< share of points within the 90 % prediction interval
};
Errors errors_of(const std::vector<const EvaluatedPoint*>& points);
/// The same of bare residuals; in_interval stays 0.
Errors errors_of(const std::vector<double>& residuals);

/// What a point asks the estimator: with its cluster, what ran, and what its caller adds.
CollectiveRequest request_for(const Published& point, std::shared_ptr<const Profile> profile,
                              PublishedClusters& clusters);

/// Predicts all points that a machine of the catalogue represents, with the profile that
/// `profile_of` gives for each. Throws InputError for a point that cannot be predicted.
std::vector<EvaluatedPoint> evaluate(
    const std::vector<Published>& points,
    const std::function<std::shared_ptr<const Profile>(const Published&)>& profile_of,
    const BatchOptions& options);

/// Below and from 1 MiB on: latency and bandwidth have their own limits.
inline constexpr double kLarge = 1048576;

/// Where ranges of size end, each with its own spread, in bytes: latency alone, latency and
/// protocols, protocols and chunks (where sources differ most), and bandwidth from the last on.
inline constexpr std::array<double, 3> kBands{64 * 1024, kLarge, 64 * kLarge};
/// Which of them so many bytes are in: 0 to kBands.size().
inline std::size_t band_of(double bytes) {
  return static_cast<std::size_t>(std::upper_bound(kBands.begin(), kBands.end(), bytes) -
                                  kBands.begin());
}

}  // namespace foreduce
