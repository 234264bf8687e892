// A training step on real ranks: computing passes time, and collectives run beside it, each kind
// on a communication stream of its own.
#pragma once

#include <vector>

#include "algorithms/core/registry.hpp"
#include "real/measure.hpp"
#include "real/session.hpp"

namespace foreduce {

/// One task of a rank.
struct ReplayTask {
  int stream = 0;      ///< 0: computing; else the communication stream, 1 … streams
  double seconds = 0;  ///< of computing; 0 is a mere mark
  const Algorithm* algorithm = nullptr;  ///< of a collective, on as many elements as `count` says
  Plan plan;
  std::size_t count = 0;  ///< as in Collective
  Type type = Type::f32;
  RankGroups groups = {};          ///< every group of workers runs it among its own ranks
  std::vector<std::size_t> after;  ///< numbers of earlier tasks that must have ended
};

/// What every rank does in a step. Each stream runs its tasks one after another, in their order.
struct Replay {
  std::vector<ReplayTask> tasks;
  /// Communication streams. The session has as many ranks for each worker, next to each other: a
  /// stream has a thread and connections of its own, as a communicator of NCCL has.
  int streams = 1;
};

/// One timed step.
struct ReplayedStep {
  double seconds = 0;              ///< from its start to its end on the slowest worker
  std::vector<double> start, end;  ///< of each task, on the first worker of this process; seconds
                                   ///< from the step's start
};

/// Times `options.iterations` steps. Collective: every process calls it, and all get the same
/// seconds. Computing is a thread that sleeps, as a GPU would leave the CPU free. Gathered units
/// of a stream share one buffer. With several streams no algorithm may use servers.
std::vector<ReplayedStep> replay(Session& session, const Replay& step,
                                 const MeasureOptions& options);

}  // namespace foreduce
