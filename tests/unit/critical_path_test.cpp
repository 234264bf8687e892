// What a collective's and a step's time is made of: closed forms where the path is known, and sums
// everywhere.
#include <gtest/gtest.h>

#include <numeric>

#include "scenarios/sweep/explain.hpp"
#include "tests/support/simulation.hpp"

namespace foreduce {
namespace {

using namespace test;

CollectiveResult recorded_run(const std::string& algorithm, const Cluster& cluster, double bytes,
                              const Plan& plan, SimOptions options) {
  options.record = Recorded::path;
  return simulate({cluster, *find_algorithm(algorithm), plan, floats_in(bytes)}, options);
}

double time_of(const std::vector<TimePart>& parts, PartKind kind) {
  double sum = 0;
  for (const TimePart& p : parts)
    if (p.kind == kind) sum += p.time.value;
  return sum;
}

double sum_of(const std::vector<TimePart>& parts) {
  return std::accumulate(parts.begin(), parts.end(), 0.0,
                         [](double sum, const TimePart& p) { return sum + p.time.value; });
}

/// Whether every rank is simulated, so that messages go on where they arrived.
enum class Ranks { all, some };

/// Each step begins when and because the one before it ended, the last at the collective's end; a
/// message that was held by data is sent by the rank that the message before it reached.
void expect_whole_path(const CollectiveResult& r, Ranks ranks) {
  const auto& path = r.record.path;
  ASSERT_FALSE(path.empty());
  EXPECT_EQ(path.front().start, 0);
  EXPECT_NEAR(path.back().end, r.time.value, 1e-9 * r.time.value);
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    EXPECT_EQ(path[i].end, path[i + 1].start);
    EXPECT_LT(path[i].start, path[i].end);
    if (ranks == Ranks::some || path[i + 1].message == path[i].message ||
        path[i].message == PathStep::kNone)
      continue;
    const MessageRecord &before = r.record.messages[path[i].message],
                        &after = r.record.messages[path[i + 1].message];
    if (path[i + 1].wait_reason == WaitReason::by_data) {
      EXPECT_TRUE(after.from == before.to || after.from == before.from)
          << before.from << ">" << before.to << " then " << after.from << ">" << after.to;
    } else if (path[i + 1].wait_reason == WaitReason::by_connection) {
      EXPECT_EQ(after.from, before.from);
      EXPECT_EQ(after.to, before.to);
    }
  }
  EXPECT_NEAR(sum_of(parts_of(r)), r.time.value, 1e-9 * r.time.value);
}

TEST(CriticalPath, ARingOnASwitchHasTwoTimesNMinusOneHops) {
  const Flat f;
  for (const int n : {2, 3, 8}) {
    SCOPED_TRACE(n);
    const double bytes = 4.0 * 3 * 8 * 65536;
    const CollectiveResult r = recorded_run("ring", cluster_of(flat_machine(f), n), bytes,
                                            {.segments = 1, .channels = 1}, in_full(kNoOverlap));
    expect_whole_path(r, Ranks::all);
    EXPECT_EQ(r.record.messages.size(), static_cast<std::size_t>(2 * (n - 1)));
    const auto parts = parts_of(r);
    const double hops = 2 * (n - 1);
    EXPECT_NEAR(time_of(parts, PartKind::latency), hops * f.latency, 1e-12);
    EXPECT_NEAR(time_of(parts, PartKind::transfer), hops * bytes / n / f.bandwidth, 1e-12);
    EXPECT_NEAR(time_of(parts, PartKind::reduction), (n - 1) * bytes / n / f.reduce_bandwidth,
                1e-12);
    EXPECT_EQ(time_of(parts, PartKind::sharing), 0);
    for (const TimePart& p : parts)
      EXPECT_EQ(p.link.empty(), p.kind != PartKind::transfer) << p.link;
  }
}

/// A star: all send to rank 0 at once, whose port they share.
TEST(CriticalPath, MessagesThatShareALinkWaitForEachOther) {
  const Flat f{.bandwidth = 1e9, .latency = 1e-6, .reduce_bandwidth = 1e30};
  Algorithm star;
  star.name = "script";
  star.run = [](Transport& t, Buffer data, Op op, const Plan&, Event) {
    Event last;
    if (t.rank() > 0) return t.send(0, Tag{}, data);
    for (int from = 1; from < t.size(); ++from) last = t.recv_reduce(from, Tag{}, data, op);
    return last;
  };
  const Cluster cluster = cluster_of(flat_machine(f), 5);
  const ChildResult child = run_in_child([&]() -> nlohmann::json {
    SimOptions options = in_full(kNoOverlap);
    options.record = Recorded::path;
    const CollectiveResult r = simulate_here({cluster, star, {}, 250'000}, options);
    const auto parts = parts_of(r);
    return {r.time.value, time_of(parts, PartKind::transfer), time_of(parts, PartKind::sharing),
            time_of(parts, PartKind::latency)};
  });
  ASSERT_TRUE(child.ok) << child.error;
  EXPECT_NEAR(child.value[0], 4e-3 + 1e-6, 1e-9);
  EXPECT_NEAR(child.value[1], 1e-3, 1e-9);  // alone a message takes a quarter of that
  EXPECT_NEAR(child.value[2], 3e-3, 1e-9);
  EXPECT_NEAR(child.value[3], 1e-6, 1e-9);
}

class CriticalPathOf : public testing::TestWithParam<std::string> {};

TEST_P(CriticalPathOf, HasNoGap) {
  const double bytes = 4.0 * 16 * 3 * 65536;
  for (const int nodes : {1, 2, 3, 4}) {
    const Algorithm& algorithm = *find_algorithm(GetParam());
    const Cluster cluster = cluster_of(wide_machine(8, 4), nodes, servers_for(algorithm));
    if (unsupported_reason(algorithm, rank_layout(cluster), {}) ||
        (GetParam() == "nvls-tree" && nodes < 2))
      continue;
    SCOPED_TRACE(nodes);
    expect_whole_path(recorded_run(GetParam(), cluster, bytes, {}, in_full()), Ranks::all);
    expect_whole_path(recorded_run(GetParam(), cluster, bytes, {}, by_symmetry()), Ranks::some);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, CriticalPathOf,
                         testing::Values("ring", "tree", "double-tree", "hierarchical",
                                         "halving-doubling", "reduction-server", "direct", "nvls"),
                         [](const auto& name) { return identifier(name.param); });

/// NCCL's transport: launches, host threads, rests and slots.
TEST(CriticalPath, NcclsPathOnEc2HasNoGap) {
  for (const auto& [instance, nodes] : {std::pair("p3dn.24xlarge", 4), {"p4d.24xlarge", 2}})
    for (const double bytes : {8192.0, 16.0 * 1048576}) {
      SCOPED_TRACE(instance);
      const auto cluster = std::make_shared<const Cluster>(cluster_of(ec2(instance), nodes));
      const auto profile = std::make_shared<const Profile>(Profiles().nearest_to(*ec2(instance)));
      const auto layout = std::make_shared<const Layout>(rank_layout(*cluster));
      for (const char* name : {"nccl", "double-tree", "hierarchical"}) {
        const Candidate candidate{method_named(name), cluster, profile, layout};
        const Question q = candidate.question(floats_in(bytes), Type::f32);
        SimOptions options;
        options.sending = q.schedule.sending;
        options.record = Recorded::path;
        const CollectiveResult r =
            simulate({*cluster, *q.schedule.algorithm, q.schedule.plan, q.count}, options);
        expect_whole_path(r, Ranks::some);
        const double launch = value_or(profile->launch, Seconds{0}).value;
        EXPECT_NEAR(time_of(parts_of(r), PartKind::launch), launch, 1e-12);
      }
    }
}

TEST(CriticalPath, RecordingChangesNoTime) {
  const Cluster cluster = cluster_of(wide_machine(8, 4), 3);
  for (const char* name : {"ring", "double-tree", "hierarchical"}) {
    const double bytes = 4.0 * 3 * 65536;
    EXPECT_EQ(recorded_run(name, cluster, bytes, {}, in_full()).time.value,
              simulated_seconds(name, cluster, bytes, in_full()));
  }
}

// Steps.

StepInput step_of_two_buckets() {
  StepInput in;
  in.forward = Seconds{10};
  in.backward = Seconds{20};
  in.optimizer = Seconds{1};
  in.overhead = Seconds{2};
  in.compute_share = 0.5;
  in.buckets = {{100, 0.25}, {300, 1.0}};
  in.recording = Recording::on;
  return in;
}

TEST(StepPath, GoesFromTheOptimizerToTheBucketAndTheGradientsThatItWaitedFor) {
  // Backward 10..; the first bucket is ready at 15, runs to 19 while backward has half its speed:
  // 5 + 4/2 of 20 are done, so backward ends at 32. The last bucket runs from there to 44.
  const Step step = play_step(step_of_two_buckets(), [](std::size_t elements) {
    return Seconds{0.04 * static_cast<double>(elements)};
  });
  ASSERT_NEAR(step.total.value, 44 + 1 + 2, 1e-12);
  const auto path = critical_path(step);
  ASSERT_EQ(path.size(), 4u);
  EXPECT_EQ(path[0].activity.work, Work::forward);
  EXPECT_EQ(path[1].activity.work, Work::backward);
  EXPECT_NEAR(path[1].end.value, 32, 1e-12);
  EXPECT_EQ(path[2].activity.work, Work::collective);
  EXPECT_EQ(path[2].activity.index, 1u);
  EXPECT_EQ(path[3].activity.work, Work::optimizer);
  EXPECT_NEAR(path[3].start.value, path[2].end.value, 1e-12);
  EXPECT_NEAR(step.total.value - path[3].end.value, 2, 1e-12);  // the step's overhead
}

TEST(StepPath, BucketThatWaitsForTheOneBeforeItLeadsThroughThatOne) {
  StepInput in = step_of_two_buckets();
  const Step step = play_step(in, [](std::size_t) { return Seconds{40}; });
  const auto path = critical_path(step);  // backward to 15, both buckets, the optimizer
  ASSERT_EQ(path.size(), 5u);
  EXPECT_EQ(path[1].activity.work, Work::backward);
  EXPECT_NEAR(path[1].end.value, 15, 1e-12);
  EXPECT_EQ(path[2].activity.index, 0u);
  EXPECT_EQ(path[3].activity.index, 1u);
}

}  // namespace
}  // namespace foreduce
