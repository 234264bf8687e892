// `foreduce check` of logs of several runs, of hosts that are not alike, and of lines between a
// run's heading and its rows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

const std::string kBegins =
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5\n";

/// The list of two hosts' ranks; of the second's GPUs that kind, and so many.
std::string ranks(const std::string& second_gpu = "NVIDIA H100 80GB HBM3", int on_second = 8) {
  static const char* const buses[] = {"53", "64", "75", "86", "97", "a8", "b9", "ca"};
  std::string text;
  for (int r = 0; r < 8 + on_second; ++r)
    text += fmt::format("#  Rank {:2} Group  0 Pid {} on host-{} device  {} [0x{}] {}\n", r, 40 + r,
                        r / 8, r % 8, buses[r % 8], r < 8 ? "NVIDIA H100 80GB HBM3" : second_gpu);
  return text;
}

/// nccl-tests' table of what healthy nodes would take.
std::string rows(const std::string& sizes = "8B:8GiB:x2") {
  return foreduce_says("compare --instance p5.48xlarge --nodes 2 --algorithm nccl --sizes " +
                       sizes + " --format nccl-tests")
      .out;
}

class CheckOfMixedLogs : public testing::Test {
 protected:
  Result checked(const std::string& log, const std::string& more = "") const {
    return foreduce_says("check " + folder_.write("run.log", log).string() + " " + more);
  }

 private:
  TemporaryFolder folder_;
};

// The verdicts on all other tables were lost.
TEST_F(CheckOfMixedLogs, ATableThatCannotBeJudgedLeavesTheOthers) {
  const std::string good = kBegins + ranks() + rows(),
                    uneven = kBegins + ranks("NVIDIA H100 80GB HBM3", 7) + rows();
  const Result both = checked(good + uneven);
  EXPECT_SAYS(both.out, "Normal: 31 of 31 sizes");
  EXPECT_SAYS(both.out, "hosts have different numbers of ranks: 8 on host-0, 7 on host-1");
  EXPECT_EQ(both.status, 2);
  EXPECT_EQ(checked(uneven).status, 2);
}

// Wrong sums were not mentioned where the machine was unknown, and the status said bad input.
TEST_F(CheckOfMixedLogs, WrongSumsAreSaidOfUnknownMachines) {
  const std::string table =
      "# Using devices\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
      "     1048576        262144     float     sum      -1    100.0   10.49   10.49     17\n";
  const Result wrong = checked(table);
  EXPECT_SAYS(wrong.out, "Not normal: the table");
  EXPECT_SAYS(wrong.out, "17 elements were wrong");
  EXPECT_SAYS(wrong.out, "give --instance");
  EXPECT_EQ(wrong.status, 1);
  const std::string failed =
      kBegins + "host-0: Test CUDA failure common.cu:502 'an illegal memory access'\n" + kBegins;
  const Result first_failed = checked(failed + table);
  EXPECT_SAYS(first_failed.out, "ended with an error before its");
  EXPECT_SAYS(first_failed.out, "look for Xid in");
  EXPECT_EQ(first_failed.status, 1);
}

TEST_F(CheckOfMixedLogs, AFailureBeforeAnyHeadingIsAFailedRun) {
  const Result early = checked(
      "host-0: Test CUDA failure common.cu:1001 'CUDA driver version is "
      "insufficient for CUDA runtime version'\n");
  EXPECT_SAYS(early.out, "ended with an error before its");
  EXPECT_SAYS(early.out, "update the driver");
  EXPECT_EQ(early.status, 1);
}

// It was normal, for all rows were there.
TEST_F(CheckOfMixedLogs, AnXidAfterTheResultsIsNotNormal) {
  const Result xid = checked(kBegins + ranks() + rows() +
                             "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 100\n"
                             "NVRM: Xid (PCI:0000:97:00): 94, pid=1, Contained: SM (0x1)\n");
  EXPECT_SAYS(xid.out, "after its results the log says \"NVRM: Xid");
  EXPECT_SAYS(xid.out, "drain its node");
  EXPECT_EQ(xid.status, 1);
}

TEST_F(CheckOfMixedLogs, OneProblemOfSeveralTablesIsSaidOnce) {
  const std::string table =
      "# all_reduce_perf\n" + kBegins + ranks("NVIDIA H100 80GB HBM3", 7) + rows();
  const Result both = checked(table + table);
  const std::string problem = "hosts have different numbers of ranks";
  const auto first = both.out.find(problem);
  ASSERT_NE(first, std::string::npos) << both.out;
  EXPECT_EQ(both.out.find(problem, first + 1), std::string::npos) << both.out;
}

// It was both normal and a run that ended before its first row.
TEST_F(CheckOfMixedLogs, ARunWithRowsDidNotEndBeforeThem) {
  const std::string line =
      "slurmstepd: error: couldn't chdir to `/home/me': No such file: going to /tmp instead\n";
  const Result before = checked(kBegins + ranks() + line + rows());
  EXPECT_EQ(before.status, 0) << before.out;
  EXPECT_SAYS(words(before.out), "before its first row the log says \"slurmstepd: error");
  std::string table = rows();
  const auto middle = table.find("     1048576");
  ASSERT_NE(middle, std::string::npos);
  table.insert(middle, line);
  const Result between = checked(kBegins + ranks() + table + "# Avg bus bandwidth    : 100.0\n");
  EXPECT_EQ(between.status, 0) << between.out;
  EXPECT_SAYS(words(between.out), "between its rows the log says \"slurmstepd: error");
  // Without the last line nobody knows that it ended.
  EXPECT_SAYS(words(checked(kBegins + ranks() + line).out), "ended with an error before its first");
}

TEST_F(CheckOfMixedLogs, SaysWhichHostHasOtherGpus) {
  const Result r = checked(kBegins + ranks("NVIDIA A100-SXM4-80GB") + rows());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "NVIDIA A100-SXM4-80GB on host-1 and NVIDIA H100 80GB HBM3 on host-0");
  EXPECT_SAYS_NOT(r.out, "p4d");
}

TEST_F(CheckOfMixedLogs, SmallSizesSayNothingOfBandwidth) {
  const Result small = checked(kBegins + ranks() + rows("8B:128KiB:x2"));
  EXPECT_EQ(small.status, 0) << small.out;
  EXPECT_SAYS(words(small.out), "the largest size is 128 KiB, which says nothing of bandwidth");
  EXPECT_SAYS_NOT(checked(kBegins + ranks() + rows()).out, "says nothing of bandwidth");
}

TEST_F(CheckOfMixedLogs, AnotherPlatformThanAskedForIsSaid) {
  const std::string log = kBegins + ranks() +
                          "host-0:40:50 [0] NCCL INFO NET/OFI Running on p5.48xlarge platform, "
                          "Setting NCCL_TOPO_FILE\n" +
                          rows();
  const std::string line = "the log says that it ran on p5.48xlarge";
  EXPECT_SAYS(words(checked(log, "--instance p5en.48xlarge").out), line);
  EXPECT_SAYS_NOT(words(checked(log, "--instance p5.48xlarge").out), line);
}

// It was taken for a kernel module that is missing.
TEST_F(CheckOfMixedLogs, GpusTooFarFromTheirCardsAreNamed) {
  const std::string info = "host-0:40:50 [0] NCCL INFO ";
  const std::string log =
      kBegins + ranks() + info +
      "NET/IB : GPU Direct RDMA Disabled for GPU 3 / HCA 0 (distance 9 > 4)\n" + info +
      "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/IB "
      "[4]mlx5_4:1/IB [5]mlx5_5:1/IB [6]mlx5_6:1/IB [7]mlx5_7:1/IB [RO]\n" +
      info + "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0\n" +
      foreduce_says(
          "compare --instance hgx-h100-ib --nodes 2 --algorithm nccl --nccl-channels 2 "
          "--sizes 8B:8GiB:x2 --format nccl-tests")
          .out;
  EXPECT_SAYS(words(checked(log).out),
              "NCCL says that GPU 3 and HCA 0 (distance 9 > 4) are too far apart");
}

TEST_F(CheckOfMixedLogs, APartOfANodeElsewhereIsNoP5) {
  std::string list;
  for (int r = 0; r < 2; ++r)
    list += fmt::format(
        "#  Rank {0} Group  0 Pid 4{0} on host-{0} device  0 [0x1b] NVIDIA H100 80GB "
        "HBM3\n",
        r);
  const Result r = checked(
      kBegins + list +
      foreduce_says(
          "compare --instance hgx-h100-ib --nodes 2 --gpus-per-node 1 --algorithm nccl --sizes "
          "1MiB:8GiB:x2 --format nccl-tests")
          .out);
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "2 x hgx-h100-ib");
  EXPECT_SAYS(r.out, "1 of the 8 GPUs of each hgx-h100-ib is in use");
}

// NCCL of 2021: measured again, it is another one.
TEST_F(CheckOfMixedLogs, OldReleasesAreSaidWhereTimesAreNotNormal) {
  const std::string log = "host-0:1:2 [0] NCCL INFO NCCL version 2.9.9+cuda11.3\n" +
                          foreduce_says(
                              "compare --instance p4d.24xlarge --nodes 2 --algorithm nccl "
                              "--nccl-algo Ring --nccl-version 2.9 --sizes 8B:4GiB:x2 "
                              "--format nccl-tests")
                              .out;
  const Result r = checked(log, "--instance p4d.24xlarge --nodes 2");
  EXPECT_EQ(r.status, 1) << r.out;
  EXPECT_SAYS(words(r.out), "NCCL 2.9.9 is older than all releases that are known to be normal");
  const Result told =
      checked("host-0:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n" + log,
              "--instance p4d.24xlarge --nodes 2");
  EXPECT_SAYS(told.out,
              "Looks like: a ring where a tree is faster; the log says so: NCCL_ALGO=Ring");
}

TEST_F(CheckOfMixedLogs, TablesWithUnitsInTheirCellsAreRead) {
  const std::string as = "--instance p5.48xlarge --nodes 2 --against model";
  const Result rates = checked(
      "| message | algbw | busbw |\n|---|---|---|\n| 8 MiB | 40.96 GB/s | 76.80 GB/s |\n", as);
  EXPECT_EQ(rates.status, 0) << rates.out;
  // Without algbw, which size over time is.
  const Result times =
      checked("| size | time | busbw |\n|---|---|---|\n| 8 MiB | 204.8 us | 76.80 GB/s |\n", as);
  EXPECT_EQ(times.status, 0) << times.out;
  EXPECT_EQ(checked("| size | busbw |\n|---|---|\n| 8 MiB | 76.80 GB/s |\n", as).status, 2);
}

}  // namespace
}  // namespace foreduce
