// `foreduce calibrate LOG`: the profile of one's own cluster from what nccl-tests printed there.
#pragma once

#include "scenarios/validation/cross_validation.hpp"
#include "scenarios/validation/nccl_log.hpp"

namespace foreduce {

/// What is asked about the logs.
struct LogCalibrationQuestion {
  std::string instance;             ///< "": from the logs
  int nodes = 0;                    ///< 0: from the logs
  std::string name = "calibrated";  ///< of the profile
  std::string nccl_version;         ///< where the logs name none: "2.19"
  /// What the profile is fitted to; other collectives in the logs are predicted from it.
  std::vector<Collective> collectives{Collective::all_reduce};
};

/// Fits the profile that ships for the logs' cluster to all of the asked collectives in them, see
/// fit_to_own(). Throws InputError where logs are of different machines, hold none of a collective
/// or too few sizes, a run went wrong, or it is not known where it was.
UserFit calibrate_to_logs(const std::vector<NcclLog>& logs, const LogCalibrationQuestion& question,
                          const CrossValidationOptions& options);

}  // namespace foreduce
