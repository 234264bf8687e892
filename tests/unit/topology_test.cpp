// The catalogue against what is published, and what is derived from it: rings, routes, cuts, rails,
// EFA's rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "models/rank_layout.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

TEST(Catalogue, KnowsEverySourceItCites) {
  const Catalogue catalogue;
  std::set<std::string> known;
  for (const auto& [id, text, uncertain] : catalogue.sources()) {
    EXPECT_FALSE(text.empty()) << id;
    known.insert(id);
  }
  EXPECT_GE(catalogue.names().size(), 22u);
  for (const std::string& name : catalogue.names()) {
    const Machine m = catalogue.load(name);
    EXPECT_EQ(m.name, name);
    EXPECT_GE(m.citations.size(), 5u) << name;
    for (const auto& c : m.citations) {
      std::string id = c.source.substr(0, c.source.find_first_of(" #"));
      EXPECT_TRUE(known.contains(id)) << name << ": " << c.key << " cites '" << id << "'";
    }
  }
}

/// A few numbers by hand, so that a slip in the data does not go unnoticed.
TEST(Catalogue, HasPublishedNumbers) {
  const auto p3dn = ec2("p3dn.24xlarge"), p4d = ec2("p4d.24xlarge"), p5 = ec2("p5.48xlarge");
  EXPECT_EQ(p3dn->gpus(), 8);
  EXPECT_DOUBLE_EQ(p3dn->nic.bandwidth.value, 12.5e9);
  EXPECT_FALSE(p3dn->nic.gpudirect);
  EXPECT_DOUBLE_EQ(p3dn->price->on_demand.value, 31.212);
  EXPECT_DOUBLE_EQ((p4d->nic.bandwidth * p4d->nic.count).value, 50e9);
  EXPECT_DOUBLE_EQ((p4d->nvlink->bandwidth * p4d->nvlink->links).value, 300e9);
  EXPECT_DOUBLE_EQ((p5->nic.bandwidth * p5->nic.count).value, 400e9);
  EXPECT_DOUBLE_EQ(p4d->price->before_2025_06.value, 32.7726);
}

TEST(Catalogue, SaysWhenPricesWereRead) {
  const Catalogue catalogue;
  for (const std::string& name : catalogue.names()) {
    const auto price = catalogue.load(name).price;
    EXPECT_FALSE(price && price->date.empty()) << name;
  }
}

TEST(NodeGraph, FindsPublishedRingsOfP3dn) {
  const NodeGraph graph(*ec2("p3dn.24xlarge"));
  // Three undirected cycles, each both ways: the double-link cycle twice and the single-link cycle
  // once.
  const auto same_cycle = [](std::vector<int> a, std::vector<int> b) {
    for (std::size_t turn = 0; turn < a.size();
         ++turn, std::rotate(a.begin(), a.begin() + 1, a.end()))
      if (a == b || std::equal(a.begin(), a.end(), b.rbegin())) return true;
    return false;
  };
  ASSERT_EQ(graph.rings().size(), 6u);
  const std::vector<int> twice{0, 3, 2, 1, 5, 6, 7, 4}, once{0, 1, 3, 7, 5, 4, 6, 2};
  EXPECT_EQ(std::count_if(graph.rings().begin(), graph.rings().end(),
                          [&](const auto& r) { return same_cycle(r, twice); }),
            4);
  EXPECT_EQ(std::count_if(graph.rings().begin(), graph.rings().end(),
                          [&](const auto& r) { return same_cycle(r, once); }),
            2);
}

TEST(NodeGraph, RingsUseEachLinkOnce) {
  for (const char* name : {"p3.8xlarge", "p3.16xlarge", "p3dn.24xlarge"}) {
    const auto machine = ec2(name);
    const NodeGraph graph(*machine);
    std::map<std::pair<int, int>, int> used;
    for (const auto& ring : graph.rings())
      for (std::size_t i = 0; i < ring.size(); ++i) ++used[{ring[i], ring[(i + 1) % ring.size()]}];
    int capacity = 0, total = 0;
    for (const auto& e : machine->nvlink->edges) {
      capacity += 2 * e[2];
      EXPECT_LE((used[{e[0], e[1]}]), e[2]);
      EXPECT_LE((used[{e[1], e[0]}]), e[2]);
    }
    for (const auto& [edge, n] : used) total += n;
    // Within a quad GPUs 2 and 3 have a link more than 0 and 1: one link, two directions, is left
    // over.
    EXPECT_EQ(total, capacity - (machine->gpus() == 4 ? 2 : 0)) << name;
  }
}

TEST(NodeGraph, ChainsEnterAndLeaveByRailsOfTheirOwn) {
  for (const char* name : {"p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"}) {
    const NodeGraph graph(*ec2(name));
    ASSERT_EQ(static_cast<int>(graph.chains().size()), graph.rails()) << name;
    std::set<int> in, out;
    for (const auto& chain : graph.chains()) {
      EXPECT_EQ(std::set<int>(chain.begin(), chain.end()).size(), 8u) << name;
      in.insert(graph.rail_of(chain.front()));
      out.insert(graph.rail_of(chain.back()));
    }
    EXPECT_EQ(static_cast<int>(in.size()), graph.rails()) << name;
    EXPECT_EQ(static_cast<int>(out.size()), graph.rails()) << name;
  }
}

TEST(NodeGraph, ChainsLeaveAMeshByTheRailTheyEntered) {
  const NodeGraph graph(*elsewhere("dgx-1v.yaml"));
  ASSERT_EQ(static_cast<int>(graph.chains().size()), graph.rails());
  for (int rail = 0; rail < graph.rails(); ++rail) {
    const auto& chain = graph.chains()[static_cast<std::size_t>(rail)];
    EXPECT_EQ(graph.rail_of(chain.front()), rail);
    EXPECT_EQ(graph.rail_of(chain.back()), rail);
  }
}

std::vector<std::string> names_of(const NodeGraph& graph, const Path& path) {
  std::vector<std::string> names;
  for (const std::size_t id : path.links) names.push_back(graph.link_name(id));
  return names;
}

TEST(NodeGraph, RoutesCrossHostMemoryWithoutGpuDirect) {
  const NodeGraph p3dn(*ec2("p3dn.24xlarge"));
  const std::vector<std::string> through{"gpu0>pcie0",      "pcie0>socket0", "socket0>memory0",
                                         "memory0>socket0", "socket0>pcie4", "pcie4>nic0",
                                         "nic0>network"};
  EXPECT_EQ(names_of(p3dn, p3dn.outward({false, 0})), through);
  EXPECT_DOUBLE_EQ(p3dn.outward({false, 0}).bottleneck.value, 12e9);
  const NodeGraph p4d(*ec2("p4d.24xlarge"));
  EXPECT_EQ(names_of(p4d, p4d.outward({false, 3})),
            (std::vector<std::string>{"gpu3>pcie1", "pcie1>nic1", "nic1>network"}));
}

TEST(NodeGraph, RoutesTakeNvLinkElsePcie) {
  const NodeGraph mesh(*ec2("p3dn.24xlarge"));
  EXPECT_EQ(names_of(mesh, mesh.inside({false, 0}, {false, 3})),
            (std::vector<std::string>{"gpu0>gpu3"}));
  EXPECT_DOUBLE_EQ(mesh.inside({false, 0}, {false, 3}).bottleneck.value, 50e9);
  const std::vector<std::string> across_sockets{"gpu0>pcie0", "pcie0>socket0", "socket0>socket1",
                                                "socket1>pcie2",
                                                "pcie2>gpu5"};  // SYS in nvidia-smi's matrix
  EXPECT_EQ(names_of(mesh, mesh.inside({false, 0}, {false, 5})), across_sockets);
  const NodeGraph hub(*ec2("p4d.24xlarge"));
  for (int g = 1; g < 8; ++g)
    EXPECT_DOUBLE_EQ(hub.inside({false, 0}, {false, g}).bottleneck.value, 300e9);
}

Machine without_pcie(int gpus, double link) {
  Machine m = *wide_machine(gpus, 1);
  m.pcie.reset();
  m.nvlink->bandwidth = BytesPerSecond{link};
  return m;
}

TEST(NodeGraph, GpusDoNotMeetInANic) {
  const NodeGraph graph(without_pcie(4, 1e9));
  EXPECT_DOUBLE_EQ(graph.inside({false, 0}, {false, 1}).bottleneck.value, 1e9);
  Machine line = without_pcie(3, 1e9);
  line.nvlink->kind = NvLinkKind::mesh;
  line.nvlink->links = 2;
  line.nvlink->edges = {{0, 1, 1}, {1, 2, 1}};
  EXPECT_THROW(NodeGraph{line}, InputError);  // nothing connects 0 and 2
}

TEST(Route, HasTheSlowerNicsOverhead) {
  Machine slow = *wide_machine(1, 1, 1e9), quick = slow;
  slow.nic.message_overhead = Seconds{2e-6};
  quick.nic.message_overhead = Seconds{1e-6};
  quick.name = "quick";
  Route route;
  const Cluster cluster({std::make_shared<Machine>(quick), std::make_shared<Machine>(slow)}, {});
  cluster.route({0, {false, 0}}, {1, {false, 0}}, route);
  EXPECT_DOUBLE_EQ(route.overhead.value, 2e-6);
}

TEST(NodeGraph, CutOutIsTheBottleneck) {
  EXPECT_DOUBLE_EQ(NodeGraph(*ec2("p3dn.24xlarge")).cut_out().value,
                   12e9);  // the NIC's PCIe slot, not its 12.5 GB/s
  EXPECT_DOUBLE_EQ(NodeGraph(*ec2("p4d.24xlarge")).cut_out().value, 48e9);
  EXPECT_DOUBLE_EQ(NodeGraph(*ec2("p5.48xlarge")).cut_out().value,
                   384e9);  // eight PCIe slots of 48 GB/s
  EXPECT_DOUBLE_EQ(NodeGraph(*ec2("p3.16xlarge")).cut_out().value, 25e9 / 8);
}

TEST(Cluster, OversubscriptionNarrowsUplinks) {
  const auto machine = wide_machine(2, 1);
  const Cluster flat = cluster_of(machine, 8);
  const Cluster over = cluster_of(machine, 8, {}, {.nodes_per_leaf = 4, .oversubscription = 4});
  EXPECT_EQ(flat.leaves(), 0);
  EXPECT_EQ(over.leaves(), 2);
  EXPECT_DOUBLE_EQ(over.uplink_bandwidth(0).value, 4 * 12.5e9 / 4);
  Route near, far;
  over.route({0, {false, 0}}, {3, {false, 0}}, near);
  over.route({0, {false, 0}}, {4, {false, 0}}, far);
  EXPECT_EQ(far.links.size(), near.links.size() + 2);
  EXPECT_EQ(over.link_name(far.links[3]), "leaf0>spine");
}

TEST(Route, FlowLimitDependsOnPlacementGroup) {
  const auto p3 = ec2("p3.16xlarge");
  Route grouped, apart;
  cluster_of(p3, 2).route({0, {false, 0}}, {1, {false, 0}}, grouped);
  FabricSpec fabric;
  fabric.placement_group = false;
  cluster_of(p3, 2, {}, fabric).route({0, {false, 0}}, {1, {false, 0}}, apart);
  EXPECT_DOUBLE_EQ(grouped.rate_limit.value, 16 * 10e9 / 8);
  EXPECT_DOUBLE_EQ(apart.rate_limit.value, 16 * 5e9 / 8);
  Route efa;
  cluster_of(ec2("p4d.24xlarge"), 2).route({0, {false, 0}}, {1, {false, 0}}, efa);
  EXPECT_DOUBLE_EQ(efa.rate_limit.value, 0);
  EXPECT_GT(efa.overhead.value, 0);
}

TEST(Cluster, RefusesMachinesThatCannotTalkByEfa) {
  ServerSpec servers;
  servers.dedicated = ec2("c5n.18xlarge");
  servers.dedicated_count = 4;
  EXPECT_SAYS(error_of([&] { cluster_of(ec2("p4d.24xlarge"), 4, servers); }),
              "EFA traffic between it and other instance types is not supported");
  EXPECT_EQ(error_of([&] { cluster_of(ec2("p3dn.24xlarge"), 4, servers); }), "(accepted)");
  EXPECT_SAYS(error_of([&] {
                Cluster({ec2("p3dn.24xlarge"), ec2("p3.16xlarge")}, {});
              }),
              "one has EFA");
  EXPECT_EQ(error_of([&] {
              Cluster({ec2("p4d.24xlarge"), ec2("p4de.24xlarge")}, {});
            }),
            "(accepted)");
}

TEST(Cluster, RefusesWorkersWithoutGpus) {
  EXPECT_SAYS(error_of([&] { cluster_of(ec2("c5n.18xlarge"), 2); }), "has no GPU");
}

TEST(RankLayout, NvlsNeedsUniformNodesThenSwitchesThatReduce) {
  const auto why = [](const char* one, const char* other) {
    return unsupported_reason(*find_algorithm("nvls-tree"),
                              rank_layout(Cluster({ec2(one), ec2(other)}, {})), {})
        .value_or("it can run");
  };
  EXPECT_SAYS(why("p5.48xlarge", "g7e.48xlarge"), "the nodes differ inside");
  EXPECT_SAYS(why("p4d.24xlarge", "p4d.24xlarge"), "the switch between the GPUs cannot reduce");
  EXPECT_EQ(why("p5.48xlarge", "p5.48xlarge"), "it can run");
}

TEST(RankLayout, HierarchicalNeedsUniformNodes) {
  const Layout same = rank_layout(Cluster({ec2("p4d.24xlarge"), ec2("p4de.24xlarge")}, {}));
  const Layout mixed = rank_layout(Cluster({ec2("p3dn.24xlarge"), ec2("g5.48xlarge")}, {}));
  EXPECT_TRUE(same.uniform_nodes);
  EXPECT_FALSE(mixed.uniform_nodes);
  EXPECT_FALSE(unsupported_reason(*find_algorithm("hierarchical"), same, {}).has_value());
  EXPECT_TRUE(unsupported_reason(*find_algorithm("hierarchical"), mixed, {}).has_value());
  EXPECT_FALSE(unsupported_reason(*find_algorithm("ring"), mixed, {}).has_value());
}

TEST(RankLayout, MixedClusterHoldsEveryGpuOnce) {
  const Cluster cluster({ec2("p4d.24xlarge"), ec2("p4de.24xlarge"), ec2("p4d.24xlarge")}, {});
  const Layout layout = rank_layout(cluster);
  EXPECT_EQ(layout.workers, 24);
  for (const auto& channel : layout.channels)
    EXPECT_EQ(std::set<int>(channel.begin(), channel.end()).size(), 24u);
}

TEST(Dot, DrawsEveryVertexOfANode) {
  const std::string dot = NodeGraph(*ec2("p3dn.24xlarge")).dot();
  for (const char* part : {"gpu7", "socket1", "memory0", "nic0", "network"}) EXPECT_SAYS(dot, part);
  EXPECT_SAYS(dot, R"(gpu0 -- gpu3 [label="50 GB/s")");
}

TEST(Dot, DrawsAClusterWithItsUplinks) {
  const FabricSpec fabric{.nodes_per_leaf = 2, .oversubscription = 4};
  const std::string dot = cluster_of(ec2("p4d.24xlarge"), 4, {}, fabric).dot();
  EXPECT_SAYS(dot, R"(node3 -- leaf1 [label="48 GB/s"])");
  EXPECT_SAYS(dot, R"(leaf0 -- spine [label="25 GB/s"])");
}

std::size_t link_called(const NodeGraph& node, std::string_view name) {
  std::size_t id = 0;
  while (id < node.link_count() && node.link_name(id) != name) ++id;
  return id;
}

TEST(NodeGraph, RotationTakesEveryLinkToItsImage) {
  const NodeGraph p4d(*ec2("p4d.24xlarge"));
  const std::vector<std::size_t> image = p4d.rotated(1);
  ASSERT_EQ(image.size(), p4d.link_count());
  EXPECT_EQ(image[link_called(p4d, "gpu1>pcie0")], link_called(p4d, "gpu3>pcie1"));
  EXPECT_EQ(image[link_called(p4d, "nvswitch>gpu7")], link_called(p4d, "nvswitch>gpu1"));
  EXPECT_EQ(std::set<std::size_t>(image.begin(), image.end()).size(), image.size());
}

TEST(NodeGraph, RotatesOnlyIfRailsAreAlike) {
  EXPECT_FALSE(NodeGraph(*ec2("p5.48xlarge")).rotated(1).empty());
  Machine m = *wide_machine(4, 2);
  EXPECT_FALSE(NodeGraph(m).rotated(1).empty());
  m.pcie->switches[0].gpus = {0, 1, 2};  // three GPUs on one rail, one on the other
  m.pcie->switches[1].gpus = {3};
  EXPECT_TRUE(NodeGraph(m).rotated(1).empty());
}

/// aws-ofi-nccl groups the NICs that are nearest to a GPU: two on p5en and p6-b300, one on p6-b200,
/// though two GPUs share a PCIe switch. p4d's GPUs share one.
TEST(NodeGraph, GivesEachGpuARailIfThereAreNicsEnough) {
  struct Published {
    const char* instance;
    int rails, gbps;
  };
  for (const auto& [instance, rails, gbps] :
       {Published{"p3dn.24xlarge", 1, 100}, Published{"p4d.24xlarge", 4, 100},
        Published{"p5.48xlarge", 8, 400}, Published{"p5en.48xlarge", 8, 400},
        Published{"p6-b200.48xlarge", 8, 400}, Published{"p6-b300.48xlarge", 8, 800}}) {
    SCOPED_TRACE(instance);
    const NodeGraph graph(*ec2(instance));
    EXPECT_EQ(graph.rails(), rails);
    EXPECT_DOUBLE_EQ(graph.rail_bandwidth(0).value, gbps * 125e6);
    for (int gpu = 0; gpu < 8; ++gpu) EXPECT_EQ(graph.rail_of(gpu), gpu * rails / 8);
  }
}

// The search for rings went through all sets of them, and took minutes.
TEST(Topology, AMeshOfTenGpusHasRings) {
  Machine mesh = *ec2("p3dn.24xlarge");
  mesh.gpu->count = 10;
  mesh.pcie.reset();
  mesh.nvlink->edges.clear();
  for (int a = 0; a < 10; ++a)
    for (int b = a + 1; b < 10; ++b) mesh.nvlink->edges.push_back({a, b, 1});
  EXPECT_GE(NodeGraph(mesh).rings().size(), 4u);
}

}  // namespace
}  // namespace foreduce
