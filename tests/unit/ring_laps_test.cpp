// A ring over many nodes from few: the same times and loads as of all its laps.
#include "sim/ring_laps.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "models/profile.hpp"
#include "sim/collective_json.hpp"
#include "tests/support/simulation.hpp"

namespace foreduce {
namespace {

using namespace test;

/// In a child, for SimGrid's engine is one a process; nothing where laps differ.
std::optional<CollectiveResult> by_laps(const CollectiveCall& call, const SimOptions& options) {
  const ChildResult child = run_in_child([&]() -> nlohmann::json {
    const auto result = simulate_by_laps(call, options);
    return result ? to_json(*result) : nlohmann::json();
  });
  EXPECT_TRUE(child.ok) << child.error;
  if (!child.ok || child.value.is_null()) return std::nullopt;
  return collective_from_json(child.value);
}

CollectiveCall ring_on(const Cluster& cluster, Collective collective, const Plan& plan,
                       std::size_t count) {
  return {cluster, *find_algorithm("ring", collective), plan, count};
}

/// Whether laps are alike; if so, few nodes' result must be that of all.
bool same_as_all_laps(const CollectiveCall& call, const SimOptions& options) {
  EXPECT_TRUE(has_equal_laps(call));
  const auto few = by_laps(call, options);
  if (!few) return false;
  const CollectiveResult all = simulate(call, options);
  expect_same_result(*few, all, 1e-9);
  EXPECT_EQ(few->bottleneck, all.bottleneck);
  EXPECT_LT(few->messages, all.messages);
  return true;
}

constexpr Collective kRingCollectives[] = {Collective::all_reduce, Collective::reduce_scatter,
                                           Collective::all_gather};

/// On links as their data sheets say, with one segment and with more, at odd numbers of nodes too.
TEST(RingLaps, GiveTheTimeOfAllLaps) {
  int alike = 0;
  for (const char* instance : {"p3.16xlarge", "p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge"})
    for (const Collective collective : kRingCollectives)
      for (const auto& [segments, together] : {std::pair(1, 0), {5, 0}, {5, 2}}) {
        SCOPED_TRACE(testing::Message() << instance << ", " << name_of(collective) << ", "
                                        << segments << " segments, " << together << " together");
        const Cluster cluster = cluster_of(ec2(instance), 19);
        const Plan plan = with_defaults(
            *find_algorithm("ring", collective),
            {.segments = segments, .channels = 0, .inner = "ring", .together = together},
            rank_layout(cluster), 0);
        alike += same_as_all_laps(ring_on(cluster, collective, plan, 1234567), {});
      }
  EXPECT_GT(alike, 0);
}

/// As NCCL sends them, with gaps, slots, host threads and launch, from latency to bandwidth.
TEST(RingLaps, HoldForNcclsMessages) {
  int alike = 0;
  for (const char* instance : {"p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge"}) {
    const Cluster cluster = cluster_of(ec2(instance), 24);
    const auto profile = std::make_shared<const Profile>(Profiles().made_for(instance));
    for (const double bytes : {8.0, 1048576.0, 268435456.0, 300e6, 1.5e9}) {
      SCOPED_TRACE(testing::Message() << instance << ", " << bytes << " bytes");
      const Schedule schedule = nccl_schedule({cluster, rank_layout(cluster), profile},
                                              Bytes{bytes}, {NcclAlgorithm::ring});
      SimOptions options;
      options.sending = schedule.sending;
      alike += same_as_all_laps(
          ring_on(cluster, Collective::all_reduce, schedule.plan, floats_in(bytes)), options);
    }
  }
  EXPECT_GT(alike, 0);
}

/// `nodes` machines, of which that at `place` has NICs of a share of their bandwidth.
Cluster with_slow_node(const std::shared_ptr<const Machine>& machine, int nodes, int place,
                       double share) {
  Machine slow = *machine;
  slow.nic.bandwidth = share * slow.nic.bandwidth;
  std::vector machines(static_cast<std::size_t>(nodes), machine);
  machines[static_cast<std::size_t>(place)] = std::make_shared<const Machine>(slow);
  return {machines, {}};
}

/// Wherever the slow node is, for the ring has no end; from hardly slower to ten times.
TEST(RingLaps, HoldBesideASlowNode) {
  constexpr int kNodes = 54;
  const auto machine = wide_machine(2, 1);
  for (const auto& [place, share, collective, segments, together] :
       {std::tuple(0, 0.5, Collective::all_reduce, 1, 0),
        {30, 0.9, Collective::all_reduce, 5, 2},
        {kNodes - 1, 0.1, Collective::reduce_scatter, 1, 0},
        {20, 0.5, Collective::all_gather, 5, 0}}) {
    SCOPED_TRACE(testing::Message() << place << ", " << share << ", " << name_of(collective));
    const Cluster cluster = with_slow_node(machine, kNodes, place, share);
    const CollectiveCall call =
        ring_on(cluster, collective, {.segments = segments, .channels = 1, .together = together},
                std::size_t{2} * kNodes * 5 * 1000);
    EXPECT_TRUE(same_as_all_laps(call, {}));
  }
}

TEST(RingLaps, HoldForRingsOfTheHierarchicalBesideASlowNode) {
  const Cluster cluster = with_slow_node(wide_machine(2, 2), 54, 7, 0.5);
  const CollectiveCall call{cluster,
                            *find_algorithm("hierarchical"),
                            {.segments = 1, .channels = 2, .inner = "ring"},
                            std::size_t{54} * 2 * 2 * 5000};
  EXPECT_TRUE(same_as_all_laps(call, {}));
}

TEST(RingLaps, HoldForNcclsMessagesBesideASlowNode) {
  const Cluster cluster = with_slow_node(ec2("p3.2xlarge"), 56, 7, 0.5);
  const auto profile = std::make_shared<const Profile>(Profiles().nearest_to(*ec2("p3.2xlarge")));
  const double bytes = 56 * 1024 * 1024;
  const Schedule schedule =
      nccl_schedule({cluster, rank_layout(cluster), profile}, Bytes{bytes}, {NcclAlgorithm::ring});
  SimOptions options;
  options.sending = schedule.sending;
  EXPECT_TRUE(same_as_all_laps(
      ring_on(cluster, Collective::all_reduce, schedule.plan, floats_in(bytes)), options));
}

// Eight nodes more took 8 x 2,961 us and then as much again, but each further node 2,947 us: 0.4 %
// of the time of 300 nodes.
TEST(RingLaps, AreNotToldFromTheMeanOfSeveralNodesAlone) {
  const Cluster cluster = with_slow_node(ec2("p3.2xlarge"), 61, 60, 0.5);
  const auto profile = std::make_shared<const Profile>(Profiles().nearest_to(*ec2("p3.2xlarge")));
  for (const auto& [collective, segments] :
       {std::pair(Collective::all_reduce, 11), {Collective::reduce_scatter, 21}}) {
    const std::size_t count = std::size_t{61} * static_cast<std::size_t>(segments) * 8000;
    const Schedule schedule = nccl_schedule({cluster, rank_layout(cluster), profile},
                                            Bytes{4.0 * static_cast<double>(count)},
                                            {NcclAlgorithm::ring, NcclProtocol::ll}, collective);
    SimOptions options;
    options.sending = schedule.sending;
    const CollectiveCall call = ring_on(cluster, collective, schedule.plan, count);
    if (const auto few = by_laps(call, options); few) {
      EXPECT_NEAR(few->time / simulate(call, options).time, 1, kLeastLapsError);
    }
  }
}

/// Around a ring, but with a quarter of the data in every step after the 40th.
Event ring_that_changes(Transport& t, Buffer data, Op op, const Plan&, Event after) {
  const int n = t.size(), right = (t.rank() + 1) % n, left = (t.rank() + n - 1) % n;
  Event ready = after;
  for (int step = 0; step < 2 * (n - 1); ++step) {
    const Buffer part = data.chunk(step > 40 ? 4 * n : n, 0);
    const Tag tag{.step = step};
    t.send(right, tag, part, ready);
    ready = t.recv_reduce(left, tag, part, op);
  }
  return ready;
}

TEST(RingLaps, GiveNoResultWhereLapsDiffer) {
  Algorithm changing = *find_algorithm("ring");
  changing.run = ring_that_changes;
  const Cluster cluster = cluster_of(ec2("p4d.24xlarge"), 24);
  EXPECT_FALSE(by_laps({cluster, changing, {}, 8 * 24 * 4000}, {}).has_value());
}

TEST(RingLaps, AreNotLookedForElsewhere) {
  const Cluster many = cluster_of(ec2("p4d.24xlarge"), 24),
                few = cluster_of(ec2("p4d.24xlarge"), 8),
                leaves = cluster_of(ec2("p4d.24xlarge"), 24, {},
                                    {.nodes_per_leaf = 4, .oversubscription = 2});
  std::vector<std::shared_ptr<const Machine>> machines(12, ec2("p4d.24xlarge"));
  machines.resize(24, ec2("p4de.24xlarge"));
  const Cluster mixed(machines, {});
  const auto ring = [](const Cluster& cluster) {
    return ring_on(cluster, Collective::all_reduce, {}, 1000);
  };
  EXPECT_TRUE(has_equal_laps(ring(many)));
  EXPECT_FALSE(has_equal_laps(ring(few)));
  EXPECT_FALSE(has_equal_laps(ring(leaves)));
  EXPECT_FALSE(has_equal_laps(ring(mixed)));
  EXPECT_FALSE(has_equal_laps({many, *find_algorithm("double-tree"), {}, 1000}));
  EXPECT_FALSE(has_equal_laps(ring_on(many, Collective::broadcast, {}, 1000)));
  CollectiveCall in_groups = ring(many);
  in_groups.groups = {8, 1};
  EXPECT_FALSE(has_equal_laps(in_groups));
}

}  // namespace
}  // namespace foreduce
