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

/// Into how many segments to cut what goes through a pipeline of so many steps on one channel: as
/// many as balance the latency of each with the time to fill the pipeline, sqrt(steps x bytes / in
/// flight). In flight is what a link carries in the time that a message costs: taken as 128 KiB (5
/// us of InfiniBand at 400 Gb/s are 250 KB, 30 us of TCP at 25 Gb/s 90 KB), and more on machines
/// with several rails, which are those with EFA's 25 us. Of 198 trees and chains on eleven clusters
/// the default takes 1.13 times as long as the best number of 1 to 64 segments in the geometric
/// mean, 2.4 at most (tests/bench/segments.py).
int pipeline_segments(const Layout& layout, int steps, std::size_t bytes);
/// The same of binary trees side by side, `trees` on each channel, up and down.
int tree_segments(const Layout& layout, int trees, std::size_t bytes);

}  // namespace foreduce
