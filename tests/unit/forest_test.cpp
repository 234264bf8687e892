// The algorithm forest: near the exact bound at large sizes, from both sides.
#include <gtest/gtest.h>

#include "algorithms/core/spanning_trees.hpp"
#include "models/exact_bound.hpp"
#include "models/rank_layout.hpp"
#include "models/tree_packing.hpp"
#include "tests/support/simulation.hpp"

namespace foreduce {
namespace {

using namespace test;

constexpr double kGibibyte = 1024.0 * 1024 * 1024;

/// How many times as long as the exact bound a large all-reduce takes.
double over_bound(const Cluster& cluster) {
  Plan plan;
  plan.segments = 0;  // it chooses
  const double time = simulated_seconds("forest", cluster, 4 * kGibibyte, in_full(), plan);
  const auto cut = exact_cut(cluster, Collective::all_reduce);
  return time / exact_bound(cluster, Collective::all_reduce, Bytes{4 * kGibibyte}, *cut).time.value;
}

void expect_near_the_bound(const Cluster& cluster) {
  const double over = over_bound(cluster);
  EXPECT_GE(over, 1 - 1e-9);
  EXPECT_LE(over, 1.05);
}

TEST(Forest, ComesNearTheExactBoundOnP3dnsMesh) {
  expect_near_the_bound(cluster_of(ec2("p3dn.24xlarge"), 1));
  expect_near_the_bound(cluster_of(ec2("p3dn.24xlarge"), 2));
}

TEST(Forest, ComesNearTheExactBoundOnASwitch) {
  expect_near_the_bound(cluster_of(ec2("p4d.24xlarge"), 1));
  expect_near_the_bound(cluster_of(ec2("p4d.24xlarge"), 4));
  expect_near_the_bound(cluster_of(flat_machine(), 8));
}

TEST(Forest, ComesNearTheExactBoundWithUnequalNics) {
  std::vector<std::shared_ptr<const Machine>> flat;
  for (const double nic : {5e9, 10e9, 10e9, 12.5e9})
    flat.push_back(flat_machine({.bandwidth = nic}));
  expect_near_the_bound(Cluster(flat, {}));
  expect_near_the_bound(
      Cluster({wide_machine(8, 4, 5e9), wide_machine(8, 4, 10e9), wide_machine(4, 1, 30e9)}, {}));
}

// A ring's time is that of the slowest NIC, twice over.
TEST(Forest, BeatsTheRingByThirdsWhereOneNodeIsSlow) {
  std::vector<std::shared_ptr<const Machine>> nodes;
  for (const double nic : {5e9, 10e9, 10e9, 12.5e9})
    nodes.push_back(flat_machine({.bandwidth = nic}));
  const Cluster cluster(nodes, {});
  Plan plan;
  plan.segments = 64;
  const double forest = simulated_seconds("forest", cluster, kGibibyte, in_full(), plan),
               ring = simulated_seconds("ring", cluster, kGibibyte, in_full(), plan);
  EXPECT_LT(forest, 0.72 * ring);
}

// Without a topology: on two nodes with three and two workers every worker is a root once.
TEST(Forest, HasTwoLevelTreesWithoutATopology) {
  Layout layout = Layout::uniform(1, 5);
  layout.nodes = 2;
  for (int r = 3; r < 5; ++r) layout.members[static_cast<std::size_t>(r)] = {1, r - 3, 0, false};
  const auto trees = two_level_trees(layout);
  ASSERT_EQ(trees.size(), 5u);
  EXPECT_EQ(trees[0].parent, (std::vector<int>{-1, 0, 0, 0, 3}));
  EXPECT_EQ(trees[2].parent, (std::vector<int>{2, 2, -1, 2, 3})) << "local number 2 modulo 2";
  EXPECT_EQ(trees[4].parent, (std::vector<int>{1, 4, 1, 4, -1}));
  EXPECT_DOUBLE_EQ(trees[4].share, 0.2);
}

// Pairs joined by NVLink, and PCIe between them: trees along NVLink alone reach one pair.
TEST(Forest, ReachesAllWhereNvlinkHasIslands) {
  Machine islands = *ec2("p3dn.24xlarge");
  islands.nvlink->edges = {{0, 1, 6}, {2, 3, 6}, {4, 5, 6}, {6, 7, 6}};
  const Cluster cluster = cluster_of(std::make_shared<const Machine>(islands), 1);
  for (const SpanningTree& tree : pack_trees(cluster, rank_layout(cluster)).trees)
    EXPECT_EQ(std::count(tree.parent.begin(), tree.parent.end(), -1), 1);
  EXPECT_GE(over_bound(cluster), 1 - 1e-9);
}

}  // namespace
}  // namespace foreduce
