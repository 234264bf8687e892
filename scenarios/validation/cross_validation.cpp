#include "scenarios/validation/cross_validation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>

#include "models/statistics.hpp"
#include "scenarios/validation/evaluation.hpp"

namespace foreduce {
namespace {

/// One line of the report: a source's points on one cluster.
std::string group_of(const Published& p) {
  return fmt::format("{} | {} | {} x {}", p.source, p.instance, p.nodes, p.gpus / p.nodes);
}

/// Residuals of `points` for several profiles at once, so that all cores are busy.
std::vector<Eigen::VectorXd> residuals(const std::vector<Published>& points,
                                       const std::vector<std::shared_ptr<const Profile>>& candidates, int jobs,
                                       PublishedClusters& clusters) {
  std::vector<Question> questions;
  for (const auto& profile : candidates)
    for (const Published& p : points) questions.push_back({clusters.of(p), profile, p.bytes, p.algorithm});
  const std::vector<Expected> answers = expected_all_reduces(questions, jobs);
  std::vector<Eigen::VectorXd> out;
  for (std::size_t c = 0, i = 0; c < candidates.size(); ++c) {
    Eigen::VectorXd& r = out.emplace_back(static_cast<Eigen::Index>(points.size()));
    for (std::size_t k = 0; k < points.size(); ++k, ++i) {
      if (!answers[i].error.empty()) throw input_error(fmt::format("{}: {}", points[k].source, answers[i].error));
      r[static_cast<Eigen::Index>(k)] = std::log(answers[i].time / points[k].time);
    }
  }
  return out;
}

/// Sum of absolute residuals, smoothed near zero: an outlier counts once, not squared.
constexpr double kSmooth = 0.05;
double loss(const Eigen::VectorXd& r) { return (r.array().square() + kSmooth * kSmooth).sqrt().sum(); }

struct Fit {
  Profile profile;
  double loss = 0;
  Eigen::VectorXd deviation;  ///< of each free number's logarithm, one sigma
};

/// Steps along single numbers first, for the surface has many valleys: what binds changes with the numbers, and whole messages make
/// stairs. Then iteratively reweighted Gauss-Newton on their logarithms, damped, and small steps again. They stay positive,
/// efficiencies at most 1.
Fit fit(Profile start, const std::vector<Published>& points, int rounds, int jobs, PublishedClusters& clusters) {
  const auto moved = [](const Profile& from, const Eigen::VectorXd& by) {
    auto to = std::make_shared<Profile>(from);
    const std::vector<Free> free = free_numbers(*to);
    for (std::size_t k = 0; k < free.size(); ++k)
      *free[k].value = std::min(free[k].most, *free[k].value * std::exp(by[static_cast<Eigen::Index>(k)]));
    return to;
  };
  const auto count = static_cast<Eigen::Index>(free_numbers(start).size());
  Fit best{start, 0, Eigen::VectorXd::Zero(count)};
  /// Tries every number `by` up and down (logarithms), takes the best and what improved together with it, until nothing does.
  const auto walk = [&](double by, int most) {
    for (int round = 0; round < most; ++round) {
      std::vector<std::shared_ptr<const Profile>> candidates{std::make_shared<const Profile>(best.profile)};
      for (Eigen::Index k = 0; k < 2 * count; ++k)
        candidates.push_back(moved(best.profile, Eigen::VectorXd::Unit(count, k / 2) * (k % 2 ? -by : by)));
      const auto tried = residuals(points, candidates, jobs, clusters);
      best.loss = loss(tried[0]);
      Eigen::VectorXd together = Eigen::VectorXd::Zero(count);
      std::size_t least = 0;
      for (std::size_t c = 1; c < tried.size(); ++c) {
        const double one = loss(tried[c]);
        if (one < best.loss) together[static_cast<Eigen::Index>(c - 1) / 2] = (c - 1) % 2 ? -by : by;
        if (one < loss(tried[least])) least = c;
      }
      if (least == 0 || loss(tried[least]) > best.loss * (1 - 1e-3)) return;
      const auto both = moved(best.profile, together);
      const double all = loss(residuals(points, {both}, jobs, clusters)[0]);
      best.profile = all < loss(tried[least]) ? *both : *candidates[least];
      best.loss = std::min(all, loss(tried[least]));
    }
  };
  for (const double by : {0.7, 0.35, 0.15}) walk(by, rounds);
  struct Slopes {
    Eigen::VectorXd r, w;
    Eigen::MatrixXd j, normal;
  };
  /// Residuals at `best`, their weights, and how they move with each number's logarithm.
  const auto slopes = [&] {
    constexpr double step = 0.05;  // of a logarithm: large enough to pass over the steps that whole messages make
    std::vector<std::shared_ptr<const Profile>> candidates{std::make_shared<const Profile>(best.profile)};
    std::vector<double> steps;
    for (Eigen::Index k = 0; k < count; ++k) {
      Profile copy = best.profile;
      const Free number = free_numbers(copy)[static_cast<std::size_t>(k)];
      steps.push_back(*number.value * std::exp(step) > number.most ? -step : step);
      candidates.push_back(moved(best.profile, Eigen::VectorXd::Unit(count, k) * steps.back()));
    }
    const auto all = residuals(points, candidates, jobs, clusters);
    Slopes s{all[0], (all[0].array().square() + kSmooth * kSmooth).rsqrt(), Eigen::MatrixXd(all[0].size(), count), {}};
    for (Eigen::Index k = 0; k < count; ++k)
      s.j.col(k) = (all[static_cast<std::size_t>(k) + 1] - s.r) / steps[static_cast<std::size_t>(k)];
    s.normal = s.j.transpose() * s.w.asDiagonal() * s.j;
    return s;
  };
  double damping = 0.1;
  for (int round = 0; round < rounds; ++round) {
    const Slopes at = slopes();
    best.loss = loss(at.r);
    const Eigen::VectorXd slope = at.j.transpose() * at.w.asDiagonal() * at.r;
    std::vector<std::shared_ptr<const Profile>> candidates;
    std::vector<double> dampings;
    for (const double d : {damping / 10, damping, damping * 10, damping * 100}) {
      const Eigen::MatrixXd damped =
          at.normal + d * Eigen::MatrixXd(at.normal.diagonal().asDiagonal()) + 1e-3 * Eigen::MatrixXd::Identity(count, count);
      candidates.push_back(moved(best.profile, (-damped.ldlt().solve(slope)).cwiseMax(-1).cwiseMin(1)));
      dampings.push_back(d);
    }
    const auto tried = residuals(points, candidates, jobs, clusters);
    std::size_t least = 0;
    for (std::size_t k = 1; k < tried.size(); ++k)
      if (loss(tried[k]) < loss(tried[least])) least = k;
    if (loss(tried[least]) > best.loss * (1 - 1e-4)) break;
    best.profile = *candidates[least];
    best.loss = loss(tried[least]);
    damping = std::clamp(dampings[least], 1e-4, 1e2);
  }
  walk(0.05, rounds);
  // Neighbouring sizes of one run err together: as many points count as there are curves.
  const Slopes at = slopes();
  std::set<std::string> curves;
  for (const Published& p : points) curves.insert(group_of(p) + p.algorithm);
  const double sigma2 = (at.w.array() * at.r.array().square()).sum() / std::max(1.0, static_cast<double>(at.r.size() - count));
  const Eigen::MatrixXd ridge = 1e-6 * Eigen::MatrixXd::Identity(count, count);
  best.deviation =
      (sigma2 * static_cast<double>(points.size()) / static_cast<double>(curves.size()) * (at.normal + ridge).inverse())
          .diagonal()
          .cwiseSqrt();
  return best;
}

/// One sigma of a logarithm: a number that may as well be twenty times as large is not told by the points.
constexpr double kUntold = 3;

std::string percent(double x) { return fmt::format("{:.1f} %", 100 * x); }

/// One source's errors in the three ways.
struct Line {
  std::string fold, profile, way;
  std::vector<double> small, large;
  std::vector<double> bytes{}, all{};  // the same residuals with their sizes
};

}  // namespace

std::string calibrate_reference(const CalibrateOptions& options, Format format) {
  const Profiles shipped;
  const std::vector<Published> published = published_all_reduces();
  const auto ideal = std::make_shared<const Profile>(shipped.load("ideal"));
  PublishedClusters clusters;
  std::vector<Line> lines;
  Table numbers;
  numbers.headings = {"profile", "number", "value", "low", "high"};
  const std::vector<std::string>& wanted = options.profiles.empty() ? shipped.names() : options.profiles;
  for (const std::string& name : wanted) {
    Profile start = shipped.load(name);
    const std::vector<Free> free = free_numbers(start);
    if (free.empty() && !options.profiles.empty()) throw input_error(fmt::format("profile {} has no fitted numbers", name));
    if (free.empty()) continue;
    for (const Free& f : free) *f.value = f.start;
    if (free.size() > 8) throw input_error(fmt::format("profile {} has {} free numbers; 8 at most", name, free.size()));
    std::vector<Published> points, never;
    std::vector<std::string> sources;
    for (const Published& p : published) {
      if (p.machine.empty() || std::find(start.instances.begin(), start.instances.end(), p.machine) == start.instances.end())
        continue;
      (p.fit ? points : never).push_back(p);
      if (p.fit && std::find(sources.begin(), sources.end(), p.source) == sources.end()) sources.push_back(p.source);
    }
    if (points.empty()) {
      if (options.profiles.empty()) continue;  // one of our own transports
      throw input_error(fmt::format("profile {}: nothing is published for the instances that it was made for", name));
    }
    Fit whole = fit(start, points, options.rounds, options.jobs, clusters);
    const auto record = [&](const std::string& way, const std::vector<Published>& of,
                            const std::shared_ptr<const Profile>& profile) {
      const Eigen::VectorXd r = residuals(of, {profile}, options.jobs, clusters)[0];
      for (std::size_t k = 0; k < of.size(); ++k) {
        auto at =
            std::find_if(lines.begin(), lines.end(), [&](const Line& l) { return l.fold == group_of(of[k]) && l.way == way; });
        if (at == lines.end()) at = lines.insert(lines.end(), {group_of(of[k]), name, way, {}, {}});
        (of[k].bytes.value < kLarge ? at->small : at->large).push_back(r[static_cast<Eigen::Index>(k)]);
        at->bytes.push_back(of[k].bytes.value);
        at->all.push_back(r[static_cast<Eigen::Index>(k)]);
      }
    };
    record("fitted", points, std::make_shared<const Profile>(whole.profile));
    record("uncalibrated", points, ideal);
    if (!never.empty()) {
      record("never fitted", never, std::make_shared<const Profile>(whole.profile));
      record("uncalibrated", never, ideal);
    }
    // A whole source at a time, with all its sizes and node counts: they tell each other.
    for (const std::string& left : sources) {
      std::vector<Published> kept, out;
      for (const Published& p : points) (p.source == left ? out : kept).push_back(p);
      if (kept.empty()) continue;
      record("left out", out, std::make_shared<const Profile>(fit(start, kept, options.rounds, options.jobs, clusters).profile));
    }

    // What a prediction is uncertain by: the residuals of sources that the fit had not seen, where there are several.
    whole.profile.accuracy.clear();
    // Apart below 1 MiB (latency), to 64 MiB (protocols and chunks, where sources differ most) and beyond (bandwidth).
    constexpr std::array<std::array<double, 2>, 3> bands{{{0, kLarge}, {kLarge, 64 * kLarge}, {64 * kLarge, 1e18}}};
    for (const auto& [from, to] : bands) {
      std::vector<double> absolute;
      const auto inside = [&, low = from, high = to](double bytes) { return low <= bytes && bytes < high; };
      const std::string way = sources.size() > 1 ? "left out" : "fitted";
      for (const Line& l : lines)
        if (l.profile == name && l.way == way)
          for (std::size_t k = 0; k < l.bytes.size(); ++k)
            if (inside(l.bytes[k])) absolute.push_back(std::abs(l.all[k]));
      if (absolute.empty()) continue;
      Accuracy a;
      a.least = Bytes{1e18};
      a.seen = sources.size() == 1;
      for (const Published& p : points) {
        if (!inside(p.bytes.value)) continue;
        a.least = std::min(a.least, p.bytes);
        a.most = std::max(a.most, p.bytes);
        const int each = p.gpus / p.nodes;
        const auto known =
            std::find_if(a.compared.begin(), a.compared.end(), [&](const Compared& c) { return c.instance == p.machine; });
        if (known == a.compared.end()) a.compared.push_back({p.machine, p.nodes, p.nodes, each, each});
        else
          *known = {p.machine, std::min(known->nodes_least, p.nodes), std::max(known->nodes_most, p.nodes),
                    std::min(known->per_node_least, each), std::max(known->per_node_most, each)};
      }
      a.points = static_cast<int>(absolute.size());
      a.spread = std::exp(quantile(absolute, 0.9));
      a.source = fmt::format("models/reference/allreduce.csv, sources {}", way);
      whole.profile.accuracy.push_back(a);
    }
    const std::vector<Free> fitted = free_numbers(whole.profile);
    std::sort(sources.begin(), sources.end());
    for (std::size_t k = 0; k < fitted.size(); ++k) {
      const double deviation = whole.deviation[static_cast<Eigen::Index>(k)], value = *fitted[k].value;
      const std::string source = fmt::format("foreduce calibrate --reference: {}", fmt::join(sources, ", "));
      if (deviation > kUntold) {
        fitted[k].settle({}, source + "; these points do not tell it");
        numbers.rows.push_back({name, fitted[k].name, fmt::format("{:.5g}", value), "-", "-"});
        continue;
      }
      const double factor = std::exp(1.645 * deviation), low = value / factor, high = std::min(fitted[k].most, value * factor);
      fitted[k].settle(std::array{low, high}, source);
      numbers.rows.push_back(
          {name, fitted[k].name, fmt::format("{:.5g}", value), fmt::format("{:.5g}", low), fmt::format("{:.5g}", high)});
    }
    if (options.folder.empty()) continue;
    const auto file = std::filesystem::path(options.folder) / (name + ".yaml");
    std::ofstream out(file, std::ios::binary);
    out << to_yaml(whole.profile) << std::flush;
    if (!out) throw file_error(file.string(), "cannot be written");
  }

  Table table;
  table.headings = {"source", "profile",   "way",    "<1MiB: n", "median", "geo.mean", "worst",
                    "bias",   ">=1MiB: n", "median", "geo.mean", "worst",  "bias"};
  std::vector<Line> totals;
  for (const char* way : {"fitted", "left out", "never fitted", "uncalibrated"}) {
    Line& total = totals.emplace_back(Line{"all", "", way, {}, {}});
    for (const Line& l : lines)
      if (l.way == way) {
        total.small.insert(total.small.end(), l.small.begin(), l.small.end());
        total.large.insert(total.large.end(), l.large.begin(), l.large.end());
      }
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return std::pair(a.profile, a.fold) < std::pair(b.profile, b.fold); });
  lines.insert(lines.end(), totals.begin(), totals.end());
  for (const Line& l : lines) {
    std::vector<std::string> row{l.fold, l.profile, l.way};
    for (const auto* part : {&l.small, &l.large}) {
      const Errors e = errors_of(*part);
      row.push_back(fmt::format("{}", e.points));
      for (const std::string& text : {percent(e.median), percent(e.mean), percent(e.worst), fmt::format("{:+.1f} %", 100 * e.bias)})
        row.push_back(e.points > 0 ? text : "-");
    }
    table.rows.push_back(row);
  }
  if (format == Format::csv) return table.csv();
  if (format == Format::json) {
    nlohmann::ordered_json json = {{"foreduce_version", FOREDUCE_VERSION}, {"kind", "calibrate"}};
    for (const auto& [key, from] : {std::pair("errors", &table), std::pair("numbers", &numbers)})
      for (const auto& row : from->rows) {
        auto& one = json[key].emplace_back();
        for (std::size_t i = 0; i < row.size(); ++i) one.push_back({from->headings[i], row[i]});
      }
    return json.dump(2) + "\n";
  }
  return table.text(false) + "\n" + numbers.text(false);
}

}  // namespace foreduce
