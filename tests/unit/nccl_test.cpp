// What NCCL would choose, and the algorithms that only it has.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/nccl_constants.hpp"
#include "models/nccl_cost.hpp"
#include "models/rank_layout.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/profiles.hpp"
#include "tests/support/says.hpp"
#include "tests/support/sizes.hpp"

namespace foreduce {
namespace {

using namespace test;

NcclChoice choice_on(const Machine& machine, int nodes, double bytes,
                     const std::string& release = {}) {
  const Cluster cluster = cluster_of(std::make_shared<const Machine>(machine), nodes);
  const Profile profile = Profiles().made_for(machine.name);
  NcclForced by;
  by.release = release;
  return nccl_choice({cluster, rank_layout(cluster), std::make_shared<const Profile>(profile)},
                     Bytes{bytes}, by);
}

// NVLSTree was chosen from 128 MiB on for two p5 of which one GPU each is used, and cannot run
// there.
TEST(NcclChoice, CanRunWhereItIsMade) {
  const Catalogue catalogue;
  for (const std::string& name : catalogue.names()) {
    const Machine machine = catalogue.load(name);
    if (machine.cpu_only()) continue;
    const auto profile = std::make_shared<const Profile>(Profiles().nearest_to(machine));
    for (const int gpus : {1, 2, machine.gpus()})
      for (const int nodes : {1, 2, 3, 8}) {
        if (gpus * nodes < 2 || gpus > machine.gpus()) continue;
        const Cluster cluster =
            cluster_of(std::make_shared<const Machine>(machine.with_gpus(gpus)), nodes);
        const Layout layout = rank_layout(cluster);
        for (const Collective collective :
             {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter})
          for (double bytes = 8; bytes < 1e11; bytes *= 8) {
            const NcclChoice c =
                nccl_choice({cluster, layout, profile}, Bytes{bytes}, {}, collective);
            EXPECT_EQ(
                unsupported_reason(*find_algorithm(to_text(c.algorithm), collective), layout, {}),
                std::nullopt)
                << name << " " << nodes << " x " << gpus << " " << bytes << " "
                << to_text(c.algorithm);
          }
      }
  }
}

TEST(NcclChoice, TheTunerChoosesOnMoreThanTwoNodes) {
  const auto choice = [](int nodes, double bytes) {
    const NcclChoice c = choice_on(*ec2("p5.48xlarge"), nodes, bytes);
    return to_text(c.algorithm) + " " + to_text(c.protocol);
  };
  EXPECT_EQ(choice(4, kMiB), "double-tree LL128");                 // <= 36 MiB at 32 ranks
  EXPECT_EQ(choice(8, 512 * kMiB), "ring LL128");                  // up to 2 GiB at 64 ranks
  EXPECT_TRUE(choice(64, 2048 * kMiB).starts_with("nvls-tree "));  // above 320 MiB at 512 ranks
  EXPECT_EQ(choice_on(*ec2("p5.48xlarge"), 4, kMiB).why, "aws-ofi-nccl's tuner");
  EXPECT_EQ(choice_on(*ec2("p5.48xlarge"), 2, kMiB).why, "the cost model of NCCL 2.30");
}

// What NCCL 2.28.9 itself said that it chose (NCCL_DEBUG_SUBSYS=TUNING) for 8 B to 128 MiB in steps
// of 4, on 2, 4 and 8 nodes of one H100 each over sockets of 10 Gb/s: one H100 whose ranks had
// hosts of their own (NCCL_HOSTID), 2026-11-27.
TEST(NcclChoice, AgreesWithNcclsOwnLogsOverSockets) {
  Machine machine = *ec2("p5.4xlarge");
  machine.nic.bandwidth = BytesPerSecond{1.25e9};
  machine.nic.fabric = NicFabric::tcp;
  machine.nic.efa = 0;
  struct Run {
    int nodes;
    Collective collective;
    double first;
    std::string chosen;  ///< T: tree, R: ring; l: LL, s: Simple
  };
  for (const Run& run :
       {Run{2, Collective::all_reduce, 8, "Rl Rl Rl Rl Rl Rl Rl Rs Rs Rs Rs Rs Rs"},
        Run{4, Collective::all_reduce, 8, "Tl Tl Tl Tl Rl Rl Rl Rs Rs Rs Rs Rs"},
        Run{8, Collective::all_reduce, 8, "Tl Tl Tl Tl Tl Rl Rl Rl Rs Rs Rs Rs"},
        Run{4, Collective::all_gather, 1024, "Rl Rl Rl Rs Rs Rs Rs Rs Rs"},
        Run{4, Collective::reduce_scatter, 1024, "Rl Rl Rl Rs Rs Rs Rs Rs Rs"}}) {
    const Cluster cluster = cluster_of(std::make_shared<const Machine>(machine), run.nodes);
    const Profile profile = Profiles().nearest_to(machine);
    const Layout layout = rank_layout(cluster);
    std::string chosen;
    for (double bytes = run.first; chosen.size() < run.chosen.size(); bytes *= 4) {
      const NcclChoice c = nccl_choice({cluster, layout, std::make_shared<const Profile>(profile)},
                                       Bytes{bytes}, {.release = "2.28"}, run.collective);
      chosen += chosen.empty() ? "" : " ";
      chosen += c.algorithm == NcclAlgorithm::ring          ? "R"
                : c.algorithm == NcclAlgorithm::double_tree ? "T"
                                                            : to_text(c.algorithm);
      chosen += c.protocol == NcclProtocol::ll       ? "l"
                : c.protocol == NcclProtocol::simple ? "s"
                                                     : to_text(c.protocol);
    }
    EXPECT_EQ(chosen, run.chosen) << run.nodes << " nodes, " << name_of(run.collective);
  }
}

// tuning.cc of both tags, 1 MiB on the eight GPUs of one p5, us. NVLS: 23 + 2^20 / (16 x 20,000 x
// 5/6) = 26.9 up to 2.20, 28.9 in 2.21. A ring by LL: 15 + 2^20 / (87,700 x 8/14) = 35.9 up
// to 2.20, and since 2.21, which lets LL have half of the ring's bandwidth and 141 GB/s, 28.0.
TEST(NcclChoice, FollowsTheReleaseThatIsAskedFor) {
  const auto choice = [](const char* release) {
    const NcclChoice c = choice_on(*ec2("p5.48xlarge"), 1, kMiB, release);
    return to_text(c.algorithm) + " " + to_text(c.protocol) + ", " + c.why;
  };
  EXPECT_EQ(choice("2.20"), "nvls Simple, the cost model of NCCL 2.20");
  EXPECT_EQ(choice("2.21"), "ring LL, the cost model of NCCL 2.21");
}

NcclChoice simple_on_two_p4de(const char* release, double bytes, std::optional<Seconds> reported) {
  const Cluster cluster = cluster_of(ec2("p4de.24xlarge"), 2);
  NcclForced forced;
  forced.protocol = NcclProtocol::simple;
  forced.release = release;
  forced.reported = reported;
  return nccl_choice({cluster, rank_layout(cluster),
                      std::make_shared<const Profile>(Profiles().made_for("p4de.24xlarge"))},
                     Bytes{bytes}, forced);
}

// tuning.cc of v2.17.1-1, two nodes of eight A100, us: a ring takes 8.4 + 26 x 3.4 + 4 hops over
// the network, a tree 2 x (7 x 28 + 1 hop), where a hop is what the plugin reports. v2.11.4-1 knows
// no such report, and takes a ring to cross the network twice.
TEST(NcclChoice, OldReleasesChooseByWhatThePluginReports) {
  EXPECT_EQ(simple_on_two_p4de("2.17", 8, Seconds{150e-6}).algorithm,
            NcclAlgorithm::double_tree);  // 692 < 697
  EXPECT_EQ(simple_on_two_p4de("2.17", 8, Seconds{75e-6}).algorithm,
            NcclAlgorithm::ring);  // 397 < 542
  EXPECT_EQ(simple_on_two_p4de("2.11", 8, Seconds{150e-6}).algorithm, NcclAlgorithm::ring);
  EXPECT_EQ(simple_on_two_p4de("2.18", 8, Seconds{75e-6}).algorithm, NcclAlgorithm::double_tree);
}

TEST(NcclChoice, HasNvlsFromTheReleasesOnThatHaveIt) {
  const auto one_node = [](const char* release) {
    return choice_on(*ec2("p5.48xlarge"), 1, 1024 * kMiB, release).algorithm;
  };
  EXPECT_EQ(one_node("2.16"), NcclAlgorithm::ring);
  EXPECT_EQ(one_node("2.17"), NcclAlgorithm::nvls);
  const auto two_nodes = [](const char* release) {
    return choice_on(*ec2("p5.48xlarge"), 2, 1024 * kMiB, release).algorithm;
  };
  EXPECT_FALSE(to_text(two_nodes("2.17")).starts_with("nvls"));
  EXPECT_SAYS(error_of([] {
                const Cluster two = cluster_of(ec2("p5.48xlarge"), 2);
                NcclForced forced{NcclAlgorithm::nvls_tree};
                forced.release = "2.17";
                nccl_choice({two, rank_layout(two),
                             std::make_shared<const Profile>(Profiles().made_for("p5.48xlarge"))},
                            Bytes{8}, forced);
              }),
              "NCCL 2.17 cannot run nvls-tree here");
  EXPECT_EQ(two_nodes("2.19"), NcclAlgorithm::nvls_tree);
}

// nvls.cc of NCCL, ncclNvlsInit: a node's two GPUs do without. Theirs were predicted slower than
// four.
TEST(NcclChoice, TwoGpusOfANodeDoNotSumInTheSwitch) {
  const auto in_switch = [](int gpus, int nodes) {
    const Machine machine = ec2("p6-b200.48xlarge")->with_gpus(gpus);
    return to_text(choice_on(machine, nodes, 256 * kMiB).algorithm).starts_with("nvls");
  };
  EXPECT_FALSE(in_switch(2, 1));
  EXPECT_FALSE(in_switch(2, 2));
  EXPECT_TRUE(in_switch(4, 1));
}

// Tensor parallelism over two of eight A100 was as slow as over all of them.
TEST(NcclCut, OnlyBetweenNodesHasAGroupItsShareOfTheChannels) {
  const auto channels = [](int nodes, const RankGroups& groups) {
    const Cluster cluster = cluster_of(ec2("p4d.24xlarge"), nodes);
    const Layout all = rank_layout(cluster), layout = groups.whole() ? all : all.subset(groups);
    return nccl_cut({cluster, layout,
                     std::make_shared<const Profile>(Profiles().made_for("p4d.24xlarge"))},
                    {NcclAlgorithm::ring, NcclProtocol::simple, "", Collective::all_reduce},
                    Bytes{256 * kMiB})
        .channels;
  };
  EXPECT_EQ(channels(1, {2, 1}), channels(1, {}));
  EXPECT_DOUBLE_EQ(channels(2, {2, 8}), channels(2, {}) / 8);
}

// prims_simple.h: a chunk's two slices are its halves, but the first is a 32nd of two steps of 512
// KiB at least. In NCCL 2.4 (primitives.h) it is two steps, and the second is sent although nothing
// is left for it. Two channels and 16 ranks share the data.
TEST(NcclCut, ARingsChunkBySimpleGoesOutInTwoSlices) {
  const Cluster cluster = cluster_of(ec2("p3dn.24xlarge"), 2);
  const Layout layout = rank_layout(cluster);
  const auto profile = std::make_shared<const Profile>(Profiles().made_for("p3dn.24xlarge"));
  const auto cut = [&](double each, const char* release) {
    NcclForced forced;
    forced.release = release;
    return nccl_cut({cluster, layout, profile},
                    {NcclAlgorithm::ring, NcclProtocol::simple, "", Collective::all_reduce},
                    Bytes{2 * 16 * each}, forced);
  };
  constexpr double kKiB = 1024, kFull = Segments::kFull;
  struct Slices {
    double each, chunk, chunks, last;
  };
  for (const Slices& due : {Slices{16 * kKiB, 16 * kKiB, 1, kFull},
                            {32 * kKiB, 32 * kKiB, 1, kFull},
                            {48 * kKiB, 32 * kKiB, 2, kFull / 2},
                            {64 * kKiB, 32 * kKiB, 2, kFull},
                            {kMiB, 512 * kKiB, 2, kFull},
                            {3 * kMiB, kMiB, 4, kFull / 2}}) {
    const NcclCut now = cut(due.each, "2.22");
    EXPECT_EQ(now.chunk.value, due.chunk) << due.each;
    EXPECT_EQ(now.chunks, due.chunks) << due.each;
    EXPECT_EQ(now.last, due.last) << due.each;
  }
  for (const double each : {32 * kKiB, 64 * kKiB, 1.0 * kMiB}) {
    const NcclCut old = cut(each, "");
    EXPECT_EQ(old.chunk.value, each);
    EXPECT_EQ(old.chunks, 2);
    EXPECT_EQ(old.last, 1);  // the least that a segment may have
  }
}

// One GPU of a p5 reaches as much of the node's cards as its PCIe link carries: 48 of 400 GB/s.
TEST(NcclChoice, KnowsThatFewGpusDoNotReachAllCards) {
  Machine one = ec2("p5.48xlarge")->with_gpus(1);
  one.nic.efa = 0;
  EXPECT_EQ(choice_on(one, 10, 128 * kMiB).protocol, NcclProtocol::simple);
}

// A profile of an old release follows that one's rules unless another is asked for.
TEST(NcclChoice, FollowsTheReleaseOfTheProfileUnlessAnotherIsAsked) {
  EXPECT_EQ(choice_on(*ec2("p3dn.24xlarge"), 2, kMiB).why, "the limits of NCCL 2.4");
  EXPECT_EQ(choice_on(*ec2("p3dn.24xlarge"), 2, kMiB, "2.22").why, "the cost model of NCCL 2.22");
}

// tuning.cc of v2.5.7-1, v2.6.4-1, v2.7.8-1 and v2.8.4-1, eight V100 on each of two nodes, us.
// p3dn, 128 KiB: a tree by LL takes 21 + 2^17 / 1,800 = 94 in 2.6 and 28 + 2^17 / 1,421 = 120 in
// 2.7, a ring by LL 31 + 82 = 113 and 33 + 82 = 115. 8 MiB: a tree by Simple takes 492 + 2^23 /
// 6,480 = 1,787 in 2.7 and 448 + 2^23 / 8,832 = 1,398 in 2.8, a ring 233 + 2^23 / 6,400 = 1,544.
// DGX-1V with four cards of 12.5 GB/s, 64 MiB: a tree takes 492 + 2^26 / 28,000 = 2,889 in 2.5,
// where trees reach 70 GB/s, and 492 + 2^26 / 34,560 = 2,434 in 2.6, a ring 206 + 2,621 = 2,828.
TEST(NcclChoice, KnowsTheConstantsOfReleasesBeforeTwoPointEight) {
  const auto p3dn = [](const char* release, double bytes) {
    const NcclChoice c = choice_on(*ec2("p3dn.24xlarge"), 2, bytes, release);
    return to_text(c.algorithm) + " " + to_text(c.protocol);
  };
  EXPECT_EQ(p3dn("2.6", kMiB / 8), "double-tree LL");
  EXPECT_EQ(p3dn("2.7", kMiB / 8), "ring LL");
  EXPECT_EQ(p3dn("2.7", 8 * kMiB), "ring Simple");
  EXPECT_EQ(p3dn("2.8", 8 * kMiB), "double-tree Simple");
  const Machine dgx = load_machine(data_folder() / "topologies/elsewhere/dgx-1v.yaml");
  const Cluster cluster = cluster_of(std::make_shared<const Machine>(dgx), 2);
  const auto profile = std::make_shared<const Profile>(Profiles().nearest_to(dgx));
  const auto on_dgx = [&](const char* release) {
    return nccl_choice({cluster, rank_layout(cluster), profile}, Bytes{64 * kMiB},
                       {.release = release})
        .algorithm;
  };
  EXPECT_EQ(on_dgx("2.5"), NcclAlgorithm::ring);
  EXPECT_EQ(on_dgx("2.6"), NcclAlgorithm::double_tree);
}

// Sends and receives came with 2.7; a profile without LL between nodes has none in 2.4 either.
TEST(NcclChoice, AsksOfOldReleasesOnlyWhatTheyHave) {
  const Cluster cluster = cluster_of(ec2("p3dn.24xlarge"), 2);
  const auto profile = std::make_shared<const Profile>(Profiles().made_for("p3dn.24xlarge"));
  const auto all_to_all = [&](const char* release) {
    return nccl_choice({cluster, rank_layout(cluster), profile}, Bytes{kMiB}, {.release = release},
                       Collective::all_to_all);
  };
  EXPECT_SAYS(error_of([&] { all_to_all("2.6"); }), "NCCL 2.6 has no sends and receives");
  EXPECT_EQ(all_to_all("2.7").algorithm, NcclAlgorithm::pairwise);
  EXPECT_EQ(choice_on(*ec2("p4d.24xlarge"), 2, 8, "2.4").protocol, NcclProtocol::simple);
  EXPECT_EQ(choice_on(*ec2("p4d.24xlarge"), 1, 8, "2.4").protocol, NcclProtocol::ll);
}

TEST(NcclRelease, IsTheOneThatAVersionBelongsTo) {
  EXPECT_EQ(nccl_release_of("2.27.7"), "2.27");
  EXPECT_EQ(nccl_release_of("2.19"), "2.19");
  EXPECT_EQ(nccl_release_of("2.99.1"), nccl_releases().back());
  EXPECT_EQ(nccl_release_of("2.12.7"), "2.12");
  EXPECT_EQ(nccl_release_of("2.7.8"), "2.7");
  EXPECT_EQ(nccl_releases().front(), "2.4");
  for (const char* older : {"2.3.7", "1.3", "", "two"})
    EXPECT_EQ(nccl_release_of(older), "") << older;
  EXPECT_SAYS(error_of([] { nccl_constants("2.3"); }), "NCCL 2.3 is not known\n  accepted: 2.4, ");
  EXPECT_SAYS(error_of([] { nccl_constants("2.21.5"); }), "did you mean 2.21?; accepted: 2.4, ");
}

// init.cc, ncclTreeThreshold: on two nodes with NVLink always, beyond while a ring's latency
// outweighs what a tree's rate loses.
TEST(NcclChoice, TakesATreeByTheThresholdOfTwoPointFour) {
  const auto choice = [](int nodes, int gpus, double bytes) {
    return choice_on(ec2("p3dn.24xlarge")->with_gpus(gpus), nodes, bytes).algorithm;
  };
  EXPECT_EQ(choice(1, 8, kMiB), NcclAlgorithm::ring);
  EXPECT_EQ(choice(2, 1, kMiB), NcclAlgorithm::ring);  // a ring of two is no slower
  EXPECT_EQ(choice(2, 8, 8), NcclAlgorithm::double_tree);
  EXPECT_EQ(choice(2, 8, 1024 * kMiB), NcclAlgorithm::double_tree);
  // 10,000 x 7,500 / 2,500 bytes a us, of (6 x 255 - 15 x 5 - 4 x 7) us.
  EXPECT_EQ(choice(32, 8, 30000.0 * 1427 - 4), NcclAlgorithm::double_tree);
  EXPECT_EQ(choice(32, 8, 30000.0 * 1427 + 4), NcclAlgorithm::ring);
}

// getTime() in tuning.cc corrects trees in 23 steps of its table, up to 512 MiB, of which the last
// is 90 %: the bandwidth of a larger tree is not corrected.
TEST(NcclChoice, CorrectsTreesBelowHalfAGibibyte) {
  EXPECT_EQ(choice_on(*ec2("p4d.24xlarge"), 12, 511 * kMiB).algorithm, NcclAlgorithm::ring);
  EXPECT_EQ(choice_on(*ec2("p4d.24xlarge"), 12, 512 * kMiB).algorithm, NcclAlgorithm::double_tree);
  EXPECT_EQ(choice_on(*ec2("p4d.24xlarge"), 12, 1024 * kMiB).algorithm, NcclAlgorithm::double_tree);
}

// NCCL asks for the compute capability, which a name or the peak tells.
TEST(NcclConstants, GenerationsAreToldByWholeNamesAndByPeak) {
  const NcclConstants& c = nccl_constants("");
  const auto generation = [&](const char* model, double tflops, bool fp8) {
    Gpu gpu;
    gpu.model = model;
    gpu.fp16 = FlopPerSecond{tflops * 1e12};
    gpu.fp8 = fp8;
    return c.generation_of(gpu).name;
  };
  EXPECT_EQ(generation("H800-SXM5-80GB", 989, true), "Hopper");
  EXPECT_EQ(generation("A800-SXM4-80GB", 312, false), "Ampere");
  EXPECT_EQ(generation("L4-24GB", 121, true), "Ampere");
  EXPECT_EQ(generation("L400-24GB", 1000, true), "Hopper");  // not an L40
  EXPECT_EQ(generation("R100", 2500, true), "Blackwell");
  EXPECT_EQ(generation("NPU", 200, false), "Ampere");
}

// So many were counted as a negative number, and 800 TiB took 8 us.
TEST(NcclSchedule, RefusesMoreChunksThanItCounts) {
  const auto profile = std::make_shared<const Profile>(Profiles().made_for("p5.48xlarge"));
  const Cluster cluster = cluster_of(ec2("p5.48xlarge"), 2);
  NcclForced forced{NcclAlgorithm::ring};
  forced.channels = 1;
  forced.buffer = Bytes{65536};
  EXPECT_SAYS(error_of([&] {
                nccl_schedule({cluster, rank_layout(cluster), profile}, Bytes{8e17}, forced);
              }),
              "which is too many");
}

// NCCL's own chunks of NVLS are 128 KiB at most, which it goes to from 64 times 16 channels x 8
// GPUs of them on; aws-ofi-nccl makes it 512.
TEST(NcclSchedule, ChunksOfNvlsAreLongerWithThePlugin) {
  const auto profile = std::make_shared<const Profile>(Profiles().made_for("p5.48xlarge"));
  const auto chunks = [&](const Machine& machine, double bytes) {
    const Cluster cluster = cluster_of(std::make_shared<const Machine>(machine), 1);
    return nccl_schedule({cluster, rank_layout(cluster), profile}, Bytes{bytes},
                         {NcclAlgorithm::nvls})
        .plan.segments;
  };
  const Machine with = *ec2("p5.48xlarge");
  Machine without = with;
  without.nic.efa = 0;
  EXPECT_EQ(chunks(with, 512 * kMiB), 64);
  EXPECT_EQ(chunks(without, 512 * kMiB), 64);
  EXPECT_EQ(chunks(with, 2048 * kMiB), 256);
  EXPECT_EQ(chunks(without, 2048 * kMiB), 128);
  EXPECT_EQ(chunks(with, 8192 * kMiB), 128);
  EXPECT_EQ(chunks(without, 8192 * kMiB), 512);
}

// enqueue.cc of v2.19.4-1 and v2.20.3-1: up to 2.19 a tree's 256 KiB a channel travelled in chunks
// of 32 KiB, since then in one, and 2 MiB a channel in eighths of the buffer.
TEST(NcclSchedule, ChunksOfTreesGoByReleaseAndBuffers) {
  const auto profile = std::make_shared<const Profile>(Profiles().made_for("p4d.24xlarge"));
  const Cluster cluster = cluster_of(ec2("p4d.24xlarge"), 2);
  const auto chunks = [&](double bytes, const char* release, double buffer) {
    NcclForced forced{NcclAlgorithm::double_tree, NcclProtocol::simple};
    forced.release = release;
    forced.buffer = Bytes{buffer};
    return nccl_schedule({cluster, rank_layout(cluster), profile}, Bytes{bytes}, forced)
        .plan.segments;
  };
  EXPECT_EQ(chunks(2 * kMiB, "2.19", 0), 8);
  EXPECT_EQ(chunks(2 * kMiB, "2.20", 0), 1);
  EXPECT_EQ(chunks(2 * kMiB, "", 0), 1);
  EXPECT_EQ(chunks(16 * kMiB, "", 0), 2);
  EXPECT_EQ(chunks(16 * kMiB, "", 4 * kMiB), 4);
}

TEST(NcclReported, IsOneLatencyForAllTypesBeforeAVersionOfThePlugin) {
  for (const char* older : {"1.1.2", "1.5.0", "1.6.0"})
    EXPECT_EQ(nccl_reported_with(older), Seconds{150e-6}) << older;
  for (const char* newer : {"1.7.3", "1.13.2", ""})
    EXPECT_EQ(nccl_reported_with(newer), std::nullopt) << newer;
}

TEST(NcclBuffer, IsLongerFromAVersionOfThePluginOn) {
  for (const char* older : {"1.8.1", "1.13.2", "1.15.0"})
    EXPECT_EQ(nccl_buffer_with(older), Bytes{4 * kMiB}) << older;
  for (const char* newer : {"1.16.0", "1.21.1", "2.0.0", ""})
    EXPECT_EQ(nccl_buffer_with(newer), Bytes{}) << newer;
}

bool runs_on(const Cluster& cluster, const char* algorithm) {
  return !unsupported_reason(*find_algorithm(algorithm), rank_layout(cluster), {});
}

TEST(Nvls, NeedsASwitchThatReduces) {
  const Cluster a100 = cluster_of(ec2("p4d.24xlarge"), 1);
  const Cluster h100 = cluster_of(ec2("p5.48xlarge"), 1);
  const Cluster two = cluster_of(ec2("p5.48xlarge"), 2);
  EXPECT_FALSE(runs_on(a100, "nvls"));
  EXPECT_TRUE(runs_on(h100, "nvls"));
  EXPECT_FALSE(runs_on(h100, "nvls-tree"));
  EXPECT_TRUE(runs_on(two, "nvls-tree"));
  EXPECT_FALSE(runs_on(two, "nvls"));
}

// Out of each GPU: 7/8 S to be summed and, by one message of seven, its eighth to all: S.
// Pipelined, the time is S over the link.
TEST(Nvls, LinkCarriesTheDataAboutOnce) {
  Plan plan;
  plan.segments = 64;
  const double bytes = 1024 * kMiB;
  const double time = simulated_seconds("nvls", cluster_of(ec2("p5.48xlarge"), 1), bytes, {}, plan);
  EXPECT_GE(time, bytes / 450e9);
  EXPECT_LE(time, 1.05 * bytes / 450e9);
}

/// Seconds of 64 MiB by NVLS on one p5, each chunk held up for that long at the switch, which
/// reaches that share of the links' bandwidth.
double nvls_seconds(const char* sync, int chunks, const char* in_switch = "1") {
  const Profile profile =
      profile_with(number("in_switch", in_switch) + "\n" + number("in_switch_sync", sync) + "\n");
  Plan plan;
  plan.segments = chunks;
  return simulated_seconds("nvls", cluster_of(ec2("p5.48xlarge"), 1), 64 * kMiB, sent_by(profile),
                           plan);
}

// In and out overlap but for the first and the last.
TEST(Nvls, ChunksAreHeldUpOnTheirWayInAndOut) {
  for (const int chunks : {1, 4, 32}) {
    const double more = nvls_seconds("5 us", chunks) - nvls_seconds("1 us", chunks);
    EXPECT_GE(more, 4e-6 * chunks) << chunks;
    EXPECT_LE(more, 4e-6 * (8.0 / 7 * chunks + 2)) << chunks;
  }
}

// A chunk of 4 MiB for each GPU keeps a link busy for 65 us, one of 256 KiB for 4 us.
TEST(Nvls, ChunksWaitForTheSwitchOrForFlagsWhicheverIsLonger) {
  EXPECT_DOUBLE_EQ(nvls_seconds("10 us", 2, "0.5"), nvls_seconds("0 us", 2, "0.5"));
  EXPECT_DOUBLE_EQ(nvls_seconds("10 us", 32, "0.5"), nvls_seconds("10 us", 32, "1"));
  EXPECT_GT(nvls_seconds("10 us", 2, "0.5"), 1.5 * nvls_seconds("10 us", 2, "1"));
}

TEST(DoubleTree, SendsTheDataOnceOverTheWireOnTwoNodes) {
  const Cluster cluster = cluster_of(ec2("p4d.24xlarge"), 2);
  const double bytes = 1024 * kMiB;
  const auto seconds = [&](const char* name) {
    const Plan plan = with_defaults(*find_algorithm(name), {.segments = 0, .channels = 0},
                                    rank_layout(cluster), static_cast<std::size_t>(bytes));
    return simulated_seconds(name, cluster, bytes, {}, plan);
  };
  EXPECT_NEAR(seconds("ring") / seconds("double-tree"), 1.875, 0.1);
}

}  // namespace
}  // namespace foreduce
