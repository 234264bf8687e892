// An independent oracle: SimGrid's own MPI with its own all-reduce algorithms on the same flat switch, its overheads set to zero.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "sim/collective.hpp"
#include "tests/worlds.hpp"

namespace foreduce {
namespace {

namespace fs = std::filesystem;
using namespace test;

/// Seconds of SMPI's algorithm `name`, or a negative number with what was printed.
double smpi_seconds(const std::string& name, int ranks, double bytes, const Flat& f, std::string& printed) {
  const fs::path folder =
      fs::path(testing::TempDir()) / (name + std::to_string(ranks) + "_" + std::to_string(static_cast<long>(bytes)));
  fs::create_directories(folder);
  std::ofstream platform(folder / "platform.xml");
  platform << "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n"
           << "<cluster id=\"c\" prefix=\"n\" suffix=\"\" radical=\"0-" << ranks - 1 << "\" speed=\"1Gf\" bw=\"" << f.bandwidth
           << "Bps\" lat=\"" << f.latency / 2 << "s\"/>\n</platform>\n";
  platform.close();
  std::ofstream hosts(folder / "hosts");
  for (int i = 0; i < ranks; ++i) hosts << "n" << i << "\n";
  hosts.close();
  std::string command = "cd " + folder.string() + " && smpirun -np " + std::to_string(ranks) +
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
  return seconds;
}

struct Pair {
  const char* smpi;
  const char* ours;
};

class Smpi : public testing::TestWithParam<Pair> {};

TEST_P(Smpi, AgreesWithinOnePerCent) {
  if (std::string(FOREDUCE_SMPI_PROGRAM).empty())
    GTEST_SKIP() << "smpicc was not found when this was configured: SMPI is not compared";
  const Flat f{.bandwidth = 12.5e9, .latency = 5e-6, .fold_rate = 1e18};
  for (const int ranks : {2, 4, 8, 16, 32})
    for (const double bytes : {4.0 * 64 * 1024, 4.0 * 64 * 65536}) {
      std::string printed;
      const double theirs = smpi_seconds(GetParam().smpi, ranks, bytes, f, printed);
      ASSERT_GT(theirs, 0) << printed;
      SimOptions o;
      o.fold_piece = Bytes{1e18};
      const double ours = simulate(cluster_of(flat_machine(f), ranks), *find_algorithm(GetParam().ours), {},
                                   static_cast<std::size_t>(bytes / 4), Type::f32, o)
                              .time.value;
      EXPECT_NEAR(ours / theirs, 1, 0.01) << GetParam().ours << " against SMPI's " << GetParam().smpi << " on " << ranks
                                          << " ranks, " << bytes << " bytes: " << ours << " s, " << theirs << " s";
    }
}

INSTANTIATE_TEST_SUITE_P(oracle, Smpi,
                         testing::Values(Pair{"lr", "ring"}, Pair{"rdb", "recursive-doubling"},
                                         Pair{"rab_rdb", "halving-doubling"}),
                         [](const auto& pair_of) { return identifier(pair_of.param.ours); });

}  // namespace
}  // namespace foreduce
