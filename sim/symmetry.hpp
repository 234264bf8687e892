// What a simulation may leave out: which ranks, messages and links represent which others.
//
// A symmetry renumbers ranks, channels and links so that the run looks the same. Max-min sharing is
// unique, so what is renumbered into each other behaves alike, and one of each is enough. Two kinds
// are used, together where both hold: nodes change places as the algorithm claims
// (Algorithm::symmetry), and in every node the rails move on, all GPUs and channels with them
// (channels_alike).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "algorithms/core/registry.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

/// What of the data each GPU of a node has to do with, where GPUs may change places.
enum class GpuPart : std::uint8_t {
  chunk,  ///< a chunk of its own: chunks must be equal
  whole   ///< all of its group's data, as in groups across the nodes: nothing must divide
};

class SymmetryReduction {
 public:
  /// Nothing left out.
  SymmetryReduction(const Cluster& cluster, const Layout& layout);
  /// All the symmetry that `algorithm` has with this plan on this cluster, for a buffer of `count`
  /// elements.
  SymmetryReduction(const Cluster& cluster, const Layout& layout, const Algorithm& algorithm,
                    const Plan& plan, std::size_t count, GpuPart gpu_part = GpuPart::chunk);

  bool any() const { return nodes_ != Symmetry::none || rotations_ > 1; }
  /// Whether node 0 represents all nodes.
  bool one_node() const { return nodes_move() && block_ == 1 && leaves_ == 0; }
  /// Counts must be multiples of this, for chunks that represent each other to be equal.
  std::size_t unit() const { return unit_; }

  bool simulates(int rank) const {
    return !any() || (representative_node(layout_.at(rank).node) == layout_.at(rank).node &&
                      rotation(rank) == 0);
  }
  /// The number of a rank's representative among the simulated ones.
  int slot(int rank) const;
  /// The renumbering (symmetry index) that takes its representative to `rank`; 0 leaves everything
  /// in its place.
  int index(int rank) const {
    return node_shift(layout_.at(rank).node) * rotations_ + rotation(rank);
  }
  int inverse(int index) const;
  /// The packed tag that a message's tag becomes by a renumbering.
  std::uint64_t tag(std::uint64_t tag, int index) const;

  /// How many links are simulated.
  std::size_t links() const { return representative_.size(); }
  /// The simulated link for a link of the cluster.
  std::size_t link(std::size_t id) const { return representative_[id % representative_.size()]; }
  /// How many flows over a link one simulated flow represents: more than one if a renumbering
  /// leaves the link in its place.
  int flows(std::size_t link) const { return flows_[link]; }

 private:
  /// Where ranks are no power of two, some hand their data to a neighbour first, and the others
  /// exchange by exclusive-or of their numbers (PowerOfTwo).
  struct Pairs {
    int paired = 0;  ///< the first so many nodes hand data to a neighbour
    int rest = 0;    ///< the node at which the numbers of those that exchange begin
    /// Exclusive-or by a k below this, in nodes, leaves the schedule as it is. A paired node has
    /// half as many numbers, and moves by 2k.
    int shifts = 0;
    bool any() const { return shifts > 1; }
    int shift(int n) const { return (n < paired ? n / 2 : n - rest) & (shifts - 1); }
    int representative(int n) const { return n - shift(n) * (n < paired ? 2 : 1); }
  };
  /// Whether nodes take each other's places, all of them together.
  bool nodes_move() const {
    return nodes_ == Symmetry::translation || (nodes_ == Symmetry::exclusive_or && !pairs_.any());
  }
  Pairs pairs_on(const Cluster& cluster, const Algorithm& algorithm, const Plan& plan) const;
  void find_links(const Cluster& cluster);
  void find_uplinks(const Cluster& cluster);
  int representative_node(int n) const {
    if (pairs_.any()) return pairs_.representative(n);
    return nodes_move()                 ? n % block_
           : nodes_ == Symmetry::mirror ? std::min(n, layout_.nodes - 1 - n)
                                        : n;
  }
  int node_shift(int n) const {
    if (pairs_.any()) return pairs_.shift(n);
    return nodes_move() ? n - n % block_ : n != representative_node(n);
  }
  int rotation(int rank) const { return rotations_ == 1 ? 0 : layout_.at(rank).local / locals_; }

  const Layout& layout_;
  Symmetry nodes_ = Symmetry::none;
  Pairs pairs_;
  std::vector<int> place_;  // of a node that is simulated, among those that are
  int block_ = 1;           // by multiples of so many nodes they move
  int leaves_ = 0;          // that have uplinks
  int rotations_ = 1, rails_ = 0,
      locals_ = 0;  // how many rotations there are, by how many rails each, and so many GPUs
  bool channels_rotate_ = true;  // with the rails; else GPUs alone do
  std::size_t unit_ = 1;
  std::vector<std::size_t> representative_;
  std::vector<int> flows_;
};

}  // namespace foreduce
