// The step model against published training runs. The limits are today's figures: accuracy must not rot; they say nothing of being good.
#include <gtest/gtest.h>

#include <map>

#include "scenarios/core/training_reference.hpp"

namespace foreduce {
namespace {

TEST(TrainingReference, ErrorsStayWithinTodaysFigures) {
  const auto points = training_reference(0);
  std::map<std::string, TrainingErrors> errors;
  for (const TrainingErrors& e : training_errors(points)) errors[e.group] = e;
  struct Limit {
    const char* group;
    std::size_t n;
    double median, efficiency;
  };
  for (const Limit& l : {Limit{"adaptdl-g4dn, one node", 24, 0.03, 0.03}, {"adaptdl-g4dn, more nodes", 208, 0.095, 0.068}, {"dlperf, one node", 54, 0.045, 0.042}, {"dlperf, more nodes", 32, 0.15, 0.122},
                         {"pytorch-ddp-bench, one node", 6, 0.02, 0.02}, {"pytorch-ddp-bench, more nodes", 2, 0.033, 0.032}, {"aws-samples-dlm, more nodes", 3, 0.215, 0.17}, {"dle, one node", 39, 0.026, 0.024}}) {
    ASSERT_EQ(errors.count(l.group), 1u) << l.group;
    EXPECT_EQ(errors[l.group].n, l.n) << l.group;
    EXPECT_LE(errors[l.group].median, l.median) << l.group;
    EXPECT_LE(errors[l.group].efficiency, l.efficiency) << l.group;
  }
}

TEST(TrainingReference, PointsAreThePublishedOnes) {
  const auto points = training_reference(0);
  const auto found = std::find_if(points.begin(), points.end(), [](const TrainingPoint& p) { return p.source == "dlperf" && p.nodes == 4 && p.precision == "fp32" && p.library.find("NGC 20.03") != std::string::npos; });
  ASSERT_NE(found, points.end());
  EXPECT_NEAR(found->measured_step, 128 * 32 / 10917.09, 1e-9);
  EXPECT_NEAR(found->measured_efficiency, 0.9287, 2e-4);  // as printed
  for (const TrainingPoint& p : points) {
    EXPECT_GT(p.predicted_efficiency, 0.05) << p.line;
    EXPECT_LE(p.predicted_efficiency, 1) << p.line;
  }
}

}  // namespace
}  // namespace foreduce
