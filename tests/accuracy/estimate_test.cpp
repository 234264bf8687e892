// All commands ask one estimator: the same question has the same answer everywhere, and what is
// extrapolated agrees with what is simulated in full.
#include "scenarios/sweep/estimate.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/nccl_schedule.hpp"
#include "models/rank_layout.hpp"
#include "models/workload.hpp"
#include "scenarios/sweep/compare.hpp"
#include "scenarios/sweep/predict.hpp"
#include "scenarios/validation/diagnosis.hpp"
#include "scenarios/validation/evaluation.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/says.hpp"
#include "tests/support/sizes.hpp"

namespace foreduce {
namespace {

using namespace test;

CollectiveRequest request(const char* instance, int nodes, double bytes,
                          std::optional<NcclAlgorithm> forced = {}) {
  return {std::make_shared<const Cluster>(cluster_of(ec2(instance), nodes)),
          std::make_shared<const Profile>(Profiles().made_for(instance)), Bytes{bytes},
          reported_method(forced)};
}

CollectiveEstimate estimate(const CollectiveRequest& r,
                            LongPipelines pipelines = LongPipelines::extrapolate) {
  BatchOptions options;
  options.long_pipelines = pipelines;
  return estimate_collectives(std::span(&r, 1), options).front();
}

/// An all-reduce in so many segments that it is extrapolated.
struct LongPipeline {
  const char* instance;
  NcclAlgorithm algorithm;
  int nodes;
  double bytes;
  double most_error = 0.015;
};
void PrintTo(const LongPipeline& p, std::ostream* out) { *out << to_text(p.algorithm); }

class Extrapolation : public testing::TestWithParam<LongPipeline> {};

TEST_P(Extrapolation, AgreesWithFullSimulation) {
  const LongPipeline& p = GetParam();
  const CollectiveRequest r = request(p.instance, p.nodes, p.bytes, p.algorithm);
  const CollectiveEstimate line = estimate(r);
  const CollectiveEstimate full = estimate(r, LongPipelines::simulate_whole);
  ASSERT_EQ(line.error + full.error, "");
  EXPECT_GT(line.extrapolation_error, 0) << "it was not extrapolated";
  EXPECT_LE(line.extrapolation_error, p.most_error);
  EXPECT_EQ(full.extrapolation_error, 0);
  EXPECT_NEAR(line.time / full.time, 1, line.extrapolation_error);
}

INSTANTIATE_TEST_SUITE_P(
    pipelines, Extrapolation,
    testing::Values(LongPipeline{"p4d.24xlarge", NcclAlgorithm::double_tree, 2, 8192 * kMiB},
                    LongPipeline{"p5.48xlarge", NcclAlgorithm::nvls, 1, 8192 * kMiB},
                    LongPipeline{"p3dn.24xlarge", NcclAlgorithm::double_tree, 12, 2048 * kMiB,
                                 0.035},
                    LongPipeline{"p3dn.24xlarge", NcclAlgorithm::double_tree, 14, 800e6, 0.035},
                    LongPipeline{"p3dn.24xlarge", NcclAlgorithm::double_tree, 27, 512 * kMiB, 0.035},
                    LongPipeline{"p3.16xlarge", NcclAlgorithm::double_tree, 13, 512 * kMiB, 0.035}),
    [](const auto& p) {
      return identifier(
          fmt::format("{} {} {}", to_text(p.param.algorithm), p.param.instance, p.param.nodes));
    });

TEST(Estimate, IsWiderOutsideWhatWasCompared) {
  const CollectiveEstimate inside = estimate(request("p4d.24xlarge", 2, 64 * kMiB));
  const CollectiveEstimate more = estimate(request("p4d.24xlarge", 4, 64 * kMiB));
  const CollectiveEstimate bare = estimate(request("g5.12xlarge", 2, 64 * kMiB));
  EXPECT_EQ(inside.interval.why(), "");
  EXPECT_LT(inside.interval.low, inside.time);
  EXPECT_GT(inside.interval.high, inside.time);
  EXPECT_SAYS(more.interval.why(), "nodes");
  EXPECT_GT(more.interval.high / more.time, inside.interval.high / inside.time);
  EXPECT_SAYS(bare.interval.why(), "rates of their data sheets");
}

// Done in the same way more bytes take more time, on every kind of machine, also for sizes that no
// power of two is: NCCL's last loop takes what is left.
TEST(Estimate, GrowsWithTheSizeWhileNothingElseChanges) {
  constexpr double kLongerChunks = 0.95;  // may cost fewer messages
  std::vector<CollectiveRequest> requests;
  std::vector<NcclCut> cuts;
  const Catalogue catalogue;
  for (const std::string& instance : catalogue.names()) {
    if (!ec2(instance)->gpu) continue;
    const auto profile = std::make_shared<const Profile>(Profiles().nearest_to(*ec2(instance)));
    for (const int nodes : {1, 2, 3, 4, 8}) {
      const auto cluster = std::make_shared<const Cluster>(cluster_of(ec2(instance), nodes));
      const Layout layout = rank_layout(*cluster);
      const Site site{*cluster, layout, profile};
      for (double power = 8; power <= 256 * kMiB; power *= 2)
        for (const double times : {1.0, 1.004, 1.5}) {
          const Bytes bytes{4 * std::ceil(power * times / 4)};
          requests.push_back({cluster, profile, bytes, reported_method()});
          cuts.push_back(nccl_cut(site, nccl_choice(site, bytes), bytes));
        }
    }
  }
  const auto estimates = estimate_collectives(requests, {});
  std::size_t compared = 0;
  for (std::size_t i = 1; i < requests.size(); ++i) {
    const CollectiveEstimate &small = estimates[i - 1], &large = estimates[i];
    ASSERT_EQ(large.error, "");
    if (requests[i].bytes < requests[i - 1].bytes || small.run != large.run ||
        cuts[i].channels != cuts[i - 1].channels || cuts[i].chunk < cuts[i - 1].chunk)
      continue;
    ++compared;
    EXPECT_GE(large.time / small.time, kLongerChunks)
        << requests[i].cluster->node(0).machine().name << " x "
        << requests[i].cluster->worker_nodes() << ", " << requests[i].bytes.value << " B";
  }
  EXPECT_GT(compared, requests.size() / 2);
}

/// What every command is asked: all gradients of ResNet-50 in one bucket, summed by NCCL.
class SameQuestion : public testing::Test {
 protected:
  const double bytes = 4.0 * static_cast<double>(Workloads().load("resnet50").elements());
  const Seconds expected = estimate(request("p4d.24xlarge", 2, bytes)).time;

  /// A scenario of two p4d nodes, with this besides.
  static Scenario scenario(const std::string& besides) {
    return parse_scenario("same.yaml", R"(
name: same
cluster: { instance: p4d.24xlarge, nodes: 2 }
)" + besides);
  }
};

TEST_F(SameQuestion, TakesAsLongInCompare) {
  const Scenario s = scenario(fmt::format(R"(
allreduce: {{ algorithm: nccl }}
messages: {{ sizes: {:.0f} B }}
)",
                                          bytes));
  EXPECT_EQ(compare(s, {}).points.at(0).time, expected);
}

TEST_F(SameQuestion, TakesAsLongInPredict) {
  const Scenario s = scenario(R"(
workload: { model: resnet50, precision: fp32, batch_per_gpu: 64 }
allreduce: { algorithm: nccl, bucket: 1 GiB, first_bucket: 1 GiB }
)");
  const Prediction p = predict(s, {}).points.at(0);
  ASSERT_EQ(p.error, "");
  ASSERT_EQ(p.step.buckets.size(), 1u);
  EXPECT_EQ(p.step.communication, expected);
}

TEST_F(SameQuestion, TakesAsLongInCheck) {
  NcclRow row;
  row.bytes = bytes;
  row.count = bytes / 4;
  row.type = "float";
  row.redop = "sum";
  row.out_of_place = NcclTiming{expected, 0, 0, {}};
  NcclTable table;
  table.collective = "all_reduce";
  table.ranks = 16;
  table.rows = {row};
  NcclLog log;
  log.file = "log.txt";
  log.tables = {table};
  EXPECT_EQ(check(log, {"p4d.24xlarge", 2, HealthyFrom::model, ""}, {}).at(0).rows.at(0).expected,
            expected);
}

TEST_F(SameQuestion, TakesAsLongInValidate) {
  Published point;
  point.source = "s";
  point.instance = point.machine = "p4d.24xlarge";
  point.nodes = 2;
  point.gpus = 16;
  point.bytes = Bytes{bytes};
  point.time = expected;
  const auto profile = std::make_shared<const Profile>(Profiles().made_for("p4d.24xlarge"));
  const auto points = evaluate({point}, [&](const Published&) { return profile; }, {});
  EXPECT_EQ(points.at(0).estimate.time, expected);
  EXPECT_EQ(points.at(0).residual(), 0);
}

}  // namespace
}  // namespace foreduce
