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
  EXPECT_FALSE(widened(" --nccl-buffsize 4MiB"));  // as sources of the fit had it
  EXPECT_TRUE(widened(" --nccl-proto LL"));
  EXPECT_TRUE(widened(" --nccl-version 2.16"));  // nobody compared it on H100
  EXPECT_FALSE(widened(" --nccl-version 2.20"));
}

// The default has NCCL among all algorithms, and its settings were refused.
TEST(Compare, SetsNcclAmongAllAlgorithms) {
  const std::string p5 = "compare --instance p5.48xlarge --nodes 2 --sizes 1MiB ";
  const auto points = json_of(p5 + "--nccl-proto Simple")["points"];
  EXPECT_GT(points.size(), 3u);
  EXPECT_EQ(points[0]["algorithm"], "nccl Simple");
  // What is for our algorithms acts on all of them, too.
  for (const auto& p : json_of(p5 + "--protocol LL")["points"])
    if (p["algorithm"] != "nccl") {
      EXPECT_SAYS(p["algorithm"].get<std::string>(), " LL");
    }
  EXPECT_SAYS(foreduce_says(p5 + "--nccl-version 2.99").out, "NCCL 2.99 is not known");
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
  const Result wrong = foreduce_says(p5 + "--nccl-version 2.3");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_SAYS(wrong.out, "accepted: 2.4, 2.5, 2.6, ");
}

// NCCL goes from LL to LL128 between these sizes, later than it might: its own cost model says so.
TEST(Compare, SaysWhereTheLibrarysChoiceMakesLargerSizesFaster) {
  const std::string p5en = "compare --instance p5en.48xlarge --nodes 4 --algorithm nccl --sizes ";
  EXPECT_SAYS(foreduce_says(p5en + "128KiB:512KiB:x2 --wide").out,
              "Larger sizes take less time where the library changes its choice: on 4 x "
              "p5en.48xlarge 128 KiB");
  EXPECT_SAYS_NOT(foreduce_says(p5en + "1MiB:4MiB:x2").out, "Larger sizes");
}

// Below 64 KiB one channel has it all. Nothing told so.
TEST(Compare, SaysWhereMoreChannelsMakeLargerSizesFaster) {
  const Result r = foreduce_says(
      "compare --instance p4d.24xlarge --nodes 1 --algorithm nccl --sizes 63KiB,64KiB");
  EXPECT_SAYS(r.out, "(ring LL, 1 channel), then 64 KiB");
  EXPECT_SAYS(r.out, "(ring LL, 2 channels)");
}

// A reader who sees a time fall must know whether NCCL does that or the model.
TEST(Compare, CallsAFallTheModelsWhereNothingChanges) {
  EXPECT_SAYS(foreduce_says("compare --instance p4d.24xlarge --nodes 8 --algorithm nccl --sizes "
                            "12MiB,14MiB")
                  .out,
              "the library changes nothing, which is an inaccuracy of the model");
}

// 8.01 MiB took 41 % less than 8 MiB, because both had equal parts.
TEST(Compare, NcclsLastLoopTakesWhatIsLeft) {
  const nlohmann::json points = json_of(
      "compare --instance p4d.24xlarge --nodes 2 --algorithm nccl --sizes "
      "8MiB,8450000B,16MiB,16850000B")["points"];
  const auto time = [&](std::size_t i) { return points.at(i).at("time_us").get<double>(); };
  EXPECT_NEAR(time(1) / time(0), 1, 0.01);
  EXPECT_NEAR(time(3) / time(2), 1, 0.01);
  EXPECT_EQ(points[0]["segments"], 1);
  EXPECT_EQ(points[1]["segments"], 2);
}

TEST(Compare, SaysHowAnAnswerWasFound) {
  const nlohmann::json long_one = json_of(
      "compare --instance p3dn.24xlarge --nodes 12 --algorithm nccl --nccl-algo Tree --sizes 2GiB");
  const nlohmann::json& p = long_one["points"][0];
  EXPECT_EQ(p["mode"], "extrapolated");
  EXPECT_NEAR(p["extrapolation_error"].get<double>(), 0.03, 0.02);
  const Result said = foreduce_says(
      "compare --instance p3dn.24xlarge --nodes 12 --algorithm nccl --nccl-algo Tree --sizes 2GiB "
      "--explain");
  EXPECT_SAYS(said.out, "is in the interval. --full-pipelines simulates all.");
  EXPECT_SAYS(said.out, "NCCL's algorithm and protocol are chosen by ");
  EXPECT_SAYS_NOT(foreduce_says("compare --instance p4d.24xlarge --nodes 2 --sizes 1MiB").out,
                  "--full-pipelines");
}

// Nobody said that the best of all was without NCCL.
TEST(Compare, BestSaysWhereNcclIsLeftOut) {
  const std::string best =
      "compare --instance p4d.24xlarge --nodes 2 --algorithm best --sizes 1MiB";
  EXPECT_SAYS(foreduce_says(best + " --profile ideal").out, "NCCL is left out");
  EXPECT_SAYS_NOT(foreduce_says(best).out, "NCCL is left out");
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
  EXPECT_SAYS(foreduce_says(p5 + "32,64").out, "(double-tree LL128, in 59 segments), then on 64 ");
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

// One T4 a node over EFA goes from LL to Simple there, and 2 MiB took less than 1 MiB (aws-do-eks).
// Of a rise nothing was said, and of a fall nothing in JSON.
TEST(CompareNccl, SaysWhereTheChoiceMakesTimeFallOrBandwidth) {
  const std::string t4 =
      "compare --instance g4dn.8xlarge-efa --nodes 2 --algorithm nccl "
      "--nccl-version 2.19 --sizes 512KiB,1MiB,2MiB";
  const auto points = json_of(t4)["points"];
  EXPECT_TRUE(points[0]["faster_at_bytes"].is_null());
  EXPECT_EQ(points[1]["faster_at_bytes"], 2 << 20);
  EXPECT_TRUE(points[1]["faster_on_nodes"].is_null());
  EXPECT_SAYS(foreduce_says(t4).out, "Larger sizes take less time where the library changes its");
  const std::string g5 = "compare --instance g5.48xlarge --nodes 16 --algorithm nccl --sizes ";
  EXPECT_SAYS(foreduce_says(g5 + "512KiB,1MiB").out,
              "Bandwidth falls to a half or less where the library changes its choice: on 16 x");
  EXPECT_EQ(foreduce_says(g5 + "1MiB,2MiB").out.find("Bandwidth falls"), std::string::npos);
}

}  // namespace
}  // namespace foreduce
