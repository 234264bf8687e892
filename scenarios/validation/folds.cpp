#include "scenarios/validation/folds.hpp"

#include <set>

#include "scenarios/validation/profile_fit.hpp"

namespace foreduce {

std::vector<Fold> folds_by_source(const std::vector<Published>& points,
                                  const std::vector<std::string>& sources) {
  std::vector<Fold> folds;
  for (const std::string& source : sources) {
    Fold& fold = folds.emplace_back(Fold{FitSet::leave_one_source_out, {}});
    for (const Published& p : points) fold.out.push_back(p.source == source);
  }
  return folds;
}

std::vector<Fold> folds_by_nodes(const std::vector<Published>& points) {
  std::set<int> nodes;
  for (const Published& p : points) nodes.insert(p.nodes);
  std::vector<Fold> folds;
  for (const int n : nodes) {
    Fold& fold = folds.emplace_back(Fold{FitSet::leave_nodes_out, {}});
    for (const Published& p : points) fold.out.push_back(p.nodes == n);
  }
  return folds;
}

std::vector<Fold> folds_by_size(const std::vector<Published>& points) {
  std::vector<Fold> folds(2, {FitSet::every_other_size, std::vector<bool>(points.size())});
  for (std::size_t k = 0; k < points.size(); ++k) {
    std::set<double> smaller;
    for (const Published& p : points)
      if (curve_of(p) == curve_of(points[k]) && p.bytes < points[k].bytes)
        smaller.insert(p.bytes.value);
    folds[smaller.size() % 2].out[k] = true;
  }
  return folds;
}

}  // namespace foreduce
