#include "scenarios/sweep/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "input/counted.hpp"
#include "scenarios/sweep/cases.hpp"
#include "scenarios/sweep/memory_shortage.hpp"

namespace foreduce {
namespace {

/// What of the goal a training of that length misses.
std::vector<std::string> misses(const GoalSpec& goal, Seconds time,
                                const std::optional<Dollars>& cost) {
  std::vector<std::string> all;
  if (goal.deadline && time > *goal.deadline) all.emplace_back("deadline");
  if (goal.budget && (!cost || *cost > *goal.budget))
    all.emplace_back(cost ? "budget" : "budget (no price)");
  return all;
}

/// Points that cannot be planned with, grouped by instance type, what is trained how, and reason.
class Exclusions {
 public:
  /// Reasons of one `kind` are one: the last that is given stands for all.
  void add(const Prediction& p, std::size_t number, const std::string& kind,
           const std::string& why) {
    const ShardingPlan& s = p.sharding;
    const std::string key = fmt::format(
        "{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", p.instance, to_text(p.precision),
        to_text(p.gradient), p.batch_per_gpu, to_text(p.recompute), to_text(p.framework),
        static_cast<int>(s.sharding), s.replicas > 1 ? s.shard_ranks : 0, s.tensor, s.context,
        s.stages, s.parts, s.expert, kind);
    auto at =
        std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.key == key; });
    if (at == groups_.end()) at = groups_.insert(at, {key, p.instance, {}, 0, {}, {}});
    at->differ = at->differ || (!at->why.empty() && at->why != why);
    at->why = why;
    at->number = number;
    at->of_nodes = p.nodes;
    at->nodes.insert(p.nodes);
    at->algorithms.insert(p.algorithm);
  }
  /// `asked`: the algorithms of each instance type; they are named only where others can run there.
  std::vector<LeftOut> all(const std::map<std::string, std::set<std::string>>& asked) const {
    std::vector<LeftOut> left;
    for (const Group& g : groups_) {
      LeftOut& one = left.emplace_back(
          LeftOut{g.instance, g.why, g.number, {g.nodes.begin(), g.nodes.end()}, {}});
      if (g.differ) one.why += fmt::format(" (as on {})", counted(g.of_nodes, "node"));
      if (g.algorithms != asked.at(g.instance))
        one.algorithms.assign(g.algorithms.begin(), g.algorithms.end());
    }
    return left;
  }

 private:
  struct Group {
    std::string key, instance, why;
    std::size_t number;
    std::set<int> nodes;
    std::set<std::string> algorithms;
    int of_nodes = 0;     // whose numbers are in `why`
    bool differ = false;  // reasons of other numbers of nodes
  };
  std::vector<Group> groups_;
};

/// Reasons that differ in numbers of nodes and GPUs alone are one.
std::string without_digits(std::string why) {
  std::erase_if(why, [](char c) { return c >= '0' && c <= '9'; });
  return why;
}

Planned weigh(const GoalSpec& goal, double samples, const Prediction& p, std::size_t at) {
  Planned one;
  one.at = at;
  // Whole steps, but for what a sum of bytes is off by.
  const double a_step = p.throughput * p.step.total.value;
  one.time = p.step.total * std::ceil(samples / a_step * (1 - 1e-12));
  one.interval = p.interval;
  one.interval.low = p.interval.known ? one.time * (p.interval.low / p.step.total) : one.time;
  one.interval.high = p.interval.known ? one.time * (p.interval.high / p.step.total) : one.time;
  if (p.priced) one.cost = p.price * one.time;
  one.missed = misses(goal, one.time, one.cost);
  const auto slow_cost = p.priced ? std::optional(p.price * one.interval.high) : std::nullopt;
  one.reached_slow = p.interval.known && misses(goal, one.interval.high, slow_cost).empty();
  one.robust = one.reached_slow && p.compute_measured && !p.may_not_fit();
  return one;
}

double cost_of(const Planned& p) { return p.cost ? p.cost->value : HUGE_VAL; }

/// How long NCCL takes for each question.
std::map<decltype(Prediction().question()), Seconds> times_of_nccl(
    const TrainingPlan& plan, const std::vector<Prediction>& points) {
  std::map<decltype(Prediction().question()), Seconds> times;
  for (const Planned& p : plan.all)
    if (points[p.at].method == MethodKind::nccl) times.try_emplace(points[p.at].question(), p.time);
  return times;
}

/// The cheapest of `some`, which are numbers in `plan.all` that have a cost.
std::optional<std::size_t> cheapest_of(const std::vector<std::size_t>& some,
                                       const TrainingPlan& plan,
                                       const std::vector<Prediction>& points) {
  if (some.empty()) return std::nullopt;
  return *preferred(
      some, [&](std::size_t i) { return 1 / cost_of(plan.all[i]); },
      [&](std::size_t i) { return points[plan.all[i].at].method == MethodKind::nccl; });
}

/// Finds the front and the clusters to take; `plan.all` is sorted by time, then by cost.
void choose(TrainingPlan& plan, const std::vector<Prediction>& points) {
  double least = HUGE_VAL;
  std::map<std::string, int> unpriced;  // a cluster of unknown cost is beaten by its like alone
  const auto by_nccl = times_of_nccl(plan, points);
  std::vector<std::size_t> reach, reach_robustly;
  for (std::size_t i = 0; i < plan.all.size(); ++i) {
    Planned& p = plan.all[i];
    const Prediction& point = points[p.at];
    const auto nccl = by_nccl.find(point.question());
    if (point.method != MethodKind::nccl && nccl != by_nccl.end() &&
        at_most_a_tie(nccl->second.value, p.time.value)) {
      p.front = false;
    } else if (p.cost) {
      p.front = cost_of(p) < least;
      least = std::min(least, cost_of(p));
    } else {
      int& fewest = unpriced.try_emplace(point.instance, point.nodes + 1).first->second;
      p.front = point.nodes < fewest;
      fewest = std::min(fewest, point.nodes);
    }
    if (!p.missed.empty()) continue;
    if (!plan.fastest) plan.fastest = i;
    if (!p.cost) continue;
    reach.push_back(i);
    if (p.robust) reach_robustly.push_back(i);
  }
  plan.cheapest = cheapest_of(reach, plan, points);
  plan.most_robust = cheapest_of(reach_robustly, plan, points);
}

/// See TrainingPlan::robust_by_estimate.
std::optional<std::size_t> robust_by_estimate(const TrainingPlan& plan, const GoalSpec& goal,
                                              const std::vector<Prediction>& points) {
  std::optional<std::size_t> best;
  if (!goal.deadline && !goal.budget) return best;
  const auto slow_cost = [&](std::size_t i) {
    const Planned& p = plan.all[i];
    return cost_of(p) * (p.interval.high / p.time);
  };
  for (std::size_t i = 0; i < plan.all.size(); ++i) {
    if (points[plan.all[i].at].compute_measured) return std::nullopt;
    if (plan.all[i].reached_slow && !points[plan.all[i].at].may_not_fit() &&
        (!best || slow_cost(i) < slow_cost(*best)))
      best = i;
  }
  return best;
}

/// Points of which another is the same training: global batches of which a cluster takes the
/// nearest that it can do may come to one. The one that was asked for as it is stays, else the
/// first.
std::set<std::size_t> same_as_others(const std::vector<Prediction>& points, TrainingPlan& plan) {
  const auto whole = [](const Prediction& p) {
    return std::tuple(p.question(), p.algorithm, p.inner, p.servers, p.segments);
  };
  std::map<decltype(whole(points.front())), std::size_t> stays;
  std::set<std::size_t> others;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Prediction& p = points[i];
    if (!p.error.empty()) continue;
    const auto [at, fresh] = stays.try_emplace(whole(p), i);
    if (fresh || (p.asked_global_batch == 0 && points[at->second].asked_global_batch == 0))
      continue;
    std::size_t other = i;
    if (p.asked_global_batch == 0) std::swap(other, at->second);
    others.insert(other);
    const auto step =
        static_cast<std::int64_t>(p.batch_per_gpu) * p.accumulation * p.sharding.data_parallel();
    const SameBatch same{points[other].asked_global_batch, step};
    if (std::find(plan.same_batches.begin(), plan.same_batches.end(), same) ==
        plan.same_batches.end())
      plan.same_batches.push_back(same);
  }
  return others;
}

}  // namespace

double goal_samples(const Scenario& scenario) {
  if (!scenario.goal)
    throw wrong(scenario, "goal",
                "a plan needs a goal: how much is to be trained on, and until when or for how much",
                "e.g. goal: { samples: 100 million, deadline: 48 h }");
  if (!scenario.workload)
    throw wrong(scenario, "workload", "a plan needs a workload: what is to be trained");
  if (scenario.workload->model.values.size() != 1)
    throw wrong(scenario, "workload.model", "a plan is for one model; write a file for each");
  if (!scenario.goal->tokens) return scenario.goal->samples->value;
  const Workload workload =
      workload_of(scenario, scenario.workload->model.first(), scenario.workload->framework.first());
  const std::string sample = sample_of(scenario, workload);
  const double each = tokens_of(sample);
  if (each <= 0)
    throw wrong(
        scenario, "goal.tokens",
        fmt::format("a sample of {} is a {}, which is no number of tokens", workload.name, sample),
        "say how many samples instead");
  return scenario.goal->tokens->value / each;
}

TrainingPlan make_plan(const GoalSpec& goal, double samples,
                       const std::vector<Prediction>& points) {
  TrainingPlan plan;
  plan.samples = samples;
  Exclusions ruled_out, died;
  std::map<std::string, std::set<std::string>> asked;
  const std::set<std::size_t> others = same_as_others(points, plan);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (others.contains(i)) continue;
    const Prediction& p = points[i];
    asked[p.instance].insert(p.algorithm);
    if (const std::string why = p.error.substr(0, p.error.find('\n')); !why.empty())
      (p.died ? died : ruled_out).add(p, i, without_digits(why), why);
    else if (!p.fits()) ruled_out.add(p, i, "memory", memory_shortage(p));
    else plan.all.push_back(weigh(goal, samples, p, i));
  }
  plan.ruled_out = ruled_out.all(asked);
  plan.died = died.all(asked);
  std::stable_sort(plan.all.begin(), plan.all.end(), [](const Planned& a, const Planned& b) {
    return std::tuple(a.time, cost_of(a)) < std::tuple(b.time, cost_of(b));
  });
  choose(plan, points);
  plan.robust_by_estimate = robust_by_estimate(plan, goal, points);
  return plan;
}

}  // namespace foreduce
