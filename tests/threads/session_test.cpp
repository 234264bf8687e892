// Sessions whose ranks are threads: what the check of a measurement sees, replayed steps with
// several communication streams, and schedules from files. The thread sanitizer looks at these
// tests (preset tsan).
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "algorithms/extensions/schedule.hpp"
#include "real/measure.hpp"
#include "real/measured_rank.hpp"
#include "real/replay.hpp"
#include "real/thread_backend.hpp"
#include "tests/support/buffers.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

// ------------------------------------------------------------------ measurements

constexpr int kFour = 4;
std::atomic<int> calls_so_far;

/// The default algorithm of a collective the first time that every rank calls it, and then nothing.
template <Collective collective>
Event only_once(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  if (calls_so_far++ >= kFour) return after;
  return algorithms(collective).back()->run(t, data, op, plan, after);
}

template <Collective collective>
void expect_second_time_is_wrong() {
  SCOPED_TRACE(name_of(collective));
  Algorithm broken = *algorithms(collective).back();
  broken.run = only_once<collective>;
  SessionOptions options;
  options.ranks_per_process = kFour;
  Session session({}, options);
  calls_so_far = 0;
  const TrialResult r =
      measure(session, {{.name = "", .algorithm = &broken, .plan = {}, .count = 1000}},
              {.warmup = 0, .iterations = 2, .check = true})
          .at(0);
  // Of the two iterations out of place the first is right. What a rank gives stays right in place.
  const double results = collective == Collective::reduce_scatter ? 1000 : 4000;
  EXPECT_GT(r.out_of_place.wrong, results / 2);
  EXPECT_LE(r.out_of_place.wrong, results);
  EXPECT_GT(r.in_place.wrong, results);
}

// The right elements of the iteration before must not pass for those of one that did nothing.
TEST(MeasureOnThreads, SeesThatNothingArrivedTheSecondTime) {
  expect_second_time_is_wrong<Collective::all_reduce>();
  expect_second_time_is_wrong<Collective::reduce_scatter>();
  expect_second_time_is_wrong<Collective::all_gather>();
  expect_second_time_is_wrong<Collective::broadcast>();
  expect_second_time_is_wrong<Collective::all_to_all>();
}

// ------------------------------------------------------------------ replayed steps

ReplayTask computing(double seconds, std::vector<std::size_t> after) {
  ReplayTask task;
  task.seconds = seconds;
  task.after = std::move(after);
  return task;
}
ReplayTask on_stream(int stream, const Algorithm& algorithm, std::vector<std::size_t> after) {
  ReplayTask task;
  task.stream = stream;
  task.algorithm = &algorithm;
  task.count = 100;
  task.after = std::move(after);
  return task;
}

/// Two workers of two streams run four tasks: gather, compute, scatter by `scatter`, compute.
std::vector<ReplayedStep> replayed(const Algorithm& scatter) {
  SessionOptions options;
  options.ranks_per_process = 4;
  Session session({}, options);
  Replay step;
  step.streams = 2;
  const Algorithm& gather = *find_algorithm("ring", Collective::all_gather);
  step.tasks = {on_stream(1, gather, {}), computing(0.01, {0}), on_stream(2, scatter, {1}),
                computing(0.01, {2})};
  return replay(session, step, {.warmup = 0, .iterations = 5});
}

TEST(ReplayOnThreads, TasksBeginAfterThoseThatTheyWaitFor) {
  const auto steps = replayed(*find_algorithm("ring", Collective::reduce_scatter));
  ASSERT_EQ(steps.size(), 5u);
  for (const ReplayedStep& s : steps) {
    EXPECT_GE(s.seconds, 0.02);
    for (const std::size_t t : {1u, 2u, 3u}) EXPECT_GE(s.start[t], s.end[t - 1] - 1e-9) << t;
  }
}

// A failure on one stream ends the others, and computing that waits for it.
TEST(ReplayOnThreads, EndsWhenACollectiveFails) {
  static std::atomic<int> calls;
  calls = 0;
  Algorithm broken = *find_algorithm("ring", Collective::reduce_scatter);
  broken.run = [](Transport&, Buffer, Op, const Plan&, Event) -> Event {
    if (++calls == 3) throw TransportError("the third call fails");
    return {};
  };
  try {
    replayed(broken);
    FAIL() << "nothing was thrown";
  } catch (const TransportError& e) {
    EXPECT_SAYS(std::string(e.what()), "the third call fails");
  }
}

/// Rank 0 offers its buffer to rank 1 and fails; rank 1 never asks for it.
Event offers_and_fails(Transport& t, Buffer data, Op, const Plan&, Event after) {
  if (t.rank() > 0) return t.recv(0, {.step = 1}, data);
  t.send(1, {}, data, after);
  throw TransportError("rank 0 gives up");
}

// Its buffer is freed when the exception comes out of here, so nobody may begin to read it any
// more.
TEST(MeasuredRank, StopsAllRanksBeforeAnAlgorithmsFailureComesOut) {
  SessionOptions options;
  options.ranks_per_process = 2;
  Session session({}, options);
  Algorithm failing = *find_algorithm("ring");
  failing.run = offers_and_fails;
  bool stopped = false;
  const auto work = [&](HostRank& rank) {
    MeasuredRank measured(rank, session);
    std::vector<float> data(1000);
    try {
      measured.run(failing, {1, 1},
                   {reinterpret_cast<std::byte*>(data.data()), 0, data.size(), Type::f32});
    } catch (const TransportError&) {
      if (rank.rank() == 0) stopped = rank.stopped();
      throw;
    }
  };
  EXPECT_THROW(session.run(work), TransportError);
  EXPECT_TRUE(stopped);
}

// It has nothing to do in one long iteration of an algorithm without servers.
TEST(MeasuredRank, ServersWaitLongerThanRanksMayBeIdle) {
  SessionOptions options;
  options.ranks_per_process = 1;
  options.servers_per_process = 1;
  options.timeout_s = 0.2;
  Session session({}, options);
  Algorithm slow = *find_algorithm("ring");
  slow.run = [](Transport&, Buffer, Op, const Plan&, Event after) -> Event {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return after;
  };
  const auto results = measure(session, {{.name = "", .algorithm = &slow, .plan = {}, .count = 10}},
                               {.warmup = 0, .iterations = 1, .check = false});
  EXPECT_GE(results.at(0).in_place.samples.at(0), 0.5);
}

TEST(ReplayOnThreads, StreamsRunBesideEachOther) {
  SessionOptions options;
  options.ranks_per_process = 2;  // one worker of two streams
  Session session({}, options);
  Algorithm slow = *find_algorithm("ring", Collective::all_gather);
  slow.run = [](Transport&, Buffer, Op, const Plan&, Event after) -> Event {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return after;
  };
  Replay step;
  step.streams = 2;
  step.tasks = {on_stream(1, slow, {}), on_stream(2, slow, {}), computing(0.05, {}),
                on_stream(1, slow, {2})};
  const auto steps = replay(session, step, {.warmup = 1, .iterations = 2});
  ASSERT_EQ(steps.size(), 2u);
  for (const ReplayedStep& s : steps) {
    EXPECT_GT(s.seconds, 0.1);
    for (const std::size_t t : {0u, 1u, 2u})
      for (const std::size_t other : {0u, 1u, 2u}) EXPECT_LT(s.start[t], s.end[other]) << t;
    EXPECT_GE(s.start[3], s.end[2] - 1e-9);
  }
}

// ------------------------------------------------------------------ schedules from files

TEST(ScheduleOnThreads, SumsAsTheAlgorithmThatItWasMadeOf) {
  const Layout layout = Layout::uniform(4);
  const Algorithm played =
      algorithm_of(recorded_program(*find_algorithm("ring"), layout, {.segments = 3}));
  for (const std::size_t elements : {std::size_t{5}, std::size_t{20000}}) {
    std::vector<std::vector<float>> data;
    std::vector<Buffer> views;
    for (int r = 0; r < layout.size(); ++r) data.emplace_back(elements, static_cast<float>(r + 1));
    for (auto& d : data) views.push_back(view(d));
    run_on_threads(played, layout, views, Op::sum, {}, {.timeout_s = 60});
    for (const auto& d : data) EXPECT_EQ(d, std::vector<float>(elements, 10));
  }
}

}  // namespace
}  // namespace foreduce
