// How long an all-reduce is expected to take with a library on a cluster, and within which bounds: what `validate`, `check` and the
// calibration ask.
#pragma once

#include <memory>
#include <span>

#include "sim/collective.hpp"

namespace foreduce {

/// One answer.
struct Expected {
  Seconds time;                     ///< simulated
  Seconds low, high;                ///< nine of ten measurements lie between, by the profile's comparison with published ones
  Seconds least;                    ///< what bandwidth alone takes; nothing is faster on this hardware
  bool extrapolated = false;        ///< outside what the profile was compared with: sizes, nodes, instance
  std::string why;                  ///< what is outside; empty if nothing is
  std::string algorithm, protocol;  ///< what was simulated; protocol empty without one
  std::string error;                ///< why there is no answer; then nothing else is set
};

/// One question. `algorithm`: "nccl" (what NCCL would choose), "best" (the fastest of all that can run here), or one of ours, which
/// then runs as NCCL would cut it if the profile has protocols.
struct Question {
  std::shared_ptr<const Cluster> cluster;
  std::shared_ptr<const Profile> profile;
  Bytes bytes;  ///< a rank's
  std::string algorithm = "nccl";
};

/// Answers all, each simulation in a child process, `jobs` at a time (0: one a core); equal simulations run once. The calling
/// process must be single-threaded.
std::vector<Expected> expected_all_reduces(std::span<const Question> questions, int jobs = 0);

/// One. Throws InputError if there is no answer.
Expected expected_all_reduce(const Cluster& cluster, const Profile& profile, Bytes bytes, const std::string& algorithm = "nccl");

}  // namespace foreduce
