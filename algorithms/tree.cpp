// Tree: reduce up a binary tree, broadcast down it, segment by segment so that both directions stay
// busy. Cost about 2Dα + 3Sβ(1 + D/segments), D the depth: an inner node sends its sum up and the
// result to two children. Wins for small S on many nodes; at large S the inner nodes' three-reduce
// traffic is the limit (see double-tree). Source: Sanders, Speck & Träff, Parallel Computing
// 35(12), 2009; shape as NCCL's (chain inside a node).
#include "algorithms/core/registry.hpp"
#include "algorithms/core/trees.hpp"

namespace foreduce {
namespace {

Event tree(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  if (t.layout().at(t.rank()).server) return {};
  std::vector<Event> done;
  for (int c = 0; c < plan.channels; ++c) {
    const TreeLinks links = cluster_tree(t.layout(), t.layout().channel(c), t.rank(), Half::first);
    const TreeShare share{data.chunk(plan.channels, c), op, plan.cut()};
    done.push_back(reduce_and_broadcast(t, links, share, {0, 0, c}, after));
  }
  return t.join(done);
}

/// Everything once to the parent and once to each child.
std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  if (layout.at(rank).server) return 0;
  std::size_t total = 0;
  for (int c = 0; c < plan.channels; ++c) {
    const TreeLinks links = cluster_tree(layout, layout.channel(c), rank, Half::first);
    total += Buffer{nullptr, 0, count}.chunk(plan.channels, c).count *
             (links.children.size() + (links.parent >= 0));
  }
  return total;
}

const Registered entry{
    {.name = "tree",
     .idea = "reduce up a binary tree, broadcast down it, pipelined",
     .cost = "about 2Dα + 3Sβ(1 + D/segments), D = depth",
     .wins = "small messages on many nodes",
     .source = "Sanders, Speck & Träff, Parallel Computing 35(12), 2009",
     .uses_channels = true,
     .channels_alike = true,
     .steady_nodes = 256,
     .run = tree,
     .sends = sends,
     .steps =
         [](int n) {
           int depth = 0;
           for (int i = 0; i < n; ++i) {
             int up = 0;
             for (int at = i; (at = binary_tree(n, at, Half::first).parent) >= 0;) ++up;
             depth = std::max(depth, up);
           }
           return 2 * depth;
         },
     .segments_for = [](const Layout& layout,
                        std::size_t bytes) { return tree_segments(layout, 1, bytes); }}};

}  // namespace
}  // namespace foreduce
