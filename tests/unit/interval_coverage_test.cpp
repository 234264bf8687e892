// How many points that no fit has seen are inside of what is said of them.
#include <gtest/gtest.h>

#include <cmath>

#include "scenarios/validation/interval_coverage.hpp"

namespace foreduce {
namespace {

/// A point that took `ratio` times the way from its prediction to the end of its interval, 1.2.
EvaluatedPoint point(const std::string& source, double ratio, double bytes = 1024) {
  EvaluatedPoint e;
  e.point.source = source;
  e.point.bytes = Bytes{bytes};
  e.point.fit = false;
  e.estimate.time = Seconds{1};
  e.point.time = Seconds{std::pow(1.2, ratio)};
  e.estimate.interval.high = Seconds{1.2};
  e.estimate.interval.low = Seconds{1 / 1.2};
  return e;
}

TEST(IntervalCoverage, CountsHealthySitesApartFromAll) {
  // The second is one that models/reference/healthy.yaml calls not healthy.
  const auto ranges = interval_coverage(
      {point("a", 0.5), point("a", 1.5), point("awsome-dt-p5-2023-11", 3), point("b", -0.9)});
  ASSERT_EQ(ranges.size(), 6u);
  EXPECT_EQ(ranges[0].points, 4u);
  EXPECT_EQ(ranges[0].sources, 3u);
  EXPECT_EQ(ranges[0].healthy_points, 3u);
  EXPECT_NEAR(ranges[0].healthy_inside, 2.0 / 3, 1e-9);
  EXPECT_NEAR(ranges[0].healthy_width, 1.44, 1e-9);
  EXPECT_EQ(ranges[3].points, 0u);
  EXPECT_EQ(ranges[4].points, 4u);  // below 1 MiB
  EXPECT_EQ(ranges[5].points, 0u);
}

// Its own points say nothing of how far a source may be off.
TEST(IntervalCoverage, LeavesEachSourceOutOfWhatJudgesIt) {
  std::vector<EvaluatedPoint> points;
  for (const char* source : {"a", "b", "c", "d", "e", "f", "g", "h", "i"})
    points.push_back(point(source, 0.8));
  for (int k = 0; k < 9; ++k) points.push_back(point("far", 4));
  const IntervalCoverage c = interval_coverage(points)[0];
  EXPECT_EQ(c.power, 1);  // nine votes of ten are inside as it is
  EXPECT_NEAR(c.published_inside, 0.5, 1e-9);
  points.push_back(point("also far", 2));
  const IntervalCoverage two = interval_coverage(points)[0];
  EXPECT_NEAR(two.power, 2, 1e-9);
  EXPECT_NEAR(two.published_inside, 9.0 / 19, 1e-9);  // by all others either is outside
  EXPECT_NEAR(two.published_width, std::pow(1.2, 4), 1e-9);
}

// No fit may use a point that is judged here, and none that one uses is.
TEST(IntervalCoverage, IsOfTheTestSetAlone) {
  EvaluatedPoint fitted = point("a", 9);
  fitted.point.fit = true;
  EXPECT_EQ(interval_coverage({fitted, point("b", 0)})[0].points, 1u);
  EXPECT_EQ(interval_coverage({point("b", 0, 1 << 20)})[2].points, 1u);
}

}  // namespace
}  // namespace foreduce
