// Steps that `run --workload` replayed, beside what a profile predicts for them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/sharded_step.hpp"
#include "scenarios/sweep/scenario.hpp"
#include "sim/batch.hpp"

namespace foreduce {

/// One replayed step with its prediction, in seconds.
struct UserReplay {
  std::string algorithm, inner, workload;
  int segments = 0;  ///< 0: chosen by size
  Type type = Type::f32;
  ShardingPlan plan;
  StepInput whole;           ///< without sharding: with DDP's buckets
  ShardedStepInput sharded;  ///< with sharding: with units
  double measured = 0, predicted = 0;
  double error() const { return predicted / measured - 1; }
};

/// A row of `run --workload`, among so many ranks. Throws InputError about `file` for one that is
/// none, and nlohmann::json::exception for fields of other types.
UserReplay own_replay(const nlohmann::json& row, int ranks, const std::string& file);

/// Predicts them as `predict` would, by a profile on the scenario's one cluster. Throws InputError
/// where an algorithm cannot run there.
void predict_replays(std::vector<UserReplay>& replays, const Scenario& scenario,
                     const std::string& profile, const BatchOptions& options);

}  // namespace foreduce
