#include "scenarios/validation/healthy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "input/fields.hpp"
#include "input/holds.hpp"
#include "models/caller.hpp"
#include "scenarios/validation/check_limits.hpp"
#include "scenarios/validation/row_remarks.hpp"
#include "topologies/machine.hpp"

namespace foreduce {

namespace {
struct HealthyRange {
  Bytes below;
  double within = 1;
};
struct HealthyRules {
  std::vector<HealthyRange> ranges;
  std::vector<std::vector<std::string>> alike;
  std::vector<std::string> not_healthy;
  std::string source;
};
}  // namespace

template <class Fields>
void describe(Fields& f, HealthyRange& r) {
  f.required("below", r.below, "upper end of the sizes");
  f.required("within", r.within, "factor either way", Limits::between(1, 10));
}
template <class Fields>
void describe(Fields& f, HealthyRules& r) {
  f.required("ranges", r.ranges, "by size, ascending");
  f.required("alike", r.alike, "instance types whose sites count for each other");
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
  if (above == points.begin() || above->first > CheckLimits::far_apart * std::prev(above)->first)
    return std::nullopt;
  const auto below = std::prev(above);
  const double share = std::log(bytes / below->first) / std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, share);
}

/// Beyond the last point, where that is on the plateau: bandwidth stays what it was.
std::optional<double> beyond(const std::vector<std::pair<double, double>>& points, double bytes) {
  const auto [last, time] = points.back();
  return last >= CheckLimits::plateau_from && bytes > last &&
                 bytes <= CheckLimits::farthest_beyond * last
             ? std::optional(time * bytes / last)
             : std::nullopt;
}

/// Of points of one size the first counts.
void ascend(std::vector<std::pair<double, double>>& points) {
  const auto smaller = [](const auto& x, const auto& y) { return x.first < y.first; };
  const auto as_large = [](const auto& x, const auto& y) { return x.first == y.first; };
  std::stable_sort(points.begin(), points.end(), smaller);
  points.erase(std::unique(points.begin(), points.end(), as_large), points.end());
}

bool alike(const std::string& a, const std::string& b) {
  return a == b || std::any_of(rules().alike.begin(), rules().alike.end(), [&](const auto& group) {
           return holds(group, a) && holds(group, b);
         });
}
}  // namespace

bool is_healthy(const std::string& source) { return !holds(rules().not_healthy, source); }

HealthyRuns::HealthyRuns(const std::string& instance, int nodes, int gpus,
                         std::optional<NcclAlgorithm> forced, const std::string& without) {
  std::map<std::string, Curve> by_source;
  // Of a machine outside of EC2 those that have its file; an instance type stands for others too.
  const Catalogue catalogue;
  const bool elsewhere = !holds(catalogue.names(), instance);
  if (elsewhere) wider_ = CheckLimits::wider_elsewhere;
  for (const Published& p : published_all_reduces())
    if ((alike(p.instance, instance) || (elsewhere && p.machine == instance)) && p.nodes == nodes &&
        p.gpus == gpus && p.by_nccl && p.algorithm == forced && !p.protocol &&
        p.source != without && is_healthy(p.source)) {
      Curve& curve = by_source[p.source];
      curve.of = p.instance == instance || elsewhere ? Of::the_type : Of::one_alike;
      curve.points.emplace_back(p.bytes.value, (p.time - added_by(p.caller)).value);
    }
  for (auto& [source, curve] : by_source) {
    sources_.insert(source);
    ascend(curve.points);
    curves_.push_back(std::move(curve));
  }
}

std::optional<HealthyBand> HealthyRuns::at(Bytes bytes) const {
  std::vector<double> own, others;
  for (const auto& read : {between, beyond}) {
    for (const Curve& c : curves_)
      if (const auto t = read(c.points, bytes.value))
        (c.of == Of::the_type ? own : others).push_back(*t);
    if (!own.empty() || !others.empty()) break;
  }
  // What is expected is the type's own, and what is normal may be one's that is alike.
  std::optional<HealthyBand> band;
  for (const std::vector<double>& times : {own, others}) {
    if (times.empty()) continue;
    double logs = 0;
    for (const double t : times) logs += std::log(t);
    const double mean = std::exp(logs / static_cast<double>(times.size())),
                 factor = wider_ * within(bytes.value),
                 beyond_sites = wider_ * CheckLimits::beyond_sites;
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    const Seconds low{std::min(mean / factor, *least / beyond_sites)},
        high{std::max(mean * factor, *most * beyond_sites)};
    if (!band) band = HealthyBand{Seconds{mean}, low, high};
    band->low = std::min(band->low, low);
    band->high = std::max(band->high, high);
  }
  return band;
}

EarlierRun::EarlierRun(const NcclLog& log, Collective collective, int ranks) {
  std::vector<std::string> others;
  for (const NcclTable& t : log.tables) {
    if (collective_named(t.collective).value_or(collective) != collective ||
        (t.ranks > 0 && t.ranks != ranks)) {
      others.push_back(fmt::format("{} of {} ranks",
                                   t.collective.empty() ? "a collective" : t.collective, t.ranks));
      continue;
    }
    for (const NcclRow& row : t.rows)
      if (row.bytes > 0) points_.emplace_back(row.bytes, row.timing().time.value);
    ascend(points_);
    gpu_ = t.gpu;
    broken_ = wrong_sums(t, collective).has_value();
    return;
  }
  throw file_error(log.file,
                   fmt::format("there is no {} of {} ranks in it", name_of(collective), ranks),
                   fmt::format("it has {}", fmt::join(others, ", ")));
}

std::optional<HealthyBand> EarlierRun::at(Bytes bytes) const {
  if (points_.empty()) return std::nullopt;
  auto time = between(points_, bytes.value);
  if (!time) time = beyond(points_, bytes.value);
  if (!time) return std::nullopt;
  const double factor = bytes.value < CheckLimits::bandwidth_from ? CheckLimits::repeats_small
                                                                  : CheckLimits::repeats_large;
  return HealthyBand{Seconds{*time}, Seconds{*time / factor}, Seconds{*time * factor}};
}

}  // namespace foreduce
