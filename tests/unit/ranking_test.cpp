// The order of algorithms, measured against predicted, by hand.
#include <gtest/gtest.h>

#include "scenarios/validation/ranking.hpp"

namespace foreduce {
namespace {

TEST(Order, KendallCountsPairsThatDifferByATenth) {
  EXPECT_EQ(kendall({{"a", 1, 1.00, 5}, {"b", 1, 1.05, 4}}), std::nullopt);  // too close to have an order
  EXPECT_EQ(kendall({{"a", 1, 1, 2}, {"b", 1, 2, 3}}), 1);
  EXPECT_EQ(kendall({{"a", 1, 1, 3}, {"b", 1, 2, 2}}), -1);
  EXPECT_EQ(kendall({{"a", 1, 1, 2}, {"b", 1, 2, 2}}), 0);             // predicted equal: no order
  EXPECT_EQ(kendall({{"a", 1, 1, 2}, {"b", 2, 2, 1}}), std::nullopt);  // other sizes have nothing to do with each other
  EXPECT_DOUBLE_EQ(*kendall({{"a", 1, 1, 1}, {"b", 1, 2, 3}, {"c", 1, 3, 2}}), 1.0 / 3);
}

TEST(Order, CrossingsLieBetweenSizesAndAreTheLast) {
  const auto all = crossings({{"a", 4, 1, 1}, {"b", 4, 2, 2}, {"a", 16, 3, 1}, {"b", 16, 2, 2}, {"a", 64, 5, 9}, {"b", 64, 4, 2}});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_DOUBLE_EQ(*all[0].measured, 8);
  EXPECT_DOUBLE_EQ(*all[0].predicted, 32);
  EXPECT_TRUE(crossings({{"a", 4, 1, 1}, {"b", 4, 2, 2}, {"a", 8, 1, 1}, {"b", 8, 2, 2}}).empty());
  const auto back = crossings({{"a", 4, 1, 1}, {"b", 4, 2, 2}, {"a", 16, 3, 1}, {"b", 16, 2, 2}, {"a", 64, 3, 1}, {"b", 64, 4, 2}});
  ASSERT_EQ(back.size(), 1u);
  EXPECT_DOUBLE_EQ(*back[0].measured, 32);  // there and back: for good from here
  EXPECT_EQ(to_text({{"a", "b"}, 32 * 1024, std::nullopt}), "a and b change places: measured at 32 KiB, predicted at never");
}

TEST(Order, OfSeveralSegmentCountsTheFastestCounts) {
  const std::vector<Timed> rows{{"a", 4, 1, 1}, {"a", 4, 9, 9}, {"b", 4, 2, 2}, {"a", 16, 9, 9}, {"a", 16, 3, 1}, {"b", 16, 2, 2}};
  std::vector<Timed> rotated(rows.rbegin(), rows.rend());
  for (const auto& of : {rows, rotated}) {
    const auto all = crossings(of);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_DOUBLE_EQ(*all[0].measured, 8);
    EXPECT_FALSE(all[0].predicted);
  }
}

}  // namespace
}  // namespace foreduce
