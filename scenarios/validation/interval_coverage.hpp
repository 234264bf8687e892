// How many of the published times that no fit has seen are inside of what is said of them: of the
// interval of a healthy cluster, and of what people publish.
#pragma once

#include <vector>

#include "scenarios/validation/evaluation.hpp"

namespace foreduce {

/// All-reduces of one range of sizes. Shares are from 0 to 1, and points count alike.
struct IntervalCoverage {
  Bytes from, below;
  std::size_t healthy_points = 0, healthy_sources = 0;
  double healthy_inside = 0;  ///< of healthy sites, within the 90 % prediction interval
  /// Median of high over low, of points on clusters like those that a profile was compared with.
  double healthy_width = 1;
  std::size_t points = 0, sources = 0;
  /// Of all sites, within the interval whose logarithm is `power` times as wide, where `power` is
  /// what all other sources ask for: each source is left out in turn.
  double published_inside = 0;
  double published_width = 1;  ///< as healthy_width, by `power`
  /// So that 90 % of all sources' points are inside, each source having one vote; at least 1.
  double power = 1;
};

/// Of the points of the test set (models/reference/not_fitted.csv), in ascending ranges of size;
/// then of all below 1 MiB, and of all from there on.
std::vector<IntervalCoverage> interval_coverage(const std::vector<EvaluatedPoint>& points);

}  // namespace foreduce
