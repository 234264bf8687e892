#include "scenarios/core/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "scenarios/core/plot.hpp"

namespace foreduce {
namespace {

using Json = nlohmann::ordered_json;

/// Tokens of a sample that is called "1024 tokens"; 0 for others.
double tokens_of(const std::string& sample) {
  constexpr const char* kUnit = " tokens";
  double tokens = 0;
  std::string why;
  const auto at = sample.find(kUnit);
  return at != std::string::npos && parse_number(sample.substr(0, at), tokens, why) ? tokens : 0;
}

InputError wrong(const Scenario& s, const char* key, std::string message, std::string hint = {}) { return InputError(Problem{s.file, 0, 0, key, std::move(message), std::move(hint), ""}); }

/// What of the goal a training of that length misses.
std::string misses(const GoalSpec& goal, Seconds time, const std::optional<Dollars>& cost) {
  const bool late = goal.deadline && time > *goal.deadline, dear = goal.budget && (!cost || *cost > *goal.budget);
  return late && dear ? "deadline, budget" : late ? "deadline" : !dear ? "" : cost ? "budget" : "budget (no price)";
}

/// "8 x p4d.24xlarge, nccl": a cluster and its method.
std::string name_of(const Prediction& p) { return fmt::format("{} x {}, {}", p.nodes, p.instance, p.algorithm); }

/// "in 2 d for at most 3000 USD"
std::string words_of(const GoalSpec& goal) {
  return (goal.deadline ? " within " + to_text(*goal.deadline) : "") + (goal.budget ? " for at most " + to_text(*goal.budget) : "");
}

std::string time_and_cost(const Planned& p) { return to_text(p.time) + (p.cost ? ", " + to_text(*p.cost) : ""); }

/// What a row is, among all.
std::string role_of(const TrainingPlan& plan, std::size_t i) {
  std::string roles;
  for (const auto& [which, word] : {std::pair{plan.cheapest, "cheapest"}, {plan.fastest, "fastest"}, {plan.surest, "surest"}})
    if (which == i) roles += (roles.empty() ? "" : ", ") + std::string(word);
  return roles;
}

Json to_json(const Prediction& point, const Planned& p) {
  Json j = to_json(point, false);
  const auto usd = [&](Seconds time) { return p.cost ? Json(p.cost->value * (time / p.time)) : Json(); };
  j["time_s"] = p.time.value;
  j["time_low_s"] = p.known ? Json(p.low.value) : Json();
  j["time_high_s"] = p.known ? Json(p.high.value) : Json();
  j["usd"] = usd(p.time);
  j["usd_low"] = p.known ? usd(p.low) : Json();
  j["usd_high"] = p.known ? usd(p.high) : Json();
  j["missed"] = p.missed;
  j["surely"] = p.surely;
  j["front"] = p.front;
  return j;
}

}  // namespace

TrainingPlan make_plan(const Scenario& scenario, const std::vector<Prediction>& points) {
  if (!scenario.goal) throw wrong(scenario, "goal", "a plan needs a goal: how much is to be trained on, and until when or for how much", "goal: { samples: 100 million, deadline: 48 h }");
  const GoalSpec& goal = *scenario.goal;
  if (scenario.workload->model.values.size() != 1) throw wrong(scenario, "workload.model", "a plan is for one model");
  TrainingPlan plan;
  plan.samples = goal.samples.value_or(Count{0}).value;
  if (goal.tokens) {
    const double each = points.empty() ? 1 : tokens_of(points.front().sample);
    if (each <= 0) throw wrong(scenario, "goal.tokens", fmt::format("a sample of {} is a {}", points.front().model, points.front().sample), "samples");
    plan.samples = goal.tokens->value / each;
  }
  std::vector<std::pair<std::string, std::string>> ruled_out;  // of what kind and why, and how many nodes of it
  const auto rule_out = [&](const std::string& why, int nodes) {
    auto at = std::find_if(ruled_out.begin(), ruled_out.end(), [&](const auto& r) { return r.first == why; });
    if (at == ruled_out.end()) at = ruled_out.insert(at, {why, ""});
    const std::string count = fmt::format("{}", nodes);
    if (at->second != count && !at->second.ends_with(", " + count)) at->second += (at->second.empty() ? "" : ", ") + count;
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Prediction& p = points[i];
    if (!p.error.empty()) {
      rule_out(fmt::format("{}: {}", p.instance, p.error.substr(0, p.error.find('\n'))), p.nodes);
      continue;
    }
    if (!p.fits()) {
      rule_out(crowding(p), p.nodes);
      continue;
    }
    Planned& one = plan.all.emplace_back();
    one.at = i;
    one.time = Seconds{plan.samples / p.throughput};
    one.known = p.step_bounds.known;
    one.low = one.known ? one.time * (p.step_bounds.low / p.step.total) : one.time;
    one.high = one.known ? one.time * (p.step_bounds.high / p.step.total) : one.time;
    if (p.priced) one.cost = p.price * one.time;
    one.missed = misses(goal, one.time, one.cost);
    one.surely = one.known && p.compute_measured && misses(goal, one.high, p.priced ? std::optional(p.price * one.high) : std::nullopt).empty();
  }
  for (const auto& [why, nodes] : ruled_out) plan.ruled_out.push_back(fmt::format("{} x {}", nodes, why));
  const auto cost = [](const Planned& p) { return p.cost ? p.cost->value : HUGE_VAL; };
  std::stable_sort(plan.all.begin(), plan.all.end(), [&](const Planned& a, const Planned& b) { return std::tuple(a.time, cost(a)) < std::tuple(b.time, cost(b)); });
  double least = HUGE_VAL;
  for (std::size_t i = 0; i < plan.all.size(); ++i) {
    Planned& p = plan.all[i];
    p.front = i == 0 || cost(p) < least;
    least = std::min(least, cost(p));
    const auto take_if_cheaper = [&](std::optional<std::size_t>& best) {
      if (p.cost && (!best || cost(p) < cost(plan.all[*best]))) best = i;
    };
    if (!p.missed.empty()) continue;
    if (!plan.fastest) plan.fastest = i;
    take_if_cheaper(plan.cheapest);
    if (p.surely) take_if_cheaper(plan.surest);
  }
  return plan;
}

std::string plan_report(const Scenario& scenario, const Sweep<Prediction>& sweep, const TrainingPlan& plan, Format format, bool all, bool colour) {
  const GoalSpec& goal = *scenario.goal;
  if (format == Format::json) {
    Json j = report_head(scenario, "plan", sweep.all);
    j["goal"] = {{"samples", plan.samples}, {"deadline_s", goal.deadline ? Json(goal.deadline->value) : Json()}, {"budget_usd", goal.budget ? Json(goal.budget->value) : Json()}};
    const auto point = [&](const std::optional<std::size_t>& which) { return which ? Json(sweep.points[plan.all[*which].at].number) : Json(); };
    j["cheapest"] = point(plan.cheapest);
    j["fastest"] = point(plan.fastest);
    j["surest"] = point(plan.surest);
    j["points"] = Json::array();
    for (const Planned& p : plan.all) j["points"].push_back(to_json(sweep.points[p.at], p));
    j["ruled_out"] = plan.ruled_out;
    return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  Table table;
  const std::vector<AxisColumn> axes = axis_columns(sweep.points);
  for (const AxisColumn& axis : axes) table.headings.push_back(axis.heading);
  for (const char* h : {"step", "samples/s", "$/h", "time", "nine of ten", "USD", "misses", ""}) table.headings.emplace_back(h);
  std::vector<Prediction> shown;  // whose doubts are worth saying
  for (std::size_t i = 0; i < plan.all.size(); ++i) {
    const Planned& p = plan.all[i];
    const std::string role = role_of(plan, i);
    if (!all && format == Format::table && !p.front && role.empty()) continue;
    const Prediction& point = sweep.points[p.at];
    shown.push_back(point);
    auto& row = table.rows.emplace_back();
    for (const AxisColumn& axis : axes) row.push_back(axis.cell(point));
    row.push_back(to_text(point.step.total));
    row.push_back(fmt::format("{:.1f}", point.throughput));
    row.push_back(point.priced ? fmt::format("{:.2f}", point.price.value) : "-");
    row.push_back(to_text(p.time));
    row.push_back(p.known ? fmt::format("{} to {}{}", to_text(p.low), to_text(p.high), point.step_bounds.extrapolated ? " *" : "") : "-");
    row.push_back(p.cost ? fmt::format("{:.0f}", p.cost->value) : "-");
    row.push_back(p.missed.empty() ? "-" : p.missed);
    row.push_back(role);
  }
  if (format == Format::csv) {
    table.headings.back() = "is";
    return table.csv();
  }
  std::string text = fmt::format("{}\n{} samples{}\n\n", scenario.name, to_text(Count{plan.samples}), words_of(goal));
  if (!table.rows.empty()) text += table.text(colour) + "\n";
  if (const std::size_t hidden = plan.all.size() - shown.size(); hidden > 0)
    text += fmt::format("{} more {} slower and dearer than one above (--all shows them)\n", hidden, hidden == 1 ? "is" : "are");
  for (const std::string& why : plan.ruled_out) text += fmt::format("ruled out: {}\n", why);
  std::set<std::string> sources;
  for (const Prediction& p : shown) sources.insert(fmt::format("compute of {} on {}: {}\n", p.model, p.instance, p.compute_source));
  for (const std::string& source : sources) text += source;
  text += doubts_of(shown) + "time and cost: of the training steps alone, without start, evaluation, checkpoints, failures and queues; that activations fit is not checked\n\n";
  const auto say = [&](const char* word, std::size_t i) { text += fmt::format("{:<9} {}: {}\n", word, name_of(sweep.points[plan.all[i].at]), time_and_cost(plan.all[i])); };
  if (!plan.fastest) {
    if (plan.all.empty()) return text + "no cluster can train this\n";
    const auto nearest = std::min_element(plan.all.begin(), plan.all.end(), [](const Planned& a, const Planned& b) { return (a.cost ? a.cost->value : HUGE_VAL) < (b.cost ? b.cost->value : HUGE_VAL); });
    text += fmt::format("no cluster reaches the goal; the fastest takes {} ({})", time_and_cost(plan.all.front()), name_of(sweep.points[plan.all.front().at]));
    return text + (nearest->cost ? fmt::format(", the cheapest {} ({})\n", time_and_cost(*nearest), name_of(sweep.points[nearest->at])) : "\n");
  }
  if (plan.cheapest) say("cheapest:", *plan.cheapest);
  if (plan.fastest != plan.cheapest) say("fastest:", *plan.fastest);
  if (goal.deadline || goal.budget) {
    if (!plan.surest) text += "surest:   none has measured compute and reaches the goal even if its steps take as long as one in twenty may\n";
    else if (plan.surest != plan.cheapest) say("surest:", *plan.surest);
  }
  return text;
}

std::string plan_svg(const Scenario& scenario, const Sweep<Prediction>& sweep, const TrainingPlan& plan) {
  std::map<std::string, Cloud> clouds;
  std::vector<Cloud::Point> front;
  for (const Planned& p : plan.all) {
    if (!p.cost) continue;
    const Prediction& point = sweep.points[p.at];
    Cloud& cloud = clouds[point.instance];
    cloud.name = point.instance;
    cloud.points.push_back({p.time.value / 3600, p.cost->value});
    if (p.front) front.push_back(cloud.points.back());
  }
  std::vector<Cloud> all;
  for (auto& [name, cloud] : clouds) all.push_back(std::move(cloud));
  if (all.empty()) return "";
  return front_svg(scenario.name, all, front, scenario.goal->deadline ? scenario.goal->deadline->value / 3600 : 0, scenario.goal->budget ? scenario.goal->budget->value : 0);
}

}  // namespace foreduce
