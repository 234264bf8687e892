// What the list of ranks above a table tells where people took names out of it, or lines.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "scenarios/report/check_words.hpp"
#include "scenarios/validation/log_cluster.hpp"
#include "scenarios/validation/nccl_log.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// A row of so many ranks, below its headings.
std::string table_of(int ranks) {
  const double algbw = 255.65, busbw = algbw * 2 * (ranks - 1) / ranks;
  return fmt::format(
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
      "time   algbw   busbw #wrong\n"
      "  1073741824     268435456     float     sum      -1   4200.0  {0:.2f}  {1:.2f}      0   "
      "4200.0  {0:.2f}  {1:.2f}      0\n",
      algbw, busbw);
}

/// Ranks of which `host` names each one's host; each host has eight, at the same addresses.
template <class Host>
NcclTable listed(const std::vector<int>& ranks, const Host& host) {
  std::string text = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor)\n#\n";
  for (const int r : ranks)
    text += fmt::format("#  Rank {:2} Group  0 Pid {} on {} device  {} [0x{}0] NVIDIA H100 80GB\n",
                        r, 100 + r, host(r), r % 8, 1 + r % 8);
  const bool whole = !ranks.empty() && ranks.back() + 1 == static_cast<int>(ranks.size());
  return parse_nccl_log("x.log", text + table_of(whole ? ranks.back() + 1 : 16)).tables.at(0);
}

std::vector<int> all_of(int ranks) {
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  return all;
}

TEST(RankList, CountsHostsByName) {
  const NcclTable t = listed(all_of(16), [](int r) { return r < 8 ? "a" : "b"; });
  EXPECT_EQ(t.ranks, 16);
  EXPECT_EQ(t.hosts, 2);
  EXPECT_EQ(t.least_on_host, 8);
}

// A GPU that is there twice is on two hosts, whatever their names were made.
TEST(RankList, CountsHostsByGpusWhereNamesAreAlike) {
  EXPECT_EQ(listed(all_of(16), [](int) { return "host"; }).hosts, 2);
  EXPECT_EQ(listed(all_of(32), [](int) { return "host"; }).hosts, 4);
  EXPECT_EQ(listed(all_of(16), [](int) { return ""; }).hosts, 2) << "taken out";
  EXPECT_EQ(listed(all_of(8), [](int) { return "host"; }).hosts, 1);
  EXPECT_EQ(listed(all_of(8), [](int) { return ""; }).hosts, 0) << "nothing tells";
}

// Two ranks on one GPU measured nothing of the network, and were taken for two hosts.
TEST(RankList, SaysThatRanksShareAGpu) {
  EXPECT_EQ(listed(all_of(16), [](int r) { return r < 8 ? "a" : "b"; }).same_gpu, "");
  std::string text;
  for (const int device : {0, 1, 1, 2})
    text += fmt::format("#  Rank  {} Group  0 Pid 9 on a device  {} [0x{}0] NVIDIA H100\n",
                        std::count(text.begin(), text.end(), '#'), device, device + 1);
  NcclLog log = parse_nccl_log("x.log", text + table_of(4));
  EXPECT_EQ(log.tables.at(0).same_gpu, "ranks 1 and 2 are both on device 1[0x20] of a");
  NcclLog alike;
  alike.file = "alike.log";
  alike.tables.push_back(listed(all_of(16), [](int) { return "host"; }));
  const auto remarks = cluster_of_log(alike, alike.tables[0], "", 0).remarks;
  const bool told = std::any_of(remarks.begin(), remarks.end(), [](const Remark& r) {
    const auto* const same = std::get_if<remark::SameGpu>(&r);
    return same && same->hosts == 2 &&
           remark_words(r).find("taken for 2 hosts") != std::string::npos;
  });
  EXPECT_TRUE(told);
}

// Processes that see one GPU each call it device 0; its bus address is another.
TEST(RankList, KnowsGpusThatAreEachTheirProcessesFirst) {
  std::string text;
  for (int r = 0; r < 4; ++r)
    text += fmt::format("#  Rank  {} Group  0 Pid {} on a device  0 [0x{}0] NVIDIA H100\n", r, r,
                        r + 1);
  EXPECT_EQ(parse_nccl_log("x.log", text + table_of(4)).tables.at(0).hosts, 1);
}

// People leave the middle out: what is there says how many GPUs a host has at least.
TEST(RankList, WithHolesTellsTheHostsSize) {
  NcclLog log;
  log.file = "holes.log";
  log.tables.push_back(listed({0, 7, 8, 15}, [](int r) { return r < 8 ? "a" : "b"; }));
  NcclTable& t = log.tables[0];
  EXPECT_EQ(t.least_on_host, 8);
  EXPECT_EQ(t.ranks, 16) << "by busbw over algbw";
  const LogCluster cluster = cluster_of_log(log, t, "", 0);
  EXPECT_EQ(cluster.machine.type(), "p5.48xlarge");
  EXPECT_EQ(cluster.nodes, 2);
}

}  // namespace
}  // namespace foreduce
