// Which process of a run this is: a launcher (torchrun, SageMaker, Open MPI, Slurm) says so in the
// environment, or spawn() does.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "real/run_token.hpp"

namespace foreduce {

/// One process of a run.
struct ProcessPlace {
  int process = 0, processes = 1;
  int node = -1;  ///< the launcher's number of this host; -1: the host name decides
  std::string address = "127.0.0.1";
  int port = 29500;
  int listening_socket = -1;      ///< see RendezvousOptions
  std::string job;                ///< the launcher's name of the job
  std::optional<RunToken> token;  ///< a secret of the run's processes; without, any program that
                                  ///< reaches process 0 in time may take a process's place
  int process_end_fd = -1;        ///< see RendezvousOptions
  std::string from;               ///< which launcher, for messages; empty: none
};

/// The place that a launcher gave us, from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (torchrun,
/// SageMaker), OMPI_COMM_WORLD_* (Open MPI), or SLURM_PROCID under srun; the token from
/// FOREDUCE_TOKEN. Nothing if none of them started this process. Throws std::invalid_argument,
/// which names the variable, if a value is not valid.
std::optional<ProcessPlace> place_from_environment(
    const std::function<const char*(const char*)>& environment);

/// Forks `processes` times on this machine. A child runs `work` with its place, and the result is
/// its exit status. Children that still have to meet learn at once when another has ended. Those
/// that a signal has stopped are killed 3 s after another has ended, and any child 15 s after
/// another has failed. No child outlives the parent. Returns the worst status, which is 128 +
/// signal for a process that was killed, and reports those on stderr.
int spawn(int processes, const std::function<int(const ProcessPlace&)>& work);

/// A port of 127.0.0.1 that nobody listens on, for a program that is about to. Throws
/// std::system_error if there is none.
int free_local_port();

}  // namespace foreduce
