// `check` by an earlier log of the same cluster.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "scenarios/validation/diagnosis.hpp"
#include "tests/support/checked.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"
#include "tests/support/sizes.hpp"

namespace foreduce {
namespace {

using namespace test;

NcclLog p5_log() {
  return load_nccl_log(std::filesystem::path(FOREDUCE_SOURCE_FOLDER) / "tests" / "logs" /
                       "awsome_p5_2n.txt");
}

/// The same with other times from so many bytes on.
NcclLog slower_from(double times, double from) {
  NcclLog log = p5_log();
  for (NcclRow& r : log.tables[0].rows)
    if (r.bytes >= from) r.out_of_place->time = r.out_of_place->time * times;
  return log;
}

CheckedTable beside(const NcclLog& log, const NcclLog& earlier) {
  CheckQuestion question{"p5.48xlarge", 2, HealthyFrom::log};
  question.earlier = std::make_shared<const NcclLog>(earlier);
  return check(log, question, {}).at(0);
}

TEST(CheckByEarlierLog, ARunIsNormalBesideItself) {
  const CheckedTable t = beside(p5_log(), p5_log());
  EXPECT_TRUE(t.normal);
  for (const CheckedRow& r : t.rows) {
    EXPECT_EQ(r.from, HealthyFrom::log);
    EXPECT_EQ(r.expected, r.row.timing().time);
  }
}

// Both are far from what others published: an own cluster that is always slow says what is normal.
TEST(CheckByEarlierLog, SaysWhatHasChanged) {
  const NcclLog earlier = slower_from(1.5, 0);
  EXPECT_TRUE(beside(slower_from(1.5, 0), earlier).normal);
  NcclLog now = slower_from(1.5, 0);
  for (NcclRow& r : now.tables[0].rows)
    if (r.bytes >= 64 * kMiB) r.out_of_place->time = r.out_of_place->time * 1.2;
  const CheckedTable t = beside(now, earlier);
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS(remarks_of(t), "it takes, in the mean of all sizes, 1.00 times as long below 1 MiB");
  EXPECT_SAYS(remarks_of(t), "% less than");
  for (const CheckedRow& r : t.rows)
    EXPECT_EQ(r.verdict, r.row.bytes >= 64 * kMiB ? Verdict::slow : Verdict::normal) << r.row.bytes;
}

// A size between two of the earlier run is judged by both; far from any of them the model is asked.
TEST(CheckByEarlierLog, SizesBetweenAreInterpolated) {
  NcclLog earlier = p5_log();
  std::erase_if(earlier.tables[0].rows, [](const NcclRow& r) {
    return r.bytes < 65536 || (r.bytes > 200 * kMiB && r.bytes < 600 * kMiB);
  });
  const CheckedTable t = beside(p5_log(), earlier);
  for (const CheckedRow& r : t.rows) {
    EXPECT_EQ(r.from, r.row.bytes < 65536 ? HealthyFrom::model : HealthyFrom::log) << r.row.bytes;
    if (r.row.bytes == 256 * kMiB) {
      EXPECT_NE(r.expected, r.row.timing().time);
      EXPECT_NEAR(r.expected / r.row.timing().time, 1, 0.1);
    }
  }
}

TEST(CheckByEarlierLog, NeedsATableOfTheSameKind) {
  NcclLog earlier = p5_log();
  earlier.tables[0].ranks = 8;
  EXPECT_SAYS(error_of([&] { beside(p5_log(), earlier); }),
              "there is no all_reduce of 16 ranks in it");
  earlier.tables[0].ranks = 16;
  earlier.tables[0].gpu = "NVIDIA A100-SXM4-40GB";
  NcclLog now = p5_log();
  now.tables[0].gpu = "NVIDIA H100 80GB HBM3";
  EXPECT_SAYS(error_of([&] { beside(now, earlier); }),
              "error: this log is of NVIDIA H100 80GB HBM3, and ");
  earlier.tables[0].gpu = "";
  earlier.tables[0].out_of_bounds = 3;
  EXPECT_SAYS(error_of([&] { beside(now, earlier); }),
              "its sums are wrong, so it cannot say what is normal");
}

}  // namespace
}  // namespace foreduce
