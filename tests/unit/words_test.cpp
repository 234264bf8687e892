// Words and numbers that reports share.
#include <gtest/gtest.h>

#include "scenarios/report/check_words.hpp"
#include "scenarios/report/sharding_report.hpp"
#include "scenarios/report/tested_report.hpp"
#include "scenarios/report/words.hpp"
#include "tests/support/says.hpp"

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

TEST(Words, NumbersStayBesideTheirUnits) {
  const View narrow{.width = 20};
  EXPECT_EQ(wrapped("takes a time of 4.354 d.", narrow), "takes a time of\n  4.354 d.\n");
  EXPECT_EQ(wrapped("efficiency of it 90 %, so", narrow), "efficiency of it\n  90 %, so\n");
  EXPECT_EQ(wrapped("and all of gpu0 a day", narrow), "and all of gpu0 a\n  day\n");
}

TEST(Words, AFailureOfSeveralLinesIsPartOfASentence) {
  TestedAlgorithm row;
  row.algorithm = "mine";
  row.ranks = 1;
  row.failed_case = "1 element in 1 segment";
  row.failure = "rank 0 waits for:\n  rank 0: recv from rank 1: nothing has arrived\n";
  const std::string said = render(tested_report({row}), View{.width = 500});
  EXPECT_SAYS(said,
              "1 of 1 row fails. First: the all_reduce of mine on 1 rank (), 1 element in 1 "
              "segment: rank 0 waits for: rank 0: recv from rank 1: nothing has arrived.\n");
}

TEST(Words, SmallBandwidthsAreNotZero) {
  EXPECT_SAYS(remark_words(remark::Plateau{Bytes{512}, 0.0123, 3, HealthyFrom::model, "", false}),
              "at 512 B it reaches 0.012 GB/s bus bandwidth, 67 % less than the 0.037 GB/s of");
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
