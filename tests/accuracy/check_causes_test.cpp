// Which cause of a slow log is named, and first: what is broken on purpose, and what the log says.
#include <gtest/gtest.h>

#include "scenarios/report/check_words.hpp"
#include "scenarios/validation/diagnosis.hpp"
#include "tests/support/checked.hpp"
#include "tests/support/checked_logs.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

// p5 has four NICs at each PCIe switch: half of them may be missing everywhere, or all of half of
// the switches, which is as slow.
TEST(Check, ReportsHalfOfTheNicsThatTheLogNames) {
  NcclLog log = slower("awsome_p5_2n", 2);
  log.tables[0].facts.nics = 16;
  const CheckedTable t = checked(log, "p5.48xlarge");
  EXPECT_SAYS(causes_of(t), "16 of 32 NICs");
  EXPECT_SAYS(causes_of(t), "[the log says so: the plugin found 16 of 32 NICs]");
  log.tables[0].facts.most_nics = 32;
  log.tables[0].facts.nics_host = "ip-10-0-0-2";
  EXPECT_SAYS(causes_of(checked(log, "p5.48xlarge")),
              "found 16 of 32 NICs on ip-10-0-0-2, 32 elsewhere]");
}

TEST(Check, FindsTcpWhateverItsRate) {
  for (const double rate : {6e9, 12e9, 20e9}) {
    NcclLog log = load_nccl_log(kLogs / "awsome_p5_2n.txt");
    for (NcclRow& r : log.tables[0].rows)
      r.out_of_place->time = r.out_of_place->time * 1.5 + Seconds{2.0 * 15 / 16 * r.bytes / rate};
    EXPECT_TRUE(causes_of(checked(log, "p5.48xlarge")).starts_with("TCP")) << rate;
  }
}

TEST(Check, QuotesSettingsOfASlowRun) {
  NcclLog log = slower("awsome_p5_1n_batch", 1.3);
  log.tables[0].facts.settings["NCCL_NVLS_ENABLE"] = "0";
  const CheckedTable t = checked(log, "p5.48xlarge");
  EXPECT_SAYS(remarks_of(t), "the log sets NCCL_NVLS_ENABLE=0");
  EXPECT_SAYS(
      causes_of(t),
      "NCCL does not use NVLS, the NVSwitches' own sums [the log says so: NCCL_NVLS_ENABLE=0]");
}

// NCCL would not run so on p4d, and a suspect that cannot be is none.
TEST(Check, SurvivesSettingsThatItCannotSimulate) {
  for (const auto& [name, value] : {std::pair("NCCL_PROTO", "LL"),
                                    {"NCCL_ALGO", "NVLS"},
                                    {"NCCL_ALGO", "^Ring"},
                                    {"NCCL_PROTO", "LL128"}}) {
    NcclLog log = slower("dlami_p4d_2n", 2);
    log.tables[0].facts.settings[name] = value;
    const CheckedTable t = checked(log);
    EXPECT_FALSE(t.normal);
    EXPECT_SAYS(remarks_of(t), std::string("the log sets ") + name + "=" + value);
  }
}

TEST(Check, SuspectsOneGpuANode) {
  const CheckedTable t = checked(load_nccl_log(kLogs / "eksefa_p3dn_2n_1gpu.txt"), "p3dn.24xlarge");
  EXPECT_SAYS(remarks_of(t), "check again with --nodes 2");
}

/// A log of H100 of which nothing else says on what machine it ran.
NcclLog of_unknown_h100(const std::string& name, double factor = 1, double from = 1 << 20) {
  NcclLog log = slower(name, factor, from);
  NcclFacts& facts = log.tables.at(0).facts;
  facts.network = NcclNetwork::unknown;
  facts.nics.reset();
  facts.most_nics.reset();
  facts.platform.clear();
  log.tables[0].gpu = "NVIDIA H100 80GB HBM3";
  log.tables[0].gpu_buses.clear();
  log.tables[0].hosts = 2;
  return log;
}

// Every p5 has its GPUs at the same PCI addresses.
TEST(Check, TakesH100AtOtherAddressesForAMachineOutsideOfEc2) {
  NcclLog log = of_unknown_h100("awsome_p5_2n"), slow = of_unknown_h100("awsome_p5_2n", 3);
  const auto judged_as = [&](std::vector<std::string> buses) {
    log.tables[0].gpu_buses = std::move(buses);
    return checked(log, "").instance;
  };
  EXPECT_EQ(judged_as({"53", "64", "75", "86", "97", "a8", "b9", "ca"}), "p5.48xlarge");
  EXPECT_EQ(judged_as({"4f", "60", "70", "80", "90", "a0", "b0", "c0"}), "p5.48xlarge");
  EXPECT_EQ(judged_as({"53", "64", "75", "86"}), "p5.48xlarge");  // of some GPUs nothing is told
  EXPECT_EQ(judged_as({"1b", "29", "45", "4e", "9b", "a9", "b1", "db"}), "hgx-h100-ib");
  slow.tables[0].gpu_buses = {"04", "05", "0b", "0c", "84", "85", "8b", "8c"};
  EXPECT_SAYS(error_of([&] { checked(slow, ""); }), "the PCI addresses of Google's A3");
}

// nccl-tests -g 8: the host starts eight GPUs, one after the other.
TEST(Check, AllowsOneProcessThatDrivesAllGpusMoreTimeForEachCall) {
  NcclLog log = of_unknown_h100("awsome_p5_2n");
  for (NcclRow& r : log.tables[0].rows)
    if (r.out_of_place) r.out_of_place->time += Seconds{25e-6};
  EXPECT_FALSE(checked(log, "p5.48xlarge").normal);
  log.tables[0].gpus_of_process = 8;
  const CheckedTable t = checked(log, "p5.48xlarge");
  EXPECT_TRUE(t.normal) << causes_of(t);
  EXPECT_SAYS(remarks_of(t), "one process drives 8 GPUs");
}

// NVLS does not sum bytes: 390 GB/s are what a ring has on two nodes, where float has 487.
TEST(Check, ExpectsNoNvlsOfTypesThatItDoesNotSum) {
  const auto judged = [](const char* type) {
    NcclLog log = of_unknown_h100("nebius_h100_ib_2n");
    log.tables[0].rows.resize(1);
    NcclRow& row = log.tables[0].rows[0];
    row.bytes = 8.0 * (1 << 30);
    row.type = type;
    row.redop = "sum";
    row.in_place.reset();
    row.out_of_place = NcclTiming{Seconds{row.bytes / 208e9}, 208, 390};
    return checked(log, "hgx-h100-ib");
  };
  EXPECT_TRUE(judged("int8").normal);
  EXPECT_SAYS(remarks_of(judged("int8")), "NVLS does not sum int8");
  EXPECT_FALSE(judged("half").normal);
}

TEST(Check, JudgesALogThatNamesNoMachineAsTheOneThatItsTimesFit) {
  const CheckedTable t = checked(of_unknown_h100("nebius_h100_ib_2n"), "");
  EXPECT_TRUE(t.normal) << causes_of(t);
  EXPECT_EQ(t.instance, "hgx-h100-ib");
  EXPECT_SAYS(remarks_of(t),
              "judged as hgx-h100-ib, for it is faster than p5.48xlarge with such GPUs can be");
  // A slow cluster is none of another kind.
  for (const double factor : {1.0, 1.5, 3.0}) {
    const CheckedTable p5 = checked(of_unknown_h100("awsome_p5_2n", factor), "");
    EXPECT_EQ(p5.instance, "p5.48xlarge");
    EXPECT_EQ(p5.normal, factor == 1.0);
  }
  // One that is fast where latency counts and slow where bandwidth does.
  const CheckedTable sick = checked(of_unknown_h100("nebius_h100_ib_2n", 2, 32 << 20), "");
  EXPECT_FALSE(sick.normal);
  EXPECT_EQ(sick.instance, "hgx-h100-ib");
}

TEST(Check, ChoosesAmongSeveralMachinesByTheTimes) {
  NcclLog log = of_unknown_h100("nebius_h100_ib_2n");
  log.tables[0].gpu = "NVIDIA H200";  // p5e, p5en and others have them
  const CheckedTable t = checked(log, "");
  EXPECT_TRUE(t.normal);
  EXPECT_EQ(t.instance, "hgx-h200-ib");
  EXPECT_SAYS(remarks_of(t), "judged as hgx-h200-ib, whose times fit best, of several");
  for (NcclRow& r : log.tables[0].rows) r.out_of_place->time = r.out_of_place->time * 8;
  EXPECT_THROW(checked(log, ""), InputError);  // normal for none: the asker has to say
}

TEST(Check, NamesCardsAtHalfTheirRateWhereNcclsGraphHasThem) {
  NcclLog log = slower("nebius_h100_ib_2n", 1.5, 64 << 20);
  auto& cards = log.tables.at(0).facts.card_rates;
  for (int n = 0; n < 8; ++n) cards[n] = BytesPerSecond{n == 3 ? 25e9 : 50e9};
  EXPECT_TRUE(causes_of(checked(log, "hgx-h100-ib"))
                  .starts_with("network cards run at 200 Gbps of 400 Gbps [the log says so: NCCL's "
                               "graph has cards of 200 Gbps]"))
      << causes_of(checked(log, "hgx-h100-ib"));
  cards[8] = cards[3];  // the storage's
  cards[3] = BytesPerSecond{50e9};
  EXPECT_EQ(causes_of(checked(log, "hgx-h100-ib")).find("network cards run"), std::string::npos);
}

// A ring at the rate of all cards was said to have lost a card, or half of a link.
TEST(Check, NamesNoLinkWhereAllNicsAreBusy) {
  NcclLog log = load_nccl_log(kLogs / "dlami_p4d_2n.txt");
  for (NcclRow& r : log.tables.at(0).rows) {
    const double least = 2.0 * 15 / 16 * r.bytes / 50e9;
    NcclTiming& t = *r.out_of_place;
    t.time = std::max(t.time, Seconds{least});
    t.algbw = r.bytes / t.time.value / 1e9;
    t.busbw = 2.0 * 15 / 16 * t.algbw;
  }
  const CheckedTable t = checked(log, "p4d.24xlarge");
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS_NOT(causes_of(t), "rails");
  EXPECT_SAYS_NOT(causes_of(t), "PCIe link");
  EXPECT_SAYS(remarks_of(t), "is what all NICs carry together, 50.0 GB/s");
}

TEST(Check, QuotesTheListOfCardsThatLeavesNcclFew) {
  NcclLog log = slower("nebius_h100_ib_2n", 8);
  log.tables.at(0).facts.settings["NCCL_IB_HCA"] = "mlx5_0";
  EXPECT_SAYS(causes_of(checked(log, "hgx-h100-ib")), "1 of 8 rails carries everything");
  EXPECT_SAYS(causes_of(checked(log, "hgx-h100-ib")), "[the log says so: NCCL_IB_HCA=mlx5_0]");
}

// Only LOC leaves no card near enough; SYS, PHB and PIX allow what they name and all that is
// nearer.
TEST(Check, TakesOnlyTheNearestLevelForGpudirectThatIsOff) {
  for (const auto& [level, off] : {std::pair("SYS", false), {"PHB", false}, {"LOC", true}}) {
    NcclLog log = slower("nebius_h100_ib_2n", 3);
    log.tables.at(0).facts.settings["NCCL_NET_GDR_LEVEL"] = level;
    log.tables[0].facts.gpudirect.reset();
    const std::string said = causes_of(checked(log, "hgx-h100-ib")) + " " + level;
    EXPECT_EQ(said.find("[the log says so: NCCL_NET_GDR_LEVEL") != std::string::npos, off) << said;
  }
}

// As many cards as the machine has are no rail that is missing, and EFA has no use for the list.
TEST(Check, BlamesNoListOfAllCards) {
  const std::string all =
      "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1,mlx5_11:1";
  NcclLog log = slower("nebius_h100_ib_2n", 3);
  log.tables.at(0).facts.settings["NCCL_IB_HCA"] = all;
  EXPECT_SAYS_NOT(causes_of(checked(log, "hgx-h100-ib")), "NCCL_IB_HCA");
  log.tables[0].facts.network = NcclNetwork::unknown;
  EXPECT_SAYS_NOT(causes_of(checked(log, "p5.48xlarge")), "NCCL_IB_HCA");
  EXPECT_EQ(checked(log, "").instance, "hgx-h100-ib");  // which p5 is not
  log.tables[0].facts.platform = "p5.48xlarge";  // whose scripts may have the list all the same
  EXPECT_EQ(checked(log, "").instance, "p5.48xlarge");
}

// By one factor at large sizes alone anything is explained.
TEST(Check, BlamesNoChoiceWhereAllSizesAreLarge) {
  NcclLog log = slower("awsome_p5_2n", 2);
  std::erase_if(log.tables.at(0).rows, [](const NcclRow& r) { return r.bytes < 64 << 20; });
  const CheckedTable t = checked(log, "p5.48xlarge");
  EXPECT_FALSE(t.normal);
  for (const char* choice : {"NCCL_PROTO", "travels by", "a tree where", "a ring where"})
    EXPECT_SAYS_NOT(causes_of(t), choice);
}

// 189 Gb/s each way are not TCP over one interface.
TEST(Check, BlamesNoTcpForWhatSocketsCannotMove) {
  NcclLog log = load_nccl_log(kLogs / "nebius_h100_ib_2n.txt");
  for (NcclRow& r : log.tables.at(0).rows)
    r.out_of_place->time = r.out_of_place->time + Seconds{r.bytes / 23.6e9};
  log.tables[0].facts.network = NcclNetwork::unknown;
  EXPECT_SAYS_NOT(causes_of(checked(log, "hgx-h100-ib")), "TCP");
}

TEST(Check, NamesTcpBesideAListOfCards) {
  NcclLog log = load_nccl_log(kLogs / "nebius_h100_ib_2n.txt");
  for (NcclRow& r : log.tables.at(0).rows)
    r.out_of_place->time = r.out_of_place->time + Seconds{2.0 * 15 / 16 * r.bytes / 1.2e9};
  log.tables[0].facts.network = NcclNetwork::unknown;
  log.tables[0].facts.settings["NCCL_IB_HCA"] = "mlx5_0";
  const CheckedTable t = checked(log, "hgx-h100-ib");
  EXPECT_SAYS(causes_of(t), "TCP over one interface");
  // One card would be a factor faster than that, so the list is remarked on and no cause.
  EXPECT_SAYS_NOT(causes_of(t), "NCCL_IB_HCA");
  EXPECT_SAYS(remarks_of(t), "NCCL_IB_HCA=mlx5_0");
}

TEST(Check, CannotTellWhatAnUnknownPluginShouldReach) {
  NcclLog log = slower("nebius_h100_ib_2n", 2);
  log.tables.at(0).facts.network = NcclNetwork::unknown;
  log.tables[0].facts.other_plugin = "GPUDirectTCPX_v7";
  const CheckedTable t = checked(log, "hgx-h100-ib");
  EXPECT_TRUE(t.unsure);
  EXPECT_TRUE(t.causes.empty());
  EXPECT_SAYS(remarks_of(t), "NCCL used the plugin GPUDirectTCPX_v7");
  for (const char* gpu : {"NVIDIA H100 80GB HBM3", "NVIDIA H200"}) {
    log.tables[0].gpu = gpu;
    EXPECT_THROW(checked(log, ""), InputError);
  }
}

TEST(Check, RepeatsNcclsWarnings) {
  NcclLog log = load_nccl_log(kLogs / "nebius_h100_ib_2n.txt");
  log.tables.at(0).facts.warnings = {"NCCL WARN NET/IB : mlx5_3:1 Got async event : port error"};
  const CheckedTable t = checked(log, "hgx-h100-ib");
  EXPECT_TRUE(t.normal);
  EXPECT_SAYS(remarks_of(t), "a warning: NCCL WARN NET/IB : mlx5_3:1 Got async event : port error");
}

// Other sites forced the ring, too, and take as long: that is no reason to call its cost normal.
TEST(Check, JudgesAForcedRingByNcclsChoice) {
  NcclLog log = load_nccl_log(kLogs / "dlami_p3dn_2n.txt");
  log.tables.at(0).facts.settings["NCCL_ALGO"] = "Ring";
  const CheckedTable t = checked(log, "p3dn.24xlarge");
  EXPECT_FALSE(t.normal);
  EXPECT_TRUE(causes_of(t).starts_with("a ring where a tree is faster [the log says so"))
      << causes_of(t);
}

// Another instance type missed 28 % and led a ring that missed 21.
TEST(Check, RanksAnotherInstanceTypeThatFitsPoorlyByItsFit) {
  const std::string causes = causes_of(checked(slower("dlami_p3dn_2n", 1.5), "p3dn.24xlarge"));
  EXPECT_TRUE(causes.starts_with("a ring where a tree is faster")) << causes;
}

TEST(Check, NeverBlamesRingAndTreeTogether) {
  for (const char* forced : {"Ring", "Tree"}) {
    NcclLog slow = slower("dlami_p4d_2n", 2);
    slow.tables.at(0).facts.settings["NCCL_ALGO"] = forced;
    const std::string causes = causes_of(checked(slow));
    EXPECT_FALSE(causes.find("a ring where") != std::string::npos &&
                 causes.find("a tree where") != std::string::npos)
        << causes;
  }
}

// AWS's guide for NCCL 2.4 ran with NCCL_TREE_THRESHOLD=0, which its output does not say.
TEST(Check, DiagnosesForcedRingFromCurve) {
  const CheckedTable t = checked(load_nccl_log(kLogs / "dlami_p3dn_2n.txt"), "p3dn.24xlarge");
  EXPECT_FALSE(t.normal);
  EXPECT_EQ(causes_of(t), "a ring where a tree is faster; ");
}

TEST(Check, CallsTimesBeyondWhatLinksAllowNotNormal) {
  const CheckedTable t = checked(changed([](double, double time, double) { return time / 6; }));
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS(remarks_of(t), "faster than the links of 2 x p4d.24xlarge allow");
  EXPECT_TRUE(t.causes.empty());
}

TEST(Check, SaysWhereLogAndOptionsDisagree) {
  NcclLog log = p4d_log();
  log.tables[0].gpu = "NVIDIA H100 80GB HBM3";
  EXPECT_SAYS(remarks_of(checked(log)),
              "the log's GPUs are NVIDIA H100 80GB HBM3, those of p4d.24xlarge are A100");
  EXPECT_SAYS(remarks_of(checked(p4d_log(), "p4d.24xlarge", 4)),
              "4 of the 8 GPUs of each p4d.24xlarge are in use");
}

TEST(Check, DiagnosesOneRailOfFourFromCurve) {
  const CheckedTable t = checked(
      changed([](double, double time, double floor) { return floor + 4 * (time - floor); }));
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS(causes_of(t), "1 of 4 rails carries everything");
  EXPECT_SAYS_NOT(causes_of(t), "a message between nodes");
}

// A real cluster with one EFA interface of four. Two channels would look alike, and are rarer.
TEST(Check, DiagnosesRealRunWithOneInterfaceOfFour) {
  const CheckedTable t = checked(one_efa_log(), "p4d.24xlarge", 2);
  EXPECT_FALSE(t.normal);
  EXPECT_TRUE(causes_of(t).starts_with("1 of 4 rails carries everything")) << causes_of(t);
  EXPECT_LE(t.causes.size(), 2u) << causes_of(t);
}

TEST(Check, RanksTheNicsThatTheLogNamesFirst) {
  NcclLog log = one_efa_log();
  log.tables.at(0).facts.nics = 1;
  const std::string causes = causes_of(checked(log, "p4d.24xlarge", 2));
  EXPECT_TRUE(
      causes.starts_with("1 of 4 rails carries everything "
                         "[the log says so: the plugin found 1 of 4 NICs]"))
      << causes;
}

TEST(Check, RanksTheChannelsThatTheLogNamesFirst) {
  NcclLog log = one_efa_log();
  log.tables.at(0).facts.nics = 4;
  log.tables.at(0).facts.channels = 2;
  const std::string causes = causes_of(checked(log, "p4d.24xlarge", 2));
  EXPECT_TRUE(causes.starts_with("only two channels are used [the log says so: 2 channels]"))
      << causes;
  EXPECT_SAYS_NOT(causes, "rail");
}

TEST(Check, TellsSlowFloorFromLostRail) {
  const CheckedTable t =
      checked(changed([](double, double time, double floor) { return time + 5 * floor; }));
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS_NOT(causes_of(t), "rail");
  EXPECT_TRUE(causes_of(t).starts_with("the latency floor is too high")) << causes_of(t);
}

// The band of 8 B is wide, and most other small sizes are slow: one row alone told the floor
// before.
TEST(CheckCauses, FloorNeedsMostSmallSizesAndNotTheSmallest) {
  NcclLog log = changed([](double bytes, double time, double floor) {
    return bytes <= 8 ? time : time + 0.6 * floor;
  });
  const CheckedTable t = checked(log);
  EXPECT_TRUE(causes_of(t).starts_with("the latency floor is too high")) << causes_of(t);
}

TEST(Check, FindsNoFloorInLargeSizesAlone) {
  NcclLog log = changed([](double, double time, double) { return 2.5 * time; });
  log.tables[0].rows.erase(log.tables[0].rows.begin(), log.tables[0].rows.end() - 4);
  EXPECT_SAYS_NOT(causes_of(checked(log)), "latency floor");
}

TEST(Check, RanksTcpFirstOnlyIfTheLogShowsSockets) {
  NcclLog log =
      changed([](double bytes, double time, double) { return 1.6 * time + 2 * bytes / 10e9; });
  log.tables.at(0).facts.network = NcclNetwork::sockets;
  const std::string causes = causes_of(checked(log));
  EXPECT_TRUE(causes.starts_with("TCP over one interface instead of EFA [the log says so"))
      << causes;
  log.tables.at(0).facts.network = NcclNetwork::efa;
  EXPECT_SAYS_NOT(causes_of(checked(log)), "TCP");
}

TEST(Check, PlacesBendThatNoCauseExplains) {
  const CheckedTable t = checked(
      changed([](double bytes, double time, double) { return bytes > 100e6 ? 20 * time : time; }));
  EXPECT_FALSE(t.normal);
  EXPECT_EQ(causes_of(t), "");
  EXPECT_SAYS(remarks_of(t), "slower than normal at 128 MiB and beyond");
}

/// Every time of a log so many times as long, its bandwidths too.
NcclLog throughout(const std::string& file, double factor) {
  NcclLog log = slower(file, factor, 0);
  for (NcclRow& r : log.tables.at(0).rows) {
    r.out_of_place->algbw /= factor;
    r.out_of_place->busbw /= factor;
  }
  return log;
}

// A ring sends over the NICs whatever busbw counts; a tree on two nodes sends each byte once.
TEST(CheckCauses, ARingIsNoneOfWhatIsFasterThanTheNics) {
  const CheckedTable faster = checked(throughout("dlami_p4d_2n", 1.5));
  EXPECT_FALSE(faster.normal);
  EXPECT_SAYS(remarks_of(faster), "is above the NICs' 50.0 GB/s, which a tree can reach");
  EXPECT_SAYS_NOT(causes_of(faster), "a ring where");
  // Most sizes are faster than any such cluster is.
  EXPECT_SAYS_NOT(remarks_of(checked(throughout("dlami_p4d_2n", 0.6))), "above the NICs'");
  EXPECT_SAYS(causes_of(checked(throughout("dlami_p4d_2n", 1.6))), "a ring where a tree is faster");
}

TEST(CheckCauses, ASettingThatCannotHaveHeldIsSaidAndIsNoCause) {
  NcclLog log = load_nccl_log(kLogs / "awsome_p5_2n.txt");
  log.tables.at(0).facts.settings["NCCL_ALGO"] = "Ring";
  const std::string did_not_hold =
      "the log says so: NCCL_ALGO=Ring, but this run is faster than its NICs, which a ring cannot "
      "be: the setting did not hold";
  const CheckedTable normal = checked(log, "p5.48xlarge");
  EXPECT_TRUE(normal.normal);
  EXPECT_SAYS(remarks_of(normal), did_not_hold);
  NcclLog slow = throughout("dlami_p4d_2n", 1.5);
  slow.tables.at(0).facts.settings["NCCL_ALGO"] = "Ring";
  const CheckedTable t = checked(slow);
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS(remarks_of(t), did_not_hold);
  EXPECT_SAYS_NOT(causes_of(t), "a ring where");
}

}  // namespace
}  // namespace foreduce
