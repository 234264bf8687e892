#include "scenarios/sweep/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "scenarios/report/svg.hpp"

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

/// What of the goal a training of that length misses.
std::vector<std::string> misses(const GoalSpec& goal, Seconds time, const std::optional<Dollars>& cost) {
  std::vector<std::string> all;
  if (goal.deadline && time > *goal.deadline) all.emplace_back("deadline");
  if (goal.budget && (!cost || *cost > *goal.budget)) all.emplace_back(cost ? "budget" : "budget (no price)");
  return all;
}

/// A unit that suits all times of a column.
std::pair<const char*, double> unit_of(Seconds least) {
  if (least.value >= 172800) return {"d", 86400};
  if (least.value >= 3600) return {"h", 3600};
  return least.value >= 60 ? std::pair{"min", 60.0} : std::pair{"s", 1.0};
}

/// "8 x p4d.24xlarge, nccl": a cluster and its method, and what else tells it from the others.
std::string name_of(const Prediction& p, const std::vector<AxisColumn>& axes) {
  static const std::set<std::string> kSaid = {"instance", "nodes", "GPUs", "algorithm", "profile"};
  std::string name = fmt::format("{} x {}, {}", p.nodes, p.instance, p.algorithm);
  for (const AxisColumn& axis : axes)
    if (!kSaid.contains(axis.heading)) name += fmt::format(", {} {}", axis.heading, axis.cell(p));
  return name;
}

std::int64_t batch_of(const Prediction& p) { return std::int64_t{p.gpus} * p.batch_per_gpu * p.accumulation; }

/// "in 2 d for at most 3000 USD"
std::string words_of(const GoalSpec& goal) {
  return (goal.deadline ? " within " + to_text(*goal.deadline) : "") + (goal.budget ? " for at most " + to_text(*goal.budget) : "");
}

std::string time_and_cost(const Planned& p) { return to_text(p.time) + (p.cost ? ", " + to_text(*p.cost) : ""); }

/// What a row is, among all.
std::string role_of(const TrainingPlan& plan, std::size_t i) {
  std::string roles;
  for (const auto& [which, word] : {std::pair{plan.cheapest, "cheapest"}, {plan.fastest, "fastest"}, {plan.most_robust, "most_robust"}})
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

double goal_samples(const Scenario& scenario) {
  if (!scenario.goal)
    throw wrong(scenario, "goal", "a plan needs a goal: how much is to be trained on, and until when or for how much",
                "e.g. goal: { samples: 100 million, deadline: 48 h }");
  if (!scenario.workload) throw wrong(scenario, "workload", "a plan needs a workload: what is to be trained");
  if (scenario.workload->model.values.size() != 1)
    throw wrong(scenario, "workload.model", "a plan is for one model; write a file for each");
  if (!scenario.goal->tokens) return scenario.goal->samples->value;
  const Workload workload = workload_of(scenario, scenario.workload->model.first());
  const std::string sample = sample_of(scenario, workload);
  const double each = tokens_of(sample);
  if (each <= 0)
    throw wrong(scenario, "goal.tokens", fmt::format("a sample of {} is a {}, which is no number of tokens", workload.name, sample),
                "say how many samples instead");
  return scenario.goal->tokens->value / each;
}

TrainingPlan make_plan(const Scenario& scenario, double samples, const std::vector<Prediction>& points) {
  const GoalSpec& goal = *scenario.goal;
  TrainingPlan plan;
  plan.samples = samples;
  struct RuledOut {
    std::string instance, why;
    std::set<int> nodes;
    std::set<std::string> algorithms;
  };
  std::vector<RuledOut> ruled_out, died;
  std::map<std::string, std::set<std::string>> algorithms;  // that were asked for on each instance type
  const auto add_to = [](std::vector<RuledOut>& all, const Prediction& p, const std::string& why) {
    auto at = std::find_if(all.begin(), all.end(), [&](const RuledOut& r) { return r.instance == p.instance && r.why == why; });
    if (at == all.end()) at = all.insert(at, {p.instance, why, {}, {}});
    at->nodes.insert(p.nodes);
    at->algorithms.insert(p.algorithm);
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Prediction& p = points[i];
    algorithms[p.instance].insert(p.algorithm);
    if (!p.error.empty()) {
      add_to(p.died ? died : ruled_out, p, p.error.substr(0, p.error.find('\n')));
      continue;
    }
    if (!p.fits()) {
      add_to(ruled_out, p, crowding(p));
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
    one.surely = one.known && p.compute_measured &&
                 misses(goal, one.high, p.priced ? std::optional(p.price * one.high) : std::nullopt).empty();
  }
  for (const auto& [from, to] : {std::pair(&ruled_out, &plan.ruled_out), std::pair(&died, &plan.died)})
    for (const RuledOut& r : *from)  // an algorithm is named where others can run there
      to->push_back(fmt::format("{} x {}{}: {}", fmt::join(r.nodes, ", "), r.instance,
                                r.algorithms == algorithms[r.instance] ? "" : fmt::format(", {}", fmt::join(r.algorithms, ", ")),
                                r.why));
  const auto cost = [](const Planned& p) { return p.cost ? p.cost->value : HUGE_VAL; };
  std::stable_sort(plan.all.begin(), plan.all.end(),
                   [&](const Planned& a, const Planned& b) { return std::tuple(a.time, cost(a)) < std::tuple(b.time, cost(b)); });
  double least = HUGE_VAL;
  bool unpriced = false;  // what costs nobody knows how much is beaten by its like alone
  for (std::size_t i = 0; i < plan.all.size(); ++i) {
    Planned& p = plan.all[i];
    p.front = p.cost ? cost(p) < least : !unpriced;
    least = std::min(least, cost(p));
    unpriced = unpriced || !p.cost;
    const auto take_if_cheaper = [&](std::optional<std::size_t>& best) {
      if (p.cost && (!best || cost(p) < cost(plan.all[*best]))) best = i;
    };
    if (!p.missed.empty()) continue;
    if (!plan.fastest) plan.fastest = i;
    take_if_cheaper(plan.cheapest);
    if (p.surely) take_if_cheaper(plan.most_robust);
  }
  return plan;
}

std::string plan_report(const Scenario& scenario, const Sweep<Prediction>& sweep, const TrainingPlan& plan, Format format, bool all,
                        bool colour) {
  const GoalSpec& goal = *scenario.goal;
  const auto point_of = [&](const Planned& p) -> const Prediction& { return sweep.points[p.at]; };
  if (format == Format::json) {
    Json j = report_head(scenario, "plan", sweep.all);
    j["goal"] = {{"samples", plan.samples},
                 {"deadline_s", goal.deadline ? Json(goal.deadline->value) : Json()},
                 {"budget_usd", goal.budget ? Json(goal.budget->value) : Json()}};
    const auto number = [&](const std::optional<std::size_t>& which) {
      return which ? Json(point_of(plan.all[*which]).number) : Json();
    };
    j["cheapest"] = number(plan.cheapest);
    j["fastest"] = number(plan.fastest);
    j["most_robust"] = number(plan.most_robust);
    j["points"] = Json::array();
    for (const Planned& p : plan.all) j["points"].push_back(to_json(point_of(p), p));
    j["ruled_out"] = plan.ruled_out;
    j["died"] = plan.died;
    return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  Table table;
  if (format == Format::csv) {
    for (std::size_t i = 0; i < plan.all.size(); ++i) {
      const Json j = to_json(point_of(plan.all[i]), plan.all[i]);
      auto& row = table.rows.emplace_back();
      for (const auto& [key, value] : j.items()) {
        if (i == 0) table.headings.push_back(key);
        row.push_back(value.is_null()     ? ""
                      : value.is_string() ? value.get<std::string>()
                      : value.is_array()  ? fmt::format("{}", fmt::join(value.get<std::vector<std::string>>(), " "))
                                          : value.dump());
      }
    }
    return table.csv();
  }
  const std::vector<AxisColumn> axes = axis_columns(sweep.points);
  const bool batches = std::any_of(plan.all.begin(), plan.all.end(),
                                   [&](const Planned& p) { return batch_of(point_of(p)) != batch_of(point_of(plan.all.front())); });
  const auto [unit, worth] = unit_of(plan.all.empty() ? Seconds{0} : plan.all.front().time);
  const auto in_unit = [&, worth = worth](Seconds s) { return fmt::format("{:.2f}", s.value / worth); };
  for (const AxisColumn& axis : axes) table.headings.push_back(axis.heading);
  if (batches) table.headings.emplace_back("samples/step");
  for (const std::string& h : {std::string("step"), std::string("samples/s"), std::string("$/h"), fmt::format("time, {}", unit),
                               std::string("nine of ten"), std::string("USD"), std::string("misses"), std::string()})
    table.headings.push_back(h);
  const auto hides = [&](std::size_t i) { return !all && !plan.all[i].front && role_of(plan, i).empty(); };
  std::vector<Prediction> shown;  // whose doubts are worth saying
  for (std::size_t i = 0; i < plan.all.size(); ++i)
    if (!hides(i)) shown.push_back(point_of(plan.all[i]));
  const Doubts doubts = doubts_of(shown);
  for (std::size_t i = 0; i < plan.all.size(); ++i) {
    if (hides(i)) continue;
    const Planned& p = plan.all[i];
    const std::string role = role_of(plan, i);
    const Prediction& point = point_of(p);
    auto& row = table.rows.emplace_back();
    for (const AxisColumn& axis : axes) row.push_back(axis.cell(point));
    if (batches) row.push_back(fmt::format("{}", batch_of(point)));
    row.push_back(to_text(point.step.total));
    row.push_back(fmt::format("{:.1f}", point.throughput));
    row.push_back(point.priced ? fmt::format("{:.2f}", point.price.value) : "-");
    row.push_back(in_unit(p.time));
    row.push_back(p.known ? fmt::format("{} to {}{}", in_unit(p.low), in_unit(p.high), doubts.mark(point.step_bounds)) : "-");
    row.push_back(p.cost ? fmt::format("{:.0f}", p.cost->value) : "-");
    row.push_back(p.missed.empty() ? "-" : fmt::format("{}", fmt::join(p.missed, ", ")));
    row.push_back(role);
  }
  const std::string samples = to_text(Count{plan.samples}) + " samples";
  std::string text =
      fmt::format("{}\n{}{}\n\n", scenario.name,
                  goal.tokens ? fmt::format("{} tokens, {}", to_text(*goal.tokens), samples) : samples, words_of(goal));
  if (!table.rows.empty()) text += table.text(colour) + "\n";
  if (const std::size_t hidden = plan.all.size() - shown.size(); hidden > 0)
    text += fmt::format("{} more {} no better in either time or cost than one above (--all shows them)\n", hidden,
                        hidden == 1 ? "is" : "are");
  if (batches)
    text +=
        "samples/step differs: these are not the same trainings, and may need more samples to learn as much; with "
        "workload.global_batch all take the same steps\n";
  for (const std::string& why : plan.ruled_out) text += fmt::format("ruled out: {}\n", why);
  for (const std::string& why : plan.died) text += fmt::format("no answer: {}\n", why);
  std::set<std::string> sources;
  for (const Prediction& p : shown) sources.insert(fmt::format("compute of {} on {}: {}\n", p.model, p.instance, p.compute_source));
  for (const std::string& source : sources) text += source;
  text += doubts.text() +
          "time and cost: of the training steps alone, without start, evaluation, checkpoints, failures and queues; that "
          "activations fit is not checked\n" +
          unused_line(scenario) + "\n";
  const auto name = [&](const Planned& p) { return name_of(point_of(p), axes); };
  const auto say = [&](const char* word, std::size_t i) {
    text += fmt::format("{:<9} {}: {}\n", word, name(plan.all[i]), time_and_cost(plan.all[i]));
  };
  if (!plan.fastest) {
    if (plan.all.empty()) return text + "no cluster can train this\n";
    const auto nearest = std::min_element(plan.all.begin(), plan.all.end(), [](const Planned& a, const Planned& b) {
      return (a.cost ? a.cost->value : HUGE_VAL) < (b.cost ? b.cost->value : HUGE_VAL);
    });
    text += fmt::format("no cluster reaches the goal; the fastest takes {} ({})", time_and_cost(plan.all.front()),
                        name(plan.all.front()));
    return text + (nearest->cost ? fmt::format(", the cheapest {} ({})\n", time_and_cost(*nearest), name(*nearest)) : "\n");
  }
  if (plan.cheapest) say("cheapest:", *plan.cheapest);
  if (plan.fastest != plan.cheapest) say("fastest:", *plan.fastest);
  if (goal.deadline || goal.budget) {
    if (!plan.most_robust)
      text += "most_robust:   none has measured compute and reaches the goal even if its steps take as long as one in twenty may\n";
    else if (plan.most_robust != plan.cheapest) say("most_robust:", *plan.most_robust);
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
  return front_svg(scenario.name, all, front, scenario.goal->deadline ? scenario.goal->deadline->value / 3600 : 0,
                   scenario.goal->budget ? scenario.goal->budget->value : 0);
}

}  // namespace foreduce
