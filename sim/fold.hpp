// What a simulation may leave out: which ranks, messages and links stand for which others.
//
// A symmetry renumbers ranks, channels and links so that the run looks the same. Max-min sharing is unique, so what is renumbered
// into each other behaves alike, and one of each is enough. Two kinds are used, together where both hold: nodes change places as
// the algorithm claims (Algorithm::symmetry), and in every node the rails move on, all GPUs and channels with them
// (channels_alike).
#pragma once

#include <algorithm>
#include <vector>

#include "algorithms/core/registry.hpp"
#include "topologies/core/cluster.hpp"

namespace foreduce {

class Fold {
 public:
  /// Nothing left out.
  Fold(const Cluster& cluster, const Layout& layout);
  /// All the symmetry that `algorithm` has with this plan on this cluster, for a buffer of `count` elements.
  Fold(const Cluster& cluster, const Layout& layout, const Algorithm& algorithm, const Plan& plan, std::size_t count);

  bool any() const { return nodes_ != Symmetry::none || turns_ > 1; }
  /// Whether node 0 stands for all nodes.
  bool one_node() const { return nodes_ == Symmetry::translation || nodes_ == Symmetry::exclusive_or; }
  /// Counts must be multiples of this, for parts that stand for each other to be equal.
  std::size_t unit() const { return unit_; }

  bool simulates(int rank) const { return !any() || (node(layout_.at(rank).node) == layout_.at(rank).node && turn(rank) == 0); }
  /// The number of a rank's double among the simulated ones.
  int slot(int rank) const;
  /// The renumbering that takes its double to `rank`; 0 leaves everything in its place.
  int apart(int rank) const { return move(layout_.at(rank).node) * turns_ + turn(rank); }
  int inverse(int apart) const;
  /// The packed tag that a message's tag becomes by a renumbering.
  std::uint64_t tag(std::uint64_t tag, int apart) const;

  /// How many links are simulated.
  std::size_t links() const { return stands_in_.size(); }
  /// The simulated link for a link of the cluster.
  std::size_t link(std::size_t id) const { return stands_in_[id % stands_in_.size()]; }
  /// How many flows over a link one simulated flow stands for: more than one if a renumbering leaves the link in its place.
  int flows(std::size_t link) const { return flows_[link]; }

 private:
  void find_links(const Cluster& cluster);
  int node(int n) const { return one_node() ? 0 : nodes_ == Symmetry::mirror ? std::min(n, layout_.nodes - 1 - n) : n; }
  int move(int n) const { return one_node() ? n : n != node(n); }
  int turn(int rank) const { return turns_ == 1 ? 0 : layout_.at(rank).local / locals_; }

  const Layout& layout_;
  Symmetry nodes_ = Symmetry::none;
  int turns_ = 1, rails_ = 0, locals_ = 0;  // how many turns there are, by how many rails each, and so many GPUs
  bool channels_turn_ = true;               // with the rails; else GPUs alone do
  std::size_t unit_ = 1;
  std::vector<std::size_t> stands_in_;
  std::vector<int> flows_;
};

}  // namespace foreduce
