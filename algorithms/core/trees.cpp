#include "algorithms/core/trees.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

namespace foreduce {
namespace {

/// NCCL's numbering: the lowest set bit of a number is its height; its parent clears it and sets
/// the next one.
TreeLinks in_order_tree(int n, int index) {
  TreeLinks links;
  if (index == 0) {
    if (n > 1)
      links.children.push_back(static_cast<int>(std::bit_floor(static_cast<unsigned>(n - 1))));
    return links;
  }
  const int bit = index & -index;
  links.parent = (index ^ bit) | (bit << 1);
  if (links.parent >= n) links.parent = index ^ bit;
  int low = bit >> 1;
  if (low > 0) links.children.push_back(index - low);
  while (low > 0 && index + low >= n) low >>= 1;
  if (low > 0) links.children.push_back(index + low);
  return links;
}

}  // namespace

TreeLinks binary_tree(int n, int index, Half tree) {
  if (tree == Half::first) return in_order_tree(n, index);
  const auto there = [n](int i) { return n % 2 == 0 ? n - 1 - i : (i - 1 + n) % n; };
  const auto back = [n](int i) { return n % 2 == 0 ? n - 1 - i : (i + 1) % n; };
  TreeLinks links = in_order_tree(n, there(index));
  if (links.parent >= 0) links.parent = back(links.parent);
  for (int& child : links.children) child = back(child);
  return links;
}

namespace {

/// The same for nodes of `each` workers that `order` visits by number, without a search through
/// all of it. Nothing if it visits them otherwise.
std::optional<TreeLinks> tree_of_equal_nodes(const Layout& layout, std::span<const int> order,
                                             int rank, Half tree, int each) {
  if (each <= 0 || order.size() != static_cast<std::size_t>(layout.nodes * each))
    return std::nullopt;
  const int node = layout.at(rank).node;
  const auto at = [&](int place) { return order[static_cast<std::size_t>(place)]; };
  const auto on = [&](int place) { return layout.at(at(place)).node; };
  // Workers of a node are next to each other: such a node is the n-th if it begins there.
  const auto in_place = [&](int n) {
    return on(n * each) == n && (n == 0 || on(n * each - 1) != n);
  };
  TreeLinks links = binary_tree(layout.nodes, node, tree);
  links.leaf = links.children.empty();
  bool ordered = in_place(node) && (links.parent < 0 || in_place(links.parent));
  for (const int child : links.children) ordered = ordered && in_place(child);
  if (!ordered) return std::nullopt;
  int here = node * each;
  while (here < (node + 1) * each && at(here) != rank) ++here;
  if (here == (node + 1) * each) return std::nullopt;
  std::vector<int> children;
  if (here + 1 < (node + 1) * each) children.push_back(at(here + 1));
  if (here > node * each) {
    links.parent = at(here - 1);
  } else {
    if (links.parent >= 0) links.parent = at(links.parent * each);
    for (const int child : links.children) children.push_back(at(child * each));
  }
  links.children = std::move(children);
  return links;
}

}  // namespace

TreeLinks cluster_tree(const Layout& layout, std::span<const int> order, int rank, Half tree) {
  if (auto links = tree_of_equal_nodes(layout, order, rank, tree, layout.per_node()))
    return *std::move(links);
  // The first worker of each node along the channel, in the channel's order of nodes.
  std::vector<std::size_t> heads;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (i == 0 || layout.at(order[i]).node != layout.at(order[i - 1]).node) heads.push_back(i);
  const auto here =
      static_cast<std::size_t>(std::find(order.begin(), order.end(), rank) - order.begin());
  const auto node =
      static_cast<std::size_t>(std::upper_bound(heads.begin(), heads.end(), here) - heads.begin()) -
      1;

  const TreeLinks between =
      binary_tree(static_cast<int>(heads.size()), static_cast<int>(node), tree);
  TreeLinks links;
  links.leaf = between.children.empty();
  const bool has_next =
      here + 1 < order.size() && layout.at(order[here + 1]).node == layout.at(rank).node;
  if (has_next) links.children.push_back(order[here + 1]);
  if (here != heads[node]) {
    links.parent = order[here - 1];
    return links;
  }
  const auto head = [&](int n) { return order[heads[static_cast<std::size_t>(n)]]; };
  if (between.parent >= 0) links.parent = head(between.parent);
  for (const int child : between.children) links.children.push_back(head(child));
  return links;
}

Event reduce_and_broadcast(Transport& t, const TreeLinks& links, const TreeShare& share, Tag first,
                           Event after) {
  std::vector<Event> done{after};
  for (int k = 0; k < share.cut.count; ++k) {
    const Buffer segment = share.data.segment(share.cut, k);
    const Tag up{first.step, k, first.channel, first.half},
        down{first.step + 1, k, first.channel, first.half};
    Event ready = after;
    for (const int child : links.children) ready = t.recv_reduce(child, up, segment, share.op);
    if (links.parent >= 0) {
      t.send(links.parent, up, segment, ready);
      ready = t.recv(links.parent, down, segment);
    }
    for (const int child : links.children) t.send(child, down, segment, ready);
    done.push_back(ready);
  }
  return t.join(done);
}

int pipeline_segments(const Layout& layout, int steps, std::size_t bytes) {
  const double rails = static_cast<double>(layout.channels.size()),
               in_flight = 128 * 1024 * std::clamp(0.6 * rails, 1.0, 5.0);
  const double best = std::sqrt(std::max(0, steps) * (static_cast<double>(bytes) / in_flight));
  return static_cast<int>(std::clamp(std::round(best), 1.0, 64.0));
}

int tree_segments(const Layout& layout, int trees, std::size_t bytes) {
  const auto each =
      static_cast<std::size_t>(trees) * std::max<std::size_t>(1, layout.channels.size());
  const int up = static_cast<int>(std::log2(std::max(1, layout.nodes))),
            inside = std::max(1, layout.per_node()) - 1;
  return pipeline_segments(layout, 2 * (up + inside), bytes / each);
}

}  // namespace foreduce
