// The step of a model whose state is spread over GPUs: timelines by hand, and what holds for all.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "models/sharded_step.hpp"

namespace foreduce {
namespace {

/// Forward takes 1 a unit, backward 2, the optimizer 1.
ShardedStepInput step_of(int units, Sharding sharding, int ranks = 8) {
  ShardedStepInput in;
  in.forward = Seconds{1.0 * units};
  in.backward = Seconds{2.0 * units};
  in.optimizer = Seconds{1};
  for (int u = 0; u < units; ++u) in.units.push_back({"block." + std::to_string(u), 800, 1, false});
  in.plan = divide(ranks, sharding, 0, 1, 1);
  return in;
}

CollectiveCosts costs(std::map<Stream, double> each) {
  return {[each](Stream kind, std::size_t) {
            const auto at = each.find(kind);
            return Seconds{at == each.end() ? 0 : at->second};
          },
          {}};
}
CollectiveCosts gather_and_scatter(double gather, double scatter) {
  return costs({{Stream::all_gather, gather}, {Stream::reduce_scatter, scatter}});
}

double total(const ShardedStepInput& in, const CollectiveCosts& c) {
  return play_sharded_step(in, c).total.value;
}

double exposed(const Step& step, Stream kind) {
  double sum = 0;
  for (const CollectiveUse& use : step.collectives)
    if (use.kind == kind) sum += use.exposed.value;
  return sum;
}

// Hidden but for the first all-gather and the last reduce-scatter.
TEST(Zero3, HidesAllButTheFirstGatherAndTheLastScatter) {
  const Step step = play_sharded_step(step_of(4, Sharding::zero3), gather_and_scatter(0.75, 0.5));
  EXPECT_DOUBLE_EQ(step.total.value, 0.75 + 12 + 0.5 + 1);
  EXPECT_DOUBLE_EQ(exposed(step, Stream::all_gather), 0.75);
  EXPECT_DOUBLE_EQ(exposed(step, Stream::reduce_scatter), 0.5);
}

// Gathers at 0, 10 and, for backward, 21, when computing the unit before begins. A scatter is
// posted at 23: on a communicator of its own it runs from then on, and on one that both share from
// 31 on, when the gather has ended. The other scatter begins when that one ends.
TEST(Zero3, WaitsForSlowCollectives) {
  ShardedStepInput in = step_of(2, Sharding::zero3);
  EXPECT_DOUBLE_EQ(total(in, gather_and_scatter(10, 10)), 31 + 10 + 10 + 1);
  in.plan.communicators = Communicators::separate;
  EXPECT_DOUBLE_EQ(total(in, gather_and_scatter(10, 10)), 10 + 10 + 1 + 10 + 2 + 10 + 1);
  in.plan.prefetch = 0;  // gathers at 0, 11 and 24
  EXPECT_DOUBLE_EQ(total(in, gather_and_scatter(10, 10)), 10 + 1 + 10 + 1 + 2 + 10 + 2 + 10 + 1);
}

// Gathers end at 10, 20, 30; forward at 11, 21, 31. The last unit stays, the others come again from
// 31 on (ends 41, 51); backward ends at 33, 43, 53.
TEST(Zero3, GathersAgainForBackwardAllButTheLastUnit) {
  ShardedStepInput in = step_of(3, Sharding::zero3);
  EXPECT_DOUBLE_EQ(total(in, gather_and_scatter(10, 0)), 53 + 1);
  in.plan.reshard = Reshard::after_backward;
  EXPECT_DOUBLE_EQ(total(in, gather_and_scatter(10, 0)), 31 + 6 + 1);
}

// FSDP2 holds one buffer of gradients: the third backward waits for the first's reduce-scatter.
TEST(Zero3, BackwardRunsOneReduceScatterAhead) {
  const Step step = play_sharded_step(step_of(3, Sharding::zero3), gather_and_scatter(0, 10));
  EXPECT_DOUBLE_EQ(step.backward_end.value, 3 + 2 + 10 + 2);
  EXPECT_DOUBLE_EQ(step.total.value, 3 + 2 + 30 + 1);
}

// The root is gathered first and once, its arithmetic is at the end of forward, and its gradients
// come last.
TEST(Zero3, KeepsTheRoot) {
  ShardedStepInput in = step_of(2, Sharding::zero3);
  in.units.insert(in.units.begin(), {"", 800, 1, true});
  in.forward = Seconds{3};
  in.backward = Seconds{6};
  const auto c = gather_and_scatter(0.5, 0.25);
  EXPECT_DOUBLE_EQ(total(in, c), 2 * 0.5 + 9 + 2 * 0.25 + 1);
  int gathers = 0;
  for (const CollectiveUse& use : collectives_of(in))
    if (use.kind == Stream::all_gather) gathers += use.count;
  EXPECT_EQ(gathers, 1 + 2 + 1);
}

// Blocks are gathered with half of the bytes, the root and gradients with all.
TEST(Zero3, GathersBlocksInHalfTheBytesInFp8) {
  ShardedStepInput in = step_of(2, Sharding::zero3);
  in.units.insert(in.units.begin(), {"", 600, 1, true});
  in.plan.gathered = Gathered::fp8;
  std::map<std::pair<Stream, std::size_t>, int> counts;
  for (const CollectiveUse& use : collectives_of(in)) counts[{use.kind, use.elements}] += use.count;
  EXPECT_EQ(counts[std::pair(Stream::all_gather, 600u)], 1);
  EXPECT_EQ(counts[std::pair(Stream::all_gather, 400u)], 3);
  EXPECT_EQ(counts[std::pair(Stream::all_gather, 800u)], 0);
  EXPECT_EQ(counts[std::pair(Stream::reduce_scatter, 800u)], 2);
}

TEST(Zero1And2, GatherAfterTheOptimizer) {
  for (const Sharding sharding : {Sharding::zero1, Sharding::zero2})
    EXPECT_DOUBLE_EQ(total(step_of(2, sharding), gather_and_scatter(3, 0.5)), 6 + 0.5 + 1 + 2 * 3);
}

TEST(HybridSharding, AllReducesAfterEachReduceScatter) {
  ShardedStepInput in = step_of(2, Sharding::zero3);
  in.plan.replicas = 4;
  const auto c = costs({{Stream::reduce_scatter, 0.5}, {Stream::all_reduce, 0.75}});
  EXPECT_DOUBLE_EQ(total(in, c), 6 + 0.5 + 0.75 + 1);
  for (const CollectiveUse& use : collectives_of(in))
    if (use.kind == Stream::all_reduce) {
      EXPECT_EQ(use.elements, 100u);
    }
}

TEST(Accumulation, NoSyncScattersOnce) {
  ShardedStepInput in = step_of(2, Sharding::zero3);
  in.accumulation = 3;
  const auto scatters = [&] {
    int count = 0;
    for (const CollectiveUse& use : collectives_of(in))
      if (use.kind == Stream::reduce_scatter) count += use.count;
    return count;
  };
  in.plan.synchronised = Synchronised::every_micro_batch;
  EXPECT_EQ(scatters(), 6);
  EXPECT_DOUBLE_EQ(total(in, gather_and_scatter(0, 0.5)), 3 * 6.5 + 1);
  in.plan.synchronised = Synchronised::last_micro_batch;
  EXPECT_EQ(scatters(), 2);
  EXPECT_DOUBLE_EQ(total(in, gather_and_scatter(0, 0.5)), 3 * 6 + 0.5 + 1);
}

// Two collectives that share the links take together what they take one after another.
TEST(Streams, SlowEachOther) {
  const std::vector<Task> tasks = {{Stream::all_gather, Seconds{2}, {}},
                                   {Stream::reduce_scatter, Seconds{3}, {}}};
  StreamSpeeds speeds;
  speeds.collective = [](Stream, StreamSet running) {
    return 1.0 / static_cast<double>(running.count());
  };
  const Timeline line = play(tasks, speeds);
  EXPECT_DOUBLE_EQ(line.end[0].value, 4);
  EXPECT_DOUBLE_EQ(line.end[1].value, 5);
}

// Computing at half speed while a collective of 2 runs: 1 is lost, and it is that stream's.
TEST(Streams, CollectivesSlowComputing) {
  const std::vector<Task> tasks = {{Stream::compute, Seconds{5}, {}},
                                   {Stream::all_gather, Seconds{2}, {}}};
  const Timeline line = play(tasks, {for_all_streams(0.5), {}});
  EXPECT_DOUBLE_EQ(line.total.value, 6);
  EXPECT_DOUBLE_EQ(line.delayed[static_cast<std::size_t>(Stream::all_gather)].value, 1);
}

// A ring inside the node takes a quarter of the multiprocessors, one between nodes a tenth: what
// runs between nodes alone does not cost a quarter.
TEST(Streams, EachSlowsComputingByItsOwnShare) {
  StreamSpeeds speeds;
  speeds.compute[static_cast<std::size_t>(Stream::all_gather)] = 0.75;
  speeds.compute[static_cast<std::size_t>(Stream::all_reduce)] = 0.9;
  const Task compute{Stream::compute, Seconds{9}, {}};
  EXPECT_DOUBLE_EQ(play({compute, {Stream::all_reduce, Seconds{10}, {}}}, speeds).end[0].value, 10);
  EXPECT_DOUBLE_EQ(play({compute, {Stream::all_gather, Seconds{20}, {}}}, speeds).end[0].value, 12);
  const Timeline both =
      play({compute, {Stream::all_reduce, Seconds{20}, {}}, {Stream::all_gather, Seconds{4}, {}}},
           speeds);
  EXPECT_DOUBLE_EQ(both.end[0].value, 4 + (9 - 4 * 0.75) / 0.9);
}

TEST(TensorParallel, WaitsForTwoAllReducesABlockEachWay) {
  ShardedStepInput in = step_of(3, Sharding::none);
  in.plan = divide(8, Sharding::none, 0, 8, 1);
  in.block_output = 100;
  const Step step = play_sharded_step(in, costs({{Stream::tensor, 0.25}}));
  EXPECT_DOUBLE_EQ(step.total.value, 9 + 1 + 3 * 4 * 0.25);
  EXPECT_DOUBLE_EQ(exposed(step, Stream::tensor), 3);
  in.passes_in_backward = 2;  // forward is computed again
  EXPECT_DOUBLE_EQ(total(in, costs({{Stream::tensor, 0.25}})), 9 + 1 + 3 * 6 * 0.25);
}

/// A step of blocks that have experts of 480 of their 800 elements, among GPUs that share them.
ShardedStepInput step_of_experts(int units, Sharding sharding, int ranks, int hybrid, int expert) {
  ShardedStepInput in = step_of(units, sharding, ranks);
  in.plan = divide(ranks, sharding, hybrid, 1, 1, expert);
  for (ModelUnit& u : in.units) {
    u.elements = 320;
    u.experts = static_cast<std::size_t>(480 / expert);
    u.expert_blocks = 1;
  }
  in.exchanged = 64;
  return in;
}

TEST(ExpertParallel, WaitsForTwoExchangesABlockEachWay) {
  ShardedStepInput in = step_of_experts(3, Sharding::none, 8, 0, 8);
  in.units[1].expert_blocks = 0;  // a dense block among them
  const auto c = costs({{Stream::exchange, 0.25}});
  const Step step = play_sharded_step(in, c);
  EXPECT_DOUBLE_EQ(step.total.value, 9 + 1 + 2 * 4 * 0.25);
  EXPECT_DOUBLE_EQ(exposed(step, Stream::exchange), 2);
  in.passes_in_backward = 2;  // forward is computed again
  EXPECT_DOUBLE_EQ(total(in, c), 9 + 1 + 2 * 6 * 0.25);
}

/// How many collectives of a kind and size a step has.
std::map<std::pair<Stream, std::size_t>, int> counted(const ShardedStepInput& in) {
  std::map<std::pair<Stream, std::size_t>, int> counts;
  for (const CollectiveUse& use : collectives_of(in)) counts[{use.kind, use.elements}] += use.count;
  return counts;
}

// DDP of 8 GPUs of which pairs share experts: 4 have the same, and sum their gradients.
TEST(ExpertParallel, SumsExpertsAmongThoseThatHaveTheSame) {
  const ShardedStepInput in = step_of_experts(1, Sharding::none, 8, 0, 2);
  EXPECT_EQ(group_of(Stream::exchange, in.plan).ranks, 2);
  EXPECT_EQ(group_of(Stream::exchange, in.plan).stride, 1);
  EXPECT_EQ(group_of(Stream::expert_all_reduce, in.plan).ranks, 4);
  EXPECT_EQ(group_of(Stream::expert_all_reduce, in.plan).stride, 2);
  EXPECT_EQ(counted(in),
            (std::map<std::pair<Stream, std::size_t>, int>{{{Stream::all_reduce, 320}, 1},
                                                           {{Stream::expert_all_reduce, 240}, 1},
                                                           {{Stream::exchange, 64}, 4}}));
}

// Two sharding groups of 8, in which 4 share experts: 2 GPUs of a group have the same ones, and
// divide their state among them; the groups sum their shards.
TEST(ExpertParallel, ShardsExpertsAmongTheRestOfAGroup) {
  const ShardedStepInput in = step_of_experts(2, Sharding::zero3, 16, 8, 4);
  EXPECT_EQ(group_of(Stream::expert_all_gather, in.plan).ranks, 2);
  EXPECT_EQ(group_of(Stream::expert_all_gather, in.plan).stride, 4);
  EXPECT_EQ(group_of(Stream::expert_all_reduce, in.plan).ranks, 2);
  EXPECT_EQ(group_of(Stream::expert_all_reduce, in.plan).stride, 8);
  const auto counts = counted(in);
  EXPECT_EQ(counts.at({Stream::all_gather, 320}), 3);
  EXPECT_EQ(counts.at({Stream::expert_all_gather, 120}), 3);
  EXPECT_EQ(counts.at({Stream::reduce_scatter, 320}), 2);
  EXPECT_EQ(counts.at({Stream::expert_reduce_scatter, 120}), 2);
  EXPECT_EQ(counts.at({Stream::all_reduce, 40}), 2);
  EXPECT_EQ(counts.at({Stream::expert_all_reduce, 60}), 2);
}

// Where a sharding group shares its experts out one to each GPU, nothing of them is gathered.
TEST(ExpertParallel, LeavesNothingToGatherWhereEachHasItsOwn) {
  for (const Sharding sharding : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
    for (const CollectiveUse& use : collectives_of(step_of_experts(2, sharding, 8, 0, 8))) {
      EXPECT_NE(use.kind, Stream::expert_all_gather);
      EXPECT_NE(use.kind, Stream::expert_reduce_scatter);
      EXPECT_NE(use.kind, Stream::expert_all_reduce);
    }
}

// The scatter of a unit's experts is behind that of its rest: backward runs one unit ahead of both.
TEST(ExpertParallel, BackwardRunsOneUnitAheadOfItsScatters) {
  const ShardedStepInput in = step_of_experts(3, Sharding::zero3, 16, 0, 8);
  const auto c = costs({{Stream::reduce_scatter, 6}, {Stream::expert_reduce_scatter, 4}});
  EXPECT_DOUBLE_EQ(play_sharded_step(in, c).backward_end.value, 3 + 2 + 10 + 2);
  EXPECT_DOUBLE_EQ(total(in, c), 3 + 2 + 30 + 1);
}

// 1F1B: (stages - 1) micro-batches of bubble over those that a stage computes.
TEST(Pipeline, IdlesWhileItFillsAndDrains) {
  ShardedStepInput in = step_of(2, Sharding::none);
  in.plan = divide(4, Sharding::none, 0, 1, 4);
  in.accumulation = 8;
  in.other_stages = 3;
  const Step step = play_sharded_step(in, costs({}));
  EXPECT_DOUBLE_EQ(step.bubble.value, 3 * 6);
  EXPECT_DOUBLE_EQ(step.total.value, (8 + 3) * 6 + 1);
  // A stage receives before each forward and each backward, in the bubble too.
  EXPECT_DOUBLE_EQ(total(in, costs({{Stream::pipeline, 0.5}})), (8 + 3) * 7 + 1);
  in.other_stages = 2.5;  // this stage is the longest
  EXPECT_DOUBLE_EQ(total(in, costs({})), (8 + 2.5) * 6 + 1);
}

/// What each GPU sends in a step.
double sent(const ShardedStepInput& in) {
  double bytes = 0;
  for (const CollectiveUse& use : collectives_of(in))
    bytes += use.count * sent_bytes(use.kind, Bytes{2.0 * static_cast<double>(use.elements)},
                                    group_of(use.kind, in.plan).ranks)
                             .value;
  return bytes;
}

// Zero1 and zero2 send what an all-reduce sends, zero3 half as much again but for what stays
// gathered: the last unit.
TEST(Sharding, SendsAnAllReducesBytesOrHalfAsMuchAgain) {
  const double all_reduce = sent(step_of(6, Sharding::none));
  EXPECT_DOUBLE_EQ(all_reduce, 2 * 7.0 / 8 * 6 * 800 * 2);
  EXPECT_DOUBLE_EQ(sent(step_of(6, Sharding::zero1)), all_reduce);
  EXPECT_DOUBLE_EQ(sent(step_of(6, Sharding::zero2)), all_reduce);
  EXPECT_DOUBLE_EQ(sent(step_of(6, Sharding::zero3)) + 7.0 / 8 * 800 * 2, 1.5 * all_reduce);
  ShardedStepInput kept = step_of(6, Sharding::zero3);
  kept.plan.reshard = Reshard::after_backward;
  EXPECT_DOUBLE_EQ(sent(kept), all_reduce);
}

struct Random {
  ShardedStepInput in;
  std::map<Stream, double> each;
};
Random random_step(std::mt19937& random) {
  const auto up_to = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  Random r{step_of(1 + up_to(6), static_cast<Sharding>(up_to(3))), {}};
  r.in.plan.replicas = 1 + up_to(1) * 3;
  if (up_to(1)) r.in.units.insert(r.in.units.begin(), {"", 400, 0.5, true});
  if (r.in.plan.sharding == Sharding::none && up_to(1)) {
    r.in.plan.tensor = 2;
    r.in.block_output = 10;
  }
  r.in.plan.prefetch = up_to(3);
  r.in.plan.reshard = up_to(1) ? Reshard::after_forward : Reshard::after_backward;
  r.in.plan.synchronised =
      up_to(1) ? Synchronised::every_micro_batch : Synchronised::last_micro_batch;
  r.in.accumulation = 1 + up_to(2);
  r.in.slowest = 1 + 0.1 * up_to(2);
  for (std::size_t s = 1; s < kStreams; ++s) r.each[static_cast<Stream>(s)] = 0.1 * up_to(30);
  return r;
}

TEST(ShardedStep, IsNeverShorterThanComputeOrAnyStream) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const Random r = random_step(random);
    CollectiveCosts c = costs(r.each);
    c.speeds.compute = for_all_streams(0.5 + 0.5 * (i % 2));
    if (i % 3)
      c.speeds.collective = [](Stream, StreamSet running) {
        return 1.0 / static_cast<double>(running.count());
      };
    const Step step = play_sharded_step(r.in, c);
    EXPECT_GE(step.total.value, (step.compute + step.waiting).value - 1e-9);
    std::map<Stream, double> busy;
    double shown = 0;
    for (const CollectiveUse& use : step.collectives) {
      busy[use.kind] += use.time.value;
      shown += use.exposed.value;
    }
    for (const auto& [kind, time] : busy) EXPECT_GE(step.total.value, time - 1e-9);
    EXPECT_NEAR(shown, step.exposed_communication.value, 1e-9);
  }
}

// While streams slow each other a longer collective may make room for another, so this holds of
// streams that do not.
TEST(ShardedStep, IsNoShorterForSlowerCollectives) {
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    Random r = random_step(random);
    const double before = total(r.in, costs(r.each));
    r.each[static_cast<Stream>(1 + static_cast<std::size_t>(i) % (kStreams - 1))] *= 1.3;
    EXPECT_GE(total(r.in, costs(r.each)), before - 1e-9);
  }
}

// ------------------------------------------------------------------ as tasks

/// The tasks with what each collective takes.
std::vector<Task> with_times(std::vector<Task> tasks, const CollectiveCosts& c) {
  for (Task& t : tasks)
    if (t.stream != Stream::compute) t.alone = c.alone(t.stream, t.elements);
  return tasks;
}

TEST(StepTasks, AShardedStepsTasksAreThoseThatArePlayed) {
  for (const Sharding sharding : {Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
    const ShardedStepInput in = step_of(5, sharding);
    const CollectiveCosts c = gather_and_scatter(1.7, 2.6);
    const std::vector<Task> tasks = with_times(tasks_of(in), c);
    const Timeline line = play(tasks, {});
    EXPECT_DOUBLE_EQ(line.total.value, total(in, c)) << name_of(sharding);
    // What is read off the times is what was played.
    const auto delayed = delays(tasks, line.start, line.end);
    for (std::size_t s = 0; s < kStreams; ++s)
      EXPECT_NEAR(delayed[s].value, line.delayed[s].value, 1e-9) << name_of(sharding) << s;
    EXPECT_GT(delayed[static_cast<std::size_t>(Stream::all_gather)].value, 0);
  }
}

TEST(StepTasks, DdpsTasksAreThoseThatArePlayed) {
  StepInput in;
  in.forward = Seconds{10};
  in.backward = Seconds{20};
  in.optimizer = Seconds{3};
  in.accumulation = 2;
  in.buckets = {{7, 0.25, {}}, {9, 0.5, {}}, {7, 1, {}}};
  const auto all_reduce = [](std::size_t n) { return Seconds{static_cast<double>(n)}; };
  const auto by_size = [&](Stream, std::size_t n) { return all_reduce(n); };
  EXPECT_DOUBLE_EQ(play(with_times(tasks_of(in), {by_size, {}}), {}).total.value,
                   play_step(in, all_reduce).total.value);
}

TEST(StepTasks, SharedTimeIsSharedAndIdleTimeIsNobodys) {
  const std::vector<Task> tasks{{Stream::compute, {}, {}},
                                {Stream::all_gather, {}, {}},
                                {Stream::reduce_scatter, {}, {}},
                                {Stream::compute, {}, {}}};
  const auto at = [](std::initializer_list<double> times) {
    std::vector<Seconds> all;
    for (const double t : times) all.emplace_back(t);
    return all;
  };
  const auto delayed = delays(tasks, at({0, 2, 5, 9}), at({3, 6, 7, 10}));
  // From 3 to 5 the all-gather alone, to 6 both, to 7 the reduce-scatter, to 9 nothing.
  EXPECT_DOUBLE_EQ(delayed[static_cast<std::size_t>(Stream::all_gather)].value, 2.5);
  EXPECT_DOUBLE_EQ(delayed[static_cast<std::size_t>(Stream::reduce_scatter)].value, 1.5);
}

}  // namespace
}  // namespace foreduce
