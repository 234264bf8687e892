// One estimator for all: equal questions are simulated once.
#include "sim/batch.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "input/machine_memory.hpp"
#include "models/rank_layout.hpp"
#include "scenarios/sweep/estimate.hpp"
#include "sim/child_process.hpp"
#include "sim/expected_cost.hpp"
#include "sim/wrong_sum.hpp"
#include "tests/support/files.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

std::shared_ptr<const Cluster> flat_cluster(int ranks) {
  return std::make_shared<const Cluster>(cluster_of(flat_machine(), ranks));
}

Question ring_question(const std::shared_ptr<const Cluster>& cluster, std::size_t count) {
  const Bytes bytes{4.0 * static_cast<double>(count)};
  return {cluster,
          own_schedule(*find_algorithm("ring"), {},
                       {*cluster, rank_layout(*cluster),
                        std::make_shared<const Profile>(Profiles().load("ideal"))},
                       bytes),
          count, Type::f32};
}

/// How many simulations a batch needs.
std::size_t simulations_of(const std::vector<CollectiveRequest>& requests) {
  std::size_t simulations = 0;
  BatchOptions options;
  options.progress = [&](std::size_t, std::size_t total) { simulations = total; };
  estimate_collectives(requests, options);
  return simulations;
}

CollectiveRequest request(const std::shared_ptr<const Cluster>& cluster,
                          const std::shared_ptr<const Profile>& profile, double bytes) {
  return {cluster, profile, Bytes{bytes}, reported_method(NcclAlgorithm::ring)};
}

TEST(Batch, SimulatesAnAlternativeOnlyWhereItMayBeFaster) {
  const auto cluster = flat_cluster(4);
  const Question asked = ring_question(cluster, 1000), slower = ring_question(cluster, 2000),
                 unclear = ring_question(cluster, 3000);
  Batch batch;
  const std::size_t first = batch.ask(asked), needless = batch.ask(slower, {{first, Seconds{1e3}}}),
                    tried = batch.ask(unclear, {{first, Seconds{1e-9}}});
  batch.run({});
  EXPECT_TRUE(batch[needless].known);
  EXPECT_TRUE(batch[needless].needless);
  EXPECT_FALSE(batch[needless].ok);
  EXPECT_EQ(batch.in_place_of(needless), first);
  EXPECT_TRUE(batch[tried].ok);
  EXPECT_EQ(batch.in_place_of(tried), tried);
  EXPECT_EQ(batch.ask(slower), needless);  // now for itself
  batch.run({});
  EXPECT_TRUE(batch[needless].ok);
  EXPECT_EQ(batch.in_place_of(needless), needless);
  EXPECT_GT(batch[needless].result.time, batch[first].result.time);
}

// Small clusters were never counted: 673 MB were taken where 100 were allowed.
TEST(ExpectedCost, CountsLongPipelinesOfSmallClusters) {
  const auto cluster = flat_cluster(16);
  Question q = ring_question(cluster, 1'000'000'000);
  const auto why = [&](int segments) {
    Plan plan = q.schedule.plan;
    plan.segments = segments;
    return size_notice({*cluster, *q.schedule.algorithm, plan, q.count}, Bytes{100e6}).too_large;
  };
  EXPECT_EQ(why(64), "");
  EXPECT_SAYS(why(65536), "more than --max-memory");
}

// Two minutes went by without a word.
TEST(ExpectedCost, SaysBeforehandWhatTakesLong) {
  const auto cluster = flat_cluster(16);
  const Question q = ring_question(cluster, 1'000'000'000);
  const auto told = [&](int segments) {
    Plan plan = q.schedule.plan;
    plan.segments = segments;
    return size_notice({*cluster, *q.schedule.algorithm, plan, q.count}, Bytes{100e9}).long_one;
  };
  EXPECT_EQ(told(64), "");
  EXPECT_SAYS(told(1 << 18), "messages takes about ");
}

TEST(Batch, GivesEqualQuestionsOneNumber) {
  Batch batch;
  const auto cluster = flat_cluster(4);
  const std::size_t first = batch.ask(ring_question(cluster, 1000));
  EXPECT_EQ(batch.ask(ring_question(cluster, 1000)), first);
  EXPECT_NE(batch.ask(ring_question(cluster, 1001)), first);
  Question segmented = ring_question(cluster, 1000);
  segmented.schedule.plan.segments = 4;
  EXPECT_NE(batch.ask(segmented), first);
  EXPECT_NE(batch.ask(ring_question(flat_cluster(5), 1000)), first);
  EXPECT_EQ(batch.size(), 4u);
}

TEST(Batch, SimulatesEqualRequestsOnce) {
  const auto cluster = flat_cluster(4);
  const auto profile = std::make_shared<const Profile>(Profiles().load("ideal"));
  const CollectiveRequest one = request(cluster, profile, 4096);
  EXPECT_EQ(simulations_of({one}), 1u);
  EXPECT_EQ(simulations_of({one, one, one}), 1u);
  EXPECT_EQ(simulations_of({one, request(cluster, profile, 8192)}), 2u);
}

TEST(Batch, AnswersDoNotHangOnJobsOrNeighbours) {
  const auto cluster = flat_cluster(6);
  const auto profile = std::make_shared<const Profile>(Profiles().load("ideal"));
  std::vector<CollectiveRequest> requests;
  for (const double bytes : {4096.0, 8192.0, 65536.0})
    requests.push_back(request(cluster, profile, bytes));
  BatchOptions options;
  options.jobs = 1;
  const auto one = estimate_collectives(requests, options);
  options.jobs = 8;
  const auto eight = estimate_collectives(requests, options);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(one[i].time, eight[i].time) << i;
    EXPECT_EQ(estimate_collectives(std::span(&requests[i], 1), options)[0].time, one[i].time) << i;
  }
}

TEST(Batch, StopsWhenAsked) {
  Batch batch;
  batch.ask(ring_question(flat_cluster(4), 1000));
  BatchOptions options;
  options.stop = [] { return true; };
  batch.run(options);
  EXPECT_FALSE(batch[0].known);
}

TEST(Batch, FastestIsAnAnswerThatThereIs) {
  Batch batch;
  const auto cluster = flat_cluster(4);
  Algorithm failing;
  failing.name = "failing";
  failing.run = [](Transport&, Buffer, Op, const Plan&, Event) -> Event {
    throw TransportError("fails");
  };
  Question broken = ring_question(cluster, 1);
  broken.schedule.algorithm = &failing;
  const std::vector<std::size_t> numbers = {batch.ask(broken),
                                            batch.ask(ring_question(cluster, 1000000)),
                                            batch.ask(ring_question(cluster, 1000))};
  batch.run(BatchOptions{});
  EXPECT_TRUE(batch.all_known(numbers));
  EXPECT_FALSE(batch[numbers[0]].ok);
  EXPECT_SAYS(batch[numbers[0]].error, "fails");
  EXPECT_EQ(batch.fastest(numbers), 2u);
}

TEST(Estimate, SaysWhyAnAlgorithmCannotRun) {
  const auto cluster = std::make_shared<const Cluster>(cluster_of(ec2("p4d.24xlarge"), 1));
  const auto profile = std::make_shared<const Profile>(Profiles().made_for("p4d.24xlarge"));
  const std::vector<CollectiveRequest> requests = {
      {cluster, profile, Bytes{1024}, reported_method(NcclAlgorithm::nvls)}};
  EXPECT_SAYS(estimate_collectives(requests, {})[0].error, "nvls");
}

// A ring that no symmetry shortens, of 512 GPUs: two million messages.
TEST(Batch, RefusesWhatTakesMoreMemoryThanAllowed) {
  std::vector<std::shared_ptr<const Machine>> nodes(32, ec2("p4d.24xlarge"));
  nodes.resize(64, ec2("p4de.24xlarge"));
  const auto cluster = std::make_shared<const Cluster>(nodes, FabricSpec{});
  BatchOptions options;
  options.max_memory = Bytes{100e6};
  Batch batch;
  const std::size_t ring = batch.ask(ring_question(cluster, 1 << 20));
  batch.run(options);
  EXPECT_FALSE(batch[ring].ok);
  EXPECT_SAYS(batch[ring].error, "no symmetry of ring holds on this cluster");
  EXPECT_SAYS(batch[ring].error, "more than --max-memory 95.37 MiB");
}

TEST(ExpectedCost, CountsTheMessagesThatAreSimulated) {
  const Cluster mixed({ec2("p4d.24xlarge"), ec2("p4de.24xlarge")}, {});
  const Cluster equal({ec2("p4d.24xlarge"), ec2("p4d.24xlarge"), ec2("p4d.24xlarge")}, {});
  for (const Cluster* cluster : {&mixed, &equal})
    for (const char* name : {"ring", "hierarchical", "recursive-doubling"}) {
      const Layout layout = rank_layout(*cluster);
      const Algorithm& algorithm = *find_algorithm(name);
      if (unsupported_reason(algorithm, layout, {})) continue;
      const CollectiveCall asked{*cluster, algorithm, {2, 1, "ring"}, 1 << 16};
      EXPECT_NEAR(expected_cost(asked).messages / static_cast<double>(simulate(asked).messages), 1,
                  0.1)
          << name << " on " << cluster->worker_nodes();
    }
}

/// Adds what the neighbour sends, once: right on two ranks, wrong on more.
Event half_a_ring(Transport& t, Buffer data, Op op, const Plan&, Event after) {
  const int right = (t.rank() + 1) % t.size(), left = (t.rank() + t.size() - 1) % t.size();
  const Event sent = t.send(right, {}, data, after);
  const Event received = t.recv_reduce(left, {}, data, op);
  const Event both[] = {sent, received};
  return t.join(both);
}

TEST(WrongSum, FindsAScheduleThatSumsWrongly) {
  Algorithm broken = *find_algorithm("ring");
  broken.name = "half-a-ring";
  broken.run = half_a_ring;
  const auto wrong = [](const Algorithm& a, int ranks) {
    return run_in_child([&] { return nlohmann::json(wrong_sum(*flat_cluster(ranks), a, {})); })
        .value.get<std::string>();
  };
  EXPECT_EQ(wrong(broken, 2), "");
  EXPECT_SAYS(wrong(broken, 3), "half-a-ring is wrong on 3 nodes: element 0 of rank 0 is");
  for (const Algorithm* a : all_algorithms())
    if (!unsupported_reason(*a, rank_layout(*flat_cluster(4)), {})) {
      EXPECT_EQ(wrong(*a, 4), "");
    }
  EXPECT_EQ(wrong(*find_algorithm("ring"), 4096), "");  // on fewer nodes
}

// Groups run a schedule among their own ranks, which on all ranks together may be another.
TEST(WrongSum, IsOfTheGroupsThatRunASchedule) {
  Algorithm pairs = *find_algorithm("ring");
  pairs.name = "pairs";
  pairs.run = half_a_ring;
  const auto wrong = [&](const RankGroups& groups) {
    return run_in_child(
               [&] { return nlohmann::json(wrong_sum(*flat_cluster(6), pairs, {}, groups)); })
        .value.get<std::string>();
  };
  EXPECT_EQ(wrong({2, 1}), "");
  EXPECT_EQ(wrong({2, 3}), "");
  EXPECT_SAYS(wrong({3, 1}), "pairs is wrong on 3 nodes");
  EXPECT_SAYS(wrong({}), "pairs is wrong on 6 nodes");
}

/// Right unless segments travel together.
Event ring_or_half_of_it(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  return plan.together > 0 ? half_a_ring(t, data, op, plan, after)
                           : find_algorithm("ring")->run(t, data, op, plan, after);
}

// What of them is equal is checked once.
TEST(Batch, ChecksSchedulesOfSegmentsThatTravelTogetherByThemselves) {
  static Algorithm broken = *find_algorithm("ring");
  broken.name = "ring-or-half-of-it";
  broken.run = ring_or_half_of_it;
  Question right = ring_question(flat_cluster(3), 3 * 8 * 100), wrong = right;
  right.schedule.algorithm = wrong.schedule.algorithm = &broken;
  right.schedule.plan.segments = wrong.schedule.plan.segments = 4;
  wrong.schedule.plan.together = 2;
  Batch batch;
  const std::size_t first = batch.ask(right), second = batch.ask(wrong);
  BatchOptions options;
  options.check_sums = true;
  batch.run(options);
  EXPECT_TRUE(batch[first].ok) << batch[first].error;
  EXPECT_SAYS(batch[second].error, "ring-or-half-of-it is wrong on 3 nodes");
}

// Two elements in 4,000 segments: the lengths that are simulated have as many elements, and no
// slope.
TEST(Batch, ExtrapolatesNothingFromFewerElementsThanSegments) {
  const auto cluster = flat_cluster(2);
  Question tiny = ring_question(cluster, 2);
  tiny.schedule.plan.segments = 4000;
  Batch batch;
  const std::size_t number = batch.ask(tiny);
  BatchOptions options;
  batch.run(options);
  ASSERT_TRUE(batch[number].ok) << batch[number].error;
  EXPECT_TRUE(std::isfinite(batch[number].result.time.value));
}

// A batch job's limit is on a group above the process's own, and "max" is none.
TEST(MachineMemory, IsTheLeastThatControlGroupsLeave) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "job_7" / "step" / "task");
  std::filesystem::create_directories(folder.path() / "memory" / "pod:1");
  folder.write("job_7/memory.max", "1073741824\n");
  folder.write("job_7/step/memory.max", "max\n");
  folder.write("memory/pod:1/memory.limit_in_bytes", "268435456\n");
  const auto left = [&](const char* groups) {
    return memory_of_groups(folder.path(), groups).value;
  };
  EXPECT_EQ(left("0::/job_7/step/task\n"), 1073741824);
  EXPECT_EQ(left("1:cpu:/\n4:memory:/pod:1\n0::/\n"), 268435456);
  EXPECT_TRUE(std::isinf(left("0::/other\n")));
  EXPECT_TRUE(std::isinf(left("nonsense")));
  EXPECT_LE(machine_memory(), memory_of_groups("/sys/fs/cgroup", "0::/\n"));
}

}  // namespace
}  // namespace foreduce
