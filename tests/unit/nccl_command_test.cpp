// What a log says of how its run was started, and of the cards and plugins that NCCL found.
#include <gtest/gtest.h>

#include "scenarios/validation/nccl_log.hpp"
#include "scenarios/validation/suspects.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/nccl_logs.hpp"

namespace foreduce {
namespace {

using namespace test;

TEST(ParseNcclLog, ReadsSettingsOfTheCommand) {
  const auto settings = [](const std::string& line) {
    std::string all;
    for (const auto& [name, value] : settings_of_command(line)) all += name + "=" + value + " ";
    return all;
  };
  EXPECT_EQ(
      settings("mpirun -np 16 -x NCCL_ALGO=Ring -x NCCL_IB_HCA=mlx5_0,mlx5_1 ./all_reduce_perf"),
      "NCCL_ALGO=Ring NCCL_IB_HCA=mlx5_0,mlx5_1 ");
  EXPECT_EQ(settings("  -x NCCL_P2P_DISABLE=1 \\"), "NCCL_P2P_DISABLE=1 ");
  EXPECT_EQ(settings("export NCCL_PROTO=Simple"), "NCCL_PROTO=Simple ");
  EXPECT_EQ(settings("NCCL_NVLS_ENABLE=0"), "NCCL_NVLS_ENABLE=0 ");
  // Advice is no command, a path or a setting of no effect on speed is not repeated.
  EXPECT_EQ(settings("did you try NCCL_ALGO=Ring instead?"), "");
  EXPECT_EQ(settings("mpirun -x NCCL_TUNER_PLUGIN=/secret/place -x NCCL_PASSWORD=1 -x NCCL_ALGO="),
            "");

  const std::string ring = "mpirun -x NCCL_ALGO=Ring ./build/all_reduce_perf -b 8\n",
                    tree = "mpirun -x NCCL_ALGO=Tree ./build/all_reduce_perf -b 8\n";
  const NcclLog two = parse_nccl_log("x.txt", ring + recent_log() + tree + recent_log());
  ASSERT_EQ(two.tables.size(), 2u);
  EXPECT_EQ(two.tables[0].facts.setting("NCCL_ALGO"), "Ring");
  EXPECT_EQ(two.tables[1].facts.setting("NCCL_ALGO"), "Tree");
  // A command is of one run, also of one that failed; what is exported is of all.
  const NcclLog failed =
      parse_nccl_log("x.txt", ring + "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor)\n" +
                                  "./build/all_reduce_perf -b 8\n" + recent_log());
  EXPECT_EQ(failed.tables.at(0).facts.setting("NCCL_ALGO"), "");
  const NcclLog all = parse_nccl_log(
      "x.txt", "export NCCL_PROTO=Simple\n" + ring + recent_log() + tree + recent_log());
  EXPECT_EQ(all.tables.at(0).facts.setting("NCCL_PROTO"), "Simple");
  EXPECT_EQ(all.tables.at(1).facts.setting("NCCL_PROTO"), "Simple");
  // What NCCL says that it has is so, whatever was asked for.
  const NcclLog one = parse_nccl_log(
      "x.txt", ring + "a:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Tree\n" + recent_log());
  EXPECT_EQ(one.tables.at(0).facts.setting("NCCL_ALGO"), "Tree");
}

// What was put out of use was named as the cause that the log says.
TEST(ParseNcclLog, TakesNoSettingOfCommentsAndProse) {
  for (const char* line :
       {"# export NCCL_P2P_DISABLE=1", "  #export NCCL_P2P_DISABLE=1",
        "  # - -x NCCL_P2P_DISABLE=1", "mpirun -np 16 ./all_reduce_perf # -x NCCL_P2P_DISABLE=1",
        "Try export NCCL_P2P_DISABLE=1 and see.", "You may also export NCCL_P2P_DISABLE=1"})
    EXPECT_TRUE(settings_of_command(line).empty()) << line;
  for (const char* line :
       {"root@host:/# export NCCL_P2P_DISABLE=1", "$ export NCCL_P2P_DISABLE=1",
        "cd /opt && export NCCL_P2P_DISABLE=1", "then export NCCL_P2P_DISABLE=1"})
    EXPECT_EQ(settings_of_command(line).count("NCCL_P2P_DISABLE"), 1u) << line;
  const NcclLog log =
      parse_nccl_log("x.txt", "export NCCL_P2P_DISABLE=1\nunset NCCL_P2P_DISABLE\n" + recent_log());
  EXPECT_EQ(log.tables.at(0).facts.setting("NCCL_P2P_DISABLE"), "");
  const NcclLog kept = parse_nccl_log(
      "x.txt", "export NCCL_P2P_DISABLE=1\n# unset NCCL_P2P_DISABLE when done\n" + recent_log());
  EXPECT_EQ(kept.tables.at(0).facts.setting("NCCL_P2P_DISABLE"), "1");
}

TEST(ParseNcclLog, CountsTheCardsThatASettingLists) {
  const auto listed = [](const char* value) {
    NcclFacts facts;
    facts.settings["NCCL_IB_HCA"] = value;
    return facts.cards_listed();
  };
  using Cards = NcclFacts::Cards;
  EXPECT_EQ(listed("mlx5_0"), (Cards{1, true}));
  EXPECT_EQ(listed("=mlx5_0:1,mlx5_10:1"), (Cards{2, true}));
  EXPECT_EQ(listed("=mlx5_1"), (Cards{1, true}));
  EXPECT_EQ(listed("mlx5_0,mlx5_1"), (Cards{2, false})) << "mlx5_10 to mlx5_19 begin so, too";
  EXPECT_EQ(listed("mlx5_10,mlx5_10"), (Cards{1, true}));
  EXPECT_EQ(listed("=mlx5_0:1,mlx5_0:2"), (Cards{2, true}));
  EXPECT_EQ(listed("^=mlx5_2"), std::nullopt);
  const std::string eight =
      "mpirun -x NCCL_IB_HCA=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11 ./x";
  EXPECT_EQ(listed(settings_of_command(eight).at("NCCL_IB_HCA").c_str()), (Cards{8, false}));
  EXPECT_EQ(listed("mlx5"), std::nullopt);     // all that begin so
  EXPECT_EQ(listed("^mlx5_2"), std::nullopt);  // all but this one
  EXPECT_EQ(NcclFacts{}.cards_listed(), std::nullopt);
}

TEST(ParseNcclLog, TakesCardsThatASettingNamesOrLeavesOutForThoseOfRdma) {
  const auto named = [](const char* value) {
    NcclFacts facts;
    facts.settings["NCCL_IB_HCA"] = value;
    return facts.names_rdma_cards();
  };
  for (const char* value : {"mlx5", "mlx5_", "=mlx5_0", "^mlx5_8", "^=mlx5_8,mlx5_9", "bnxt_re0"})
    EXPECT_TRUE(named(value)) << value;
  for (const char* value : {"", "^", "efa_0", "=rdmap16s27"}) EXPECT_FALSE(named(value)) << value;
}

TEST(ParseNcclLog, ReadsRatesOfCardsPluginsAndWarnings) {
  NcclFacts facts;
  for (const char* line : {"n:1:1 [0] NCCL INFO    + NET[50.0] - NET/0 (0/d4f9/1/50.000000)",
                           "n:1:1 [0] NCCL INFO    + NET[25.0] - NET/1 (0/d4f9/1/25.000000)",
                           "n:1:1 [0] NCCL WARN NET/IB : mlx5_3:1 Got async event : port error",
                           "n:1:1 [0] NCCL WARN NET/IB : mlx5_4:1 Got async event : port error",
                           "n:1:1 [0] NCCL WARN NUMA auto balancing enabled"})
    take_info(facts, line);
  ASSERT_EQ(facts.card_rates.size(), 2u);
  EXPECT_EQ(facts.card_rates.at(0).value, 50e9);
  EXPECT_EQ(facts.card_rates.at(1).value, 25e9);
  EXPECT_EQ(facts.warnings,
            (std::vector<std::string>{"NCCL WARN NET/IB : mlx5_3:1 Got async event : port error",
                                      "NCCL WARN NUMA auto balancing enabled"}));
  EXPECT_EQ(facts.network, NcclNetwork::infiniband);
  NcclFacts google;
  take_info(google, "n:1:1 [0] NCCL INFO Using network GPUDirectTCPX_v7");
  EXPECT_EQ(google.other_plugin, "GPUDirectTCPX_v7");
  EXPECT_EQ(google.network, NcclNetwork::unknown);
}

TEST(ParseNcclLog, TakesOnlyWhatSaysThatCardsDoNotReachGpus) {
  const auto gpudirect = [](std::initializer_list<const char*> lines) {
    NcclFacts facts;
    for (const char* line : lines) take_info(facts, line);
    return facts.gpudirect;
  };
  constexpr auto kReceives =
      "a:1:2 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [receive] via NET/IB/0/GDRDMA";
  EXPECT_EQ(gpudirect({"a:1:2 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 0 / HCA 3 (distance 7 "
                       "> 4)",
                       kReceives}),
            true);
  // NCCL says it first, and of one host.
  constexpr auto kDisabled =
      "a:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'";
  EXPECT_EQ(gpudirect({kDisabled, kReceives}), false);
  EXPECT_EQ(gpudirect({kReceives, kDisabled}), false);
  // Before Ampere the host reads a GPU that sends.
  constexpr auto kSends = "a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0";
  EXPECT_EQ(gpudirect({kSends, kReceives, kSends}), true);
  EXPECT_EQ(gpudirect({kSends}), false);
}

TEST(ParseNcclLog, CountsNoChannelsOfConnectionsAndNoMergedPorts) {
  NcclFacts facts;
  take_info(facts, "a:1:2 [0] NCCL INFO Channel 00/1 : 0[0] -> 8[0] [send] via NET/IB/5/GDRDMA");
  EXPECT_EQ(facts.channels, std::nullopt);
  EXPECT_EQ(facts.cards_in_use.at("a"), std::set<int>{5});
  take_info(facts,
            "a:1:2 [0] NCCL INFO NET/IB : Using [0]={[0] mlx5_2:1/RoCE, [1] mlx5_3:1/RoCE} "
            "[1]={[2] mlx5_4:1/RoCE, [3] mlx5_5:1/RoCE} [RO]; OOB eth0:10.0.0.1<0>");
  EXPECT_EQ(facts.nics, std::nullopt);
}

TEST(Suspects, NvlsIsForbiddenByListsThatLackIt) {
  const Machine machine = machine_named("p5.48xlarge");
  const foreduce::Setup no_nvls{cause::NoNvls{}, machine, Profiles().made_for("p5.48xlarge")};
  const auto told = [&](const char* algorithms) {
    NcclFacts facts;
    facts.settings["NCCL_ALGO"] = algorithms;
    return evidence_for(facts, no_nvls, machine).has_value();
  };
  EXPECT_TRUE(told("Ring,Tree"));
  EXPECT_TRUE(told("^NVLS,NVLSTree"));
  EXPECT_FALSE(told("Ring,Tree,NVLS,NVLSTree"));
  EXPECT_FALSE(told("^Ring"));
}

TEST(Suspects, CardsOfOtherGpusAreNotMissed) {
  const Machine eight = machine_named("hgx-h100-ib"), one = eight.with_gpus(1);
  const auto told = [&](const Machine& healthy, int cards) {
    NcclFacts facts;
    facts.nics = facts.most_nics = cards;
    const foreduce::Setup rails{cause::FewNics{}, healthy, Profiles().made_for("p5.48xlarge")};
    return evidence_for(facts, rails, healthy).has_value();
  };
  EXPECT_TRUE(told(eight, 4));
  EXPECT_FALSE(told(one, 1));
  NcclFacts all;
  for (const char* host : {"a", "b"})
    for (int card = 0; card < 8; ++card) all.cards_in_use[host].insert(card);
  const foreduce::Setup rails{cause::FewNics{}, eight, Profiles().made_for("p5.48xlarge")};
  EXPECT_TRUE(contradicted(all, rails, eight));
  all.cards_in_use["b"].erase(3);
  EXPECT_FALSE(contradicted(all, rails, eight));
}

// A table of times under the benchmark's own was read as busbw and algbw.
TEST(ParseNcclLog, TakesNoOtherTableForPyTorchsBenchmark) {
  const NcclLog log = parse_nccl_log(
      "x.txt",
      "The average bandwidth of all_reduce over 16 ranks (5 warmups / 20 trials):\n"
      "| payload |    busbw   |    algbw   |\n| ------: | ---------: | ---------: |\n"
      "|    1MiB |   1.50GBps |   0.80GBps |\n\n"
      "| payload | 1 node     | 4 nodes    | slowdown |\n| ------: | ---: | ---: | ---: |\n"
      "|    4MiB |   3.75GBps |   2.00GBps |     2x |\n");
  ASSERT_EQ(log.tables.size(), 1u);
  EXPECT_EQ(log.tables[0].rows.size(), 1u);
}

}  // namespace
}  // namespace foreduce
