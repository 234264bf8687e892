#include "algorithms/core/spanning_trees.hpp"

namespace foreduce {

const std::vector<SpanningTree>& SpanningTrees::trees() const {
  std::call_once(once_, [this] { trees_ = find_(); });
  return trees_;
}

std::vector<SpanningTree> two_level_trees(const Layout& layout) {
  std::vector<std::vector<int>> nodes(static_cast<std::size_t>(layout.nodes));
  for (int r = 0; r < layout.workers; ++r)
    nodes[static_cast<std::size_t>(layout.at(r).node)].push_back(r);
  std::vector<SpanningTree> trees;
  for (int root = 0; root < layout.workers; ++root) {
    SpanningTree tree{1.0 / layout.workers,
                      std::vector<int>(static_cast<std::size_t>(layout.workers), -1)};
    const auto local = static_cast<std::size_t>(layout.at(root).local);
    for (const std::vector<int>& node : nodes) {
      const bool own = layout.at(node.front()).node == layout.at(root).node;
      const int head = own ? root : node[local % node.size()];
      for (const int r : node)
        if (r != root) tree.parent[static_cast<std::size_t>(r)] = r == head ? root : head;
    }
    trees.push_back(std::move(tree));
  }
  return trees;
}

}  // namespace foreduce
