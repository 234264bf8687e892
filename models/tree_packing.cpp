#include "models/tree_packing.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "models/rank_layout.hpp"

namespace foreduce {
namespace {

using Parents = std::vector<int>;

/// How often a message there and one back cross a link together.
struct Use {
  std::size_t link = 0;
  double times = 0;
};

/// Which edges trees may have.
enum class Edges : std::uint8_t {
  all,
  fast  ///< inside a node with NVLink no others
};

/// The links that can be full, and which of them lie between any two workers.
class Links {
 public:
  Links(const Cluster& cluster, const Layout& layout, Edges edges) : workers_(layout.workers) {
    const std::vector<bool> binding = cluster.binding_links();
    std::map<std::size_t, std::map<std::size_t, double>> pairs_over;  // by link: pair, times
    Route route;
    for (int a = 0; a < workers_; ++a)
      for (int b = 0; b < workers_; ++b) {
        if (a == b) continue;
        cluster.route(place_of(layout, a), place_of(layout, b), route);
        if (edges == Edges::fast && leaves_nvlink(cluster, layout, a, b, route))
          excluded_.insert(pair(a, b));
        for (const std::size_t link : route.links)
          if (binding[link]) pairs_over[link][pair(a, b)] += 1;
      }
    // Links that the same pairs cross are as one, the narrowest; so are most there and back.
    std::map<std::map<std::size_t, double>, double> widths;
    for (auto& [link, pairs] : pairs_over) {
      const double width = cluster.link_bandwidth(link).value;
      const auto [at, fresh] = widths.try_emplace(std::move(pairs), width);
      at->second = std::min(at->second, width);
    }
    uses_.resize(static_cast<std::size_t>(workers_) * static_cast<std::size_t>(workers_));
    for (const auto& [pairs, width] : widths) {
      for (const auto& [pair, times] : pairs) uses_[pair].push_back({widths_.size(), times});
      widths_.push_back(width);
    }
    if (widths_.empty()) return;
    unit_ = *std::max_element(widths_.begin(), widths_.end());
    for (double& width : widths_) width /= unit_;
  }

  int workers() const { return workers_; }
  std::size_t count() const { return widths_.size(); }
  /// Bytes per second, where widths are 1.
  double unit() const { return unit_; }
  double width(std::size_t link) const { return widths_[link]; }
  const std::vector<Use>& between(int a, int b) const { return uses_[pair(a, b)]; }

  bool allows(const Parents& tree) const {
    for (int r = 0; r < workers_ && !excluded_.empty(); ++r)
      if (const int up = tree[static_cast<std::size_t>(r)];
          up >= 0 && excluded_.contains(pair(r, up)))
        return false;
    return true;
  }
  /// Whether there is any edge that trees may not have.
  bool excludes() const { return !excluded_.empty(); }
  /// Whether those that they may have reach all workers.
  bool connects() const {
    std::vector<int> reached{0}, left(static_cast<std::size_t>(workers_ - 1));
    std::iota(left.begin(), left.end(), 1);
    for (std::size_t i = 0; i < reached.size(); ++i)
      std::erase_if(left, [&](int r) {
        if (excluded_.contains(pair(reached[i], r))) return false;
        reached.push_back(r);
        return true;
      });
    return left.empty();
  }

  Eigen::VectorXd loads_of(const Parents& tree) const {
    Eigen::VectorXd loads = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(count()));
    for (int r = 0; r < workers_; ++r)
      if (const int up = tree[static_cast<std::size_t>(r)]; up >= 0)
        for (const Use& use : between(r, up))
          loads[static_cast<Eigen::Index>(use.link)] += use.times;
    return loads;
  }
  /// The cheapest tree, rooted at worker 0 (Prim).
  Parents least_tree(const Eigen::VectorXd& prices) const {
    const auto n = static_cast<std::size_t>(workers_);
    Parents parent(n, -1), tree(n, -1);
    std::vector<double> cost(n, std::numeric_limits<double>::infinity());
    std::vector<bool> inside(n);
    for (std::size_t now = 0, count = 0; count < n; ++count) {
      inside[now] = true;
      tree[now] = parent[now];
      std::size_t next = n;
      for (std::size_t r = 0; r < n; ++r) {
        if (inside[r]) continue;
        double price = 0;
        for (const Use& use : between(static_cast<int>(now), static_cast<int>(r)))
          price += use.times * prices[static_cast<Eigen::Index>(use.link)];
        if (price < cost[r] &&
            !excluded_.contains(pair(static_cast<int>(now), static_cast<int>(r)))) {
          cost[r] = price;
          parent[r] = static_cast<int>(now);
        }
        if (next == n || cost[r] < cost[next]) next = r;
      }
      now = next;
    }
    return tree;
  }

 private:
  /// Whether both have NVLink, and yet their messages take other links.
  static bool leaves_nvlink(const Cluster& cluster, const Layout& layout, int a, int b,
                            const Route& route) {
    if (layout.at(a).node != layout.at(b).node || !cluster.node(layout.at(a).node).machine().nvlink)
      return false;
    return std::any_of(route.links.begin(), route.links.end(), [&](std::size_t link) {
      return cluster.link_kind(link) != LinkKind::nvlink;
    });
  }

  std::size_t pair(int a, int b) const {
    return static_cast<std::size_t>(std::min(a, b)) * static_cast<std::size_t>(workers_) +
           static_cast<std::size_t>(std::max(a, b));
  }

  int workers_;
  double unit_ = 1;
  std::vector<double> widths_;
  std::vector<std::vector<Use>> uses_;
  std::set<std::size_t> excluded_;
};

/// The simplex method for: as many trees as possible, no link over its width. Trees come in as they
/// turn out to be worth it.
class Packer {
 public:
  /// `known`: trees to try before others. `room`: the share of a link without a price in `prices`
  /// that stays free.
  Packer(const Links& links, const std::vector<Parents>& known, const Eigen::VectorXd& prices,
         double room)
      : links_(links),
        size_(static_cast<Eigen::Index>(links.count())),
        inverse_(Eigen::MatrixXd::Identity(size_, size_)),
        value_(Eigen::VectorXd::Zero(size_)),
        amount_(size_),
        prices_(Eigen::VectorXd::Zero(size_)),
        basis_(links.count(), kSlack) {
    // Ties make the method walk in circles: no two widths are quite as they are.
    for (Eigen::Index i = 0; i < size_; ++i)
      amount_[i] = links.width(static_cast<std::size_t>(i)) * (prices[i] > 0 ? 1 : 1 - room) *
                   (1 - kPerturbed * std::fmod(0.618034 * static_cast<double>(i + 1), 1));
    for (const Parents& tree : known)
      if (links_.allows(tree)) columns_.push_back({tree, links_.loads_of(tree)});
    solve();
  }

  /// Trees per second of one byte each, in the unit of widths.
  double rate() const { return value_.dot(amount_); }
  /// No packing has a higher one, with all of every link.
  double highest() const { return highest_; }
  /// Of the links, for that bound.
  const Eigen::VectorXd& prices() const { return prices_; }

  std::vector<SpanningTree> trees() const {
    constexpr double kLeast = 1e-3;  // of all data; less is not worth its messages
    std::vector<SpanningTree> trees;
    double kept = 0;
    for (Eigen::Index i = 0; i < size_; ++i) {
      const std::size_t column = basis_[static_cast<std::size_t>(i)];
      if (column == kSlack || amount_[i] < kLeast * rate()) continue;
      trees.push_back({amount_[i], columns_[column].tree});
      kept += amount_[i];
    }
    for (SpanningTree& tree : trees) tree.share /= kept;
    return trees;
  }

 private:
  static constexpr std::size_t kSlack = SIZE_MAX;
  static constexpr double kPerturbed = 1e-4, kGap = 1e-3, kTiny = 1e-9, kWorthIt = 1e-2;
  static constexpr int kMostRounds = 5000;

  struct Column {
    Parents tree;
    Eigen::VectorXd loads;
  };

  void solve() {
    const std::size_t known = columns_.size();
    for (int round = 0; round < kMostRounds; ++round) {
      const Eigen::VectorXd prices = inverse_.transpose() * value_;
      Eigen::Index cheapest = 0;
      if (prices.minCoeff(&cheapest) < -kTiny) {
        enter(Eigen::VectorXd::Unit(size_, cheapest), kSlack, 0);
        continue;
      }
      std::size_t best = 0;
      double cost = std::numeric_limits<double>::infinity();
      for (std::size_t c = 0; c < known; ++c)
        if (const double price = prices.dot(columns_[c].loads); price < cost) {
          cost = price;
          best = c;
        }
      if (cost > 1 - kWorthIt) {
        Parents tree = links_.least_tree(prices.cwiseMax(0));
        Eigen::VectorXd loads = links_.loads_of(tree);
        cost = prices.dot(loads);
        note_bound(prices.cwiseMax(0), cost);
        if (rate() >= highest_ * (1 - kGap) || cost > 1 - kTiny) return;
        best = columns_.size();
        columns_.push_back({std::move(tree), std::move(loads)});
      }
      enter(columns_[best].loads, best, 1);
    }
  }

  void note_bound(const Eigen::VectorXd& prices, double cost) {
    double widths = 0;
    for (Eigen::Index i = 0; i < size_; ++i)
      widths += prices[i] * links_.width(static_cast<std::size_t>(i));
    if (cost <= 0 || widths / cost >= highest_) return;
    highest_ = widths / cost;
    prices_ = prices;
  }

  /// Takes a column in; the one that is first used up goes.
  void enter(const Eigen::VectorXd& loads, std::size_t column, double value) {
    const Eigen::VectorXd change = inverse_ * loads;
    Eigen::Index leaves = -1;
    double step = std::numeric_limits<double>::infinity();
    for (Eigen::Index i = 0; i < size_; ++i)
      if (change[i] > kTiny && amount_[i] / change[i] < step) {
        step = amount_[i] / change[i];
        leaves = i;
      }
    if (leaves < 0) return;
    amount_ -= step * change;
    amount_[leaves] = step;
    const Eigen::RowVectorXd row = inverse_.row(leaves) / change[leaves];
    inverse_.noalias() -= change * row;
    inverse_.row(leaves) = row;
    basis_[static_cast<std::size_t>(leaves)] = column;
    value_[leaves] = value;
  }

  const Links& links_;
  Eigen::Index size_;
  Eigen::MatrixXd inverse_;  // of the basis
  Eigen::VectorXd value_, amount_, prices_;
  double highest_ = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> basis_;
  std::vector<Column> columns_;
};

/// The same tree with its root in the middle, so that the longest way up is short.
Parents from_the_middle(const Parents& tree) {
  const std::size_t n = tree.size();
  std::vector<std::vector<std::size_t>> next(n);
  for (std::size_t r = 0; r < n; ++r)
    if (tree[r] >= 0) {
      next[r].push_back(static_cast<std::size_t>(tree[r]));
      next[static_cast<std::size_t>(tree[r])].push_back(r);
    }
  const auto rooted_at = [&](std::size_t root) {
    Parents parent(n, -1);
    std::vector<std::size_t> order{root};
    for (std::size_t i = 0; i < order.size(); ++i)
      for (const std::size_t r : next[order[i]])
        if (static_cast<int>(r) != parent[order[i]]) {
          parent[r] = static_cast<int>(order[i]);
          order.push_back(r);
        }
    return std::pair(parent, order.back());  // the last is the farthest
  };
  const std::size_t one_end = rooted_at(0).second;
  const auto [parent, other_end] = rooted_at(one_end);
  std::vector<std::size_t> path{other_end};
  while (parent[path.back()] >= 0) path.push_back(static_cast<std::size_t>(parent[path.back()]));
  return rooted_at(path[path.size() / 2]).first;
}

/// What the layout offers without a search: its channels as chains, and the two-level trees.
std::vector<Parents> known_trees(const Layout& layout) {
  std::vector<Parents> known;
  for (SpanningTree& tree : two_level_trees(layout)) known.push_back(std::move(tree.parent));
  for (const std::vector<int>& order : layout.channels) {
    known.emplace_back(static_cast<std::size_t>(layout.workers), -1);
    for (std::size_t i = 1; i < order.size(); ++i)
      known.back()[static_cast<std::size_t>(order[i])] = order[i - 1];
  }
  return known;
}

TreePacking pack_along(const Links& links, const std::vector<Parents>& known) {
  if (links.count() == 0) return {};
  const Packer first(links, known, Eigen::VectorXd::Ones(static_cast<Eigen::Index>(links.count())),
                     0);
  TreePacking packing{first.trees(), 1 / (first.highest() * links.unit())};
  // Messages wait for each other less where a link need not be full.
  constexpr double kAsGood = 0.999;
  for (const double room : {0.3, 0.2, 0.1, 0.05})
    if (const Packer with_room(links, known, first.prices(), room);
        with_room.rate() >= kAsGood * first.rate()) {
      packing.trees = with_room.trees();
      break;
    }
  return packing;
}

}  // namespace

TreePacking pack_trees(const Cluster& cluster, const Layout& layout) {
  if (layout.workers > kMostTreeWorkers || layout.workers < 2) return {two_level_trees(layout), 0};
  const std::vector<Parents> known = known_trees(layout);
  TreePacking packing = pack_along(Links(cluster, layout, Edges::all), known);
  if (packing.trees.empty()) return {two_level_trees(layout), 0};
  // PCIe beside NVLink is worth a few percent, which messages that wait for it would lose.
  constexpr double kAlmost = 0.95;
  if (const Links fast(cluster, layout, Edges::fast); fast.excludes() && fast.connects()) {
    TreePacking without = pack_along(fast, known);
    if (packing.least_seconds_per_byte >= kAlmost * without.least_seconds_per_byte)
      packing.trees = std::move(without.trees);
  }
  for (SpanningTree& tree : packing.trees) tree.parent = from_the_middle(tree.parent);
  return packing;
}

double seconds_per_byte(const std::vector<SpanningTree>& trees, const Cluster& cluster,
                        const Layout& layout) {
  const Links links(cluster, layout, Edges::all);
  Eigen::VectorXd loads = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(links.count()));
  for (const SpanningTree& tree : trees) loads += tree.share * links.loads_of(tree.parent);
  double most = 0;
  for (std::size_t i = 0; i < links.count(); ++i)
    most = std::max(most, loads[static_cast<Eigen::Index>(i)] / links.width(i));
  return most / links.unit();
}

}  // namespace foreduce
