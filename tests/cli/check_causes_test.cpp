// Which causes `foreduce check` names: what the log itself says comes first, and what it rules out
// is not named.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// The list of two hosts with eight GPUs each.
std::string ranks_of_two(const std::string& gpu = "NVIDIA H100 80GB HBM3") {
  static const char* const buses[] = {"53", "64", "75", "86", "97", "a8", "b9", "ca"};
  std::string text = "# nThread 1 nGpus 1 minBytes 8 maxBytes 4294967296 step: 2(factor)\n";
  for (int r = 0; r < 16; ++r)
    text += fmt::format("#  Rank {:2} Group  0 Pid {} on host-{} device  {} [0x{}] {}\n", r, 40 + r,
                        r / 8, r % 8, buses[r % 8], gpu);
  return text;
}

/// nccl-tests' table of what these nodes would take.
std::string table_of(const std::string& instance, const std::string& more = "") {
  return foreduce_says("compare --instance " + instance +
                       " --nodes 2 --algorithm nccl --sizes 8B:4GiB:x2 --format nccl-tests " + more)
      .out;
}

class CheckCauses : public testing::Test {
 protected:
  /// The first cause and what to do; all that comes before the table of sizes.
  std::string said(const std::string& log, const std::string& more = "") const {
    const std::string all =
        foreduce_says("check " + folder_.write("run.log", log).string() + " " + more).out;
    return std::regex_replace(all, std::regex("\\s+"), " ");
  }
  TemporaryFolder folder_;
};

// "NCCL uses 4 channels only" came first, for LL is modelled slower than that.
TEST_F(CheckCauses, AProtocolThatTheLogSetsComesFirst) {
  const std::string set = "host-0:40:40 [0] NCCL INFO NCCL_PROTO set by environment to LL.\n";
  const std::string slow = said(ranks_of_two() + set + table_of("p5.48xlarge", "--nccl-channels 4"),
                                "--instance p5.48xlarge");
  EXPECT_SAYS(slow, "Looks like: everything travels by LL; the log says so: NCCL_PROTO=LL");
}

TEST_F(CheckCauses, ChannelsThatTheLogNamesAreInUse) {
  const std::string table = table_of("p5.48xlarge", "--nccl-channels 4");
  EXPECT_SAYS(said(ranks_of_two() + table, "--instance p5.48xlarge"), "NCCL uses 4 channels only");
  for (const char* line : {"host-0:40:90 [0] NCCL INFO Channel 07/0 : 7[7] -> 8[0] [send] via "
                           "NET/AWS Libfabric/0/GDRDMA\n",
                           "host-0:40:40 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo RING proto "
                           "SIMPLE channel{Lo..Hi}={0..7}\n"})
    EXPECT_EQ(said(ranks_of_two() + line + table, "--instance p5.48xlarge").find("4 channels only"),
              std::string::npos)
        << line;
}

// The times of the one are normal, so that no link that both use is slow.
TEST_F(CheckCauses, ANormalCollectiveRulesOutWhatWouldSlowBoth) {
  const auto slowed = folder_.write("slow.yaml", "like: p5.48xlarge\nnic: { gpudirect: no }\n");
  const std::string good = "# all_reduce_perf\n" + ranks_of_two() + table_of("p5.48xlarge"),
                    slow = "# alltoall_perf\n" + ranks_of_two() +
                           table_of(slowed.string(), "--collective alltoall");
  const std::string alone = said(slow, "--instance p5.48xlarge"),
                    both = said(good + slow, "--instance p5.48xlarge");
  EXPECT_SAYS(alone, "bytes bounce through host memory");
  EXPECT_EQ(both.find("bytes bounce through host memory"), std::string::npos);
  EXPECT_SAYS(both, "all-reduce of this log is normal on the same cluster");
  EXPECT_SAYS(both, "NCCL_NCHANNELS_PER_NET_PEER");
}

// A machine outside of EC2 has the cards that its builder chose.
TEST_F(CheckCauses, SlowerCardsOfAnUnknownMachineAreNoFault) {
  const auto cards =
      folder_.write("cards.yaml", "like: hgx-h100-ib\nnic: { bandwidth: 100 Gbps }\n");
  const std::string guessed = said(ranks_of_two() + table_of(cards.string()));
  EXPECT_SAYS(guessed, "which the log does not name");
  EXPECT_SAYS(guessed, "slower cards than hgx-h100-ib: 100 Gbps each, where 8 of 400 Gbps");
}

TEST_F(CheckCauses, AGuessedNumberOfNodesIsSaid) {
  const std::string table = foreduce_says(
                                "compare --instance hgx-h100-ib --nodes 1 --algorithm nccl "
                                "--sizes 8B:1GiB:x4 --format nccl-tests")
                                .out;
  EXPECT_SAYS(said(table, "--instance hgx-h100-ib"),
              "the log lists no hosts: its 8 ranks are taken to be on 1 node");
}

TEST_F(CheckCauses, SlicesOfGpusAreNotJudged) {
  EXPECT_SAYS(said(ranks_of_two("NVIDIA A100-SXM4-40GB MIG 3g.20gb") + table_of("p4d.24xlarge")),
              "MIG 3g.20gb: a slice of a GPU");
}

}  // namespace
}  // namespace foreduce
