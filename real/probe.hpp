// Small experiments on a real cluster, from which a transport profile is fitted. None of them is an
// all-reduce.
#pragma once

#include <string>
#include <vector>

#include "real/session.hpp"

namespace foreduce {

/// One experiment with one size, and how long each repetition took.
struct ProbePoint {
  /// exchange: both send at once and wait for the other's message, many times in a row.
  /// ping-pong: a message and its answer; the time is half of that.
  /// pairs: ping-pong between disjoint pairs of processes at once.
  /// one-to-many: one rank sends to all others at once, until the last one has received.
  /// burst: one of many messages that are under way at once.
  /// reduce: reducing without communication.
  std::string kind;
  std::string way;  ///< the path: network, or memory (between threads of one process)
  std::size_t bytes = 0;
  int fan = 1;                  ///< receivers of one-to-many; pairs at once
  std::vector<double> samples;  ///< seconds
};

struct ProbeOptions {
  std::vector<std::size_t> sizes;  ///< bytes, multiples of 4
  int warmup = 2, iterations = 7;
};

/// Runs all experiments. Collective: every process calls it, and only the first one gets the
/// result.
std::vector<ProbePoint> probe(Session& session, const ProbeOptions& options);

}  // namespace foreduce
