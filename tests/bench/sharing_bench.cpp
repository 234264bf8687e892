// Sharing links: flows a second through the own solver, and whole all-reduces by it beside the same
// by SimGrid's solver in the same run. build/release/tests/bench/foreduce_bench
#include <benchmark/benchmark.h>

#include <random>

#include "sim/fair_sharing.hpp"
#include "tests/support/simulation.hpp"

namespace foreduce {
namespace {

using namespace test;

/// One flow ends and another begins between random ports of one switch that never blocks: `ports`
/// of them, and so many flows a port at any time.
void sharing(benchmark::State& state) {
  const auto ports = static_cast<std::size_t>(state.range(0));
  const auto flows = ports * static_cast<std::size_t>(state.range(1));
  std::mt19937 random(1);
  const std::vector<double> capacities(2 * ports, 12.5e9);
  FairSharing shared(capacities);
  const auto add = [&] {
    const std::size_t links[] = {random() % ports, ports + random() % ports};
    return shared.add(links, 12.5e9);
  };
  std::vector<FairSharing::Flow> active;
  while (active.size() < flows) active.push_back(add());
  shared.solve();
  std::size_t changed = 0, oldest = 0;
  for (auto _ : state) {
    shared.remove(active[oldest]);
    active[oldest] = add();
    oldest = (oldest + 1) % flows;
    changed += shared.solve().size();
  }
  state.counters["flows_per_s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["rates_changed"] =
      static_cast<double>(changed) / static_cast<double>(state.iterations());
}
BENCHMARK(sharing)
    ->ArgNames({"ports", "flows_a_port"})
    ->ArgsProduct({{16, 256, 4096}, {1, 8}})
    ->Unit(benchmark::kMicrosecond);

/// Messages a second of a whole simulation without symmetry, and over those that SimGrid's solver
/// lets pass.
void solvers(benchmark::State& state, const char* name, const char* instance, int nodes) {
  const Cluster cluster =
      cluster_of(ec2(instance), nodes, {}, {.nodes_per_leaf = 2, .oversubscription = 2});
  const CollectiveCall asked{cluster, *find_algorithm(name), {}, 1u << 24};
  SimOptions own = in_full(), simgrid = in_full();
  simgrid.solver = Solver::simgrid;
  double ours = 0, theirs = 0, messages = 0;
  for (auto _ : state) {
    const CollectiveResult r = simulate(asked, own);
    ours += r.wall_seconds;
    messages += static_cast<double>(r.messages);
    theirs += simulate(asked, simgrid).wall_seconds;
    state.SetIterationTime(r.wall_seconds);
  }
  state.counters["messages_per_s"] = messages / ours;
  state.counters["simgrid_messages_per_s"] = messages / theirs;
  state.counters["over_simgrid"] = theirs / ours;
}
BENCHMARK_CAPTURE(solvers, ring_on_p4d, "ring", "p4d.24xlarge", 8)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(3);
BENCHMARK_CAPTURE(solvers, double_tree_on_p4d, "double-tree", "p4d.24xlarge", 8)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(3);
BENCHMARK_CAPTURE(solvers, direct_on_p3dn, "direct", "p3dn.24xlarge", 8)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(3);
BENCHMARK_CAPTURE(solvers, hierarchical_on_g5, "hierarchical", "g5.48xlarge", 8)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(3);

}  // namespace
}  // namespace foreduce
