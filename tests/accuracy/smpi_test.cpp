// An independent oracle: SimGrid's own MPI with its own all-reduce algorithms on the same cluster, its overheads set to zero.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "sim/collective.hpp"
#include "tests/support/machines.hpp"
#include "topologies/export_simgrid.hpp"

namespace foreduce {
namespace {

namespace fs = std::filesystem;
using namespace test;

/// Seconds of SMPI's algorithm `name` with its ranks on these hosts of the platform, or a negative number with what was printed.
double smpi_seconds(const std::string& name, const std::string& platform, const std::vector<std::string>& hosts, double bytes,
                    std::string& printed) {
  const fs::path folder = fs::path(testing::TempDir()) / fmt::format("{}_{}_{}_{}", name, hosts.size(), static_cast<long>(bytes),
                                                                     std::hash<std::string>()(platform));
  fs::create_directories(folder);
  std::ofstream(folder / "platform.xml") << platform;
  std::ofstream(folder / "hosts") << fmt::format("{}\n", fmt::join(hosts, "\n"));
  std::string command = "cd " + folder.string() + " && smpirun -np " + std::to_string(hosts.size()) +
                        " -platform platform.xml -hostfile hosts --cfg=smpi/allreduce:" + name;
  for (const char* setting :
       {"smpi/bw-factor:0:1", "smpi/lat-factor:0:1", "network/crosstraffic:0", "network/weight-S:0", "network/TCP-gamma:0",
        "smpi/simulate-computation:no", "smpi/async-small-thresh:0", "smpi/send-is-detached-thresh:0", "smpi/os:0:0:0",
        "smpi/or:0:0:0", "smpi/ois:0:0:0", "smpi/wtime:0", "smpi/test:0", "smpi/iprobe:0", "smpi/init:0",
        "network/bandwidth-factor:1", "network/latency-factor:1"})
    command += std::string(" --cfg=") + setting;
  command += " " + std::string(FOREDUCE_SMPI_PROGRAM) + " " + std::to_string(bytes) + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  char line[512];
  double seconds = -1;
  while (std::fgets(line, sizeof line, pipe)) {
    printed += line;
    std::sscanf(line, "seconds %lf", &seconds);
  }
  pclose(pipe);
  fs::remove_all(folder);
  return seconds;
}

/// A switch that SimGrid itself makes.
std::string flat_platform(int ranks, const Flat& f) {
  return fmt::format(
      "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n"
      "<cluster id=\"c\" prefix=\"n\" suffix=\"\" radical=\"0-{}\" speed=\"1Gf\" bw=\"{}Bps\" lat=\"{}s\"/>\n</platform>\n",
      ranks - 1, f.bandwidth, f.latency / 2);
}

struct Pair {
  const char* smpi;
  const char* ours;
};

class Smpi : public testing::TestWithParam<Pair> {};

TEST_P(Smpi, AgreesWithinOnePerCent) {
  if (std::string(FOREDUCE_SMPI_PROGRAM).empty())
    GTEST_SKIP() << "smpicc was not found when this was configured: SMPI is not compared";
  const Flat f{.bandwidth = 12.5e9, .latency = 5e-6, .reduce_bandwidth = 1e18};
  for (const int ranks : {2, 4, 8, 16, 32})
    for (const double bytes : {4.0 * 64 * 1024, 4.0 * 64 * 65536}) {
      std::string printed;
      std::vector<std::string> hosts;
      for (int i = 0; i < ranks; ++i) hosts.push_back("n" + std::to_string(i));
      const double theirs = smpi_seconds(GetParam().smpi, flat_platform(ranks, f), hosts, bytes, printed);
      ASSERT_GT(theirs, 0) << printed;
      SimOptions o;
      o.reduce_segment = Bytes{1e18};
      const double ours = simulate({cluster_of(flat_machine(f), ranks), *find_algorithm(GetParam().ours), {},
                                   static_cast<std::size_t>(bytes / 4), Type::f32}, o)
                              .time.value;
      EXPECT_NEAR(ours / theirs, 1, 0.01) << GetParam().ours << " against SMPI's " << GetParam().smpi << " on " << ranks
                                          << " ranks, " << bytes << " bytes: " << ours << " s, " << theirs << " s";
    }
}

// The same on EC2's machines, on the platform that `topology --simgrid` writes: NVLink, PCIe, rails and uplinks as SimGrid routes
// and shares them itself. Not the ring: SMPI's waits in every step for its sends too, and so goes at the pace of the slowest link.
// On p3dn's mesh, where the pairs of a step differ, that costs it up to a tenth in these two as well.
class SmpiOnEc2 : public testing::TestWithParam<const char*> {};

TEST_P(SmpiOnEc2, AgreesWithinOnePerCentWhereAllPairsAreAlike) {
  if (std::string(FOREDUCE_SMPI_PROGRAM).empty())
    GTEST_SKIP() << "smpicc was not found when this was configured: SMPI is not compared";
  Machine machine = Catalogue().load(GetParam());
  machine.gpu->reduce_bandwidth = BytesPerSecond{1e18};  // SMPI's sums take no time,
  machine.nic.message_overhead = Seconds{0};      // and its messages nothing beyond their bytes
  const bool mesh = machine.nvlink->kind == "mesh";
  const FabricSpec leaves{.nodes_per_leaf = 2, .oversubscription = 4, .spine_latency = Seconds{3e-6}};
  for (const auto& [nodes, fabric] : {std::pair{1, FabricSpec{}}, {2, FabricSpec{}}, {4, leaves}}) {
    const Cluster cluster = cluster_of(std::make_shared<const Machine>(machine), nodes, {}, fabric);
    std::vector<std::string> hosts;
    for (int node = 0; node < nodes; ++node)
      for (int gpu = 0; gpu < machine.gpus(); ++gpu) hosts.push_back(fmt::format("node{}/gpu{}", node, gpu));
    for (const auto& [smpi, algorithm] : {std::pair{"rdb", "recursive-doubling"}, {"rab_rdb", "halving-doubling"}})
      for (const double bytes : {4.0 * 64 * 1024, 4.0 * 64 * 65536}) {
        std::string printed;
        const double theirs = smpi_seconds(smpi, to_simgrid(cluster), hosts, bytes, printed);
        ASSERT_GT(theirs, 0) << printed;
        SimOptions o;
        o.reduce_segment = Bytes{1e18};
        const double ours = simulate({cluster, *find_algorithm(algorithm), {.segments = 1, .channels = 1, .inner = "ring"},
                                     static_cast<std::size_t>(bytes / 4), Type::f32}, o)
                                .time.value;
        const std::string what = fmt::format("{} on {} nodes, leaves of {}, {} bytes: {} s, {} s", algorithm, nodes,
                                             fabric.nodes_per_leaf, bytes, ours, theirs);
        EXPECT_LT(ours, 1.01 * theirs) << what;
        EXPECT_GT(ours, (mesh ? 0.9 : 0.99) * theirs) << what;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(oracle, SmpiOnEc2, testing::Values("p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge", "p6-b200.48xlarge"),
                         [](const auto& name_of) { return identifier(name_of.param); });

INSTANTIATE_TEST_SUITE_P(oracle, Smpi,
                         testing::Values(Pair{"lr", "ring"}, Pair{"rdb", "recursive-doubling"},
                                         Pair{"rab_rdb", "halving-doubling"}),
                         [](const auto& pair_of) { return identifier(pair_of.param.ours); });

}  // namespace
}  // namespace foreduce
