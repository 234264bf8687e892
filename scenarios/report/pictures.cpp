// What the pictures of `validate --plot` and `plan --plot` show.
#include <fmt/format.h>

#include <map>

#include "scenarios/report/svg.hpp"
#include "scenarios/report/validation_report.hpp"
#include "scenarios/sweep/cases.hpp"

namespace foreduce {

void draw_reference(const std::string& folder, const ReferenceValidation& v) {
  for (const ReferenceGroup& group : v.groups) {
    Curve curve{group.name, {}};
    for (const auto* part : {&group.small, &group.large})
      for (const EvaluatedPoint* e : *part) {
        const double n = e->point.gpus, wire = e->point.bytes.value * 2 * (n - 1) / n;
        const CollectiveEstimate& x = e->estimate;
        curve.points.push_back({e->point.bytes.value, wire / e->point.time.value,
                                wire / x.time.value, wire / x.interval.high.value,
                                wire / x.interval.low.value});
      }
    if (curve.points.size() >= 2) write_svg(folder, group.name, curves_svg(group.name, {curve}));
  }
  std::map<std::string, Cloud> clouds;
  for (const TrainingPoint& p : v.training)
    clouds[p.source + (p.nodes == 1 ? ", one node" : ", more nodes")].points.push_back(
        {1e3 * p.measured_step, 1e3 * p.predicted_step});
  std::vector<Cloud> all;
  for (auto& [name, cloud] : clouds) all.push_back({name, std::move(cloud.points)});
  if (!all.empty())
    write_svg(folder, "training", scatter_svg("Steps of published training runs", "ms", all));
}

/// A curve an algorithm; where it ran in several ways at one size (segments, inner algorithms), the
/// fastest represents it.
void draw_own_runs(const std::string& folder, const UserRunsValidation& v) {
  std::map<std::string, std::map<double, const UserRun*>> fastest;
  for (const UserRun& r : v.runs) {
    const UserRun*& at = fastest[std::string(r.algorithm->name)][r.bytes];
    if (!at || r.measured < at->measured) at = &r;
  }
  std::vector<Curve> curves;
  for (const auto& [algorithm, by_size] : fastest) {
    Curve& curve = curves.emplace_back(Curve{algorithm, {}});
    for (const auto& [bytes, r] : by_size) {
      const double wire = bytes * bus_factor(v.collective, v.ranks);
      curve.points.push_back({bytes, wire / r->measured, wire / r->predicted});
    }
  }
  write_svg(folder, v.profile,
            curves_svg(fmt::format("{}, {} of {} ranks on {} nodes", v.profile,
                                   title_of(v.collective), v.ranks, v.nodes),
                       curves));
}

bool draw_plan(const std::string& folder, const Scenario& scenario, const Sweep<Prediction>& sweep,
               const TrainingPlan& plan) {
  std::map<std::string, Cloud> clouds;
  std::vector<Cloud::Point> front;
  for (const Planned& p : plan.all) {
    if (!p.cost) continue;
    const Prediction& point = sweep.points[p.at];
    const std::string& instance = point.instance;
    Cloud& cloud = clouds[instance];
    cloud.name = instance;
    cloud.points.push_back(
        {p.time.value / 3600, p.cost->value,
         fmt::format("{}, {}: {}, {:.0f} USD", cluster_words(std::to_string(point.nodes), instance),
                     point.algorithm, to_text(p.time), p.cost->value),
         std::to_string(point.nodes)});
    if (p.front) front.push_back(cloud.points.back());
  }
  if (clouds.empty()) return false;
  std::vector<Cloud> all;
  for (auto& [name, cloud] : clouds) all.push_back(std::move(cloud));
  const GoalSpec& goal = *scenario.goal;
  write_svg(folder, scenario.name,
            front_svg(scenario.name, all, front, goal.deadline ? goal.deadline->value / 3600 : 0,
                      goal.budget ? goal.budget->value : 0));
  return true;
}

}  // namespace foreduce
