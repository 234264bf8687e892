// Words and numbers that reports share.
#include <gtest/gtest.h>

#include "scenarios/report/sharding_report.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

TEST(Words, SizesHaveThreeDigitsInTheUnitThatSuits) {
  constexpr double kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;
  EXPECT_EQ(size_words(8), "8 B");
  EXPECT_EQ(size_words(1000), "1000 B");
  EXPECT_EQ(size_words(kKiB), "1 KiB");
  EXPECT_EQ(size_words(1020 * kMiB), "1020 MiB");
  EXPECT_EQ(size_words(999.7 * kKiB), "1000 KiB");
  EXPECT_EQ(size_words(1.5 * kGiB), "1.5 GiB");
  EXPECT_EQ(size_words(2000 * kGiB), "2000 GiB");
}

TEST(Words, TimesOfARangeShareTheirUnit) {
  EXPECT_EQ(range_words(0.159, 0.406), "159 to 406 ms");
  EXPECT_EQ(range_words(0.9e-3, 1.2e-3), "0.90 to 1.20 ms");
  EXPECT_EQ(range_words(1e-6, 1e-3), "1 us to 1 ms");
}

TEST(Words, StrategiesSayWhatTheyDivide) {
  EXPECT_EQ(strategy_words({{"sharding", "none"}}), "ddp");
  EXPECT_EQ(strategy_words({{"sharding", "zero3"}, {"hybrid", 8}}), "zero3/8");
  EXPECT_EQ(strategy_words({{"sharding", "zero1"}, {"tensor_parallel", 4}, {"pipeline", 2}}),
            "zero1 tp4 pp2");
  EXPECT_EQ(strategy_words({{"sharding", "zero3"}, {"fp8_all_gather", true}}), "zero3 fp8-gather");
  EXPECT_EQ(strategy_words({{"sharding", "zero3"}, {"fp8_all_gather", false}}), "zero3");
}

TEST(Words, VaryingKeysAreThoseThatDifferOrAreMissingSomewhere) {
  const Json points = {{{"nodes", 1}, {"model", "a"}, {"placement", "packed"}},
                       {{"nodes", 2}, {"model", "a"}}};
  const auto keys = varying(points, {"model", "placement", "nodes", "nowhere"});
  EXPECT_EQ(std::vector<std::string>(keys.begin(), keys.end()),
            (std::vector<std::string>{"placement", "nodes"}));
  EXPECT_TRUE(varying(Json::array(), {"nodes"}).empty());
}

}  // namespace
}  // namespace foreduce
