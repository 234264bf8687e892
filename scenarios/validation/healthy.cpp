#include "scenarios/validation/healthy.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "input/fields.hpp"
#include "models/caller.hpp"

namespace foreduce {

namespace {
struct HealthyRange {
  Bytes below;
  double within = 1;
};
struct HealthyRules {
  std::vector<HealthyRange> ranges;
  std::vector<std::string> not_healthy;
  std::string source;
};
/// Another site than those that published may lie so much beyond the farthest of them.
constexpr double kBeyondSites = 1.03;
}  // namespace

template <class Fields>
void describe(Fields& f, HealthyRange& r) {
  f.required("below", r.below, "upper end of the sizes");
  f.required("within", r.within, "factor either way", Limits::between(1, 10));
}
template <class Fields>
void describe(Fields& f, HealthyRules& r) {
  f.required("ranges", r.ranges, "by size, ascending");
  f.required("not_healthy", r.not_healthy, "published runs of which something was wrong");
  f.required("source", r.source, "how the factors were found");
}

namespace {

const HealthyRules& rules() {
  static const HealthyRules all = [] {
    YamlFile file = YamlFile::load(data_folder() / "models" / "reference" / "healthy.yaml");
    HealthyRules r;
    read_file(file, r);
    return r;
  }();
  return all;
}

double within(double bytes) {
  for (const HealthyRange& r : rules().ranges)
    if (bytes < r.below.value) return r.within;
  return rules().ranges.back().within;
}

/// Between two points of a curve on logarithmic axes; nothing outside, or where they are more than
/// a factor 8 apart.
std::optional<double> between(const std::vector<std::pair<double, double>>& points, double bytes) {
  const auto above = std::lower_bound(points.begin(), points.end(), std::pair(bytes, 0.0));
  if (above == points.end()) return std::nullopt;
  if (above->first == bytes) return above->second;
  if (above == points.begin() || above->first > 8 * std::prev(above)->first) return std::nullopt;
  const auto below = std::prev(above);
  const double share = std::log(bytes / below->first) / std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, share);
}

}  // namespace

bool is_healthy(const std::string& source) {
  const auto& sick = rules().not_healthy;
  return std::find(sick.begin(), sick.end(), source) == sick.end();
}

HealthyRuns::HealthyRuns(const std::string& instance, int nodes, int gpus,
                         const std::string& forced, const std::string& without) {
  const std::string algorithm = forced.empty() ? "nccl" : forced;
  std::map<std::string, std::map<double, double>> by_source;
  for (const Published& p : published_all_reduces())
    if (p.instance == instance && p.nodes == nodes && p.gpus == gpus && p.algorithm == algorithm &&
        p.source != without && is_healthy(p.source))
      by_source[p.source].try_emplace(p.bytes.value, (p.time - added_by(p.caller)).value);
  for (const auto& [source, points] : by_source) {
    sources_.insert(source);
    curves_.push_back({{points.begin(), points.end()}});
  }
}

std::optional<HealthyBand> HealthyRuns::at(Bytes bytes) const {
  std::vector<double> times;
  for (const Curve& c : curves_)
    if (const auto t = between(c.points, bytes.value)) times.push_back(*t);
  if (times.empty()) return std::nullopt;
  double logs = 0;
  for (const double t : times) logs += std::log(t);
  const double mean = std::exp(logs / static_cast<double>(times.size())),
               factor = within(bytes.value);
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  return HealthyBand{Seconds{mean}, Seconds{std::min(mean / factor, *least / kBeyondSites)},
                     Seconds{std::max(mean * factor, *most * kBeyondSites)}};
}

}  // namespace foreduce
