// nccl-tests' output as it is found: of any age, with prefixes, holes and strangers between the lines.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "scenarios/validation/nccl_log.hpp"
#include "input/problem.hpp"

namespace foreduce {
namespace {

namespace fs = std::filesystem;
const fs::path kLogs = fs::path(FOREDUCE_SOURCE_FOLDER) / "tests" / "logs";

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
std::vector<fs::path> real_logs() {
  std::vector<fs::path> logs;
  for (const auto& entry : fs::directory_iterator(kLogs))
    if (entry.path().extension() == ".txt") logs.push_back(entry.path());
  std::sort(logs.begin(), logs.end());
  return logs;
}

/// What nccl-tests 2.17 prints on two p4d (shortened).
std::string modern(const std::string& prefix = "", const std::string& end = "\n") {
  std::string text =
      "# nccl-tests version 2.17.6 nccl-headers=22703 nccl-library=22703\n# Collective test starting: all_reduce_perf\n"
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 "
      "graph: 0\n#\n# Using devices\n";
  for (int rank = 0; rank < 16; ++rank)
    text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on ip-10-0-0-{} device  {} [0000:{:02x}:1c] NVIDIA A100-SXM4-40GB\n", rank,
                        100 + rank, 1 + rank / 8, rank % 8, 16 + rank);
  text +=
      "#\n#                                                              out-of-place                       in-place          \n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n"
      "     1048576        262144     float     sum      -1    408.7    2.57    4.81      0    404.3    2.59    4.86      0\n"
      "  1073741824     268435456     float     sum      -1    26416   40.65   76.21      0    26420   40.64   76.20    N/A\n"
      "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 38.2\n";
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += prefix + line + end;
  return out;
}

std::string refusal_of(const std::string& text) {
  try {
    parse_nccl_log("x.txt", text);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(NcclLog, RealLogsGiveEveryRowAndTheRanks) {
  const std::map<std::string, std::pair<std::size_t, int>> expected = {
      {"awsome_p4de_2n", {29, 16}},  {"awsome_p5_1n_batch", {32, 8}},      {"awsome_p5_2n", {32, 16}},
      {"dlami_p3dn_2n", {28, 16}},   {"dlami_p4d_2n", {28, 16}},           {"eksefa_p3dn_2n_1gpu", {29, 2}},
      {"skypilot_p4d_2n", {18, 16}}, {"skypilot_p4d_2n_one_efa", {18, 16}}};
  ASSERT_EQ(real_logs().size(), expected.size());
  for (const fs::path& file : real_logs()) {
    const NcclLog log = load_nccl_log(file);
    ASSERT_EQ(log.tables.size(), 1u) << file;
    const auto [rows, ranks] = expected.at(file.stem().string());
    EXPECT_EQ(log.tables[0].rows.size(), rows) << file;
    EXPECT_EQ(log.tables[0].ranks, ranks) << file;
    EXPECT_TRUE(log.tables[0].ranks_from_ratio);
    EXPECT_EQ(log.tables[0].collective, "all_reduce");
    EXPECT_TRUE(log.notes.empty()) << log.notes.front();
    for (const NcclRow& r : log.tables[0].rows)
      EXPECT_TRUE(r.out_of_place && (r.in_place || file.stem().string().starts_with("skypilot")));
  }
}

TEST(NcclLog, ValuesStandWhereTheHeaderSays) {
  const NcclLog log = parse_nccl_log("x.txt", modern());
  ASSERT_EQ(log.tables.size(), 1u);
  const NcclTable& t = log.tables[0];
  EXPECT_EQ(t.ranks, 16);
  EXPECT_EQ(t.hosts, 2);
  EXPECT_FALSE(t.ranks_from_ratio);
  EXPECT_EQ(t.gpu, "NVIDIA A100-SXM4-40GB");
  ASSERT_EQ(t.rows.size(), 2u);
  EXPECT_EQ(t.rows[0].redop, "sum");
  EXPECT_NEAR(t.rows[0].out_of_place->time.value, 408.7e-6, 1e-12);
  EXPECT_NEAR(t.rows[1].in_place->time.value, 26420e-6, 1e-12);
  EXPECT_EQ(t.rows[1].out_of_place->busbw, 76.21);
  EXPECT_EQ(t.rows[1].out_of_place->wrong, 0.0);
  EXPECT_FALSE(t.rows[1].in_place->wrong);
}

TEST(NcclLog, PrefixesAndLineEndsDoNotMatter) {
  const NcclLog plain = parse_nccl_log("x.txt", modern());
  for (const std::string prefix : {"0: ", "[1,0]<stdout>:", "[1,0]<stdout>: ", "2026-11-20T10:00:00.123456Z ",
                                   "[2026-11-20 10:00:00] ", "p4d-worker-0: [1,0]<stdout>:", "12 "})
    for (const std::string end : {"\n", "\r\n"}) {
      const NcclLog log = parse_nccl_log("x.txt", modern(prefix, end));
      ASSERT_EQ(log.tables.size(), 1u) << prefix;
      EXPECT_TRUE(log.notes.empty()) << prefix << log.notes.front();
      EXPECT_EQ(log.tables[0].hosts, 2) << prefix;
      EXPECT_EQ(log.tables[0].gpu, plain.tables[0].gpu) << prefix;
      ASSERT_EQ(log.tables[0].rows.size(), 2u) << prefix;
      EXPECT_EQ(log.tables[0].rows[1].timing().time.value, plain.tables[0].rows[1].timing().time.value) << prefix;
      EXPECT_EQ(log.tables[0].rows[1].bytes, 1073741824.0) << prefix;
    }
}

TEST(NcclLog, PerIterationColumnsAndTimestamps) {
  const std::string text =
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%   "
      "  time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%           timestamp\n"
      "     1048576        262144     float     sum      -1    408.7    2.57    4.81       0   400.00   420.00   420.00     1.20   "
      " 404.3    2.59    4.86       0   400.00   420.00   420.00     1.20  2026-11-20 10:00:00\n";
  for (const bool header : {true, false}) {
    const NcclLog log = parse_nccl_log("x.txt", header ? text : text.substr(text.find('\n') + 1));
    ASSERT_EQ(log.tables.size(), 1u);
    EXPECT_NEAR(log.tables[0].rows.at(0).out_of_place->time.value, 408.7e-6, 1e-12) << header;
    EXPECT_NEAR(log.tables[0].rows.at(0).in_place->time.value, 404.3e-6, 1e-12) << header;
    EXPECT_EQ(log.tables[0].rows.at(0).in_place->busbw, 4.86);
  }
}

TEST(NcclLog, OldColumnsBlankHalvesAndExponents) {
  const std::string old =
      "#                                                     out-of-place                       in-place\n"
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n";
  const NcclLog log = parse_nccl_log(
      "x.txt", old +
                   "  1073741824     268435456   float     sum   228178    4.71    8.82  5e-07   224997    4.77    8.95  5e-07\n"
                   " 17179869184    4294967296   float     sum  3.6e+06    4.77    8.95  5e-07      N/A     N/A     N/A    N/A\n");
  ASSERT_EQ(log.tables.at(0).rows.size(), 2u);
  EXPECT_EQ(log.tables[0].rows[0].out_of_place->wrong, 5e-07);
  EXPECT_EQ(log.tables[0].ranks, 16);
  EXPECT_NEAR(log.tables[0].rows[1].out_of_place->time.value, 3.6, 1e-9);
  EXPECT_FALSE(log.tables[0].rows[1].in_place);

  const std::string header =
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n";
  const NcclLog replay = parse_nccl_log(
      "x.txt",
      header +
          "     1048576        262144     float     sum      -1                                    404.3    2.59    4.86      0\n");
  EXPECT_FALSE(replay.tables.at(0).rows.at(0).out_of_place);
  EXPECT_EQ(replay.tables[0].rows[0].timing().busbw, 4.86);
}

TEST(NcclLog, SeveralCollectivesAreSeveralTables) {
  std::string gather = modern();
  gather.replace(gather.find("all_reduce_perf"), 15, "all_gather_perf");
  const NcclLog log = parse_nccl_log("x.txt", gather + modern());
  ASSERT_EQ(log.tables.size(), 2u);
  EXPECT_EQ(log.tables[0].collective, "all_gather");
  EXPECT_EQ(log.tables[1].collective, "all_reduce");
  EXPECT_EQ(log.tables[1].ranks, 16);
  const NcclLog bare = parse_nccl_log("x.txt", read(kLogs / "dlami_p4d_2n.txt") + read(kLogs / "awsome_p5_1n_batch.txt"));
  ASSERT_EQ(bare.tables.size(), 2u);
  EXPECT_EQ(bare.tables[0].ranks, 16);
  EXPECT_EQ(bare.tables[1].ranks, 8);
}

TEST(NcclLog, DamagedRowsAreNotedAndLeftOut) {
  const std::string text = modern();
  const auto notes_of = [](const std::string& t) {
    const NcclLog log = parse_nccl_log("x.txt", t);
    return fmt::format("{} rows; {}", log.tables[0].rows.size(), fmt::join(log.notes, "; "));
  };
  const auto at = text.rfind("26420");
  EXPECT_EQ(notes_of(text.substr(0, at)), "1 rows; line 27: the last row breaks off; left out");
  std::string strange = text;
  strange.insert(at, "ip-10-0-0-2: WARN ");
  EXPECT_EQ(notes_of(strange), "1 rows; line 27: a row that breaks off or has another line in it; left out");
  std::string shifted = text;
  shifted.replace(text.rfind("26416"), 5, "36416");
  EXPECT_EQ(notes_of(shifted), "1 rows; line 27: a row whose algbw is not its size over its time (29.49 GB/s); left out");
  std::string count = text;
  count.replace(text.rfind("268435456"), 9, "268435455");
  EXPECT_EQ(notes_of(count), "1 rows; line 27: size is not count times the size of float; left out");
}

TEST(NcclLog, TellsWhatNcclSaid) {
  const std::string info =
      "ip-1:1:2 [0] NCCL INFO NCCL version 2.23.4+cuda12.5\nip-1:1:2 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.13.2-aws\n"
      "ip-1:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)\nip-1:1:2 [0] NCCL INFO NCCL_ALGO set by environment "
      "to Ring\n"
      "ip-1:1:2 [0] NCCL INFO Channel 00/08 :    0   7   6\nip-1:1:2 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via "
      "NET/AWS Libfabric/0/GDRDMA\n"
      "ip-1:1:2 [0] NCCL INFO 8 coll channels, 0 collnet channels, 0 nvls channels\n";
  const NcclLog log = parse_nccl_log("x.txt", info + modern());
  EXPECT_EQ(log.nccl_version, "2.23.4");
  EXPECT_EQ(log.plugin_version, "1.13.2");
  EXPECT_EQ(log.network, NcclNetwork::efa);
  EXPECT_EQ(log.nics, 4);
  EXPECT_EQ(log.channels, 8);
  EXPECT_EQ(log.gpudirect, true);
  EXPECT_EQ(log.forced_algorithm, "Ring");
  const NcclLog tcp = parse_nccl_log(
      "x.txt", "NCCL INFO Using network Socket\nNCCL INFO Channel 01/0 : 8[0] -> 0[0] [receive] via NET/Socket/0\n" + modern());
  EXPECT_EQ(tcp.network, NcclNetwork::sockets);
  EXPECT_EQ(tcp.gpudirect, false);
}

TEST(NcclLog, JsonWithoutItsEnvironment) {
  std::string devices;
  for (int rank = 0; rank < 16; ++rank)
    devices += fmt::format(
        "{}{{\"rank\":{},\"group\":0,\"pid\":1,\"hostname\":\"h{}\",\"device\":{},\"device_hex\":\"0000:10:1c\",\"device_info\":"
        "\"NVIDIA H100 80GB HBM3\"}}",
        rank ? "," : "", rank, rank / 8, rank % 8);
  const std::string json =
      "{\"version\":3,\"start_time\":\"..\",\"args\":[\"./"
      "all_reduce_perf\",\"-b\",\"8\"],\"env\":[\"AWS_SECRET_ACCESS_KEY=hunter2\"],\"nccl_version\":23007,\"config\":{\"devices\":"
      "[" +
      devices +
      "]},\"results\":[{\"size\":8,\"count\":2,\"type\":\"float\",\"redop\":\"sum\",\"root\":\"    "
      "-1\",\"out_of_place\":{\"time\":164.3,\"alg_bw\":0.0,\"bus_bw\":0.0,\"nwrong\":0},"
      "\"in_place\":{\"cpu_time\":160.0,\"alg_bw\":0.0,\"bus_bw\":0.0,\"nwrong\":null},\"actual_iterations\":20,\"experiment_"
      "name\":\"\"}]}";
  const NcclLog log = parse_nccl_log("x.json", json);
  EXPECT_EQ(log.nccl_version, "2.30.7");
  EXPECT_EQ(log.tables.at(0).ranks, 16);
  EXPECT_EQ(log.tables[0].hosts, 2);
  EXPECT_EQ(log.tables[0].collective, "all_reduce");
  EXPECT_NEAR(log.tables[0].rows.at(0).in_place->time.value, 160e-6, 1e-12);
  // Cut anywhere, also within the secret: refused, and nothing of it is told.
  for (std::size_t cut = 1; cut < json.size(); cut += 7) {
    const std::string said = refusal_of(json.substr(0, cut));
    EXPECT_NE(said, "accepted") << cut;
    EXPECT_EQ(said.find("hunter2"), std::string::npos) << said;
    EXPECT_EQ(said.find("SECRET"), std::string::npos) << said;
  }
}

TEST(NcclLog, WhatIsNoLogIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal_of(""),
            "x.txt: error: there is no table of nccl-tests in it\n  accepted: the text of all_reduce_perf, or its JSON (-J)");
  EXPECT_NE(refusal_of("\n   8   2   float   sum\n")
                .find("x.txt:2:1: error: no row of an nccl-tests table can be read; line 2: a row that breaks off"),
            std::string::npos)
      << refusal_of("\n   8   2   float   sum\n");
  EXPECT_NE(refusal_of("{\n\"version\": 3,\n oops").find("x.txt:3:1: error: no JSON from byte"), std::string::npos)
      << refusal_of("{\n\"version\": 3,\n oops");
  EXPECT_NE(refusal_of("{\"results\":[], \"version\":9}").find("version 9 of nccl-tests' JSON is not known"), std::string::npos);
  EXPECT_NE(refusal_of("{\"results\":[{\"size\":-8}], \"version\":3}").find("results[0] lacks size"), std::string::npos);
}

/// Real logs with random damage: a log with rows that hold together, or an InputError.
TEST(Fuzz, DamagedLogsAreReadOrRefused) {
  std::vector<std::string> seeds = {modern(), modern("[1,0]<stdout>:", "\r\n")};
  for (const fs::path& file : real_logs()) seeds.push_back(read(file));
  std::mt19937 dice(11);
  const std::string alphabet = "{}[]:,-#\n\r\t 0129.eN/A\"\0floatsum";
  int refused = 0, noted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = seeds[dice() % seeds.size()];
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
    try {
      const NcclLog log = parse_nccl_log("fuzz.txt", text);
      noted += log.notes.empty() ? 0 : 1;
      for (const NcclTable& t : log.tables) {
        ASSERT_FALSE(t.rows.empty());
        for (const NcclRow& r : t.rows)
          ASSERT_NEAR(r.timing().algbw, r.bytes / r.timing().time.value / 1e9, 0.007 + 0.07 * r.timing().algbw);
      }
    } catch (const InputError& e) {
      ++refused;
      EXPECT_NE(std::string(e.what()).find("fuzz.txt"), std::string::npos) << e.what();
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(noted, 900);
}

}  // namespace
}  // namespace foreduce
