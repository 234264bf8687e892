// `validate PROFILE RUNS`: one's own measurements (the JSON of `run`) beside what a profile
// predicts for them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/validation/evaluation.hpp"
#include "scenarios/validation/own_replays.hpp"
#include "scenarios/validation/ranking.hpp"

namespace foreduce {

/// One measured row with its prediction, in seconds.
struct UserRun {
  const Algorithm* algorithm = nullptr;
  std::string inner;
  int segments = 1;
  int servers = 0;        ///< in all; 0: the report does not say
  std::size_t count = 0;  ///< elements of each rank's buffer
  Type type = Type::f32;
  double bytes = 0, measured = 0, predicted = 0;
  double error() const { return predicted / measured - 1; }
};

struct UserRunsValidation {
  std::string profile, cluster;
  Collective collective = Collective::all_reduce;
  int ranks = 0, nodes = 0;
  std::vector<UserRun> runs;
  std::vector<UserReplay> replays;
  Errors errors;  ///< its in_interval is not set
  std::optional<double> kendall_tau;
  std::vector<Crossing> crossings;
};

/// Reads one report of `run` among so many ranks and adds its rows to `into`, without predictions;
/// returns which collective they are of. Baselines are left out. Throws InputError for a report
/// that is none.
Collective read_own_runs(const std::string& file, int ranks, int nodes, UserRunsValidation& into);

/// Predicts every row of the reports in `files`, by `profile` on the one cluster of the scenario
/// file `cluster`: times of collectives (without baselines) and replayed training steps. Throws
/// InputError for reports that are none, do not fit the cluster, or are of several collectives.
/// `only`: what is of other collectives, or of steps, is left out.
UserRunsValidation validate_own_runs(const std::string& profile, const std::string& cluster,
                                     const std::vector<std::string>& files,
                                     std::optional<Collective> only, const BatchOptions& options);

}  // namespace foreduce
