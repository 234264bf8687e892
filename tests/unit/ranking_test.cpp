// The order of algorithms, measured against predicted, by hand.
#include "scenarios/validation/ranking.hpp"

#include <gtest/gtest.h>

#include "scenarios/report/validation_report.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

TEST(Kendall, CountsPairsThatDifferByATenth) {
  const std::vector<Timed> too_close{{"a", 1, 1.00, 5}, {"b", 1, 1.05, 4}};
  EXPECT_EQ(kendall(too_close), std::nullopt);
  const std::vector<Timed> same_order{{"a", 1, 1, 2}, {"b", 1, 2, 3}};
  EXPECT_EQ(kendall(same_order), 1);
  const std::vector<Timed> opposite_order{{"a", 1, 1, 3}, {"b", 1, 2, 2}};
  EXPECT_EQ(kendall(opposite_order), -1);
  const std::vector<Timed> predicted_equal{{"a", 1, 1, 2}, {"b", 1, 2, 2}};
  EXPECT_EQ(kendall(predicted_equal), 0);
  const std::vector<Timed> two_sizes{{"a", 1, 1, 2}, {"b", 2, 2, 1}};
  EXPECT_EQ(kendall(two_sizes), std::nullopt);
  const std::vector<Timed> one_pair_of_three_swapped{
      {"a", 1, 1, 1}, {"b", 1, 2, 3}, {"c", 1, 3, 2}};
  EXPECT_DOUBLE_EQ(kendall(one_pair_of_three_swapped).value(), 1.0 / 3);
}

TEST(Crossings, LieBetweenSizes) {
  const auto all = crossings({{"a", 4, 1, 1},
                              {"b", 4, 2, 2},
                              {"a", 16, 3, 1},
                              {"b", 16, 2, 2},
                              {"a", 64, 5, 9},
                              {"b", 64, 4, 2}});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_DOUBLE_EQ(all[0].measured.value(), 8);
  EXPECT_DOUBLE_EQ(all[0].predicted.value(), 32);
}

TEST(Crossings, AreNoneWhereTheOrderStays) {
  EXPECT_TRUE(crossings({{"a", 4, 1, 1}, {"b", 4, 2, 2}, {"a", 8, 1, 1}, {"b", 8, 2, 2}}).empty());
}

TEST(Crossings, AreTheLastOfSeveral) {
  const auto there_and_back = crossings({{"a", 4, 1, 1},
                                         {"b", 4, 2, 2},
                                         {"a", 16, 3, 1},
                                         {"b", 16, 2, 2},
                                         {"a", 64, 3, 1},
                                         {"b", 64, 4, 2}});
  ASSERT_EQ(there_and_back.size(), 1u);
  EXPECT_DOUBLE_EQ(there_and_back[0].measured.value(), 32);
}

TEST(Crossings, CompareTheFastestSegmentCounts) {
  const std::vector<Timed> rows{{"a", 4, 1, 1},  {"a", 4, 9, 9},  {"b", 4, 2, 2},
                                {"a", 16, 9, 9}, {"a", 16, 3, 1}, {"b", 16, 2, 2}};
  const std::vector<Timed> reversed(rows.rbegin(), rows.rend());
  for (const auto& in_order : {rows, reversed}) {
    const auto all = crossings(in_order);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_DOUBLE_EQ(all[0].measured.value(), 8);
    EXPECT_FALSE(all[0].predicted);
  }
}

TEST(Crossings, AreWrittenWithTheirSizes) {
  UserRunsValidation validation;
  validation.crossings = {{{"a", "b"}, 32 * 1024, std::nullopt}};
  EXPECT_EQ(own_runs_report(validation)["crossovers"][0]["text"],
            "a and b change places: measured at 32 KiB, predicted never");
}

TEST(OwnRunsReport, EndsWithAVerdict) {
  const auto verdict = [](double mean, std::optional<double> tau) {
    UserRunsValidation validation;
    validation.runs.resize(1);
    validation.runs[0].algorithm = find_algorithm("ring");
    validation.errors.mean = mean;
    validation.kendall_tau = tau;
    return render(own_runs_report(validation), View{});
  };
  EXPECT_SAYS(verdict(0.05, 1), "Verdict: good enough to choose algorithms");
  EXPECT_SAYS(verdict(0.05, {}), "Verdict: good enough to choose algorithms");
  EXPECT_SAYS(verdict(0.05, 0.5), "Verdict: good enough for node counts");
  EXPECT_SAYS(verdict(0.2, 1), "than 40 % are not told apart");
  EXPECT_SAYS(verdict(0.5, 1), "Verdict: not good enough");
}

// Computing is most of a step and is replayed as it was measured: "error median 1 %" says nothing
// of communication that was predicted at a quarter.
TEST(OwnRunsReport, JudgesTheCommunicationOfReplayedSteps) {
  UserRunsValidation validation;
  UserReplay replay;
  replay.whole.forward = Seconds{0.1};
  replay.whole.backward = Seconds{0.2};
  replay.measured = 0.308;
  replay.predicted = 0.302;
  validation.replays = {replay};
  validation.errors.mean = 0.02;
  const std::string text = render(own_runs_report(validation), View{});
  EXPECT_SAYS_NOT(text, "good enough");
  EXPECT_SAYS(text, "and 8.000 ms is");
  EXPECT_SAYS(text, "-75 %");
}

}  // namespace
}  // namespace foreduce
