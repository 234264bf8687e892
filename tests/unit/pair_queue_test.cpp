#include "sim/pair_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace foreduce {
namespace {

using Pair = PairQueue::Pair;

TEST(PairQueue, GivesPairsInTheirOrder) {
  PairQueue queue;
  EXPECT_TRUE(queue.empty());
  const std::deque<Pair> pushed{{1, 10}, {3, 20}, {5, 30}, {5, 30}, {4, 1ull << 60}, {0, 0}};
  for (const Pair& pair : pushed) queue.push(pair);
  for (const Pair& pair : pushed) {
    ASSERT_FALSE(queue.empty());
    EXPECT_EQ(queue.pop(), pair);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(PairQueue, TakesFromTheMiddleOfARun) {
  PairQueue queue;
  for (std::uint64_t i = 0; i < 5; ++i) queue.push({i, 7 * i});
  Pair taken;
  EXPECT_FALSE(queue.take(5, 1, taken));
  EXPECT_FALSE(queue.take(2, 1, taken)) << "14 is even";
  EXPECT_TRUE(queue.take(2, 0, taken));
  EXPECT_EQ(taken, (Pair{2, 14}));
  for (const std::uint64_t left : {0u, 1u, 3u, 4u}) EXPECT_EQ(queue.pop(), (Pair{left, 7 * left}));
  EXPECT_TRUE(queue.empty());
}

/// Against a std::deque, of pairs that often go on by equal steps.
TEST(PairQueue, KeepsWhatAPlainQueueWould) {
  std::mt19937_64 random(1);
  PairQueue queue;
  std::deque<Pair> plain;
  Pair last;
  for (int step = 0; step < 200'000; ++step) {
    const auto choice = random() % 8;
    if (choice < 4) {
      last = random() % 4 == 0 ? Pair{random() % 50, random()}
                               : Pair{last.first + random() % 2, last.second + random() % 2};
      queue.push(last);
      plain.push_back(last);
    } else if (choice < 6) {
      const std::uint64_t wanted = random() % 60, bit = random() % 2;
      const auto is_wanted = [&](const Pair& pair) {
        return pair.first == wanted && (pair.second & 1) == bit;
      };
      const auto at = std::find_if(plain.begin(), plain.end(), is_wanted);
      Pair taken;
      ASSERT_EQ(queue.take(wanted, bit, taken), at != plain.end());
      if (at == plain.end()) continue;
      ASSERT_EQ(taken, *at);
      plain.erase(at);
    } else if (!plain.empty()) {
      ASSERT_EQ(queue.pop(), plain.front());
      plain.pop_front();
    }
    ASSERT_EQ(queue.empty(), plain.empty());
  }
}

}  // namespace
}  // namespace foreduce
