// What `compare` answers, seen from outside.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

TEST(Compare, AgreesWithTheClosedFormOnASwitch) {
  const TemporaryFolder folder;
  const auto file = folder.write("flat.yaml", R"(
name: flat
cluster:
  switch: { ranks: 8, bandwidth: 12.5 GB/s, latency: 5 us, reduce_bandwidth: 1000 TB/s }
allreduce: { algorithm: ring }
messages: { sizes: 64 MiB }
)");
  const auto point = json_of("compare " + file.string())["points"][0];
  EXPECT_NEAR(point["time_us"].get<double>(), 14 * (5 + 8 * 1048576.0 / 12.5e3), 0.02);
  EXPECT_TRUE(point["time_low_us"].is_null());  // nobody can measure the textbook's switch
}

// By its name it was taken for the textbook's switch.
TEST(Compare, MachineFileOfAnyNameHasIntervals) {
  const TemporaryFolder folder;
  const auto file = folder.write("switch.yaml", "like: p4d.24xlarge\n");
  const auto point = json_of("compare --instance " + file.string() +
                             " --nodes 2 --algorithm nccl --sizes 1MiB")["points"][0];
  EXPECT_TRUE(point["time_low_us"].is_number());
}

TEST(Compare, CountsAnAlgorithmThatIsNamedTwiceOnce) {
  const auto points = json_of(
      "compare --instance p3dn.24xlarge --nodes 2 --algorithm ring,nccl,ring --sizes 8B")["points"];
  EXPECT_EQ(points.size(), 2u);
}

// A GPU that nobody measured was an error.
TEST(Compare, TakesTheNearestGpusProfileForAnUnknownOne) {
  const TemporaryFolder folder;
  const std::string nvlink = R"(
nvlink: { kind: switch, links: 18, bandwidth: 55 GB/s, latency: 1 us, multicast: true }
nic: { count: 8, bandwidth: 800 Gbps, latency: 5 us, fabric: infiniband }
)";
  const std::string gpu = "gpu: { model: R100, count: 8, reduce_bandwidth: 2 TB/s";
  const std::string asked = " --nodes 2 --algorithm nccl --sizes 1GiB";
  const auto known = folder.write(
      "known.yaml", "instance: ours\n" + gpu + ", memory_bandwidth: 8 TB/s }\n" + nvlink);
  const auto point = json_of("compare --instance " + known.string() + asked)["points"][0];
  EXPECT_EQ(point["profile"], "nccl-b200+rdma");
  EXPECT_SAYS(point["interval_widened_because"].get<std::string>(),
              "no measurements of R100: as B200, B300");
  EXPECT_GT(point["share_of_bound"].get<double>(), 0.3);  // it was of the latency alone
  EXPECT_LE(point["share_of_bound"].get<double>(), 1);
  const auto unknown = folder.write("unknown.yaml", "instance: ours\n" + gpu + " }\n" + nvlink);
  const Result r = foreduce_says("compare --instance " + unknown.string() + asked);
  EXPECT_EQ(r.status, 2) << r.out;
  EXPECT_SAYS(r.out, "with gpu.memory_bandwidth in the machine's file");
}

const std::string kTwoP4d =
    "compare --instance p4d.24xlarge --nodes 2 --sizes 64KiB,64MiB --algorithm ";

TEST(Compare, BestIsTheFastestOfAll) {
  const auto points = json_of(
      kTwoP4d + "ring,hierarchical,recursive-doubling,reduction-server,nccl,best")["points"];
  ASSERT_EQ(points.size(), 12u);
  std::map<std::size_t, double> least, best;
  for (const auto& p : points) {
    const auto bytes = p["bytes"].get<std::size_t>();
    const double t = p["time_us"];
    if (p["algorithm"] == "best") best[bytes] = t;
    else least[bytes] = least.contains(bytes) ? std::min(least[bytes], t) : t;
  }
  ASSERT_EQ(best.size(), 2u);
  for (const auto& [bytes, t] : best) EXPECT_LE(t, least[bytes]) << bytes;
}

// Compared were NCCL's own choices alone.
TEST(Compare, IntervalsAreWidenedForAllButNcclsChoice) {
  const nlohmann::json points = json_of(kTwoP4d + "ring,recursive-doubling,nccl,best")["points"];
  for (const auto& p : points) {
    EXPECT_LT(p["time_low_us"].get<double>(), p["time_us"].get<double>());
    EXPECT_GT(p["time_high_us"].get<double>(), p["time_us"].get<double>());
    EXPECT_EQ(p["profile"], "nccl-a100");
    const bool by_nccl = p["chosen"].get<std::string>().starts_with("double-tree Simple");
    EXPECT_EQ(p["interval_widened"].get<bool>(), !by_nccl) << p;
  }
}

TEST(Compare, ShowsTheGainOverNcclWhereItIsThere) {
  EXPECT_SAYS(foreduce_says(kTwoP4d + "ring,nccl").out, "vs nccl");
  EXPECT_SAYS_NOT(foreduce_says(kTwoP4d + "ring").out, "vs nccl");
}

TEST(Compare, AnswersDoNotHangOnTheirNeighbours) {
  const std::string question =
      "compare --instance p4d.24xlarge --nodes 2 --sizes 16KiB --algorithm ";
  const auto alone = json_of(question + "nccl")["points"][0];
  const auto beside = json_of(question + "ring,double-tree,nccl")["points"];
  EXPECT_EQ(alone["time_us"], beside[2]["time_us"]);
  EXPECT_EQ(alone["chosen"], beside[2]["chosen"]);
  // The same tree, cut and sent otherwise.
  EXPECT_NE(beside[1]["time_us"], beside[2]["time_us"]);
}

TEST(Compare, IntervalsAreWidenedBehindLeaves) {
  const TemporaryFolder folder;
  const auto file = folder.write("leaves.yaml", R"(
name: x
cluster:
  instance: p4d.24xlarge
  nodes: 2
  fabric: { nodes_per_leaf: 1, oversubscription: [1, 8] }
allreduce: { algorithm: nccl }
messages: { sizes: 64 MiB }
)");
  const auto points = json_of("compare " + file.string())["points"];
  ASSERT_EQ(points.size(), 2u);
  for (const auto& p : points)
    EXPECT_EQ(p["interval_widened_because"], "measured on one switch that never blocks");
}

TEST(Compare, SaysDataSheetOnlyWithoutAProfile) {
  const auto p = json_of(
      "compare --instance p4d.24xlarge --profile ideal --nodes 2 --algorithm ring --sizes 1MiB")
      ["points"][0];
  EXPECT_EQ(p["interval_widened"], true);
  EXPECT_SAYS(p["interval_widened_because"].get<std::string>(), "rates of their data sheets");
}

TEST(Compare, OwnAlgorithmsAreComparedByOwnTransportOnly) {
  const auto reason = [](const char* profile) {
    const auto report = json_of(
        std::string("compare --instance p3dn.24xlarge --nodes 8 --algorithm ring --sizes 1MiB "
                    "--profile ") +
        profile);
    return report["points"][0]["interval_widened_because"].get<std::string>();
  };
  EXPECT_SAYS(reason("nccl-v100"), "only NCCL's algorithms were measured, not this one");
  EXPECT_SAYS_NOT(reason("foreduce-tcp"), "own algorithms only");
  EXPECT_SAYS(reason("foreduce-tcp"), "no measurements of p3dn.24xlarge");
}

// Nobody asked for what the hardware cannot do: that is no error.
TEST(Compare, DefaultTakesWhatCanRunAndNamesTheOthers) {
  const Result r = foreduce_says("compare --instance p4d.24xlarge --nodes 2 --sizes 1MiB");
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "\nNot tried here: forest, nvls, nvls-tree (--explain says why).\n");
  EXPECT_SAYS(r.out, " nccl: ");
  EXPECT_SAYS(r.out, " hierarchical ");
  EXPECT_SAYS_NOT(r.out, "error");
  const Result asked =
      foreduce_says("compare --instance p4d.24xlarge --nodes 2 --sizes 1MiB --algorithm nvls,ring");
  EXPECT_EQ(asked.status, 1);
  EXPECT_SAYS(asked.out, "error: ");
}

// auto is one of the three, and near the fastest of them.
TEST(Compare, OwnAlgorithmsTakeTheProtocolThatIsAskedFor) {
  const std::string ask =
      "compare --instance p5.48xlarge --nodes 4 --algorithm ring --sizes 1KiB,1MiB,1GiB "
      "--protocol ";
  std::map<std::string, std::vector<double>> times;
  for (const std::string protocol : {"auto", "LL", "LL128", "Simple"}) {
    const nlohmann::json points = json_of(ask + protocol)["points"];
    for (const auto& p : points) {
      EXPECT_EQ(p["algorithm"], protocol == "auto" ? "ring" : "ring " + protocol);
      times[protocol].push_back(p["time_us"]);
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const auto all = {times["LL"][i], times["LL128"][i], times["Simple"][i]};
    EXPECT_NE(std::find(all.begin(), all.end(), times["auto"][i]), all.end()) << i;
    EXPECT_LE(times["auto"][i], 1.3 * std::min(all)) << i;
  }
  EXPECT_LT(times["LL"][0], times["Simple"][0]);
  EXPECT_GT(times["LL"][2], 1.5 * times["Simple"][2]);
  const Result ideal = foreduce_says(ask + "LL --profile ideal");
  EXPECT_SAYS(ideal.out, "profile ideal has no protocol LL");
  const Result nccl = foreduce_says(
      "compare --instance p5.48xlarge --nodes 2 --algorithm nccl --sizes 1MiB --protocol LL");
  EXPECT_EQ(nccl.status, 2);
  EXPECT_SAYS(nccl.out, "--nccl-proto forces NCCL");
}

// One GPU a node is NCCL's ring over one PCIe link; no fewer GPUs are faster on the bus.
TEST(Compare, TakesSomeOfANodesGpus) {
  const std::string ask =
      "compare --instance p4d.24xlarge --nodes 2 --algorithm nccl --sizes 1GiB ";
  const nlohmann::json points = json_of(ask + "--gpus-per-node 1,4,8")["points"],
                       all = json_of(ask)["points"];
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[0]["instance"], "p4d.24xlarge (1 GPU)");
  EXPECT_EQ(points[1]["instance"], "p4d.24xlarge (4 GPUs)");
  EXPECT_EQ(points[2]["instance"], "p4d.24xlarge");
  EXPECT_EQ(points[2]["time_us"], all[0]["time_us"]);
  EXPECT_GT(points[0]["time_us"], points[1]["time_us"]);
  EXPECT_GT(points[1]["time_us"], points[2]["time_us"]);
  const Result many = foreduce_says(ask + "--gpus-per-node 16");
  EXPECT_EQ(many.status, 2);
  EXPECT_SAYS(many.out, "cluster.gpus_per_node: p4d.24xlarge has 8 GPUs, not 16");
  EXPECT_EQ(foreduce_says(ask + "--gpus-per-node 0").status, 2);
}

// "0.0 GB/s bus bandwidth, 0 % of what any all-reduce could reach" was no answer.
TEST(Compare, SaysThatOneRankSendsNothing) {
  const Result r = foreduce_says(
      "compare --instance p4d.24xlarge --nodes 1 --gpus-per-node 1 --algorithm nccl --sizes 1GiB");
  EXPECT_SAYS(r.out, "On 1 x p4d.24xlarge (1 GPU) one rank has nobody to send to: nccl");
  EXPECT_SAYS_NOT(r.out, "could reach");
}

// Eight and four GPUs on two nodes: twelve ranks, and the smaller node's price is whole.
TEST(Compare, TakesUnequalPartsOfEqualNodes) {
  const TemporaryFolder folder;
  const auto ask = [&](const std::string& second) {
    return json_of("compare " +
                   folder
                       .write("s.yaml",
                              R"(name: uneven
allreduce: { algorithm: [ring, nccl] }
messages: { sizes: 64 MiB }
cluster:
  mixed:
    - { instance: p3.16xlarge, nodes: 1 }
    - { instance: p3.16xlarge, nodes: 1)" +
                                  second + " }\n")
                       .string() +
                   " --check")["points"];
  };
  const nlohmann::json uneven = ask(", gpus: 4"), even = ask("");
  EXPECT_EQ(uneven[0]["instance"], "1xp3.16xlarge+1xp3.16xlarge (4 GPUs)");
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_GT(uneven[i]["time_us"], 0) << uneven[i];
    EXPECT_NE(uneven[i]["time_us"], even[i]["time_us"]);
  }
}

TEST(Compare, TakesSizesAndRangesInOneList) {
  const nlohmann::json points = json_of(
      "compare --instance p4d.24xlarge --nodes 2 --algorithm ring --sizes '8 B, 1MiB:4MiB:x2,"
      "1GiB'")["points"];
  std::vector<double> sizes;
  for (const nlohmann::json& p : points) sizes.push_back(p["bytes"]);
  EXPECT_EQ(sizes, (std::vector<double>{8, 1 << 20, 2 << 20, 4 << 20, 1 << 30}));
}

// One slow NIC: every element of its node leaves it once and comes back once, S over 5 GB/s.
TEST(Compare, TellsTheExactBoundWhereOneIsKnown) {
  const TemporaryFolder folder;
  for (const auto& [name, gbps] : {std::pair{"slow", 5}, std::pair{"fast", 10}})
    folder.write(std::string(name) + ".yaml",
                 fmt::format("like: p3.2xlarge\nnic: {{ bandwidth: {} GB/s }}\n", gbps));
  const auto file = folder.write("unequal.yaml", R"(
name: unequal
cluster: { mixed: [{ instance: ./slow.yaml, nodes: 1 }, { instance: ./fast.yaml, nodes: 3 }] }
allreduce: { algorithm: [forest, ring, reduction-server], profile: ideal }
messages: { sizes: 1 GB, bound: exact }
)");
  const nlohmann::json points = json_of("compare " + file.string())["points"];
  ASSERT_EQ(points.size(), 3u);
  for (const nlohmann::json& p : points) {
    const bool servers = p["algorithm"] == "reduction-server";
    EXPECT_EQ(p["bound_kind"], servers ? "groups" : "exact") << p;
    EXPECT_GE(p["time_us"], p["bound_time_us"]);
  }
  EXPECT_NEAR(points[0]["bound_time_us"].get<double>(), 200e3, 200);
  EXPECT_EQ(points[0]["bound_because"], "cut into 2 groups, one of them node0");
  EXPECT_GT(points[0]["share_of_bound"], 0.9);
  EXPECT_LT(points[1]["share_of_bound"], 0.7);
  EXPECT_SAYS(foreduce_says("compare " + file.string()).out, "The bound is exact");
  const std::string alltoall =
      "compare --instance p4d.24xlarge --nodes 2 --collective alltoall --bound exact";
  EXPECT_EQ(foreduce_says(alltoall).status, 2);
  EXPECT_SAYS(foreduce_says(alltoall).out, "cuts do not tell it");
}

// NVLS was said to be half as fast again as the exact bound, which is of sums in GPUs.
TEST(Compare, RowsThatSwitchesSumHaveNoExactBound) {
  const auto points = json_of(
      "compare --instance p5.48xlarge --nodes 1 --algorithm nvls,nccl,ring --sizes 1GiB "
      "--bound exact")["points"];
  ASSERT_EQ(points.size(), 3u);
  for (const nlohmann::json& p : points) {
    EXPECT_EQ(p["bound_kind"], p["algorithm"] == "ring" ? "exact" : "groups") << p["algorithm"];
    EXPECT_LT(p["share_of_bound"], 1) << p["algorithm"];
  }
}

TEST(Compare, RefusesOptionsWithoutEffect) {
  const std::string p5 = "compare --instance p5.48xlarge --nodes 2 --sizes 1MiB ";
  for (const char* options : {"--algorithm nccl --channels 2", "--algorithm nccl --segments 7",
                              "--algorithm ring --nccl-algo Ring", "--algorithm nccl --protocol LL",
                              "--algorithm ring --nccl-version 2.20"})
    EXPECT_EQ(foreduce_says(p5 + options).status, 2) << options;
}

TEST(Compare, ShortAnswerNamesTheFastestBySize) {
  const std::string text = foreduce_says(
                               "compare --instance p4d.24xlarge --nodes 4 --algorithm ring,direct "
                               "--sizes 8B,1GiB")
                               .out;
  EXPECT_SAYS(text, "On 4 x p4d.24xlarge at 1 GiB ring is fastest with ");
  EXPECT_SAYS(text, "Fastest by size: direct 8 B, ring 1 GiB.");
}

TEST(Compare, AddsWhatTheCallerTakes) {
  const std::string asked =
      "compare --instance p5.48xlarge --nodes 1 --algorithm nccl --sizes 64KiB";
  const auto usual = json_of(asked), torch = json_of(asked + " --timed-by torch");
  EXPECT_EQ(usual["timed_by"], "nccl-tests");
  EXPECT_EQ(torch["timed_by"], "torch");
  EXPECT_NEAR(
      torch["points"][0]["time_us"].get<double>() - usual["points"][0]["time_us"].get<double>(),
      19.5, 1e-6);
  EXPECT_SAYS(foreduce_says(asked + " --timed-by torch").out, "Called from torch, which adds 19.5");
  const TemporaryFolder folder;
  const std::string scenario =
      R"(name: n
cluster: { instance: p5.48xlarge, nodes: 1 }
allreduce: { algorithm: nccl }
messages: { sizes: 64 KiB, timed_by: )";
  const auto good = folder.write("good.yaml", scenario + "torch }\n"),
             bad = folder.write("bad.yaml", scenario + "torhc }\n");
  EXPECT_EQ(json_of("compare " + good.string())["points"][0]["time_us"],
            torch["points"][0]["time_us"]);
  const Result r = foreduce_says("compare " + bad.string());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "did you mean 'torch'?");
}

TEST(Compare, ChecksSumsWhereAsked) {
  const std::string asked = "compare --instance g5.48xlarge --nodes 2 --sizes 1MiB";
  const Result r = foreduce_says(asked + " --check");
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(std::regex_replace(r.out, std::regex("\\s+"), " "),
              "all sums are exact but for rows with an error");
  EXPECT_EQ(json_of(asked + " --check")["sums_checked"], true);
  EXPECT_EQ(json_of(asked)["sums_checked"], false);
}

TEST(Compare, RefusesASimulationThatTakesTooMuchMemory) {
  const std::string file = (source_folder() / "tests" / "bench" / "mixed.yaml").string();
  const Result r = foreduce_says("compare " + file + " --full-pipelines --max-memory 100MiB");
  EXPECT_EQ(r.status, 1);
  EXPECT_SAYS(
      std::regex_replace(r.out, std::regex("\\s+"), " "),
      "takes about 578.5 MiB and 12.57 s, more than --max-memory 100 MiB: no symmetry of ring "
      "holds on this cluster");
  EXPECT_SAYS(
      foreduce_says("compare --instance p4d.24xlarge --nodes 2 --sizes 1MiB --max-memory 1MiB "
                    "--no-cache")
          .out,
      "more than --max-memory 1 MiB");  // of a small cluster, too
  EXPECT_EQ(foreduce_says("compare " + file + " --max-memory 0B").status, 2);
  EXPECT_SAYS(foreduce_says("compare " + file + " --max-memory 3").out, "has no unit");
}

// One NIC of four lost is a quarter of the bandwidth.
TEST(Compare, ThreeOfFourNicsMatter) {
  const TemporaryFolder folder;
  const std::string three = folder
                                .write("three.yaml", R"(like: p4d.24xlarge
pcie:
  switches:
    - { socket: 0, gpus: [0, 1], nics: [0] }
    - { socket: 0, gpus: [2, 3], nics: [1] }
    - { socket: 1, gpus: [4, 5], nics: [2] }
    - { socket: 1, gpus: [6, 7] }
nic: { count: 3 }
)")
                                .string();
  const auto time = [](const std::string& instance) {
    return json_of("compare --nodes 8 --algorithm nccl --sizes 1GiB --instance " +
                   instance)["points"][0]["time_us"]
        .get<double>();
  };
  EXPECT_NEAR(time(three) / time("p4d.24xlarge"), 4.0 / 3, 0.05);
}

TEST(Compare, TakesSeveralClustersOnTheCommandLine) {
  const auto report =
      json_of("compare --instance p5.48xlarge,p4d.24xlarge --nodes 1..4:x2 --sizes 1MiB");
  std::set<std::string> clusters, algorithms;
  for (const auto& p : report["points"]) {
    EXPECT_FALSE(p.contains("error")) << p["error"];
    clusters.insert(p["instance"].get<std::string>() + p["nodes"].dump());
    algorithms.insert(p["algorithm"].get<std::string>());
  }
  EXPECT_EQ(clusters.size(), 6u);
  EXPECT_TRUE(algorithms.contains("nccl"));
  EXPECT_FALSE(algorithms.contains("nvls"));  // it can run on one node of p5 alone
  EXPECT_SAYS(report["left_out"].dump(), "nvls");
  for (const char* bad : {"0", "4..1", "2,x", "1..9:x"}) {
    const Result r = foreduce_says("compare --instance p4d.24xlarge --nodes " + std::string(bad));
    EXPECT_EQ(r.status, 2) << r.out;
    EXPECT_SAYS(r.out, "nodes");
  }
}

// A cluster that cannot be built has no ranks to count for.
TEST(Compare, CountsNothingWithoutACluster) {
  const TemporaryFolder folder;
  const Result r = foreduce_says("compare " + folder
                                                  .write("s.yaml", R"(
name: mixed
cluster: { instance: [p4d.24xlarge, c5n.18xlarge], nodes: 2 }
messages: { collective: all_gather, sizes: 1 MiB }
allreduce: { algorithm: ring }
)")
                                                  .string());
  EXPECT_SAYS(r.out, "c5n.18xlarge");
  EXPECT_LE(r.status, 2);
}

/// nccl-tests' blocks are multiples of 16 B; below one for each rank nothing is moved.
TEST(Compare, MovesWholeBlocksAsNcclTestsDoes) {
  const std::string two = "compare --instance p4d.24xlarge --nodes 2 --algorithm nccl --sizes ";
  for (const std::string collective : {"all_gather", "reduce_scatter", "alltoall"}) {
    const nlohmann::json points = json_of(two + "8B,1000B --collective " + collective).at("points");
    EXPECT_SAYS(points.at(0).at("error").get<std::string>(),
                "8 B is less than a block of 16 B for each of 16 ranks");
    EXPECT_EQ(points.at(0).at("bytes"), 8) << collective;
    EXPECT_EQ(points.at(1).at("bytes"), 16 * 48) << collective;
    EXPECT_EQ(points.at(1).at("count"), 192 / 16) << collective;  // a rank's, as nccl-tests has it
  }
  EXPECT_EQ(json_of(two + "1000B").at("points").at(0).at("bytes"), 1000);
}

TEST(Compare, ValuesThatAreNamedTwiceCountOnce) {
  const auto points = json_of(
      "compare --instance p4d.24xlarge,p4d.24xlarge --nodes 2,2 --algorithm ring,ring "
      "--sizes 1MiB,1MiB,1024KiB")["points"];
  EXPECT_EQ(points.size(), 1U) << points;
}

// A rule of thumb chose the protocol, and was up to 2.7 times slower than another one.
TEST(Compare, NoProtocolIsMuchFasterThanTheOneThatIsChosen) {
  using Protocols = std::vector<const char*>;
  for (const auto& [instance, protocols] : {std::pair("p3dn.24xlarge", Protocols{"LL", "Simple"}),
                                            {"p5.48xlarge", {"LL", "LL128", "Simple"}},
                                            {"p6-b200.48xlarge", {"LL", "LL128", "Simple"}}}) {
    const auto times = [where = std::string(instance)](const char* protocol) {
      std::map<std::string, double> all;
      const auto report = json_of(fmt::format(
          "compare --instance {} --nodes 2,8,32 --algorithm ring,hierarchical,double-tree --sizes "
          "1MiB,8MiB,64MiB --protocol {}",
          where, protocol));
      for (const auto& p : report["points"])
        if (p["time_us"].is_number()) {
          const std::string name = p["algorithm"];  // with the protocol that was asked for
          all[fmt::format("{} by {} on {}", p["bytes"].dump(), name.substr(0, name.find(' ')),
                          p["nodes"].dump())] = p["time_us"];
        }
      return all;
    };
    const auto chosen = times("auto");
    EXPECT_EQ(chosen.size(), 27U);
    for (const char* protocol : protocols)
      for (const auto& [what, time] : times(protocol))
        EXPECT_LE(chosen.at(what), 1.15 * time) << instance << " " << what << " " << protocol;
  }
}

TEST(Compare, NamesTheAlgorithmsThatRunBetweenNodes) {
  const Result r = foreduce_says(
      "compare --instance p4d.24xlarge --nodes 2 --algorithm hierarchical --inner nvls "
      "--sizes 1MiB");
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "'nvls' cannot be the inner algorithm; accepted: direct, double-tree");
  EXPECT_EQ(r.out.find("pairwise"), std::string::npos);
}

// Nothing is below the bound that stands in the same row.
TEST(Compare, IntervalsBeginAtTheBound) {
  std::size_t at_the_bound = 0;
  const auto points = json_of(
      "compare --instance p4d.24xlarge --nodes 4 --collective alltoall "
      "--sizes 64KiB:1GiB:x4 --algorithm nccl")["points"];
  for (const auto& p : points) {
    const double low = p["time_low_us"].get<double>(), bound = p["bound_time_us"].get<double>();
    EXPECT_GE(low, bound * (1 - 1e-12)) << p["bytes"];
    at_the_bound += low < bound * (1 + 1e-9);
  }
  EXPECT_GE(at_the_bound, 1u);  // where the interval alone would begin below
}

}  // namespace
}  // namespace foreduce
