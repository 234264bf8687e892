// Fits the free numbers of one profile to published all-reduces.
#pragma once

#include <Eigen/Dense>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "scenarios/validation/cross_validation.hpp"
#include "scenarios/validation/published.hpp"

namespace foreduce {

/// One line of the report: a source's points on one cluster.
std::string curve_of(const Published& p);

/// Composes the whole profile of a published point from the part that a fit changes (a GPU's
/// profile or a fabric) and the other part as it ships.
class ProfileComposer {
 public:
  explicit ProfileComposer(const Profiles& shipped) : shipped_(shipped) {}
  /// Every point has the whole profile of that name, whatever its machine.
  ProfileComposer(const Profiles& shipped, std::string whole)
      : shipped_(shipped), whole_(std::move(whole)) {}

  /// What the point's profile is called: "nccl-a100", or "nccl-a100+roce".
  const std::string& name_for(const Published& p);
  bool contains(const Published& p, const std::string& part);
  /// The profile of each point, with `part` for the one of its parts that has that name.
  std::vector<ProfilePtr> profiles(const std::vector<Published>& points, const ProfilePtr& part);

 private:
  const Profiles& shipped_;
  const std::string whole_;
  std::map<std::string, std::string> names_;
};

/// ln(predicted / published) of `points` for several profiles at once, so that all cores are busy.
std::vector<Eigen::VectorXd> residuals(
    const std::vector<Published>& points,
    const std::vector<std::shared_ptr<const Profile>>& candidates, const BatchOptions& options,
    PublishedClusters& clusters, ProfileComposer& composer);

/// The same by whole profiles, one a point, for several such choices at once.
std::vector<Eigen::VectorXd> residuals_by(const std::vector<Published>& points,
                                          const std::vector<std::vector<ProfilePtr>>& choices,
                                          const BatchOptions& options, PublishedClusters& clusters);

struct ProfileFit {
  Profile profile;
  double loss = 0;
  Eigen::VectorXd deviation;  ///< of each free number's logarithm, one sigma
};
/// What is known of free numbers before a fit sees any point.
enum class Known : std::uint8_t {
  nothing,
  start  ///< their start's values, each to within its interval
};
/// Fits what free_parameters() lists of `start` to `points`: the least sum of absolute logarithms.
ProfileFit fit_profile(const Profile& start, const std::vector<Published>& points,
                       const CrossValidationOptions& options, PublishedClusters& clusters,
                       ProfileComposer& composer, Known before = Known::nothing);

}  // namespace foreduce
