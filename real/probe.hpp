// Small experiments on a real cluster, from which a transport profile is fitted. None of them is an
// all-reduce.
#pragma once

#include <vector>

#include "algorithms/core/experiment.hpp"
#include "real/session.hpp"

namespace foreduce {

/// One experiment with one size, and how long each repetition took.
struct ProbePoint {
  Experiment experiment = Experiment::exchange;
  ExperimentPath path = ExperimentPath::network;
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
