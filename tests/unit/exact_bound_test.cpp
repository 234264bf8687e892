// The exact bound: by hand, against all cuts of small networks, and against what trees reach.
#include "models/exact_bound.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include "models/rank_layout.hpp"
#include "models/tree_packing.hpp"
#include "tests/support/machines.hpp"

namespace foreduce {
namespace {

using namespace test;

constexpr double kGigabyte = 1e9;

double seconds(const Cluster& cluster, Collective collective) {
  return exact_cut(cluster, collective)->seconds_per_byte * kGigabyte;
}

std::string reason(const Cluster& cluster, Collective collective) {
  return exact_cut(cluster, collective)->because;
}

/// One GPU a node, NICs of so many GB/s.
Cluster unequal(std::initializer_list<double> nics) {
  std::vector<std::shared_ptr<const Machine>> nodes;
  for (const double nic : nics) nodes.push_back(flat_machine({.bandwidth = nic * kGigabyte}));
  return Cluster(nodes, {});
}

// ------------------------------------------------------------------ by hand

TEST(ExactBound, OnAFlatSwitchItIsTheTextbooks) {
  const Cluster eight = cluster_of(flat_machine({.bandwidth = 10e9}), 8);
  EXPECT_NEAR(seconds(eight, Collective::all_reduce), 2 * 7.0 / 8 / 10, 1e-9);
  EXPECT_NEAR(seconds(eight, Collective::all_gather), 7.0 / 8 / 10, 1e-9);
  EXPECT_NEAR(seconds(eight, Collective::reduce_scatter), 7.0 / 8 / 10, 1e-9);
  EXPECT_NEAR(seconds(eight, Collective::broadcast), 1.0 / 10, 1e-9);
  EXPECT_EQ(seconds(cluster_of(flat_machine(), 1), Collective::all_reduce), 0);
}

/// The cut alone, without what routes say.
double cut_seconds(const Cluster& cluster, Collective collective) {
  const std::vector<bool> apart(static_cast<std::size_t>(cluster.worker_nodes()), false);
  return kGigabyte / best_rate(link_network(cluster, apart), collective).bytes_per_second;
}

// Seven edges a tree, 24 NVLinks of 25 GB/s, and a PCIe link of 12 GB/s at each GPU. But GPUs that
// have NVLink between them send nothing over PCIe, so of that there is only what crosses the
// sockets' interconnect, 20.8 GB/s.
TEST(ExactBound, OnP3dnsMeshItCountsLinks) {
  const Cluster p3dn = cluster_of(ec2("p3dn.24xlarge"), 1);
  EXPECT_NEAR(cut_seconds(p3dn, Collective::all_reduce), 7 / (24 * 25 + 8 * 12 / 2.0), 1e-9);
  EXPECT_NEAR(seconds(p3dn, Collective::all_reduce), 7 / (24 * 25 + 20.8), 2e-5);
  EXPECT_EQ(reason(p3dn, Collective::all_reduce), "routes");
  EXPECT_NEAR(seconds(p3dn, Collective::all_gather), 7.0 / 8 / (6 * 25 + 12), 1e-9);
}

// Four GPUs, each pair with one link: three edges a tree.
TEST(ExactBound, OnAMeshItIsLinksOverEdgesOfItsTrees) {
  Machine mesh = Catalogue().load("p3dn.24xlarge");
  mesh.host.reset();
  mesh.pcie.reset();
  mesh.nvlink->edges = {{0, 1, 1}, {0, 2, 1}, {0, 3, 1}, {1, 2, 1}, {1, 3, 1}, {2, 3, 1}};
  mesh.gpu->count = 4;
  EXPECT_NEAR(seconds(cluster_of(std::make_shared<Machine>(mesh), 1), Collective::all_reduce),
              3.0 / (6 * 25), 1e-9);
}

// No message between GPUs takes PCIe where there is an NVSwitch: 12 links of 25 GB/s.
TEST(ExactBound, LeavesOutLinksThatNoMessageTakes) {
  EXPECT_NEAR(seconds(cluster_of(ec2("p4d.24xlarge"), 1), Collective::all_reduce),
              2 * 7.0 / 8 / 300, 1e-9);
}

TEST(ExactBound, TwoNodesAreBoundByTheirNics) {
  const Cluster two = cluster_of(ec2("p4d.24xlarge"), 2);
  // Four NICs, each behind a PCIe link of 12 GB/s.
  EXPECT_NEAR(seconds(two, Collective::all_reduce), 1.0 / (4 * 12), 1e-9);
  EXPECT_EQ(reason(two, Collective::all_reduce), "cut into nodes");
}

// The slow node sends its data once and receives the sum once: no all-reduce is faster, and one
// that has it as a leaf of every tree is as fast. All-gather and reduce-scatter together take
// 1.5 times as long.
TEST(ExactBound, UnequalNicsBindByTheSlowNode) {
  const Cluster cluster = unequal({5, 10, 10, 12.5});
  EXPECT_NEAR(seconds(cluster, Collective::all_reduce), 1.0 / 5, 1e-9);
  EXPECT_EQ(reason(cluster, Collective::all_reduce), "cut into 2 groups, one of them node0");
  EXPECT_NEAR(seconds(cluster, Collective::all_gather), 0.75 / 5, 1e-9);
  EXPECT_EQ(reason(cluster, Collective::all_gather), "cut around node1, node2, node3");
}

// 2(m - 1) transfers over the sum of all NICs, which no single cut tells.
TEST(ExactBound, SlightlyUnequalNicsBindByTheirSum) {
  EXPECT_NEAR(seconds(unequal({9, 10, 10, 11}), Collective::all_reduce), 2 * 3.0 / 40, 1e-9);
}

// GPUs 0 to 3 and 4 to 7 hang together by one socket interconnect, 16 GB/s, that the cuts into
// GPUs and nodes do not see.
TEST(ExactBound, SeesAnInterconnectThatGroupsDoNot) {
  const Cluster g5 = cluster_of(ec2("g5.48xlarge"), 1);
  const double groups =
      collective_bound(g5, Collective::broadcast, Bytes{1e12}).time.value / 1e12 * kGigabyte;
  EXPECT_GT(seconds(g5, Collective::broadcast), 1.4 * groups);
  EXPECT_NEAR(seconds(g5, Collective::broadcast),
              1 / (g5.node(0).machine().host->interconnect.value / kGigabyte), 1e-9);
}

TEST(ExactBound, IsUnknownWhereCutsDoNotTellIt) {
  EXPECT_FALSE(exact_cut(cluster_of(flat_machine(), 4), Collective::all_to_all));
  ServerSpec servers;
  servers.dedicated = flat_machine();
  servers.dedicated_count = 2;
  EXPECT_FALSE(exact_cut(cluster_of(flat_machine(), 4, servers), Collective::all_reduce));
}

// ------------------------------------------------------------------ all cuts of small networks

/// Terminals are vertices 0 … terminals-1; switches follow.
LinkNetwork random_network(std::mt19937& dice) {
  LinkNetwork network;
  const std::size_t terminals = 2 + dice() % 5, switches = dice() % 4;
  network.vertices = terminals + switches;
  for (std::size_t t = 0; t < terminals; ++t)
    network.terminals.push_back(
        {t, std::vector<LinkNetwork::Gpu>(1 + dice() % 3, LinkNetwork::Gpu{static_cast<int>(t)})});
  const auto join = [&](std::size_t a, std::size_t b) {
    const auto width = static_cast<double>(1 + dice() % 9);
    network.links.push_back({a, b, width});
    network.links.push_back({b, a, width});
  };
  for (std::size_t v = 1; v < network.vertices; ++v) join(v, dice() % v);  // it hangs together
  for (std::size_t more = dice() % 8; more > 0; --more)
    if (const std::size_t a = dice() % network.vertices, b = dice() % network.vertices; a != b)
      join(a, b);
  return network;
}

/// What leaves each set of terminals, as a bit mask, at least: over all ways to add switches.
std::vector<double> leaving(const LinkNetwork& network) {
  const std::size_t terminals = network.terminals.size();
  std::vector<double> least(1U << terminals, std::numeric_limits<double>::infinity());
  for (std::size_t set = 0; set < (1U << network.vertices); ++set) {
    double width = 0;
    for (const LinkNetwork::Link& l : network.links)
      if ((set >> l.from & 1U) && !(set >> l.to & 1U)) width += l.width;
    double& known = least[set & ((1U << terminals) - 1)];
    known = std::min(known, width);
  }
  return least;
}

/// Over all partitions, by which group each terminal joins.
double all_reduce_rate(const LinkNetwork& network) {
  const std::vector<double> least = leaving(network);
  double rate = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> groups;
  const std::function<void(std::size_t)> place = [&](std::size_t t) {
    if (t == network.terminals.size()) {
      if (groups.size() < 2) return;
      double sum = 0;
      for (const std::size_t group : groups) sum += least[group];
      rate = std::min(rate, sum / 2 / static_cast<double>(groups.size() - 1));
      return;
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      groups[g] |= 1U << t;
      place(t + 1);
      groups[g] &= ~(std::size_t{1} << t);
    }
    groups.push_back(1U << t);
    place(t + 1);
    groups.pop_back();
  };
  place(0);
  return rate;
}

double all_gather_rate(const LinkNetwork& network) {
  const std::vector<double> least = leaving(network);
  double rate = std::numeric_limits<double>::infinity(), all = 0;
  for (const auto& t : network.terminals) all += static_cast<double>(t.gpus.size());
  for (std::size_t set = 1; set + 1 < least.size(); ++set) {
    double share = 0;
    for (std::size_t t = 0; t < network.terminals.size(); ++t)
      if (set >> t & 1U) share += static_cast<double>(network.terminals[t].gpus.size()) / all;
    rate = std::min(rate, least[set] / share);
  }
  return rate;
}

double broadcast_rate(const LinkNetwork& network) {
  const std::vector<double> least = leaving(network);
  double rate = std::numeric_limits<double>::infinity();
  for (std::size_t set = 1; set + 1 < least.size(); set += 2) rate = std::min(rate, least[set]);
  return rate;
}

TEST(ExactBound, IsTheWorstOfAllCutsOfRandomNetworks) {
  std::mt19937 dice(20261123);
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    const LinkNetwork network = random_network(dice);
    const auto found = [&](Collective c) { return best_rate(network, c).bytes_per_second; };
    EXPECT_NEAR(found(Collective::all_reduce), all_reduce_rate(network), 1e-7);
    EXPECT_NEAR(found(Collective::all_gather), all_gather_rate(network), 1e-7);
    EXPECT_NEAR(found(Collective::broadcast), broadcast_rate(network), 1e-7);
  }
}

// That some GPUs count as one terminal is a matter of speed alone.
TEST(ExactBound, IsTheSameWhereNvlinkedGpusAreKeptApart) {
  for (const char* name : {"p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge", "g4dn.12xlarge"}) {
    const Cluster cluster = cluster_of(ec2(name), 3);
    for (const Collective c :
         {Collective::all_reduce, Collective::all_gather, Collective::broadcast})
      EXPECT_NEAR(seconds(cluster, c), cut_seconds(cluster, c), 1e-6 * seconds(cluster, c))
          << name << " " << name_of(c);
  }
}

// ------------------------------------------------------------------ what trees reach

/// From above by trees, from below by the bound.
void expect_trees_reach(const Cluster& cluster, double within) {
  const Layout layout = rank_layout(cluster);
  const std::vector<SpanningTree> trees = pack_trees(cluster, layout).trees;
  const double time = seconds_per_byte(trees, cluster, layout) * kGigabyte,
               bound = seconds(cluster, Collective::all_reduce);
  EXPECT_GE(time, bound * (1 - 1e-9));
  EXPECT_LE(time, bound * within);
}

TEST(TreePacking, ReachesTheExactBound) {
  expect_trees_reach(cluster_of(ec2("p3dn.24xlarge"), 1), 1.05);
  expect_trees_reach(cluster_of(ec2("p3dn.24xlarge"), 4), 1.005);
  expect_trees_reach(cluster_of(ec2("p4d.24xlarge"), 4), 1.005);
  expect_trees_reach(cluster_of(ec2("g5.48xlarge"), 2), 1.005);
  expect_trees_reach(unequal({5, 10, 10, 12.5}), 1.005);
  expect_trees_reach(unequal({9, 10, 10, 11}), 1.005);
  Cluster wide({wide_machine(8, 2, 5e9), wide_machine(8, 4, 10e9), wide_machine(4, 1, 30e9)}, {});
  expect_trees_reach(wide, 1.005);
  FabricSpec fabric;
  fabric.nodes_per_leaf = 2;
  fabric.oversubscription = 4;
  expect_trees_reach(cluster_of(ec2("p4d.24xlarge"), 4, {}, fabric), 1.005);
}

/// A switch with ports of these widths, and links between neighbours.
TEST(TreePacking, ReachesTheExactBoundOfRandomUnequalClusters) {
  std::mt19937 dice(7);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    std::vector<std::shared_ptr<const Machine>> nodes;
    for (std::size_t n = 2 + dice() % 5; n > 0; --n) {
      const int nics = 1 << dice() % 3;
      nodes.push_back(wide_machine(8, nics, 1e9 * static_cast<double>(1 + dice() % 20)));
    }
    FabricSpec fabric;
    fabric.nodes_per_leaf = static_cast<int>(dice() % 4);
    fabric.oversubscription = 1 + static_cast<double>(dice() % 3);
    expect_trees_reach(Cluster(nodes, fabric), 1.01);
  }
}

TEST(TreePacking, SharesAddUpAndTreesSpan) {
  const Cluster cluster = cluster_of(ec2("p3dn.24xlarge"), 2);
  const Layout layout = rank_layout(cluster);
  double shares = 0;
  for (const SpanningTree& tree : pack_trees(cluster, layout).trees) {
    shares += tree.share;
    ASSERT_EQ(tree.parent.size(), 16U);
    EXPECT_EQ(std::count(tree.parent.begin(), tree.parent.end(), -1), 1);
    for (std::size_t r = 0; r < tree.parent.size(); ++r) {  // every way up ends at the root
      std::size_t at = r, steps = 0;
      for (; tree.parent[at] >= 0 && steps < 16; ++steps)
        at = static_cast<std::size_t>(tree.parent[at]);
      EXPECT_EQ(tree.parent[at], -1);
    }
  }
  EXPECT_NEAR(shares, 1, 1e-12);
}

}  // namespace
}  // namespace foreduce
