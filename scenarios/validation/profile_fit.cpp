#include "scenarios/validation/profile_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace foreduce {

std::string curve_of(const Published& p) {
  return fmt::format(
      "{} | {} | {} x {}{}", p.source, p.instance, p.nodes, p.gpus / p.nodes,
      p.collective == Collective::all_reduce ? "" : fmt::format(" {}", title_of(p.collective)));
}

const std::string& ProfileComposer::name_for(const Published& p) {
  if (!whole_.empty()) return whole_;
  auto& known = names_[p.machine];
  if (known.empty()) known = shipped_.nearest_to(machine_named(p.machine)).name;
  return known;
}

bool ProfileComposer::contains(const Published& p, const std::string& part) {
  const std::string& name = name_for(p);
  return name == part || name.starts_with(part + "+") || name.ends_with("+" + part);
}

std::vector<ProfilePtr> ProfileComposer::profiles(const std::vector<Published>& points,
                                                  const ProfilePtr& part) {
  const auto joined = [](const Profile& gpu, const Profile& fabric) {
    return std::make_shared<const Profile>(over_fabric(gpu, fabric));
  };
  std::map<std::string, ProfilePtr> made;
  std::vector<ProfilePtr> all;
  for (const Published& p : points) {
    const std::string& name = name_for(p);
    ProfilePtr& whole = made[name];
    const auto plus = name.find('+');
    if (!whole)
      whole = plus == std::string::npos || part->name == "ideal" || !whole_.empty() ? part
              : name.ends_with("+" + part->name)
                  ? joined(shipped_.load(name.substr(0, plus)), *part)
                  : joined(*part, shipped_.load_fabric(name.substr(plus + 1)));
    all.push_back(whole);
  }
  return all;
}

std::vector<Eigen::VectorXd> residuals_by(const std::vector<Published>& points,
                                          const std::vector<std::vector<ProfilePtr>>& choices,
                                          const BatchOptions& options,
                                          PublishedClusters& clusters) {
  std::vector<CollectiveRequest> requests;
  for (const auto& whole : choices)
    for (std::size_t k = 0; k < points.size(); ++k)
      requests.push_back(request_for(points[k], whole[k], clusters));
  const std::vector<CollectiveEstimate> answers = estimate_collectives(requests, options);
  std::vector<Eigen::VectorXd> out;
  for (std::size_t c = 0, i = 0; c < choices.size(); ++c) {
    Eigen::VectorXd& r = out.emplace_back(static_cast<Eigen::Index>(points.size()));
    for (std::size_t k = 0; k < points.size(); ++k, ++i) {
      if (!answers[i].error.empty())
        throw input_error(fmt::format("{}: {}", points[k].source, answers[i].error));
      r[static_cast<Eigen::Index>(k)] = std::log(answers[i].time / points[k].time);
    }
  }
  return out;
}

std::vector<Eigen::VectorXd> residuals(
    const std::vector<Published>& points,
    const std::vector<std::shared_ptr<const Profile>>& candidates, const BatchOptions& options,
    PublishedClusters& clusters, ProfileComposer& composer) {
  std::vector<std::vector<ProfilePtr>> choices;
  for (const auto& part : candidates) choices.push_back(composer.profiles(points, part));
  return residuals_by(points, choices, options, clusters);
}

namespace {

/// Sum of absolute residuals, smoothed near zero: an outlier counts once, not squared.
constexpr double kSmooth = 0.05;
double loss(const Eigen::VectorXd& r) {
  return (r.array().square() + kSmooth * kSmooth).sqrt().sum();
}

/// So often at most, less one, numbers are tried in pairs, which takes as long as a hundred
/// predictions of all points.
constexpr int kPairs = 4;

/// One sigma of what a number's interval says of its logarithm; sites differ by more than a tight
/// fit to a few of them, and a number without an interval is hardly known (both assumed).
double sigma_of(const FreeParameter& f) {
  constexpr double kLeast = 0.1, kUnknown = 1;
  if (!f.interval || (*f.interval)[0] <= 0) return kUnknown;
  return std::max(kLeast, std::log((*f.interval)[1] / (*f.interval)[0]) / (2 * 1.645));
}

/// Steps along single numbers first, for the surface has many valleys: what binds changes with the
/// numbers, and whole messages make stairs. Then iteratively reweighted Gauss-Newton on their
/// logarithms, damped, and small steps again. They stay positive, efficiencies at most 1.
class Fitter {
 public:
  Fitter(const Profile& start, const std::vector<Published>& points,
         const CrossValidationOptions& options, PublishedClusters& clusters,
         ProfileComposer& composer, Known before)
      : points_(points),
        options_(options),
        clusters_(clusters),
        composer_(composer),
        best_{start, 0, {}} {
    Profile copy = start;
    const std::vector<FreeParameter> free = free_parameters(copy);
    count_ = static_cast<Eigen::Index>(free.size());
    if (before == Known::start)
      for (const FreeParameter& f : free) known_.push_back({*f.value, sigma_of(f)});
    best_.deviation = Eigen::VectorXd::Zero(count_);
  }

  ProfileFit fit() {
    for (const double by : {0.7, 0.35, 0.15}) walk(by);
    gauss_newton();
    walk(0.05);
    for (int round = 1; round < std::min(options_.rounds, kPairs) && walk_in_pairs(0.2); ++round)
      walk(0.05);
    find_deviations();
    return best_;
  }

 private:
  struct Slopes {
    Eigen::VectorXd r, w;
    Eigen::MatrixXd j, normal;
  };

  static ProfilePtr moved(const Profile& from, const Eigen::VectorXd& by) {
    auto to = std::make_shared<Profile>(from);
    const std::vector<FreeParameter> free = free_parameters(*to);
    for (std::size_t k = 0; k < free.size(); ++k)
      *free[k].value = std::min(free[k].upper_bound,
                                *free[k].value * std::exp(by[static_cast<Eigen::Index>(k)]));
    return to;
  }
  std::vector<Eigen::VectorXd> residuals_of(const std::vector<ProfilePtr>& candidates) const;
  void walk(double by);
  bool walk_in_pairs(double by);
  Slopes slopes() const;
  void gauss_newton();
  void find_deviations();

  const std::vector<Published>& points_;
  const CrossValidationOptions& options_;
  PublishedClusters& clusters_;
  ProfileComposer& composer_;
  ProfileFit best_;
  Eigen::Index count_ = 0;
  struct KnownNumber {
    double value, sigma;  // sigma: of the logarithm
  };
  std::vector<KnownNumber> known_;
};

/// Those of the points, and one for each number that was known before: a number at one sigma from
/// what was known costs half of kSmooth, and one far from it no more than in proportion, for a
/// cluster may be unlike all that were published.
std::vector<Eigen::VectorXd> Fitter::residuals_of(const std::vector<ProfilePtr>& candidates) const {
  auto all = residuals(points_, candidates, options_.batch, clusters_, composer_);
  if (known_.empty()) return all;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    Profile copy = *candidates[c];
    const std::vector<FreeParameter> free = free_parameters(copy);
    const Eigen::Index n = all[c].size();
    all[c].conservativeResize(n + count_);
    for (std::size_t k = 0; k < free.size(); ++k)
      all[c][n + static_cast<Eigen::Index>(k)] =
          kSmooth * std::log(*free[k].value / known_[k].value) / known_[k].sigma;
  }
  return all;
}

/// Tries every number `by` up and down (logarithms), takes the best and what improved together with
/// it, until nothing does.
void Fitter::walk(double by) {
  for (int round = 0; round < options_.rounds; ++round) {
    std::vector<ProfilePtr> candidates{std::make_shared<const Profile>(best_.profile)};
    for (Eigen::Index k = 0; k < 2 * count_; ++k)
      candidates.push_back(
          moved(best_.profile, Eigen::VectorXd::Unit(count_, k / 2) * (k % 2 ? -by : by)));
    const auto tried = residuals_of(candidates);
    best_.loss = loss(tried[0]);
    Eigen::VectorXd together = Eigen::VectorXd::Zero(count_);
    std::size_t least = 0;
    for (std::size_t c = 1; c < tried.size(); ++c) {
      const double one = loss(tried[c]);
      if (one < best_.loss) together[static_cast<Eigen::Index>(c - 1) / 2] = (c - 1) % 2 ? -by : by;
      if (one < loss(tried[least])) least = c;
    }
    if (least == 0 || loss(tried[least]) > best_.loss * (1 - 1e-3)) return;
    const auto both = moved(best_.profile, together);
    const double all = loss(residuals_of({both})[0]);
    best_.profile = all < loss(tried[least]) ? *both : *candidates[least];
    best_.loss = std::min(all, loss(tried[least]));
  }
}

/// Tries every two numbers together, each up and down; whether any helped. Where one makes up for
/// another, as a rate and a latency do, neither helps alone.
bool Fitter::walk_in_pairs(double by) {
  std::vector<ProfilePtr> candidates;
  for (Eigen::Index a = 0; a < count_; ++a)
    for (Eigen::Index b = 0; b < a; ++b)
      for (const double up : {by, -by})
        for (const double sideways : {by, -by})
          candidates.push_back(moved(
              best_.profile,
              up * Eigen::VectorXd::Unit(count_, a) + sideways * Eigen::VectorXd::Unit(count_, b)));
  if (candidates.empty()) return false;
  const auto tried = residuals_of(candidates);
  std::size_t least = 0;
  for (std::size_t c = 1; c < tried.size(); ++c)
    if (loss(tried[c]) < loss(tried[least])) least = c;
  if (loss(tried[least]) > best_.loss * (1 - 1e-3)) return false;
  best_.profile = *candidates[least];
  best_.loss = loss(tried[least]);
  return true;
}

/// Residuals at the best profile, their weights, and how they move with each number's logarithm.
Fitter::Slopes Fitter::slopes() const {
  constexpr double step =
      0.05;  // of a logarithm: large enough to pass over the steps that whole messages make
  std::vector<ProfilePtr> candidates{std::make_shared<const Profile>(best_.profile)};
  std::vector<double> steps;
  for (Eigen::Index k = 0; k < count_; ++k) {
    Profile copy = best_.profile;
    const FreeParameter number = free_parameters(copy)[static_cast<std::size_t>(k)];
    steps.push_back(*number.value * std::exp(step) > number.upper_bound ? -step : step);
    candidates.push_back(moved(best_.profile, Eigen::VectorXd::Unit(count_, k) * steps.back()));
  }
  const auto all = residuals_of(candidates);
  Slopes s{all[0],
           (all[0].array().square() + kSmooth * kSmooth).rsqrt(),
           Eigen::MatrixXd(all[0].size(), count_),
           {}};
  for (Eigen::Index k = 0; k < count_; ++k)
    s.j.col(k) = (all[static_cast<std::size_t>(k) + 1] - s.r) / steps[static_cast<std::size_t>(k)];
  s.normal = s.j.transpose() * s.w.asDiagonal() * s.j;
  return s;
}

void Fitter::gauss_newton() {
  double damping = 0.1;
  for (int round = 0; round < options_.rounds; ++round) {
    const Slopes at = slopes();
    best_.loss = loss(at.r);
    const Eigen::VectorXd slope = at.j.transpose() * at.w.asDiagonal() * at.r;
    std::vector<ProfilePtr> candidates;
    std::vector<double> dampings;
    for (const double d : {damping / 10, damping, damping * 10, damping * 100}) {
      const Eigen::MatrixXd damped = at.normal +
                                     d * Eigen::MatrixXd(at.normal.diagonal().asDiagonal()) +
                                     1e-3 * Eigen::MatrixXd::Identity(count_, count_);
      candidates.push_back(
          moved(best_.profile, (-damped.ldlt().solve(slope)).cwiseMax(-1).cwiseMin(1)));
      dampings.push_back(d);
    }
    const auto tried = residuals_of(candidates);
    std::size_t least = 0;
    for (std::size_t k = 1; k < tried.size(); ++k)
      if (loss(tried[k]) < loss(tried[least])) least = k;
    if (loss(tried[least]) > best_.loss * (1 - 1e-4)) return;
    best_.profile = *candidates[least];
    best_.loss = loss(tried[least]);
    damping = std::clamp(dampings[least], 1e-4, 1e2);
  }
}

/// Neighbouring sizes of one run err together: as many points count as there are curves.
void Fitter::find_deviations() {
  const Slopes at = slopes();
  std::set<std::string> curves;
  for (const Published& p : points_) curves.insert(curve_of(p) + asked_of(p));
  const double sigma2 = (at.w.array() * at.r.array().square()).sum() /
                        std::max(1.0, static_cast<double>(at.r.size() - count_));
  const Eigen::MatrixXd ridge = 1e-6 * Eigen::MatrixXd::Identity(count_, count_);
  best_.deviation = (sigma2 * static_cast<double>(points_.size()) /
                     static_cast<double>(curves.size()) * (at.normal + ridge).inverse())
                        .diagonal()
                        .cwiseSqrt();
}

}  // namespace

ProfileFit fit_profile(const Profile& start, const std::vector<Published>& points,
                       const CrossValidationOptions& options, PublishedClusters& clusters,
                       ProfileComposer& composer, Known before) {
  return Fitter(start, points, options, clusters, composer, before).fit();
}

}  // namespace foreduce
