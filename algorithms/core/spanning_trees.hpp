// Trees over all workers that share the data among them: what the algorithm forest reduces up and
// broadcasts down.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "algorithms/core/layout.hpp"

namespace foreduce {

/// A tree over all workers.
struct SpanningTree {
  double share = 0;         ///< of the data; those of all trees add up to 1
  std::vector<int> parent;  ///< of each worker; -1 at the root
};

/// The trees of one topology, found when they are first asked for.
class SpanningTrees {
 public:
  explicit SpanningTrees(std::function<std::vector<SpanningTree>()> find)
      : find_(std::move(find)) {}
  /// May be called by several threads.
  const std::vector<SpanningTree>& trees() const;

 private:
  std::function<std::vector<SpanningTree>()> find_;
  mutable std::once_flag once_;
  mutable std::vector<SpanningTree> trees_;
};

/// Of more workers no trees are packed: it takes too long, and so would a simulation.
inline constexpr int kMostTreeWorkers = 160;

/// For a layout of which no more is known than who is on which node: one tree a worker, which is
/// its root. Of every node the worker with the same local number (modulo theirs) is below the root,
/// and the node's others are below that. Where all workers have equal ports this is optimal.
std::vector<SpanningTree> two_level_trees(const Layout& layout);

}  // namespace foreduce
