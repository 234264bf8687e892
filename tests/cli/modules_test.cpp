// Programs that were copied without their module, or with that of another build.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "input/build_id.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;

// It says so, and answers what needs no simulation.
TEST(Module, IsOfTheProgramsBuild) {
  const fs::path program = FOREDUCE_PROGRAM, module = program.parent_path() / "foreduce_simgrid.so";
  if (!fs::exists(module)) GTEST_SKIP() << "a build with sanitizers has no module";
  const TemporaryFolder folder;
  const fs::path copy = folder.path() / "foreduce", beside = folder.path() / "foreduce_simgrid.so";
  fs::copy_file(program, copy);
  const std::string with_data = "FOREDUCE_DATA=" + source_folder().string() + " " + copy.string();
  const std::string asked =
      with_data + " compare --instance p4d.24xlarge --nodes 2 --algorithm ring --sizes 1MiB";
  const auto refusal = [&] {
    const Result r = shell(asked);
    EXPECT_EQ(r.status, 2) << r.out;
    return words(r.out);
  };
  EXPECT_SAYS(refusal(), "foreduce_simgrid.so is neither beside the program nor in");
  EXPECT_EQ(shell(with_data + " list algorithms").status, 0);
  std::string bytes = read_text(module);
  const std::string id = build_id_of(module);
  ASSERT_GE(id.size(), 16u);
  std::string raw;
  for (std::size_t i = 0; i < id.size(); i += 2)
    raw += static_cast<char>(std::stoi(id.substr(i, 2), nullptr, 16));
  const auto at = bytes.find(raw);
  ASSERT_NE(at, std::string::npos);
  fs::copy_file(module, beside);
  EXPECT_EQ(shell(asked).status, 0);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  std::ofstream(beside, std::ios::binary) << bytes;
  EXPECT_SAYS(refusal(), "is of another build than the program");
}

}  // namespace
}  // namespace foreduce
