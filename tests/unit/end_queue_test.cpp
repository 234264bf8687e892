#include "sim/end_queue.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace foreduce {
namespace {

TEST(EndQueue, FlowEndsMoveEarlierAndLater) {
  EndQueue ends;
  ends.set(0, 3.0);
  ends.set(1, 2.0);
  ends.set(2, 1.0);
  ends.set(2, 4.0);
  EXPECT_EQ(ends.next(), 1u);
  ends.set(0, 1.5);
  EXPECT_EQ(ends.next(), 0u);
  EXPECT_EQ(ends.next_at(), 1.5);
}

/// Against a set that is sorted at any time.
TEST(EndQueue, GivesTheFirstEnd) {
  std::mt19937 random(1);
  EndQueue ends;
  std::map<EndQueue::Flow, double> at;
  std::set<std::pair<double, EndQueue::Flow>> sorted;
  for (int step = 0; step < 100'000; ++step) {
    if (random() % 3 == 0 && !sorted.empty()) {
      at.erase(sorted.begin()->second);
      sorted.erase(sorted.begin());
      ends.pop();
    } else {
      const auto flow = static_cast<EndQueue::Flow>(random() % 300);
      const auto end = static_cast<double>(random() % 1000);
      if (const auto known = at.find(flow); known != at.end()) sorted.erase({known->second, flow});
      at[flow] = end;
      sorted.emplace(end, flow);
      ends.set(flow, end);
    }
    ASSERT_EQ(ends.empty(), sorted.empty());
    if (sorted.empty()) continue;
    ASSERT_EQ(ends.next_at(), sorted.begin()->first);
    ASSERT_EQ(ends.next(), sorted.begin()->second);
  }
}

}  // namespace
}  // namespace foreduce
