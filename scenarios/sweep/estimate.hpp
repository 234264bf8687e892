// Collectives without a scenario: how long each should take with a library on a cluster, and within
// which interval. What validation, diagnosis and calibration ask; the same batch answers that
// answers predict and compare.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenarios/sweep/methods.hpp"

namespace foreduce {

/// One collective of f32 elements, all-reduce unless the method says otherwise. A method of kind
/// nccl with a profile that has no protocols means the faster of our own ring and double tree, or
/// the forced one of them.
struct CollectiveRequest {
  std::shared_ptr<const Cluster> cluster;
  std::shared_ptr<const Profile> profile;
  Bytes bytes;  ///< nccl-tests' size
  Method method;
};

struct CollectiveEstimate {
  Seconds time;
  Interval interval;
  Seconds least;      ///< what bandwidth alone takes; nothing is faster on this hardware
  NcclAlgoProto run;  ///< what was simulated
  double extrapolation_error =
      0;              ///< of a pipeline that was extrapolated from its steady state; 0: it was not
  std::string error;  ///< why there is no answer; then nothing else is set
};

/// Answers all, each simulation in a child process, `jobs` at a time (0: one a core); equal
/// simulations run once. The calling process must be single-threaded. A method of kind best is
/// refused.
std::vector<CollectiveEstimate> estimate_collectives(std::span<const CollectiveRequest> requests,
                                                     const BatchOptions& options);

/// NCCL as a published measurement or a log reports it. `forced`: by NCCL_ALGO; null: NCCL chose.
/// `version`: of NCCL where it is said, "2.19.3"; one older than nccl_releases() leaves the choice
/// as it is without. `plugin`: the version of aws-ofi-nccl. Throws InputError for an algorithm that
/// the collective does not have.
Method reported_method(std::optional<NcclAlgorithm> forced = {},
                       Collective collective = Collective::all_reduce,
                       const std::string& version = {}, const std::string& plugin = {});

}  // namespace foreduce
