// Without memory, and on a disk that is full or broken: at whichever call that happens, a command
// ends with one message and status 2, and the file of an earlier answer is as it was.
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;

constexpr const char* kBefore = "an earlier answer\n";

/// A command that writes its answer to the file of -o.
struct Command {
  const char *name, *arguments;
};
void PrintTo(const Command& c, std::ostream* out) { *out << c.name; }

class Faults : public testing::TestWithParam<Command> {
 protected:
  void SetUp() override {
    const fs::path answer = folder_.path() / "whole";
    ASSERT_EQ(foreduce_says(arguments() + " -o " + answer.string()).status, 0);
    undisturbed_ = read_text(answer);
  }

  static std::string arguments() {
    std::string all = GetParam().arguments;
    for (std::size_t at = 0; (at = all.find("SOURCE", at)) != std::string::npos;)
      all.replace(at, 6, source_folder().string());
    return all;
  }

  /// Lets the n-th call of a kind fail. False where the command makes fewer.
  bool survives(const std::string& kind, int n) {
    const fs::path answer = folder_.write("answer", kBefore), reached = folder_.path() / "reached";
    fs::remove(reached);
    const Result r = shell("timeout 60 env LD_PRELOAD=" FOREDUCE_FAULTS " " + kind + "=" +
                           std::to_string(n) + " FAULTS_REACHED=" + reached.string() +
                           " " FOREDUCE_PROGRAM " " + arguments() + " -o " + answer.string());
    if (!fs::exists(reached)) return false;
    // 1: a simulation in a process of its own died, and its row says so.
    EXPECT_LE(r.status, 2) << kind << "=" << n << ": " << r.out;
    EXPECT_LE(lines_of(r.out).size(), r.status == 0 ? 0u : 3u) << kind << "=" << n << ": " << r.out;
    if (r.status == 2) {
      EXPECT_EQ(read_text(answer), kBefore) << kind << "=" << n;
    } else if (r.status == 1) {
      EXPECT_SAYS(r.out, "have no answer");
    } else {
      EXPECT_EQ(read_text(answer), undisturbed_) << kind << "=" << n;
    }
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".foreduce"))
          << kind << "=" << n << " left " << entry.path();
    return !testing::Test::HasFailure();
  }

  TemporaryFolder folder_;
  std::string undisturbed_;
};

TEST_P(Faults, EndWithOneMessageAndLeaveTheOldAnswer) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer has its own allocator";
#endif
  int calls = 0;
  while (calls < 400 && survives("FAIL_IO", calls + 1)) ++calls;
  EXPECT_GE(calls, 3);
  // Of the allocations every one at the beginning, then fewer and fewer.
  int n = 1, allocations = 0;
  for (; allocations < 60 && survives("FAIL_ALLOCATION", n); ++allocations) n += n < 8 ? 1 : n / 4;
  EXPECT_GE(allocations, 20);
}

INSTANTIATE_TEST_SUITE_P(
    Commands, Faults,
    testing::Values(
        Command{"schema", "schema"},
        Command{"compare",
                "compare --instance p4d.24xlarge --nodes 2 --algorithm ring --sizes "
                "1KiB --no-cost"},
        Command{"predict", "predict SOURCE/scenarios/first-look.yaml --point 0 --no-cost"},
        Command{"check", "check SOURCE/tests/logs/dlami_p4d_2n.txt --instance p4d.24xlarge"},
        Command{"model", "workload from-config SOURCE/tests/configs/bert-base-uncased.json"}),
    [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace foreduce
