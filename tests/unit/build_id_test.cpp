// Which build of a program or library this is: answers that are kept on disk are of one build.
#include "input/build_id.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "input/files.hpp"
#include "tests/support/files.hpp"

namespace foreduce {
namespace {

using namespace test;

TEST(BuildId, IsTheSameOfTheFileAndOfTheProgramThatRuns) {
  const std::string running = build_id_of_program();
  EXPECT_GE(running.size(), 16u);
  EXPECT_EQ(build_id_of("/proc/self/exe"), running);
}

TEST(BuildId, DiffersBetweenTheProgramAndItsModule) {
  const auto module = module_file("simgrid");
  if (module.empty()) GTEST_SKIP() << "a build with sanitizers has no module";
  EXPECT_GE(build_id_of(module).size(), 16u);
  EXPECT_NE(build_id_of(module), build_id_of_program());
}

// Headers that point behind the end of the file, and files that are no programs.
TEST(BuildId, IsEmptyWhereAFileHasNone) {
  const TemporaryFolder folder;
  std::string head(80, '\0');
  std::ifstream("/proc/self/exe", std::ios::binary).read(head.data(), 80);
  EXPECT_EQ(build_id_of(folder.write("text", "no program\n")), "");
  EXPECT_EQ(build_id_of(folder.write("empty", "")), "");
  EXPECT_EQ(build_id_of(folder.write("cut", head)), "");
  EXPECT_EQ(build_id_of(folder.path() / "missing"), "");
  EXPECT_EQ(build_id_of(folder.path()), "");
}

}  // namespace
}  // namespace foreduce
