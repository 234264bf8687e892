#include "scenarios/validation/evaluation.hpp"

#include <algorithm>
#include <cmath>

#include "models/caller.hpp"
#include "models/statistics.hpp"

namespace foreduce {

double EvaluatedPoint::residual() const { return std::log(estimate.time / point.time); }

Errors errors_of(const std::vector<double>& residuals) {
  Errors e;
  e.points = residuals.size();
  if (residuals.empty()) return e;
  std::vector<double> absolute;
  double sum = 0, total = 0;
  for (const double r : residuals) {
    absolute.push_back(std::abs(r));
    sum += r;
    total += std::abs(r);
  }
  const auto count = static_cast<double>(absolute.size());
  e.median = std::expm1(median(absolute));
  e.mean = std::expm1(total / count);
  e.worst = std::expm1(*std::max_element(absolute.begin(), absolute.end()));
  e.bias = std::expm1(sum / count);
  return e;
}

Errors errors_of(const std::vector<const EvaluatedPoint*>& points) {
  std::vector<double> residuals;
  double inside = 0;
  for (const EvaluatedPoint* h : points) {
    residuals.push_back(h->residual());
    inside +=
        h->estimate.interval.low <= h->point.time && h->point.time <= h->estimate.interval.high;
  }
  Errors e = errors_of(residuals);
  if (!points.empty()) e.in_interval = inside / static_cast<double>(points.size());
  return e;
}

CollectiveRequest request_for(const Published& point, std::shared_ptr<const Profile> profile,
                              PublishedClusters& clusters) {
  if (point.caller != kUsualCaller)
    profile = std::make_shared<const Profile>(called_from(point.caller, *profile));
  Method method = reported_method(point.algorithm, point.collective, point.version, point.plugin);
  method.protocol = point.protocol;
  return {clusters.of(point), std::move(profile), point.bytes, std::move(method)};
}

std::vector<EvaluatedPoint> evaluate(
    const std::vector<Published>& points,
    const std::function<std::shared_ptr<const Profile>(const Published&)>& profile_of,
    const BatchOptions& options) {
  std::vector<EvaluatedPoint> evaluated;
  std::vector<CollectiveRequest> requests;
  PublishedClusters clusters;
  for (const Published& p : points) {
    if (p.machine.empty()) continue;
    const auto profile = profile_of(p);
    evaluated.push_back({p, profile->name, {}});
    requests.push_back(request_for(p, profile, clusters));
  }
  std::vector<CollectiveEstimate> answers = estimate_collectives(requests, options);
  for (std::size_t i = 0; i < evaluated.size(); ++i) {
    evaluated[i].estimate = std::move(answers[i]);
    const std::string& error = evaluated[i].estimate.error;
    if (!error.empty()) throw input_error(evaluated[i].point.source + ": " + error);
  }
  return evaluated;
}

}  // namespace foreduce
