#include "sim/wrong_sum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "models/rank_layout.hpp"
#include "sim/expected_cost.hpp"

namespace foreduce {
namespace {

/// A check of more messages takes over a second.
constexpr double kMostMessages = 100'000;

/// Enough elements for every rank, channel and segment to have some, and no round number.
std::size_t count_for(const Layout& layout, const Plan& plan) {
  return static_cast<std::size_t>(layout.size()) * static_cast<std::size_t>(plan.channels) *
             static_cast<std::size_t>(plan.segments) +
         7;
}

/// A cluster's first nodes on the same fabric, of the very machines that it has, with its servers.
Cluster first_nodes(const Cluster& cluster, int nodes) {
  std::vector<std::shared_ptr<const Machine>> machines;
  for (int n = 0; n < nodes; ++n)
    machines.emplace_back(std::shared_ptr<const Cluster>(), &cluster.node(n).machine());
  return Cluster(machines, cluster.fabric(), cluster.servers());
}

/// What rank r contributes to element i.
std::int32_t value(int rank, std::size_t i) {
  return static_cast<std::int32_t>((static_cast<std::size_t>(rank) * 31 + i * 7) % 1009);
}

/// Ranks that run a collective among themselves, in their order there, and what they sum to.
struct SummingGroup {
  std::vector<int> ranks;
  std::vector<std::int32_t> sum;
};

SummingGroup group_of(const RankGroups& groups, const Layout& layout, int rank, std::size_t count) {
  SummingGroup group;
  if (groups.whole()) {
    group.ranks.resize(static_cast<std::size_t>(layout.workers));
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
  } else {
    group.ranks = groups.of(rank);
  }
  group.sum.assign(count, 0);
  for (const int member : group.ranks)
    for (std::size_t i = 0; i < count; ++i) group.sum[i] += value(member, i);
  return group;
}

std::string check(const Cluster& cluster, const Algorithm& algorithm, const Plan& asked,
                  const RankGroups& groups) {
  const Layout all = rank_layout(cluster), layout = groups.whole() ? all : all.subset(groups);
  Plan plan = with_defaults(algorithm, asked, layout, 4096);
  plan.last = Segments::kFull;  // of so few elements a shorter segment would have none
  const std::size_t count = count_for(layout, plan);
  std::vector<std::vector<std::int32_t>> data(static_cast<std::size_t>(all.size()));
  const Collective collective = algorithm.collective;
  std::vector<Buffer> buffers;
  for (int r = 0; r < all.size(); ++r) {
    auto& mine = data[static_cast<std::size_t>(r)];
    mine.assign(count, 0);
    for (std::size_t i = 0; r < all.workers && i < count; ++i) mine[i] = value(r, i);
    buffers.push_back({reinterpret_cast<std::byte*>(mine.data()), 0, count, Type::i32});
  }
  try {
    simulate_here({cluster, algorithm, plan, count, Type::i32, Op::sum, groups}, {}, buffers);
  } catch (const TransportError& e) {
    return fmt::format("{} does not end on {} nodes: {}", algorithm.name, cluster.worker_nodes(),
                       e.what());
  }
  std::map<int, SummingGroup> known;  // by the first of their ranks
  for (int r = 0; r < all.workers; ++r) {
    const int first = groups.whole() ? 0 : groups.of(r).front();
    if (!known.contains(first)) known.emplace(first, group_of(groups, all, r, count));
    const auto& [ranks, sum] = known.at(first);
    const auto size = static_cast<int>(ranks.size()),
               place = static_cast<int>(std::find(ranks.begin(), ranks.end(), r) - ranks.begin());
    const auto& mine = data[static_cast<std::size_t>(r)];
    const Buffer result = result_of(collective, buffers[static_cast<std::size_t>(r)], size, place);
    for (std::size_t i = result.offset; i < result.offset + result.count; ++i) {
      const Origin origin = origin_of(collective, count, size, place, i);
      const std::int32_t right =
          origin.rank < 0 ? sum[origin.element]
                          : value(ranks[static_cast<std::size_t>(origin.rank)], origin.element);
      if (mine[i] != right)
        return fmt::format(
            "the {} of {} is wrong on {} nodes: element {} of rank {} is {}, and should be {}",
            title_of(collective), algorithm.name, cluster.worker_nodes(), i, r, mine[i], right);
    }
  }
  return "";
}

/// The fewest of a cluster's nodes that groups fill.
int nodes_filled_by(const RankGroups& groups, const Cluster& cluster) {
  int gpus = 0;
  for (int n = 0; n < cluster.worker_nodes(); ++n) {
    gpus += cluster.node(n).machine().gpus();
    if (gpus % (groups.size * groups.stride) == 0) return n + 1;
  }
  return cluster.worker_nodes();
}

}  // namespace

std::string wrong_sum(const Cluster& cluster, const Algorithm& algorithm, Plan plan,
                      const RankGroups& groups) {
  plan.segments = std::min(plan.segments, kCheckedSegments);
  int nodes = groups.whole() ? cluster.worker_nodes() : nodes_filled_by(groups, cluster);
  while (groups.whole() && nodes > 2) {
    const Cluster part = first_nodes(cluster, nodes);
    const CollectiveCall whole{part, algorithm, plan, 4096, Type::i32, Op::sum};
    const ExpectedCost cost = expected_cost(whole);
    const double ranks = cost.symmetric ? part.gpus() : 1;  // with bytes every rank is simulated
    if (cost.messages * ranks <= kMostMessages ||
        unsupported_reason(algorithm, rank_layout(first_nodes(cluster, nodes / 2)), plan))
      break;
    nodes /= 2;
  }
  return check(nodes == cluster.worker_nodes() ? cluster : first_nodes(cluster, nodes), algorithm,
               plan, groups);
}

}  // namespace foreduce
