// Binary trees over nodes with a chain inside each node: the shape of NCCL's trees, shared by tree
// and double-tree.
#pragma once

#include <span>
#include <vector>

#include "algorithms/core/transport.hpp"

namespace foreduce {

/// One rank's place in a tree; parent -1 at the root.
struct TreeLinks {
  int parent = -1;
  std::vector<int> children;
  bool leaf = false;  ///< no other node hangs below this rank's node
};

/// In-order binary tree over 0 … n-1 (Sanders, Speck & Träff 2009; NCCL src/graph/trees.cc): root 0
/// with the single child 2^k < n; leaves are the odd numbers. Half::second gives the second tree of
/// a double tree: reflected for even n, shifted by one for odd n, so that the inner nodes of one
/// are leaves of the other (but for one or two).
TreeLinks binary_tree(int n, int index, Half tree);

/// The tree over all workers: nodes form a binary tree through the first worker that `order` visits
/// on each, the rest of a node hangs below as a chain. `order` is one of the layout's channels.
TreeLinks cluster_tree(const Layout& layout, std::span<const int> order, int rank, Half tree);

/// What one tree reduces, and in which segments.
struct TreeShare {
  Buffer data;
  Op op;
  Segments cut;
};

/// Reduces a share up the tree and hands the sum down, segment by segment, both directions at once.
/// The steps of `first` and one more are used. Returns when the result is here.
Event reduce_and_broadcast(Transport& t, const TreeLinks& links, const TreeShare& share, Tag first,
                           Event after);

/// Segments of about 512 KiB (NCCL's network chunk on EC2), 1 … 64 of them.
int tree_segments(std::size_t bytes_per_tree);

}  // namespace foreduce
