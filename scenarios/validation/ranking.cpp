#include "scenarios/validation/ranking.hpp"

#include <algorithm>
#include <cmath>

namespace foreduce {
namespace {

/// The size from which the second is faster than the first for good.
std::optional<double> crossover(const std::map<double, std::pair<double, double>>& times) {
  std::optional<double> at;
  double last_size = 0;
  bool last = false, first = true;
  for (const auto& [bytes, pair] : times) {
    const bool faster = pair.second < pair.first;
    if (!first && faster != last) at = std::sqrt(last_size * bytes);
    last = faster;
    last_size = bytes;
    first = false;
  }
  return at;
}

}  // namespace

std::optional<double> kendall(const std::vector<Timed>& rows) {
  int agree = 0, pairs = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = i + 1; j < rows.size(); ++j) {
      const Timed &a = rows[i], &b = rows[j];
      if (a.bytes != b.bytes || a.algorithm == b.algorithm ||
          std::max(a.measured, b.measured) < 1.1 * std::min(a.measured, b.measured))
        continue;
      ++pairs;
      if (a.predicted != b.predicted)
        agree += (a.measured < b.measured) == (a.predicted < b.predicted) ? 1 : -1;
    }
  return pairs == 0 ? std::nullopt : std::optional(static_cast<double>(agree) / pairs);
}

std::vector<Crossing> crossings(const std::vector<Timed>& rows) {
  using Times = std::map<double, std::pair<double, double>>;
  std::map<std::pair<std::string, std::string>, std::pair<Times, Times>> pairs;
  for (const Timed& a : rows)
    for (const Timed& b : rows) {
      if (a.bytes != b.bytes || a.algorithm >= b.algorithm) continue;
      auto& [measured, predicted] = pairs[{a.algorithm, b.algorithm}];
      const auto at_best = [&](Times& times, double mine, double other) {
        const auto [at, fresh] = times.try_emplace(a.bytes, mine, other);
        if (!fresh)
          at->second = {std::min(at->second.first, mine), std::min(at->second.second, other)};
      };
      at_best(measured, a.measured, b.measured);
      at_best(predicted, a.predicted, b.predicted);
    }
  std::vector<Crossing> all;
  for (const auto& [names, times] : pairs) {
    const auto m = crossover(times.first), p = crossover(times.second);
    if (m || p) all.push_back({names, m, p});
  }
  return all;
}

}  // namespace foreduce
