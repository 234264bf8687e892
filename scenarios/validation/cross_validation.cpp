#include "scenarios/validation/cross_validation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

#include "models/statistics.hpp"
#include "models/uncertainty.hpp"
#include "scenarios/validation/folds.hpp"
#include "scenarios/validation/profile_fit.hpp"

namespace foreduce {
namespace {

/// One sigma of a logarithm: a number that may as well be twenty times as large is not determined
/// by the points.
constexpr double kUndetermined = 3;

/// Inside a node NVLink counts, and between nodes the network: errors of one say little of the
/// other.
enum class Reach : std::uint8_t { one_node, several_nodes };
Reach reach_of(int nodes) { return nodes == 1 ? Reach::one_node : Reach::several_nodes; }
/// Points that share one statement of how far predictions are off.
struct AccuracyRange {
  Collective collective = Collective::all_reduce;
  std::string name;  ///< of the profile, or of the fabric
  bool fabric = false;
  Reach reach = Reach::one_node;
  std::size_t band = 0;
};
/// So many points tell a spread, if any do.
constexpr std::size_t kFewest = 3;
/// Points of which a tenth can be left outside.
constexpr std::size_t kEnough = 10;
/// What other numbers of nodes are uncertain by at least where fewer points tell it (assumed).
constexpr double kFewTell = 1.15;
/// So many of published times are to be inside.
constexpr double kInside = 0.9;

/// What may be said of one profile: its points, those of the test set, and the sources of the fit.
struct Material {
  std::vector<Published> points, test_set;
  std::vector<std::string> sources;
};

bool is_held_out(FitSet set) {
  return set == FitSet::leave_one_source_out || set == FitSet::leave_nodes_out ||
         set == FitSet::every_other_size;
}

class CrossValidator {
 public:
  explicit CrossValidator(const CrossValidationOptions& options) : options_(options) {}
  CrossValidator(const CrossValidationOptions& options, const Profile& start, UserPoints own)
      : options_(options),
        own_(true),
        data_("nccl-tests' logs of one's own"),
        published_(std::move(own.points)),
        others_(std::move(own.others)),
        clusters_(std::move(own.clusters)),
        composer_(shipped_, start.name) {
    result_.fitted_to = std::move(own.fitted_to);
  }
  CrossValidation run();
  UserFit run_own(const Profile& start);

 private:
  bool is_fabric(const std::string& name) const {
    const auto& fabrics = shipped_.fabrics();
    return !own_ && std::find(fabrics.begin(), fabrics.end(), name) != fabrics.end();
  }
  bool start_of(const std::string& name, Profile& start) const;
  Material material_for(const Profile& profile);
  void validate(const Profile& start, const Material& material);
  void predict_folds(const Profile& start, const Material& material,
                     const std::vector<Fold>& folds);
  void record(FitSet set, const std::vector<Published>& of,
              const std::shared_ptr<const Profile>& profile, const std::string& name,
              const std::vector<Published>& fitted_to);
  void find_spreads(Accuracy& a, const AccuracyRange& range, std::size_t sources) const;
  std::vector<Published> points_in(const AccuracyRange& range, const Material& material);
  std::vector<Compared> compared_in(const AccuracyRange& range,
                                    const std::vector<Published>& points, Accuracy& a);
  void leave_out_unlike(Accuracy& a, const AccuracyRange& range,
                        const std::vector<Published>& points);
  std::vector<AccuracyRange> ranges_of(const std::string& name, const Material& material) const;
  std::vector<Accuracy> accuracy_of(const std::string& name, const Material& material);
  void set_intervals(ProfileFit& fit, std::vector<std::string> sources,
                     const Profile* before = nullptr);
  void sum_up();

  const CrossValidationOptions& options_;
  const bool own_ = false;
  const std::string data_ = "models/reference/allreduce.csv";
  const Profiles shipped_;
  const std::vector<Published> published_ = published_all_reduces();
  const std::vector<Published> others_;
  PublishedClusters clusters_;
  ProfileComposer composer_{shipped_};
  CrossValidation result_;
};

/// False for a profile that is to be passed over; throws InputError where it was asked for by name.
bool CrossValidator::start_of(const std::string& name, Profile& start) const {
  if (const std::size_t plus = name.find('+'); plus != std::string::npos)
    throw input_error(
        fmt::format("{} joins a GPU's profile and a fabric, which are fitted one by one", name),
        fmt::format("--profile {} or --profile {}", name.substr(0, plus), name.substr(plus + 1)));
  start = is_fabric(name) ? shipped_.load_fabric(name) : shipped_.load(name);
  const std::vector<FreeParameter> free = free_parameters(start);
  if (free.empty() && !options_.profiles.empty())
    throw input_error(fmt::format("profile {} has no fitted numbers", name));
  constexpr std::size_t kMost = 16;  // more would take hours, and determine each other
  if (free.size() > kMost)
    throw input_error(
        fmt::format("profile {} has {} free numbers; {} at most", name, free.size(), kMost));
  for (const FreeParameter& f : free) *f.value = f.start;
  return !free.empty();
}

Material CrossValidator::material_for(const Profile& profile) {
  Material m;
  for (const Published& p : published_) {
    if (p.machine.empty() || !composer_.contains(p, profile.name)) continue;
    if (p.nodes == 1 && is_fabric(profile.name)) continue;
    (p.fit ? m.points : m.test_set).push_back(p);
    if (p.fit && std::find(m.sources.begin(), m.sources.end(), p.source) == m.sources.end())
      m.sources.push_back(p.source);
  }
  return m;
}

void CrossValidator::record(FitSet set, const std::vector<Published>& of,
                            const std::shared_ptr<const Profile>& profile, const std::string& name,
                            const std::vector<Published>& fitted_to) {
  std::set<std::tuple<std::string, int, std::size_t>> known;
  for (const Published& p : fitted_to) known.insert({p.machine, p.nodes, band_of(p.bytes.value)});
  const Eigen::VectorXd r = residuals(of, {profile}, options_.batch, clusters_, composer_)[0];
  auto& groups = result_.groups;
  for (std::size_t k = 0; k < of.size(); ++k) {
    const std::string group = curve_of(of[k]);
    auto at = std::find_if(groups.begin(), groups.end(),
                           [&](const FitResiduals& g) { return g.group == group && g.set == set; });
    if (at == groups.end())
      at = groups.insert(groups.end(), {.group = group,
                                        .profile = name,
                                        .whole = composer_.name_for(of[k]),
                                        .set = set,
                                        .nodes = of[k].nodes,
                                        .collective = of[k].collective});
    at->bytes.push_back(of[k].bytes.value);
    at->known.push_back(known.contains({of[k].machine, of[k].nodes, band_of(of[k].bytes.value)}));
    at->residuals.push_back(r[static_cast<Eigen::Index>(k)]);
  }
}

/// What a prediction is uncertain by: the residuals of sources that the fit had not seen, where
/// there are several; at least those of the fit itself. Where other sources had the same number of
/// nodes, theirs count; else those of the numbers of nodes that a fit lacked. A range of one source
/// that the others predict badly is one that was seen in a single run. What other numbers of nodes
/// are uncertain by: those that were kept back on more nodes than the fit had, where there are
/// enough, for they are predicted by the very fit; else those that fits without a source lacked.
void CrossValidator::find_spreads(Accuracy& a, const AccuracyRange& range,
                                  std::size_t sources) const {
  std::vector<double> fitted, known, unknown, more_nodes;
  std::set<int> nodes;
  for (const Compared& c : a.compared) nodes.insert(c.nodes.begin(), c.nodes.end());
  for (const FitResiduals& g : result_.groups) {
    if (g.profile != range.name || (!range.fabric && g.whole != range.name) ||
        reach_of(g.nodes) != range.reach || g.collective != range.collective)
      continue;
    for (std::size_t k = 0; k < g.bytes.size(); ++k) {
      if (band_of(g.bytes[k]) != range.band) continue;
      const double off = std::abs(g.residuals[k]);
      if (g.set == FitSet::fit) fitted.push_back(off);
      if (is_held_out(g.set)) (g.known[k] ? known : unknown).push_back(off);
      if (g.set == FitSet::test_set && g.nodes > *nodes.rbegin()) more_nodes.push_back(off);
    }
  }
  a.points = static_cast<int>(fitted.size());
  double within = quantile(fitted, kInside);
  const std::vector<double>& left_out = known.empty() ? unknown : known;
  a.source = data_;
  if (known.empty() && sources == 1 && !unknown.empty() &&
      quantile(unknown, kInside) > std::log(uncertainty_constants().unseen_source))
    a.seen = true;
  if (!left_out.empty() && !a.seen) {
    within = std::max(within, quantile(left_out, kInside));
    a.source += own_ ? ", every other size left out" : ", sources left out";
  }
  a.spread = std::exp(within);
  std::vector<double> other_nodes = more_nodes;
  if (more_nodes.size() < kEnough)
    other_nodes.insert(other_nodes.end(), unknown.begin(), unknown.end());
  const double least = other_nodes.size() >= kEnough ? 0 : std::log(kFewTell);
  if (nodes.size() > 1 && !other_nodes.empty())  // else nothing tells what other nodes would do
    a.spread_other_nodes = std::exp(std::max({within, least, quantile(other_nodes, kInside)}));
}

/// The points that a fit may use and that a range is about.
std::vector<Published> CrossValidator::points_in(const AccuracyRange& range,
                                                 const Material& material) {
  std::vector<Published> points;
  for (const Published& p : material.points)
    if (p.collective == range.collective && band_of(p.bytes.value) == range.band &&
        reach_of(p.nodes) == range.reach && (range.fabric || composer_.name_for(p) == range.name))
      points.push_back(p);
  return points;
}

/// Of which clusters those points are, and of which sizes.
std::vector<Compared> CrossValidator::compared_in(const AccuracyRange& range,
                                                  const std::vector<Published>& points,
                                                  Accuracy& a) {
  std::vector<Compared> compared;
  for (const Published& p : points) {
    const std::string where = range.fabric ? family_of(*machine_named(p.machine).gpu) : p.machine;
    a.least = std::min(a.least, p.bytes);
    a.most = std::max(a.most, p.bytes);
    const int each = p.gpus / p.nodes;
    auto known = std::find_if(compared.begin(), compared.end(),
                              [&](const Compared& c) { return c.instance == where; });
    if (known == compared.end()) known = compared.insert(known, Compared{where, {}, each, each});
    const auto at = std::lower_bound(known->nodes.begin(), known->nodes.end(), p.nodes);
    if (at == known->nodes.end() || *at != p.nodes) known->nodes.insert(at, p.nodes);
    known->per_node_least = std::min(known->per_node_least, each);
    known->per_node_most = std::max(known->per_node_most, each);
  }
  return compared;
}

/// A fabric's factor is of several kinds of GPUs together. One whose times are mostly beyond it is
/// none that the range tells of: its interval is that of a kind that was not measured. Families
/// that share a profile are judged together. Where none would be left, all stay.
void CrossValidator::leave_out_unlike(Accuracy& a, const AccuracyRange& range,
                                      const std::vector<Published>& points) {
  constexpr double kMostly = 0.5;
  const std::vector<Compared> whole = a.compared;
  std::map<std::string, std::string> profile_of;  // by family
  for (const Published& p : points)
    profile_of.emplace(family_of(*machine_named(p.machine).gpu), composer_.name_for(p));
  std::erase_if(a.compared, [&](const Compared& c) {
    int all = 0, inside = 0;
    for (const FitResiduals& g : result_.groups) {
      const bool held_out_or_fitted = g.set == FitSet::fit || is_held_out(g.set);
      if (g.profile != range.name || g.whole != profile_of.at(c.instance) || !held_out_or_fitted ||
          reach_of(g.nodes) != range.reach || g.collective != range.collective)
        continue;
      for (std::size_t k = 0; k < g.bytes.size(); ++k) {
        if (band_of(g.bytes[k]) != range.band) continue;
        ++all;
        inside += std::abs(g.residuals[k]) <= std::log(a.spread);
      }
    }
    return inside < kMostly * all;
  });
  if (a.compared.empty()) a.compared = whole;
}

/// Of each collective that the points are of.
std::vector<AccuracyRange> CrossValidator::ranges_of(const std::string& name,
                                                     const Material& material) const {
  std::set<Collective> collectives;
  for (const Published& p : material.points) collectives.insert(p.collective);
  std::vector<AccuracyRange> ranges;
  for (const Collective c : collectives)
    for (std::size_t band = 0; band <= kBands.size(); ++band)
      for (const Reach reach : {Reach::one_node, Reach::several_nodes})
        ranges.push_back({c, name, is_fabric(name), reach, band});
  return ranges;
}

std::vector<Accuracy> CrossValidator::accuracy_of(const std::string& name,
                                                  const Material& material) {
  std::vector<Accuracy> accuracy;
  for (const AccuracyRange& range : ranges_of(name, material)) {
    Accuracy a;
    a.collective = range.collective;
    a.least = Bytes{1e18};
    a.seen = material.sources.size() == 1 && !own_;
    const std::vector<Published> points = points_in(range, material);
    if (points.size() < kFewest) {  // what is said of the sizes beside them holds
      const auto beside =
          std::find_if(accuracy.rbegin(), accuracy.rend(), [&](const Accuracy& other) {
            return reach_of(other.compared[0].nodes[0]) == range.reach &&
                   other.collective == range.collective;
          });
      for (const Published& p : points)
        if (own_ && beside != accuracy.rend()) beside->most = std::max(beside->most, p.bytes);
      continue;
    }
    a.compared = compared_in(range, points, a);
    std::set<std::string> sources;
    for (const Published& p : points) sources.insert(p.source);
    find_spreads(a, range, sources.size());
    if (range.fabric) leave_out_unlike(a, range, points);
    accuracy.push_back(std::move(a));
  }
  return accuracy;
}

/// Gives each fitted number its confidence interval and its source. One that stays where it was
/// `before` keeps both.
void CrossValidator::set_intervals(ProfileFit& fit, std::vector<std::string> sources,
                                   const Profile* before) {
  std::sort(sources.begin(), sources.end());
  const std::string source = fmt::format("foreduce calibrate {}: {}", own_ ? "LOG" : "--reference",
                                         fmt::join(sources, ", "));
  constexpr double kMoved = 1e-3;  // of a logarithm
  const std::vector<FreeParameter> numbers = free_parameters(fit.profile);
  Profile start = before ? *before : Profile{};
  const std::vector<FreeParameter> earlier = free_parameters(start);
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    const double deviation = fit.deviation[static_cast<Eigen::Index>(k)], value = *numbers[k].value;
    FittedParameter& number =
        result_.numbers.emplace_back(FittedParameter{fit.profile.name, numbers[k].name, value, {}});
    if (before && std::abs(std::log(value / *earlier[k].value)) < kMoved) {
      number.interval = numbers[k].interval;
      continue;
    }
    if (deviation > kUndetermined) {
      numbers[k].set_interval({}, source + "; these points do not determine it");
      continue;
    }
    const double factor = std::exp(1.645 * deviation);
    number.interval = std::array{value / factor, std::min(numbers[k].upper_bound, value * factor)};
    numbers[k].set_interval(number.interval, source);
  }
}

void CrossValidator::validate(const Profile& start, const Material& material) {
  const auto ideal = std::make_shared<const Profile>(shipped_.load("ideal"));
  const auto fit_to = [&](const std::vector<Published>& points) {
    return fit_profile(start, points, options_, clusters_, composer_);
  };
  ProfileFit whole = fit_to(material.points);
  const auto fitted = std::make_shared<const Profile>(whole.profile);
  record(FitSet::fit, material.points, fitted, start.name, material.points);
  record(FitSet::uncalibrated, material.points, ideal, start.name, {});
  if (!material.test_set.empty()) {
    record(FitSet::test_set, material.test_set, fitted, start.name, material.points);
    record(FitSet::uncalibrated, material.test_set, ideal, start.name, {});
  }
  predict_folds(start, material, folds_by_source(material.points, material.sources));
  whole.profile.accuracy = accuracy_of(start.name, material);
  set_intervals(whole, material.sources);
  if (options_.folder.empty()) return;
  const auto file = std::filesystem::path(options_.folder) / (start.name + ".yaml");
  std::ofstream out(file, std::ios::binary);
  out << to_yaml(whole.profile) << std::flush;
  if (!out) throw file_error(file, "cannot be written");
}

/// Predicts the points of each fold by a fit to the others; a fold of all points has none.
void CrossValidator::predict_folds(const Profile& start, const Material& material,
                                   const std::vector<Fold>& folds) {
  for (const Fold& fold : folds) {
    std::vector<Published> kept, out;
    for (std::size_t k = 0; k < material.points.size(); ++k)
      (fold.out[k] ? out : kept).push_back(material.points[k]);
    if (kept.empty() || out.empty()) continue;
    const ProfileFit fit = fit_profile(start, kept, options_, clusters_, composer_,
                                       own_ ? Known::start : Known::nothing);
    record(fold.set, out, std::make_shared<const Profile>(fit.profile), start.name, kept);
  }
}

/// Of what is said of a profile's predictions, that which is of one node, or of several, where
/// these points are of neither.
std::vector<Accuracy> of_other_reaches(std::vector<Accuracy> said,
                                       const std::vector<Published>& points) {
  for (Accuracy& a : said)
    std::erase_if(a.compared, [&](const Compared& c) {
      return std::any_of(points.begin(), points.end(), [&](const Published& p) {
        return reach_of(p.nodes) == reach_of(c.nodes.back());
      });
    });
  std::erase_if(said, [](const Accuracy& a) { return a.compared.empty(); });
  return said;
}

UserFit CrossValidator::run_own(const Profile& start) {
  Profile copy = start;
  const std::vector<FreeParameter> before = free_parameters(copy);
  if (before.empty())
    throw input_error(fmt::format("profile {} has no fitted numbers", start.name));
  Material material{published_, {}, {}};
  for (const Published& p : published_)
    if (std::find(material.sources.begin(), material.sources.end(), p.source) ==
        material.sources.end())
      material.sources.push_back(p.source);
  ProfileFit fit = fit_profile(start, published_, options_, clusters_, composer_, Known::start);
  record(FitSet::as_shipped, published_, std::make_shared<const Profile>(start), start.name, {});
  record(FitSet::fit, published_, std::make_shared<const Profile>(fit.profile), start.name,
         published_);
  if (!others_.empty())
    record(FitSet::other_collectives, others_, std::make_shared<const Profile>(fit.profile),
           start.name, {});
  predict_folds(start, material, folds_by_size(published_));
  predict_folds(start, material, folds_by_nodes(published_));
  fit.profile.accuracy = accuracy_of(start.name, material);
  const std::vector<Accuracy> rest = of_other_reaches(start.accuracy, published_);
  fit.profile.accuracy.insert(fit.profile.accuracy.end(), rest.begin(), rest.end());
  set_intervals(fit, material.sources, &start);
  sum_up();
  return {std::move(fit.profile), std::move(result_)};
}

void CrossValidator::sum_up() {
  for (const FitSet set :
       {FitSet::fit, FitSet::every_other_size, FitSet::leave_nodes_out, FitSet::other_collectives,
        FitSet::leave_one_source_out, FitSet::test_set, FitSet::as_shipped, FitSet::uncalibrated}) {
    FitResiduals& total = result_.totals.emplace_back(FitResiduals{.group = "all", .set = set});
    for (const FitResiduals& g : result_.groups) {
      if (g.set != set) continue;
      total.bytes.insert(total.bytes.end(), g.bytes.begin(), g.bytes.end());
      total.residuals.insert(total.residuals.end(), g.residuals.begin(), g.residuals.end());
    }
    if (total.bytes.empty()) result_.totals.pop_back();
  }
  std::stable_sort(result_.groups.begin(), result_.groups.end(),
                   [](const FitResiduals& a, const FitResiduals& b) {
                     return std::pair(a.profile, a.group) < std::pair(b.profile, b.group);
                   });
}

CrossValidation CrossValidator::run() {
  std::vector<std::string> names = options_.profiles;
  if (names.empty()) {
    names = shipped_.names();
    names.insert(names.end(), shipped_.fabrics().begin(), shipped_.fabrics().end());
  }
  for (const std::string& name : names) {
    Profile start;
    if (!start_of(name, start)) continue;
    const Material material = material_for(start);
    if (!material.points.empty()) validate(start, material);
    else if (!options_.profiles.empty())
      throw input_error(fmt::format(
          "profile {}: nothing is published for the machines that it was made for", name));
  }
  sum_up();
  return std::move(result_);
}

}  // namespace

const char* name_of(FitSet set) {
  switch (set) {
    case FitSet::fit: return "fit";
    case FitSet::leave_one_source_out: return "leave-one-source-out";
    case FitSet::leave_one_fabric_out: return "leave-one-fabric-out";
    case FitSet::leave_one_gpu_out: return "leave-one-GPU-out";
    case FitSet::leave_nodes_out: return "other node counts";
    case FitSet::every_other_size: return "every other size";
    case FitSet::other_collectives: return "other collectives";
    case FitSet::test_set: return "test set";
    case FitSet::as_shipped: return "as shipped";
    case FitSet::uncalibrated: break;
  }
  return "uncalibrated";
}

std::vector<double> FitResiduals::below_1mib() const {
  std::vector<double> some;
  for (std::size_t k = 0; k < bytes.size(); ++k)
    if (bytes[k] < kLarge) some.push_back(residuals[k]);
  return some;
}
std::vector<double> FitResiduals::from_1mib() const {
  std::vector<double> some;
  for (std::size_t k = 0; k < bytes.size(); ++k)
    if (bytes[k] >= kLarge) some.push_back(residuals[k]);
  return some;
}

UserFit fit_to_own(const Profile& start, UserPoints own, const CrossValidationOptions& options) {
  return CrossValidator(options, start, std::move(own)).run_own(start);
}

CrossValidation cross_validate(const CrossValidationOptions& options) {
  return CrossValidator(options).run();
}

}  // namespace foreduce
