// The simulated network: flows that share links, messages of one connection, what a run reports,
// and what goes wrong.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"
#include "tests/support/simulation.hpp"

namespace foreduce {
namespace {

using namespace test;

constexpr double kBytes = 4.0 * 1048576;

/// What one message of all the bytes takes on a flat network.
double message_seconds(const Flat& f) { return f.latency + kBytes / f.bandwidth; }

TEST(NetworkModel, SharesALinkInEqualParts) {
  const Flat f;
  const double time = run_script(
      cluster_of(flat_machine(f), 3),
      [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
        if (t.rank() > 0) return t.send(0, {}, b.chunk(2, t.rank() - 1));
        t.recv(1, {}, b.chunk(2, 0));
        return t.recv(2, {}, b.chunk(2, 1));
      },
      kBytes);
  EXPECT_TRUE(close(time, message_seconds(f), 1e-6));  // two halves, each at half the bandwidth
}

TEST(NetworkModel, OppositeDirectionsDoNotShare) {
  const Flat f;
  const double time = run_script(
      cluster_of(flat_machine(f), 2),
      [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
        t.send(1 - t.rank(), {}, b);
        return t.recv(1 - t.rank(), {}, b);
      },
      kBytes);
  EXPECT_TRUE(close(time, message_seconds(f), 1e-6));
}

TEST(NetworkModel, EmptyMessageTakesItsLatency) {
  const Flat f;
  const double time = run_script(
      cluster_of(flat_machine(f), 2),
      [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
        return t.rank() == 0 ? t.send(1, {}, b.chunk(2, 0)) : t.recv(0, {}, b.chunk(2, 0));
      },
      0);
  EXPECT_TRUE(close(time, f.latency, 1e-6));
}

TEST(NetworkModel, MessagesOfAConnectionPayLatencyOnce) {
  const Flat f;
  const double time = run_script(
      cluster_of(flat_machine(f), 2),
      [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
        for (int k = 0; k < 64; ++k)
          t.rank() == 0 ? t.send(1, {0, k}, b.segment(64, k)) : t.recv(0, {0, k}, b.segment(64, k));
        return {};
      },
      kBytes);
  EXPECT_TRUE(close(time, message_seconds(f), 1e-6));
}

TEST(NetworkModel, DeadlockReportsWhoWaitsForWhom) {
  const auto everybody_receives = [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
    return t.recv(1 - t.rank(), {7, 3}, b);
  };
  const std::string text = error_of<TransportError>(
      [&] { run_script(cluster_of(flat_machine(), 2), everybody_receives, 4096); });
  EXPECT_SAYS(text, "deadlock");
  EXPECT_SAYS(text, "rank 0: recv from rank 1");
  EXPECT_SAYS(text, "rank 1: recv from rank 0");
  EXPECT_SAYS(text, "step 7, segment 3");
  EXPECT_SAYS(text, "4096 bytes");
}

TEST(NetworkModel, SizesMustAgree) {
  const auto half_for_all = [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
    return t.rank() == 0 ? t.send(1, {}, b.chunk(2, 0)) : t.recv(0, {}, b);
  };
  EXPECT_THROW(run_script(cluster_of(flat_machine(), 2), half_for_all, 4096), TransportError);
}

TEST(CollectiveResult, HoldsTimelineLoadsAndBottleneck) {
  const Flat f;
  const int n = 4;
  SimOptions options = in_full(kNoOverlap);
  options.record_timeline = true;
  const Cluster cluster = cluster_of(flat_machine(f), n);
  const CollectiveResult r =
      simulate({cluster, *find_algorithm("ring"), {}, floats_in(kBytes)}, options);

  EXPECT_EQ(r.timeline.size(), 4u * 6 * 2);  // 2(n-1) steps, a send and a receive each, on n ranks
  double last = 0;
  for (const Span& span : r.timeline) {
    EXPECT_LE(span.posted, span.ended);
    EXPECT_EQ(span.bytes, kBytes / n);
    last = std::max(last, span.ended);
  }
  EXPECT_NEAR(last, r.time.value, 1e-12);

  ASSERT_EQ(r.loads.size(), 2u);  // out of the port and into it
  for (const LinkLoad& load : r.loads) {
    EXPECT_NEAR(load.bytes, 2.0 * (n - 1) / n * kBytes, 1e-3);
    EXPECT_NEAR(load.utilisation, load.bytes / f.bandwidth / r.time.value, 1e-9);
  }
  EXPECT_EQ(r.bottleneck, r.loads[0].link);
}

// ------------------------------------------------------------------ short cuts that must not
// change a time

/// An oversubscribed cluster of three nodes on two leaves, for every algorithm that can run on it.
template <class Visit>
void for_each_algorithm_on(const char* instance, const Visit& visit) {
  const Plan plan{.segments = 3, .channels = 0, .inner = "ring"};
  for (const Algorithm* algorithm : all_algorithms()) {
    const Cluster cluster = cluster_of(ec2(instance), 3, servers_for(*algorithm),
                                       {.nodes_per_leaf = 2, .oversubscription = 2});
    // Not every NVSwitch can reduce, PAT wants one rank a node, and three nodes are no power of
    // two. All other algorithms must run everywhere.
    const bool particular = algorithm->name.starts_with("nvls") || algorithm->name == "pat" ||
                            algorithm->name.starts_with("recursive");
    if (particular && unsupported_reason(*algorithm, rank_layout(cluster), plan)) continue;
    SCOPED_TRACE(testing::Message() << algorithm->name << " on " << instance);
    visit(*algorithm, cluster, plan);
  }
}

/// Each algorithm on an oversubscribed fabric; tests/unit/solver_test.cpp draws many more cases.
TEST(NetworkModel, OwnSolverGivesSimGridsTimes) {
  SimOptions judge;
  judge.solver = Solver::simgrid;
  for (const char* instance : {"p3dn.24xlarge", "p4d.24xlarge", "g5.48xlarge", "p3.8xlarge"})
    for (const std::size_t count : {std::size_t{1}, std::size_t{3000}, std::size_t{3000000}})
      for_each_algorithm_on(
          instance, [&](const Algorithm& algorithm, const Cluster& cluster, const Plan& plan) {
            SCOPED_TRACE(count);
            // A part of an element takes little more than SimGrid's precision, 1e-14 s.
            expect_same_result(simulate({cluster, algorithm, plan, count}),
                               simulate({cluster, algorithm, plan, count}, judge),
                               count == 1 ? 1e-8 : 1e-9);
          });
}

/// A rank that waits in the middle of its schedule goes on while other messages are on their way.
TEST(NetworkModel, RankGoesOnWhenWhatItWaitsForHasHappened) {
  const Flat f;
  const double time = run_script(
      cluster_of(flat_machine(f), 4),
      [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
        const Buffer half = b.chunk(2, 0), other = b.chunk(2, 1);
        switch (t.rank()) {
          case 0: t.send(1, {0}, half); return t.recv(1, {1}, other);
          case 1: t.wait(t.recv(0, {0}, half)); return t.send(0, {1}, other);
          case 2:
            for (int k = 0; k < 100; ++k) t.send(3, {k}, b.segment(100, k));
            return {};
          default:
            for (int k = 0; k < 100; ++k) t.recv(2, {k}, b.segment(100, k));
            return {};
        }
      },
      kBytes);
  EXPECT_TRUE(close(time, 2 * f.latency + kBytes / f.bandwidth, 1e-6));
}

/// A schedule that is posted as it runs takes the time of one that is posted at once.
TEST(NetworkModel, PausesOfRanksChangeNothing) {
  SimOptions at_once;
  at_once.most_open = kAllOpen;
  for (const char* instance : {"p3dn.24xlarge", "p4d.24xlarge", "g5.48xlarge"})
    for_each_algorithm_on(
        instance, [&](const Algorithm& algorithm, const Cluster& cluster, const Plan& plan) {
          const CollectiveResult want = simulate({cluster, algorithm, plan, 300000}, at_once);
          for (const std::size_t most : {2u, 7u, 64u}) {
            SCOPED_TRACE(most);
            SimOptions paused;
            paused.pauses_from = 0;
            paused.most_open = most * static_cast<std::size_t>(cluster.gpus());
            expect_same_result(simulate({cluster, algorithm, plan, 300000}, paused), want, 1e-9);
          }
        });
}

/// Rank 0 posts its token behind more receives than it may have open. Rank 1 sends only some of
/// their messages without it, so rank 0's pause ends late, which must not cost time.
TEST(NetworkModel, PauseThatHoldsUpASendIsTakenBack) {
  const Flat f;
  const double time = run_script(
      cluster_of(flat_machine(f), 2),
      [](Transport& t, Buffer b, Op, const Plan&, Event) -> Event {
        constexpr int kMessages = 3000, kWithoutToken = 100;
        const Buffer token{nullptr, 0, 0, b.type};
        const auto post = [&](int k, Event after) {
          return t.rank() == 0 ? t.recv(1, {0, k}, b.segment(kMessages, k))
                               : t.send(0, {0, k}, b.segment(kMessages, k), after);
        };
        for (int k = 0; k < kWithoutToken; ++k) post(k, {});
        const Event go = t.rank() == 0 ? Event{} : t.recv(0, {1, 0}, token);
        for (int k = kWithoutToken; k < kMessages; ++k) post(k, go);
        return t.rank() == 0 ? t.send(1, {1, 0}, token) : Event{};
      },
      4 * kBytes);
  EXPECT_TRUE(close(time, f.latency + 4 * kBytes / f.bandwidth, 1e-6));
}

/// Links that can never be a bottleneck are left out of the solver.
TEST(NetworkModel, ImpliedLinksChangeNothing) {
  SimOptions all_links;
  all_links.skip_implied_links = false;
  std::ptrdiff_t skipped = 0;
  for (const char* instance :
       {"p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge", "g5.48xlarge", "p3.16xlarge", "p3.8xlarge"})
    for_each_algorithm_on(
        instance, [&](const Algorithm& algorithm, const Cluster& cluster, const Plan& plan) {
          const std::vector<bool> binding = cluster.binding_links();
          skipped += std::count(binding.begin(), binding.end(), false);
          const CollectiveResult quick = simulate({cluster, algorithm, plan, 300000});
          const CollectiveResult thorough = simulate({cluster, algorithm, plan, 300000}, all_links);
          expect_same_result(quick, thorough, 1e-9);
        });
  EXPECT_GT(skipped, 100);
}

}  // namespace
}  // namespace foreduce
