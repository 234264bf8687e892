// What a log says of how its run was started, and of the cards and plugins that NCCL found.
#include <gtest/gtest.h>

#include "scenarios/validation/nccl_log.hpp"
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

}  // namespace
}  // namespace foreduce
