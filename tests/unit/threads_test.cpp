// The thread transport by itself: what the thread sanitizer looks at (preset tsan), and what happens when things go wrong.
#include <gtest/gtest.h>

#include <Eigen/Core>

#include <numeric>

#include "algorithms/core/registry.hpp"
#include "real/thread_backend.hpp"
#include "tests/support/machines.hpp"

namespace foreduce {
namespace {

using namespace test;

class Threads : public testing::TestWithParam<const Algorithm*> {};

TEST_P(Threads, SumWithoutRaces) {
  const Algorithm& algorithm = *GetParam();
  const Layout layout = Layout::uniform(3, 2, algorithm.uses_servers ? 1 : 0);
  for (const std::size_t elements : {std::size_t{5}, std::size_t{20000}}) {
    std::vector<std::vector<float>> data(static_cast<std::size_t>(layout.size()), std::vector<float>(elements, 1));
    std::vector<Buffer> views;
    for (auto& d : data) views.push_back({reinterpret_cast<std::byte*>(d.data()), 0, elements, Type::f32});
    const Plan plan{.segments = 4, .channels = 1, .inner = "ring"};
    run_on_threads(algorithm, layout, views, Op::sum, plan, {.timeout_s = 60, .record = false});
    for (int r = 0; r < layout.workers; ++r)
      for (const float x : data[static_cast<std::size_t>(r)]) ASSERT_EQ(x, 6);
  }
}
INSTANTIATE_TEST_SUITE_P(threads, Threads, testing::ValuesIn(algorithms()),
                         [](const auto& algorithm_of) { return identifier(algorithm_of.param->name); });

std::string failure_of(const std::function<void(Transport&)>& rank, int ranks, double timeout_s = 0.2) {
  try {
    run_on_threads(rank, Layout::uniform(ranks), {.timeout_s = timeout_s, .record = false});
  } catch (const std::exception& e) {
    return e.what();
  }
  return "(none)";
}

TEST(ThreadsBroken, AStuckRankTellsWhatItWaitsFor) {
  const std::string text = failure_of([](Transport& t) { t.recv(1 - t.rank(), {7, 3}, {nullptr, 0, 1024, Type::f32}); }, 2);
  for (const char* part :
       {"made no progress for 0.2 s", "recv from rank", "step 7, segment 3", "4096 bytes", "nothing has arrived"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(ThreadsBroken, AFailingRankEndsTheOthersAndIsTheOneReported) {
  const std::string text = failure_of(
      [](Transport& t) {
        if (t.rank() == 2) throw std::runtime_error("rank 2 has had enough");
        t.recv(2, {}, {nullptr, 0, 1, Type::f32});
      },
      4, 30);
  EXPECT_EQ(text, "rank 2 has had enough");
}

/// The quick ways of adding halves against Eigen's one by one, for every pair of a few hundred bit patterns and odd counts.
template <class Half>
void expect_bits_of(Type type) {
  std::vector<std::uint16_t> a, b;
  for (std::uint32_t x = 0; x < 65536; x += 211)
    for (std::uint32_t y = 3; y < 65536; y += 197) {
      a.push_back(static_cast<std::uint16_t>(x));
      b.push_back(static_cast<std::uint16_t>(y));
    }
  a.resize(a.size() - 3), b.resize(a.size());
  const std::vector<std::uint16_t> before = a;
  fold(Op::sum, type, reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<const std::byte*>(b.data()), a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Half sum = Eigen::numext::bit_cast<Half>(before[i]) + Eigen::numext::bit_cast<Half>(b[i]);
    const auto is_nan = (Eigen::numext::isnan)(static_cast<float>(Eigen::numext::bit_cast<Half>(a[i])));
    ASSERT_EQ(is_nan, (Eigen::numext::isnan)(static_cast<float>(sum))) << i;
    if (!is_nan) {
      ASSERT_EQ(a[i], Eigen::numext::bit_cast<std::uint16_t>(sum)) << before[i] << " + " << b[i];
    }
  }
}
TEST(SymmetryReduction, HalvesAddToTheSameBitsAsOneByOne) {
  expect_bits_of<Eigen::half>(Type::f16);
  expect_bits_of<Eigen::bfloat16>(Type::bf16);
}

TEST(ThreadsBroken, SizesMustAgree) {
  const std::string text = failure_of(
      [](Transport& t) {
        if (t.rank() == 0) t.send(1, {}, {nullptr, 0, 10, Type::f32});
        else t.recv(0, {}, {nullptr, 0, 11, Type::f32});
      },
      2);
  EXPECT_NE(text.find("40 bytes arrived from rank 0 where 44 were expected"), std::string::npos) << text;
}

TEST(ThreadsBroken, PeersAndTagsAreChecked) {
  EXPECT_NE(failure_of([](Transport& t) { t.send(2, {}, {}); }, 2).find("no peer 2"), std::string::npos);
  EXPECT_NE(failure_of([](Transport& t) { t.send(t.rank(), {}, {}); }, 2).find("no peer"), std::string::npos);
  EXPECT_NE(failure_of([](Transport& t) { t.send(1 - t.rank(), {.step = 1 << 22}, {}); }, 2).find("does not fit"),
            std::string::npos);
}

/// The rules of the seam (transport.hpp), one by one.
TEST(ThreadsRules, AnExchangeInPlaceIsSafe) {
  std::vector<std::vector<float>> data{{1, 2, 3}, {10, 20, 30}};
  run_on_threads(
      [&](Transport& t) {
        const Buffer mine{reinterpret_cast<std::byte*>(data[static_cast<std::size_t>(t.rank())].data()), 0, 3, Type::f32};
        t.send(1 - t.rank(), {}, mine);
        t.recv_reduce(1 - t.rank(), {}, mine, Op::sum);
      },
      Layout::uniform(2));
  for (const auto& d : data) EXPECT_EQ(d, (std::vector<float>{11, 22, 33}));
}

TEST(ThreadsRules, FoldsIntoTheSameElementsKeepPostingOrder) {
  // f32: (1e8 + 1) + -1e8 is 0, (1e8 + -1e8) + 1 is 1. Rank 0 posts the fold of rank 2 first, whoever comes first.
  for (int round = 0; round < 50; ++round) {
    std::vector<float> data{1e8f, 1.0f, -1e8f};
    run_on_threads(
        [&](Transport& t) {
          const Buffer mine{reinterpret_cast<std::byte*>(&data[static_cast<std::size_t>(t.rank())]), 0, 1, Type::f32};
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

TEST(ThreadsRules, WaitBlocksForOneEventAndOthersGoOn) {
  std::vector<int> seen;
  run_on_threads(
      [&](Transport& t) {
        std::int32_t value = t.rank() == 0 ? 5 : 0, other = value;
        const Buffer a{reinterpret_cast<std::byte*>(&value), 0, 1, Type::i32},
            b{reinterpret_cast<std::byte*>(&other), 0, 1, Type::i32};
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

TEST(ThreadsRules, ATimelineHoldsEveryVerbOnce) {
  const Algorithm& ring = *find_algorithm("ring");
  const Layout layout = Layout::uniform(4);
  std::vector<Buffer> phantoms(4, Buffer{nullptr, 0, 400, Type::f32});
  const ThreadRun run = run_on_threads(ring, layout, phantoms, Op::sum, {.segments = 1, .channels = 1, .inner = {}},
                                       {.timeout_s = 20, .record = true});
  EXPECT_EQ(run.timeline.size(), 4u * 6 * 2);
  for (const Span& span : run.timeline) EXPECT_LE(span.posted, span.ended);
}

}  // namespace
}  // namespace foreduce
