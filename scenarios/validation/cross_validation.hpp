// `calibrate --reference`: fits the free numbers of the shipped profiles to published all-reduce
// times, and validates the fit by leaving one source out at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/validation/evaluation.hpp"
#include "scenarios/validation/findings.hpp"

namespace foreduce {

struct CrossValidationOptions {
  std::vector<std::string> profiles;  ///< which; empty: all that have free numbers
  std::string folder;                 ///< where the fitted profiles are written; empty: nowhere
  int rounds = 6;                     ///< of the fit
  BatchOptions batch;
};

/// How points were predicted.
enum class FitSet : std::uint8_t {
  fit,                   ///< by the profile that was fitted to them
  leave_one_source_out,  ///< by a fit without their whole source, all its sizes and node counts
  leave_one_fabric_out,  ///< by a fit without all that was measured over their fabric
  leave_one_gpu_out,     ///< by a fit without all that was measured on their GPU
  leave_nodes_out,       ///< by a fit to logs of one's own of other numbers of nodes
  every_other_size,      ///< by a fit to the sizes beside them, of logs of one's own
  other_collectives,     ///< of logs of one's own, collectives that the fit does not use
  test_set,              ///< sources that no fit may use
  as_shipped,            ///< logs of one's own by the profile that ships for such a cluster
  uncalibrated           ///< by the data sheet alone
};
const char* name_of(FitSet set);

/// One source's residuals on one cluster in one way.
struct FitResiduals {
  std::string group{},
      profile{};        ///< group: "source | instance | nodes x GPUs"; profile empty in totals
  std::string whole{};  ///< the profile with its fabric: "nccl-h100+infiniband"
  FitSet set = FitSet::fit;
  int nodes = 0;                                   ///< 0 in totals
  Collective collective = Collective::all_reduce;  ///< not of totals
  std::vector<double> bytes{}, residuals{};        ///< ln(predicted / published), one a point
  /// Whether the fit had points of the same kind of machine, number of nodes and range of sizes.
  std::vector<bool> known{};

  std::vector<double> below_1mib() const;
  std::vector<double> from_1mib() const;
};

/// A fitted number with its 90 % confidence interval; null where the points do not determine it.
struct FittedParameter {
  std::string profile, name;
  double value = 0;
  std::optional<std::array<double, 2>> interval;
};

struct CrossValidation {
  std::string fitted_to;             ///< logs of one's own; "": published measurements
  std::string shipped;               ///< of those, the profile from which the fit began
  std::vector<FitResiduals> groups;  ///< sorted by profile and group
  std::vector<FitResiduals> totals;  ///< one a FitSet
  std::vector<FittedParameter> numbers;
  std::vector<std::string> notes;  ///< what could not be predicted, and why
  std::vector<Remark> remarks;     ///< what was taken for granted of logs of one's own
};

/// Throws InputError for a profile without free numbers or without published points.
CrossValidation cross_validate(const CrossValidationOptions& options);

/// Measurements of one's own.
struct UserPoints {
  std::string fitted_to;          ///< what they are from, for reports: "a.log, b.log"
  std::vector<Published> points;  ///< `source` is the log
  std::vector<Published> others;  ///< of collectives that the fit does not use
  PublishedClusters clusters;     ///< holds the cluster of each
};
struct UserFit {
  Profile profile;
  CrossValidation validation;
};
/// Fits `start`, the profile that ships for such a cluster, to `own.points`. What is
/// known of a number holds as far as they do not contradict it; a number that they do not move
/// keeps its source. Held out are every other size and, where there are several, each number of
/// nodes. What is said of how far predictions are off on one node, or on several, stays where these
/// measurements have none. Of `options`, `profiles` and `folder` are not used. Throws InputError
/// for a profile without free numbers.
UserFit fit_to_own(const Profile& start, UserPoints own, const CrossValidationOptions& options);

}  // namespace foreduce
