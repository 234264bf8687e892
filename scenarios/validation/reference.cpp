#include "scenarios/validation/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace foreduce {
namespace {

std::string group_of(const EvaluatedPoint& e) {
  const Published& p = e.point;
  const std::string& where = p.nodes > 1 ? p.machine : p.instance;
  return fmt::format("{} | {} | {} x {} | {}{}{}{}{}", p.source, where, p.nodes, p.gpus / p.nodes,
                     asked_of(p), p.protocol ? " " : "", p.protocol ? to_text(*p.protocol) : "",
                     p.collective == Collective::all_reduce ? "" : " ",
                     p.collective == Collective::all_reduce ? "" : title_of(p.collective));
}

void add_to(std::vector<ReferenceGroup>& groups, const EvaluatedPoint& e,
            std::initializer_list<ReferenceGroup*> totals) {
  const std::string name = group_of(e);
  auto at = std::find_if(groups.begin(), groups.end(),
                         [&](const ReferenceGroup& g) { return g.name == name; });
  if (at == groups.end()) at = groups.insert(groups.end(), {name, e.profile, {}, {}});
  const auto add = [&](ReferenceGroup& group) {
    (e.point.bytes.value < kLarge ? group.small : group.large).push_back(&e);
  };
  add(*at);
  for (ReferenceGroup* total : totals) add(*total);
}

/// Whether it was measured on an instance type, with EFA or over TCP.
bool is_ec2(const Published& p) {
  static const std::vector<std::string> types = Catalogue().names();
  return std::any_of(types.begin(), types.end(),
                     [&](const std::string& type) { return p.instance.starts_with(type); });
}

void add_to_groups(ReferenceValidation& v) {
  v.fitted.name = "all that profiles are fitted to";
  v.test_set.name = "test set: sources that no fit may use";
  v.all.name = "all";
  ReferenceGroup ec2{"of the test set: EC2", "", {}, {}},
      elsewhere{"of the test set: other machines and fabrics", "", {}, {}};
  for (const EvaluatedPoint& e : v.points)
    if (e.point.fit) add_to(v.groups, e, {&v.fitted, &v.all});
    else add_to(v.groups, e, {&v.test_set, &v.all, is_ec2(e.point) ? &ec2 : &elsewhere});
  v.test_parts = {ec2, elsewhere};
  ReferenceGroup others{
      "all-gathers and all-to-alls, of which two sources determined a number each", "", {}, {}},
      gathers{"of these: all-gathers and reduce-scatters", "", {}, {}},
      exchanges{"of these: all-to-alls", "", {}, {}};
  for (const EvaluatedPoint& e : v.collectives)
    add_to(v.of_collectives, e,
           {&others, e.point.collective == Collective::all_to_all ? &exchanges : &gathers});
  for (const ReferenceGroup& total : {gathers, exchanges, others})
    v.of_collectives.push_back(total);
}

std::vector<ReferenceRanking> rankings_of(const std::vector<EvaluatedPoint>& points) {
  std::map<std::string, std::vector<Timed>> by_cluster;
  for (const EvaluatedPoint& e : points) {
    const Published& p = e.point;
    by_cluster[fmt::format("{} | {} | {} x {}", p.source, p.instance, p.nodes, p.gpus / p.nodes)]
        .push_back({asked_of(p), p.bytes.value, p.time.value, e.estimate.time.value});
  }
  std::vector<ReferenceRanking> rankings;
  for (const auto& [name, timed] : by_cluster)
    if (const auto tau = kendall(timed)) rankings.push_back({name, *tau, crossings(timed)});
  return rankings;
}

}  // namespace

ReferenceValidation validate_reference(const std::string& profile, const BatchOptions& options) {
  const std::vector<Published> published = published_all_reduces();
  const Profiles profiles;
  std::map<std::string, std::shared_ptr<const Profile>> by_instance;
  const auto profile_of = [&](const Published& p) {
    auto& known = by_instance[profile.empty() ? p.machine : ""];
    if (!known)
      known = std::make_shared<const Profile>(
          profile.empty() ? profiles.nearest_to(machine_named(p.machine)) : profiles.load(profile));
    return known;
  };
  ReferenceValidation v;
  v.points = evaluate(published, profile_of, options);
  const std::vector<Published> others = published_collectives();
  v.collectives = evaluate(others, profile_of, options);
  v.without_machine = published.size() - v.points.size() + others.size() - v.collectives.size();
  add_to_groups(v);
  v.rankings = rankings_of(v.points);
  v.training = training_runs(options);
  return v;
}

std::vector<GenerationErrors> errors_by_generation(const ReferenceValidation& v) {
  std::map<std::pair<std::string, bool>, ReferenceGroup> groups;
  for (const EvaluatedPoint& e : v.points) {
    const std::string model = machine_named(e.point.machine).gpu->model;
    ReferenceGroup& group = groups[{model.substr(0, model.find('-')), !e.point.fit}];
    (e.point.bytes.value < kLarge ? group.small : group.large).push_back(&e);
  }
  std::vector<GenerationErrors> all;
  for (const auto& [key, group] : groups)
    all.push_back({key.first, key.second ? "test set" : "fit", errors_of(group.small),
                   errors_of(group.large)});
  return all;
}

}  // namespace foreduce
