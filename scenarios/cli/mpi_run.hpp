// The baseline mpi: this program again, under mpirun.
#pragma once

#include "scenarios/cli/launch_options.hpp"

namespace foreduce {

struct MpiRun {
  LaunchOptions launch;
  std::string collective, sizes, dtype;
  int warmup = 5, iterations = 20;
  bool check = false;
};

/// The report of MPI's rows, over the like of our own wire. Throws TransportError if mpirun gives
/// no answer.
Json run_under_mpirun(const MpiRun& run);

}  // namespace foreduce
