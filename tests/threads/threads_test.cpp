// The thread backend: every algorithm, the rules of the transport one by one, and what is reported
// when a run fails. The thread sanitizer looks at these tests (preset tsan).
#include <gtest/gtest.h>

#include <functional>

#include "algorithms/core/registry.hpp"
#include "real/thread_backend.hpp"
#include "tests/support/buffers.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// Eight workers as the algorithm wants them: two a node, all on one, or each on its own.
Layout layout_for(const Algorithm& algorithm) {
  for (const int per_node : {2, 8, 1}) {
    Layout layout = Layout::uniform(8 / per_node, per_node, algorithm.uses_servers ? 1 : 0);
    layout.switch_reduces = true;
    if (!unsupported_reason(algorithm, layout, {.segments = 4})) return layout;
  }
  throw std::logic_error("no layout for " + std::string(algorithm.name));
}

class AlgorithmOnThreads : public testing::TestWithParam<const Algorithm*> {};

TEST_P(AlgorithmOnThreads, GivesTheResultWithoutRaces) {
  const Algorithm& algorithm = *GetParam();
  const Layout layout = layout_for(algorithm);
  for (const std::size_t elements : {std::size_t{5}, std::size_t{20000}}) {
    std::vector<std::vector<float>> data;
    std::vector<Buffer> views;
    for (int r = 0; r < layout.size(); ++r)
      data.emplace_back(elements, static_cast<float>(r < layout.workers ? r + 1 : 0));
    for (auto& d : data) views.push_back(view(d));
    run_on_threads(algorithm, layout, views, Op::sum, {.segments = 4}, {.timeout_s = 60});
    for (int r = 0; r < layout.workers; ++r) {
      const auto& mine = data[static_cast<std::size_t>(r)];
      const Buffer result = result_of(algorithm.collective, view(data[0]), layout.workers, r);
      for (std::size_t i = result.offset; i < result.offset + result.count; ++i) {
        const Origin origin = origin_of(algorithm.collective, elements, layout.workers, r, i);
        ASSERT_EQ(mine[i], static_cast<float>(origin.rank < 0 ? 36 : origin.rank + 1));
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Every, AlgorithmOnThreads, testing::ValuesIn(all_algorithms()),
                         [](const auto& of) { return identifier(*of.param); });

// ------------------------------------------------------------------ the rules of transport.hpp

TEST(RunOnThreads, ExchangeInPlaceIsSafe) {
  std::vector<std::vector<float>> data{{1, 2, 3}, {10, 20, 30}};
  run_on_threads(
      [&](Transport& t) {
        const Buffer mine = view(data[static_cast<std::size_t>(t.rank())]);
        t.send(1 - t.rank(), {}, mine);
        t.recv_reduce(1 - t.rank(), {}, mine, Op::sum);
      },
      Layout::uniform(2));
  for (const auto& d : data) EXPECT_EQ(d, (std::vector<float>{11, 22, 33}));
}

TEST(RunOnThreads, ReducesInPostingOrder) {
  // In f32, (1e8 + -1e8) + 1 is 1 and (1e8 + 1) + -1e8 is 0. Rank 0 posts the data of rank 2 first,
  // whoever is first.
  for (int round = 0; round < 50; ++round) {
    std::vector<float> data{1e8f, 1.0f, -1e8f};
    run_on_threads(
        [&](Transport& t) {
          const Buffer mine = view(&data[static_cast<std::size_t>(t.rank())], 1);
          if (t.rank() > 0) {
            t.send(0, {}, mine);
            return;
          }
          t.recv_reduce(2, {}, mine, Op::sum);
          t.recv_reduce(1, {}, mine, Op::sum);
        },
        Layout::uniform(3));
    ASSERT_EQ(data[0], 1);
  }
}

TEST(RunOnThreads, WaitBlocksForOneEventOnly) {
  std::vector<int> seen;
  run_on_threads(
      [&](Transport& t) {
        std::int32_t value = t.rank() == 0 ? 5 : 0, other = value;
        const Buffer a = view(&value, 1), b = view(&other, 1);
        if (t.rank() == 0) {
          t.send(1, {0}, a);
          t.send(1, {1}, b);
          t.wait_all();
        } else {
          const double begin = t.now();
          t.recv(0, {1}, b);
          t.wait(t.recv(0, {0}, a));
          seen.push_back(value);
          t.wait_all();
          seen.push_back(other);
          EXPECT_GE(t.now(), begin);
        }
      },
      Layout::uniform(2));
  EXPECT_EQ(seen, (std::vector<int>{5, 5}));
}

TEST(RunOnThreads, TimelineHoldsEveryVerbOnce) {
  const std::vector<Buffer> phantoms(4, phantom(400));
  const ThreadRun run = run_on_threads(*find_algorithm("ring"), Layout::uniform(4), phantoms,
                                       Op::sum, {}, {.timeout_s = 20, .record = true});
  EXPECT_EQ(run.timeline.size(), 4u * 6 * 2);
  for (const Span& span : run.timeline) EXPECT_LE(span.posted, span.ended);
}

// ------------------------------------------------------------------ runs that fail

/// What is reported when every rank runs `rank_function`.
std::string failure_of(const std::function<void(Transport&)>& rank_function, int ranks,
                       double timeout_s = 0.2) {
  return error_of<std::exception>(
      [&] { run_on_threads(rank_function, Layout::uniform(ranks), {.timeout_s = timeout_s}); });
}

TEST(RunOnThreads, StuckRankReportsWhatItWaitsFor) {
  const std::string text = failure_of(
      [](Transport& t) {
        t.recv(1 - t.rank(), {7, 3}, phantom(1024));
      },
      2);
  EXPECT_SAYS(text, "made no progress for 0.2 s");
  EXPECT_SAYS(text, "recv from rank");
  EXPECT_SAYS(text, "step 7, segment 3");
  EXPECT_SAYS(text, "4096 bytes");
  EXPECT_SAYS(text, "nothing has arrived");
}

TEST(RunOnThreads, FirstFailureEndsAllRanks) {
  const std::string text = failure_of(
      [](Transport& t) {
        if (t.rank() == 2) throw std::runtime_error("rank 2 has had enough");
        t.recv(2, {}, phantom(1));
      },
      4, 30);
  EXPECT_EQ(text, "rank 2 has had enough");
}

TEST(RunOnThreads, SizesMustAgree) {
  const std::string text = failure_of(
      [](Transport& t) {
        if (t.rank() == 0) t.send(1, {}, phantom(10));
        else t.recv(0, {}, phantom(11));
      },
      2);
  EXPECT_SAYS(text, "40 bytes arrived from rank 0 where 44 were expected");
}

TEST(RunOnThreads, PeersAndTagsAreChecked) {
  EXPECT_SAYS(failure_of([](Transport& t) { t.send(2, {}, {}); }, 2), "no peer 2");
  EXPECT_SAYS(failure_of([](Transport& t) { t.send(t.rank(), {}, {}); }, 2), "no peer");
  EXPECT_SAYS(failure_of([](Transport& t) { t.send(1 - t.rank(), {.step = 1 << 22}, {}); }, 2),
              "does not fit");
}

}  // namespace
}  // namespace foreduce
