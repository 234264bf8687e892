// What a log of nccl-tests tells beside its table: NCCL's debug lines, settings, JSON, how it
// ended; and damaged files.
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
#include "scenarios/report/words.hpp"
#include "scenarios/validation/suspects.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/nccl_logs.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;

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
    for (const auto& [bytes, what] : facts.chosen)
      all += fmt::format("{} {}", bytes, schedule_words(what));
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
  EXPECT_EQ(algorithm_forced_by(facts, Collective::all_reduce), std::nullopt);
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
  for (const char* none : {R"(,"errors":[]})", R"(,"errors":[""]})"})
    EXPECT_TRUE(parse_nccl_log("x.json", head + none).tables.at(0).failure.empty());
}

TEST(ParseNcclLog, KeepsWhatEachRunSaidOfItself) {
  const NcclLog log =
      parse_nccl_log("x.txt", recent_log() + "NCCL INFO Using network Socket\n" + recent_log() +
                                  "NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n"
                                  "NCCL INFO NCCL_PASSWORD set by environment to secret\n");
  ASSERT_EQ(log.tables.size(), 2u);
  EXPECT_EQ(log.tables[0].facts.network, NcclNetwork::unknown);
  EXPECT_EQ(log.tables[1].facts.network, NcclNetwork::sockets);  // behind the end of the first
  EXPECT_TRUE(log.tables[0].facts.settings.empty());
  EXPECT_EQ(log.tables[1].facts.settings,
            (std::map<std::string, std::string>{{"NCCL_P2P_DISABLE", "1"}}));
}

// -C 1: the column says how long the CPU was busy, and the bandwidths are of the GPU all the same.
// Other ranks than the first begin before the next run's heading: what they said was given to the
// run that had ended, and a run over sockets was called one over EFA.
TEST(ParseNcclLog, GivesWhatFollowsARunToTheNextOne) {
  const std::string sockets = "a:1:2 [1] NCCL INFO Using network Socket\n",
                    efa = "a:1:2 [1] NCCL INFO Using network AWS Libfabric\n";
  const NcclLog log = parse_nccl_log("x.txt", sockets + recent_log() + efa + recent_log() +
                                                  "a:1:2 [1] NCCL INFO 2 coll channels\n");
  ASSERT_EQ(log.tables.size(), 2u);
  EXPECT_EQ(log.tables[0].facts.network, NcclNetwork::sockets);
  EXPECT_EQ(log.tables[1].facts.network, NcclNetwork::efa);
  EXPECT_EQ(log.tables[1].facts.channels, 2) << "behind the last run it is the last run's";
  // A page that leaves out all lines of a run before its table's heading.
  const std::string whole = recent_log(), table = whole.substr(whole.rfind("#       size"));
  const NcclLog page = parse_nccl_log("x.txt", sockets + table + efa + table);
  ASSERT_EQ(page.tables.size(), 2u);
  EXPECT_EQ(page.tables[0].facts.network, NcclNetwork::sockets);
  EXPECT_EQ(page.tables[1].facts.network, NcclNetwork::efa);
}

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
  EXPECT_EQ(table.mixed, "NVIDIA A100-SXM4-40GB on ip-10-0-0-1 and NVIDIA H100 on ip-10-0-0-1");
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
         R"(]},"results":[{"size":8,"count":2,"type":"float","redop":"sum","root":"    -1","out_of_place":{"time":164.3,"alg_bw":0.0,"bus_bw":0.0,"nwrong":0},"in_place":{"time":160.0,"alg_bw":0.0,"bus_bw":0.0,"nwrong":null},"actual_iterations":20,"experiment_name":""}]})";
}

TEST(ParseNcclLog, ReadsJson) {
  const NcclLog log = parse_nccl_log("x.json", json_log());
  EXPECT_EQ(log.tables.at(0).facts.nccl_version, "2.30.7");
  EXPECT_EQ(log.tables.at(0).ranks, 16);
  EXPECT_EQ(log.tables[0].hosts, 2);
  EXPECT_EQ(log.tables[0].collective, "all_reduce");
  EXPECT_NEAR(log.tables[0].rows.at(0).in_place->time.value, 160e-6, 1e-12);
}

// With -C 1 the time is that of launching, 100 us for 1 GiB; the bandwidth is the GPUs' all the
// same.
TEST(ParseNcclLog, TakesGpuTimesFromTheBandwidthsOfCpuTimedJson) {
  std::string json = json_log();
  const auto results = json.find("\"results\":[");
  json = json.substr(0, results) + R"("results":[
{"size":8,"count":2,"type":"float","redop":"sum","in_place":{"cpu_time":99.0,"alg_bw":0.0,"bus_bw":0.0}},
{"size":1073741824,"count":268435456,"type":"float","redop":"sum","in_place":{"cpu_time":100.0,"alg_bw":107.374,"bus_bw":201.327}}]})";
  const NcclLog log = parse_nccl_log("x.json", json);
  ASSERT_EQ(log.tables.at(0).rows.size(), 1u);
  EXPECT_NEAR(log.tables[0].rows[0].in_place->time.value, 10e-3, 1e-6);
  EXPECT_SAYS(fmt::format("{}", fmt::join(log.notes, "; ")), "too low a bandwidth to tell");
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

// nccl-tests issue 152: one of two hosts had not loaded nv_peer_mem.
TEST(ParseNcclLog, NamesTheHostsWithoutGpudirect) {
  NcclFacts facts;
  take_info(facts,
            "gpu32:10:11 [0] NCCL INFO Channel 00 : 8[1] -> 0[1] [receive] via NET/IB/0/GDRDMA");
  EXPECT_EQ(facts.hosts_without_gpudirect(), "");
  take_info(facts, "gpu37:10:11 [0] NCCL INFO Channel 00 : 0[1] -> 8[1] [receive] via NET/IB/0");
  EXPECT_EQ(facts.hosts_without_gpudirect(), "gpu37");
  take_info(facts, "gpu32:10:11 [0] NCCL INFO Channel 01 : 8[1] -> 0[1] [send] via NET/IB/0");
  EXPECT_EQ(facts.hosts_without_gpudirect(), "gpu37") << "what sends need not have it";
  EXPECT_FALSE(*facts.gpudirect);
}

// nccl-tests before 2.12 checked in place what cannot be: 1e+00 there, 0e+00 out of place.
TEST(ParseNcclLog, TakesErrorsInPlaceAloneForAnAlltoall) {
  const NcclLog log = parse_nccl_log("x.txt", R"(
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
   268435456       1048576     float           520935    0.52    0.51  0e+00   519562    0.52    0.51  1e+00
   536870912       2097152     float          1041974    0.52    0.51  0e+00  1041299    0.52    0.51  1e+00
)");
  EXPECT_EQ(log.tables.at(0).collective, "alltoall");
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
                  0.051 + 0.07 * r.timing().algbw);
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

TEST(ParseNcclLog, TakesARunThatEndedBeforeItsFirstRowAsAnAnswerWhereAsked) {
  const NcclLog log = parse_nccl_log("x.log",
                                     R"(# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor)
a:1:2 [0] NCCL WARN Call to ibv_reg_mr failed
a: Test NCCL failure common.cu:954 'unhandled system error'
)",
                                     NoRow::is_failed_run);
  EXPECT_TRUE(log.tables.empty());
  ASSERT_EQ(log.failed_runs.size(), 1u);
  EXPECT_EQ(log.failed_runs[0].line, 1);
  EXPECT_SAYS(log.failed_runs[0].failure, "unhandled system error");
  EXPECT_SAYS(log.failed_runs[0].warning, "ibv_reg_mr failed");
  EXPECT_SAYS(error_of([] { parse_nccl_log("x.log", "hello\n", NoRow::is_failed_run); }),
              "there is no table of nccl-tests");
}

TEST(ParseNcclLog, ReadsTablesOfMarkdownAndOfCsv) {
  const auto read = [](const std::string& heading, const std::string& below,
                       const std::string& between) {
    std::string row = "1048576;262144;float;sum;-1;1045.82;1.00;1.88;0;1038.17;1.01;1.89;N/A";
    for (std::size_t at = 0; (at = row.find(';', at)) != std::string::npos; at += between.size())
      row.replace(at, 1, between);
    if (between.find('|') != std::string::npos) row = "| " + row + " |";
    return parse_nccl_log("x.log", heading + "\n" + below + row + "\n");
  };
  for (const NcclLog& log :
       {read("| size (B) | count (elements) | type | redop | root | time (us) | algbw (GB/s) | "
             "busbw (GB/s) | #wrong | time (us) | algbw (GB/s) | busbw (GB/s) | #wrong |",
             "|---:|---:|---|---|---|---:|---:|---:|---|---:|---:|---:|---|\n", " | "),
        read("size,count,type,redop,root,time,algbw,busbw,#wrong,time,algbw,busbw,#wrong", "", ","),
        read("\"size (B)\";\"count\";\"type\";redop;root;time;algbw;busbw;#wrong;time;algbw;busbw;"
             "#wrong",
             "", ";"),
        read("", "", ", ")}) {
    EXPECT_TRUE(log.notes.empty()) << log.notes.front();
    ASSERT_EQ(log.tables.size(), 1u);
    const NcclRow& row = log.tables[0].rows.at(0);
    EXPECT_EQ(row.bytes, 1 << 20);
    EXPECT_EQ(row.redop, "sum");
    ASSERT_TRUE(row.out_of_place && row.in_place);
    EXPECT_DOUBLE_EQ(row.out_of_place->time.value, 1045.82e-6);
    EXPECT_FALSE(row.out_of_place->unchecked);
    EXPECT_DOUBLE_EQ(row.in_place->busbw, 1.89);
    EXPECT_TRUE(row.in_place->unchecked);
  }
}

TEST(ParseNcclLog, ReadsThousandsSeparatorsInCellsAndNotesRowsThatItCannotRead) {
  const NcclLog log = parse_nccl_log(
      "x.md",
      "| Size (B) | Count | Type | redop | root | time (us) | algbw | busbw | #wrong |\n"
      "|---|---|---|---|---|---|---|---|---|\n"
      "| 1,048,576 | 262,144 | float | sum | -1 | 1,045.82 | 1.00 | 1.88 | |\n"
      "| 2 MiB | 524288 | float | sum | -1 | 2091.64 | 1.00 | 1.88 | 0 |\n");
  ASSERT_EQ(log.tables.size(), 1u);
  ASSERT_EQ(log.tables[0].rows.size(), 1u);
  EXPECT_EQ(log.tables[0].rows[0].bytes, 1 << 20);
  EXPECT_DOUBLE_EQ(log.tables[0].rows[0].out_of_place->time.value, 1045.82e-6);
  ASSERT_FALSE(log.notes.empty());
  EXPECT_EQ(log.notes[0], "line 4: a row whose size, count or type cannot be read; left out");
}

TEST(ParseNcclLog, TellsRunsThatFailedBesideOthersApart) {
  const std::string begin = "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor)\n",
                    heading =
                        "#       size         count      type   redop    root     time   algbw   "
                        "busbw #wrong\n",
                    row =
                        "     1048576        262144   float  sum  -1  1045.82    1.00    1.88    "
                        "0\n";
  const NcclLog hung = parse_nccl_log("x.log", begin + heading + begin + heading + row);
  ASSERT_EQ(hung.failed_runs.size(), 1u);
  EXPECT_EQ(hung.failed_runs[0].line, 1);
  EXPECT_EQ(hung.tables.size(), 1u);
  EXPECT_TRUE(parse_nccl_log("x.log", begin + begin + heading + row).failed_runs.empty());
  const NcclLog later = parse_nccl_log(
      "x.log", begin + "a:1:2 [0] NCCL WARN Could not find: libnccl-net.so\n" + heading + row +
                   begin + heading + "a: Test NCCL failure common.cu:954 'internal error'\n");
  ASSERT_EQ(later.failed_runs.size(), 1u);
  EXPECT_EQ(later.failed_runs[0].warning, "") << "which the first run overcame";
  const NcclLog noted = parse_nccl_log(
      "x.log",
      begin + "#  Rank x Group 0 Pid 1 on a device 0\na: Test NCCL failure common.cu:9 'error'\n",
      NoRow::is_failed_run);
  EXPECT_EQ(noted.notes.size(), 1u);
  EXPECT_EQ(noted.failed_runs.size(), 1u);
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
