// nccl-tests' own lines, so that scripts that read those read ours.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "algorithms/core/collective.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// One past the last letter of each word of a line.
std::vector<std::size_t> word_ends(const std::string& line) {
  static const std::regex word(R"(\S+)");
  std::vector<std::size_t> ends;
  for (std::sregex_iterator i(line.begin(), line.end(), word), end; i != end; ++i)
    ends.push_back(static_cast<std::size_t>(i->position() + i->length()));
  return ends;
}

/// Lines of a table: neither empty nor a comment.
std::vector<std::string> rows_of(const std::string& text) {
  std::vector<std::string> rows = lines_of(text);
  std::erase_if(rows, [](const std::string& l) { return l.empty() || l.starts_with("#"); });
  return rows;
}

/// Expects the columns of nccl-tests, as in a log that it wrote.
void expect_columns_of_nccl_tests(const std::string& text) {
  const auto theirs = word_ends(
      rows_of(read_text(source_folder() / "tests" / "logs" / "awsome_p5_2n.txt")).front());
  ASSERT_EQ(theirs.size(), 13u);
  const auto rows = rows_of(text);
  ASSERT_FALSE(rows.empty()) << text;
  for (const std::string& row : rows) {
    EXPECT_EQ(word_ends(row), theirs) << row;
    EXPECT_SAYS(row, "     float     sum      -1 ");
  }
  EXPECT_SAYS(text, "\n# Out of bounds values : 0 OK\n");
  EXPECT_SAYS(text, "\n# Avg bus bandwidth    : ");
}

const std::string kCompare =
    "compare --instance p4d.24xlarge --nodes 2 --algorithm nccl --sizes 8B:1GiB:x8 ";

TEST(NcclTestsLines, ComparePrintsItsColumns) {
  const Result r = foreduce_says(kCompare + "--format nccl-tests");
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(rows_of(r.out).size(), 10u);
  expect_columns_of_nccl_tests(r.out);
}

TEST(NcclTestsLines, RunPrintsItsColumns) {
  const Result r = foreduce_says("run --ranks 2 --sizes 8B,1MiB --iterations 2 --check");
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_EQ(rows_of(r.out).size(), 2u);
  expect_columns_of_nccl_tests(r.out);
}

// What `run` printed beside a real NCCL is a log that `check` reads. Up to 32 KiB, where a
// loopback's rate hardly counts, NCCL takes as long as predicted; beyond, 10 Gb/s is less than the
// loopback has.
TEST(NcclTestsLines, CheckReadsThoseOfRun) {
  const TemporaryFolder folder;
  const auto machine = folder.write("loopback.yaml", R"(
instance: loopback
like: p5.4xlarge
nic: { count: 1, bandwidth: 10 Gb/s, fabric: tcp }
)");
  const Result r = foreduce_says("check --instance " + machine.string() + " " +
                                 (source_folder() / "tests/logs/own_h100_4n_sockets.txt").string());
  EXPECT_EQ(r.status, 1);
  EXPECT_SAYS(r.out, "all_reduce of 4 ranks on 4 x loopback (profile nccl-h100+tcp), NCCL 2.28.9");
  EXPECT_SAYS(r.out, "\nNot normal: 3 of 12 sizes faster than their interval.\n");
  EXPECT_SAYS(r.out, "(32 MiB: 19.61 ms, 40.27 ms at\n  least)");
  for (const char* size : {"\n    8 B  float ", "\n  2 KiB  float ", "\n 32 KiB  float "}) {
    EXPECT_SAYS(r.out, size);
    EXPECT_SAYS(r.out.substr(r.out.find(size), 85), "  normal\n") << size;
  }
}

// Four p5 on which NCCL runs a ring where the plugin's tuner takes trees, and says so.
TEST(NcclTestsLines, WithNcclsOwnChoicesNameTheCause) {
  const TemporaryFolder folder;
  const std::string compare =
      "compare --instance p5.48xlarge --nodes 4 --algorithm nccl --sizes 1MiB:8GiB:x8 "
      "--format nccl-tests";
  const auto verdict = [&](const std::string& forced, const char* algorithm) {
    std::string log;
    for (const std::string& line : lines_of(foreduce_says(compare + forced).out)) {
      if (const std::string size = line.substr(0, line.find_first_not_of(" 0123456789"));
          !size.empty() && size.find_first_of("0123456789") != std::string::npos)
        log += fmt::format("ip-10-0-0-1:7:9 [0] NCCL INFO AllReduce: {} Bytes -> Algo {}\n",
                           std::stoll(size), algorithm);
      log += line + "\n";
    }
    return foreduce_says("check --instance p5.48xlarge --nodes 4 " +
                         folder.write("log.txt", log).string());
  };
  const Result ring = verdict(" --nccl-algo Ring --nccl-proto Simple", "RING proto SIMPLE");
  EXPECT_EQ(ring.status, 1);
  std::string said;
  for (const std::string& line : lines_of(ring.out))
    said += line.substr(std::min(line.size(), line.find_first_not_of(' '))) + " ";
  EXPECT_SAYS(said,
              "Looks like: NCCL chooses otherwise than is expected; NCCL says that it chose "
              "ring Simple from 64 MiB to 512 MiB, where ring LL128 is expected; ring Simple from "
              "1 MiB to 8 MiB, where double-tree LL128 is expected");
  EXPECT_SAYS(said, "do: is aws-ofi-nccl's tuner loaded");
  EXPECT_SAYS_NOT(said, "Note: NCCL says that it chose");
  // The same times without a word of a choice, and choices that are as expected.
  EXPECT_SAYS_NOT(verdict(" --nccl-algo Ring --nccl-proto Simple", "?").out, "NCCL chooses");
  EXPECT_SAYS_NOT(verdict(" --collective all_gather", "RING proto SIMPLE").out, "NCCL says");
  const Result usual = verdict("", "?");
  EXPECT_EQ(usual.status, 0) << usual.out;
}

TEST(NcclTestsLines, AStoredReportGivesTheSame) {
  const TemporaryFolder folder;
  const std::string report = (folder.path() / "compare.json").string();
  ASSERT_EQ(foreduce_says(kCompare + "-o " + report).status, 0);
  EXPECT_EQ(foreduce_says("show --format nccl-tests " + report).out,
            foreduce_says(kCompare + "--format nccl-tests").out);
}

TEST(NcclTestsLines, FormOneTableAnAlgorithm) {
  const std::string text = foreduce_says(
                               "compare --instance p4d.24xlarge --nodes 2 --algorithm ring,tree "
                               "--sizes 8B,1KiB --format nccl-tests")
                               .out;
  EXPECT_SAYS(text, "# ring on 2 x p4d.24xlarge (predicted)\n");
  EXPECT_SAYS(text, "# tree on 2 x p4d.24xlarge (predicted)\n");
  EXPECT_EQ(rows_of(text).size(), 4u);
}

// What is predicted for a healthy cluster is what `check` expects of one.
TEST(NcclTestsLines, CheckCallsThoseOfCompareNormal) {
  const TemporaryFolder folder;
  const std::string log =
      folder.write("predicted.txt", foreduce_says(kCompare + "--format nccl-tests").out).string();
  const Result r = foreduce_says("check " + log + " --instance p4d.24xlarge --nodes 2");
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "all_reduce of 16 ranks on 2 x p4d.24xlarge");
  EXPECT_SAYS(r.out, "Normal: 10 of 10 sizes within their interval.");
}

class LinesOf : public testing::TestWithParam<Collective> {};

TEST_P(LinesOf, CompareAreNormalToCheck) {
  const std::string collective(name_of(GetParam()));
  const TemporaryFolder folder;
  const std::string log =
      folder
          .write("predicted.txt",
                 foreduce_says("compare --instance p4d.24xlarge --nodes 2 --algorithm nccl "
                               "--sizes 1MiB:256MiB:x4 --format nccl-tests --collective " +
                               collective)
                     .out)
          .string();
  const Result r = foreduce_says("check " + log + " --instance p4d.24xlarge --nodes 2");
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, collective + " of 16 ranks on 2 x p4d.24xlarge");
  EXPECT_SAYS(r.out, "Normal: 5 of 5 sizes within their interval.");
  const Result csv =
      foreduce_says("check " + log + " --instance p4d.24xlarge --nodes 2 --format csv");
  EXPECT_SAYS(csv.out, "log,collective,instance,");
  EXPECT_SAYS(csv.out, "predicted.txt," + collective + ",p4d.24xlarge,");
}

INSTANTIATE_TEST_SUITE_P(Every, LinesOf, testing::ValuesIn(kCollectives),
                         [](const auto& of) { return std::string(name_of(of.param)); });

TEST(NcclTestsLines, AnotherCollectiveIsRefused) {
  const TemporaryFolder folder;
  const std::string log =
      folder
          .write("all_gather.txt", foreduce_says("compare --instance p4d.24xlarge --nodes 2 "
                                                 "--algorithm nccl --sizes 1MiB --format "
                                                 "nccl-tests --collective all_gather")
                                       .out)
          .string();
  const Result r =
      foreduce_says("check " + log + " --instance p4d.24xlarge --nodes 2 --collective alltoall");
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "it has no table of alltoall; it has one of all_gather");
}

TEST(NcclTestsLines, AreForCompareAndRunOnly) {
  const TemporaryFolder folder;
  const std::string report = (folder.path() / "list.json").string();
  ASSERT_EQ(foreduce_says("list algorithms -o " + report).status, 0);
  const Result r = foreduce_says("show --format nccl-tests " + report);
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "--format nccl-tests is for compare and run");
}

// Who asked for p3dn and got p3.16xlarge has no sick hardware.
// One file that cannot be read does not cost the verdict on another.
TEST(Check, JudgesTheOtherLogs) {
  const std::string log = std::string(FOREDUCE_SOURCE_FOLDER) + "/tests/logs/awsome_p5_2n.txt";
  const Result r = foreduce_says(
      fmt::format("check {} {}/README.md --instance p5.48xlarge", log, FOREDUCE_SOURCE_FOLDER));
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "Normal: 32 of 32 sizes");
  EXPECT_SAYS(r.out, "README.md: error: there is no table of nccl-tests in it");
}

TEST(Check, QuotesWhyALaterRunDied) {
  const TemporaryFolder folder;
  const std::string log = std::string(FOREDUCE_SOURCE_FOLDER) + "/tests/logs/awsome_p5_2n.txt";
  std::ostringstream first;
  first << std::ifstream(log).rdbuf();
  const auto both =
      folder.write("two.log", first.str() +
                                  "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592\n"
                                  "srun: error: node-2: task 9: Killed\n");
  const Result r = foreduce_says(fmt::format("check {} --instance p5.48xlarge", both.string()));
  EXPECT_EQ(r.status, 1);
  EXPECT_SAYS(r.out, "Normal: 32 of 32 sizes");
  EXPECT_SAYS(r.out, "first row: \"srun: error: node-2: task 9: Killed\"");
}

TEST(Check, SuspectsAnotherInstanceTypeBeforeSickHardware) {
  const TemporaryFolder folder;
  const std::string log = (folder.path() / "p3.log").string();
  foreduce_says(
      "compare --instance p3.16xlarge --nodes 2 --algorithm nccl --sizes 1MiB:1GiB:x2 "
      "--format nccl-tests -o " +
      log);
  const Result r = foreduce_says("check " + log + " --instance p3dn.24xlarge --nodes 2");
  EXPECT_EQ(r.status, 1) << r.out;
  EXPECT_SAYS(r.out, "Looks like: these are p3.16xlarge, not p3dn.24xlarge");
}

// The log's own setting is the cause, whatever the number of channels that NCCL then reports.
TEST(Check, KnowsChannelsThatNcclWasHeldTo) {
  const TemporaryFolder folder;
  for (const auto& [instance, nodes] :
       {std::pair("p5.48xlarge", 2), {"p4d.24xlarge", 1}, {"p5en.48xlarge", 4}}) {
    const std::string on = fmt::format("--instance {} --nodes {}", instance, nodes);
    const Result times = foreduce_says("compare " + on +
                                       " --algorithm nccl --nccl-channels 4 --sizes 8B:8GiB:x4 "
                                       "--format nccl-tests");
    ASSERT_EQ(times.status, 0) << times.out;
    const auto log =
        folder.write("channels.log",
                     "a:1:1 [0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to 4.\n"
                     "a:1:1 [0] NCCL INFO 4 coll channels, 4 nvls channels, 0 p2p channels\n" +
                         times.out);
    const Result r = foreduce_says("check " + log.string() + " " + on);
    EXPECT_EQ(r.status, 1) << r.out;
    EXPECT_SAYS(r.out, "Looks like: NCCL may use 4 channels only");
  }
}

}  // namespace
}  // namespace foreduce
