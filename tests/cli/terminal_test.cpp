// What stands on a terminal beside the answer: progress, and errors that fit its width.
#include <gtest/gtest.h>

#include "tests/support/program.hpp"
#include "tests/support/says.hpp"
#include "tests/support/terminal.hpp"

namespace foreduce {
namespace {

using namespace test;

std::string says_on_terminal(const std::string& arguments, int columns = 80) {
  return on_terminal(std::string(FOREDUCE_PROGRAM) + " " + arguments, columns);
}

TEST(Progress, IsShownByTestAlgorithm) {
  const std::string shown =
      says_on_terminal("test-algorithm ring --ranks 8 --elements 400000,400001,400002");
  EXPECT_TRUE(std::regex_search(shown, std::regex(R"(\[#*\.*\] \d+/\d+ cases)"))) << shown;
}

TEST(Progress, IsShownByRun) {
  const std::string shown =
      says_on_terminal("run --ranks 2 --sizes 4MiB --iterations 6000 --algorithm ring");
  EXPECT_TRUE(std::regex_search(shown, std::regex(R"(\[#*\.*\] \d+/12010 iterations)"))) << shown;
  EXPECT_SAYS(shown, "Avg bus bandwidth");
}

TEST(Progress, IsForTerminalsOnly) {
  EXPECT_EQ(foreduce_says("run --ranks 2 --sizes 4MiB --iterations 1500").out.find("iterations,"),
            std::string::npos);
}

TEST(ErrorLists, FitTheTerminal) {
  for (const int columns : {70, 120}) {
    const std::string said =
        says_on_terminal("compare --instance nope --nodes 2 --algorithm ring", columns);
    EXPECT_SAYS(said, "error: unknown instance 'nope'");
    EXPECT_SAYS(said, "\r\n  accepted: ");
    EXPECT_SAYS(said, "\r\n    ");
    for (std::string line : lines_of(said)) {
      line.erase(line.find_last_not_of('\r') + 1);
      EXPECT_LE(width_of(line), static_cast<std::size_t>(columns)) << line;
    }
  }
}

TEST(ErrorLists, HaveAHundredColumnsElsewhere) {
  const std::string said = foreduce_says("compare --instance nope --nodes 2 --algorithm ring").out;
  EXPECT_TRUE(lines_wider_than(100, said).empty()) << said;
  EXPECT_FALSE(lines_wider_than(80, said).empty()) << said;
}

}  // namespace
}  // namespace foreduce
