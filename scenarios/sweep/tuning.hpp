// Where another algorithm or protocol of NCCL's is faster than the one that it chooses.
#pragma once

#include <string>
#include <vector>

#include "scenarios/sweep/compare.hpp"

namespace foreduce {

/// One size on one number of nodes.
struct TunedSize {
  std::string instance;
  int nodes = 0, ranks = 0;
  std::size_t bytes = 0;
  NcclAlgoProto own, fastest;  ///< what NCCL chooses, and what is the fastest
  Seconds own_time, fastest_time;
  std::vector<std::string> widened;  ///< why the interval of NCCL's own choice is wide

  /// How many times as fast the fastest is.
  double gain() const { return own_time / fastest_time; }
};

struct Tuning {
  Collective collective = Collective::all_reduce;
  std::vector<TunedSize> sizes;  ///< by instance type and nodes, rising
};

/// Tries every algorithm and protocol that NCCL has for the scenario's messages. Throws InputError
/// for a collective that NCCL does in one way, and where NCCL cannot run.
Tuning tune(const Scenario& scenario, const SweepOptions& options);

}  // namespace foreduce
