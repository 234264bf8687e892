// tight: a simulated time equals the closed form when the algorithm has the network to itself, from both sides; and
// what shares a link gets its share.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "models/bounds.hpp"
#include "models/rank_layout.hpp"
#include "sim/collective.hpp"
#include "sim/collective_json.hpp"
#include "sim/batch.hpp"
#include "sim/child_process.hpp"
#include "tests/support/machines.hpp"

namespace foreduce {
namespace {

using namespace test;

SimOptions options(double reduce_segment, bool use_symmetry = false) {
  SimOptions o;
  o.reduce_segment = Bytes{reduce_segment};
  o.use_symmetry = use_symmetry;
  return o;
}
constexpr double kWhole = 1e18;  // a message is folded only after all of it has arrived: the fold is in the open

double seconds(const std::string& algorithm, const Cluster& cluster, double bytes, const SimOptions& o, Plan plan = {}) {
  return simulate({cluster, *find_algorithm(algorithm), plan, static_cast<std::size_t>(bytes / 4), Type::f32}, o).time.value;
}

void expect_close(double got, double want, double relative) {
  EXPECT_NEAR(got / want, 1, relative) << got << " s where " << want << " s are due";
}

TEST(Tight, RingTakesItsClosedForm) {
  for (const int n : {2, 3, 8, 64})
    for (const double bytes : {4.0 * 3 * 64 * 1024, 4.0 * 3 * 64 * 262144}) {
      const Flat f;
      const Cluster cluster = cluster_of(flat_machine(f), n);
      const double wire = 2 * (n - 1) * f.latency + 2.0 * (n - 1) / n * bytes / f.bandwidth;
      const double folds = (n - 1.0) / n * bytes / f.reduce_bandwidth;
      expect_close(seconds("ring", cluster, bytes, options(kWhole)), wire + folds, 1e-6);
      // Folded while it arrives, only the last piece of each of the n-1 steps is in the open.
      const double piece = 4096;
      expect_close(seconds("ring", cluster, bytes, options(piece)), wire + (n - 1) * std::min(piece, bytes / n) / f.reduce_bandwidth,
                   1e-6);
    }
}

TEST(Tight, The64MiBRingOnEightRanksTakesTheTimeOfTheDesign) {
  // 14 x (26.03 us + 8 MiB / 12.5 GB/s): the figure that design and SMPI agree on is 9.829 ms with 26.03 us a message.
  const Flat f{.bandwidth = 12.5e9, .latency = 31e-6, .reduce_bandwidth = 1e30};
  expect_close(seconds("ring", cluster_of(flat_machine(f), 8), 64 * 1048576.0, options(kWhole)),
               14 * (31e-6 + 8 * 1048576.0 / 12.5e9), 1e-9);
}

TEST(Tight, HalvingDoublingTakesItsClosedForm) {
  for (const int n : {2, 4, 16, 64}) {
    const Flat f;
    const double bytes = 4.0 * 64 * 16384, steps = std::log2(n);
    const double time = 2 * steps * f.latency + 2.0 * (n - 1) / n * bytes / f.bandwidth + (n - 1.0) / n * bytes / f.reduce_bandwidth;
    expect_close(seconds("halving-doubling", cluster_of(flat_machine(f), n), bytes, options(kWhole)), time, 1e-6);
  }
  // Five ranks: one hands its data over first and is told last. Its partner's port is shared with the others' first messages,
  // so the sum of the phases is the least, and each phase's bytes twice over the most.
  const Flat f;
  const double bytes = 4.0 * 64 * 16384, wire = bytes / f.bandwidth, folds = bytes / f.reduce_bandwidth;
  const double time = seconds("halving-doubling", cluster_of(flat_machine(f), 5), bytes, options(kWhole));
  EXPECT_GE(time, 6 * f.latency + (1 + 1.5 + 1) * wire + 1.75 * folds);
  EXPECT_LE(time, 6 * f.latency + 2 * (1 + 1.5 + 1) * wire + 2 * 1.75 * folds);
}

TEST(Tight, RecursiveDoublingTakesItsClosedForm) {
  for (const int n : {2, 8, 32}) {
    const Flat f;
    const double bytes = 4.0 * 65536;
    expect_close(seconds("recursive-doubling", cluster_of(flat_machine(f), n), bytes, options(kWhole)),
                 std::log2(n) * (f.latency + bytes / f.bandwidth + bytes / f.reduce_bandwidth), 1e-6);
  }
}

TEST(Tight, DirectAndTreesStayWithinTheirBounds) {
  for (const char* name : {"direct", "tree", "double-tree", "ring", "halving-doubling", "recursive-doubling", "hierarchical"})
    for (const int n : {2, 3, 4, 8, 16, 31})
      for (const int segments : {1, 4, 32})
        for (const double bytes : {4096.0, 4.0 * 262144, 4.0 * 8388608}) {
          const Flat f;
          const Cluster cluster = cluster_of(flat_machine(f), n);
          const Layout layout = rank_layout(cluster);
          const Algorithm& algorithm = *find_algorithm(name);
          const Plan plan{.segments = segments, .channels = 1, .inner = "ring"};
          const ClosedForm form = closed_form(algorithm, layout, static_cast<std::size_t>(bytes / 4), 4, plan,
                                              {Seconds{f.latency}, BytesPerSecond{f.bandwidth}, BytesPerSecond{f.reduce_bandwidth}});
          const double time = seconds(name, cluster, bytes, options(kWhole), plan);
          SCOPED_TRACE(testing::Message() << name << " on " << n << " ranks, " << bytes << " bytes in " << segments);
          EXPECT_GE(time, form.least.value * (1 - 1e-6));
          EXPECT_LE(time, form.most.value * (1 + 1e-6));
        }
}

TEST(Tight, DoubleTreeApproachesTwoSOverB) {
  const Flat f{.bandwidth = 12.5e9, .latency = 1e-6, .reduce_bandwidth = 1e15};
  const double bytes = 4.0 * 64 * 1048576;
  const double time =
      seconds("double-tree", cluster_of(flat_machine(f), 16), bytes, options(4096), {.segments = 256, .channels = 1, .inner = {}});
  EXPECT_GT(time, 1.9 * bytes / f.bandwidth);   // inner nodes send and receive about 2S in all
  EXPECT_LT(time, 2.25 * bytes / f.bandwidth);  // and the pipeline of 256 segments fills and drains
}

/// A world in which ranks do what the test says; returns the time.
double play(const Cluster& cluster, Event (*script)(Transport&, Buffer, Op, const Plan&, Event), double bytes) {
  Algorithm algorithm;
  algorithm.name = "script";
  algorithm.run = script;
  const Outcome outcome = run_isolated([&]() -> nlohmann::json {
    return simulate_here({cluster, algorithm, {.segments = 1, .channels = 1, .inner = {}}, static_cast<std::size_t>(bytes / 4),
                         Type::f32, Op::sum}, options(kWhole))
        .time.value;
  });
  if (!outcome.ok) throw TransportError(outcome.error);
  return outcome.value.get<double>();
}

TEST(Tight, TwoFlowsOnOneLinkHalve) {
  const Flat f;
  const Cluster cluster = cluster_of(flat_machine(f), 3);
  const double bytes = 4.0 * 1048576;
  const double time = play(
      cluster,
      [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
        if (t.rank() == 0) return t.recv(1, {}, b.chunk(2, 0)), t.recv(2, {}, b.chunk(2, 1));
        return t.send(0, {}, b.chunk(2, t.rank() - 1));
      },
      bytes);
  expect_close(time, f.latency + bytes / f.bandwidth, 1e-6);  // two halves, each at half speed
}

TEST(Tight, OppositeDirectionsDoNotShare) {
  const Flat f;
  const double bytes = 4.0 * 1048576;
  const double time = play(
      cluster_of(flat_machine(f), 2),
      [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
        t.send(1 - t.rank(), {}, b);
        return t.recv(1 - t.rank(), {}, b);
      },
      bytes);
  expect_close(time, f.latency + bytes / f.bandwidth, 1e-6);
}

TEST(Tight, AMessageWithoutBytesTakesItsLatency) {
  const Flat f;
  const double time = play(
      cluster_of(flat_machine(f), 2),
      [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
        if (t.rank() == 0) return t.send(1, {}, b.chunk(2, 0));
        return t.recv(0, {}, b.chunk(2, 0));
      },
      0);
  expect_close(time, f.latency, 1e-6);
}

TEST(Tight, MessagesOfOneConnectionTravelInOrderAndHideTheirLatency) {
  const Flat f;
  const double bytes = 4.0 * 1048576;
  const double time = play(
      cluster_of(flat_machine(f), 2),
      [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
        for (int k = 0; k < 64; ++k) t.rank() == 0 ? t.send(1, {0, k}, b.segment(64, k)) : t.recv(0, {0, k}, b.segment(64, k));
        return {};
      },
      bytes);
  expect_close(time, f.latency + bytes / f.bandwidth, 1e-6);
}

TEST(Tight, ADeadlockTellsWhoWaitsForWhom) {
  const Cluster cluster = cluster_of(flat_machine(), 2);
  try {
    play(
        cluster,
        [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
          return t.recv(1 - t.rank(), {7, 3}, b);
        },
        4096);
    FAIL() << "nobody sends";
  } catch (const TransportError& e) {
    const std::string text = e.what();
    for (const char* part : {"deadlock", "rank 0: recv from rank 1", "rank 1: recv from rank 0", "step 7, segment 3", "4096 bytes"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
  }
}

TEST(Tight, ARunTellsItsTimelineItsLinksAndItsBottleneck) {
  const Flat f;
  const int n = 4;
  const double bytes = 4.0 * 4 * 262144;
  SimOptions o = options(kWhole);
  o.record_timeline = true;
  const CollectiveResult r =
      simulate({cluster_of(flat_machine(f), n), *find_algorithm("ring"), {}, static_cast<std::size_t>(bytes / 4), Type::f32}, o);
  EXPECT_EQ(r.timeline.size(), static_cast<std::size_t>(n) * 6 * 2);  // 2(n-1) steps, a send and a receive each, on n ranks
  double last = 0;
  for (const Span& span : r.timeline) {
    EXPECT_LE(span.posted, span.ended);
    EXPECT_EQ(span.bytes, bytes / n);
    last = std::max(last, span.ended);
  }
  EXPECT_NEAR(last, r.time.value, 1e-12);
  ASSERT_EQ(r.loads.size(), 2u);  // out of the port and into it
  for (const LinkLoad& load : r.loads) {
    EXPECT_NEAR(load.bytes, 2.0 * (n - 1) / n * bytes, 1e-3);
    EXPECT_NEAR(load.utilisation, load.bytes / f.bandwidth / r.time.value, 1e-9);
  }
  EXPECT_EQ(r.bottleneck, r.loads[0].link);
}

TEST(Tight, SizesThatDifferAreAnError) {
  EXPECT_THROW(play(
                   cluster_of(flat_machine(), 2),
                   [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
                     return t.rank() == 0 ? t.send(1, {}, b.chunk(2, 0)) : t.recv(0, {}, b);
                   },
                   4096),
               TransportError);
}

// ------------------------------------------------------------------ knobs

struct NetworkModel {
  Flat flat;
  FabricSpec fabric;
  Plan plan;
  double reduce_segment = kWhole;
};
double knob(const std::string& algorithm, const NetworkModel& w, int n = 8, double bytes = 4.0 * 1048576) {
  return seconds(algorithm, cluster_of(flat_machine(w.flat), n, {}, w.fabric), bytes, options(w.reduce_segment), w.plan);
}

TEST(Knobs, EachMovesThePredictionTheRightWay) {
  for (const char* name : {"ring", "double-tree", "halving-doubling", "direct", "hierarchical", "tree", "recursive-doubling"}) {
    SCOPED_TRACE(name);
    NetworkModel base, other;
    other.flat.bandwidth = 25e9;
    EXPECT_LT(knob(name, other), knob(name, base)) << "bandwidth";
    other = base;
    other.flat.latency = 50e-6;
    EXPECT_GT(knob(name, other), knob(name, base)) << "latency";
    other = base;
    other.flat.reduce_bandwidth = 10e9;
    EXPECT_GT(knob(name, other), knob(name, base)) << "fold rate";
    NetworkModel narrow, wide;
    narrow.fabric = {.nodes_per_leaf = 4, .oversubscription = 8};
    wide.fabric = {.nodes_per_leaf = 4, .oversubscription = 1};
    EXPECT_GT(knob(name, narrow), knob(name, wide)) << "oversubscription";
    NetworkModel near = wide, far = wide;
    far.fabric.spine_latency = Seconds{100e-6};
    EXPECT_GT(knob(name, far), knob(name, near)) << "spine latency";
  }
  NetworkModel one, many;
  one.plan.segments = 1;
  many.plan.segments = 16;
  EXPECT_LT(knob("tree", many), knob("tree", one)) << "segments";
  EXPECT_LT(knob("double-tree", many), knob("double-tree", one)) << "segments";
}

TEST(Knobs, ChannelsUseTheRails) {
  const Cluster cluster = cluster_of(ec2("p4d.24xlarge"), 4);
  const double bytes = 64 * 1048576.0;
  const double one = seconds("ring", cluster, bytes, {}, {.segments = 1, .channels = 1, .inner = {}});
  const double four = seconds("ring", cluster, bytes, {}, {.segments = 1, .channels = 4, .inner = {}});
  EXPECT_NEAR(one / four, 4, 0.4);
}

TEST(Knobs, PlacementOfNodesMatters) {
  NetworkModel packed, spread;
  packed.fabric = {.nodes_per_leaf = 4, .oversubscription = 4};
  spread.fabric = packed.fabric;
  spread.fabric.spread = true;  // every neighbour of the ring is now across the spine
  EXPECT_GT(knob("ring", spread), knob("ring", packed));
}

// ------------------------------------------------------------------ nothing beats the bound

TEST(Bound, NoPredictionIsUnderIt) {
  std::mt19937 dice(20261120);
  const auto pick = [&](auto... options) {
    const std::vector<std::common_type_t<decltype(options)...>> all{options...};
    return all[dice() % all.size()];
  };
  const std::vector<std::string> names = Catalogue().names();
  int tried = 0;
  for (int round = 0; round < 260; ++round) {
    std::shared_ptr<const Machine> machine;
    switch (dice() % 3) {
      case 0:
        machine =
            flat_machine({.bandwidth = pick(1e9, 12.5e9, 50e9), .latency = pick(0.0, 1e-6, 30e-6), .reduce_bandwidth = pick(20e9, 1e12)});
        break;
      case 1: machine = wide_machine(pick(2, 4, 8), pick(1, 2), pick(3e9, 12.5e9, 100e9)); break;
      default: machine = ec2(names[dice() % names.size()]);
    }
    if (machine->cpu_only()) continue;
    const int nodes = pick(1, 2, 3, 4, 5, 8);
    FabricSpec fabric;
    if (dice() % 2)
      fabric = {.nodes_per_leaf = pick(1, 2, 4),
                .oversubscription = pick(1.0, 2.0, 7.0),
                .spine_latency = Seconds{pick(0.0, 3e-6)},
                .spread = dice() % 2 == 0};
    const Algorithm& algorithm = *algorithms()[dice() % algorithms().size()];
    ServerSpec servers = servers_for(algorithm);
    if (algorithm.uses_servers && dice() % 2) {  // on machines of their own, with an idle GPU as often as not
      servers.co_located = false;
      servers.dedicated = dice() % 2 ? flat_machine() : wide_machine(2, 1, pick(3e9, 12.5e9));
      servers.dedicated_count = pick(1, 3, 8);
      if (machine->nic.efa > 0) continue;
    }
    const Cluster cluster = cluster_of(machine, nodes, servers, fabric);
    const Layout layout = rank_layout(cluster);
    const Plan plan{.segments = pick(0, 1, 3),
                    .channels = pick(0, 1),
                    .inner = pick(std::string("ring"), std::string("direct"), std::string("halving-doubling"))};
    if (unsupported_reason(algorithm, layout, plan)) continue;
    const auto count = static_cast<std::size_t>(pick(1, 1000, 262144, 5000000));
    SimOptions o;
    o.use_symmetry = dice() % 2 == 0;
    const CollectiveResult result = simulate({cluster, algorithm, plan, count, Type::f32}, o);
    const double time = result.time.value;
    for (const LinkLoad& load : result.loads)
      EXPECT_LE(load.bytes / load.bandwidth.value, time * (1 + 1e-6) + 1e-11)
          << load.link << ", " << algorithm.name << " on " << machine->name;
    const LowerBound bound = all_reduce_bound(cluster, Bytes{4.0 * static_cast<double>(count)});
    ++tried;
    EXPECT_GE(time + 1e-11, bound.time.value * (1 - 1e-6)) << algorithm.name << " on " << nodes << " x " << machine->name << ", "
                                                           << count << " elements: under the bound of " << bound.because;
  }
  EXPECT_GT(tried, 150);
}

TEST(Bound, CountsWhatCoLocatedServersCanSendBesides) {
  // GPUs behind a slow PCIe link, servers before it: they send their sums past it.
  Machine m = *wide_machine(1, 1, 100e9);
  m.pcie->switches = {{0, {0}, {}}, {0, {}, {0}}};
  m.pcie->bandwidth = BytesPerSecond{4e9};
  ServerSpec servers;
  servers.co_located = true;
  const Cluster cluster = cluster_of(std::make_shared<Machine>(m), 8, servers);
  const double bytes = 4.0 * 16777216;
  const double time = simulate({cluster, *find_algorithm("reduction-server"), {}, 16777216, Type::f32}, {}).time.value;
  EXPECT_GE(time, all_reduce_bound(cluster, Bytes{bytes}).time.value);
}

TEST(Bound, RingReachesItOnAFlatSwitchAtLargeSizes) {
  const Flat f{.bandwidth = 12.5e9, .latency = 1e-7, .reduce_bandwidth = 1e15};
  const Cluster cluster = cluster_of(flat_machine(f), 8);
  const double bytes = 4.0 * 64 * 1048576;
  const double bound = all_reduce_bound(cluster, Bytes{bytes}).time.value;
  const double time = seconds("ring", cluster, bytes, options(4096));
  EXPECT_GE(time, bound);
  EXPECT_LT(time, bound * 1.001);
}

TEST(Bound, DedicatedServersMayHalveIt) {
  ServerSpec servers;
  servers.dedicated = flat_machine();
  servers.dedicated_count = 8;
  const double with = all_reduce_bound(cluster_of(flat_machine(), 8, servers), Bytes{1e9}).time.value;
  const double without = all_reduce_bound(cluster_of(flat_machine(), 8), Bytes{1e9}).time.value;
  EXPECT_NEAR(with, 5e-6 + 1e9 / 12.5e9, 1e-9);                   // S / B
  EXPECT_NEAR(without, 5e-6 + 2 * 7.0 / 8 * 1e9 / 12.5e9, 1e-9);  // 2(n-1)/n S / B
}

// ------------------------------------------------------------------ folding

class Folding : public testing::TestWithParam<const Algorithm*> {};

/// The same time, and the same bytes and utilisation on every class of links.
void expect_same(const CollectiveResult& quick, const CollectiveResult& plain, double tolerance) {
  EXPECT_NEAR(quick.time / plain.time, 1, tolerance);
  ASSERT_EQ(quick.loads.size(), plain.loads.size());
  for (const LinkLoad& q : quick.loads) {
    const auto p = std::find_if(plain.loads.begin(), plain.loads.end(), [&](const LinkLoad& l) { return l.link == q.link; });
    ASSERT_NE(p, plain.loads.end()) << q.link;
    EXPECT_NEAR(q.bytes / p->bytes, 1, tolerance) << q.link;
    EXPECT_NEAR(q.utilisation / p->utilisation, 1, tolerance) << q.link;
  }
}

TEST_P(Folding, AgreesWithThePlainSimulation) {
  const Algorithm& algorithm = *GetParam();
  int folded = 0;
  for (const char* instance : {"flat", "wide", "p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge", "g5.12xlarge", "p3.16xlarge"})
    for (const int nodes : {1, 2, 3, 4, 8})
      for (const int leaf : algorithm.channels_alike ? std::vector{0, 2} : std::vector{0})  // nodes do not fold below leaves
        for (const int segments : {1, 3})
          for (const double kilo : {12.0, 1200.0}) {
            const auto machine = instance == std::string("flat")   ? flat_machine()
                                 : instance == std::string("wide") ? wide_machine(4, 2)
                                                                   : ec2(instance);
            const Cluster cluster =
                cluster_of(machine, nodes, servers_for(algorithm), {.nodes_per_leaf = leaf, .oversubscription = 2});
            const Layout layout = rank_layout(cluster);
            Plan plan = with_defaults(algorithm, {.segments = segments, .channels = 0, .inner = "ring"}, layout, 1);
            if (unsupported_reason(algorithm, layout, plan)) continue;
            const auto unit = static_cast<std::size_t>(2 * layout.workers * plan.channels * segments) *
                              std::max<std::size_t>(1, layout.node_rings.size());
            const std::size_t count = std::max<std::size_t>(1, static_cast<std::size_t>(kilo * 1000) / unit) * unit;
            const CollectiveResult quick = simulate({cluster, algorithm, plan, count, Type::f32}, options(512 * 1024, true));
            if (!quick.symmetric) continue;
            ++folded;
            SCOPED_TRACE(testing::Message() << algorithm.name << " on " << nodes << " x " << instance << ", " << leaf << " a leaf, "
                                            << count << " elements in " << segments);
            const CollectiveResult plain = simulate({cluster, algorithm, plan, count, Type::f32}, options(512 * 1024, false));
            expect_same(quick, plain, 1e-9);
            EXPECT_EQ(plain.messages % quick.messages, 0u);
            EXPECT_GT(plain.messages, quick.messages);
          }
  if (algorithm.symmetry || algorithm.channels_alike || algorithm.gpus_alike) {
    EXPECT_GT(folded, algorithm.name == "nvls" ? 3 : 10);
  }
}

/// What it saves: as many times fewer messages as there are nodes, or two mirror images, times turns of the rails.
TEST(Folding, HoldsForMessagesAsNcclSendsThem) {
  // Gaps, slots, host threads, hops and launch, on rings and trees.
  for (const auto& [instance, nodes] : {std::pair{"p3dn.24xlarge", 4}, {"p4d.24xlarge", 4}, {"p5.48xlarge", 2}}) {
    const Cluster cluster = cluster_of(ec2(instance), nodes);
    const auto profile = std::make_shared<const Profile>(Profiles().made_for(instance));
    for (const char* algorithm : {"ring", "double-tree"})
      for (const double bytes : {4096.0, 8.0 * (1 << 20)}) {
        const AsNccl as = as_nccl(cluster, rank_layout(cluster), profile, Bytes{bytes}, algorithm);
        SimOptions plain;
        plain.sending = as.sending;
        SimOptions folding = plain;
        plain.use_symmetry = false;
        const auto count = static_cast<std::size_t>(bytes / 4);
        const CollectiveResult folded = simulate({cluster, *as.algorithm, as.plan, count, Type::f32}, folding);
        EXPECT_TRUE(folded.symmetric) << instance << " " << algorithm;
        EXPECT_NEAR(folded.time.value / simulate({cluster, *as.algorithm, as.plan, count, Type::f32}, plain).time.value, 1, 1e-6)
            << instance << " " << algorithm << " " << bytes;
      }
  }
}

TEST(Folding, LeavesOutAllThatIsAlike) {
  const auto saves = [](const char* name, const char* instance, int nodes, std::size_t count, int leaf = 0) {
    const Cluster cluster = cluster_of(ec2(instance), nodes, {}, {.nodes_per_leaf = leaf});
    const CollectiveResult quick =
        simulate({cluster, *find_algorithm(name), {.segments = 2, .channels = 0, .inner = {}}, count, Type::f32});
    const CollectiveResult plain = simulate({cluster, *find_algorithm(name), {.segments = 2, .channels = 0, .inner = {}}, count,
                                            Type::f32}, options(512 * 1024, false));
    expect_same(quick, plain, 1e-6);
    return static_cast<double>(plain.messages) / static_cast<double>(quick.messages);
  };
  EXPECT_EQ(saves("ring", "p5.48xlarge", 3, 3 * 8 * 8 * 2 * 100), 3 * 8);
  EXPECT_EQ(saves("ring", "p4d.24xlarge", 4, 4 * 8 * 4 * 2 * 100, 2), 4);  // an uplink is not loaded alike from every node
  EXPECT_EQ(saves("nvls", "p5.48xlarge", 1, 80000), 8);
  EXPECT_EQ(saves("nvls-tree", "p5.48xlarge", 4, 80000), 8);
  EXPECT_EQ(saves("nvls-tree", "p5en.48xlarge", 3, 80000), 8);
  EXPECT_EQ(saves("tree", "p4d.24xlarge", 4, 80000), 4);
  EXPECT_EQ(saves("tree", "p3dn.24xlarge", 4, 80000), 1);
  EXPECT_EQ(saves("double-tree", "p4d.24xlarge", 4, 80000), 2 * 4);
  EXPECT_EQ(saves("double-tree", "p4d.24xlarge", 5, 80000), 4);  // an odd number has no mirror
  EXPECT_EQ(saves("double-tree", "p3dn.24xlarge", 6, 80000), 2);
  EXPECT_EQ(saves("double-tree", "p4d.24xlarge", 4, 80004), 4);  // four channels, but their halves differ
  EXPECT_EQ(saves("double-tree", "p4d.24xlarge", 4, 80003), 1);
  EXPECT_EQ(saves("double-tree", "p4d.24xlarge", 4, 32000003), 2 * 4);  // an element is nothing among four million
}

/// Pipelines as they are in earnest: many segments, in which whatever differs between ranks that stand for each other adds up.
TEST(Folding, HoldsForLongPipelines) {
  for (const char* instance : {"p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge"})
    for (const int nodes : {6, 16})
      for (const std::size_t count : {std::size_t{6553600}, std::size_t{67108864}}) {
        SCOPED_TRACE(testing::Message() << nodes << " x " << instance << ", " << count << " elements");
        const Cluster cluster = cluster_of(ec2(instance), nodes);
        const Plan plan{.segments = 0, .channels = 0, .inner = {}};
        expect_same(simulate({cluster, *find_algorithm("double-tree"), plan, count, Type::f32}, options(512 * 1024, true)),
                    simulate({cluster, *find_algorithm("double-tree"), plan, count, Type::f32}, options(512 * 1024, false)), 1e-9);
      }
}

INSTANTIATE_TEST_SUITE_P(symmetry, Folding, testing::ValuesIn(algorithms()),
                         [](const auto& info_of) { return identifier(info_of.param->name); });

/// A flow that shares nothing does not go through SimGrid: nothing may change by it, whoever joins it when. SimGrid's flows are
/// whole numbers of 1/4096 byte, which is 1e-8 of the time of the smallest messages here. One element alone may be 1e-4 apart: 6e-5
/// was seen (direct on p3.8xlarge) and is not explained yet.
TEST(LoneFlows, AreAsFastAsSimGridSays) {
  for (const char* name : {"p3dn.24xlarge", "p4d.24xlarge", "g5.48xlarge", "p3.8xlarge"})
    for (const Algorithm* algorithm : algorithms())
      for (const std::size_t count : {std::size_t{1}, std::size_t{3000}, std::size_t{3000000}}) {
        SCOPED_TRACE(testing::Message() << algorithm->name << " on " << name << ", " << count << " elements");
        const Cluster cluster = cluster_of(ec2(name), 3, servers_for(*algorithm), {.nodes_per_leaf = 2, .oversubscription = 2});
        SimOptions all;
        all.solve_all = true;
        const Plan plan{.segments = 3, .channels = 0, .inner = "ring"};
        if (algorithm->name.starts_with("nvls") && unsupported_reason(*algorithm, rank_layout(cluster), plan)) continue;  // no switch that adds
        expect_same(simulate({cluster, *algorithm, plan, count, Type::f32}),
                    simulate({cluster, *algorithm, plan, count, Type::f32}, all), count == 1 ? 1e-4 : 1e-7);
      }
}

/// Links that are never a bottleneck are left out of the solver: nothing may change by it.
TEST(ImpliedLinks, ChangeNothing) {
  int fewer = 0;
  for (const char* name : {"p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge", "g5.48xlarge", "p3.16xlarge", "p3.8xlarge"})
    for (const Algorithm* algorithm : algorithms()) {
      const Cluster cluster = cluster_of(ec2(name), 3, servers_for(*algorithm), {.nodes_per_leaf = 2, .oversubscription = 2});
      const auto binding = cluster.binding_links();
      fewer += static_cast<int>(std::count(binding.begin(), binding.end(), false));
      SimOptions with, without;
      without.skip_implied_links = false;
      const Plan plan{.segments = 3, .channels = 0, .inner = "ring"};
      if (algorithm->name.starts_with("nvls") && unsupported_reason(*algorithm, rank_layout(cluster), plan)) continue;  // no switch that adds
      const CollectiveResult a = simulate({cluster, *algorithm, plan, 300000, Type::f32}, with),
                             b = simulate({cluster, *algorithm, plan, 300000, Type::f32}, without);
      EXPECT_NEAR(a.time / b.time, 1, 1e-9) << algorithm->name << " on " << name;
      ASSERT_EQ(a.loads.size(), b.loads.size());
      for (std::size_t i = 0; i < a.loads.size(); ++i) EXPECT_NEAR(a.loads[i].bytes / b.loads[i].bytes, 1, 1e-9);
    }
  EXPECT_GT(fewer, 100);
}

TEST(Folding, AWrongClaimOfSymmetryIsNoticed) {
  const auto notices = [](const Algorithm& liar, const Cluster& cluster) {
    const Plan plan = with_defaults(liar, {.segments = 1, .channels = 0, .inner = {}}, rank_layout(cluster), 0);
    const auto run = [&](bool use_symmetry) {
      return run_isolated([&]() -> nlohmann::json {
        return simulate_here({cluster, liar, plan, 8000, Type::f32, Op::sum}, options(512 * 1024, use_symmetry)).time.value;
      });
    };
    const Outcome folded = run(true), plain = run(false);
    EXPECT_TRUE(plain.ok) << plain.error;
    return !folded.ok || std::abs(folded.value.get<double>() / plain.value.get<double>() - 1) > 1e-9;
  };
  Algorithm liar = *find_algorithm("tree");
  EXPECT_FALSE(notices(liar, cluster_of(flat_machine(), 8)));
  liar.symmetry = [](const Plan&) { return Symmetry::translation; };
  EXPECT_TRUE(notices(liar, cluster_of(flat_machine(), 8)));
  liar.symmetry = [](const Plan&) { return Symmetry::mirror; };
  EXPECT_TRUE(notices(liar, cluster_of(flat_machine(), 8)));
  liar = *find_algorithm("recursive-doubling");  // one channel whatever the rails
  liar.symmetry = nullptr;
  liar.channels_alike = true;
  EXPECT_TRUE(notices(liar, cluster_of(ec2("p4d.24xlarge"), 4)));
}

TEST(Folding, UnevenPartsMoveTheTimeByLessThanAnElementAPart) {
  const Cluster cluster = cluster_of(flat_machine(), 8);
  const std::size_t count = 1000003;
  const double plain = simulate({cluster, *find_algorithm("ring"), {}, count, Type::f32}, options(kWhole, false)).time.value;
  const double quick = simulate({cluster, *find_algorithm("ring"), {}, count, Type::f32}, options(kWhole, true)).time.value;
  EXPECT_NEAR(quick, plain, 14 * (4 / 12.5e9 + 4 / 300e9) + 1e-12);
}

}  // namespace
}  // namespace foreduce
