// exact: every registered algorithm × world × ranks × elements × segments gives exact sums on every rank, the same bits
// on both worlds, and puts on the wire what it claims.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "algorithms/core/registry.hpp"
#include "models/layout_of.hpp"
#include "real/thread_world.hpp"
#include "sim/collective.hpp"
#include "sim/isolate.hpp"

namespace foreduce {
namespace {

/// Every rank's own copy of `elements` floats. Small integers: their sums are exact in any order.
struct Data {
  std::vector<std::vector<float>> floats;
  std::vector<Buffer> views;

  Data(const Layout& layout, std::size_t elements, bool random = false) {
    for (int r = 0; r < layout.size(); ++r) {
      auto& mine = floats.emplace_back(elements);
      std::mt19937 dice(static_cast<unsigned>(r));
      for (std::size_t i = 0; i < elements; ++i)
        mine[i] = layout.at(r).server ? -1e30f  // workspace: must not leak into a sum
                  : random            ? std::uniform_real_distribution<float>(-1, 1)(dice)
                                      : static_cast<float>((static_cast<std::size_t>(r) * 7 + i * 3) % 32);
    }
    for (auto& f : floats) views.push_back({reinterpret_cast<std::byte*>(f.data()), 0, elements, Type::f32});
    if (elements == 0)
      for (auto& v : views) v.base = nullptr;
  }
  static float expected(const Layout& layout, std::size_t i) {
    float sum = 0;
    for (int r = 0; r < layout.workers; ++r) sum += static_cast<float>((static_cast<std::size_t>(r) * 7 + i * 3) % 32);
    return sum;
  }
};

std::shared_ptr<const Machine> flat_machine() {
  return std::make_shared<Machine>(Machine::flat(BytesPerSecond{12.5e9}, Seconds{5e-6}, BytesPerSecond{300e9}));
}

/// A node with `gpus` GPUs around a switch and `nics` NICs, so that layouts have several workers a node and several rails.
std::shared_ptr<const Machine> wide_machine(int gpus, int nics) {
  Machine m;
  m.name = "wide";
  m.gpu = Gpu{.model = "g", .count = gpus, .memory = {}, .memory_bandwidth = {}, .fp16 = {}, .fp32 = {}, .fold_rate = BytesPerSecond{300e9}, .sms = 0};
  m.nvlink = NvLink{.kind = "switch", .links = 1, .bandwidth = BytesPerSecond{100e9}, .latency = Seconds{2e-6}, .edges = {}};
  m.host = Host{.cpu = "c", .sockets = 1, .memory_bandwidth = BytesPerSecond{100e9}, .interconnect = {}, .fold_rate = BytesPerSecond{40e9}};
  m.pcie = Pcie{.bandwidth = BytesPerSecond{24e9}, .uplink = {}, .latency = Seconds{1e-6}, .switches = {}};
  for (int n = 0; n < nics; ++n) {
    PcieSwitch s;
    for (int g = n * gpus / nics; g < (n + 1) * gpus / nics; ++g) s.gpus.push_back(g);
    s.nics = {n};
    m.pcie->switches.push_back(s);
  }
  m.nic.count = nics;
  m.nic.bandwidth = BytesPerSecond{12.5e9};
  m.nic.latency = Seconds{10e-6};
  m.nic.gpudirect = true;
  return std::make_shared<Machine>(m);
}

ServerSpec servers_for(const Algorithm& algorithm) {
  ServerSpec servers;
  servers.co_located = algorithm.uses_servers;
  return servers;
}

/// Clusters of `ranks` GPUs: one a node, and where it divides also 2 and 8 a node, the latter on four rails.
std::vector<std::pair<std::string, Cluster>> clusters_of(int ranks, const ServerSpec& servers) {
  std::vector<std::pair<std::string, Cluster>> all;
  const auto nodes = [&](std::shared_ptr<const Machine> m) { return std::vector<std::shared_ptr<const Machine>>(static_cast<std::size_t>(ranks / m->gpus()), m); };
  all.emplace_back("flat", Cluster(nodes(flat_machine()), {}, servers));
  if (ranks % 2 == 0) all.emplace_back("2 a node", Cluster(nodes(wide_machine(2, 1)), {}, servers));
  if (ranks % 8 == 0) all.emplace_back("8 a node, 4 rails", Cluster(nodes(wide_machine(8, 4)), {}, servers));
  return all;
}

class EveryAlgorithm : public testing::TestWithParam<std::tuple<const Algorithm*, int>> {};

TEST_P(EveryAlgorithm, SumsExactlyWithTheSameBitsAndSendsWhatItClaims) {
  const auto [algorithm, ranks] = GetParam();
  for (const auto& [name, cluster] : clusters_of(ranks, servers_for(*algorithm))) {
    const Layout layout = layout_of(cluster);
    // One child a cluster: SimGrid's engine is one a process, so each simulated case is a grandchild's.
    for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{5040}, std::size_t{2003}})
      for (const int segments : {1, 3}) {
        SCOPED_TRACE(testing::Message() << name << ", " << elements << " elements, " << segments << " segments");
        const Plan plan = completed(*algorithm, {.segments = segments, .channels = 0, .inner = "ring"}, layout, elements * 4);
        if (const auto why = refusal(*algorithm, layout, plan)) FAIL() << *why;

        Data threads(layout, elements), random(layout, elements, true);
        const ThreadRun run = run_on_threads(*algorithm, layout, threads.views, Op::sum, plan, {.timeout_s = 20, .record = false});
        run_on_threads(*algorithm, layout, random.views, Op::sum, plan, {.timeout_s = 20, .record = false});
        for (int r = 0; r < layout.workers; ++r)
          for (std::size_t i = 0; i < elements; ++i)
            ASSERT_EQ(threads.floats[static_cast<std::size_t>(r)][i], Data::expected(layout, i)) << "threads, rank " << r << ", element " << i;
        for (int r = 0; r < layout.size(); ++r)
          ASSERT_EQ(run.traffic[static_cast<std::size_t>(r)].elements_sent, algorithm->sends(layout, r, elements, plan)) << "rank " << r;

        // The simulator with real bytes: the same bits for numbers whose sums depend on the order, the same claims.
        const Outcome outcome = run_isolated([&]() -> nlohmann::json {
          Data simulated(layout, elements, true);
          SimOptions options;
          const CollectiveResult result = simulate_here(cluster, *algorithm, plan, elements, Type::f32, Op::sum, options, simulated.views);
          for (int r = 0; r < layout.workers; ++r)
            if (elements > 0 && std::memcmp(simulated.floats[static_cast<std::size_t>(r)].data(), random.floats[static_cast<std::size_t>(r)].data(), elements * 4) != 0)
              throw TransportError("rank " + std::to_string(r) + " has other bits than on threads");
          for (int r = 0; r < layout.size(); ++r)
            if (result.traffic[static_cast<std::size_t>(r)].elements_sent != algorithm->sends(layout, r, elements, plan))
              throw TransportError("rank " + std::to_string(r) + " sends other than it claims");
          return result.time.value;
        });
        ASSERT_TRUE(outcome.ok) << outcome.error;
        // Carrying bytes does not change the time.
        SimOptions plain;
        plain.may_fold = false;
        ASSERT_EQ(outcome.value.get<double>(), simulate(cluster, *algorithm, plan, elements, Type::f32, plain).time.value);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(exact, EveryAlgorithm,
                         testing::Combine(testing::ValuesIn(algorithms()), testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32)),
                         [](const auto& test) {
                           std::string name = std::string(std::get<0>(test.param)->name) + "_" + std::to_string(std::get<1>(test.param)) + "_ranks";
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace foreduce
