// `foreduce check` of logs that were made with other settings than NCCL's own: what the log says is
// told, and what it does not say is found by its times.
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

const std::string kHgx = "--instance hgx-h100-ib --nodes 4 ", kP5 = "--instance p5.48xlarge ";

/// What check says of the times that compare gives with such options, behind lines of NCCL's.
std::string said(const std::string& cluster, const std::string& options, const std::string& lines,
                 const std::string& more = "") {
  const TemporaryFolder folder;
  const Result table = foreduce_says("compare " + cluster + options +
                                     " --algorithm nccl --sizes 1KiB:8GiB:x2 --format nccl-tests");
  EXPECT_EQ(table.status, 0) << table.out;
  return foreduce_says("check " + folder.write("run.log", lines + table.out).string() + " " +
                       cluster + more)
      .out;
}
std::string info(const std::string& line) { return "host:1:2 [0] NCCL INFO " + line + "\n"; }

/// The first cause.
std::string cause_of(const std::string& answer) {
  const auto at = answer.find("Looks like: ");
  return at == std::string::npos ? answer : answer.substr(at, answer.find("do:", at) - at);
}

TEST(CheckSettings, OneAlgorithmIsToldAsSuch) {
  const std::string tree =
      said(kHgx, "--nccl-algo Tree", info("NCCL_ALGO set by environment to Tree"));
  EXPECT_SAYS(cause_of(tree), "a tree where NVLS is faster; the log says so: NCCL_ALGO=Tree");
  // On two p4d a tree is faster than a ring, and what NCCL chooses.
  const std::string usual = said("--instance p4d.24xlarge --nodes 2 ", "--nccl-algo Tree",
                                 info("NCCL_ALGO set by environment to Tree"));
  EXPECT_SAYS(usual,
              "a tree alone; the log says so: NCCL_ALGO=Tree (and yet the times are within their "
              "intervals)");
  const std::string ring =
      said(kHgx, "--nccl-algo Ring", info("NCCL_ALGO set by environment to Ring"));
  EXPECT_SAYS_NOT(cause_of(ring), "NCCL does not use NVLS");
  // Why there is no NVLS is said once: nvidia-fabricmanager was asked for as well.
  const std::string forced =
      said(kP5 + "--nodes 2 ", "--nccl-algo Ring", info("NCCL_ALGO set by environment to Ring"));
  EXPECT_SAYS(cause_of(forced), "the log says so: NCCL_ALGO=Ring");
  EXPECT_SAYS_NOT(forced, "does not use NVLS");
}

// Most sizes were faster than expected, and yet the plateau was doubtful: an instance was asked for
// that had been given.
TEST(CheckSettings, AsksForAnInstanceOnlyWhereNoneIsKnown) {
  const TemporaryFolder folder;
  auto report = json_of("check " + (source_folder() / "tests/logs/dlami_p4d_2n.txt").string() +
                        " --instance p4d.24xlarge");
  auto& table = report["tables"][0];
  table["unsure"] = true;
  for (auto& row : table["rows"]) row["verdict"] = "fast";
  const auto shown = [&](bool other_machine) {
    table["other_machine"] = other_machine;
    return foreduce_says("show " + folder.write("check.json", report.dump()).string()).out;
  };
  EXPECT_SAYS(shown(true), "Give --instance");
  EXPECT_SAYS_NOT(shown(false), "Give --instance");
  EXPECT_SAYS(shown(false), "Cannot tell");
}

TEST(CheckSettings, JudgesByTheProfileThatIsGiven) {
  const TemporaryFolder folder;
  const std::string slow =
      folder
          .write("run.log", foreduce_says("compare " + kP5 +
                                          "--nodes 2 --algorithm nccl --sizes 8B:64KiB:x2 "
                                          "--profile nccl-a100 --format nccl-tests")
                                .out)
          .string();
  const std::string check = "check " + slow + " " + kP5 + "--nodes 2 ";
  EXPECT_EQ(foreduce_says(check).status, 1);
  const Result own = foreduce_says(check + "--profile nccl-a100");
  EXPECT_EQ(own.status, 0) << own.out;
  EXPECT_SAYS(own.out, "(profile nccl-a100)");
  EXPECT_SAYS(words(own.out),
              "judged by the profile nccl-a100, as --profile says: published times are left out, "
              "and no other machine with such GPUs is tried; it was made for A100, and says little "
              "of H100");
  EXPECT_SAYS_NOT(foreduce_says(check + "--profile nccl-h100").out, "it was made for");
  EXPECT_SAYS(words(foreduce_says(check + "--profile ideal").out), "it is of foreduce");
  // One of calibrate's names the machine file that it was made for.
  std::string text = read_text(source_folder() / "models" / "profiles" / "nccl-a100.yaml");
  const auto at = text.find("instances: ");
  text.replace(at, text.find('\n', at) - at, "instances: [\"mine\"]");
  const Result ours =
      foreduce_says(check + "--profile " + folder.write("ours.yaml", text).string());
  EXPECT_EQ(ours.status, 0) << ours.out;
  EXPECT_EQ(foreduce_says(check + "--profile nccl-a10").status, 2);
  EXPECT_EQ(foreduce_says(check + "--profile nccl-a100 --against model").status, 2);
}

// A log of one good run and one that failed was all good to a program that reads CSV.
TEST(CheckSettings, CsvHasARowOfARunThatFailed) {
  const TemporaryFolder folder;
  const std::string failed =
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor)\n"
      "node-1: Test NCCL failure common.cu:958 'unhandled system error'\n";
  const Result r =
      foreduce_says("check " + folder.write("failed.log", failed).string() + " --format csv");
  EXPECT_EQ(r.status, 1);
  const auto lines = lines_of(r.out);
  ASSERT_EQ(lines.size(), 2u) << r.out;
  EXPECT_SAYS(lines[1], "failed.log,,");
  EXPECT_SAYS(lines[1], ",failed,no,");
  EXPECT_SAYS(lines[1], "unhandled system error");
}

TEST(CheckSettings, SmallBuffersExplainTheirTimes) {
  const std::string answer = said(kP5 + "--nodes 4 ", "--nccl-buffsize 1MiB",
                                  info("NCCL_BUFFSIZE set by environment to 1048576."));
  EXPECT_SAYS(answer, "Not normal");
  EXPECT_SAYS(cause_of(answer), "NCCL's buffers are cut to 1 MiB; the log says so");
  EXPECT_SAYS(answer, "unset NCCL_BUFFSIZE");
}

TEST(CheckSettings, FewChannelsAreFoundByTheirTimes) {
  for (const int channels : {2, 4, 8})
    EXPECT_SAYS(cause_of(said(kHgx, "--nccl-channels " + std::to_string(channels), "")),
                "NCCL uses " + std::to_string(channels) + " channels only");
  for (const char* cluster :
       {"--instance p5.48xlarge --nodes 2 ", "--instance p6-b200.48xlarge --nodes 8 "})
    EXPECT_SAYS(cause_of(said(cluster, "--nccl-channels 4", "")), "NCCL uses 4 channels only");
}

TEST(CheckSettings, AProtocolThatStaysSetIsFoundByItsTimes) {
  EXPECT_SAYS(cause_of(said(kHgx, "--nccl-proto Simple", "")), "everything travels by Simple");
  EXPECT_SAYS(cause_of(said(kP5 + "--nodes 2 ", "--nccl-proto LL", "")),
              "everything travels by LL");
}

TEST(CheckSettings, OneMissingNicOfManyIsSaid) {
  const auto found = [](int nics) {
    return info("NET/OFI Selected provider is efa, fabric is efa (found " + std::to_string(nics) +
                " nics)");
  };
  const std::string one = said(kP5 + "--nodes 2 ", "", found(31));
  EXPECT_SAYS(one, "Normal:");
  EXPECT_SAYS(one, "31 of 32 NICs are in use; the log says so");
  // A number does not say which are left, and half of them could not carry so much.
  const std::string half = said(kP5 + "--nodes 2 ", "", found(16));
  EXPECT_SAYS(half, "16 of 32 NICs are in use; the log says so");
  EXPECT_SAYS(half, "that could not be as fast");
  EXPECT_SAYS_NOT(half, "of each rail");
  EXPECT_SAYS_NOT(said(kP5 + "--nodes 2 ", "", found(32)), "NICs are in use");
}

TEST(CheckSettings, AnUnevenNumberOfNicsIsNotRounded) {
  const TemporaryFolder folder;
  const std::string machine =
      folder.write("half.yaml", "like: p5.48xlarge\nnic: { bandwidth: 50 Gbps }\n").string();
  const std::string answer =
      foreduce_says("check " +
                    folder
                        .write("run.log", info("NET/OFI Selected provider is efa, fabric is efa "
                                               "(found 21 nics)") +
                                              foreduce_says("compare --instance " + machine +
                                                            " --nodes 2 --algorithm nccl --sizes "
                                                            "1KiB:8GiB:x2 --format nccl-tests")
                                                  .out)
                        .string() +
                    " " + kP5)
          .out;
  EXPECT_SAYS(answer, "21 of 32 NICs");
  EXPECT_SAYS_NOT(answer, "24 of 32");
}

// On one node, too, what is wrong besides is sought with the algorithm that the log names.
TEST(CheckSettings, AForcedAlgorithmHidesNoBrokenLink) {
  const TemporaryFolder folder;
  const std::string machine =
      folder.write("half.yaml", "like: p5.48xlarge\nnvlink: { bandwidth: 12.5 GB/s }\n").string();
  const Result table = foreduce_says("compare --instance " + machine +
                                     " --nodes 1 --algorithm nccl --nccl-algo Ring --sizes "
                                     "1KiB:8GiB:x2 --format nccl-tests");
  const std::string log =
      folder.write("run.log", info("NCCL_ALGO set by environment to Ring") + table.out).string();
  EXPECT_SAYS(foreduce_says("check " + log + " " + kP5).out,
              "NVLink carries half of what it should");
}

// What machine it is does not matter to a comparison of two runs.
TEST(CheckSettings, ARunThatIsFasterThanAnEarlierOneIsNoRiddle) {
  const TemporaryFolder folder;
  const auto log = [&](const char* name, const char* options) {
    return folder
        .write(name, foreduce_says(std::string("compare --instance p4d.24xlarge --nodes 2 "
                                               "--algorithm nccl --sizes 64KiB:1GiB:x4 "
                                               "--format nccl-tests ") +
                                   options)
                         .out)
        .string();
  };
  const Result r = foreduce_says("check " + log("now.log", "") + " --against " +
                                 log("then.log", "--nccl-channels 2") + " --instance p4d.24xlarge");
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "Not slow");
  EXPECT_SAYS_NOT(r.out, "is that the instance type");
}

// nccl-tests prints two digits of a bandwidth: "0.0000" had four.
TEST(CheckSettings, ShowsNoMoreDigitsThanTheLogHas) {
  const TemporaryFolder folder;
  const Result table = foreduce_says(
      "compare --instance p4d.24xlarge --nodes 2 --algorithm nccl --sizes 8B:1GiB:x8 --format "
      "nccl-tests");
  const Result r = foreduce_says("check " + folder.write("run.log", table.out).string() +
                                 " --instance p4d.24xlarge --wide");
  EXPECT_SAYS(r.out, "  0.00  ");
  EXPECT_SAYS_NOT(r.out, "0.0000");
}

TEST(CheckSettings, ACollectiveThatNothingNamesIsTheAskersChoice) {
  const TemporaryFolder folder;
  const std::string head =
      "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
  const auto asked = [&](const std::string& row, const std::string& more) {
    return foreduce_says("check " + folder.write("run.log", head + row).string() +
                         " --instance p4d.24xlarge --nodes 2 " + more);
  };
  const std::string either =
      "1073741824 16777216 float none -1 40000 26.84 25.17 0 40000 26.84 25.17 0\n";
  EXPECT_SAYS(words(asked(either, "").out),
              "nothing names the collective: all_gather or alltoall by busbw over algbw, and "
              "all_gather by what is checked in place alone; --collective decides");
  EXPECT_SAYS(asked(either, "").out, "all_gather of 16 ranks");
  EXPECT_SAYS(asked(either, "--collective alltoall").out, "alltoall of 16 ranks");
  EXPECT_EQ(asked(either, "--collective broadcast").status, 2);
  const Result other =
      asked("1073741824 268435456 float sum -1 13208 81.29 48.77 0 13210 81.28 48.77 0\n", "");
  EXPECT_EQ(other.status, 2);
  EXPECT_SAYS(other.out,
              "a table of none of nccl-tests' collectives that is known (busbw is 0.6 of algbw)");
}

TEST(CheckSettings, NormalTimesAreCountedWhereTheLogSaysWhatIsWrong) {
  const std::string answer = said("--instance p4d.24xlarge --nodes 4 ", "--nccl-algo Tree",
                                  info("NCCL_ALGO set by environment to Tree"));
  EXPECT_SAYS(words(answer),
              "sizes are within their interval: the log says what is wrong, and the times agree.");
}

TEST(CheckSettings, ACauseBehindAPoorerOneSaysWhy) {
  const TemporaryFolder folder;
  const Result table = foreduce_says("compare " + kP5 +
                                     "--nodes 4 --nccl-algo Ring --algorithm nccl --sizes "
                                     "8B:8GiB:x2 --format nccl-tests");
  EXPECT_SAYS(
      words(foreduce_says("check " + folder.write("run.log", table.out).string() + " " + kP5).out),
      "named later, for NCCL_ALGO is seldom set without a word in the log");
}

TEST(CheckSettings, AWideIntervalIsSaidToBeTheModelsBesidePublishedTimes) {
  EXPECT_SAYS(words(said(kP5 + "--nodes 8 ", "", "")),
              "what healthy clusters published decides where it has a size near; for the others "
              "the interval of the model is wide");
}

TEST(CheckSettings, ThreeRailsOfFourAreFoundWhereNcclKeepsItsChannels) {
  const TemporaryFolder folder;
  const std::string machine = folder
                                  .write("three.yaml", R"(
like: p4d.24xlarge
instance: three
nic: { count: 3 }
pcie:
  switches:
    - { socket: 0, gpus: [0, 1], nics: [0] }
    - { socket: 0, gpus: [2, 3], nics: [1] }
    - { socket: 1, gpus: [4, 5], nics: [2] }
    - { socket: 1, gpus: [6, 7], nics: [] }
)")
                                  .string();
  const Result table = foreduce_says("compare --instance " + machine +
                                     " --nodes 2 --algorithm nccl --sizes 8B:8GiB:x2 --format "
                                     "nccl-tests");
  ASSERT_EQ(table.status, 0) << table.out;
  const Result r = foreduce_says("check " + folder.write("run.log", table.out).string() +
                                 " --instance p4d.24xlarge --nodes 2");
  EXPECT_EQ(r.status, 1);
  EXPECT_SAYS(cause_of(r.out), "3 of 4 rails carry everything");
}

}  // namespace
}  // namespace foreduce
