// Every registered algorithm × backend × ranks × elements × segments: the exact result on every
// rank, the same bits on both backends, and as much on the wire as the algorithm claims.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <memory>
#include <random>

#include "algorithms/core/registry.hpp"
#include "real/thread_backend.hpp"
#include "tests/support/buffers.hpp"
#include "tests/support/simulation.hpp"

namespace foreduce {
namespace {

using namespace test;

/// Small integers, whose sums are exact in any order.
float whole_number(int rank, std::size_t element) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 7 + element * 3) % 32);
}
float whole_sum(const Layout& layout, std::size_t element) {
  float sum = 0;
  for (int r = 0; r < layout.workers; ++r) sum += whole_number(r, element);
  return sum;
}

/// What belongs into element `i` of worker `rank` afterwards.
float right_value(Collective collective, const Layout& layout, std::size_t count, int rank,
                  std::size_t i) {
  const Origin origin = origin_of(collective, count, layout.workers, rank, i);
  return origin.rank < 0 ? whole_sum(layout, origin.element)
                         : whole_number(origin.rank, origin.element);
}

enum class Values { whole, random };

/// Every rank's own copy of `elements` floats.
struct Data {
  std::vector<std::vector<float>> floats;
  std::vector<Buffer> views;

  Data(const Layout& layout, std::size_t elements, Values values) {
    for (int r = 0; r < layout.size(); ++r) {
      auto& mine = floats.emplace_back(elements);
      std::mt19937 dice(static_cast<unsigned>(r));
      std::uniform_real_distribution<float> any(-1, 1);
      for (std::size_t i = 0; i < elements; ++i)
        mine[i] = values == Values::random ? any(dice) : whole_number(r, i);
      // A server's buffer is workspace and must not leak into a sum.
      if (layout.at(r).server) mine.assign(elements, -1e30f);
    }
    for (auto& f : floats) views.push_back(view(f));
  }
  const std::vector<float>& of(int rank) const { return floats[static_cast<std::size_t>(rank)]; }
};

/// Expects the exact result at every worker.
void expect_result(const Layout& layout, const Data& data,
                   Collective collective = Collective::all_reduce) {
  for (int r = 0; r < layout.workers; ++r) {
    const std::size_t count = data.of(r).size();
    const Buffer result = result_of(collective, {nullptr, 0, count}, layout.workers, r);
    for (std::size_t i = result.offset; i < result.offset + result.count; ++i)
      ASSERT_EQ(data.of(r)[i], right_value(collective, layout, count, r, i))
          << "rank " << r << ", element " << i;
  }
}

/// Expects that every rank sent what the algorithm claims.
void expect_claims(const std::vector<Traffic>& traffic, const Algorithm& algorithm,
                   const Layout& layout, std::size_t elements, const Plan& plan) {
  ASSERT_EQ(traffic.size(), layout.members.size());
  for (int r = 0; r < layout.size(); ++r)
    EXPECT_EQ(traffic[static_cast<std::size_t>(r)].elements_sent,
              algorithm.sends(layout, r, elements, plan))
        << "rank " << r;
}

ThreadRun run_with(Data& data, const Algorithm& algorithm, const Layout& layout, const Plan& plan) {
  return run_on_threads(algorithm, layout, data.views, Op::sum, plan, {.timeout_s = 20});
}

// ------------------------------------------------------------------ every algorithm

using Clusters = std::vector<std::pair<std::string, Cluster>>;

/// For algorithms that let the switch reduce: one node of all ranks, and 2 and 4 per node, around
/// such a switch.
Clusters switch_clusters(int ranks, const Algorithm& algorithm) {
  Clusters all;
  for (const int per_node : {2, 4, ranks})
    if (ranks % per_node == 0)
      all.emplace_back(std::to_string(per_node) + " per node",
                       cluster_of(wide_machine(per_node, 1), ranks / per_node));
  // One of these algorithms is for a single node, the other for several.
  std::erase_if(all, [&](const auto& c) {
    return unsupported_reason(algorithm, rank_layout(c.second), {}).has_value();
  });
  return all;
}

/// Clusters of `ranks` GPUs: one per node, and where it divides also 2 and 8 per node, the latter
/// on four rails and on the NVLink mesh of a p3dn.
Clusters clusters_of(int ranks, const Algorithm& algorithm) {
  if (algorithm.name.starts_with("nvls")) return switch_clusters(ranks, algorithm);
  const ServerSpec servers = servers_for(algorithm);
  Clusters all;
  if (algorithm.name.starts_with("recursive") &&
      !std::has_single_bit(static_cast<unsigned>(ranks)) &&
      algorithm.collective != Collective::all_reduce)
    return all;
  all.emplace_back("flat", cluster_of(flat_machine(), ranks, servers));
  if (algorithm.name == "pat") return all;
  if (ranks % 2 == 0)
    all.emplace_back("2 per node", cluster_of(wide_machine(2, 1), ranks / 2, servers));
  if (ranks % 8 == 0) {
    all.emplace_back("8 per node, 4 rails", cluster_of(wide_machine(8, 4), ranks / 8, servers));
    all.emplace_back("p3dn", cluster_of(ec2("p3dn.24xlarge"), ranks / 8, servers));
  }
  return all;
}

/// The simulator with real bytes: bits as on threads, which is for numbers whose sums depend on the
/// order, and the same claims. Returns the simulated seconds.
nlohmann::json simulate_data(const CollectiveCall& asked, const Layout& layout,
                             const Data& on_threads) {
  Data data(layout, asked.count, Values::random);
  const CollectiveResult result = simulate_here(asked, {}, data.views);
  for (int r = 0; r < layout.workers; ++r)
    if (asked.count > 0 &&
        std::memcmp(data.of(r).data(), on_threads.of(r).data(), asked.count * sizeof(float)) != 0)
      throw TransportError("rank " + std::to_string(r) + " has other bits than on threads");
  for (int r = 0; r < layout.size(); ++r)
    if (result.traffic[static_cast<std::size_t>(r)].elements_sent !=
        asked.algorithm.sends(layout, r, asked.count, asked.plan))
      throw TransportError("rank " + std::to_string(r) + " does not send what it claims");
  return result.time.value;
}

void expect_correct(const Algorithm& algorithm, const Cluster& cluster, std::size_t elements,
                    int segments) {
  const Layout layout = rank_layout(cluster);
  const Plan plan = with_defaults(algorithm, {.segments = segments, .channels = 0, .inner = "ring"},
                                  layout, elements * sizeof(float));
  if (const auto why = unsupported_reason(algorithm, layout, plan)) FAIL() << *why;

  Data whole(layout, elements, Values::whole), random(layout, elements, Values::random);
  const ThreadRun run = run_with(whole, algorithm, layout, plan);
  expect_result(layout, whole, algorithm.collective);
  expect_claims(run.traffic, algorithm, layout, elements, plan);
  run_with(random, algorithm, layout, plan);

  // SimGrid's engine is one per process, so every simulated case needs a child process.
  const CollectiveCall asked{cluster, algorithm, plan, elements};
  const ChildResult child = run_in_child([&] { return simulate_data(asked, layout, random); });
  ASSERT_TRUE(child.ok) << child.error;
  // Carrying bytes does not change the time.
  ASSERT_EQ(child.value.get<double>(), simulate(asked, in_full()).time.value);
}

class EveryAlgorithm : public testing::TestWithParam<std::tuple<const Algorithm*, int>> {};

TEST_P(EveryAlgorithm, SumsExactlyOnBothBackends) {
  const auto [algorithm, ranks] = GetParam();
  for (const auto& [name, cluster] : clusters_of(ranks, *algorithm))
    for (const int elements : {0, 1, 7, 1000, 5040, 2003})
      for (const int segments : {1, 3}) {
        SCOPED_TRACE(testing::Message()
                     << name << ", " << elements << " elements, " << segments << " segments");
        expect_correct(*algorithm, cluster, static_cast<std::size_t>(elements), segments);
        if (HasFatalFailure()) return;
      }
}

std::string case_name(const testing::TestParamInfo<EveryAlgorithm::ParamType>& of) {
  const auto& [algorithm, ranks] = of.param;
  return identifier(*algorithm) + "_" + std::to_string(ranks) + "_ranks";
}
INSTANTIATE_TEST_SUITE_P(Correctness, EveryAlgorithm,
                         testing::Combine(testing::ValuesIn(all_algorithms()),
                                          testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32)),
                         case_name);

/// Six nodes, and four for what needs a power of two.
class HierarchicalOf : public testing::TestWithParam<std::tuple<Collective, int>> {};

TEST_P(HierarchicalOf, IsExactWithEveryInnerAlgorithm) {
  const auto [collective, nodes] = GetParam();
  const Algorithm& algorithm = *find_algorithm("hierarchical", collective);
  const Layout layout = rank_layout(cluster_of(wide_machine(4, 2), nodes));
  int tried = 0;
  for (const Algorithm* inner : algorithms(collective)) {
    SCOPED_TRACE(inner->name);
    const Plan plan{.segments = 3, .channels = 1, .inner = std::string(inner->name)};
    if (unsupported_reason(algorithm, layout, plan)) continue;
    Data data(layout, 1000, Values::whole);
    const ThreadRun run = run_with(data, algorithm, layout, plan);
    expect_result(layout, data, collective);
    expect_claims(run.traffic, algorithm, layout, 1000, plan);
    ++tried;
  }
  EXPECT_GT(tried, 3);
}
INSTANTIATE_TEST_SUITE_P(Correctness, HierarchicalOf,
                         testing::Combine(testing::Values(Collective::all_reduce,
                                                          Collective::reduce_scatter,
                                                          Collective::all_gather),
                                          testing::Values(4, 6)));

// ------------------------------------------------------------------ reduction servers

constexpr std::size_t kElements = 5040;

void expect_servers_correct(const Layout& layout) {
  const Algorithm& algorithm = *find_algorithm("reduction-server");
  const Plan plan{.segments = 2};
  Data data(layout, kElements, Values::whole);
  const ThreadRun run = run_with(data, algorithm, layout, plan);
  expect_result(layout, data);
  expect_claims(run.traffic, algorithm, layout, kElements, plan);
}

TEST(ReductionServer, SumsExactlyOnInstancesOfItsOwn) {
  for (const int servers : {1, 2, 3, 8}) {
    ServerSpec spec;
    spec.dedicated = ec2("c5n.18xlarge");
    spec.dedicated_count = servers;
    const Layout layout = rank_layout(cluster_of(ec2("p3dn.24xlarge"), 4, spec));
    ASSERT_EQ(layout.servers(), servers);
    expect_servers_correct(layout);
  }
}

TEST(ReductionServer, GetsDataStraightFromWorkersWithoutNvLink) {
  ServerSpec spec;
  spec.dedicated = elsewhere("optcast-server.yaml");
  spec.dedicated_count = 3;
  const Layout with_nvlink = rank_layout(cluster_of(elsewhere("v100-8-edr.yaml"), 3, spec));
  EXPECT_FALSE(with_nvlink.straight_to_servers);
  const Layout layout = rank_layout(cluster_of(elsewhere("optcast-v100.yaml"), 3, spec));
  ASSERT_TRUE(layout.straight_to_servers);
  expect_servers_correct(layout);
  // A worker sends all of its own data once, and nothing to its peers.
  for (int r = 0; r < layout.workers; ++r)
    EXPECT_EQ(find_algorithm("reduction-server")->sends(layout, r, kElements, {.segments = 2}),
              kElements);
}

}  // namespace
}  // namespace foreduce
