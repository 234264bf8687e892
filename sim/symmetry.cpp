#include "sim/symmetry.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace foreduce {
namespace {

/// Chunks that differ by an element are alike if they have so many, that is to 0.1 % of a chunk.
/// Gradients hardly ever divide, and a full simulation of a tree takes 16 times as long on p5. Its
/// time differs by 1e-5 in the median of 600 cases on 1 to 16 nodes, and in the worst by 0.4 % of a
/// tree and 1.8 % of a ring, whatever the size of the chunks: where messages wait for each other,
/// it hangs on which of two that are a nanosecond apart comes first.
constexpr std::size_t kLeastElements = 1000;

/// Whether an element more or less takes at most a thousandth of a message's latency, on the
/// slowest link. Chunks that differ by one are then alike, be they empty. The first GPU's messages
/// stand for all: what is reduced by it has GPUs that take each other's places.
bool latency_rules(const Cluster& cluster) {
  if (!cluster.homogeneous()) return false;
  constexpr double kLongestElement = 8, kNext = 1e-3;  // bytes; part of a latency
  const NodeGraph& node = cluster.node(0);
  const Device first{false, 0};
  double latency = HUGE_VAL, slowest = 0;
  for (int g = 1; g < node.machine().gpus(); ++g)
    latency = std::min(latency, node.inside(first, {false, g}).latency.value);
  if (cluster.nodes() > 1) {
    Route route;
    cluster.route({0, first}, {1, first}, route);
    latency = std::min(latency, route.latency.value);
    if (route.rate_limit.value > 0) slowest = kLongestElement / route.rate_limit.value;
  }
  for (std::size_t id = 0; id < cluster.link_count(); ++id)
    slowest = std::max(slowest, kLongestElement / cluster.link_bandwidth(id).value);
  return slowest <= kNext * latency;
}

/// Whether the rails of every node may move on by so many with the same images of links. Nodes may
/// differ otherwise, as one does whose NICs are slow.
bool all_rotate(const Cluster& cluster, int step) {
  const NodeGraph* before = &cluster.node(0);
  const std::vector<std::size_t> image = before->rotated(step);
  for (int n = 1; !image.empty() && n < cluster.nodes(); ++n) {
    const NodeGraph* node = &cluster.node(n);
    if (node == before) continue;
    if (node->rotated(step) != image) return false;
    before = node;
  }
  return !image.empty();
}

/// By how many rails all may move on at the least; 0 if that is no symmetry.
int rails_per_rotation(const Cluster& cluster, const Layout& layout, const Algorithm& algorithm,
                       const Plan& plan) {
  const NodeGraph& node = cluster.node(0);
  const int rails = node.rails(), each = layout.per_node();
  const auto channels = static_cast<int>(layout.channels.size());
  if (!algorithm.channels_alike || !layout.uniform_nodes || each == 0 || layout.servers() > 0 ||
      channels != rails || plan.channels != rails)
    return 0;
  for (int step = 1; step <= rails / 2; ++step) {
    if (rails % step != 0 || !all_rotate(cluster, step)) continue;
    const auto rotated = [&](int rank) {
      return rank / each * each + (rank % each + each / rails * step) % each;
    };
    bool alike = true;
    for (int c = 0; alike && c < channels; ++c)
      alike = std::ranges::equal(layout.channels[static_cast<std::size_t>((c + step) % channels)],
                                 layout.channel(c), {}, {}, rotated);
    if (alike) return step;
  }
  return 0;
}

/// By how many GPUs all may move on at the least, where each has a rail of its own; 0 if that is no
/// symmetry.
int gpus_per_rotation(const Cluster& cluster, const Layout& layout, const Algorithm& algorithm) {
  const NodeGraph& node = cluster.node(0);
  const int each = layout.per_node();
  if (!algorithm.gpus_alike || !layout.uniform_nodes || layout.servers() > 0 ||
      !layout.node_rings.empty() || node.rails() != each)
    return 0;
  for (int step = 1; step <= each / 2; ++step)
    if (each % step == 0 && all_rotate(cluster, step)) return step;
  return 0;
}

/// Where `n` goes by the renumbering of nodes with number `shift`.
int moved(Symmetry by, int n, int shift, int nodes) {
  return by == Symmetry::mirror         ? nodes - 1 - n
         : by == Symmetry::exclusive_or ? n ^ shift
                                        : (n + shift) % nodes;
}

/// Whether all nodes of a leaf stay together.
bool keeps_leaves(const Cluster& cluster, Symmetry by, int shift) {
  std::vector<int> goes_to(static_cast<std::size_t>(cluster.leaves()), -1);
  for (int n = 0; n < cluster.nodes(); ++n) {
    int& leaf = goes_to[static_cast<std::size_t>(cluster.leaf_of(n))];
    const int there = cluster.leaf_of(moved(by, n, shift, cluster.nodes()));
    if (leaf >= 0 && leaf != there) return false;
    leaf = there;
  }
  return true;
}

/// By how many nodes, and multiples of that, all may move on so that leaves stay leaves; 0 if by
/// none.
int nodes_per_move(const Cluster& cluster, Symmetry by) {
  const int nodes = cluster.nodes();
  if (by == Symmetry::none || cluster.leaves() == 0) return by == Symmetry::none ? 0 : 1;
  if (by == Symmetry::mirror) return keeps_leaves(cluster, by, 1) ? 1 : 0;
  const bool by_bits = by == Symmetry::exclusive_or;
  for (int block = 1; block < nodes; block = by_bits ? 2 * block : block + 1) {
    bool kept = nodes % block == 0;
    // Moves by a block generate all translations; exclusive-or needs each bit.
    for (int shift = block; kept && shift < nodes; shift *= 2) {
      kept = keeps_leaves(cluster, by, shift);
      if (!by_bits) break;
    }
    if (kept) return block;
  }
  return 0;
}

}  // namespace

SymmetryReduction::Pairs SymmetryReduction::pairs_on(const Cluster& cluster,
                                                     const Algorithm& algorithm,
                                                     const Plan& plan) const {
  const int each = layout_.per_node(), n = layout_.workers;
  if (!algorithm.symmetry || algorithm.symmetry(plan) != Symmetry::exclusive_or ||
      algorithm.takes_inner || algorithm.collective != Collective::all_reduce || each == 0 ||
      layout_.servers() > 0 || !cluster.homogeneous() || cluster.leaves() > 0)
    return {};
  const int extra = n - static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
  const int block = extra & -extra;  // of numbers that exclusive-or keeps on their side
  if (extra == 0 || !std::has_single_bit(static_cast<unsigned>(each)) || block < 2 * each)
    return {};
  return {2 * extra / each, extra / each, block / each};
}

SymmetryReduction::SymmetryReduction(const Cluster& cluster, const Layout& layout)
    : layout_(layout) {
  find_links(cluster);
}

SymmetryReduction::SymmetryReduction(const Cluster& cluster, const Layout& layout,
                                     const Algorithm& algorithm, const Plan& plan,
                                     std::size_t count, GpuPart gpu_part)
    : layout_(layout) {
  const auto channels = static_cast<std::size_t>(std::max(1, plan.channels));
  if (cluster.homogeneous()) nodes_ = symmetry_on(algorithm, layout, plan);
  // A ring does not load an uplink alike from every node of a leaf, but from every leaf.
  block_ = nodes_per_move(cluster, nodes_);
  // Servers are numbered behind all workers, which slot() knows of one node only.
  if (block_ == 0 || (block_ > 1 && layout.servers() > 0)) nodes_ = Symmetry::none;
  leaves_ = cluster.leaves();
  if (nodes_ == Symmetry::none) pairs_ = pairs_on(cluster, algorithm, plan);
  if (pairs_.any()) nodes_ = Symmetry::exclusive_or;
  const std::size_t segments = plan.cut().parts(),
                    finer = segments / static_cast<std::size_t>(std::max(1, plan.segments));
  // `together`: as many of the chunks make a message.
  const std::size_t least = latency_rules(cluster) ? 0 : kLeastElements;
  const auto alike = [count, least](std::size_t chunks, std::size_t together) {
    return count % chunks == 0 || count / chunks * together >= least;
  };
  // GPUs that may change places have a chunk each in every segment.
  const std::size_t chunks =
      gpu_part == GpuPart::whole
          ? 1
          : static_cast<std::size_t>(std::max(1, layout.per_node())) * segments;
  const std::size_t halved = algorithm.gpus_alike ? chunks : channels;
  if (nodes_ == Symmetry::mirror && !alike(2 * halved, algorithm.gpus_alike ? finer : 1))
    nodes_ = Symmetry::none;
  // Where every worker has a block of its own, these are cut for the channels.
  const bool blocks = algorithm.collective != Collective::all_reduce &&
                      algorithm.collective != Collective::broadcast;
  const std::size_t parts =
      blocks ? channels * static_cast<std::size_t>(layout.workers) * segments : channels;
  if (nodes_move() || alike(parts, blocks ? finer : 1))
    rails_ = rails_per_rotation(cluster, layout, algorithm, plan);
  const std::size_t halves = nodes_ == Symmetry::mirror ? 2 : 1;
  unit_ = halved * halves;
  if (nodes_move() || (blocks && rails_ > 0))
    unit_ *= static_cast<std::size_t>(layout.workers) * segments *
             std::max<std::size_t>(1, layout.node_rings.size());
  if (!nodes_move() && rails_ == 0 && alike(chunks, finer)) {
    rails_ = gpus_per_rotation(cluster, layout, algorithm);
    channels_rotate_ = rails_ == 0;
    if (!channels_rotate_) unit_ = chunks * halves;
  }
  if (pairs_.any()) unit_ = std::bit_floor(static_cast<unsigned>(layout.workers)) * segments;
  find_links(cluster);
}

void SymmetryReduction::find_links(const Cluster& cluster) {
  const NodeGraph& graph = cluster.node(0);
  const std::size_t all = one_node() ? graph.link_count() : cluster.link_count();
  for (std::size_t id = 0; id < all; ++id) representative_.push_back(id);
  flows_.assign(all, 1);
  if (rails_ > 0) rotations_ = graph.rails() / rails_;
  if (!any()) return;
  locals_ = layout_.per_node() / rotations_;
  int simulated = 0;
  for (int n = 0; n < layout_.nodes; ++n)
    place_.push_back(representative_node(n) == n ? simulated++ : -1);
  const std::vector<std::size_t> image =
      rotations_ > 1 ? graph.rotated(rails_) : std::vector<std::size_t>{};
  for (std::size_t id = 0; id < all; ++id) {
    const std::size_t each = graph.link_count(), at_node = id / each;
    int places = 1;  // that the link takes in turn
    if (at_node < static_cast<std::size_t>(cluster.nodes())) {
      const std::size_t inside = id % each;
      std::size_t lowest = inside;
      if (rotations_ > 1)
        for (std::size_t at = image[inside]; at != inside; at = image[at], ++places)
          lowest = std::min(lowest, at);
      representative_[id] =
          static_cast<std::size_t>(representative_node(static_cast<int>(at_node))) * each + lowest;
    }
    flows_[id] = rotations_ / places;
  }
  if (leaves_ > 0) find_uplinks(cluster);
}

void SymmetryReduction::find_uplinks(const Cluster& cluster) {
  std::vector<int> stands_for(static_cast<std::size_t>(leaves_), 0), leaf_like = stands_for;
  // The lowest of those that moves take to each other. Nodes of one leaf may be represented by
  // nodes of several.
  std::iota(leaf_like.begin(), leaf_like.end(), 0);
  for (int n = 0; n < cluster.nodes(); ++n) {
    const auto like = [&](int node) {
      return leaf_like[static_cast<std::size_t>(cluster.leaf_of(node))];
    };
    const int a = like(n), b = like(representative_node(n));
    std::replace(leaf_like.begin(), leaf_like.end(), std::max(a, b), std::min(a, b));
  }
  for (const int leaf : leaf_like) ++stands_for[static_cast<std::size_t>(leaf)];
  const int moves = nodes_move() ? layout_.nodes / block_ : nodes_ == Symmetry::mirror ? 2 : 1;
  for (int leaf = 0; leaf < leaves_; ++leaf)
    for (const std::size_t way : {0u, 1u}) {  // to the spine, and from it
      const int like = leaf_like[static_cast<std::size_t>(leaf)];
      const std::size_t id = cluster.uplink(leaf) + way;
      representative_[id] = cluster.uplink(like) + way;
      // Moves that leave a leaf in its place bring further flows to its links.
      flows_[id] = rotations_ * (moves / stands_for[static_cast<std::size_t>(like)]);
    }
}

int SymmetryReduction::slot(int rank) const {
  if (!any()) return rank;
  const Member& m = layout_.at(rank);
  return place_[static_cast<std::size_t>(representative_node(m.node))] * locals_ +
         (m.server ? locals_ + m.local : m.local % locals_);
}

int SymmetryReduction::inverse(int index) const {
  const int node = index / rotations_, rotation = index % rotations_;
  return (nodes_ == Symmetry::translation && node > 0 ? layout_.nodes - node : node) * rotations_ +
         (rotations_ - rotation) % rotations_;
}

std::uint64_t SymmetryReduction::tag(std::uint64_t tag, int index) const {
  if (index == 0) return tag;
  if (nodes_ == Symmetry::mirror && index / rotations_ == 1) tag = with_other_half(tag);
  if (rotations_ > 1 && channels_rotate_)
    tag =
        with_channel(tag, (channel_of(tag) + index % rotations_ * rails_) % (rotations_ * rails_));
  return tag;
}

}  // namespace foreduce
