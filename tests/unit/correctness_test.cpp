// Every registered algorithm × backend × ranks × elements × segments: the exact result on every
// rank, the same bits on both backends, and as much on the wire as the algorithm claims.
#include <gtest/gtest.h>

#include <bit>

#include "models/rank_layout.hpp"
#include "scenarios/cli/algorithm_checks.hpp"
#include "tests/support/machines.hpp"

namespace foreduce {
namespace {

using namespace test;

void expect_correct(const Algorithm& algorithm, const Cluster& cluster,
                    const std::vector<SumsCase>& cases) {
  const auto broken = check_sums(algorithm, cluster, cases);
  if (!broken) return;
  const auto& [elements, plan] = cases[broken->number];
  ADD_FAILURE() << elements << " elements in " << plan.segments << " segments, the last "
                << plan.last << ", " << plan.together
                << " together: " << name_of(broken->rule.check) << ": " << broken->rule.what;
}

// ------------------------------------------------------------------ every algorithm

using Clusters = std::vector<std::pair<std::string, Cluster>>;

/// For algorithms that let the switch reduce: one node of all ranks, and 2 and 4 per node, around
/// such a switch.
Clusters switch_clusters(int ranks, const Algorithm& algorithm) {
  Clusters all;
  for (const int per_node : {2, 4, ranks})
    if (ranks % per_node == 0)
      all.emplace_back(std::to_string(per_node) + " per node",
                       cluster_of(wide_machine(per_node, 1), ranks / per_node));
  // One of these algorithms is for a single node, the other for several.
  std::erase_if(all, [&](const auto& c) {
    return unsupported_reason(algorithm, rank_layout(c.second), {}).has_value();
  });
  return all;
}

/// Clusters of `ranks` GPUs: one per node, and where it divides also 2 and 8 per node, the latter
/// on four rails and on the NVLink mesh of a p3dn.
Clusters clusters_of(int ranks, const Algorithm& algorithm) {
  if (algorithm.name.starts_with("nvls")) return switch_clusters(ranks, algorithm);
  const ServerSpec servers = servers_for(algorithm);
  Clusters all;
  if (algorithm.name.starts_with("recursive") &&
      !std::has_single_bit(static_cast<unsigned>(ranks)) &&
      algorithm.collective != Collective::all_reduce)
    return all;
  all.emplace_back("flat", cluster_of(flat_machine(), ranks, servers));
  if (algorithm.name == "pat") return all;
  if (ranks % 2 == 0)
    all.emplace_back("2 per node", cluster_of(wide_machine(2, 1), ranks / 2, servers));
  if (ranks % 8 == 0) {
    all.emplace_back("8 per node, 4 rails", cluster_of(wide_machine(8, 4), ranks / 8, servers));
    all.emplace_back("p3dn", cluster_of(ec2("p3dn.24xlarge"), ranks / 8, servers));
  }
  return all;
}

class EveryAlgorithm : public testing::TestWithParam<std::tuple<const Algorithm*, int>> {};

TEST_P(EveryAlgorithm, SumsExactlyOnBothBackends) {
  const auto [algorithm, ranks] = GetParam();
  // Many threads on a few cores take long: of those only what tells most, nothing, less than the
  // ranks, and a prime number.
  const std::vector<int> counts =
      ranks > 8 ? std::vector{0, 7, 2003} : std::vector{0, 1, 7, 1000, 5040, 2003};
  std::vector<SumsCase> cases;
  for (const int count : counts)
    for (const int segments : {1, 3}) {
      const auto elements = static_cast<std::size_t>(count);
      const Plan plan{.segments = segments, .channels = 0};
      if (segments > 1 && elements == 0) continue;
      cases.push_back({elements, plan});
      if (segments > 1 && elements == 2003) {
        cases.push_back({elements, plan});
        cases.back().plan.last = Segments::kFull / 3;
      }
      if (algorithm->name != "ring" || segments == 1) continue;
      cases.push_back({elements, plan});
      cases.back().plan.together = 2;
    }
  for (const auto& [name, cluster] : clusters_of(ranks, *algorithm)) {
    SCOPED_TRACE(name);
    expect_correct(*algorithm, cluster, cases);
  }
}

std::string case_name(const testing::TestParamInfo<EveryAlgorithm::ParamType>& of) {
  const auto& [algorithm, ranks] = of.param;
  return identifier(*algorithm) + "_" + std::to_string(ranks) + "_ranks";
}
INSTANTIATE_TEST_SUITE_P(Correctness, EveryAlgorithm,
                         testing::Combine(testing::ValuesIn(all_algorithms()),
                                          testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32)),
                         case_name);

/// Six nodes, and four for what needs a power of two.
class HierarchicalOf : public testing::TestWithParam<std::tuple<Collective, int>> {};

TEST_P(HierarchicalOf, IsExactWithEveryInnerAlgorithm) {
  const auto [collective, nodes] = GetParam();
  const Algorithm& algorithm = *find_algorithm("hierarchical", collective);
  const Cluster cluster = cluster_of(wide_machine(4, 2), nodes);
  int tried = 0;
  for (const Algorithm* inner : algorithms(collective)) {
    SCOPED_TRACE(inner->name);
    const Plan plan{.segments = 3, .channels = 1, .inner = std::string(inner->name)};
    if (unsupported_reason(algorithm, rank_layout(cluster), plan)) continue;
    expect_correct(algorithm, cluster, {{1000, plan}});
    ++tried;
  }
  EXPECT_GT(tried, 3);
}
INSTANTIATE_TEST_SUITE_P(Correctness, HierarchicalOf,
                         testing::Combine(testing::Values(Collective::all_reduce,
                                                          Collective::reduce_scatter,
                                                          Collective::all_gather),
                                          testing::Values(4, 6)));

// ------------------------------------------------------------------ reduction servers

constexpr std::size_t kElements = 5040;

void expect_servers_correct(const Cluster& cluster) {
  expect_correct(*find_algorithm("reduction-server"), cluster, {{kElements, {.segments = 2}}});
}

TEST(ReductionServer, SumsExactlyOnInstancesOfItsOwn) {
  for (const int servers : {1, 2, 3, 8}) {
    ServerSpec spec;
    spec.dedicated = ec2("c5n.18xlarge");
    spec.dedicated_count = servers;
    const Cluster cluster = cluster_of(ec2("p3dn.24xlarge"), 4, spec);
    ASSERT_EQ(rank_layout(cluster).servers(), servers);
    expect_servers_correct(cluster);
  }
}

TEST(ReductionServer, GetsDataStraightFromWorkersWithoutNvLink) {
  ServerSpec spec;
  spec.dedicated = elsewhere("optcast-server.yaml");
  spec.dedicated_count = 3;
  const Layout with_nvlink = rank_layout(cluster_of(elsewhere("v100-8-edr.yaml"), 3, spec));
  EXPECT_FALSE(with_nvlink.straight_to_servers);
  const Cluster cluster = cluster_of(elsewhere("optcast-v100.yaml"), 3, spec);
  const Layout layout = rank_layout(cluster);
  ASSERT_TRUE(layout.straight_to_servers);
  expect_servers_correct(cluster);
  // A worker sends all of its own data once, and nothing to its peers.
  for (int r = 0; r < layout.workers; ++r)
    EXPECT_EQ(find_algorithm("reduction-server")->sends(layout, r, kElements, {.segments = 2}),
              kElements);
}

}  // namespace
}  // namespace foreduce
