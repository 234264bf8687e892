// Reduce-scatter, all-gather, broadcast and all-to-all: their definitions, their times against
// closed forms, groups of ranks, two collectives at once, and what NCCL would choose for them.
#include "algorithms/core/collective.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "models/bounds.hpp"
#include "models/nccl_schedule.hpp"
#include "models/smddp.hpp"
#include "scenarios/report/words.hpp"
#include "scenarios/sweep/methods.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"
#include "tests/support/simulation.hpp"
#include "tests/support/sizes.hpp"

namespace foreduce {
namespace {

using namespace test;

// ------------------------------------------------------------------ definitions

TEST(Collective, NamesAreThoseOfNcclTests) {
  for (const Collective c : kCollectives) EXPECT_EQ(collective_named(name_of(c)), c);
  EXPECT_EQ(collective_named("alltoall"), Collective::all_to_all);
  EXPECT_FALSE(collective_named("all-to-all"));
}

TEST(Collective, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_reduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::reduce_scatter, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_gather, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_to_all, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::broadcast, 8), 1);
}

TEST(Collective, AnElementComesFromItsOwner) {
  // Eleven elements among three ranks: blocks of 4, 4 and 3; an all-to-all exchanges three each.
  EXPECT_EQ(origin_of(Collective::all_gather, 11, 3, 0, 7).rank, 1);
  EXPECT_EQ(origin_of(Collective::all_gather, 11, 3, 0, 8).rank, 2);
  EXPECT_EQ(origin_of(Collective::broadcast, 11, 3, 2, 8).rank, 0);
  EXPECT_EQ(origin_of(Collective::reduce_scatter, 11, 3, 2, 9).rank, -1);
  EXPECT_EQ(elements_of(Collective::all_to_all, 11, 3), 9u);
  // Rank 1's element 7 lies in its block from rank 2, which is rank 2's block for rank 1.
  EXPECT_EQ(origin_of(Collective::all_to_all, 11, 3, 1, 7).rank, 2);
  EXPECT_EQ(origin_of(Collective::all_to_all, 11, 3, 1, 7).element, 4u);
  const Buffer own = result_of(Collective::reduce_scatter, {nullptr, 0, 11}, 3, 2);
  EXPECT_EQ(own.offset, 8u);
  EXPECT_EQ(own.count, 3u);
}

// ------------------------------------------------------------------ times

double seconds(const char* name, Collective collective, const Cluster& cluster, double bytes,
               const SimOptions& options = in_full(kNoOverlap), const Plan& plan = {}) {
  return simulate({cluster, *find_algorithm(name, collective), plan, floats_in(bytes)}, options)
      .time.value;
}

struct Form {
  const char* name;
  Collective collective;
  /// Latencies, times the bytes over the bandwidth, and over the reduction rate, on n ranks.
  double (*steps)(double n), (*wire)(double n), (*reduced)(double n);
};
double none(double) { return 0; }
double others(double n) { return (n - 1) / n; }
double log_up(double n) { return std::ceil(std::log2(n)); }
/// Blocks of one transfer are reduced while the next ones arrive: only the last is not hidden.
double last_blocks(double n) { return log_up(n) / n; }

TEST(CollectiveTime, EqualsClosedFormsOnAFlatSwitch) {
  const auto chain = [](double n) { return n - 1; };
  const Form forms[] = {
      {"ring", Collective::reduce_scatter, chain, others, others},
      {"ring", Collective::all_gather, chain, others, none},
      {"bruck", Collective::reduce_scatter, log_up, others, last_blocks},
      {"bruck", Collective::all_gather, log_up, others, none},
      {"pat", Collective::reduce_scatter, log_up, others, last_blocks},
      {"pat", Collective::all_gather, log_up, others, none},
      {"recursive-halving", Collective::reduce_scatter, log_up, others, last_blocks},
      {"recursive-doubling", Collective::all_gather, log_up, others, none},
      {"ring", Collective::broadcast, chain, chain, none},
      {"binomial", Collective::broadcast, log_up, log_up, none},
  };
  for (const Form& form : forms)
    for (const int n : {2, 4, 16, 64}) {
      const Flat f;
      const double bytes = 4.0 * 64 * 16384;
      const double expected = form.steps(n) * f.latency + form.wire(n) * bytes / f.bandwidth +
                              form.reduced(n) * bytes / f.reduce_bandwidth;
      const double time =
          seconds(form.name, form.collective, cluster_of(flat_machine(f), n), bytes);
      EXPECT_TRUE(close(time, expected, 1e-6))
          << form.name << " " << name_of(form.collective) << " on " << n << ": " << time << " and "
          << expected;
    }
}

TEST(CollectiveTime, StaysWithinItsBytesAndStepsOnAnyNumberOfRanks) {
  for (const int n : {3, 5, 7, 12, 31})
    for (const char* name : {"bruck", "pat"})
      for (const Collective c : {Collective::reduce_scatter, Collective::all_gather}) {
        const Flat f{.bandwidth = 12.5e9, .latency = 5e-6, .reduce_bandwidth = 1e30};
        const double bytes = 4.0 * n * 65536;
        const double time = seconds(name, c, cluster_of(flat_machine(f), n), bytes);
        EXPECT_TRUE(close(time, log_up(n) * f.latency + others(n) * bytes / f.bandwidth, 1e-6))
            << name << " " << name_of(c) << " on " << n;
      }
}

/// All exchange all at once: a port's bytes and one latency.
TEST(CollectiveTime, DirectExchangesTakeAPortsBytes) {
  for (const int n : {2, 8, 32}) {
    const Flat f{.bandwidth = 12.5e9, .latency = 5e-6, .reduce_bandwidth = 1e30};
    const double bytes = 4.0 * 64 * 16384, wire = others(n) * bytes / f.bandwidth;
    const Cluster cluster = cluster_of(flat_machine(f), n);
    for (const auto& [name, c] : {std::pair{"direct", Collective::all_gather},
                                  {"direct", Collective::reduce_scatter},
                                  {"pairwise", Collective::all_to_all}}) {
      const double time = seconds(name, c, cluster, bytes);
      EXPECT_TRUE(close(time, wire + f.latency, 1e-6)) << name_of(c);
    }
  }
}

/// A ring's all-reduce over its parts, one after the other.
double whole_over_parts(const Cluster& cluster, double bytes) {
  const Plan plan{.segments = 1,
                  .channels = static_cast<int>(rank_layout(cluster).channels.size())};
  const auto time = [&](Collective c) { return seconds("ring", c, cluster, bytes, {}, plan); };
  return time(Collective::all_reduce) /
         (time(Collective::reduce_scatter) + time(Collective::all_gather));
}

TEST(CollectiveTime, ScatterAndGatherTakeARingsAllReduce) {
  const double bytes = 4.0 * 32 * 8 * 65536;
  for (const int n : {2, 8, 32})
    EXPECT_TRUE(close(whole_over_parts(cluster_of(flat_machine({}), n), bytes), 1, 1e-6)) << n;
  // Where ranks end their reduce-scatter at different times, an all-reduce has no barrier between.
  for (const char* instance : {"p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge"}) {
    const double share = whole_over_parts(cluster_of(ec2(instance), 4), bytes);
    EXPECT_LE(share, 1 + 1e-9) << instance;
    EXPECT_GE(share, 0.97) << instance;
  }
}

/// What is packed into one transfer costs one message.
TEST(CollectiveTime, PackedBlocksCostOneMessage) {
  Flat slow;
  slow.latency = 1e-3;
  const Cluster cluster = cluster_of(flat_machine(slow), 16);
  const double few = seconds("bruck", Collective::all_gather, cluster, 64);
  EXPECT_TRUE(close(few, 4e-3, 1e-3)) << few;
}

// ------------------------------------------------------------------ groups

TEST(RankGroups, AreStridesApart) {
  EXPECT_EQ((RankGroups{8, 1}.of(13)), (std::vector<int>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ((RankGroups{4, 8}.of(13)), (std::vector<int>{5, 13, 21, 29}));
  EXPECT_EQ((RankGroups{2, 4}.of(13)), (std::vector<int>{9, 13}));
  EXPECT_EQ((RankGroups{2, 4}.of(3)), (std::vector<int>{3, 7}));
}

double seconds_of_groups(const Cluster& cluster, Collective collective, RankGroups groups,
                         double bytes) {
  return simulate({cluster,
                   *find_algorithm("ring", collective),
                   {},
                   floats_in(bytes),
                   Type::f32,
                   Op::sum,
                   groups})
      .time.value;
}

TEST(RankGroups, AGroupOfAllRanksIsTheWhole) {
  const Cluster cluster = cluster_of(flat_machine({}), 8);
  for (const Collective c : {Collective::all_reduce, Collective::all_gather})
    EXPECT_DOUBLE_EQ(seconds_of_groups(cluster, c, {8, 1}, 8 * kMiB),
                     seconds("ring", c, cluster, 8 * kMiB, {}));
}

TEST(RankGroups, GroupsWithinNodesTakeAsLongAsOneNodeAlone) {
  const double one =
      seconds("ring", Collective::all_gather, cluster_of(ec2("p4d.24xlarge"), 1), 64 * kMiB, {});
  EXPECT_TRUE(close(seconds_of_groups(cluster_of(ec2("p4d.24xlarge"), 4), Collective::all_gather,
                                      {8, 1}, 64 * kMiB),
                    one, 1e-9));
}

/// A p4d has a NIC for two GPUs: rings of equal places share it, so each has half.
TEST(RankGroups, AcrossNodesShareTheNics) {
  const Cluster cluster = cluster_of(ec2("p4d.24xlarge"), 4);
  const double bytes = 256 * kMiB,
               time = seconds_of_groups(cluster, Collective::all_gather, {4, 8}, bytes);
  const double alone = 0.75 * bytes / 12.5e9;  // of a ring on four nodes with the NIC to itself
  EXPECT_GT(time, 1.99 * alone);
  EXPECT_LT(time, 2.2 * alone);
}

TEST(RankGroups, AcrossNodesAreReducedBySymmetryExactly) {
  const Cluster cluster = cluster_of(ec2("p5.48xlarge"), 4);
  for (const Collective c :
       {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
    const CollectiveCall call{
        cluster, *find_algorithm("ring", c), {.segments = 2}, 4u << 20, Type::f32, Op::sum, {4, 8}};
    const CollectiveResult reduced = simulate(call, by_symmetry()),
                           full = simulate(call, in_full());
    EXPECT_TRUE(reduced.symmetric);
    expect_same_result(reduced, full, 1e-9);
  }
}

/// Groups of two nodes on six: a node cannot take any other's place.
TEST(RankGroups, GroupsOfSeveralNodesKeepTheirNodes) {
  const Cluster cluster = cluster_of(ec2("p5.48xlarge"), 6);
  for (const RankGroups groups : {RankGroups{16, 1}, RankGroups{2, 8}, RankGroups{3, 16}}) {
    const CollectiveCall call{
        cluster, *find_algorithm("ring", Collective::all_gather), {}, 48u << 14, Type::f32, Op::sum,
        groups};
    expect_same_result(simulate(call, by_symmetry()), simulate(call, in_full()), 1e-9);
  }
}

/// Where every GPU has a rail of its own, a tree's groups are alike, whatever their data divides
/// into. A double tree is its own mirror image besides, to an element in which its halves differ.
TEST(RankGroups, TreesAcrossNodesReduceBySymmetryExactly) {
  const Cluster cluster = cluster_of(ec2("p5.48xlarge"), 6);
  for (const char* name : {"double-tree", "tree", "halving-doubling"})
    for (const std::size_t count : {std::size_t{6} << 18, std::size_t{1'000'003}}) {
      const CollectiveCall call{
          cluster, *find_algorithm(name), {.segments = 3}, count, Type::f32, Op::sum, {6, 8}};
      const CollectiveResult reduced = simulate(call, by_symmetry()),
                             full = simulate(call, in_full());
      EXPECT_TRUE(reduced.symmetric) << name;
      const bool mirrored = call.algorithm.name == "double-tree";
      expect_same_result(reduced, full, mirrored && count % 2 != 0 ? 1e-5 : 1e-9);
      EXPECT_EQ(full.messages, (mirrored ? 16 : 8) * reduced.messages) << name << " " << count;
    }
}

/// Groups in which GPUs share rails, or that leave GPUs out of a node's order, are simulated right.
TEST(RankGroups, TreesOnSharedRailsAreSimulatedExactly) {
  const Cluster cluster = cluster_of(ec2("p4d.24xlarge"), 4);
  const CollectiveCall call{
      cluster, *find_algorithm("double-tree"), {.segments = 3}, 1'000'003, Type::f32, Op::sum,
      {4, 8}};
  expect_same_result(simulate(call, by_symmetry()), simulate(call, in_full()), 1e-5);
}

/// Groups of every second GPU have four a node, and pass each node over all of its rails.
TEST(RankGroups, SeveralRanksANodeUseAllRails) {
  const Cluster cluster = cluster_of(ec2("p4de.24xlarge"), 2);
  for (const RankGroups& groups : {RankGroups{8, 2}, RankGroups{}}) {
    const CollectiveCall call{cluster,
                              *find_algorithm("ring"),
                              {.segments = 1, .channels = 0},
                              64'000'000,
                              Type::f32,
                              Op::sum,
                              groups};
    const CollectiveResult reduced = simulate(call, by_symmetry()),
                           full = simulate(call, in_full());
    expect_same_result(reduced, full, 1e-9);
    double least = 1e300, most = 0;
    const auto used = [&](const char* link) {
      const auto load = std::find_if(full.loads.begin(), full.loads.end(),
                                     [&](const LinkLoad& l) { return l.link == link; });
      return load == full.loads.end() ? 0.0 : load->bytes;
    };
    for (const char* link : {"nic0>network", "nic1>network", "nic2>network", "nic3>network"}) {
      least = std::min(least, used(link));
      most = std::max(most, used(link));
    }
    EXPECT_GT(least, 0.9 * most);
  }
}

// ------------------------------------------------------------------ two at once

CollectiveResult two_at_once(const Cluster& cluster, Collective a, RankGroups of_a, Collective b,
                             RankGroups of_b, double bytes, const SimOptions& options = {}) {
  const std::size_t count = floats_in(bytes);
  return simulate({cluster,
                   *find_algorithm("ring", a),
                   {},
                   count,
                   Type::f32,
                   Op::sum,
                   of_a,
                   Beside{find_algorithm("ring", b), {}, count, of_b}},
                  options);
}

TEST(TwoCollectives, ShareALinkFairly) {
  const Flat f{.bandwidth = 12.5e9, .latency = 1e-6, .reduce_bandwidth = 1e30};
  const Cluster cluster = cluster_of(flat_machine(f), 8);
  const double alone = seconds("ring", Collective::all_gather, cluster, 64 * kMiB, {});
  const CollectiveResult both =
      two_at_once(cluster, Collective::all_gather, {}, Collective::reduce_scatter, {}, 64 * kMiB);
  EXPECT_GT(both.first.value, 1.95 * alone);
  EXPECT_LT(both.first.value, 2.05 * alone);
  EXPECT_EQ(std::max(both.first, both.second), both.time);
}

TEST(TwoCollectives, DoNotMeetInsideAndBetweenNodes) {
  const Cluster cluster = cluster_of(ec2("p5.48xlarge"), 4);
  const double bytes = 64 * kMiB;
  const CollectiveResult both =
      two_at_once(cluster, Collective::all_gather, {8, 1}, Collective::all_reduce, {4, 8}, bytes);
  EXPECT_LT(both.first.value,
            1.1 * seconds_of_groups(cluster, Collective::all_gather, {8, 1}, bytes));
  EXPECT_LT(both.second.value,
            1.1 * seconds_of_groups(cluster, Collective::all_reduce, {4, 8}, bytes));
}

TEST(TwoCollectives, AreReducedBySymmetryExactly) {
  const Cluster cluster = cluster_of(ec2("p4d.24xlarge"), 4);
  const auto run = [&](const SimOptions& options) {
    return two_at_once(cluster, Collective::all_gather, {}, Collective::reduce_scatter, {},
                       16 * kMiB, options);
  };
  const CollectiveResult reduced = run(by_symmetry()), full = run(in_full());
  EXPECT_TRUE(reduced.symmetric);
  EXPECT_TRUE(close(reduced.first.value, full.first.value, 1e-9));
  EXPECT_TRUE(close(reduced.second.value, full.second.value, 1e-9));
}

/// What two collectives do beside each other, from simulations of both and of each.
std::array<double, 2> speeds_of(const Candidate& a, const Candidate& b, double bytes) {
  const ConcurrentPair t = concurrent_pair(a.question(floats_in(bytes), Type::f32),
                                           b.question(floats_in(bytes), Type::f32));
  Batch batch;
  const std::size_t both = batch.ask(t.both), first = batch.ask(t.first),
                    second = batch.ask(t.second);
  BatchOptions options;
  options.long_pipelines = LongPipelines::simulate_whole;
  batch.run(options);
  for (const std::size_t n : {both, first, second}) EXPECT_TRUE(batch[n].ok) << batch[n].error;
  return concurrent_speeds(batch[both].result, batch[first].result.time, batch[second].result.time);
}

TEST(TwoCollectives, SlowEachOtherWhereTheyMeet) {
  const auto cluster = std::make_shared<const Cluster>(cluster_of(ec2("p4d.24xlarge"), 4));
  const auto layout = std::make_shared<const Layout>(rank_layout(*cluster));
  const auto profile = std::make_shared<const Profile>(Profiles().made_for("p4d.24xlarge"));
  const auto by_nccl = [&](Collective c, RankGroups groups) {
    return Candidate{method_named("nccl", "", c), cluster, profile, layout, 0, groups};
  };
  const auto meet = speeds_of(by_nccl(Collective::all_gather, {}),
                              by_nccl(Collective::reduce_scatter, {}), 256 * kMiB);
  const auto apart = speeds_of(by_nccl(Collective::all_gather, {8, 1}),
                               by_nccl(Collective::all_reduce, {4, 8}), 256 * kMiB);
  for (const double speed : meet) {
    EXPECT_GT(speed, 0.4);
    EXPECT_LT(speed, 0.75);
  }
  for (const double speed : apart) EXPECT_GT(speed, 0.8);
}

TEST(TwoCollectives, HaveSpeedsThatFollowFromTheirEnds) {
  CollectiveResult both;
  both.first = Seconds{2};
  both.second = Seconds{3};
  // Alone 1 s and 2 s: for 2 s both run, the first at half its speed; then the second has 1 s left.
  const auto speeds = concurrent_speeds(both, Seconds{1}, Seconds{2});
  EXPECT_DOUBLE_EQ(speeds[0], 0.5);
  EXPECT_DOUBLE_EQ(speeds[1], 0.5);
}

// ------------------------------------------------------------------ NCCL

NcclChoice choice(const Cluster& cluster, Collective collective, double bytes,
                  const NcclForced& forced = {}) {
  const auto profile = Profiles().nearest_to(cluster.node(0).machine());
  return nccl_choice({cluster, rank_layout(cluster), std::make_shared<const Profile>(profile)},
                     Bytes{bytes}, forced, collective);
}

TEST(NcclCollective, GoesByRingOrNvlsAndNeverByTree) {
  for (const char* instance : {"p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge"})
    for (const int nodes : {1, 2, 8})
      for (const Collective c : {Collective::reduce_scatter, Collective::all_gather})
        for (double bytes = 1024; bytes < 1e10; bytes *= 16) {
          const NcclAlgorithm a = choice(cluster_of(ec2(instance), nodes), c, bytes).algorithm;
          EXPECT_TRUE(a == NcclAlgorithm::ring || (nodes == 1 && a == NcclAlgorithm::nvls))
              << instance << " " << to_text(a);
        }
  EXPECT_EQ(choice(cluster_of(ec2("p5.48xlarge"), 4), Collective::broadcast, 1e6).algorithm,
            NcclAlgorithm::ring);
  EXPECT_EQ(choice(cluster_of(ec2("p5.48xlarge"), 4), Collective::all_to_all, 1e6).algorithm,
            NcclAlgorithm::pairwise);
}

TEST(NcclCollective, FollowsAwssTunerOnP5en) {
  // Corners of aws-ofi-nccl's regions for 16 ranks: LL to 768 KiB, LL128 to 226 MiB, then Simple.
  // The tuner is asked on more than two nodes.
  const Cluster four = cluster_of(ec2("p5en.48xlarge"), 4);
  EXPECT_EQ(choice(four, Collective::all_gather, 512 * 1024).protocol, NcclProtocol::ll);
  EXPECT_EQ(choice(four, Collective::all_gather, 16 * kMiB).protocol, NcclProtocol::ll128);
  EXPECT_EQ(choice(four, Collective::all_gather, 4096 * kMiB).protocol, NcclProtocol::simple);
  EXPECT_EQ(choice(four, Collective::all_gather, 16 * kMiB).why, "aws-ofi-nccl's tuner");
}

TEST(NcclCollective, TakesPatWithOneRankANode) {
  const Cluster cluster = cluster_of(ec2("p5.48xlarge"), 16);
  const Layout rail = rank_layout(cluster).subset(RankGroups{16, 8}.of(0));
  const Profile profile = Profiles().made_for("p5.48xlarge");
  const auto with = [&](double bytes) {
    return nccl_choice({cluster, rail, std::make_shared<const Profile>(profile)}, Bytes{bytes}, {},
                       Collective::all_gather)
        .algorithm;
  };
  EXPECT_EQ(with(4096), NcclAlgorithm::pat);
  EXPECT_EQ(with(1024 * kMiB), NcclAlgorithm::ring);
  NcclForced before;
  before.release = "2.22";  // PAT came with 2.23
  EXPECT_EQ(nccl_choice({cluster, rail, std::make_shared<const Profile>(profile)}, Bytes{4096},
                        before, Collective::all_gather)
                .algorithm,
            NcclAlgorithm::ring);
}

TEST(NcclCollective, RefusesATree) {
  const Cluster cluster = cluster_of(ec2("p5.48xlarge"), 4);
  EXPECT_SAYS(
      error_of([&] { choice(cluster, Collective::all_gather, 1e6, {NcclAlgorithm::double_tree}); }),
      "NCCL has no all-gather by double-tree");
}

// ------------------------------------------------------------------ SMDDP

Candidate by_smddp(const char* instance, int nodes, Collective collective) {
  const auto cluster = std::make_shared<const Cluster>(cluster_of(ec2(instance), nodes));
  return {method_named("smddp", "", collective), cluster,
          std::make_shared<const Profile>(Profiles().made_for(instance)),
          std::make_shared<const Layout>(rank_layout(*cluster)), 0};
}

TEST(Smddp, RunsWhereAwsSupportsIt) {
  const auto why = [](const char* instance, Collective collective) {
    return by_smddp(instance, 2, collective).unsupported();
  };
  EXPECT_EQ(why("p4d.24xlarge", Collective::all_gather), "");
  EXPECT_EQ(why("p4de.24xlarge", Collective::reduce_scatter), "");
  EXPECT_EQ(why("p5.48xlarge", Collective::all_gather),
            "SMDDP supports p4d.24xlarge and p4de.24xlarge");
  EXPECT_SAYS(why("p3dn.24xlarge", Collective::all_gather), "an all-reduce only");
  Machine elsewhere = machine_named("dgx-a100");  // like p4de
  EXPECT_EQ(smddp_unsupported(elsewhere, Collective::all_gather),
            "SMDDP supports p4d.24xlarge and p4de.24xlarge of EC2, and dgx-a100 has infiniband "
            "between nodes");
}

TEST(Smddp, LeavesToNcclWhatItDoesNotHave) {
  const auto name = [](int nodes, Collective collective) {
    const Question q = by_smddp("p4d.24xlarge", nodes, collective).question(1u << 28, Type::f32);
    return schedule_words(q.schedule.name());
  };
  EXPECT_EQ(name(4, Collective::all_gather), "hierarchical");
  EXPECT_EQ(name(4, Collective::reduce_scatter), "ring Simple");
  EXPECT_SAYS(name(1, Collective::all_gather), "ring");
}

}  // namespace
}  // namespace foreduce
