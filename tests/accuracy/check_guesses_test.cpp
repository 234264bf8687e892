// What `check` guesses where a log does not say: the machine, and what a rate or a line may mean.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/checked.hpp"
#include "tests/support/checked_logs.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// A log of two hosts of these GPUs that says no more of the machine.
NcclLog unnamed(NcclLog log, const char* gpu) {
  log.tables[0].gpu = gpu;
  log.tables[0].hosts = 2;
  log.tables[0].facts = {};
  return log;
}

// Small sizes that are a quarter faster were judged as a machine with InfiniBand, on which all
// sizes are slow.
TEST(CheckGuesses, AMachineThatTimesFitWorseIsNotTaken) {
  NcclLog log = unnamed(p4d_log(), "NVIDIA A100-SXM4-40GB");
  for (NcclRow& r : log.tables[0].rows)
    if (r.bytes < 1 << 20) {
      r.out_of_place->time = r.out_of_place->time * 0.72;
      r.in_place->time = r.in_place->time * 0.72;
    }
  const CheckedTable t = checked(log, "");
  EXPECT_EQ(t.instance, "p4d.24xlarge");
  EXPECT_TRUE(std::none_of(t.rows.begin(), t.rows.end(),
                           [](const CheckedRow& r) { return r.verdict == Verdict::slow; }));
}

// The plugin finds its cards, fails, and NCCL goes on over sockets.
TEST(CheckGuesses, SocketsAreTheCauseAlsoWhereThePluginFoundItsCards) {
  NcclLog log = p4d_log();
  for (NcclRow& r : log.tables[0].rows)
    if (r.bytes >= 1 << 20) r.out_of_place->time = Seconds{r.bytes * 1.875 / 5e9};
  log.tables[0].facts.nics = log.tables[0].facts.most_nics = 4;
  log.tables[0].facts.network = NcclNetwork::sockets;
  EXPECT_SAYS(causes_of(checked(log)),
              "TCP over one interface instead of EFA [the log says so: NCCL used its sockets]");
  log.tables[0].facts.network = NcclNetwork::efa;
  EXPECT_EQ(causes_of(checked(log)).find("TCP"), std::string::npos);
}

// The interval of a machine that nobody measured holds TCP, too.
TEST(CheckGuesses, SocketsThatAWideIntervalHoldsAreNotNormal) {
  const NcclLog log = load_nccl_log(kLogs / "own_h100_4n_sockets.txt");
  const CheckedTable t = checked(log, "p5.4xlarge");
  EXPECT_FALSE(t.normal);
  EXPECT_TRUE(t.unsure);
  EXPECT_TRUE(t.over_sockets);
  EXPECT_SAYS(remarks_of(t), "the log says so: NCCL used its sockets");
}

// Any rate is near that of some number of 32 cards, which EFA's plugin counts besides.
TEST(CheckGuesses, FewerCardsAreGuessedOfFewCardsAlone) {
  const CheckedTable p5 = checked(slower("awsome_p5_2n", 2), "p5.48xlarge");
  EXPECT_FALSE(p5.normal);
  EXPECT_EQ(remarks_of(p5).find("cards would reach"), std::string::npos);
  NcclLog ib = load_nccl_log(kLogs / "awsome_p5_2n.txt");
  for (NcclRow& r : ib.tables[0].rows)
    if (r.bytes >= 1 << 20) {
      r.out_of_place->busbw = 196;  // of 8 cards of 50 GB/s
      r.out_of_place->time = Seconds{r.bytes * 1.875 / 196e9};
    }
  ib.tables[0].facts = {};
  EXPECT_SAYS(remarks_of(checked(ib, "hgx-h100-ib", 2)),
              "about what a ring over 4 of a node's 8 cards would reach, 200.0 GB/s, which may be "
              "chance");
  ib.tables[0].facts.nics = 8;
  EXPECT_EQ(remarks_of(checked(ib, "hgx-h100-ib", 2)).find("cards would reach"), std::string::npos);
}

// Two nodes of four H100 at addresses of no p5 were judged as half a p5 each.
TEST(CheckGuesses, H100AtOtherAddressesThanP5HasAreNoP5) {
  NcclLog log = unnamed(load_nccl_log(kLogs / "awsome_p5_2n.txt"), "NVIDIA H100 80GB HBM3");
  NcclTable& t = log.tables[0];
  t.ranks = 8;
  t.gpu_buses = {"42", "55", "d4", "e6"};
  EXPECT_EQ(checked(log, "").instance, "hgx-h100-ib");
  t.gpu_buses = {"53", "64", "75", "86"};
  EXPECT_EQ(checked(log, "").instance, "p5.48xlarge");
}

// Four A100 a host at addresses of no p4d (Polaris) were judged as half a p4d, or as csc-mahti.
TEST(CheckGuesses, A100AtOtherAddressesThanP4dHasAreAskedAbout) {
  NcclLog log = unnamed(load_nccl_log(kLogs / "awsome_p5_2n.txt"), "NVIDIA A100-SXM4-40GB");
  NcclTable& t = log.tables[0];
  t.ranks = 8;
  t.gpu_buses = {"07", "46", "85", "c7"};
  const char* const asked =
      "NVIDIA A100-SXM4-40GB at PCI addresses that are none of p4d.24xlarge's";
  EXPECT_SAYS(error_of([&] { checked(log, ""); }), asked);
  t.facts.network = NcclNetwork::efa;  // by the plugin's name, which Slingshot has too
  EXPECT_SAYS(error_of([&] { checked(log, ""); }), asked);
  t.facts.efa_named = true;
  EXPECT_EQ(checked(log, "").instance, "p4d.24xlarge");
  t.facts = {};
  t.gpu_buses = {"10", "10", "20", "20"};
  EXPECT_EQ(checked(log, "").instance, "p4d.24xlarge");
}

// nccl-tests -z 1 puts a barrier behind each call.
TEST(CheckGuesses, BlockingCallsCannotBeJudged) {
  NcclLog log = load_nccl_log(kLogs / "awsome_p5_2n.txt");
  for (NcclRow& r : log.tables[0].rows) {
    r.out_of_place->time = r.out_of_place->time + Seconds{60e-6};
    r.in_place->time = r.in_place->time + Seconds{60e-6};
  }
  EXPECT_FALSE(checked(log, "p5.48xlarge", 2).unsure);
  log.tables[0].facts.blocking = true;
  const CheckedTable blocking = checked(log, "p5.48xlarge", 2);
  EXPECT_TRUE(blocking.unsure);
  EXPECT_SAYS(remarks_of(blocking), "Blocking Enabled (-z 1)");
}

TEST(CheckGuesses, AllToAllsInPlaceSayNothing) {
  NcclLog log = load_nccl_log(kLogs / "awsome_p5_2n.txt");
  NcclTable& t = log.tables[0];
  t.collective = "alltoall";
  for (NcclRow& r : t.rows) r.in_place->time = 10 * r.out_of_place->time;
  const CheckedTable judged =
      check(log, {"p5.48xlarge", 2, HealthyFrom::published}, BatchOptions{}).at(0);
  EXPECT_FALSE(judged.broken.has_value());
  EXPECT_EQ(remarks_of(judged).find("in place it is slower"), std::string::npos);
}

}  // namespace
}  // namespace foreduce
