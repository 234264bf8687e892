// From predictions to a purchase: which cluster ends a training in time, within a budget, and which
// of those to take.
#pragma once

#include <optional>

#include "scenarios/sweep/predict.hpp"

namespace foreduce {

/// What training costs on one of the clusters. Steps alone: no start, evaluation, checkpoint,
/// failure or queue.
struct Planned {
  std::size_t at = 0;               ///< in the sweep's points
  Seconds time;                     ///< of the training
  Interval interval;                ///< of the time
  std::optional<Dollars> cost;      ///< null: a machine of the cluster has no price
  std::vector<std::string> missed;  ///< "deadline", "budget"; empty: the goal is reached
  bool reached_slow = false;        ///< at the slow end of the interval, too
  bool robust = false;              ///< so, by compute that was measured
  bool front =
      false;  ///< no other is at least as fast and as cheap; without a price only its like can be
};

/// Clusters that have no place in a plan, for one reason; where several lack memory, `why` is of
/// the last.
struct LeftOut {
  std::string instance, why;
  std::size_t point = 0;                ///< one of them, in the sweep's points
  std::vector<int> nodes;               ///< ascending
  std::vector<std::string> algorithms;  ///< empty: all that were asked for on this instance type
};

/// A global batch that a cluster cannot do, where the nearest that it can is a row already.
struct SameBatch {
  std::int64_t asked = 0, taken = 0;
  bool operator==(const SameBatch&) const = default;
};

/// What a goal comes to.
struct TrainingPlan {
  double samples = 0;                      ///< to be trained on
  std::vector<Planned> all;                ///< clusters that can, by time, then by cost
  std::optional<std::size_t> cheapest;     ///< in `all`, of those with a price that reach the goal
  std::optional<std::size_t> fastest;      ///< of those that reach the goal
  std::optional<std::size_t> most_robust;  ///< the cheapest of those that reach it robustly
  /// The same of those that reach a deadline or a budget at the slow end of an interval, where
  /// nobody measured compute on any cluster.
  std::optional<std::size_t> robust_by_estimate;
  std::vector<SameBatch> same_batches;  ///< each once
  std::vector<LeftOut> ruled_out;       ///< clusters that cannot train this
  std::vector<LeftOut>
      died;  ///< clusters whose simulation did not end well: the plan does without them
};

/// How many samples a scenario's goal asks for. Throws InputError for a scenario without a goal,
/// for several models, and for tokens where a sample is not so many of them.
double goal_samples(const Scenario& scenario);

/// Weighs a sweep's points against the goal, which is that many samples.
TrainingPlan make_plan(const GoalSpec& goal, double samples, const std::vector<Prediction>& points);

}  // namespace foreduce
