// An independent oracle: SimGrid's own MPI with its own algorithms for collectives on the same
// cluster, its overheads set to zero.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <sstream>

#include "tests/support/files.hpp"
#include "tests/support/shell.hpp"
#include "tests/support/simulation.hpp"
#include "topologies/export_simgrid.hpp"

namespace foreduce {
namespace {

using namespace test;

/// Corrections of SMPI that are switched off, so that a link does what its data sheet says; and the
/// copy of the program for every rank, which has no global variables that differ between them.
constexpr const char* kSettings[] = {
    "smpi/bw-factor:0:1",
    "smpi/lat-factor:0:1",
    "network/crosstraffic:0",
    "network/weight-S:0",
    "network/TCP-gamma:0",
    "smpi/simulate-computation:no",
    "smpi/async-small-thresh:0",
    "smpi/send-is-detached-thresh:0",
    "smpi/os:0:0:0",
    "smpi/or:0:0:0",
    "smpi/ois:0:0:0",
    "smpi/wtime:0",
    "smpi/test:0",
    "smpi/iprobe:0",
    "smpi/init:0",
    "network/bandwidth-factor:1",
    "network/latency-factor:1",
    "smpi/privatization:no",
};

/// SMPI's algorithm for a collective, and ours.
struct Pair {
  Collective collective;
  const char* smpi;
  const char* ours;
};
void PrintTo(const Pair& pair, std::ostream* out) {
  *out << pair.ours << " of " << name_of(pair.collective);
}

/// One run of SMPI's.
struct SmpiRun {
  Pair pair;
  std::string platform;            ///< XML
  std::vector<std::string> hosts;  ///< one a rank
  double bytes;
};

/// The collective in the name of SMPI's option.
const char* smpi_option(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "allreduce";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::all_gather: return "allgather";
    case Collective::broadcast: return "bcast";
    case Collective::all_to_all: break;
  }
  return "alltoall";
}

/// Its seconds, or a negative number with what was printed.
double smpi_seconds(const SmpiRun& run, std::string& printed) {
  const TemporaryFolder folder;
  folder.write("platform.xml", run.platform);
  folder.write("hosts", fmt::format("{}\n", fmt::join(run.hosts, "\n")));
  const Result r = shell(fmt::format(
      "cd {} && smpirun -np {} -platform platform.xml -hostfile hosts --cfg=smpi/{}:{} --cfg={} {} "
      "{} {}",
      folder.path().string(), run.hosts.size(), smpi_option(run.pair.collective), run.pair.smpi,
      fmt::join(kSettings, " --cfg="), FOREDUCE_SMPI_PROGRAM, name_of(run.pair.collective),
      run.bytes));
  printed = r.out;
  double seconds = -1;
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);)
    std::sscanf(line.c_str(), "seconds %lf", &seconds);
  return seconds;
}

bool smpi_is_missing() { return std::string(FOREDUCE_SMPI_PROGRAM).empty(); }
constexpr const char* kMissing =
    "smpicc was not found when this was configured: SMPI is not compared";

/// Each reduces only after all of a message has arrived, as SMPI does.
double our_seconds(const Pair& pair, const Cluster& cluster, double bytes) {
  SimOptions options;
  options.reduce_segment = Bytes{kNoOverlap};
  return simulate({cluster, *find_algorithm(pair.ours, pair.collective), {}, floats_in(bytes)},
                  options)
      .time.value;
}

/// A switch that SimGrid itself makes.
std::string flat_platform(int ranks, const Flat& f) {
  return fmt::format(R"(<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<cluster id="c" prefix="n" suffix="" radical="0-{}" speed="1Gf" bw="{}Bps" lat="{}s"/>
</platform>
)",
                     ranks - 1, f.bandwidth, f.latency / 2);
}

/// Bytes of which latency, and bytes of which bandwidth, is the larger part; they divide among
/// `parts`. SMPI copies and sums all of them: sixteen times as many take most of a minute.
std::array<double, 2> sizes_in(int parts) { return {4.0 * parts * 1024, 4.0 * parts * 16384}; }

class Smpi : public testing::TestWithParam<Pair> {
 protected:
  /// Compares with so many ranks on a switch.
  static void compare(int ranks, double bytes) {
    const Flat f{.bandwidth = 12.5e9, .latency = 5e-6, .reduce_bandwidth = 1e18};
    SmpiRun run{GetParam(), flat_platform(ranks, f), {}, bytes};
    for (int i = 0; i < ranks; ++i) run.hosts.push_back("n" + std::to_string(i));
    std::string printed;
    const double theirs = smpi_seconds(run, printed);
    ASSERT_GT(theirs, 0) << printed;
    const double ours = our_seconds(GetParam(), cluster_of(flat_machine(f), ranks), bytes);
    EXPECT_TRUE(close(ours, theirs, 0.01)) << ranks << " ranks, " << bytes << " bytes";
  }
};

TEST_P(Smpi, AgreesWithinOnePercent) {
  if (smpi_is_missing()) GTEST_SKIP() << kMissing;
  for (const int ranks : {2, 4, 8, 16, 32})
    for (const double bytes : sizes_in(64)) compare(ranks, bytes);
}

class SmpiOnAnyRanks : public Smpi {};

TEST_P(SmpiOnAnyRanks, AgreesWithinOnePercent) {
  if (smpi_is_missing()) GTEST_SKIP() << kMissing;
  for (const int ranks : {3, 5, 6, 12, 24})
    for (const double bytes : sizes_in(120)) compare(ranks, bytes);
}

// The same on EC2's machines, on the platform that `topology --simgrid` writes: NVLink, PCIe, rails
// and uplinks as SimGrid routes and shares them itself. Not the ring: SMPI's waits in every step
// for its sends too, and so goes at the pace of the slowest link. On p3dn's mesh, where the pairs
// of a step differ, that costs it up to 11 % in these two as well.
class SmpiOnEc2 : public testing::TestWithParam<const char*> {
 protected:
  SmpiOnEc2() {
    machine.gpu->reduce_bandwidth = BytesPerSecond{1e18};  // SMPI's sums take no time,
    machine.nic.message_overhead = Seconds{0};  // and its messages nothing beyond their bytes
  }

  /// Compares one algorithm with SMPI's on so many nodes.
  void compare(const Pair& pair, int nodes, const FabricSpec& fabric, double bytes) const {
    const Cluster cluster = cluster_of(std::make_shared<const Machine>(machine), nodes, {}, fabric);
    SmpiRun run{pair, to_simgrid(cluster), {}, bytes};
    for (int node = 0; node < nodes; ++node)
      for (int gpu = 0; gpu < machine.gpus(); ++gpu)
        run.hosts.push_back(fmt::format("node{}/gpu{}", node, gpu));
    std::string printed;
    const double theirs = smpi_seconds(run, printed);
    ASSERT_GT(theirs, 0) << printed;
    const double ours = our_seconds(pair, cluster, bytes);
    const bool mesh = machine.nvlink->kind == NvLinkKind::mesh;
    const std::string what =
        fmt::format("{} of {} on {} nodes, leaves of {}, {} bytes", pair.ours,
                    name_of(pair.collective), nodes, fabric.nodes_per_leaf, bytes);
    EXPECT_LT(ours, 1.01 * theirs) << what;
    EXPECT_GT(ours, (mesh ? 0.89 : 0.99) * theirs) << what;
  }

  Machine machine = Catalogue().load(GetParam());
};

TEST_P(SmpiOnEc2, AgreesWithinOnePercentWhereAllPairsAreAlike) {
  if (smpi_is_missing()) GTEST_SKIP() << kMissing;
  const FabricSpec leaves{
      .nodes_per_leaf = 2, .oversubscription = 4, .spine_latency = Seconds{3e-6}};
  for (const auto& [nodes, fabric] : {std::pair{1, FabricSpec{}}, {2, FabricSpec{}}, {4, leaves}})
    for (const Pair& pair :
         {Pair{Collective::all_reduce, "rdb", "recursive-doubling"},
          Pair{Collective::all_reduce, "rab_rdb", "halving-doubling"},
          Pair{Collective::all_gather, "rdb", "recursive-doubling"},
          Pair{Collective::reduce_scatter, "ompi_basic_recursivehalving", "recursive-halving"}})
      for (const double bytes : sizes_in(64)) compare(pair, nodes, fabric, bytes);
}

INSTANTIATE_TEST_SUITE_P(oracle, SmpiOnEc2,
                         testing::Values("p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge",
                                         "p6-b200.48xlarge"),
                         [](const auto& name) { return identifier(name.param); });

std::string pair_name(const testing::TestParamInfo<Pair>& of) {
  return identifier(*find_algorithm(of.param.ours, of.param.collective));
}
constexpr Pair kOnPowersOfTwo[] = {
    {Collective::all_reduce, "rdb", "recursive-doubling"},
    {Collective::all_reduce, "rab_rdb", "halving-doubling"},
    {Collective::all_gather, "rdb", "recursive-doubling"},
    {Collective::reduce_scatter, "ompi_basic_recursivehalving", "recursive-halving"},
    // On other numbers the root's own messages come last, and SMPI's wait for a latency in between.
    {Collective::broadcast, "binomial_tree", "binomial"},
};
constexpr Pair kOnAnyRanks[] = {
    {Collective::all_reduce, "lr", "ring"},
    {Collective::all_gather, "ring", "ring"},
    {Collective::all_gather, "bruck", "bruck"},
    {Collective::all_gather, "spreading_simple", "direct"},
    {Collective::reduce_scatter, "ompi_ring", "ring"},
    {Collective::all_to_all, "basic_linear", "pairwise"},
};
INSTANTIATE_TEST_SUITE_P(oracle, Smpi, testing::ValuesIn(kOnPowersOfTwo), pair_name);
INSTANTIATE_TEST_SUITE_P(any, Smpi, testing::ValuesIn(kOnAnyRanks), pair_name);
INSTANTIATE_TEST_SUITE_P(oracle, SmpiOnAnyRanks, testing::ValuesIn(kOnAnyRanks), pair_name);

}  // namespace
}  // namespace foreduce
