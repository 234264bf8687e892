// From predictions to a purchase: which cluster ends a training in time, within a budget, and which of those to take.
#pragma once

#include <optional>

#include "scenarios/report/report.hpp"

namespace foreduce {

/// What training costs on one of the clusters. Steps alone: no start, evaluation, checkpoint, failure or queue.
struct Planned {
  std::size_t at = 0;               ///< in the sweep's points
  Seconds time, low, high;          ///< of the training; nine of ten measurements are expected between, where that is known
  bool known = false;               ///< whether it is; else both are `time`
  std::optional<Dollars> cost;      ///< null: a machine of the cluster has no price
  std::vector<std::string> missed;  ///< "deadline", "budget"; empty: the goal is reached
  bool surely = false;              ///< reached at `high` too, by compute that was measured
  bool front = false;               ///< no other is at least as fast and as cheap; without a price only its like can be
};

/// What a goal comes to.
struct TrainingPlan {
  double samples = 0;                   ///< to be trained on
  std::vector<Planned> all;             ///< clusters that can, by time, then by cost
  std::optional<std::size_t> cheapest;  ///< in `all`, of those with a price that reach the goal
  std::optional<std::size_t> fastest;   ///< of those that reach the goal
  std::optional<std::size_t> most_robust;    ///< the cheapest of those that surely do
  std::vector<std::string> ruled_out;   ///< clusters that cannot, and why, in words; each reason once
  std::vector<std::string> died;        ///< clusters whose simulation did not end well, likewise: the plan does without them
};

/// How many samples a scenario's goal asks for. Throws InputError for a scenario without a goal, for several models, and for tokens
/// where a sample is not so many of them.
double goal_samples(const Scenario& scenario);

/// Weighs a sweep's points against the scenario's goal, which is that many samples.
TrainingPlan make_plan(const Scenario& scenario, double samples, const std::vector<Prediction>& points);

/// The answer, and the clusters that are worth a look: those that no other beats in both time and cost, or with `all` every one.
std::string plan_report(const Scenario& scenario, const Sweep<Prediction>& sweep, const TrainingPlan& plan, Format format, bool all,
                        bool colour);

/// Cost over time, a dot a cluster and a colour an instance type; the front as a line, the goal as dashed ones. Empty if nothing
/// has a price.
std::string plan_svg(const Scenario& scenario, const Sweep<Prediction>& sweep, const TrainingPlan& plan);

}  // namespace foreduce
