// The lower bounds on an all-reduce: by hand, and no simulated time is below them.
#include "models/bounds.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "models/exact_bound.hpp"
#include "tests/support/simulation.hpp"

namespace foreduce {
namespace {

using namespace test;

double bound_seconds(const Cluster& cluster, double bytes) {
  return collective_bound(cluster, Collective::all_reduce, Bytes{bytes}).time.value;
}

TEST(LowerBound, SingleRankNeedsNoTime) {
  EXPECT_DOUBLE_EQ(bound_seconds(cluster_of(flat_machine(), 1), 1e9), 0);
}

// Without a PCIe section GPUs reach the cards over ideal links, and the bound was the latency.
TEST(LowerBound, DoesNotTakeIdealLinksToTheCardsForInfinite) {
  Machine m = *wide_machine(8, 8);
  m.pcie.reset();
  const auto machine = std::make_shared<Machine>(m);
  const double once = 2 * 7.0 / 8 * 1e9;  // 2(n-1)/n S
  EXPECT_NEAR(bound_seconds(cluster_of(machine, 1), 1e9), 2e-6 + once / 100e9, 1e-9);
  const double two = bound_seconds(cluster_of(machine, 2), 1e9);
  EXPECT_GE(two, 1e9 / (8 * 12.5e9));  // out of a node: S / B
  EXPECT_LE(two, simulated_seconds("hierarchical", cluster_of(machine, 2), 1e9, {}));
}

TEST(LowerBound, DedicatedServersHalveIt) {
  ServerSpec servers;
  servers.dedicated = flat_machine();
  servers.dedicated_count = 8;
  const double with = bound_seconds(cluster_of(flat_machine(), 8, servers), 1e9);
  const double without = bound_seconds(cluster_of(flat_machine(), 8), 1e9);
  EXPECT_NEAR(with, 5e-6 + 1e9 / 12.5e9, 1e-9);                   // S / B
  EXPECT_NEAR(without, 5e-6 + 2 * 7.0 / 8 * 1e9 / 12.5e9, 1e-9);  // 2(n-1)/n S / B
}

TEST(LowerBound, CountsWhatCoLocatedServersCanSend) {
  // The GPUs are behind a slow PCIe link and the servers before it, so that their sums do not cross
  // it.
  Machine m = *wide_machine(1, 1, 100e9);
  m.pcie->switches = {{0, {0}, {}}, {0, {}, {0}}};
  m.pcie->bandwidth = BytesPerSecond{4e9};
  ServerSpec servers;
  servers.co_located = true;
  const Cluster cluster = cluster_of(std::make_shared<Machine>(m), 8, servers);
  const double bytes = 4.0 * 16777216;
  EXPECT_GE(simulated_seconds("reduction-server", cluster, bytes, {}),
            bound_seconds(cluster, bytes));
}

TEST(LowerBound, IsReachedByALargeRingOnAFlatSwitch) {
  const Flat f{.bandwidth = 12.5e9, .latency = 1e-7, .reduce_bandwidth = 1e15};
  const Cluster cluster = cluster_of(flat_machine(f), 8);
  const double bytes = 4.0 * 64 * 1048576;
  const double time = simulated_seconds("ring", cluster, bytes, in_full(4096));
  EXPECT_GE(time, bound_seconds(cluster, bytes));
  EXPECT_LT(time, bound_seconds(cluster, bytes) * 1.001);
}

// ------------------------------------------------------------------ random clusters

/// Draws clusters, plans and sizes at random, always the same ones.
class Draw {
 public:
  /// One of the values.
  template <class... Values>
  auto pick(Values... values) {
    const std::vector<std::common_type_t<Values...>> all{values...};
    return all[dice_() % all.size()];
  }
  bool coin() { return dice_() % 2 == 0; }

  std::shared_ptr<const Machine> machine() {
    switch (dice_() % 3) {
      case 0: {
        Flat flat;
        flat.bandwidth = pick(1e9, 12.5e9, 50e9);
        flat.latency = pick(0.0, 1e-6, 30e-6);
        flat.reduce_bandwidth = pick(20e9, 1e12);
        return flat_machine(flat);
      }
      case 1: {
        const int gpus = pick(2, 4, 8), nics = pick(1, 2);
        return wide_machine(gpus, nics, pick(3e9, 12.5e9, 100e9));
      }
      default: return ec2(names_[dice_() % names_.size()]);
    }
  }
  FabricSpec fabric() {
    FabricSpec fabric;
    if (coin()) return fabric;
    fabric.nodes_per_leaf = pick(1, 2, 4);
    fabric.oversubscription = pick(1.0, 2.0, 7.0);
    fabric.spine_latency = Seconds{pick(0.0, 3e-6)};
    if (coin()) fabric.placement = Placement::spread;
    return fabric;
  }
  const Algorithm& algorithm() {
    const auto all = all_algorithms();
    return *all[dice_() % all.size()];
  }
  /// On the workers' hosts, or on machines of their own, with an idle GPU as often as not.
  ServerSpec servers(const Algorithm& algorithm) {
    ServerSpec servers = servers_for(algorithm);
    if (!algorithm.uses_servers || coin()) return servers;
    servers.co_located = false;
    servers.dedicated = coin() ? flat_machine() : wide_machine(2, 1, pick(3e9, 12.5e9));
    servers.dedicated_count = pick(1, 3, 8);
    return servers;
  }
  Plan plan() {
    Plan plan;
    plan.segments = pick(0, 1, 3);
    plan.channels = pick(0, 1);
    plan.inner = pick(std::string("ring"), std::string("direct"), std::string("halving-doubling"));
    return plan;
  }

 private:
  std::mt19937 dice_{20261120};
  std::vector<std::string> names_ = Catalogue().names();
};

/// One random collective: not faster than the bound, and no link carries more than it can. Nothing
/// if it cannot run.
std::optional<CollectiveResult> try_random_case(Draw& draw) {
  const auto machine = draw.machine();
  if (machine->cpu_only()) return std::nullopt;
  const int nodes = draw.pick(1, 2, 3, 4, 5, 8);
  const FabricSpec fabric = draw.fabric();
  const Algorithm& algorithm = draw.algorithm();
  const ServerSpec servers = draw.servers(algorithm);
  if (servers.dedicated && machine->nic.efa > 0)
    return std::nullopt;  // EFA and ENA do not talk to each other
  const Cluster cluster = cluster_of(machine, nodes, servers, fabric);
  const Plan plan = draw.plan();
  if (unsupported_reason(algorithm, rank_layout(cluster), plan)) return std::nullopt;
  const auto count = static_cast<std::size_t>(draw.pick(1, 1000, 262144, 5000000));
  SimOptions options;
  options.use_symmetry = draw.coin();
  const CollectiveResult result = simulate({cluster, algorithm, plan, count}, options);

  SCOPED_TRACE(testing::Message() << algorithm.name << " on " << nodes << " x " << machine->name
                                  << ", " << count << " elements");
  for (const LinkLoad& load : result.loads)
    EXPECT_LE(load.bytes / load.bandwidth.value, result.time.value * (1 + 1e-6) + 1e-11)
        << load.link;
  const std::size_t taking_part = elements_of(algorithm.collective, count, cluster.gpus());
  const LowerBound bound =
      collective_bound(cluster, algorithm.collective, Bytes{4.0 * static_cast<double>(taking_part)},
                       algorithm.name == "nvls" ? SummedBy::switches : SummedBy::gpus);
  EXPECT_GE(result.time.value + 1e-11, bound.time.value * (1 - 1e-6))
      << "below the bound of " << bound.because;
  if (algorithm.name == "nvls") return result;
  if (const auto cut = exact_cut(cluster, algorithm.collective)) {
    EXPECT_GE(result.time.value + 1e-11,
              cut->seconds_per_byte * 4 * static_cast<double>(taking_part) * (1 - 1e-6))
        << "below the exact bound, " << cut->because;
  }
  return result;
}

TEST(LowerBound, NoSimulatedTimeIsBelowIt) {
  Draw draw;
  int tried = 0;
  for (int round = 0; round < 300; ++round) tried += try_random_case(draw).has_value();
  EXPECT_GT(tried, 170);
}

}  // namespace
}  // namespace foreduce
