// exact: every registered algorithm × world × ranks × elements × segments gives exact sums on every rank, the same bits
// on both worlds, and puts on the wire what it claims.
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>

#include "algorithms/core/registry.hpp"
#include "models/rank_layout.hpp"
#include "real/thread_backend.hpp"
#include "sim/collective.hpp"
#include "sim/child_process.hpp"
#include "tests/support/machines.hpp"

namespace foreduce {
namespace {

using namespace test;

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
  }
  static float expected(const Layout& layout, std::size_t i) {
    float sum = 0;
    for (int r = 0; r < layout.workers; ++r) sum += static_cast<float>((static_cast<std::size_t>(r) * 7 + i * 3) % 32);
    return sum;
  }
};

/// Clusters of `ranks` GPUs: one a node, and where it divides also 2 and 8 a node, the latter on four rails, and on the
/// NVLink mesh of a p3dn. For algorithms that let the switch add: one node of all, and 2 and 4 a node, around such a switch.
std::vector<std::pair<std::string, Cluster>> clusters_of(int ranks, const Algorithm& algorithm) {
  const ServerSpec servers = servers_for(algorithm);
  std::vector<std::pair<std::string, Cluster>> all;
  if (algorithm.name.starts_with("nvls")) {
    for (const int per_node : {2, 4, ranks})
      if (ranks % per_node == 0) {
        auto machine = std::make_shared<Machine>(*wide_machine(per_node, 1));
        machine->nvlink->multicast = true;
        all.emplace_back(std::to_string(per_node) + " a node", cluster_of(machine, ranks / per_node));
      }
    // Each unsupported_reason what is the other's: one node, or several.
    std::erase_if(all, [&](const auto& c) { return unsupported_reason(algorithm, rank_layout(c.second), {}).has_value(); });
    return all;
  }
  all.emplace_back("flat", cluster_of(flat_machine(), ranks, servers));
  if (ranks % 2 == 0) all.emplace_back("2 a node", cluster_of(wide_machine(2, 1), ranks / 2, servers));
  if (ranks % 8 == 0) {
    all.emplace_back("8 a node, 4 rails", cluster_of(wide_machine(8, 4), ranks / 8, servers));
    all.emplace_back("p3dn", cluster_of(ec2("p3dn.24xlarge"), ranks / 8, servers));
  }
  return all;
}

class EveryAlgorithm : public testing::TestWithParam<std::tuple<const Algorithm*, int>> {};

TEST_P(EveryAlgorithm, SumsExactlyWithTheSameBitsAndSendsWhatItClaims) {
  const auto [algorithm, ranks] = GetParam();
  for (const auto& [name, cluster] : clusters_of(ranks, *algorithm)) {
    const Layout layout = rank_layout(cluster);
    // One child a cluster: SimGrid's engine is one a process, so each simulated case is a grandchild's.
    for (const std::size_t elements :
         {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{5040}, std::size_t{2003}})
      for (const int segments : {1, 3}) {
        SCOPED_TRACE(testing::Message() << name << ", " << elements << " elements, " << segments << " segments");
        const Plan plan = with_defaults(*algorithm, {.segments = segments, .channels = 0, .inner = "ring"}, layout, elements * 4);
        if (const auto why = unsupported_reason(*algorithm, layout, plan)) FAIL() << *why;

        Data threads(layout, elements), random(layout, elements, true);
        const ThreadRun run = run_on_threads(*algorithm, layout, threads.views, Op::sum, plan, {.timeout_s = 20, .record = false});
        run_on_threads(*algorithm, layout, random.views, Op::sum, plan, {.timeout_s = 20, .record = false});
        for (int r = 0; r < layout.workers; ++r)
          for (std::size_t i = 0; i < elements; ++i)
            ASSERT_EQ(threads.floats[static_cast<std::size_t>(r)][i], Data::expected(layout, i))
                << "threads, rank " << r << ", element " << i;
        for (int r = 0; r < layout.size(); ++r)
          ASSERT_EQ(run.traffic[static_cast<std::size_t>(r)].elements_sent, algorithm->sends(layout, r, elements, plan))
              << "rank " << r;

        // The simulator with real bytes: the same bits for numbers whose sums depend on the order, the same claims.
        const Outcome outcome = run_isolated([&]() -> nlohmann::json {
          Data simulated(layout, elements, true);
          SimOptions options;
          const CollectiveResult result =
              simulate_here({cluster, *algorithm, plan, elements, Type::f32, Op::sum}, options, simulated.views);
          for (int r = 0; r < layout.workers; ++r)
            if (elements > 0 && std::memcmp(simulated.floats[static_cast<std::size_t>(r)].data(),
                                            random.floats[static_cast<std::size_t>(r)].data(), elements * 4) != 0)
              throw TransportError("rank " + std::to_string(r) + " has other bits than on threads");
          for (int r = 0; r < layout.size(); ++r)
            if (result.traffic[static_cast<std::size_t>(r)].elements_sent != algorithm->sends(layout, r, elements, plan))
              throw TransportError("rank " + std::to_string(r) + " sends other than it claims");
          return result.time.value;
        });
        ASSERT_TRUE(outcome.ok) << outcome.error;
        // Carrying bytes does not change the time.
        SimOptions plain;
        plain.use_symmetry = false;
        ASSERT_EQ(outcome.value.get<double>(), simulate({cluster, *algorithm, plan, elements, Type::f32}, plain).time.value);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(exact, EveryAlgorithm,
                         testing::Combine(testing::ValuesIn(algorithms()), testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32)),
                         [](const auto& case_of) {
                           return identifier(std::get<0>(case_of.param)->name) + "_" + std::to_string(std::get<1>(case_of.param)) +
                                  "_ranks";
                         });

TEST(Exact, HierarchicalWithEveryInnerAlgorithm) {
  const Algorithm& algorithm = *find_algorithm("hierarchical");
  for (const Algorithm* inner : algorithms()) {
    Plan plan{.segments = 3, .channels = 1, .inner = std::string(inner->name)};
    const Cluster cluster = cluster_of(wide_machine(4, 2), 6);
    const Layout layout = rank_layout(cluster);
    if (unsupported_reason(algorithm, layout, plan)) continue;
    Data data(layout, 1000);
    const ThreadRun run = run_on_threads(algorithm, layout, data.views, Op::sum, plan, {.timeout_s = 20, .record = false});
    for (int r = 0; r < layout.workers; ++r) {
      for (std::size_t i = 0; i < 1000; ++i)
        ASSERT_EQ(data.floats[static_cast<std::size_t>(r)][i], Data::expected(layout, i)) << inner->name;
      EXPECT_EQ(run.traffic[static_cast<std::size_t>(r)].elements_sent, algorithm.sends(layout, r, 1000, plan)) << inner->name;
    }
  }
}

/// Reduction servers on this layout: sums at every worker, and at every rank the traffic that is claimed.
void expect_exact(const Layout& layout) {
  const Algorithm& algorithm = *find_algorithm("reduction-server");
  Data data(layout, 5040);
  const Plan plan{.segments = 2, .channels = 1, .inner = {}};
  const ThreadRun run = run_on_threads(algorithm, layout, data.views, Op::sum, plan, {.timeout_s = 20, .record = false});
  for (int r = 0; r < layout.size(); ++r) {
    for (std::size_t i = 0; r < layout.workers && i < 5040; ++i)
      ASSERT_EQ(data.floats[static_cast<std::size_t>(r)][i], Data::expected(layout, i));
    EXPECT_EQ(run.traffic[static_cast<std::size_t>(r)].elements_sent, algorithm.sends(layout, r, 5040, plan));
  }
}

TEST(Exact, ReductionServersOnInstancesOfTheirOwn) {
  for (const int servers : {1, 2, 3, 8}) {
    ServerSpec spec;
    spec.dedicated = ec2("c5n.18xlarge");
    spec.dedicated_count = servers;
    const Cluster cluster = cluster_of(ec2("p3dn.24xlarge"), 4, spec);
    const Layout layout = rank_layout(cluster);
    ASSERT_EQ(layout.servers(), servers);
    expect_exact(layout);
  }
}

TEST(Exact, WorkersWithoutNvlinkPushStraightToServers) {
  const auto elsewhere = [](const char* file) {
    return std::make_shared<const Machine>(
        load_machine(std::filesystem::path(FOREDUCE_SOURCE_FOLDER) / "topologies" / "elsewhere" / file));
  };
  ServerSpec spec;
  spec.dedicated = elsewhere("optcast-server.yaml");
  spec.dedicated_count = 3;
  const Cluster cluster = cluster_of(elsewhere("optcast-v100.yaml"), 3, spec);
  const Layout layout = rank_layout(cluster);
  ASSERT_TRUE(layout.straight_to_servers);
  EXPECT_FALSE(rank_layout(cluster_of(elsewhere("v100-8-edr.yaml"), 3, spec)).straight_to_servers);  // NVLink
  expect_exact(layout);
  const Plan plan{.segments = 2, .channels = 1, .inner = {}};
  for (int r = 0; r < layout.workers; ++r)
    EXPECT_EQ(find_algorithm("reduction-server")->sends(layout, r, 5040, plan),
              5040u);  // all of its own, once, and nothing to its peers
}

/// Every type and operation, against arithmetic done here.
TEST(Exact, FoldsEveryTypeAndOperation) {
  const std::vector<float> a{1, -2, 3.5f, 100}, b{4, 5, -0.5f, 28};
  const auto check = [&](auto zero, Type type) {
    using T = decltype(zero);
    for (const Op op : {Op::sum, Op::min, Op::max}) {
      std::vector<T> into, from;
      for (std::size_t i = 0; i < a.size(); ++i) {
        into.push_back(static_cast<T>(a[i]));
        from.push_back(static_cast<T>(b[i]));
      }
      const auto before = into;
      fold(op, type, reinterpret_cast<std::byte*>(into.data()), reinterpret_cast<const std::byte*>(from.data()), into.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        const float x = static_cast<float>(before[i]), y = static_cast<float>(from[i]);
        EXPECT_EQ(static_cast<float>(into[i]), op == Op::sum ? x + y : op == Op::min ? std::min(x, y) : std::max(x, y));
      }
    }
  };
  check(float{}, Type::f32);
  check(double{}, Type::f64);
  check(std::int32_t{}, Type::i32);
  check(Eigen::half{}, Type::f16);
  check(Eigen::bfloat16{}, Type::bf16);
}

/// A file added to algorithms/ appears everywhere with no other edit: as many are registered as the files say.
TEST(Registry, HoldsEveryFile) {
  std::vector<std::string> files;
  std::size_t registered = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(FOREDUCE_SOURCE_FOLDER) / "algorithms"))
    if (entry.path().extension() == ".cpp") {
      files.push_back(entry.path().stem().string());
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) registered += line.starts_with("const Registered ");
    }
  EXPECT_GE(algorithms().size(), files.size());
  EXPECT_EQ(registered, algorithms().size());
  for (std::string name : files) {
    std::replace(name.begin(), name.end(), '_', '-');
    EXPECT_NE(find_algorithm(name), nullptr) << name;
  }
  for (const Algorithm* a : algorithms()) {
    EXPECT_FALSE(a->idea.empty() || a->cost.empty() || a->wins.empty() || a->source.empty()) << a->name;
    EXPECT_TRUE(a->run && a->sends && a->steps) << a->name;
  }
}

}  // namespace
}  // namespace foreduce
