// Forest: the data are shared among spanning trees; each is reduced up its tree and broadcast down
// it, segment by segment, all trees at once. The trees and their shares are chosen so that no link
// of the topology carries more than it must (models/tree_packing): at large sizes the time comes
// near to the exact lower bound, S over what the narrowest cut lets through. Cost S/B* + 2Dα, B*
// the rate of that cut and D the depth of the trees. Wins on meshes, and where links or NICs are
// unequal: a slow node is a leaf of every tree. Where nothing is known of the links, every rank is
// the root of one tree of two levels. Source: Tutte 1961 and Nash-Williams 1961 on packing spanning
// trees; Zhao et al., ForestColl, arXiv 2402.06787.
#include <algorithm>
#include <cmath>

#include "algorithms/core/registry.hpp"
#include "algorithms/core/spanning_trees.hpp"
#include "algorithms/core/trees.hpp"

namespace foreduce {
namespace {

/// The layout's trees, each with its part of the data.
class Forest {
 public:
  explicit Forest(const Layout& layout)
      : equal_(layout.trees ? std::vector<SpanningTree>() : two_level_trees(layout)),
        trees_(layout.trees ? layout.trees->trees() : equal_) {}
  Forest(const Forest&) = delete;
  Forest& operator=(const Forest&) = delete;

  int size() const { return static_cast<int>(trees_.size()); }

  /// Calls each(tree, its part of the data) in turn.
  template <class Each>
  void for_each(Buffer data, Each each) const {
    double shares = 0;
    std::size_t begin = 0;
    for (int i = 0; i < size(); ++i) {
      const SpanningTree& tree = trees_[static_cast<std::size_t>(i)];
      shares += tree.share;
      const auto cut = static_cast<std::size_t>(
          std::llround(std::min(1.0, shares) * static_cast<double>(data.count)));
      const std::size_t end = i + 1 == size() ? data.count : std::min(cut, data.count);
      each(i, tree, Buffer{data.base, data.offset + begin, end - begin, data.type});
      begin = end;
    }
  }

 private:
  std::vector<SpanningTree> equal_;
  const std::vector<SpanningTree>& trees_;
};

TreeLinks links_in(const SpanningTree& tree, int rank) {
  TreeLinks links;
  links.parent = tree.parent[static_cast<std::size_t>(rank)];
  for (std::size_t r = 0; r < tree.parent.size(); ++r)
    if (tree.parent[r] == rank) links.children.push_back(static_cast<int>(r));
  return links;
}

/// A tree's part of the data, and this rank's place in the tree.
struct Branch {
  TreeLinks links;
  Buffer part;
};

/// One round: a segment of each tree.
struct Round {
  Event after;              ///< the data is here
  Event gate;               ///< what goes up may leave
  std::vector<Event> sent;  ///< what has gone up
};

/// One segment of one tree.
Event reduce_and_broadcast(Transport& t, const Branch& branch, Buffer segment, Op op, Tag up,
                           Round& round) {
  Tag down = up;
  ++down.step;
  Event ready = round.after;
  for (const int child : branch.links.children) ready = t.recv_reduce(child, up, segment, op);
  if (branch.links.parent >= 0) {
    const Event both[] = {ready, round.gate};
    round.sent.push_back(t.send(branch.links.parent, up, segment, t.join(both)));
    ready = t.recv(branch.links.parent, down, segment);
  }
  for (const int child : branch.links.children) t.send(child, down, segment, ready);
  return ready;
}

/// All trees advance together, a segment each: a tree that ran ahead would leave its links idle
/// at the end. On p3dn's mesh that takes 40 % off the time.
Event forest(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  if (t.layout().at(t.rank()).server) return {};
  std::vector<Branch> branches;
  Forest(t.layout()).for_each(data, [&](int, const SpanningTree& tree, Buffer part) {
    branches.push_back({links_in(tree, t.rank()), part});
  });
  constexpr int kAhead = 4;  // rounds that a rank may send up before its first has left
  std::vector<Event> done{after}, rounds;
  for (int k = 0; k < plan.segments; ++k) {
    Round round{.after = after,
                .gate = k < kAhead ? after : rounds[static_cast<std::size_t>(k - kAhead)],
                .sent = {after}};
    for (std::size_t i = 0; i < branches.size(); ++i)
      done.push_back(reduce_and_broadcast(t, branches[i], branches[i].part.segment(plan.cut(), k),
                                          op, {.step = 2 * static_cast<int>(i), .segment = k},
                                          round));
    rounds.push_back(t.join(round.sent));
  }
  return t.join(done);
}

/// Of each tree's part once to the parent and once to each child.
std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan&) {
  if (layout.at(rank).server) return 0;
  std::size_t total = 0;
  Forest(layout).for_each({nullptr, 0, count}, [&](int, const SpanningTree& tree, Buffer part) {
    const TreeLinks links = links_in(tree, rank);
    total += part.count * (links.children.size() + (links.parent >= 0));
  });
  return total;
}

/// Segments of about 128 KiB: as many as fill the pipeline, and not too many messages in all.
int segments_for(const Layout& layout, std::size_t bytes) {
  constexpr std::size_t kSegment = 128 * 1024, kMost = 512, kMostMessages = 200'000;
  const auto trees = static_cast<std::size_t>(Forest(layout).size()),
             edges = static_cast<std::size_t>(std::max(1, layout.workers - 1));
  const std::size_t most = std::clamp<std::size_t>(kMostMessages / (2 * trees * edges), 1, kMost);
  return static_cast<int>(std::clamp<std::size_t>(bytes / trees / kSegment, 1, most));
}

std::optional<std::string> unsupported_reason(const Layout& layout, const Plan&) {
  if (layout.workers <= kMostTreeWorkers) return std::nullopt;
  return "it packs trees for at most " + std::to_string(kMostTreeWorkers) + " GPUs";
}

const Registered entry{
    {.name = "forest",
     .idea = "reduce up and broadcast down spanning trees that fill every link, pipelined",
     .cost = "about Sβ* + 2Dα, 1/β* what the narrowest cut lets through, D = depth",
     .wins = "large messages on meshes, and on nodes with unequal NICs",
     .source = "Zhao et al., ForestColl, arXiv 2402.06787; Nash-Williams 1961",
     .compared_up_to = 0,
     .run = forest,
     .sends = sends,
     .steps = [](int n) { return n > 1 ? 2 : 0; },
     .unsupported_reason = unsupported_reason,
     .segments_for = segments_for}};

}  // namespace
}  // namespace foreduce
