// What `compare` answers of NCCL: its choice, and what it is forced to.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// What NCCL would not choose itself was hardly measured by anyone.
TEST(Compare, WidensTheIntervalOfForcedChannelsAndProtocols) {
  const std::string p5 = "compare --instance p5.48xlarge --nodes 2 --algorithm nccl --sizes 64MiB";
  const auto widened = [&](const std::string& forced) {
    return json_of(p5 + forced)["points"][0]["interval_widened"].get<bool>();
  };
  EXPECT_FALSE(widened(""));
  EXPECT_TRUE(widened(" --nccl-channels 2"));
  EXPECT_TRUE(widened(" --nccl-buffsize 64KiB"));
  EXPECT_TRUE(widened(" --nccl-proto LL"));
}

TEST(Compare, ForcesNcclAsItsEnvironmentDoes) {
  const std::string p5 = "compare --instance p5.48xlarge --nodes 4 --sizes 64MiB --algorithm nccl ";
  const nlohmann::json free = json_of(p5)["points"][0];
  const nlohmann::json forced =
      json_of(p5 + "--nccl-algo Tree --nccl-proto Simple --nccl-channels 4")["points"][0];
  EXPECT_EQ(forced["chosen"], "double-tree Simple");
  EXPECT_EQ(forced["algorithm"], "nccl Tree Simple 4 channels");
  EXPECT_GT(forced["time_us"].get<double>(), 1.2 * free["time_us"].get<double>());
  EXPECT_SAYS(foreduce_says(p5 + "--nccl-algo NVLS").out, "NCCL cannot run nvls here");
}

TEST(Compare, ChoosesAsTheReleaseDoesThatIsAskedFor) {
  const std::string p5 = "compare --instance p5.48xlarge --nodes 1 --sizes 1MiB --algorithm nccl ";
  EXPECT_EQ(json_of(p5 + "--nccl-version 2.20")["points"][0]["chosen"], "nvls Simple");
  EXPECT_EQ(json_of(p5 + "--nccl-version 2.20.5+cuda12.4")["points"][0]["chosen"], "nvls Simple");
  EXPECT_EQ(json_of(p5 + "--nccl-version 2.21")["points"][0]["chosen"], "ring LL");
  EXPECT_EQ(json_of(p5 + "--nccl-version 2.16")["points"][0]["chosen"], "ring LL");  // no NVLS
  const Result wrong = foreduce_says(p5 + "--nccl-version 2.7");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_SAYS(wrong.out, "accepted: 2.8, 2.9, 2.10, ");
}

// NCCL goes from LL to LL128 between these sizes, later than it might: its own cost model says so.
TEST(Compare, SaysWhereTheLibrarysChoiceMakesLargerSizesFaster) {
  const std::string p5en = "compare --instance p5en.48xlarge --nodes 4 --algorithm nccl --sizes ";
  EXPECT_SAYS(foreduce_says(p5en + "128KiB:512KiB:x2 --wide").out,
              "Larger sizes take less time where the library changes its choice: on 4 x "
              "p5en.48xlarge 128 KiB");
  EXPECT_SAYS_NOT(foreduce_says(p5en + "1MiB:4MiB:x2").out, "Larger sizes");
}

// The same over nodes, where NCCL leaves Simple for LL, or cuts a tree's data shorter.
TEST(Compare, SaysWhereTheLibrarysChoiceMakesMoreNodesFaster) {
  const std::string g6 =
      foreduce_says("compare --instance g6.48xlarge --nodes 32,64 --algorithm nccl --sizes 1MiB")
          .out;
  EXPECT_SAYS(g6,
              "More nodes take less time where the library changes its choice: 1 MiB on 32 x "
              "g6.48xlarge ");
  EXPECT_SAYS(g6, "(double-tree Simple), then on 64 ");
  const std::string p5 = "compare --instance p5.48xlarge --algorithm nccl --sizes 256MiB --nodes ";
  EXPECT_SAYS(foreduce_says(p5 + "32,64").out, "(double-tree LL128, in 59 parts), then on 64 ");
  EXPECT_SAYS_NOT(foreduce_says(p5 + "4,8,16").out, "More nodes take");
}

// Nobody measured g5: its profile is NCCL's on GPUs without NVLink, over its fabric, and marked.
TEST(Compare, NcclHasAnAnswerWithoutAProfileOfItsOwn) {
  const nlohmann::json p = json_of(
      "compare --instance g5.48xlarge --nodes 2 --sizes 64MiB --algorithm nccl")["points"][0];
  EXPECT_EQ(p["profile"], "nccl-pcie+efa-host");
  EXPECT_EQ(json_of("compare --instance g5.48xlarge --nodes 2 --sizes 64MiB --algorithm nccl "
                    "--profile nccl-pcie")["points"][0]["time_us"],
            p["time_us"]);
  EXPECT_SAYS(p["interval_widened_because"].get<std::string>(), "no measurements of g5.48xlarge");
}

TEST(Compare, TakesNcclsBuffersAsTheyAreSet) {
  const std::string asked =
      "compare --instance p4d.24xlarge --nodes 2 --algorithm nccl --sizes 8MiB --nccl-buffsize ";
  const auto points = json_of(asked + "4MiB,8MiB")["points"];
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0]["algorithm"], "nccl 4 MiB buffers");
  EXPECT_GT(points[1]["time_us"].get<double>(), 1.2 * points[0]["time_us"].get<double>());
  const Result r = foreduce_says(asked + "4");
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "'4' has no unit");
}

/// What NCCL is forced to is NCCL all the same.
TEST(Compare, SetsAlgorithmsBesideAForcedNccl) {
  const nlohmann::json points =
      json_of(
          "compare --instance p5.48xlarge --nodes 4 --algorithm nccl,hierarchical --nccl-algo "
          "Ring --sizes 1GiB")
          .at("points");
  EXPECT_DOUBLE_EQ(points.at(0).at("speedup_vs_nccl"), 1);
  EXPECT_GT(points.at(1).at("speedup_vs_nccl"), 1.05);
}

/// One channel of NVLSTree carried five times what one of a ring does.
TEST(Compare, FewerChannelsAreNoFaster) {
  double before = 0;
  for (const int channels : {1, 2, 4, 16}) {
    const nlohmann::json report = json_of(
        "compare --instance p5.48xlarge --nodes 2 --algorithm nccl --sizes 4GiB "
        "--nccl-algo NVLSTree --nccl-channels " +
        std::to_string(channels));
    const double busbw = report.at("points").at(0).at("busbw_GBps");
    EXPECT_GE(busbw, before * (1 - 1e-9)) << channels;
    EXPECT_LT(busbw, 40.0 * channels) << channels;
    before = busbw;
  }
}

// Half of the channels move half of the data, whether GPUs or the switch sum.
TEST(Compare, TakesTwiceAsLongByHalfOfTheChannels) {
  for (const char* on : {"p5.48xlarge --nodes 1", "p5.48xlarge --nodes 2 --nccl-algo NVLSTree",
                         "p5.48xlarge --nodes 1 --nccl-algo Ring", "p6-b200.48xlarge --nodes 1"}) {
    const auto time = [&](int channels) {
      return json_of(
                 fmt::format("compare --instance {} --sizes 1GiB --algorithm nccl "
                             "--nccl-channels {}",
                             on, channels))["points"][0]["time_us"]
          .get<double>();
    };
    for (const int channels : {1, 2, 4})
      EXPECT_NEAR(time(channels) / time(2 * channels), 2, 0.1) << on << " " << channels;
  }
}

// One channel moves what one channel can, whatever the number of peers.
TEST(Compare, SharesForcedChannelsAmongPeers) {
  const auto busbw = [](int channels) {
    return json_of(
               fmt::format("compare --instance p5.48xlarge --nodes 1 --sizes 1GiB --algorithm "
                           "nccl --collective alltoall --nccl-channels {}",
                           channels))["points"][0]["busbw_GBps"]
        .get<double>();
  };
  EXPECT_LT(busbw(1), 40);
  EXPECT_NEAR(busbw(4) / busbw(1), 4, 0.1);
}

}  // namespace
}  // namespace foreduce
