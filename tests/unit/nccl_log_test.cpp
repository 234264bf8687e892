// nccl-tests' output as it is found: of any version, with prefixes, gaps and foreign lines in
// between.
#include "scenarios/validation/nccl_log.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>

#include "algorithms/core/collective.hpp"
#include "input/files.hpp"
#include "scenarios/validation/suspects.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/nccl_logs.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;

TEST(ParseNcclLog, ReadsPublishedLogs) {
  const std::map<std::string, std::pair<std::size_t, int>> rows_and_ranks = {
      {"awsome_p4de_2n", {29, 16}},     {"awsome_p5_1n_batch", {32, 8}},
      {"awsome_p5_2n", {32, 16}},       {"dlami_p3dn_2n", {28, 16}},
      {"dlami_p4d_2n", {28, 16}},       {"eksefa_p3dn_2n_1gpu", {29, 2}},
      {"own_h100_4n_sockets", {12, 4}}, {"nebius_h100_ib_2n", {21, 16}},
      {"skypilot_p4d_2n", {18, 16}},    {"skypilot_p4d_2n_one_efa", {18, 16}},
      {"stas00_p5en_1n_torch", {20, 8}}};
  ASSERT_EQ(published_logs().size(), rows_and_ranks.size());
  for (const fs::path& file : published_logs()) {
    SCOPED_TRACE(file);
    const NcclLog log = load_nccl_log(file);
    ASSERT_EQ(log.tables.size(), 1u);
    const NcclTable& table = log.tables[0];
    const auto [rows, ranks] = rows_and_ranks.at(file.stem().string());
    EXPECT_EQ(table.rows.size(), rows);
    EXPECT_EQ(table.ranks, ranks);
    EXPECT_EQ(table.ranks_from_columns, table.gpu.empty());  // one log has a head
    EXPECT_EQ(table.collective, "all_reduce");
    EXPECT_EQ(log.notes, std::vector<std::string>{});
    const bool one_half = file.stem().string().starts_with("s");  // skypilot, stas00
    for (const NcclRow& r : table.rows) EXPECT_TRUE(r.out_of_place && (r.in_place || one_half));
  }
}

TEST(ParseNcclLog, ReadsTheTableOfPyTorchsBenchmark) {
  const std::string head =
      "The average bandwidth of all_reduce over 16 ranks (5 warmups / 20 trials):\n";
  const std::string table =
      "| payload |    busbw   |    algbw   |\n| ------: | ---------: | ---------: |\n"
      "|   32KiB |   0.02GBps |   0.01GBps |\n|    1MiB |   1.50GBps |   0.80GBps |\n"
      "|    4GB | 375.00GBps | 200.00GBps |\n| 999999999999TiB | 1.50GBps | 0.80GBps |\n|    1XiB "
      "|   1.50GBps |   0.80GBps |\n";
  const std::string environment =
      "- software: torch=2.9.1+cu130, cuda=13.0, nccl=(2, 27, 7)\n"
      "- hardware: _CudaDeviceProperties(name='NVIDIA H200', major=9)\n";
  for (const char* prefix : {"", "[default0]:", "ip-10-0-0-1: "}) {
    std::string text = prefix;
    for (const char c : environment + head + table)
      text += c == '\n' ? "\n" + std::string(prefix) : std::string(1, c);
    const NcclLog log = parse_nccl_log("x.txt", text);
    ASSERT_EQ(log.tables.size(), 1u) << prefix;
    const NcclTable& t = log.tables[0];
    EXPECT_EQ(t.caller, "torch");
    EXPECT_EQ(t.ranks, 16);
    EXPECT_EQ(t.gpu, "NVIDIA H200");
    EXPECT_EQ(log.tables.at(0).facts.nccl_version, "2.27.7");
    ASSERT_EQ(t.rows.size(), 2u);  // two decimals are too few for the first; there is no XiB
    EXPECT_NEAR(t.rows[0].timing().time.value, 1048576 / 0.8e9, 1e-9);
    EXPECT_EQ(t.rows[1].bytes, 4.0 * (1u << 30));
    EXPECT_NEAR(t.rows[1].timing().time.value, 4.0 * (1u << 30) / 200e9, 1e-9);
    ASSERT_EQ(log.notes.size(), 1u);
    EXPECT_SAYS(log.notes[0], "too few digits");
  }
  const NcclLog bare = parse_nccl_log("x.txt", table);  // the ratio tells the ranks
  EXPECT_EQ(bare.tables.at(0).ranks, 16);
  EXPECT_TRUE(bare.tables[0].ranks_from_columns);
}

TEST(ParseNcclLog, ReadsValuesBelowTheirHeaders) {
  const NcclLog log = parse_nccl_log("x.txt", recent_log());
  ASSERT_EQ(log.tables.size(), 1u);
  const NcclTable& t = log.tables[0];
  EXPECT_EQ(t.ranks, 16);
  EXPECT_EQ(t.hosts, 2);
  EXPECT_FALSE(t.ranks_from_columns);
  EXPECT_EQ(t.gpu, "NVIDIA A100-SXM4-40GB");
  ASSERT_EQ(t.rows.size(), 2u);
  EXPECT_EQ(t.rows[0].redop, "sum");
  EXPECT_NEAR(t.rows[0].out_of_place->time.value, 408.7e-6, 1e-12);
  EXPECT_NEAR(t.rows[1].in_place->time.value, 26420e-6, 1e-12);
  EXPECT_EQ(t.rows[1].out_of_place->busbw, 76.21);
  EXPECT_EQ(t.rows[1].out_of_place->wrong, 0.0);
  EXPECT_FALSE(t.rows[1].in_place->wrong);
}

TEST(ParseNcclLog, IgnoresPrefixesAndLineEnds) {
  const NcclTable expected = parse_nccl_log("x.txt", recent_log()).tables.at(0);
  for (const std::string prefix :
       {"0: ", "[1,0]<stdout>:", "[1,0]<stdout>: ", "2026-11-20T10:00:00.123456Z ",
        "[2026-11-20 10:00:00] ", "p4d-worker-0: [1,0]<stdout>:", "12 "})
    for (const std::string line_end : {"\n", "\r\n"}) {
      SCOPED_TRACE(prefix);
      const NcclLog log = parse_nccl_log("x.txt", recent_log(prefix, line_end));
      EXPECT_EQ(log.notes, std::vector<std::string>{});
      ASSERT_EQ(log.tables.size(), 1u);
      const NcclTable& t = log.tables[0];
      EXPECT_EQ(t.hosts, 2);
      EXPECT_EQ(t.gpu, expected.gpu);
      ASSERT_EQ(t.rows.size(), 2u);
      EXPECT_EQ(t.rows[1].timing().time.value, expected.rows[1].timing().time.value);
      EXPECT_EQ(t.rows[1].bytes, 1073741824.0);
    }
}

/// KeitaW/p5-nccl-test-2024-07-19: nccl-tests writes a row in three pieces, and mpirun tags each.
TEST(ParseNcclLog, ReadsRowsWhosePiecesAreTagged) {
  const NcclLog log = parse_nccl_log(
      "x.txt",
      R"([1,0]<stdout>:#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
[1,0]<stdout>:     1048576        262144     float     sum      -1[1,0]<stdout>:    122.7    8.55   16.03      0[1,0]<stdout>:    122.3    8.58   16.08      0
[prterun-host-1@1,0]<stdout>:     2097152        524288     float     sum      -1[prterun-host-1@1,0]<stdout>:    147.8   14.19   26.61      0[1,0]<stderr>:    148.8   14.10   26.43      0
)");
  EXPECT_EQ(log.notes, std::vector<std::string>{});
  ASSERT_EQ(log.tables.size(), 1u);
  ASSERT_EQ(log.tables[0].rows.size(), 2u);
  EXPECT_NEAR(log.tables[0].rows[0].out_of_place->time.value, 122.7e-6, 1e-12);
  EXPECT_NEAR(log.tables[0].rows[1].in_place->time.value, 148.8e-6, 1e-12);
}

TEST(ParseNcclLog, ReadsPerIterationColumnsAndTimestamps) {
  const std::string header =
      R"(#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%           timestamp
)";
  const std::string row =
      R"(     1048576        262144     float     sum      -1    408.7    2.57    4.81       0   400.00   420.00   420.00     1.20    404.3    2.59    4.86       0   400.00   420.00   420.00     1.20  2026-11-20 10:00:00
)";
  for (const std::string& text : {header + row, row}) {
    SCOPED_TRACE(text);
    const NcclLog log = parse_nccl_log("x.txt", text);
    ASSERT_EQ(log.tables.size(), 1u);
    const NcclRow& r = log.tables[0].rows.at(0);
    EXPECT_NEAR(r.out_of_place->time.value, 408.7e-6, 1e-12);
    EXPECT_NEAR(r.in_place->time.value, 404.3e-6, 1e-12);
    EXPECT_EQ(r.in_place->busbw, 4.86);
  }
}

TEST(ParseNcclLog, ReadsOldColumnsAndExponents) {
  const NcclLog log = parse_nccl_log(
      "x.txt",
      R"(#                                                     out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
  1073741824     268435456   float     sum   228178    4.71    8.82  5e-07   224997    4.77    8.95  5e-07
 17179869184    4294967296   float     sum  3.6e+06    4.77    8.95  5e-07      N/A     N/A     N/A    N/A
)");
  ASSERT_EQ(log.tables.at(0).rows.size(), 2u);
  EXPECT_EQ(log.tables[0].rows[0].out_of_place->error, 5e-07);
  EXPECT_FALSE(log.tables[0].rows[0].out_of_place->wrong);
  EXPECT_EQ(log.tables[0].ranks, 16);
  EXPECT_NEAR(log.tables[0].rows[1].out_of_place->time.value, 3.6, 1e-9);
  EXPECT_FALSE(log.tables[0].rows[1].in_place);
}

// A sum that is no number dropped the row, and with it what is wrong.
TEST(ParseNcclLog, TakesAnErrorThatIsNoNumber) {
  const NcclLog log = parse_nccl_log(
      "x.txt",
      R"(#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
  1073741824     268435456   float     sum   228178    4.71    8.82    nan   224997    4.77    8.95   -nan
)");
  ASSERT_EQ(log.tables.at(0).rows.size(), 1u);
  EXPECT_TRUE(std::isinf(log.tables[0].rows[0].out_of_place->error.value()));
}

// NCCL ends the line of a number with a full stop (param.cc), and that of a word with nothing.
TEST(ParseNcclLog, ReadsSettingsAsNcclPrintsThem) {
  const NcclLog log =
      parse_nccl_log("x.txt",
                     "ip-1:1:2 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n"
                     "ip-1:1:2 [0] NCCL INFO NCCL_BUFFSIZE set by environment to 524288.\n"
                     "ip-1:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n" +
                         recent_log());
  const NcclFacts& facts = log.tables.at(0).facts;
  EXPECT_EQ(facts.setting("NCCL_P2P_DISABLE"), "1");
  EXPECT_EQ(facts.setting("NCCL_BUFFSIZE"), "524288");
  EXPECT_EQ(facts.setting("NCCL_ALGO"), "Ring");
}

// One bad node among many is the commonest fault, and any node may print last.
TEST(ParseNcclLog, TakesTheNodeWithTheFewestNics) {
  const std::string bad =
                        "[1,8]<stdout>:ip-10-0-0-2:77:79 [0] NCCL INFO NET/OFI Selected Provider "
                        "is efa (found 1 nics)\n",
                    good =
                        "[1,0]<stdout>:ip-10-0-0-1:55:57 [0] NCCL INFO NET/OFI Selected Provider "
                        "is efa (found 4 nics)\n";
  for (const std::string& lines : {bad + good, good + bad}) {
    const NcclFacts facts = parse_nccl_log("x.txt", lines + recent_log()).tables.at(0).facts;
    EXPECT_EQ(facts.nics, 1);
    EXPECT_EQ(facts.most_nics, 4);
    EXPECT_EQ(facts.nics_host, "ip-10-0-0-2");
  }
}

TEST(ParseNcclLog, KnowsEfaByItsPresentName) {
  for (const char* line :
       {"NCCL INFO Using network Libfabric", "NCCL INFO Using network AWS Libfabric",
        "NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/Libfabric/0/GDRDMA"})
    EXPECT_EQ(
        parse_nccl_log("x.txt", std::string(line) + "\n" + recent_log()).tables.at(0).facts.network,
        NcclNetwork::efa)
        << line;
}

TEST(ParseNcclLog, SaysHowUnevenlyRanksArePlaced) {
  std::string log =
      "#  Rank  0 Group  0 Pid 1 on a device  0 [0x10] NVIDIA A100\n"
      "#  Rank  1 Group  0 Pid 1 on a device  1 [0x10] NVIDIA A100\n"
      "#  Rank  2 Group  0 Pid 1 on b device  0 [0x10] NVIDIA A100\n";
  log +=
      R"(#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
  1073741824     268435456   float     sum   228178    4.71    6.27  5e-07   224997    4.77    6.36  5e-07
)";
  EXPECT_EQ(parse_nccl_log("x.txt", log).tables.at(0).uneven, "2 on a, 1 on b");
}

TEST(ParseNcclLog, ReadsRowsWithoutOutOfPlace) {
  const NcclLog log = parse_nccl_log(
      "x.txt",
      R"(#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     1048576        262144     float     sum      -1                                    404.3    2.59    4.86      0
)");
  EXPECT_FALSE(log.tables.at(0).rows.at(0).out_of_place);
  EXPECT_EQ(log.tables[0].rows[0].timing().busbw, 4.86);
}

TEST(ParseNcclLog, SeveralCollectivesAreSeveralTables) {
  const NcclLog log = parse_nccl_log("x.txt", recent_log_of(Collective::all_gather) + recent_log());
  ASSERT_EQ(log.tables.size(), 2u);
  EXPECT_EQ(log.tables[0].collective, "all_gather");
  EXPECT_EQ(log.tables[1].collective, "all_reduce");
  EXPECT_EQ(log.tables[1].ranks, 16);

  const std::string bare =
      read_text(kLogs / "dlami_p4d_2n.txt") + read_text(kLogs / "awsome_p5_1n_batch.txt");
  const NcclLog of_two_runs = parse_nccl_log("x.txt", bare);
  ASSERT_EQ(of_two_runs.tables.size(), 2u);
  EXPECT_EQ(of_two_runs.tables[0].ranks, 16);
  EXPECT_EQ(of_two_runs.tables[1].ranks, 8);
}

/// How many rows are read, and what is noted about the others.
std::string rows_and_notes(const std::string& text) {
  const NcclLog log = parse_nccl_log("x.txt", text);
  return fmt::format("{} rows; {}", log.tables.at(0).rows.size(), fmt::join(log.notes, "; "));
}

TEST(ParseNcclLog, LeavesDamagedRowsOut) {
  const std::string text = recent_log();
  EXPECT_EQ(rows_and_notes(recent_log_with("26416", "-5")),
            "1 rows; line 27: a row whose time is -5; left out");
  EXPECT_EQ(rows_and_notes(text.substr(0, text.rfind("26420"))),
            "1 rows; line 27: the last row breaks off; left out");
  EXPECT_EQ(rows_and_notes(recent_log_with("26420", "ip-10-0-0-2: WARN 26420")),
            "1 rows; line 27: a row that breaks off or has another line in it; left out");
  EXPECT_EQ(
      rows_and_notes(recent_log_with("26416", "36416")),
      "1 rows; line 27: a row whose algbw is not its size over its time (29.49 GB/s); left out");
  EXPECT_EQ(rows_and_notes(recent_log_with("268435456", "268435455")),
            "1 rows; line 27: size is not count times the size of float; left out");
}

// One decimal says less than 1 % of a small number.
TEST(ParseNcclLog, ReadsRowsOfOneDecimal) {
  const std::string text = recent_log_with("2.57    4.81", "2.6     4.8");
  EXPECT_SAYS_NOT(rows_and_notes(text), "left out");
}

/// Rows without a header or a list of ranks: "redop root time algbw busbw" and so on. The count is
/// that of one of so many blocks.
std::string rows_of(double factor, const std::string& redop, const std::string& root,
                    int blocks = 1, const std::string& wrong_in_place = "0") {
  std::string text;
  for (double bytes = 1 << 20; bytes <= 1 << 28; bytes *= 4) {
    const double us = 100 + bytes / 40e3, algbw = bytes / us / 1e3;
    text +=
        fmt::format("{:.0f} {:.0f} float {} {} {:.2f} {:.2f} {:.2f} 0 {:.2f} {:.2f} {:.2f} {}\n",
                    bytes, bytes / 4 / blocks, redop, root, us, algbw, factor * algbw, us, algbw,
                    factor * algbw, wrong_in_place);
  }
  return text;
}

// 3.17 over 1.70 is 1.865: busbw was computed from what algbw was before it was rounded.
TEST(ParseNcclLog, ToleratesARowThatRoundingShifted) {
  const NcclLog log = parse_nccl_log(
      "x.txt",
      rows_of(1.875, "sum", "-1") +
          "536870912 134217728 float sum -1 315806.42 1.70 3.17 0 315806.42 1.70 3.19 0\n");
  ASSERT_EQ(log.tables.size(), 1u);
  EXPECT_EQ(log.tables[0].collective, "all_reduce");
  EXPECT_EQ(log.tables[0].ranks, 16);
  EXPECT_EQ(log.tables[0].rows.size(), 6u);
  ASSERT_EQ(log.notes.size(), 1u);
  EXPECT_EQ(log.notes[0], "line 6: busbw over algbw is not what the other rows say");
}

TEST(ParseNcclLog, LeavesOutARowWhoseBusBandwidthContradictsTheOthers) {
  const NcclLog log = parse_nccl_log(
      "x.txt", rows_of(1.875, "sum", "-1") +
                   "1073741824 268435456 float sum -1 4388.6 244.67 658.75 0 4388.6 244.67 458.76 "
                   "0\n");
  ASSERT_EQ(log.tables.size(), 1u);
  EXPECT_EQ(log.tables[0].rows.size(), 5u);
  ASSERT_EQ(log.notes.size(), 1u);
  EXPECT_EQ(log.notes[0], "line 6: busbw over algbw is not what the other rows say; left out");
}

TEST(ParseNcclLog, SaysOfEachContradictionWhetherTheRowIsLeftOut) {
  const std::string rounded =
      "536870912 134217728 float sum -1 315806.42 1.70 3.17 0 315806.42 1.70 3.19 0\n";
  const NcclLog log = parse_nccl_log(
      "x.txt", rows_of(1.875, "sum", "-1") + rounded +
                   "1073741824 268435456 float sum -1 4388.6 244.67 658.75 0 4388.6 244.67 458.76 "
                   "0\n");
  EXPECT_EQ(log.tables.at(0).rows.size(), 6u);
  EXPECT_EQ(log.notes, (std::vector<std::string>{
                           "line 7: busbw over algbw is not what the other rows say; left out",
                           "line 6: busbw over algbw is not what the other rows say"}));
}

// Bandwidths with one decimal tell the collective as well, where they are large enough.
TEST(ParseNcclLog, TakesBandwidthsWithOneDecimal) {
  std::string text = kHeading;
  for (int rank = 0; rank < 16; ++rank)
    text += fmt::format(kDevice, rank, 100 + rank, 1 + rank / 8, rank % 8, 16 + rank);
  text.erase(text.find("# Collective test"),
             text.find("# nThread") - text.find("# Collective test"));
  text += "#       size         count      type   redop    root     time   algbw   busbw #wrong\n";
  for (const double bytes : {67108864.0, 268435456.0, 1073741824.0, 8589934592.0}) {
    const double us = 400 + bytes / 250e3, algbw = bytes / us / 1e3;
    text += fmt::format("{:12.0f} {:12.0f} float sum -1 {:.1f} {:.1f} {:.1f} 0\n", bytes, bytes / 4,
                        us, algbw, algbw * bus_factor(Collective::all_reduce, 16));
  }
  const NcclLog log = parse_nccl_log("x", text);
  ASSERT_EQ(log.tables.size(), 1u);
  EXPECT_EQ(log.tables[0].collective, "all_reduce");
}

// Rows used to vanish without a word.
TEST(ParseNcclLog, SaysWhichSizesItCannotRead) {
  const NcclLog log = parse_nccl_log("x", recent_log_with("  1073741824 ", "      1.0e+09 "));
  ASSERT_EQ(log.tables.size(), 1u);
  EXPECT_EQ(log.tables[0].rows.size(), 1u);
  ASSERT_FALSE(log.notes.empty());
  EXPECT_SAYS(log.notes.back(), "a size that is no number of bytes; left out");
}

TEST(ParseNcclLog, TellsCollectivesByTheirColumns) {
  const auto table = [](double factor, const char* redop, const char* root, int blocks = 1,
                        const char* wrong_in_place = "0") {
    return parse_nccl_log("x.txt", rows_of(factor, redop, root, blocks, wrong_in_place))
        .tables.at(0);
  };
  EXPECT_EQ(table(1.875, "sum", "-1").collective, "all_reduce");
  EXPECT_EQ(table(0.9375, "none", "-1", 16).collective, "all_gather");
  EXPECT_EQ(table(0.9375, "none", "-1", 16, "N/A").collective, "alltoall");
  EXPECT_EQ(table(0.9375, "sum", "-1", 16).collective, "reduce_scatter");
  EXPECT_EQ(table(1, "sum", "0").collective, "reduce");
  EXPECT_EQ(table(1, "none", "0").collective, "broadcast");
  EXPECT_EQ(table(1, "none", "-1", 1, "N/A").collective, "sendrecv");
  for (const char* redop : {"none", "sum"}) EXPECT_EQ(table(0.9375, redop, "-1", 16).ranks, 16);
  EXPECT_EQ(table(1, "none", "0").ranks, 0);  // nothing in its columns says how many
}

/// Without checks nothing tells an all-gather from an alltoall; but how many ranks is told.
TEST(ParseNcclLog, LeavesOpenWhatUncheckedColumnsDoNotTell) {
  std::string text = rows_of(0.9375, "none", "-1", 16);
  for (std::size_t at = 0; (at = text.find(" 0 ", at)) != std::string::npos;)
    text.replace(at, 3, " N/A ");
  for (std::size_t at = 0; (at = text.find(" 0\n", at)) != std::string::npos;)
    text.replace(at, 3, " N/A\n");
  const NcclTable table = parse_nccl_log("x.txt", text).tables.at(0);
  EXPECT_EQ(table.collective, "all_gather or alltoall");
  EXPECT_EQ(table.ranks, 16);
}

class ParseNcclLogOf : public testing::TestWithParam<Collective> {};

TEST_P(ParseNcclLogOf, ReadsWhatItsProgramPrints) {
  const std::string text = recent_log_of(GetParam());
  const NcclLog log = parse_nccl_log("x.txt", text);
  ASSERT_EQ(log.tables.size(), 1u);
  EXPECT_EQ(log.notes, std::vector<std::string>{});
  EXPECT_EQ(log.tables[0].collective, name_of(GetParam()));
  EXPECT_EQ(log.tables[0].ranks, 16);
  ASSERT_EQ(log.tables[0].rows.size(), 4u);
  EXPECT_EQ(log.tables[0].rows[3].bytes, 1073741824.0);
  EXPECT_EQ(log.tables[0].rows[3].count, 1073741824.0 / 4 / counted_blocks(GetParam(), 16));

  // Another size than its count makes on 16 ranks.
  std::string damaged = text;
  damaged.replace(damaged.find("    16777216"), 12, "    16777217");
  const NcclLog rest = parse_nccl_log("x.txt", damaged);
  EXPECT_EQ(rest.tables.at(0).rows.size(), 3u);
  ASSERT_EQ(rest.notes.size(), 1u);
  EXPECT_SAYS(rest.notes[0], "size is not count times the size of float");

  // Counts of whole buffers are not of 16 ranks: nothing of such a table is believed.
  if (counted_blocks(GetParam(), 16) == 1) return;
  std::string other = recent_log();
  other.replace(other.find("all_reduce"), 10, name_of(GetParam()));
  EXPECT_SAYS(log_error_in(other), "size is not count times the size of float on 16 ranks");
}

INSTANTIATE_TEST_SUITE_P(Every, ParseNcclLogOf, testing::ValuesIn(kCollectives),
                         [](const auto& of) { return std::string(name_of(of.param)); });

TEST(ParseNcclLog, SaysWhichColumnsItDoesNotKnow) {
  EXPECT_SAYS(log_error_in("1048576 262144 float sum 1 2 3 4 5\n"),
              "line 1: a row of 6 columns after the type, which no nccl-tests prints");
}

TEST(ParseNcclLog, ReadsTheNumberOfNicsInAllSpellings) {
  for (const char* line : {"NCCL INFO NET/OFI Selected provider is efa (found 3 nics)",
                           "NCCL INFO NET/OFI Found 3 nics"})
    EXPECT_EQ(
        parse_nccl_log("x.txt", std::string(line) + "\n" + recent_log()).tables.at(0).facts.nics, 3)
        << line;
}

TEST(ParseNcclLog, ReadsColumnsByTheirNamesBetweenOthers) {
  const std::string table =
      "# size count type redop root time cputime algbw busbw #wrong time cputime algbw busbw "
      "#wrong\n"
      "1048576 262144 float sum -1 408.7 9.5 2.57 4.81 0 404.3 9.1 2.59 4.86 0\n"
      "1073741824 268435456 float sum -1 26416 9.9 40.65 76.21 0 26420 9.2 40.64 76.20 0\n";
  const NcclLog log = parse_nccl_log("x.txt", table);
  ASSERT_EQ(log.tables.at(0).rows.size(), 2u);
  const NcclRow& row = log.tables[0].rows[0];
  EXPECT_NEAR(row.out_of_place->time.value, 408.7e-6, 1e-12);
  EXPECT_EQ(row.out_of_place->busbw, 4.81);
  EXPECT_NEAR(row.in_place->time.value, 404.3e-6, 1e-12);
  EXPECT_EQ(row.in_place->algbw, 2.59);
}

TEST(ParseNcclLog, TheTestMayBeNamedBehindTheListOfRanks) {
  std::string text = recent_log();
  const std::string name = "# Collective test starting: all_reduce_perf\n";
  text.erase(text.find(name), name.size());
  text.insert(text.find(kTable), name);
  const NcclTable t = parse_nccl_log("x.txt", text).tables.at(0);
  EXPECT_EQ(t.collective, "all_reduce");
  EXPECT_EQ(t.ranks, 16);
  EXPECT_EQ(t.gpu, "NVIDIA A100-SXM4-40GB");
}

// It was said to be of one GPU, whose bus bandwidth is 0.
TEST(ParseNcclLog, ABandwidthIsNeverOfOneRank) {
  const NcclTable t =
      parse_nccl_log("x.txt",
                     "# Collective test starting: all_gather_perf\n# size count type redop root "
                     "time algbw busbw #wrong\n"
                     "1073741824 268435456 float none -1 13208 81.29 76.21 0\n")
          .tables.at(0);
  EXPECT_EQ(t.ranks, 0);
  EXPECT_EQ(t.rows.size(), 1u);
}

TEST(ParseNcclLog, SaysWhatWouldFitAsWellWhereNothingNamesTheCollective) {
  const auto unnamed = [](const char* in_place) {
    return parse_nccl_log(
        "x.txt",
        std::string("# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
                    "1073741824 16777216 float none -1 13208 81.29 76.21 0 13210 81.28 76.20 ") +
            in_place + "\n");
  };
  const NcclLog gather = unnamed("0");
  EXPECT_EQ(gather.tables.at(0).collective, "all_gather");
  EXPECT_EQ(gather.tables[0].or_of, "all_gather or alltoall");
  ASSERT_EQ(gather.notes.size(), 1u);
  EXPECT_SAYS(gather.notes[0], "--collective decides");
  EXPECT_EQ(unnamed("N/A").tables.at(0).collective, "alltoall");
}

}  // namespace
}  // namespace foreduce
