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
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;

const fs::path kLogs = fs::path(FOREDUCE_SOURCE_FOLDER) / "tests" / "logs";

std::vector<fs::path> published_logs() {
  std::vector<fs::path> logs;
  for (const auto& entry : fs::directory_iterator(kLogs))
    if (entry.path().extension() == ".txt") logs.push_back(entry.path());
  std::sort(logs.begin(), logs.end());
  return logs;
}

const char* const kHeading =
    R"(# nccl-tests version 2.17.6 nccl-headers=22703 nccl-library=22703
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
)";
constexpr char kDevice[] =
    "#  Rank {:2} Group  0 Pid {:6} on ip-10-0-0-{} device  {} [0000:{:02x}:1c] NVIDIA "
    "A100-SXM4-40GB\n";
const char* const kTable =
    R"(#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    408.7    2.57    4.81      0    404.3    2.59    4.86      0
  1073741824     268435456     float     sum      -1    26416   40.65   76.21      0    26420   40.64   76.20    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 38.2
)";

/// What nccl-tests 2.17 prints on two p4d (shortened).
std::string recent_log() {
  std::string text = kHeading;
  for (int rank = 0; rank < 16; ++rank)
    text += fmt::format(kDevice, rank, 100 + rank, 1 + rank / 8, rank % 8, 16 + rank);
  return text + kTable;
}

/// The same with every line changed as launchers do.
std::string recent_log(const std::string& prefix, const std::string& line_end) {
  std::istringstream lines(recent_log());
  std::string text;
  for (std::string line; std::getline(lines, line);) text += prefix + line + line_end;
  return text;
}

/// A log with the last occurrence of `what` replaced.
std::string recent_log_with(const std::string& what, const std::string& instead) {
  std::string text = recent_log();
  return text.replace(text.rfind(what), what.size(), instead);
}

/// What the program of a collective prints on two p4d: counts of a rank's block, no operation where
/// nothing is reduced, and in place no result of an alltoall is checked.
std::string recent_log_of(Collective collective) {
  std::string text = recent_log();
  text = text.substr(0, text.find("     1048576"));
  text.replace(text.find("all_reduce"), 10, name_of(collective));
  for (const double bytes : {0.0, 1048576.0, 16777216.0, 1073741824.0}) {
    const double us = 50 + bytes / 40e3, algbw = bytes / us / 1e3,
                 busbw = algbw * bus_factor(collective, 16);
    text += fmt::format(
        "{:12.0f}  {:12.0f}     float  {:>6}  {:>6}  {:7.2f}  {:6.2f}  {:6.2f}      0  {:7.2f}  "
        "{:6.2f}  {:6.2f}  {:>5}\n",
        bytes, bytes / 4 / counted_blocks(collective, 16), reduces(collective) ? "sum" : "none",
        collective == Collective::broadcast ? 0 : -1, us, algbw, busbw, us, algbw, busbw,
        collective == Collective::all_to_all ? "N/A" : "0");
  }
  return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 17.3 \n#\n";
}

std::string log_error_in(const std::string& text) {
  return error_of([&] { parse_nccl_log("x.txt", text); });
}

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
  const NcclLog log = parse_nccl_log("x", recent_log_with("  1073741824 ", "          1G "));
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

TEST(ParseNcclLog, ReadsNcclsDebugLines) {
  const NcclLog log = parse_nccl_log("x.txt", R"(ip-1:1:2 [0] NCCL INFO NCCL version 2.23.4+cuda12.5
ip-1:1:2 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.13.2-aws
ip-1:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)
ip-1:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring
ip-1:1:2 [0] NCCL INFO Channel 00/08 :    0   7   6
ip-1:1:2 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/AWS Libfabric/0/GDRDMA
ip-1:1:2 [0] NCCL INFO 8 coll channels, 0 collnet channels, 0 nvls channels
)" + recent_log());
  EXPECT_EQ(log.tables.at(0).facts.nccl_version, "2.23.4");
  EXPECT_EQ(log.tables.at(0).facts.plugin_version, "1.13.2");
  EXPECT_EQ(log.tables.at(0).facts.network, NcclNetwork::efa);
  EXPECT_EQ(log.tables.at(0).facts.nics, 4);
  EXPECT_EQ(log.tables.at(0).facts.channels, 8);
  EXPECT_EQ(log.tables.at(0).facts.gpudirect, true);
  EXPECT_EQ(log.tables.at(0).facts.setting("NCCL_ALGO"), "Ring");
}

// enqueue.cc of v2.28.9-1 and of v2.19.4-1, whose numbers are those of NCCL_ALGO_* and
// NCCL_PROTO_*.
TEST(ParseNcclLog, ReadsWhatNcclChose) {
  const auto chosen = [](const char* line) {
    NcclFacts facts;
    take_info(facts, line);
    std::string all;
    for (const auto& [bytes, what] : facts.chosen) all += fmt::format("{} {}", bytes, what);
    return all;
  };
  EXPECT_EQ(chosen("a:1:2 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo NVLS_TREE proto SIMPLE "
                   "channel{Lo..Hi}={0..15}"),
            "1048576 nvls-tree Simple");
  EXPECT_EQ(chosen("a:1:2 [0] NCCL INFO 8 Bytes -> Algo 0 proto 0 time 25.200924"),
            "8 double-tree LL");
  EXPECT_EQ(chosen("NCCL INFO 536870912 Bytes -> Algo 1 proto 1 time 1e3"), "536870912 ring LL128");
  for (const char* other :
       {"NCCL INFO AllGather: 256 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}",
        "NCCL INFO AllReduce: 8 Bytes -> Algo 9 proto 0 time 1", " Bytes -> Algo 1 proto 1",
        "NCCL INFO AllReduce: x Bytes -> Algo RING proto LL",
        "NCCL INFO AllReduce: 8 Bytes -> Algo RING", "8 Bytes -> Algo  proto "})
    EXPECT_EQ(chosen(other), "") << other;
}

TEST(ParseNcclLog, KnowsThePluginOverTcp) {
  NcclFacts facts;
  for (const char* line :
       {"a:1:2 [0] NCCL INFO NET/OFI Selected provider is tcp;ofi_rxm, fabric is x (found 1 nics)",
        "a:1:2 [0] NCCL INFO Using network AWS Libfabric"})
    take_info(facts, line);
  EXPECT_EQ(facts.network, NcclNetwork::sockets);
  EXPECT_TRUE(facts.plugin_over_tcp);
  EXPECT_FALSE(facts.nics);
}

TEST(ParseNcclLog, ReadsListsOfSettings) {
  NcclFacts facts;
  take_info(facts, "a:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring,Tree");
  take_info(facts, "a:1:2 [0] NCCL INFO NCCL_PROTO set by environment to ^LL128");
  EXPECT_EQ(facts.setting("NCCL_ALGO"), "Ring,Tree");
  EXPECT_EQ(facts.setting("NCCL_PROTO"), "^LL128");
  EXPECT_EQ(method_forced_by(facts, Collective::all_reduce), "");
}

// nccl-tests, util.cu: of a process with eight GPUs the first rank alone is in `devices`; a failed
// check of results and an error of NCCL stand behind the results.
TEST(ParseNcclLog, ReadsJsonOfProcessesWithSeveralGpus) {
  const std::string head =
      R"({"version":2,"args":["./all_reduce_perf","-g","8"],"config":{"nthreads":1,"ngpus":8,)"
      R"("maximum_bytes":1073741824,"devices":[{"rank":0,"hostname":"a","device_info":"NVIDIA H100"},)"
      R"({"rank":8,"hostname":"b","device_info":"NVIDIA H100"}]},"results":[{"size":1048576,)"
      R"("count":262144,"type":"float","redop":"sum","out_of_place":{"time":100,"alg_bw":10.49,)"
      R"("bus_bw":19.66,"nwrong":0}}])";
  const NcclTable table =
      parse_nccl_log(
          "x.json", head + R"(,"out_of_bounds":{"count":3,"okay":"false"},"errors":["NCCL WARN"]})")
          .tables.at(0);
  EXPECT_EQ(table.ranks, 16);
  EXPECT_EQ(table.hosts, 2);
  EXPECT_EQ(table.asked_bytes, 1073741824);
  EXPECT_EQ(table.out_of_bounds, 3);
  EXPECT_FALSE(table.failure.empty());
  EXPECT_TRUE(parse_nccl_log("x.json", head + R"(,"errors":[]})").tables.at(0).failure.empty());
}

TEST(ParseNcclLog, KeepsWhatEachRunSaidOfItself) {
  const NcclLog log =
      parse_nccl_log("x.txt", recent_log() + "NCCL INFO Using network Socket\n" + recent_log() +
                                  "NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n"
                                  "NCCL INFO NCCL_PASSWORD set by environment to secret\n");
  ASSERT_EQ(log.tables.size(), 2u);
  EXPECT_EQ(log.tables[0].facts.network, NcclNetwork::sockets);  // before the next run began
  EXPECT_EQ(log.tables[1].facts.network, NcclNetwork::unknown);
  EXPECT_TRUE(log.tables[0].facts.settings.empty());
  EXPECT_EQ(log.tables[1].facts.settings,
            (std::map<std::string, std::string>{{"NCCL_P2P_DISABLE", "1"}}));
}

// -C 1: the column says how long the CPU was busy, and the bandwidths are of the GPU all the same.
TEST(ParseNcclLog, TakesTheTimeOfTheGpuFromItsBandwidth) {
  const NcclLog log =
      parse_nccl_log("x.txt", R"(# size count type redop root cputime algbw busbw #wrong
 8 2 float sum -1 3.11 0.00 0.00 0
 1073741824 268435456 float sum -1 812.0 40.65 76.21 0
)");
  ASSERT_EQ(log.tables.at(0).rows.size(), 1u);
  EXPECT_NEAR(log.tables[0].rows[0].timing().time.value, 26.4e-3, 1e-4);
  EXPECT_SAYS(log.notes.at(0), "line 2: a time of the CPU (-C 1)");
}

TEST(ParseNcclLog, CountsCardsOverInfiniband) {
  const auto facts = [](const std::string& line) {
    NcclFacts all;
    take_info(all, line);
    return all;
  };
  const std::string head = "node-1:1:2 [0] NCCL INFO NET/IB : ";
  EXPECT_EQ(facts(head + "Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>").nics,
            2);
  EXPECT_EQ(facts(head + "Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>").nics_host, "node-1");
  EXPECT_TRUE(facts(head + "No device found.").no_infiniband);
  EXPECT_FALSE(facts(head + "No device found.").nics);
}

TEST(ParseNcclLog, NamesDifferentGpus) {
  std::string text = kHeading;
  text += fmt::format(kDevice, 0, 1, 1, 0, 0x10);
  text += "#  Rank  1 Group  0 Pid      2 on ip-10-0-0-1 device  1 [0000:20:1c] NVIDIA H100\n";
  const NcclTable table = parse_nccl_log("x.txt", text + kTable).tables.at(0);
  EXPECT_EQ(table.gpu, "");
  EXPECT_EQ(table.mixed, "NVIDIA A100-SXM4-40GB and NVIDIA H100");
}

TEST(ParseNcclLog, KnowsHowTheRunEnded) {
  const NcclTable whole = parse_nccl_log("x.txt", recent_log()).tables.at(0);
  EXPECT_GT(whole.asked_bytes, 0);
  EXPECT_TRUE(whole.ended);
  EXPECT_TRUE(whole.failure.empty());
  EXPECT_EQ(whole.out_of_bounds, 0);
  const std::string cut = recent_log().substr(0, recent_log().find("# Out of bounds"));
  EXPECT_FALSE(parse_nccl_log("x.txt", cut).tables.at(0).ended);
  EXPECT_EQ(parse_nccl_log("x.txt", cut + "node-1: Test NCCL failure all_reduce.cu:44\n")
                .tables.at(0)
                .failure,
            "Test NCCL failure all_reduce.cu:44");
  EXPECT_EQ(parse_nccl_log("x.txt", cut + "# Out of bounds values : 12 FAILED\n")
                .tables.at(0)
                .out_of_bounds,
            12);
}

TEST(ParseNcclLog, ReadsThroughColours) {
  const std::string red = recent_log("\x1b[31m", "\x1b[0m\n");
  EXPECT_EQ(parse_nccl_log("x.txt", red).tables.at(0).rows.size(), 2u);
}

TEST(ParseNcclLog, KnowsSocketsFromDebugLines) {
  const NcclLog log = parse_nccl_log("x.txt", R"(NCCL INFO Using network Socket
NCCL INFO Channel 01/0 : 8[0] -> 0[0] [receive] via NET/Socket/0
)" + recent_log());
  EXPECT_EQ(log.tables.at(0).facts.network, NcclNetwork::sockets);
  EXPECT_EQ(log.tables.at(0).facts.gpudirect, false);
}

// ------------------------------------------------------------------ JSON

/// What nccl-tests writes with -J on two hosts of eight GPUs, with a secret in its environment.
std::string json_log() {
  std::string devices;
  for (int rank = 0; rank < 16; ++rank)
    devices += fmt::format(
        R"({}{{"rank":{},"group":0,"pid":1,"hostname":"h{}","device":{},"device_hex":"0000:10:1c","device_info":"NVIDIA H100 80GB HBM3"}})",
        rank ? "," : "", rank, rank / 8, rank % 8);
  return R"({"version":3,"start_time":"..","args":["./all_reduce_perf","-b","8"],"env":["AWS_SECRET_ACCESS_KEY=hunter2"],"nccl_version":23007,"config":{"devices":[)" +
         devices +
         R"(]},"results":[{"size":8,"count":2,"type":"float","redop":"sum","root":"    -1","out_of_place":{"time":164.3,"alg_bw":0.0,"bus_bw":0.0,"nwrong":0},"in_place":{"cpu_time":160.0,"alg_bw":0.0,"bus_bw":0.0,"nwrong":null},"actual_iterations":20,"experiment_name":""}]})";
}

TEST(ParseNcclLog, ReadsJson) {
  const NcclLog log = parse_nccl_log("x.json", json_log());
  EXPECT_EQ(log.tables.at(0).facts.nccl_version, "2.30.7");
  EXPECT_EQ(log.tables.at(0).ranks, 16);
  EXPECT_EQ(log.tables[0].hosts, 2);
  EXPECT_EQ(log.tables[0].collective, "all_reduce");
  EXPECT_NEAR(log.tables[0].rows.at(0).in_place->time.value, 160e-6, 1e-12);
}

/// Cut anywhere, also within the secret: refused, and nothing of the environment is in the error.
TEST(ParseNcclLog, ErrorsHoldNothingOfTheEnvironment) {
  const std::string json = json_log();
  for (std::size_t cut = 1; cut < json.size(); cut += 7) {
    const std::string error = log_error_in(json.substr(0, cut));
    EXPECT_NE(error, "(accepted)") << cut;
    EXPECT_SAYS_NOT(error, "hunter2");
    EXPECT_SAYS_NOT(error, "SECRET");
  }
}

TEST(ParseNcclLog, SettingsInBracesBeforeATableAreNoJson) {
  const std::string heading_cut = kTable, rows = heading_cut.substr(heading_cut.find("\n   "));
  for (const std::string& table : {recent_log(), rows})
    for (const char* settings :
         {"{'hosts': 2, 'np': 16}\n", "{\"hosts\": 2}\n", "{\n \"n\": 1\n}\n"}) {
      const NcclLog plain = parse_nccl_log("x.txt", table),
                    braces = parse_nccl_log("x.txt", settings + table);
      ASSERT_EQ(braces.tables.size(), 1u) << settings;
      EXPECT_EQ(braces.tables[0].rows.size(), plain.tables.at(0).rows.size());
      EXPECT_EQ(braces.tables[0].ranks, plain.tables[0].ranks);
    }
}

// ------------------------------------------------------------------ what is no log

TEST(ParseNcclLog, RefusesOtherTexts) {
  EXPECT_EQ(log_error_in(""), R"(x.txt: error: there is no table of nccl-tests in it
  accepted: the text of all_reduce_perf and the like, or its JSON (-J); the table of all_reduce_bench.py; also packed by gzip, or wrapped in JSON line by line)");
  EXPECT_SAYS(
      log_error_in("\n   8   2   float   sum\n"),
      "x.txt:2:1: error: no row of an nccl-tests table can be read; line 2: a row that breaks off");
}

TEST(ParseNcclLog, RefusesOtherJson) {
  EXPECT_SAYS(log_error_in("{\n\"version\": 3,\n oops"), "x.txt:3:1: error: no JSON from byte");
  EXPECT_SAYS(log_error_in("{\"version\": 1e999}"), "x.txt: error: a number is out of range");
  EXPECT_SAYS(log_error_in(R"({"results":[], "version":9})"),
              "version 9 of nccl-tests' JSON is not known");
  EXPECT_SAYS(log_error_in(R"({"results":[{"size":-8}], "version":3})"), "results[0] lacks size");
}

/// Some characters replaced, inserted, erased or repeated, or the end cut off.
void damage_log(std::string& text, std::mt19937& dice) {
  using namespace std::string_literals;
  const std::string alphabet = "{}[]:,-#\n\r\t 0129.eN/A\"\0floatsum"s;
  for (std::size_t i = 0, n = 1 + dice() % 30; i < n && !text.empty(); ++i) {
    const std::size_t at = dice() % text.size();
    switch (dice() % 5) {
      case 0: text[at] = alphabet[dice() % alphabet.size()]; break;
      case 1: text.insert(at, 1, alphabet[dice() % alphabet.size()]); break;
      case 2: text.erase(at, 1 + dice() % 300); break;
      case 3: text.resize(at); break;
      default: text.insert(at, text.substr(dice() % text.size(), dice() % 200));
    }
  }
}

/// Expects rows whose size, time and algbw fit each other.
void expect_consistent(const NcclLog& log) {
  for (const NcclTable& t : log.tables) {
    ASSERT_FALSE(t.rows.empty());
    for (const NcclRow& r : t.rows)
      ASSERT_NEAR(r.timing().algbw, r.bytes / r.timing().time.value / 1e9,
                  0.007 + 0.07 * r.timing().algbw);
  }
}

/// Logs with random damage_log: consistent rows, or an InputError.
TEST(ParseNcclLog, ReadsOrRefusesDamagedLogs) {
  std::vector<std::string> seeds = {recent_log(), recent_log("[1,0]<stdout>:", "\r\n")};
  for (const fs::path& file : published_logs()) seeds.push_back(read_text(file));
  std::mt19937 dice(11);
  int refused = 0, noted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = seeds[dice() % seeds.size()];
    damage_log(text, dice);
    const std::string error = error_of([&] {
      const NcclLog log = parse_nccl_log("fuzz.txt", text);
      noted += !log.notes.empty();
      expect_consistent(log);
    });
    if (error == "(accepted)") continue;
    ++refused;
    EXPECT_SAYS(error, "fuzz.txt");
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(noted, 800);
}

TEST(ParseNcclLog, SaysThatARunEndedBeforeItsFirstRow) {
  const std::string heading =
      "#       size         count      type   redop    root     time   algbw   busbw #wrong\n";
  EXPECT_SAYS(error_of([&] { parse_nccl_log("x.log", heading); }),
              "ended, or hung, before its first row");
  EXPECT_SAYS(error_of([&] {
                parse_nccl_log("x.log",
                               heading + "a: Test CUDA failure common.cu:1 'out of memory'\n");
              }),
              "ended with an error before its first row");
}

// NVIDIA/nccl-tests, issue 82, and its neighbour without a root: tests of 2020 have the columns
// alone that their collective has a use for.
TEST(ParseNcclLog, KnowsOldLayoutsByTheColumnsThatTheyLack) {
  const auto read = [](const std::string& heading, const std::string& between) {
    return parse_nccl_log(
               "x.log", heading + "     1048576        262144   float " + between +
                            "  1045.82    1.00    1.00    N/A   1038.17    1.01    1.01    N/A\n" +
                            "     2097152        524288   float " + between +
                            "  2045.82    1.03    1.03    N/A   2038.17    1.03    1.03    N/A\n")
        .tables.at(0)
        .collective;
  };
  EXPECT_EQ(read("#       size         count    type    root     time   algbw   busbw  error     "
                 "time   algbw   busbw  error\n",
                 "0"),
            "broadcast");
  EXPECT_EQ(read("+ mpirun -np 2 ./build/alltoall_perf -b 1M\n#       size         count    type   "
                 "  time   algbw   busbw  error     time   algbw   busbw  error\n",
                 ""),
            "alltoall");
}

}  // namespace
}  // namespace foreduce
