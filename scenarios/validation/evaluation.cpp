#include "scenarios/validation/evaluation.hpp"

#include <algorithm>
#include <cmath>

#include "models/statistics.hpp"

namespace foreduce {

double Held::residual() const { return std::log(expected.time / point.time); }

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

Errors errors_of(const std::vector<const Held*>& points) {
  std::vector<double> residuals;
  double inside = 0;
  for (const Held* h : points) {
    residuals.push_back(h->residual());
    inside += h->expected.low <= h->point.time && h->point.time <= h->expected.high;
  }
  Errors e = errors_of(residuals);
  if (!points.empty()) e.in_interval = inside / static_cast<double>(points.size());
  return e;
}

std::vector<Held> hold(const std::vector<Published>& points,
                       const std::function<std::shared_ptr<const Profile>(const Published&)>& profile_of, int jobs) {
  std::vector<Held> held;
  std::vector<Question> questions;
  PublishedClusters clusters;
  for (const Published& p : points) {
    if (p.machine.empty()) continue;
    const auto profile = profile_of(p);
    held.push_back({p, profile->name, {}});
    questions.push_back({clusters.of(p), profile, p.bytes, p.algorithm});
  }
  std::vector<Expected> answers = expected_all_reduces(questions, jobs);
  for (std::size_t i = 0; i < held.size(); ++i) {
    held[i].expected = std::move(answers[i]);
    if (!held[i].expected.error.empty()) throw input_error(held[i].point.source + ": " + held[i].expected.error);
  }
  return held;
}

}  // namespace foreduce
