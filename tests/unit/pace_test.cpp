// What a progress bar says of the time that is left.
#include "scenarios/cli/pace.hpp"

#include <gtest/gtest.h>

namespace foreduce {
namespace {

TEST(Pace, IsOfTheBatchThatRuns) {
  Pace pace;
  pace.reached(0, 10, 100);
  pace.reached(5, 10, 110);
  EXPECT_EQ(pace.words(), ", 0.50 a second, 10 s left");
  pace.reached(1, 40, 111);  // `calibrate` has many batches, and said "735 s left" of ten
  EXPECT_EQ(pace.words(), "");
  pace.reached(21, 40, 121);
  EXPECT_EQ(pace.words(), ", 2.0 a second, 10 s left");
  pace.reached(1, 40, 122);  // as many once more
  EXPECT_EQ(pace.words(), "");
}

TEST(Pace, IsSaidOnceSeveralAreDoneInSeveralSeconds) {
  Pace pace;
  pace.reached(0, 100, 0);
  pace.reached(20, 100, 1);
  EXPECT_EQ(pace.words(), "");
  pace.reached(20, 100, 4);
  EXPECT_EQ(pace.words(), ", 5.0 a second, 16 s left");
  Pace slow;
  slow.reached(0, 100, 0);
  slow.reached(2, 100, 60);
  EXPECT_EQ(slow.words(), "");
}

}  // namespace
}  // namespace foreduce
