// `validate --reference`: every published point and training run beside its prediction, with the
// errors of each group.
#pragma once

#include <string>
#include <vector>

#include "scenarios/validation/evaluation.hpp"
#include "scenarios/validation/ranking.hpp"
#include "scenarios/validation/training_runs.hpp"

namespace foreduce {

/// Points that belong together: a source's with as many nodes, GPUs and the same algorithm, or a
/// total.
struct ReferenceGroup {
  std::string name, profile;
  std::vector<const EvaluatedPoint*> small,
      large;  ///< below and from 1 MiB on; of ReferenceValidation::points
};

/// Where one source ran several algorithms on one cluster: whether the faster one is predicted, and
/// from which size on.
struct ReferenceRanking {
  std::string name;
  double kendall_tau = 0;
  std::vector<Crossing> crossings;
};

struct ReferenceValidation {
  std::vector<EvaluatedPoint> points;
  std::vector<ReferenceGroup> groups;  ///< sources in the file's order
  ReferenceGroup fitted, test_set, all;
  std::vector<ReferenceGroup> test_parts;      ///< the test set on EC2, and elsewhere
  std::vector<EvaluatedPoint> collectives;     ///< all-gathers and others; no fit may use them
  std::vector<ReferenceGroup> of_collectives;  ///< theirs; behind them two parts and their total
  std::vector<ReferenceRanking> rankings;
  std::vector<TrainingPoint> training;
  std::size_t without_machine =
      0;  ///< published points on hardware that the catalogue has nothing like, or not NCCL's
};

/// `profile`: for all points; empty: the shipped one made for each instance type. Throws
/// InputError.
ReferenceValidation validate_reference(const std::string& profile, const BatchOptions& options);

/// A row of `docs/accuracy.md`: one GPU generation in one way of validation.
struct GenerationErrors {
  std::string generation;  ///< "V100"
  std::string set;         ///< "fit", "test set"
  Errors small, large;
};
std::vector<GenerationErrors> errors_by_generation(const ReferenceValidation& validation);

}  // namespace foreduce
