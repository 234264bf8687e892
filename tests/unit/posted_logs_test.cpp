// What people post of nccl-tests beside whole logs: older layouts, several tests in one session,
// launchers' marks, and runs that ended before a row.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <tuple>

#include "scenarios/report/check_words.hpp"
#include "scenarios/validation/diagnosis.hpp"
#include "scenarios/validation/nccl_log.hpp"
#include "tests/support/checked.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

constexpr const char* kPostedHead =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time "
    " "
    " algbw   busbw #wrong\n";

std::string ranks_on_one_host(int ranks, const char* gpu) {
  std::string text = "# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor)\n#\n";
  for (int r = 0; r < ranks; ++r)
    text += fmt::format("#  Rank  {0} Group  0 Pid  1 on  a device  {0} [0x0{0}] {1}\n", r, gpu);
  return text;
}

NcclLog posted(const std::string& text) { return parse_nccl_log("posted.log", text); }

constexpr const char* kRowOfTwo =
    "     1048576        262144     float     sum      -1    30.00   34.95   34.95      0    30.00 "
    " "
    " 34.95   34.95      0\n";

// Before 2.12 nothing stood below redop where nothing is reduced.
TEST(PostedLog, ReadsAnOlderAllToAllWithoutAnOperation) {
  const NcclLog log = posted(ranks_on_one_host(8, "A100-SXM4-40GB") +
                             "#       size         count    type   redop     time   algbw   busbw  "
                             "error     time   algbw   "
                             "busbw  error\n"
                             "   268435456      8388608   float             1240.2  216.45  189.40 "
                             "   N/A   1241.0  216.31  "
                             "189.27    N/A\n"
                             "   536870912     16777216   float             2401.0  223.60  195.65 "
                             "   N/A   2400.1  223.69  "
                             "195.73    N/A\n");
  ASSERT_EQ(log.tables.size(), 1U);
  EXPECT_EQ(log.tables[0].rows.size(), 2U);
  EXPECT_EQ(log.tables[0].rows[0].redop, "none");
  EXPECT_NEAR(log.tables[0].rows[1].out_of_place->busbw, 195.65, 1e-9);
  EXPECT_SAYS(log.tables[0].collective, "alltoall");
}

// The same with a root, which stands where the operation is missing.
TEST(PostedLog, ReadsAnOlderAllGatherWithARootAndNoOperation) {
  const NcclLog log = posted(ranks_on_one_host(8, "A100-SXM4-40GB") + kPostedHead +
                             "   134217728      4194304     float              -1    640.0  209.72 "
                             " 183.50      0    640.0 "
                             " 209.72  183.50      0\n");
  ASSERT_EQ(log.tables.size(), 1U);
  EXPECT_EQ(log.tables[0].rows.at(0).redop, "none");
  EXPECT_SAYS(log.tables[0].collective, "all_gather");
}

// Pages and exports leave marks behind the last column, or cut it off: the columns that are there
// still say which collective it is.
TEST(PostedLog, WithSomethingBehindItsLastColumnIsRead) {
  const std::string ranks = ranks_on_one_host(2, "A100-SXM4-40GB"), head = kPostedHead,
                    row = kRowOfTwo;
  const auto marked = [](std::string line, const char* mark) {
    return line.insert(line.size() - 1, mark);
  };
  for (const char* mark : {"\"", "<br>"}) {
    const NcclLog log = posted(ranks + marked(head, mark) + marked(row, mark));
    EXPECT_EQ(log.tables.at(0).collective, "all_reduce") << mark;
    EXPECT_EQ(log.tables.at(0).rows.at(0).in_place->wrong, 0) << mark;
  }
  const auto cut = [](const std::string& line) { return line.substr(0, line.rfind(' ')) + "\n"; };
  const NcclLog log = posted(ranks + cut(head) + cut(row) + cut(row));
  EXPECT_EQ(log.tables.at(0).collective, "all_reduce");
}

TEST(PostedLog, TellsThatItsOwnMinimumWasMissed) {
  const std::string run = ranks_on_one_host(2, "A100-SXM4-40GB") + kPostedHead + kRowOfTwo;
  EXPECT_TRUE(posted(run + "# Avg bus bandwidth    : 34.95 FAILED\n").tables.at(0).below_minimum);
  EXPECT_FALSE(posted(run + "# Avg bus bandwidth    : 34.95\n").tables.at(0).below_minimum);
}

// A row that breaks off has as few words.
TEST(PostedLog, RowThatBreaksOffIsNotTakenForOneWithoutOperation) {
  const NcclLog log = posted(ranks_on_one_host(2, "A100-SXM4-40GB") + kPostedHead +
                             "        1024           256     float     sum      -1    17.14    "
                             "0.06    0.06      0    17.04  "
                             "  0.06    0.06      0\n"
                             "        2048           512     float     sum      -1    17.14    "
                             "0.12    0.12      0    17.04  "
                             "  0.12    0.12\n");
  EXPECT_EQ(log.tables.at(0).rows.size(), 1U);
  EXPECT_SAYS(log.notes.at(0), "breaks off");
}

TEST(PostedLog, LaunchersMarkWithinARowIsNoPartOfIt) {
  const NcclLog log = posted(
      "[0]      1048576        262144     float     sum      -1[0]    1626.5    0.64    1.24      "
      "0[0]    2302.3    0.46    0.87      0\n"
      "[0]      2097152        524288     float     sum      -1[0]    2325.3    0.90    1.73      "
      "0[0]     416.7    5.03    9.65      0\n");
  ASSERT_EQ(log.tables.at(0).rows.size(), 2U);
  EXPECT_EQ(log.tables[0].rows[0].root, -1);
  EXPECT_DOUBLE_EQ(log.tables[0].rows[0].out_of_place->time.value, 1626.5e-6);
  EXPECT_EQ(log.tables[0].rows[0].out_of_place->wrong, 0);
}

constexpr const char* kBroadcastRow =
    "     1048576        262144     float    none       0    30.00   34.95   34.95      0    30.00 "
    " "
    " 34.95   34.95      0\n";
constexpr const char* kReduceRow =
    "     1048576        262144     float     sum       0    30.00   34.95   34.95      0    30.00 "
    " "
    " 34.95   34.95      0\n";

// The name of one test does not outlive it, whether or not the next one's is judged.
TEST(PostedLog, NamesEachOfSeveralTests) {
  const std::string ranks = ranks_on_one_host(2, "Tesla T4");
  const NcclLog log =
      posted("$ ./build/broadcast_perf -b 8\n" + ranks + kPostedHead + kBroadcastRow +
             "$ ./build/reduce_perf -b 8\n" + ranks + kPostedHead + kReduceRow);
  ASSERT_EQ(log.tables.size(), 2U);
  EXPECT_EQ(log.tables[0].collective, "broadcast");
  EXPECT_EQ(log.tables[1].collective, "reduce");
}

// What a build prints names every test, and runs none.
TEST(PostedLog, LinkerLinesDoNotNameTheCollective) {
  const NcclLog log = posted(
      "Linking  ../build/all_reduce_perf > ...\nLinking  ../build/sendrecv_perf > ...\n"
      "Linking  ../build/reduce_scatter_perf > ...\nLinking  ../build/hypercube_perf > ...\n" +
      ranks_on_one_host(2, "Tesla T4") + kPostedHead + kRowOfTwo);
  EXPECT_EQ(log.tables.at(0).collective, "all_reduce");
}

// Old all-gathers end a piece with the type.
TEST(PostedLog, LaunchersMarkMayClingToTheType) {
  const NcclLog log = posted(
      "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw "
      " "
      "error\n"
      "[0]     1048576        131072   float[0]   30.00   34.95   17.48  0e+00[0]    30.00   34.95 "
      "  "
      "17.48  0e+00\n");
  EXPECT_EQ(log.tables.at(0).rows.at(0).type, "float");
}

// Of a session of several tests one was of a single GPU.
TEST(PostedLog, RunOfOneGpuIsPassedOver) {
  const NcclLog log = posted("$ ./build/broadcast_perf -b 8\n" + ranks_on_one_host(2, "Tesla T4") +
                             kPostedHead + kBroadcastRow + "$ ./build/reduce_perf -b 8\n" +
                             ranks_on_one_host(1, "Tesla T4") + kPostedHead + kReduceRow);
  CheckQuestion question{"g4dn.12xlarge", 1};
  question.causes = Causes::not_sought;
  const auto tables = check(log, question, BatchOptions{});
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(tables[0].collective, Collective::broadcast);
  EXPECT_SAYS(remarks_of(tables[0]), "a table of reduce is passed over: it is of one GPU");
}

// sendrecv_perf prints sum, and does not check what is in place.
TEST(PostedLog, KnowsSendrecvByItsColumns) {
  const NcclLog log = posted(ranks_on_one_host(8, "A100-SXM4-40GB") + kPostedHead +
                             "   134217728      33554432     float     sum      -1   1211.2  "
                             "110.81  110.81      0   1211.8  "
                             "110.76  110.76    N/A\n");
  EXPECT_EQ(log.tables.at(0).collective, "sendrecv");
}

// What is checked in place is none of sendrecv's, whose busbw is its algbw, too.
TEST(PostedLog, SaysWhereAnAllReduceOfTwoRanksMayBeSendrecv) {
  const auto row = [](const char* wrong, const char* in_place) {
    return fmt::format(
        "   134217728      33554432     float     sum      -1   1211.2  110.81  110.81  {}   "
        "1211.8  "
        "110.76  110.76  {}\n",
        wrong, in_place);
  };
  const NcclLog unchecked = posted(kPostedHead + row("N/A", "N/A"));
  EXPECT_EQ(unchecked.tables.at(0).collective, "all_reduce");
  EXPECT_EQ(unchecked.tables.at(0).ranks, 2);
  ASSERT_FALSE(unchecked.notes.empty());
  EXPECT_SAYS(unchecked.notes.back(), "but also of sendrecv, which is not judged");
  EXPECT_TRUE(posted(kPostedHead + row("0", "0")).notes.empty());
  EXPECT_EQ(
      posted(ranks_on_one_host(8, "A100") + kPostedHead + row("0", "0")).tables.at(0).collective,
      "sendrecv");
}

TEST(PostedLog, QuotesTheWarningOfARunThatEndedInItsBegin) {
  EXPECT_SAYS(error_of([] {
                posted(ranks_on_one_host(2, "NVIDIA H100") +
                       "a:1:2 [4] misc/socket.cc:397 NCCL WARN Net : connecting to address  with "
                       "family 33621 is neither AF_INET(2) nor AF_INET6(10)\n");
              }),
              "the run ended, or hung, before its first row; its last warning: NCCL WARN Net : "
              "connecting to");
}

constexpr const char* kAllReduceRow =
    "{:12} {:12}     float     sum      -1   {:.2f}   {:.2f}   {:.2f}      0    {:.2f}   {:.2f}   "
    "{:.2f}      0\n";

/// Rows of an all-reduce of 8 ranks from 1 KiB on: of each, the microseconds out of place and in
/// place.
std::string rows_of(const std::vector<std::pair<double, double>>& times) {
  std::string text;
  double bytes = 1024;
  for (const auto& [out, in] : times) {
    const auto gbps = [&](double us) { return bytes / us / 1e3; };
    text += fmt::format(kAllReduceRow, bytes, bytes / 4, out, gbps(out), 1.75 * gbps(out), in,
                        gbps(in), 1.75 * gbps(in));
    bytes *= 2;
  }
  return text;
}

CheckedTable judged(const std::vector<std::pair<double, double>>& times) {
  CheckQuestion question{"p4d.24xlarge", 1};
  question.against = HealthyFrom::model;
  question.causes = Causes::not_sought;
  return check(posted(ranks_on_one_host(8, "A100-SXM4-40GB") + kPostedHead + rows_of(times)),
               question, BatchOptions{})
      .at(0);
}

// Out of place comes first: what a first use costs does not return in place.
TEST(PostedLog, SmallSizeThatIsSlowOutOfPlaceAloneIsAFirstUse) {
  std::vector<std::pair<double, double>> times(8, {30, 30});
  times[4] = {300, 30};
  const CheckedTable first = judged(times);
  EXPECT_TRUE(first.normal);
  EXPECT_SAYS(remarks_of(first),
              "16 KiB takes 300 us out of place, and 30 us in place, which is measured second");
  times[4] = {300, 300};
  EXPECT_FALSE(judged(times).normal);
}

// NVIDIA's containers have programs that were built with MPI under names of their own.
TEST(PostedLog, ReadsProgramsOfNvidiasContainers) {
  const NcclLog log = posted("# Collective test starting: all_reduce_perf_mpi\n" +
                             ranks_on_one_host(2, "NVIDIA H100") + kPostedHead + kRowOfTwo);
  EXPECT_EQ(log.tables.at(0).collective, "all_reduce");
}

// One process for all GPUs of a host does not name it.
TEST(PostedLog, ReadsRanksWithoutAHost) {
  std::string ranks;
  for (int r = 0; r < 8; ++r)
    ranks +=
        fmt::format("#  Rank  {0} Group  0 Pid 221599 device  {0} [0000:8{0}:00] NVIDIA B200\n", r);
  const NcclLog log = posted(ranks + kPostedHead + rows_of({{30, 30}, {30, 30}}));
  EXPECT_TRUE(log.notes.empty());
  EXPECT_EQ(log.tables.at(0).gpu, "NVIDIA B200");
  EXPECT_EQ(log.tables.at(0).ranks, 8);
}

// Its name tells the memory of the Grace beside it.
TEST(PostedLog, FindsTheMachineOfGh200) {
  CheckQuestion question;
  question.causes = Causes::not_sought;
  std::string ranks;
  for (int r = 0; r < 8; ++r)
    ranks +=
        fmt::format("#  Rank  {} Group  0 Pid 1 on  {} device  {} [0x0{}] NVIDIA GH200 120GB\n", r,
                    r < 4 ? "a" : "b", r % 4, r % 4);
  const NcclLog log = posted(ranks + kPostedHead + rows_of({{30, 30}, {30, 30}}));
  EXPECT_EQ(check(log, question, BatchOptions{}).at(0).instance, "gh200-4-ndr200");
}

// Who scales a posted table rounds what was rounded: 49.74 over 26.54 is no 2(n-1)/n within half a
// digit, and the table was of none of nccl-tests' collectives.
TEST(PostedLogs, MayBeRoundedTwice) {
  const NcclLog whole = load_nccl_log(std::filesystem::path(FOREDUCE_SOURCE_FOLDER) / "tests" /
                                      "logs" / "awsome_p4de_2n.txt");
  std::string text;
  for (const NcclRow& r : whole.tables.at(0).rows) {
    const auto half = [](const NcclTiming& t) {
      return fmt::format("{:.1f} {:.2f} {:.2f} 0", 1.4e6 * t.time.value, t.algbw / 1.4,
                         t.busbw / 1.4);
    };
    text += fmt::format("{:.0f} {:.0f} float sum -1 {} {}\n", r.bytes, r.count,
                        half(*r.out_of_place), half(*r.in_place));
  }
  const NcclTable t = parse_nccl_log("x.txt", text).tables.at(0);
  EXPECT_EQ(t.collective, "all_reduce");
  EXPECT_EQ(t.ranks, 16);
}

// busbw over algbw is 2(n-1)/n: rows of one, two and three nodes are no table of a cluster.
TEST(PostedLog, RefusesRowsOfDifferentNumbersOfRanks) {
  std::string rows;
  for (const auto& [us, algbw, busbw] :  // NVIDIA/nccl#527, the first three of four rows
       {std::tuple(8142.6, 131.87, 230.77), {35215.0, 30.49, 57.17}, {64782.0, 16.57, 31.77}})
    rows += fmt::format(kAllReduceRow, 1 << 30, 1 << 28, us, algbw, busbw, us, algbw, busbw);
  CheckQuestion question{"p4d.24xlarge", 2};
  EXPECT_SAYS(error_of([&] { check(posted(kPostedHead + rows), question, BatchOptions{}); }),
              "its rows are of different numbers of ranks, by busbw over algbw: 8, 16, 24");
}

// Twelve small sizes do not outvote the only one that tells bandwidth.
TEST(PostedLog, OnlyLargeSizeThatIsSlowIsNotNormal) {
  std::vector<std::pair<double, double>> times(8, {30, 30});
  CheckQuestion question{"p4d.24xlarge", 1};
  question.against = HealthyFrom::model;
  question.causes = Causes::not_sought;
  const auto judged_at = [&](double us) {
    const double gbps = (1 << 30) / us / 1e3;
    const std::string large =
        fmt::format(kAllReduceRow, 1 << 30, 1 << 28, us, gbps, 1.75 * gbps, us, gbps, 1.75 * gbps);
    return check(posted(ranks_on_one_host(8, "A100-SXM4-40GB") + kPostedHead + rows_of(times) +
                        large),
                 question, BatchOptions{})
        .at(0);
  };
  const CheckedTable healthy = judged_at(8200);
  EXPECT_TRUE(healthy.normal);
  const double just_slow = healthy.rows.back().high.value * 1e6 * 1.02;
  EXPECT_FALSE(judged_at(just_slow).normal);
}

// Latency jitters: one small size in place that takes twice as long is told, and no fault.
TEST(PostedLog, SmallSizeInPlaceMayTakeTwiceAsLong) {
  std::vector<std::pair<double, double>> times(8, {30, 30});
  const double high = judged(times).rows[3].high.value * 1e6;
  times[3] = {high / 1.3, 2.2 * high / 1.3};
  EXPECT_TRUE(judged(times).normal);
}

// Where all rows are as expected, the headline says what is not.
TEST(PostedLog, SlownessInPlaceAloneIsWhatIsWrong) {
  std::vector<std::pair<double, double>> times(8, {30, 30});
  times[3] = {30, 200};
  const CheckedTable t = judged(times);
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS(remark_words(t.broken.value()), "in place it is slower");
}

// The machines that answers name can be asked for.
TEST(MachineNamed, KnowsThePublishedMachinesOutsideOfEc2) {
  for (const std::string& name : machines_elsewhere()) EXPECT_EQ(machine_named(name).name, name);
  EXPECT_GE(machines_elsewhere().size(), 15U);
  EXPECT_SAYS(error_of([] { machine_named("hgx-h10-ib"); }), "did you mean 'hgx-h100-ib'");
}

/// The machine that a log over InfiniBand with eight cards is judged as.
std::string judged_over_infiniband(const std::string& text) {
  const NcclLog log = posted(
      "a:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB "
      "[3]mlx5_3:1/IB [4]mlx5_4:1/IB [5]mlx5_5:1/IB [6]mlx5_6:1/IB [7]mlx5_7:1/IB [RO]\n"
      "a:1:1 [0] NCCL INFO Using network IB\n" +
      text);
  CheckQuestion question;
  question.causes = Causes::not_sought;
  return check(log, question, BatchOptions{}).at(0).instance;
}

// H200 is in two instance types; with InfiniBand it is in neither.
TEST(PostedLog, FindsTheMachineOfH200OverInfiniband) {
  EXPECT_EQ(judged_over_infiniband(ranks_on_one_host(8, "NVIDIA H200") + kPostedHead +
                                   rows_of({{30, 30}, {30, 30}})),
            "hgx-h200-ib");
}

// A log of all_reduce_bench.py does not list its hosts.
TEST(PostedLog, OverInfinibandWithoutHostsIsOfAMachineThatShips) {
  EXPECT_EQ(judged_over_infiniband("| 1 |\n_CudaDeviceProperties(name='NVIDIA B200', major=10)\n"
                                   "The average bandwidth of all_reduce over 16 ranks (5 warmups)\n"
                                   "| payload |    busbw   |    algbw   |\n"
                                   "|    1GiB |  375.00GBps |  200.00GBps |\n"),
            "hgx-b200-ib");
}

// A card for a slot has no NVLink.
TEST(PostedLog, FindsNoMachineWithModulesForPcieCards) {
  EXPECT_SAYS(error_of([] {
                judged_over_infiniband(ranks_on_one_host(8, "NVIDIA H100 PCIe") + kPostedHead +
                                       rows_of({{30, 30}, {30, 30}}));
              }),
              "no instance type has 8 x NVIDIA H100 PCIe");
}

// What EC2 does not have may ship all the same.
TEST(PostedLog, ErrorNamesTheMachineThatHasSuchGpus) {
  EXPECT_SAYS(error_of([] {
                check(
                    posted(ranks_on_one_host(2, "Tesla V100-PCIE-16GB") + kPostedHead + kRowOfTwo),
                    CheckQuestion{}, BatchOptions{});
              }),
              "such GPUs are in --instance optcast-v100");
}

// Latency alone: bandwidths of too few digits for a ratio.
TEST(PostedLog, SmallSizesNameAnAllReduceByTheirColumns) {
  const NcclLog log =
      parse_nccl_log("small.log",
                     "#       size         count    type   redop    root     time   "
                     "algbw   busbw #wrong     time   algbw   busbw #wrong\n"
                     "           8             2   float     sum      -1    72.11    "
                     "0.00    0.00      0    71.80    0.00    0.00      0\n"
                     "          16             4   float     sum      -1    72.32    "
                     "0.00    0.00      0    72.01    0.00    0.00      0\n");
  ASSERT_EQ(log.tables.size(), 1u);
  EXPECT_EQ(log.tables[0].collective, "all_reduce");
}

// The largest size decides: where its row is no measurement, nothing is normal.
TEST(PostedLog, WithoutItsLargestSizeIsNotNormal) {
  std::string text = read_text(source_folder() / "tests" / "logs" / "dlami_p4d_2n.txt");
  const auto normal = [&] {
    return check(parse_nccl_log("p4d.log", text), {"p4d.24xlarge", 2}, BatchOptions{}).at(0);
  };
  EXPECT_FALSE(normal().broken);
  text.replace(text.find("26416"), 5, "  nan");
  const CheckedTable t = normal();
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS(remark_words(t.broken.value()), "the row of 1 GiB, the largest size");
}

// Whatever is measured first pays for connections: no fault, also in a table of three sizes.
TEST(PostedLog, AFirstUseInAShortTableIsNoFault) {
  NcclLog log = load_nccl_log(source_folder() / "tests" / "logs" / "awsome_p5_2n.txt");
  std::vector<NcclRow>& rows = log.tables.at(0).rows;
  rows.resize(3);
  const auto judged = [&] { return check(log, {"p5.48xlarge", 2}, BatchOptions{}).at(0); };
  ASSERT_TRUE(judged().normal);
  rows[1].out_of_place->time = 20 * rows[1].out_of_place->time;
  const CheckedTable t = judged();
  EXPECT_TRUE(t.normal);
  EXPECT_SAYS(remarks_of(t), "a first use");
}

}  // namespace
}  // namespace foreduce
