#include "scenarios/validation/interval_coverage.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "models/statistics.hpp"
#include "scenarios/validation/healthy.hpp"

namespace foreduce {
namespace {

constexpr double kUnseenInside = 0.9;

/// One point: how far it is off beside how far its interval reaches, both as logarithms.
struct UnseenPoint {
  std::string source;
  double ratio = 0;   ///< 1: at the end of the interval
  double spread = 0;  ///< the interval's, either way
  bool calibrated = false;
};

/// What the power must be for `kUnseenInside` of the points to be inside, each source having one
/// vote.
double power_for(const std::vector<UnseenPoint>& points, const std::string& without) {
  std::map<std::string, double> of_source;
  for (const UnseenPoint& p : points)
    if (p.source != without) ++of_source[p.source];
  std::vector<std::pair<double, double>> votes;  // ratio, weight
  for (const UnseenPoint& p : points)
    if (p.source != without) votes.emplace_back(p.ratio, 1 / of_source[p.source]);
  std::sort(votes.begin(), votes.end());
  double sum = 0;
  for (const auto& [ratio, weight] : votes) {
    sum += weight;
    if (sum >= kUnseenInside * static_cast<double>(of_source.size()) - 1e-9)
      return std::max(1.0, ratio);
  }
  return 1;
}

double width_of(const std::vector<UnseenPoint>& points, double power) {
  std::vector<double> widths;
  for (const UnseenPoint& p : points)
    if (p.calibrated) widths.push_back(std::exp(2 * power * p.spread));
  return widths.empty() ? 1 : median(widths);
}

IntervalCoverage coverage_of(const std::vector<UnseenPoint>& points) {
  IntervalCoverage c;
  std::set<std::string> sources, healthy_sources;
  std::vector<UnseenPoint> healthy;
  for (const UnseenPoint& p : points) {
    sources.insert(p.source);
    if (!is_healthy(p.source)) continue;
    healthy.push_back(p);
    healthy_sources.insert(p.source);
  }
  const auto share = [](auto count, std::size_t of) {
    return of == 0 ? 0.0 : static_cast<double>(count) / static_cast<double>(of);
  };
  c.points = points.size();
  c.sources = sources.size();
  c.healthy_points = healthy.size();
  c.healthy_sources = healthy_sources.size();
  c.healthy_inside = share(std::count_if(healthy.begin(), healthy.end(),
                                         [](const UnseenPoint& p) { return p.ratio <= 1; }),
                           healthy.size());
  c.healthy_width = width_of(healthy, 1);
  std::size_t inside = 0;
  for (const std::string& source : sources) {
    const double power = power_for(points, source);
    inside += static_cast<std::size_t>(std::count_if(
        points.begin(), points.end(),
        [&](const UnseenPoint& p) { return p.source == source && p.ratio <= power; }));
  }
  c.published_inside = share(inside, points.size());
  c.power = power_for(points, "");
  c.published_width = width_of(points, c.power);
  return c;
}

/// Of the points of the test set in a range of sizes.
IntervalCoverage coverage_between(const std::vector<EvaluatedPoint>& points, Bytes from,
                                  Bytes below) {
  std::vector<UnseenPoint> of_range;
  for (const EvaluatedPoint& e : points) {
    if (e.point.fit || e.point.bytes < from || e.point.bytes >= below) continue;
    const Interval& i = e.estimate.interval;
    const double spread = std::log(i.high / e.estimate.time);
    of_range.push_back(
        {e.point.source, std::abs(e.residual()) / spread, spread, i.widened.empty()});
  }
  IntervalCoverage c = coverage_of(of_range);
  c.from = from;
  c.below = below;
  return c;
}

}  // namespace

std::vector<IntervalCoverage> interval_coverage(const std::vector<EvaluatedPoint>& points) {
  constexpr Bytes kNone{0}, kAll{std::numeric_limits<double>::infinity()};
  std::vector<IntervalCoverage> all;
  Bytes from = kNone;
  for (const double band : kBands) {
    all.push_back(coverage_between(points, from, Bytes{band}));
    from = Bytes{band};
  }
  all.push_back(coverage_between(points, from, kAll));
  all.push_back(coverage_between(points, kNone, Bytes{kLarge}));
  all.push_back(coverage_between(points, Bytes{kLarge}, kAll));
  return all;
}

}  // namespace foreduce
