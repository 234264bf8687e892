// Who this process is: told by torchrun, SageMaker, Open MPI or Slurm through the environment, or spawned here.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace foreduce {

/// One process of a run.
struct ProcessPlace {
  int process = 0, processes = 1;
  int node = -1;  ///< the launcher's number of this host, -1: told apart by host name
  std::string address = "127.0.0.1";
  int port = 29500;
  int listening = -1;  ///< see RendezvousOptions
  std::string job;     ///< the launcher's name of the job
  std::string from;    ///< which launcher, for messages; empty: none
};

/// The place that a launcher gave us: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun, SageMaker), OMPI_COMM_WORLD_* (Open
/// MPI), SLURM_PROCID under srun. Nothing: not launched by any of them. Throws std::invalid_argument on nonsense, naming the
/// variable.
std::optional<ProcessPlace> place_from_environment(const std::function<const char*(const char*)>& environment);

/// Forks `processes` times on this machine. In a child `work` runs with its place, and its result is the child's status; no child
/// outlives the parent. Returns the worst status (128 + signal for one that was killed), after saying on stderr who died how.
int spawn(int processes, const std::function<int(const ProcessPlace&)>& work);

}  // namespace foreduce
