#include "scenarios/validation/leave_out.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "scenarios/validation/profile_fit.hpp"

namespace foreduce {
namespace {

/// The fabric that is likest to one of which nothing may be known.
Fabric stand_in_for(Fabric fabric) {
  return fabric == Fabric::efa        ? Fabric::rdma
         : fabric == Fabric::efa_host ? Fabric::tcp
                                      : Fabric::efa_host;
}

std::string part_before_plus(const std::string& name) { return name.substr(0, name.find('+')); }

class GroupCrossValidator {
 public:
  GroupCrossValidator(const CrossValidationOptions& options, HeldOut what)
      : options_(options), what_(what) {
    for (const Published& p : published_all_reduces()) {
      if (!p.fit || p.machine.empty()) continue;
      points_.push_back(p);
      families_[part_before_plus(composer_.name_for(p))].insert(
          family_of(*machine_named(p.machine).gpu));
    }
  }

  CrossValidation run() {
    std::set<std::string> groups;
    for (const Published& p : points_) groups.insert(group_of(p));
    groups.erase("");
    for (const std::string& group : groups) predict(group);
    FitResiduals all{"all", "", "", set(), 0, {}, {}, {}, {}};
    for (const FitResiduals& total : result_.totals) add(all, total);
    result_.totals.push_back(std::move(all));
    return std::move(result_);
  }

 private:
  FitSet set() const {
    return what_ == HeldOut::fabric ? FitSet::leave_one_fabric_out : FitSet::leave_one_gpu_out;
  }
  static void add(FitResiduals& to, const FitResiduals& some) {
    to.bytes.insert(to.bytes.end(), some.bytes.begin(), some.bytes.end());
    to.residuals.insert(to.residuals.end(), some.residuals.begin(), some.residuals.end());
  }
  std::string group_of(const Published& p);
  void predict(const std::string& group);
  void record(const std::vector<Published>& points, const std::vector<ProfilePtr>& profiles,
              const std::string& group);
  std::optional<Profile> refitted(const std::string& part);
  ProfilePtr without_fabric(const Published& p);
  ProfilePtr without_gpu(const Published& p);
  bool is_fabric(const std::string& part) const {
    return std::find(shipped_.fabrics().begin(), shipped_.fabrics().end(), part) !=
           shipped_.fabrics().end();
  }

  const CrossValidationOptions& options_;
  const HeldOut what_;
  const Profiles shipped_;
  std::vector<Published> points_;
  PublishedClusters clusters_;
  ProfileComposer composer_{shipped_};
  std::vector<Published> kept_;                             ///< of the group in hand
  std::map<std::string, std::optional<Profile>> refitted_;  ///< to those, by name
  std::map<std::string, std::set<std::string>> families_;   ///< of GPUs, by their profile
  CrossValidation result_;
};

/// Empty for what stays in every fit.
std::string GroupCrossValidator::group_of(const Published& p) {
  const Machine machine = machine_named(p.machine);
  if (what_ == HeldOut::gpu) {
    if (!machine.nvlink) return family_of(*machine.gpu);
    // H100 and H200 share a profile, and so one knows what the other is like.
    return fmt::format("{}",
                       fmt::join(families_.at(part_before_plus(composer_.name_for(p))), " and "));
  }
  if (p.nodes == 1) return "";
  return machine.fabric() == Fabric::rdma && machine.nic.fabric ? to_text(*machine.nic.fabric)
                                                                : to_text(machine.fabric());
}

/// The part's free numbers as `kept_` tells them; null where that is too little. A part without
/// free numbers is as it ships.
std::optional<Profile> GroupCrossValidator::refitted(const std::string& part) {
  if (const auto known = refitted_.find(part); known != refitted_.end()) return known->second;
  Profile start = is_fabric(part) ? shipped_.load_fabric(part) : shipped_.load(part);
  const std::vector<FreeParameter> free = free_parameters(start);
  for (const FreeParameter& f : free) *f.value = f.start;
  std::vector<Published> points;
  for (const Published& p : kept_)
    if (composer_.contains(p, part) && (p.nodes > 1 || !is_fabric(part))) points.push_back(p);
  std::optional<Profile> fitted;
  if (free.empty()) fitted = start;
  else if (points.size() >= free.size())
    fitted = fit_profile(start, points, options_, clusters_, composer_).profile;
  return refitted_[part] = fitted;
}

ProfilePtr GroupCrossValidator::without_fabric(const Published& p) {
  const Fabric fabric = machine_named(p.machine).fabric();
  const std::optional<Profile> gpu = refitted(part_before_plus(composer_.name_for(p))),
                               other = fabric == Fabric::rdma
                                           ? refitted(to_text(fabric))
                                           : shipped_.load_fabric(to_text(stand_in_for(fabric)));
  return gpu && other ? std::make_shared<const Profile>(over_fabric(*gpu, *other)) : nullptr;
}

ProfilePtr GroupCrossValidator::without_gpu(const Published& p) {
  const Machine machine = machine_named(p.machine);
  const std::string own = part_before_plus(composer_.name_for(p));
  // GPUs without NVLink share a profile in which nothing is fitted.
  Profile gpu = machine.nvlink ? shipped_.nearest_by_bandwidth(machine, own) : shipped_.load(own);
  if (p.nodes == 1 || gpu.holds_over(machine.fabric()))
    return std::make_shared<const Profile>(std::move(gpu));
  const std::optional<Profile> fabric = refitted(to_text(machine.fabric()));
  return fabric ? std::make_shared<const Profile>(over_fabric(std::move(gpu), *fabric)) : nullptr;
}

void GroupCrossValidator::predict(const std::string& group) {
  kept_.clear();
  refitted_.clear();
  std::vector<Published> out, predicted;
  for (const Published& p : points_) (group_of(p) == group ? out : kept_).push_back(p);
  std::vector<ProfilePtr> profiles;
  std::map<std::pair<std::string, bool>, ProfilePtr> made;
  std::set<std::string> unpredicted;
  for (const Published& p : out) {
    const std::pair kind{p.machine, p.nodes == 1};
    if (!made.contains(kind))
      made[kind] = what_ == HeldOut::fabric ? without_fabric(p) : without_gpu(p);
    if (!made[kind]) {
      unpredicted.insert(p.machine);
      continue;
    }
    predicted.push_back(p);
    profiles.push_back(made[kind]);
  }
  for (const std::string& machine : unpredicted)
    result_.notes.push_back(
        fmt::format("{} without {}: nothing is left to fit its profile to", machine, group));
  if (!predicted.empty()) record(predicted, profiles, group);
}

void GroupCrossValidator::record(const std::vector<Published>& points,
                                 const std::vector<ProfilePtr>& profiles,
                                 const std::string& group) {
  const Eigen::VectorXd r = residuals_by(points, {profiles}, options_.batch, clusters_)[0];
  FitResiduals total{.group = "all without " + group, .set = set()};
  for (std::size_t k = 0; k < points.size(); ++k) {
    const std::string curve = curve_of(points[k]);
    auto& groups = result_.groups;
    auto at = std::find_if(groups.begin(), groups.end(),
                           [&](const FitResiduals& g) { return g.group == curve; });
    if (at == groups.end())
      at = groups.insert(groups.end(), {.group = curve,
                                        .profile = profiles[k]->name,
                                        .whole = profiles[k]->name,
                                        .set = set(),
                                        .nodes = points[k].nodes,
                                        .collective = points[k].collective});
    at->bytes.push_back(points[k].bytes.value);
    at->residuals.push_back(r[static_cast<Eigen::Index>(k)]);
    at->known.push_back(false);
    total.bytes.push_back(points[k].bytes.value);
    total.residuals.push_back(r[static_cast<Eigen::Index>(k)]);
  }
  result_.totals.push_back(std::move(total));
}

}  // namespace

CrossValidation leave_groups_out(const CrossValidationOptions& options, HeldOut what) {
  return GroupCrossValidator(options, what).run();
}

}  // namespace foreduce
