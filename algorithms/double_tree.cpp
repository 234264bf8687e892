// Double tree: two complementary binary trees, each with half the data; the inner nodes of one are
// the leaves of the other, so every rank sends about as much as it receives. Cost about 2Dα + 2Sβ(1
// + D/segments) + Sγ: latency of a tree at nearly the ring's bandwidth. Wins for small to large S
// on many nodes; on two nodes only S leaves each node, where a ring sends 2(n-1)/n·S. Source:
// Sanders, Speck & Träff, Parallel Computing 35(12), 2009; NCCL since 2.4 (src/graph/trees.cc).
#include <array>

#include "algorithms/core/registry.hpp"
#include "algorithms/core/trees.hpp"

namespace foreduce {
namespace {

Event double_tree(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  if (t.layout().at(t.rank()).server) return {};
  std::vector<Event> done;
  for (int c = 0; c < plan.channels; ++c) {
    const auto& order = t.layout().channel(c);
    const TreeLinks links[] = {cluster_tree(t.layout(), order, t.rank(), Half::first),
                               cluster_tree(t.layout(), order, t.rank(), Half::second)};
    // A node first sends what others wait for: what it has as a leaf. So both trees start at once.
    for (const int side : links[0].leaf ? std::array{0, 1} : std::array{1, 0}) {
      const TreeShare half{data.chunk(plan.channels, c).chunk(2, side), op, plan.cut()};
      const Tag first{0, 0, c, static_cast<Half>(side)};
      done.push_back(reduce_and_broadcast(t, links[side], half, first, after));
    }
  }
  return t.join(done);
}

/// Each half once to the parent and once to each child in its own tree.
std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  if (layout.at(rank).server) return 0;
  std::size_t total = 0;
  for (int c = 0; c < plan.channels; ++c)
    for (int side = 0; side < 2; ++side) {
      const TreeLinks links =
          cluster_tree(layout, layout.channel(c), rank, static_cast<Half>(side));
      total += Buffer{nullptr, 0, count}.chunk(plan.channels, c).chunk(2, side).count *
               (links.children.size() + (links.parent >= 0));
    }
  return total;
}

const Registered entry{
    {.name = "double-tree",
     .idea = "two complementary binary trees, half the data each, pipelined",
     .cost = "about 2Dα + 2Sβ(1 + D/segments) + Sγ, D = depth",
     .wins = "small to large messages on many nodes; any size on two",
     .source = "Sanders, Speck & Träff, Parallel Computing 35(12), 2009; NCCL 2.4",
     .uses_channels = true,
     .symmetry = [](const Plan&) { return Symmetry::mirror; },
     .channels_alike = true,
     .steady_nodes = 256,
     .run = double_tree,
     .sends = sends,
     .steps = [](int n) { return find_algorithm("tree")->steps(n); },
     .segments_for = [](const Layout& layout,
                        std::size_t bytes) { return tree_segments(layout, 2, bytes); }}};

}  // namespace
}  // namespace foreduce
