// Rows of nccl-tests as people's tools leave them: with NCCL's words between their columns, with
// other spaces and numbers, or without count and type.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "scenarios/report/check_words.hpp"
#include "scenarios/validation/log_text.hpp"
#include "scenarios/validation/nccl_log.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

constexpr const char* kTwoRanks =
    "# nThread 1 nGpus 1 minBytes 8388608 maxBytes 33554432 step: 2(factor)\n"
    "#  Rank  0 Group  0 Pid 41 on mew0 device  0 [0x53] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid 42 on mew0 device  1 [0x64] NVIDIA H100 80GB HBM3\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time"
    "   algbw   busbw #wrong\n";

// NCCL_DEBUG_SUBSYS=TUNING prints a line for each call, when the row has begun.
TEST(NcclLogRows, GoOnBehindWhatNcclPrintsBetweenTheirColumns) {
  const std::string nccl =
      "mew0:41:41 [0] NCCL INFO AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE "
      "channel{Lo..Hi}={0..15}\n";
  for (const char* clings : {"", "\n"}) {
    const std::string text =
        kTwoRanks + nccl + "     8388608       2097152     float     sum      -1" + clings + nccl +
        nccl + "    83.33  100.66  100.66      0" + clings + nccl +
        "    80.98  103.59  103.59      0\n" +
        "    16777216       4194304     float     sum      -1    150.0  111.85  111.85      0    "
        "149.0  112.60  112.60      0\n# Avg bus bandwidth    : 107.1\n";
    const NcclLog log = parse_nccl_log("x", text);
    ASSERT_EQ(log.tables.size(), 1u);
    ASSERT_EQ(log.tables[0].rows.size(), 2u) << text;
    EXPECT_DOUBLE_EQ(log.tables[0].rows[0].out_of_place->time.value, 83.33e-6);
    EXPECT_DOUBLE_EQ(log.tables[0].rows[0].in_place->busbw, 103.59);
    EXPECT_TRUE(log.notes.empty());
    EXPECT_EQ(log.tables[0].facts.chosen.size(), 1u);
  }
}

// A host's name may begin as a number does: only NCCL's other lines tell where it begins.
TEST(NcclLogRows, EndWhereTheHostsNameBegins) {
  const std::string row = "     8388608       2097152     float     sum      -1";
  const std::string text = std::string(kTwoRanks) +
                           "10-0-0-1:41:41 [0] NCCL INFO NCCL version 2.22.3\n" + row +
                           "10-0-0-1:41:41 [0] NCCL INFO AllReduce: opCount 0\n" +
                           "    83.33  100.66  100.66      0    80.98  103.59  103.59      0\n";
  const NcclLog log = parse_nccl_log("x", text);
  ASSERT_EQ(log.tables.at(0).rows.size(), 1u);
  EXPECT_EQ(log.tables[0].rows[0].root, -1);
}

// Copied from a terminal, whose cuts are in blanks or within a number.
TEST(NcclLogRows, AreReadWhereATerminalCutThem) {
  std::string text = kTwoRanks;
  for (int megabytes = 8; megabytes <= 64; megabytes *= 2)
    text += fmt::format(
        "{:12} {:13}     float     sum      -1 {:8.2f}  100.66  100.66      0 {:8.2f}  103.59  "
        "103.59      0\n",
        megabytes << 20, megabytes << 18, 83.33 * megabytes / 8, 80.98 * megabytes / 8);
  for (std::size_t width = 60; width < 117; ++width)
    for (const bool stripped : {false, true}) {
      // There all cuts are in blanks that are lost, so that nothing tells them from cut words.
      if (stripped && (width == 87 || width == 95 || width == 103)) continue;
      std::string cut;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find('\n', at);
        for (; at < end; at += width) {
          std::string piece = text.substr(at, std::min(width, end - at));
          while (stripped && piece.ends_with(' ')) piece.pop_back();
          cut += piece + "\n";
        }
        at = end + 1;
      }
      const NcclLog log = parse_nccl_log("x", cut);
      ASSERT_EQ(log.tables.size(), 1u) << cut;
      EXPECT_EQ(log.tables[0].ranks, 2);
      ASSERT_EQ(log.tables[0].rows.size(), 4u) << cut;
      ASSERT_TRUE(log.tables[0].rows[3].in_place) << cut;
      EXPECT_DOUBLE_EQ(log.tables[0].rows[3].out_of_place->time.value, 83.33e-6 * 8) << cut;
      EXPECT_DOUBLE_EQ(log.tables[0].rows[3].in_place->busbw, 103.59);
      if (width == 80) {
        EXPECT_SAYS(log.notes.at(0), "cut at the width of a terminal");
      }
    }
}

TEST(NcclLogRows, ThatBreakOffAreLeftOutWithTheirLine) {
  const NcclLog log = parse_nccl_log(
      "x",
      std::string(kTwoRanks) +
          "     8388608       2097152     float     sum      -1\nsomething else\n"
          "    16777216       4194304     float     sum      -1    150.0  111.85  111.85      0"
          "    149.0  112.60  112.60      0\n");
  ASSERT_EQ(log.tables.at(0).rows.size(), 1u);
  ASSERT_EQ(log.notes.size(), 1u);
  EXPECT_SAYS(log.notes[0], "line 5: a row that breaks off");
  EXPECT_EQ(log.tables[0].unread_rows, 1);
}

TEST(NcclLogRows, MayHaveOtherSpacesAndNumbers) {
  const std::string row =
      "    16777216       4194304     float     sum      -1    150.0  111.85"
      "  111.85      0    149.0  112.60  112.60      0\n";
  const auto with = [&](std::string from, const std::string& to) {
    std::string text = kTwoRanks + row;
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
    return parse_nccl_log("x", readable("x", text, 1 << 20));
  };
  for (const auto& [from, to] : {std::pair("  ", "\xc2\xa0 "), std::pair("  ", "&nbsp; "),
                                 std::pair("16777216", "16,777,216"), std::pair("16777216", "16M"),
                                 std::pair("4194304", "4M")}) {
    const NcclLog log = with(from, to);
    ASSERT_EQ(log.tables.at(0).rows.size(), 1u) << to;
    EXPECT_EQ(log.tables[0].rows[0].bytes, 16777216) << to;
  }
}

// Who posts a log may leave out what looks alike.
TEST(NcclLogRows, CountTheRanksThatAListLeavesOut) {
  const auto with = [](double busbw) {
    return parse_nccl_log(
        "x", fmt::format("{}    16777216       4194304     float     sum      -1    150.0  "
                         "111.85  {:.2f}      0    150.0  111.85  {:.2f}      0\n",
                         kTwoRanks, busbw, busbw));
  };
  EXPECT_EQ(with(111.85).tables.at(0).ranks, 2);  // as listed
  EXPECT_EQ(with(111.85).tables[0].hosts, 1);
  const NcclLog cut = with(111.85 * 1.875);
  EXPECT_EQ(cut.tables.at(0).ranks, 16);
  EXPECT_EQ(cut.tables[0].hosts, 0);
  EXPECT_EQ(cut.tables[0].collective, "all_reduce");
  ASSERT_EQ(cut.notes.size(), 1u);
  EXPECT_SAYS(cut.notes[0], "2 ranks are listed, but busbw over algbw is of 16");
}

// A run that printed its last line did not hang.
TEST(NcclLogRows, ThatCannotBeReadAreNoFailedRun) {
  const std::string text =
      std::string(kTwoRanks) +
      "    16 millions    4194304     float     sum      -1    150.0  111.85\n"
      "    many       4194304     float     sum      -1    150.0  111.85 111.9\n"
      "# Avg bus bandwidth    : 107.1\n";
  EXPECT_SAYS(error_of([&] { parse_nccl_log("x", text, NoRow::is_failed_run); }),
              "there is no table of nccl-tests");
  const std::string numbers =
      std::string(kTwoRanks) +
      "    1.6e7  4194304     float     sum      -1    150.0  111.85 111.9\n"
      "# Avg bus bandwidth    : 107.1\n";
  EXPECT_SAYS(error_of([&] { parse_nccl_log("x", numbers, NoRow::is_failed_run); }),
              "no row of an nccl-tests table can be read");
}

TEST(NcclLogRows, MayConsistOfSizesTimesAndBandwidths) {
  for (const char* text :
       {"size,time,algbw,busbw\n8388608,204.8,40.96,76.80\n16777216,298.1,56.28,105.52\n",
        "| Size (B) | Time (us) | algbw (GB/s) | busbw (GB/s) |\n|--:|--:|--:|--:|\n"
        "| 8388608 | 204.8 | 40.96 | 76.80 |\n| 16 MiB | 298.1 | 56.28 | 105.52 |\n",
        "bytes;busbw (GB/s);algbw (GB/s);time (ms)\n8,388,608;76.80;40.96;0.2048\n"
        "16M;105.52;56.28;0.2981\n"}) {
    const NcclLog log = parse_nccl_log("x", text);
    ASSERT_EQ(log.tables.size(), 1u) << text;
    const NcclTable& t = log.tables[0];
    EXPECT_EQ(t.collective, "all_reduce");
    EXPECT_EQ(t.ranks, 16);
    ASSERT_EQ(t.rows.size(), 2u) << text;
    EXPECT_EQ(t.rows[1].bytes, 16777216);
    EXPECT_NEAR(t.rows[0].out_of_place->time.value, 204.8e-6, 1e-7);
  }
}

// What is no such table is left alone, and what cannot be read of one is counted.
TEST(NcclLogRows, ThatSmallTablesHaveAndCannotBeReadAreCounted) {
  const std::string heading = "| size | time (us) | algbw | busbw |\n|--:|--:|--:|--:|\n",
                    row = "| 8388608 | 204.8 | 40.96 | 76.80 |\n";
  const NcclLog log = parse_nccl_log("x", heading + row + "| 16777216 | N/A | - | - |\n");
  EXPECT_EQ(log.tables.at(0).rows.size(), 1u);
  EXPECT_EQ(log.tables[0].unread_rows, 1);
  // A second table has columns and units of its own.
  const NcclLog two = parse_nccl_log(
      "x", heading + row +
               "| size | time (ms) | algbw | busbw |\n| 8388608 | 0.2048 | 40.96 | 76.80 |\n");
  ASSERT_EQ(two.tables.size(), 2u);
  EXPECT_NEAR(two.tables[1].rows.at(0).out_of_place->time.value, 204.8e-6, 1e-9);
  for (const char* other : {"size (MB),algbw,busbw\n8,40.96,76.80\n",
                            "size,elements,dtype,time,algbw,busbw\n8388608,1,half,1,40.96,76.8\n",
                            "the size, the time and the algbw, busbw were checked by hand\n"})
    EXPECT_THROW(parse_nccl_log("x", other), InputError) << other;
}

// nccl-tests of 2017 printed milliseconds.
TEST(NcclLogRows, MayBeInMilliseconds) {
  const NcclLog log = parse_nccl_log(
      "x",
      "#      bytes             N    type      op     time  algbw  busbw      res\n"
      "  33554432       8388608   float     sum    0.583  57.55  100.71    1e-06     0.580  "
      "57.85  101.24    1e-06\n");
  ASSERT_EQ(log.tables.at(0).rows.size(), 1u);
  EXPECT_NEAR(log.tables[0].rows[0].out_of_place->time.value, 583e-6, 1e-9);
}

// Each GPU beside a Grace has a PCI domain of its own, of which old tests print the bus alone.
TEST(NcclLogRows, GracesGpusAreNotTheSame) {
  const auto log_of = [](const char* gpu) {
    std::string text;
    for (int r = 0; r < 4; ++r)
      text +=
          fmt::format("#  Rank  {} Group  0 Pid {} on nid1 device  0 [0x01] {}\n", r, 40 + r, gpu);
    return parse_nccl_log(
        "x", text +
                 "    16777216       4194304     float     sum      -1    150.0  111.85  167.77"
                 "      0    149.0  112.60  168.90      0\n");
  };
  EXPECT_EQ(log_of("NVIDIA GH200 120GB").tables.at(0).same_gpu, "");
  EXPECT_SAYS(log_of("NVIDIA H100 80GB HBM3").tables.at(0).same_gpu, "ranks 0 and 1 are both");
}

TEST(NcclLogFacts, AnotherProviderIsNoEfa) {
  const std::string row =
      "    16777216       4194304     float     sum      -1    150.0  111.85"
      "  111.85      0    149.0  112.60  112.60      0\n";
  const auto facts = [&](const char* line) {
    return parse_nccl_log("x", std::string(kTwoRanks) + line + "\n" + row).tables.at(0).facts;
  };
  EXPECT_EQ(
      facts("nid1:1:2 [0] NCCL INFO NET/OFI Selected Provider is cxi (found 4 nics)").other_plugin,
      "libfabric:cxi");
  EXPECT_EQ(
      facts("ip-1:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)").other_plugin,
      "");
  EXPECT_EQ(
      facts("h:1:2 [0] nccl_net_ofi_init:1444 NCCL WARN NET/OFI Only EFA provider is supported")
          .other_plugin,
      "");
  EXPECT_TRUE(facts("RCCL version 2.20.5+hip6.2").rccl);
}

// NVIDIA/nccl-tests#347; a page that names another program; Markdown's escapes; a sorted file.
TEST(NcclLogRows, AreOfTheRanksThatPeoplesTextsName) {
  const std::string row =
      "8388608 2097152 float sum -1 83.33 100.66 100.66 0 80.98 103.59 103.59 0\n";
  const std::string gathered =
      "8388608 1048576 float none -1 83.33 100.66 50.33 0 80.98 103.59 51.79 0\n";
  const auto table = [&](const std::string& before, std::string ranks, const std::string& host) {
    for (std::size_t at = 0; (at = ranks.find("mew0", at)) != std::string::npos;)
      ranks.replace(at, 4, host);
    const bool gathers = before.find("gather") != std::string::npos;
    return parse_nccl_log("x", before + ranks + (gathers ? gathered : row)).tables.at(0);
  };
  EXPECT_EQ(table("", kTwoRanks, "NODE A").ranks, 2);
  EXPECT_EQ(table("", kTwoRanks, "NODE A").gpu, "NVIDIA H100 80GB HBM3");
  EXPECT_FALSE(table("build rccl-tests beside it\n", kTwoRanks, "a").facts.rccl);
  EXPECT_TRUE(table("# rccl-tests: Version develop:1a2b3c\n", kTwoRanks, "a").facts.rccl);
  EXPECT_EQ(table("# Collective test starting: all_gather_perf<br>\n", kTwoRanks, "a").collective,
            "all_gather");
  EXPECT_EQ(table("\\# Collective test starting: all\\_gather\\_perf\n", kTwoRanks, "a").collective,
            "all_gather");
  EXPECT_EQ(table("+ export FI_CXI_RX_MATCH_MODE=software\n", kTwoRanks, "a").facts.other_plugin,
            "libfabric:cxi");
  EXPECT_EQ(table("unset FI_CXI_RX_MATCH_MODE\n", kTwoRanks, "a").facts.other_plugin, "");
  EXPECT_TRUE(parse_nccl_log("x", row + kTwoRanks).tables.at(0).ranks_behind);
  const std::string died = std::string(kTwoRanks) + "a: Test NCCL failure common.cu:961\n";
  EXPECT_FALSE(parse_nccl_log("x", died + "# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n" + row)
                   .tables.at(0)
                   .ranks_behind);  // a run that printed no row
  EXPECT_FALSE(table("", kTwoRanks, "a").ranks_behind);
}

TEST(FailedRuns, HaveTheRemedyOfWhatNcclSaid) {
  EXPECT_SAYS(remedy_of_failure("unhandled system error",
                                "NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot "
                                "allocate memory"),
              "memlock");
  EXPECT_SAYS(remedy_of_failure("", "NCCL WARN Connect to 10.0.0.2<4> failed : No route to host"),
              "security group");
  EXPECT_SAYS(remedy_of_failure("Test CUDA failure 'system not yet initialized'", ""),
              "nvidia-fabricmanager");
  EXPECT_SAYS(remedy_of_failure("", ""), "NCCL_DEBUG=INFO");
}

}  // namespace
}  // namespace foreduce
