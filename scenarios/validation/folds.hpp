// What a cross-validation leaves out of its fits, one part after the other.
#pragma once

#include <string>
#include <vector>

#include "scenarios/validation/cross_validation.hpp"
#include "scenarios/validation/published.hpp"

namespace foreduce {

/// Points that are predicted by a fit to the others.
struct Fold {
  FitSet set = FitSet::leave_one_source_out;
  std::vector<bool> out;  ///< by point
};

/// Each of the sources.
std::vector<Fold> folds_by_source(const std::vector<Published>& points,
                                  const std::vector<std::string>& sources);
/// Each number of nodes.
std::vector<Fold> folds_by_nodes(const std::vector<Published>& points);
/// Of each log and collective the sizes of even rank, and those of odd rank.
std::vector<Fold> folds_by_size(const std::vector<Published>& points);

}  // namespace foreduce
