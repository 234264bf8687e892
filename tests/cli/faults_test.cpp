// Without memory, and on a disk that is full or broken: at whichever call that happens, a command
// ends with one message and status 2, and the file of an earlier answer is as it was.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;

constexpr const char* kBefore = "an earlier answer\n";

/// SimGrid says on standard error where in it memory was missing; the other lines are ours, each
/// counted once: several processes of one command may say the same.
std::vector<std::string> lines_of_ours(const std::string& out) {
  std::vector<std::string> lines = lines_of(out);
  std::erase_if(lines, [](const std::string& line) {
    return line.find("[root/CRITICAL]") != std::string::npos || line.starts_with("Backtrace (") ||
           line.starts_with("  ->  ");
  });
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return lines;
}

/// A command, and what its answer is.
struct Command {
  const char *name, *arguments;
  enum class Answer {
    same,      ///< written to a file, equal each time
    measured,  ///< written to a file, with times that differ
    printed    ///< on standard output
  } answer = Answer::same;
  bool cached = false;        ///< whether simulations are kept, and taken from there the next time
  const char* into = "-o %";  ///< where it is written: the file %
  const char* file = "answer";  ///< its name
};
void PrintTo(const Command& c, std::ostream* out) { *out << c.name; }

class Faults : public testing::TestWithParam<Command> {
 protected:
  void SetUp() override {
    folder_.write("cluster.yaml",
                  R"(name: x
cluster: { instance: ./two.yaml, nodes: 2 }
allreduce: { algorithm: ring }
messages: { sizes: 64 KiB }
)");
    folder_.write("two.yaml",
                  R"(instance: f
gpu: { model: mine, count: 1, reduce_bandwidth: 9 GB/s }
nic: { count: 1, bandwidth: 10 Gbps, latency: 20 us }
)");
    folder_.write("runs.json",
                  R"({"kind":"run","layout":{"ranks":2},"rows":[{"algorithm":"ring",)"
                  R"("dtype":"f32","count":1024,"segments":1,"in_place":{"median_s":0.001}}]})");
    std::string points;
    for (const char* kind : {"exchange", "burst", "reduce"})
      for (const char* way : {"network", "memory"})
        for (const int bytes : {4, 1024, 65536, 1 << 18, 1 << 20, 1 << 22, 1 << 24})
          points +=
              fmt::format(R"({}{{"kind":"{}","path":"{}","bytes":{},"fan":1,"samples_s":[{}]}})",
                          points.empty() ? "" : ",", kind, way, bytes, 1e-5 + bytes * 1e-9);
    folder_.write("probe.json", R"({"kind":"probe","points":[)" + points + "]}");
    for (const int part : {1, 2})
      ASSERT_EQ(foreduce_says("compare --instance p4d.24xlarge --nodes 1 --algorithm ring --sizes "
                              "8B,1KiB --no-cost --format json --shard " +
                              std::to_string(part) + "/2 -o " +
                              (folder_.path() / ("part" + std::to_string(part) + ".json")).string())
                    .status,
                0);
    fs::create_directory(folder_.path() / "answers");
    const fs::path answer = answers() / GetParam().file;
    const Result whole = foreduce_says(arguments() + (written() ? into(answer) : ""));
    ASSERT_EQ(whole.status, 0) << whole.out;
    undisturbed_ = written() ? read_text(answer) : whole.out;
    notes_ = lines_of_ours(whole.out).size();
    fs::remove(answer);
  }

  std::string cache() const {
    return GetParam().cached ? "FOREDUCE_CACHE=" + (folder_.path() / "kept").string()
                             : "FOREDUCE_CACHE=off";
  }
  /// Whether a table is written into another file, before or after the answer.
  bool two_files() const {
    return std::string(GetParam().into).find("FOLDER/table") != std::string::npos;
  }
  std::string beside() const {
    return two_files() && fs::exists(folder_.path() / "table") ? read_text(folder_.path() / "table")
                                                               : "";
  }
  bool written() const { return GetParam().answer != Command::Answer::printed; }
  fs::path answers() const { return folder_.path() / "answers"; }

  std::string with_folders(const std::string& text) const {
    const std::string all =
        std::regex_replace(text, std::regex("SOURCE"), source_folder().string());
    return std::regex_replace(all, std::regex("FOLDER"), folder_.path().string());
  }
  std::string arguments() const { return with_folders(GetParam().arguments); }
  /// The option that writes the answer into that file.
  std::string into(const fs::path& answer) const {
    return " " +
           with_folders(std::regex_replace(GetParam().into, std::regex("%"), answer.string()));
  }

  /// Lets the n-th call of a kind fail. False where the command makes fewer.
  bool survives(const std::string& kind, int n) {
    const std::string trace = kind + "=" + std::to_string(n);
    const fs::path answer = folder_.write(std::string("answers/") + GetParam().file, kBefore),
                   reached = folder_.path() / "reached";
    fs::remove(reached);
    fs::remove_all(folder_.path() / "kept");
    const std::string command =
        cache() + " " FOREDUCE_PROGRAM " " + arguments() + (written() ? into(answer) : "");
    const Result r = shell("timeout 60 env LD_PRELOAD=" FOREDUCE_FAULTS " " + trace +
                           " FAULTS_REACHED=" + reached.string() + " TMPDIR=" + answers().string() +
                           " " + command);
    if (!fs::exists(reached)) return false;
    // 1: a simulation in a process of its own died, and its row says so.
    EXPECT_LE(r.status, 2) << trace << ": " << r.out;
    check_answer(r, trace, read_text(answer));
    for (const auto& entry : fs::directory_iterator(answers()))
      EXPECT_EQ(entry.path(), answer) << trace << " left it";
    if (GetParam().cached) {  // nothing half-written was kept
      EXPECT_EQ(shell(command).status, 0) << trace;
      EXPECT_EQ(read_text(answer), undisturbed_) << trace;
    }
    return !testing::Test::HasFailure();
  }

  void check_answer(const Result& r, const std::string& trace, const std::string& answer) const {
    if (r.status == 2) {
      // A simulation in a process of its own counts alike: the fault may be there, its row says so,
      // and again here, behind the answer.
      EXPECT_TRUE(answer == kBefore || (two_files() && answer == undisturbed_) ||
                  std::regex_search(answer, std::regex("there is not enough memory")))
          << trace << ": " << answer;
      EXPECT_FALSE(r.out.empty()) << trace;
      EXPECT_SAYS_NOT(r.out, "bad_alloc");
    } else if (r.status == 1) {
      // Where a C library aborts instead, the process of that row alone ends, and the row says so.
      EXPECT_TRUE(
          std::regex_search(r.out + answer + beside(),
                            std::regex("no answer|died|memory|killed\\s+by\\s+signal\\s+6")))
          << trace << ": " << r.out << answer;
    } else if (GetParam().answer == Command::Answer::same) {
      EXPECT_EQ(answer, undisturbed_) << trace;
    } else if (GetParam().answer == Command::Answer::measured) {
      EXPECT_NE(answer, kBefore) << trace;
      EXPECT_TRUE(answer.ends_with("\n")) << trace;
    } else {
      EXPECT_EQ(r.out, undisturbed_) << trace;
    }
    if (written()) {
      EXPECT_LE(lines_of_ours(r.out).size(), r.status == 0 ? notes_ : 3u) << trace << ": " << r.out;
    }
  }

  TemporaryFolder folder_;
  std::string undisturbed_;
  std::size_t notes_ = 0;  ///< lines that the command prints beside its answer
};

TEST_P(Faults, EndWithOneMessageAndLeaveTheOldAnswer) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer has its own allocator";
#endif
  // Every one at the beginning, then fewer and fewer.
  const auto sample = [&](const char* kind, int all) {
    int calls = 0;
    for (int n = 1; calls < 60 && survives(kind, n); ++calls) n += n < all ? 1 : n;
    return calls;
  };
  if (written()) {
    EXPECT_GE(sample("FAIL_IO", 8), 3);  // of standard output see AFullDiskIsAnError
  }
  EXPECT_GE(sample("FAIL_ALLOCATION", 6), 10);
}

using enum Command::Answer;
INSTANTIATE_TEST_SUITE_P(
    Commands, Faults,
    testing::Values(
        Command{"help", "help", printed},
        Command{"schema", "schema", same, false, "-o %", "answer.json"},
        Command{"list", "list instances"}, Command{"docs", "docs commands"},
        Command{"man", "docs man"}, Command{"completions", "docs bash"},
        Command{"cache", "cache", printed},
        Command{"topology", "topology p4d.24xlarge --format json"},
        Command{"graph", "topology p3dn.24xlarge --dot", same, false, "-o %", "answer.dot"},
        Command{"dump", "topology import SOURCE/tests/topologies/p4d-24xl-topo.xml", same, false,
                "-o %", "answer.yaml"},
        Command{"schedule", "algorithm export ring --ranks 4", same, false, "-o %", "answer.xml"},
        Command{"model", "workload from-config SOURCE/tests/configs/bert-base-uncased.json", same,
                false, "-o %", "answer.yaml"},
        Command{"profiler", "workload from-trace SOURCE/tests/traces/recommender-128ranks.json.gz"},
        Command{"compare",
                "compare --instance p4d.24xlarge --nodes 2 --algorithm ring --sizes 1KiB "
                "--no-cost --jobs 1"},
        Command{"kept",
                "compare --instance p4d.24xlarge --nodes 2 --algorithm ring --sizes 1KiB "
                "--no-cost --jobs 1",
                same, true},
        Command{"page",
                "compare --instance p4d.24xlarge --nodes 2 --algorithm ring --sizes 1KiB "
                "--no-cost --jobs 1 --format html"},
        Command{"page_beside",
                "compare --instance p4d.24xlarge --nodes 2 --algorithm ring --sizes 1KiB "
                "--no-cost --jobs 1",
                same, false, "-o FOLDER/table --html %", "answer.html"},
        Command{"trace",
                "compare --instance p4d.24xlarge --nodes 2 --algorithm ring --sizes 1KiB "
                "--no-cost --jobs 1",
                same, false, "-o FOLDER/table --trace %", "messages.json"},
        Command{"packed_trace", "predict SOURCE/scenarios/first-look.yaml --point 0 --jobs 1", same,
                false, "-o FOLDER/table --trace %", "step.json.gz"},
        Command{"picture",
                "plan SOURCE/scenarios/plan-resnet50.yaml --set cluster.nodes=2 "
                "--set cluster.instance=p4d.24xlarge --set allreduce.algorithm=ring --jobs 1",
                same, false, "-o FOLDER/table --plot FOLDER/answers",
                "ResNet-50-in-an-evening.svg"},
        Command{"pictures", "validate ideal FOLDER/runs.json --cluster FOLDER/cluster.yaml", same,
                false, "-o FOLDER/table --plot FOLDER/answers", "ideal.svg"},
        Command{"predict", "predict SOURCE/scenarios/first-look.yaml --point 0 --no-cost --jobs 1"},
        Command{"explain",
                "explain SOURCE/scenarios/first-look.yaml --point 0 --no-changes --jobs 1"},
        Command{"plan",
                "plan SOURCE/scenarios/plan-resnet50.yaml --set cluster.nodes=2 "
                "--set cluster.instance=p4d.24xlarge --set allreduce.algorithm=ring --jobs 1"},
        Command{"check",
                "check SOURCE/tests/logs/dlami_p4d_2n.txt --instance p4d.24xlarge --jobs 1"},
        Command{"validate", "validate ideal FOLDER/runs.json --cluster FOLDER/cluster.yaml"},
        Command{"calibrate", "calibrate FOLDER/probe.json --cluster FOLDER/cluster.yaml", same,
                false, "-o %", "answer.yaml"},
        Command{"show", "show FOLDER/part1.json"},
        Command{"merge", "merge FOLDER/part1.json FOLDER/part2.json"},
        Command{"run", "run --algorithm ring --ranks 2 --sizes 1KiB --iterations 1 --warmup 0",
                measured},
        Command{"test_algorithm", "test-algorithm ring --ranks 2 --elements 7 --segments 1"}),
    [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace foreduce
