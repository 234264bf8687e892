// Whose processes a log is of: one GPU alone, runs side by side, comments that lost their sign.
#include "scenarios/validation/log_cluster.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "scenarios/report/check_words.hpp"
#include "scenarios/validation/row_remarks.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

constexpr char kRun[] =
    "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 67108864 step: 2(factor) warmup iters: 5\n"
    "#\n"
    "# Using devices\n";
constexpr char kColumns[] =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong\n";

/// Processes of so many GPUs each, which all print at once; on one host each.
std::string side_by_side(int processes, int gpus, bool on_one_host = true) {
  std::string text;
  for (int p = 0; p < processes; ++p) text += kRun;
  for (int p = 0; p < processes; ++p)
    for (int rank = 0; rank < gpus; ++rank)
      text +=
          fmt::format("#  Rank  {0} Group  0 Pid {1} on host{2} device  {0} [0x03] NVIDIA A10G\n",
                      rank, p, on_one_host ? 0 : p);
  for (int p = 0; p < processes; ++p) text += kColumns;
  const double factor = 2.0 * (gpus - 1) / gpus;
  for (const auto& [bytes, us] : {std::pair(1048576, 100.0), std::pair(67108864, 5600.0)})
    for (int p = 0; p < processes; ++p)
      text += fmt::format("{} {} float sum -1 {:.1f} {:.2f} {:.2f} 0\n", bytes, bytes / 4, us,
                          bytes / us / 1e3, factor * bytes / us / 1e3);
  for (int p = 0; p < processes; ++p) text += "# Avg bus bandwidth    : 3.94\n";
  return text;
}

LogCluster cluster_seen(const std::string& text, const std::string& instance, int nodes = 0) {
  const NcclLog log = parse_nccl_log("x.log", text);
  return cluster_of_log(log, log.tables.front(), instance, nodes);
}

// NCCL_TESTS_SPLIT: groups of two were judged as one of all.
TEST(LogCluster, RefusesRanksInSeveralGroups) {
  std::string text = kRun;
  for (int rank = 0; rank < 16; ++rank)
    text +=
        fmt::format("#  Rank {0:2} Group {1:2} Pid 1 on host{2} device {1} [0x03] NVIDIA H100\n",
                    rank, rank % 8, rank / 8);
  text += kColumns;
  text += "67108864 16777216 float sum -1 5600.0 11.98 11.98 0\n";
  EXPECT_SAYS(error_of<InputError>([&] { cluster_seen(text, "p5.48xlarge", 2); }), "8 groups");
}

/// Ranks of an UltraServer's trays, each a host with four GPUs.
std::string in_trays(int hosts) {
  std::string text;
  for (int rank = 0; rank < 4 * hosts; ++rank)
    text += fmt::format("#  Rank {:2} Group  0 Pid 1 on tray{} device {} [0x01] NVIDIA GB200\n",
                        rank, rank / 4, rank % 4);
  return text +
         R"(#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
  8589934592    2147483648     float     sum      -1    20299  423.16  834.57      0    20006  429.37  846.82      0
)";
}

TEST(LogCluster, HostsOfAnNvlinkDomainAreOneNode) {
  const LogCluster one = cluster_seen(in_trays(18), "u-p6e-gb200x72");
  EXPECT_EQ(one.nodes, 1);
  EXPECT_EQ(one.ranks, 72);
  const LogCluster two = cluster_seen(in_trays(32), "u-p6e-gb200x72");
  EXPECT_EQ(two.nodes, 2);
  EXPECT_EQ(two.machine.gpus(), 64);
  EXPECT_EQ(cluster_seen(in_trays(18), "u-p6e-gb200x72", 1).nodes, 1);
  EXPECT_EQ(cluster_seen(in_trays(18), "u-p6e-gb200x36", 2).nodes, 2);
  EXPECT_SAYS(error_of([] { cluster_seen(in_trays(18), "u-p6e-gb200x72", 5); }),
              "--nodes 5, but the log lists 18 hosts");
  EXPECT_SAYS(error_of([] { cluster_seen(in_trays(18), ""); }),
              "that may be u-p6e-gb200x36, u-p6e-gb200x72, gb200-nvl72-ib");
}

TEST(LogCluster, NamesOfGpusTellTheirFamily) {
  EXPECT_TRUE(is_gpu_named("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTXPRO6000-96GB"));
  EXPECT_FALSE(is_gpu_named("NVIDIA RTX 6000 Ada Generation", "RTXPRO6000-96GB"));
  EXPECT_FALSE(is_gpu_named("NVIDIA GeForce RTX 4090", "RTXPRO6000-96GB"));
  EXPECT_TRUE(is_gpu_named("Tesla V100-SXM2-32GB", "V100-SXM2-32GB"));
  EXPECT_FALSE(is_gpu_named("Tesla V100-SXM3-32GB", "V100-SXM2-32GB"));  // DGX-2
  EXPECT_TRUE(is_gpu_named("NVIDIA A100-SXM-80GB", "A100-SXM4-80GB"));   // of older drivers
}

// Without MPI=1 mpirun starts programs that know nothing of each other (nccl-tests#182).
TEST(LogCluster, KnowsRunsSideBySide) {
  const std::string two = side_by_side(2, 2);
  EXPECT_EQ(parse_nccl_log("x.log", two).tables.front().independent_runs, 2);
  NcclTable cut = parse_nccl_log("x.log", two).tables.front();
  cut.asked_bytes = 1e12;
  cut.ended = false;
  EXPECT_FALSE(ended_early(cut));  // the other's heading may stand between its rows
  cut.independent_runs = 1;
  EXPECT_TRUE(ended_early(cut));
  const LogCluster own = cluster_seen(two, "g5.12xlarge");
  EXPECT_EQ(own.ranks, 2);
  EXPECT_EQ(own.nodes, 1);
  ASSERT_FALSE(own.remarks.empty());
  EXPECT_SAYS(remark_words(own.remarks.front()), "2 runs of 2 GPUs side by side");
  EXPECT_SAYS(error_of([&] { cluster_seen(two, "g5.12xlarge", 2); }),
              "x.log:13:1: error: --nodes 2, but the log lists 1 host, and rank 0 2 times\n"
              "  build nccl-tests with MPI=1");
  EXPECT_SAYS(error_of([&] { cluster_seen(side_by_side(16, 1), "g5.12xlarge"); }),
              "rank 0 is listed 16 times: each process ran by itself, on one GPU");
}

// Two jobs that write into one file, or programs without MPI on two hosts: whose row is whose?
TEST(LogCluster, RefusesRunsOfSeveralHostsThatKnowNothingOfEachOther) {
  EXPECT_SAYS(error_of([] { cluster_seen(side_by_side(2, 2, false), "g5.12xlarge"); }),
              "rank 0 is on host0 and on host1: runs that know nothing of each other");
}

TEST(LogCluster, TakesRunsOneAfterAnotherForRuns) {
  const NcclLog log = parse_nccl_log("x.log", side_by_side(1, 2) + side_by_side(1, 4));
  ASSERT_EQ(log.tables.size(), 2u);
  for (const NcclTable& t : log.tables) EXPECT_EQ(t.independent_runs, 1);
  EXPECT_EQ(log.tables[1].ranks, 4);
}

TEST(LogCluster, SaysThatOneGpuSendsNothing) {
  for (const std::string& text :
       {side_by_side(1, 1),
        kColumns + std::string("1048576 262144 float sum -1 10.50 99.87 0.00 0\n")})
    EXPECT_SAYS(error_of([&] { cluster_seen(text, "g5.8xlarge", 1); }),
                "this run is of one GPU: nothing is sent, so its bus bandwidth is 0");
}

TEST(LogCluster, ReadsCommentsThatLostTheirSign) {
  const std::string whole = side_by_side(1, 2);
  const NcclLog with = parse_nccl_log("x.log", whole),
                without = parse_nccl_log("x.log", std::regex_replace(whole, std::regex("#"), " "));
  EXPECT_EQ(without.tables.front().ranks, 2);
  EXPECT_EQ(without.tables.front().hosts, 1);
  EXPECT_EQ(without.tables.front().gpu, with.tables.front().gpu);
  EXPECT_TRUE(without.tables.front().ended);
  EXPECT_EQ(without.tables.front().asked_bytes, 67108864);
  EXPECT_TRUE(without.notes.empty());
}

// p5, p5e and p5en have GPUs that CUDA names alike; aws-ofi-nccl reads the type from the firmware.
TEST(LogCluster, TakesTheInstanceTypeFromThePlugin) {
  NcclFacts facts;
  take_info(
      facts,
      "a:1:1 [0] NCCL INFO NET/OFI Running on p5en.48xlarge platform, Setting NCCL_TOPO_FILE");
  EXPECT_EQ(facts.platform, "p5en.48xlarge");
  NcclLog log = parse_nccl_log("x.log", side_by_side(1, 2));
  log.tables[0].facts = facts;
  log.tables[0].gpu = "NVIDIA H200";
  EXPECT_EQ(cluster_of_log(log, log.tables[0], "", 0).machine.name, "p5en.48xlarge");
}

// aws-ofi-nccl says on which instance type it runs: no GPU's name is needed.
TEST(LogCluster, IsOfThePlatformThatThePluginNames) {
  NcclLog log;
  log.file = "platform.log";
  NcclTable& t = log.tables.emplace_back();
  t.collective = "all_reduce";
  t.rows.emplace_back();
  t.ranks = 16;
  t.hosts = 2;
  EXPECT_SAYS(error_of([&] { cluster_of_log(log, t, "", 0); }), "does not name the GPU");
  t.facts.platform = "p4de.24xlarge";
  EXPECT_EQ(cluster_of_log(log, t, "", 0).machine.type(), "p4de.24xlarge");
  t.facts.platform = "g7e.8xlarge";
  EXPECT_SAYS(error_of([&] { cluster_of_log(log, t, "", 0); }),
              "the log is of g7e.8xlarge, which foreduce does not know");
  t.gpu = "NVIDIA A100-SXM4-80GB";
  t.facts.platform = "c5n.18xlarge";  // which has no GPU
  EXPECT_EQ(cluster_of_log(log, t, "", 0).machine.gpu->model.substr(0, 4), "A100");
}

// nccl_ofi_tuner.cpp of aws-ofi-nccl 1.17 and later has the type, where no topology file is set.
TEST(LogCluster, TunersLinesNameTheType) {
  for (const char* line : {"NET/OFI NCCL_OFI_TUNER is not available for platform : p4de.24xlarge, "
                           "Fall back to NCCL's tuner",
                           "NET/OFI Region base Tuner is chosen for platform: p4de.24xlarge"}) {
    NcclFacts facts;
    take_info(facts, line);
    EXPECT_EQ(facts.platform, "p4de.24xlarge") << line;
  }
}

// aws-ofi-nccl sets what it needs, and NCCL then reports it as the environment's.
TEST(LogCluster, SettingsOfThePluginAreNotTheUsers) {
  NcclFacts facts;
  for (const char* line : {"a:1:1 [0] NCCL INFO NET/OFI Adding NCCL_PROTO=simple to environment",
                           "a:1:1 [0] NCCL INFO NCCL_PROTO set by environment to simple.",
                           "a:2:2 [1] NCCL INFO NCCL_BUFFSIZE set by environment to 8388608.",
                           "a:2:2 [1] NCCL INFO NET/OFI Setting NCCL_BUFFSIZE to 8388608",
                           "a:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring"})
    take_info(facts, line);
  EXPECT_EQ(facts.setting("NCCL_PROTO"), "");
  EXPECT_EQ(facts.setting("NCCL_BUFFSIZE"), "");
  EXPECT_EQ(facts.setting("NCCL_ALGO"), "Ring");
}

}  // namespace
}  // namespace foreduce
