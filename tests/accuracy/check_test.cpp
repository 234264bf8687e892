// Is this bandwidth normal: the published logs are, and what is broken on purpose is told apart.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>

#include "scenarios/validation/diagnosis.hpp"
#include "input/problem.hpp"

namespace foreduce {
namespace {

const std::filesystem::path kLogs = std::filesystem::path(FOREDUCE_SOURCE_FOLDER) / "tests" / "logs";

NcclLog p4d() { return load_nccl_log(kLogs / "dlami_p4d_2n.txt"); }
/// The p4d log with other times: `change` gets bytes, seconds and the floor.
NcclLog changed(const std::function<double(double bytes, double time, double floor)>& change) {
  NcclLog log = p4d();
  const double floor = log.tables[0].rows[0].timing().time.value;
  for (NcclRow& r : log.tables[0].rows) r.out_of_place->time = Seconds{change(r.bytes, r.out_of_place->time.value, floor)};
  return log;
}
CheckedTable checked(const NcclLog& log, const std::string& instance = "p4d.24xlarge", int nodes = 0) {
  return check(log, instance, nodes, 0).at(0);
}
std::string causes(const CheckedTable& t) {
  std::string all;
  for (const Cause& c : t.causes) all += c.what + (c.evidence.empty() ? "" : " [" + c.evidence + "]") + "; ";
  return all;
}

TEST(Check, PublishedRunsAreNormalInTwoSeconds) {
  for (const auto& [file, instance] : {std::pair{"dlami_p4d_2n", "p4d.24xlarge"},
                                       {"skypilot_p4d_2n", "p4d.24xlarge"},
                                       {"awsome_p4de_2n", "p4de.24xlarge"},
                                       {"awsome_p5_2n", "p5.48xlarge"},
                                       {"awsome_p5_1n_batch", "p5.48xlarge"},
                                       {"eksefa_p3dn_2n_1gpu", "p3dn.24xlarge"}}) {
    const auto begin = std::chrono::steady_clock::now();
    const CheckedTable t =
        checked(load_nccl_log(kLogs / (std::string(file) + ".txt")), instance, std::string(file).ends_with("1gpu") ? 2 : 0);
    EXPECT_TRUE(t.normal) << file;
    EXPECT_TRUE(t.causes.empty()) << causes(t);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10))
        << file;  // half a second alone; the machine may be busy
  }
}

// AWS's guide for NCCL 2.4 ran with NCCL_TREE_THRESHOLD=0, which its output does not say.
TEST(Check, AForcedRingIsToldByItsShape) {
  const CheckedTable t = checked(load_nccl_log(kLogs / "dlami_p3dn_2n.txt"), "p3dn.24xlarge");
  EXPECT_FALSE(t.normal);
  EXPECT_EQ(causes(t), "a ring where a tree is faster; ");
}

TEST(Check, WhatNoHardwareCouldDoIsNotNormal) {
  const CheckedTable t = checked(changed([](double, double time, double) { return time / 6; }));
  EXPECT_FALSE(t.normal);
  EXPECT_NE(fmt::format("{}", fmt::join(t.remarks, "; ")).find("faster than the links of 2 x p4d.24xlarge allow"),
            std::string::npos)
      << fmt::format("{}", fmt::join(t.remarks, "; "));
  EXPECT_TRUE(t.causes.empty());
}

TEST(Check, WhatLogAndOptionsDisagreeOnIsSaid) {
  NcclLog log = p4d();
  log.tables[0].gpu = "NVIDIA H100 80GB HBM3";
  EXPECT_NE(fmt::format("{}", fmt::join(checked(log).remarks, "; "))
                .find("the log's GPUs are NVIDIA H100 80GB HBM3, those of p4d.24xlarge are A100"),
            std::string::npos);
  EXPECT_NE(fmt::format("{}", fmt::join(checked(p4d(), "p4d.24xlarge", 4).remarks, "; "))
                .find("4 of the 8 GPUs of each p4d.24xlarge are in use"),
            std::string::npos);
}

TEST(Check, OneRailOfFourIsToldByItsShape) {
  const CheckedTable t = checked(changed([](double, double time, double floor) { return floor + 4 * (time - floor); }));
  EXPECT_FALSE(t.normal);
  EXPECT_NE(causes(t).find("1 of 4 rails carries everything"), std::string::npos) << causes(t);
  EXPECT_EQ(causes(t).find("a message between nodes"), std::string::npos) << causes(t);
}

// A real cluster with one EFA interface of four. Two channels would look alike, and are rarer.
TEST(Check, ARealRunWithOneInterfaceOfFourIsDiagnosed) {
  const CheckedTable t = checked(load_nccl_log(kLogs / "skypilot_p4d_2n_one_efa.txt"), "p4d.24xlarge", 2);
  EXPECT_FALSE(t.normal);
  EXPECT_EQ(causes(t).find("1 of 4 rails carries everything"), 0u) << causes(t);
  EXPECT_LE(t.causes.size(), 2u) << causes(t);
}

TEST(Check, TheLogSaysHowManyInterfaces) {
  NcclLog log = load_nccl_log(kLogs / "skypilot_p4d_2n_one_efa.txt");
  log.nics = 1;
  EXPECT_EQ(causes(checked(log, "p4d.24xlarge", 2))
                .find("1 of 4 rails carries everything [the log says so: the plugin found 1 of 4 NICs]"),
            0u)
      << causes(checked(log, "p4d.24xlarge", 2));
  log.nics = 4;
  log.channels = 2;
  EXPECT_EQ(causes(checked(log, "p4d.24xlarge", 2)).find("only two channels are used [the log says so: 2 channels]"), 0u)
      << causes(checked(log, "p4d.24xlarge", 2));
  EXPECT_EQ(causes(checked(log, "p4d.24xlarge", 2)).find("rail"), std::string::npos) << causes(checked(log, "p4d.24xlarge", 2));
}

TEST(Check, ASlowFloorIsNoRail) {
  const CheckedTable t = checked(changed([](double, double time, double floor) { return time + 5 * floor; }));
  EXPECT_FALSE(t.normal);
  EXPECT_EQ(causes(t).find("rail"), std::string::npos) << causes(t);
  EXPECT_EQ(causes(t).find("the latency floor is too high"), 0u) << causes(t);
}

TEST(Check, LargeSizesAloneCannotTellAFloor) {
  NcclLog log = changed([](double, double time, double) { return 2.5 * time; });
  log.tables[0].rows.erase(log.tables[0].rows.begin(), log.tables[0].rows.end() - 4);
  EXPECT_EQ(causes(checked(log)).find("latency floor"), std::string::npos) << causes(checked(log));
}

TEST(Check, WhatTheLogSaysOutweighsItsShape) {
  NcclLog log = changed([](double bytes, double time, double) { return 1.6 * time + 2 * bytes / 10e9; });
  log.network = NcclNetwork::sockets;
  EXPECT_EQ(causes(checked(log)).find("TCP over one interface instead of EFA [the log says so"), 0u) << causes(checked(log));
  log.network = NcclNetwork::efa;
  EXPECT_EQ(causes(checked(log)).find("TCP"), std::string::npos) << causes(checked(log));
}

TEST(Check, ABendThatNoCauseExplainsIsPlaced) {
  const CheckedTable t = checked(changed([](double bytes, double time, double) { return bytes > 100e6 ? 20 * time : time; }));
  EXPECT_FALSE(t.normal);
  EXPECT_TRUE(t.causes.empty()) << causes(t);
  EXPECT_NE(fmt::format("{}", fmt::join(t.remarks, "; ")).find("degrades from 128 MiB on"), std::string::npos)
      << fmt::format("{}", fmt::join(t.remarks, "; "));
}

TEST(Check, WrongElementsAreNeverNormal) {
  NcclLog log = p4d();
  log.tables[0].rows[3].out_of_place->wrong = 7;
  EXPECT_FALSE(checked(log).normal);
}

TEST(Check, BusbwAboveTheNicsIsExplained) {
  EXPECT_NE(fmt::format("{}", fmt::join(checked(p4d()).remarks, "; ")).find("on two nodes a tree sends each byte once"),
            std::string::npos);
}

TEST(Check, TheClusterComesFromTheLogWhereItCan) {
  NcclLog log = p4d();
  const auto refused = [&](const std::string& instance, int nodes) {
    try {
      check(log, instance, nodes, 0);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refused("", 0).find("the log does not name the GPU"), std::string::npos);
  EXPECT_NE(refused("p4d.24xlarge", 1).find("16 ranks do not fit on 1 x p4d.24xlarge"), std::string::npos)
      << refused("p4d.24xlarge", 1);
  log.tables[0].gpu = "NVIDIA A100-SXM4-40GB";
  log.tables[0].hosts = 2;
  EXPECT_EQ(check(log, "", 0, 0).at(0).instance, "p4d.24xlarge");
  log.tables[0].gpu = "NVIDIA H200";
  EXPECT_NE(refused("", 0).find("p5e.48xlarge, p5en.48xlarge"), std::string::npos) << refused("", 0);
  log.tables[0].gpu = "GeForce";
  EXPECT_NE(refused("", 0).find("no instance of the catalogue has 8 x GeForce"), std::string::npos);
  log.tables[0].collective = "all_gather";
  EXPECT_NE(refused("p4d.24xlarge", 2).find("there is no all-reduce in it"), std::string::npos);
}

}  // namespace
}  // namespace foreduce
