// Symmetry reduction against full simulations: the same times and loads from fewer messages.
#include "sim/symmetry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "models/profile.hpp"
#include "sim/child_process.hpp"
#include "sim/collective_json.hpp"
#include "tests/support/simulation.hpp"

namespace foreduce {
namespace {

using namespace test;

std::shared_ptr<const Machine> machine_of(const std::string& name) {
  if (name == "flat") return flat_machine();
  if (name == "wide") return wide_machine(4, 2);
  return ec2(name);
}

/// About `about` elements, in a number of which each rank, channel and segment gets the same.
std::size_t even_count(const Layout& layout, const Plan& plan, double about) {
  const auto unit = static_cast<std::size_t>(2 * layout.workers * plan.channels) *
                    plan.cut().parts() * std::max<std::size_t>(1, layout.node_rings.size());
  return std::max<std::size_t>(1, static_cast<std::size_t>(about) / unit) * unit;
}

struct Shape {
  const char* machine = "";
  int nodes = 1, nodes_per_leaf = 0, segments = 1;
  double elements = 0;
  bool dealt_out = false;      // nodes over the leaves in turn
  int last = Segments::kFull;  // of the last segment
};

/// What a child process simulates: by symmetry, and if that reduces the case, in full.
nlohmann::json simulate_both(const Algorithm& algorithm, const Shape& c) {
  const Cluster cluster =
      cluster_of(machine_of(c.machine), c.nodes, servers_for(algorithm),
                 {.nodes_per_leaf = c.nodes_per_leaf,
                  .oversubscription = 2,
                  .placement = c.dealt_out ? Placement::spread : Placement::packed});
  const Layout layout = rank_layout(cluster);
  const Plan plan = with_defaults(
      algorithm, {.segments = c.segments, .channels = 0, .inner = "ring", .last = c.last}, layout,
      1);
  if (unsupported_reason(algorithm, layout, plan)) return nullptr;
  const CollectiveCall asked{cluster, algorithm, plan, even_count(layout, plan, c.elements)};
  const CollectiveResult reduced = simulate_here(asked, by_symmetry());
  if (!reduced.symmetric) return nullptr;
  return {to_json(reduced), to_json(simulate_here(asked, in_full()))};
}

/// Of each shape, whether symmetry reduces it; if so, its result must be that of a full simulation.
std::vector<bool> reduce_exactly(const Algorithm& algorithm, const std::vector<Shape>& shapes) {
  std::vector<std::function<nlohmann::json()>> work;
  for (const Shape& c : shapes) work.emplace_back([&] { return simulate_both(algorithm, c); });
  ChildOptions options;
  options.tasks_each = work.size();
  std::vector<bool> reduces(shapes.size());
  run_in_children(
      work,
      [&](std::size_t i, const ChildResult& child) {
        const Shape& c = shapes[i];
        SCOPED_TRACE(testing::Message() << algorithm.name << " on " << c.nodes << " x " << c.machine
                                        << ", " << c.nodes_per_leaf << " per leaf, " << c.elements
                                        << " elements in " << c.segments);
        ASSERT_TRUE(child.ok) << child.error;
        if (child.value.is_null()) return;
        const CollectiveResult reduced = collective_from_json(child.value.at(0)),
                               full = collective_from_json(child.value.at(1));
        expect_same_result(reduced, full, 1e-9);
        EXPECT_EQ(full.messages % reduced.messages, 0u);
        EXPECT_GT(full.messages, reduced.messages);
        reduces[i] = true;
      },
      options);
  return reduces;
}

class SymmetryOf : public testing::TestWithParam<const Algorithm*> {};

TEST_P(SymmetryOf, GivesTheFullSimulationsResult) {
  const Algorithm& algorithm = *GetParam();
  std::vector<Shape> shapes;
  for (const char* machine : {"flat", "wide", "p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge",
                              "g5.12xlarge", "p3.16xlarge"}) {
    // A full simulation of 64 GPUs takes a second: of one of the machines that have eight.
    const bool all = std::set<std::string>{"flat", "wide", "p4d.24xlarge"}.contains(machine);
    for (const int nodes : all ? std::vector{1, 2, 3, 4, 8} : std::vector{1, 2, 3, 4})
      for (const int segments : {1, 3})
        for (const double elements : {12e3, 1200e3}) {
          shapes.push_back({machine, nodes, 0, segments, elements});
          if (segments > 1)
            shapes.push_back({machine, nodes, 0, segments, elements, false, Segments::kFull / 4});
          if (segments == 1)
            for (const bool dealt_out : {false, true})
              shapes.push_back({machine, nodes, 2, segments, elements, dealt_out});
        }
  }
  int reduced = 0, below_leaves = 0;
  const std::vector<bool> reduces = reduce_exactly(algorithm, shapes);
  for (std::size_t i = 0; i < shapes.size(); ++i)
    if (reduces[i]) ++(shapes[i].nodes_per_leaf > 0 ? below_leaves : reduced);
  if (algorithm.symmetry && !algorithm.takes_inner) {
    EXPECT_GT(below_leaves, algorithm.name == "nvls" ? -1 : 5);
  }
  if (algorithm.symmetry || algorithm.channels_alike || algorithm.gpus_alike) {
    EXPECT_GT(reduced, algorithm.name == "nvls" ? 3 : 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, SymmetryOf, testing::ValuesIn(all_algorithms()),
                         [](const auto& of) { return identifier(*of.param); });

/// Messages as NCCL sends them: with gaps, slots, host threads, hops and launch, on rings and
/// trees.
TEST(SymmetryReduction, HoldsForNcclsMessages) {
  for (const auto& [instance, nodes] :
       {std::pair{"p3dn.24xlarge", 4}, {"p4d.24xlarge", 4}, {"p5.48xlarge", 2}}) {
    const Cluster cluster = cluster_of(ec2(instance), nodes);
    const auto profile = std::make_shared<const Profile>(Profiles().made_for(instance));
    for (const NcclAlgorithm algorithm : {NcclAlgorithm::ring, NcclAlgorithm::double_tree})
      for (const double bytes : {4096.0, 8.0 * (1 << 20)}) {
        SCOPED_TRACE(testing::Message()
                     << instance << ", " << to_text(algorithm) << ", " << bytes << " bytes");
        const Schedule schedule =
            nccl_schedule({cluster, rank_layout(cluster), profile}, Bytes{bytes}, {algorithm});
        SimOptions full = in_full(), reducing = by_symmetry();
        full.sending = reducing.sending = schedule.sending;
        const CollectiveCall asked{cluster, *schedule.algorithm, schedule.plan, floats_in(bytes)};
        const CollectiveResult reduced = simulate(asked, reducing);
        EXPECT_TRUE(reduced.symmetric);
        EXPECT_TRUE(close(reduced.time.value, simulate(asked, full).time.value, 1e-6));
      }
  }
}

/// How many times fewer messages are simulated.
double saving(const char* algorithm, const char* instance, int nodes, std::size_t count,
              int nodes_per_leaf = 0, double tolerance = 1e-6) {
  const Cluster cluster = cluster_of(ec2(instance), nodes, {}, {.nodes_per_leaf = nodes_per_leaf});
  const CollectiveCall asked{
      cluster, *find_algorithm(algorithm), {.segments = 2, .channels = 0}, count};
  const CollectiveResult reduced = simulate(asked, by_symmetry()),
                         full = simulate(asked, in_full());
  expect_same_result(reduced, full, tolerance);
  return static_cast<double>(full.messages) / static_cast<double>(reduced.messages);
}

/// As many as there are nodes, or two mirror images, times the rotations of the rails.
TEST(SymmetryReduction, SavesAllSymmetricMessages) {
  EXPECT_EQ(saving("ring", "p5.48xlarge", 3, 3 * 8 * 8 * 2 * 100), 3 * 8);
  // An uplink is not loaded alike from every node, but from every leaf.
  EXPECT_EQ(saving("ring", "p4d.24xlarge", 4, 4 * 8 * 4 * 2 * 100, 2), 2 * 4);
  EXPECT_EQ(saving("ring", "p4d.24xlarge", 6, 6 * 8 * 4 * 2 * 100, 4), 4);  // a leaf is half empty
  EXPECT_EQ(saving("double-tree", "p4d.24xlarge", 8, 80000, 2), 2 * 4);
  EXPECT_EQ(saving("nvls", "p5.48xlarge", 1, 80000), 8);
  EXPECT_EQ(saving("nvls-tree", "p5en.48xlarge", 3, 80000), 8);
  EXPECT_EQ(saving("tree", "p4d.24xlarge", 4, 80000), 4);
  EXPECT_EQ(saving("tree", "p3dn.24xlarge", 4, 80000), 1);
}

/// 96 ranks are 64 and 32 extra ones, which four nodes' worth of exclusive-or leaves in their
/// places; of 20 nodes five are simulated, of 24 three.
TEST(SymmetryReduction, SavesPairedRanks) {
  for (const char* algorithm : {"halving-doubling", "recursive-doubling"}) {
    EXPECT_EQ(saving(algorithm, "p4d.24xlarge", 12, 1 << 20), 4);
    EXPECT_EQ(saving(algorithm, "p4d.24xlarge", 20, 1 << 20), 4);
    EXPECT_EQ(saving(algorithm, "p5.48xlarge", 24, 1 << 20), 8);
    EXPECT_EQ(saving(algorithm, "g5.12xlarge", 12, 1 << 20), 4);
    EXPECT_EQ(saving(algorithm, "p4d.24xlarge", 3, 1 << 20), 1);  // less than two nodes of numbers
  }
}

/// One node whose NICs have half of their bandwidth leaves the rails of all nodes alike.
TEST(SymmetryReduction, SavesRailsBesideASlowNode) {
  for (const char* instance : {"p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge"}) {
    Machine slow = *ec2(instance);
    slow.nic.bandwidth = slow.nic.bandwidth * 0.5;
    const auto sound = ec2(instance), sick = std::make_shared<const Machine>(slow);
    const Cluster cluster({sound, sick, sound, sound}, {});
    const Layout layout = rank_layout(cluster);
    for (const char* name : {"ring", "double-tree", "nvls-tree"}) {
      const Algorithm& algorithm = *find_algorithm(name);
      const Plan plan =
          with_defaults(algorithm, {.segments = 2, .channels = 0, .inner = "ring"}, layout, 1);
      if (unsupported_reason(algorithm, layout, plan)) continue;
      SCOPED_TRACE(testing::Message() << name << " on " << instance);
      const std::size_t count = even_count(layout, plan, 1200e3);
      const CollectiveResult reduced = simulate({cluster, algorithm, plan, count}, by_symmetry()),
                             full = simulate({cluster, algorithm, plan, count}, in_full());
      EXPECT_TRUE(reduced.symmetric);
      EXPECT_GE(full.messages, 4 * reduced.messages);
      expect_same_result(reduced, full, 1e-9);
    }
  }
}

TEST(SymmetryReduction, SavesMirroredTrees) {
  EXPECT_EQ(saving("double-tree", "p4d.24xlarge", 4, 80000), 2 * 4);
  EXPECT_EQ(saving("double-tree", "p4d.24xlarge", 5, 80000), 4);  // an odd number has no mirror
  EXPECT_EQ(saving("double-tree", "p3dn.24xlarge", 6, 80000), 2);
  EXPECT_EQ(saving("nvls-tree", "p5.48xlarge", 4, 80000), 2 * 8);
  // An element more is nothing among four million, little among a thousand, and of small chunks
  // less than latency.
  EXPECT_EQ(saving("double-tree", "p4d.24xlarge", 4, 3003, 0, 1e-3), 2 * 4);
  EXPECT_EQ(saving("nvls-tree", "p5.48xlarge", 4, 16016, 0, 1e-3), 2 * 8);
  EXPECT_EQ(saving("double-tree", "p4d.24xlarge", 4, 32000003), 2 * 4);
  EXPECT_EQ(saving("double-tree", "p4d.24xlarge", 4, 80003, 0, 1e-3), 2 * 4);
}

/// Sizes of gradients hardly ever divide. The full simulation differs by which of two messages is
/// first that are a nanosecond apart.
TEST(SymmetryReduction, IsNearTheFullSimulationOfSizesThatDoNotDivide) {
  for (const auto& [instance, algorithm, protocol] :
       {std::tuple{"p3dn.24xlarge", "double-tree", "Simple"},
        {"p4d.24xlarge", "double-tree", "Simple"},
        {"p5.48xlarge", "double-tree", "LL128"},
        {"p5.48xlarge", "nvls-tree", "Simple"}})
    for (const int nodes : {2, 8})
      for (const std::size_t count : {1'027'141u, 6'250'003u, 21'000'017u}) {
        SCOPED_TRACE(testing::Message() << algorithm << " " << protocol << " on " << nodes << " x "
                                        << instance << ", " << count << " elements");
        const Cluster cluster = cluster_of(ec2(instance), nodes);
        const auto profile = std::make_shared<const Profile>(Profiles().made_for(instance));
        const Schedule schedule = nccl_schedule(
            {cluster, rank_layout(cluster), profile}, Bytes{4 * static_cast<double>(count)},
            {value_named<NcclAlgorithm>(algorithm), value_named<NcclProtocol>(protocol)});
        SimOptions full = in_full(), reducing = by_symmetry();
        full.sending = reducing.sending = schedule.sending;
        const CollectiveCall asked{cluster, *schedule.algorithm, schedule.plan, count};
        const CollectiveResult reduced = simulate(asked, reducing);
        EXPECT_TRUE(reduced.symmetric);
        EXPECT_TRUE(close(reduced.time.value, simulate(asked, full).time.value, 6e-3));
      }
}

/// With many segments, whatever differs between symmetric ranks would add up.
TEST(SymmetryReduction, HoldsForLongPipelines) {
  for (const char* instance : {"p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge"})
    for (const int nodes : {6, 16})
      for (const std::size_t count : {std::size_t{6553600}, std::size_t{67108864}}) {
        SCOPED_TRACE(testing::Message()
                     << nodes << " x " << instance << ", " << count << " elements");
        const Cluster cluster = cluster_of(ec2(instance), nodes);
        const CollectiveCall asked{
            cluster, *find_algorithm("double-tree"), {.segments = 0, .channels = 0}, count};
        expect_same_result(simulate(asked, by_symmetry()), simulate(asked, in_full()), 1e-9);
      }
}

/// A rank's messages that are ready at one moment are sent in an order of its own. It used to
/// depend on the numbers of those who made them ready, and mirror images differed by up to 1 %:
/// where LL128's gaps keep messages waiting for each other, the order is worth time.
TEST(SymmetryReduction, HoldsWhereMessagesWaitForEachOther) {
  struct Tree {
    const char *algorithm, *protocol;
    RankGroups groups;
  };
  const int nodes = 16;
  const Cluster cluster = cluster_of(ec2("p5.48xlarge"), nodes);
  const Layout layout = rank_layout(cluster);
  const auto profile = std::make_shared<const Profile>(Profiles().made_for("p5.48xlarge"));
  for (const Tree& tree :
       {Tree{"double-tree", "LL128", {nodes, 8}}, Tree{"double-tree", "LL128", {}},
        Tree{"double-tree", "LL", {nodes, 8}}, Tree{"nvls-tree", "Simple", {}}})
    for (const int segments : {56, 60, 64, 72}) {
      SCOPED_TRACE(testing::Message() << tree.algorithm << " " << tree.protocol << ", " << segments
                                      << " segments, groups of " << tree.groups.size);
      const Layout seen = tree.groups.whole() ? layout : layout.subset(tree.groups.of(0));
      const double bytes = 16.0 * (1 << 20);
      const Schedule schedule = nccl_schedule(
          {cluster, seen, profile}, Bytes{bytes},
          {value_named<NcclAlgorithm>(tree.algorithm), value_named<NcclProtocol>(tree.protocol)});
      Plan plan = schedule.plan;
      plan.segments = segments;
      const std::size_t unit = 2 * 8 * 8 * static_cast<std::size_t>(segments);
      CollectiveCall asked{cluster, *schedule.algorithm, plan, floats_in(bytes) / unit * unit};
      asked.groups = tree.groups;
      SimOptions full = in_full(), reducing = by_symmetry();
      full.sending = reducing.sending = schedule.sending;
      const CollectiveResult reduced = simulate(asked, reducing);
      EXPECT_TRUE(reduced.symmetric);
      expect_same_result(reduced, simulate(asked, full), 1e-9);
    }
}

TEST(SymmetryReduction, UnevenChunksCostLessThanAnElementEach) {
  const Cluster cluster = cluster_of(flat_machine(), 8);
  const CollectiveCall asked{cluster, *find_algorithm("ring"), {}, 1000003};
  const double full = simulate(asked, in_full(kNoOverlap)).time.value;
  const double reduced = simulate(asked, by_symmetry(kNoOverlap)).time.value;
  EXPECT_NEAR(reduced, full, 14 * (4 / 12.5e9 + 4 / 300e9) + 1e-12);
}

// 4.6 million messages of 1 KiB on 227 racks took two minutes: 256 elements do not divide among 144
// half channels, and nothing hangs on that.
TEST(SymmetryReduction, SmallMessagesThatDoNotDivideAreAlikeBesideTheirLatency) {
  for (const auto& [machine, nodes] : {std::pair{"gb200-nvl72-ib", 2}, {"p5.48xlarge", 5}}) {
    const Cluster cluster =
        cluster_of(std::make_shared<const Machine>(machine_named(machine)), nodes);
    for (const auto& [name, collective] : {std::pair{"ring", Collective::all_reduce},
                                           {"ring", Collective::reduce_scatter},
                                           {"ring", Collective::all_gather},
                                           {"tree", Collective::all_reduce},
                                           {"double-tree", Collective::all_reduce},
                                           {"hierarchical", Collective::all_reduce}})
      for (const std::size_t count : nodes > 2 ? std::vector{2u, 257u, 6007u} : std::vector{257u}) {
        SCOPED_TRACE(testing::Message() << name << ' ' << name_of(collective) << " on " << nodes
                                        << " x " << machine << ", " << count);
        const CollectiveCall asked{cluster,
                                   *find_algorithm(name, collective),
                                   {.segments = 1, .channels = 0, .inner = "ring"},
                                   count};
        const CollectiveResult reduced = simulate(asked, by_symmetry()),
                               full = simulate(asked, in_full());
        EXPECT_GE(full.messages, 2 * reduced.messages);
        EXPECT_NEAR(reduced.time / full.time, 1, 1e-3);
      }
  }
}

/// Whether a simulation by the symmetry that `algorithm` claims fails or differs from a full one.
bool claim_is_wrong(const Algorithm& algorithm, const Cluster& cluster) {
  const Plan plan =
      with_defaults(algorithm, {.segments = 1, .channels = 0}, rank_layout(cluster), 0);
  const auto run = [&](const SimOptions& options) {
    return run_in_child([&]() -> nlohmann::json {
      return simulate_here({cluster, algorithm, plan, 8000}, options).time.value;
    });
  };
  const ChildResult reduced = run(by_symmetry()), full = run(in_full());
  EXPECT_TRUE(full.ok) << full.error;
  return !reduced.ok || !close(reduced.value.get<double>(), full.value.get<double>(), 1e-9);
}

TEST(SymmetryReduction, WrongClaimsAreNoticed) {
  Algorithm tree = *find_algorithm("tree");
  EXPECT_FALSE(claim_is_wrong(tree, cluster_of(flat_machine(), 8)));
  tree.symmetry = [](const Plan&) { return Symmetry::translation; };
  EXPECT_TRUE(claim_is_wrong(tree, cluster_of(flat_machine(), 8)));
  tree.symmetry = [](const Plan&) { return Symmetry::mirror; };
  EXPECT_TRUE(claim_is_wrong(tree, cluster_of(flat_machine(), 8)));

  Algorithm doubling = *find_algorithm("recursive-doubling");  // one channel whatever the rails
  doubling.symmetry = nullptr;
  doubling.channels_alike = true;
  EXPECT_TRUE(claim_is_wrong(doubling, cluster_of(ec2("p4d.24xlarge"), 4)));
}

}  // namespace
}  // namespace foreduce
