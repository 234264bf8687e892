// Small experiments on a real cluster, from which a transport profile is fitted. None of them is an all-reduce.
#pragma once

#include <string>
#include <vector>

#include "real/session.hpp"

namespace foreduce {

/// What was tried, and how long one unit of it took.
struct ProbePoint {
  /// exchange: both send at once and wait for the other's, over and over. ping-pong: a message there and back, half of it. pairs:
  /// the same between disjoint pairs of processes at once. one-to-many: one rank sends to all others at once, until the last has
  /// it. burst: one of many messages under way at once. reduce: adding without moving.
  std::string kind;
  std::string way;  ///< network, or memory: between threads of one process
  std::size_t bytes = 0;
  int fan = 1;                  ///< receivers of one-to-many; pairs at once
  std::vector<double> samples;  ///< seconds
};

struct ProbeOptions {
  std::vector<std::size_t> sizes;  ///< bytes, multiples of 4
  int warmup = 2, iterations = 7;
};

/// Runs all experiments; the result is complete in the first process, empty elsewhere. Collective.
std::vector<ProbePoint> probe(Session& session, const ProbeOptions& options);

}  // namespace foreduce
