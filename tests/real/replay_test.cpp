// Training steps replayed on real ranks, and collectives in groups of ranks, of which they consist.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "real/replay.hpp"
#include "real/test_pattern.hpp"
#include "tests/real/real_support.hpp"
#include "tests/support/machines.hpp"

namespace foreduce {
namespace {

using namespace test;
using nlohmann::json;
namespace fs = std::filesystem;

// ------------------------------------------------------------------ groups

/// Runs an algorithm in the groups and returns this rank's wrong elements. Each group has multiples
/// of its own factor, so that what comes from another group is wrong.
std::size_t wrong_in_groups(HostRank& rank, const Session& session, const Algorithm& algorithm,
                            const RankGroups& groups, std::size_t count) {
  const std::vector<int> members = groups.of(rank.rank());
  const Transport all(rank, session.workers(), rank.rank());
  Transport mine = all.subset(members, 1);
  const Plan plan{.segments = 2};
  if (algorithm.uses_servers || unsupported_reason(algorithm, mine.layout(), plan)) return 0;
  std::vector<float> values(count);
  const Buffer data{reinterpret_cast<std::byte*>(values.data()), 0, count, Type::f32};
  const auto factor = static_cast<float>(1 + members.front());
  fill(data, algorithm.collective, mine.rank());
  for (float& value : values) value *= factor;
  algorithm.run(mine, data, Op::sum, plan, {});
  mine.wait_all();
  rank.next_round();
  for (float& value : values) value /= factor;
  return count_wrong(data, algorithm.collective, mine.size(), mine.rank());
}

/// Every algorithm of every collective in every kind of groups; 3 if a sum is wrong.
int groups_status(ProcessPlace place, int each) {
  place.node = place.process;
  SessionOptions options;
  options.ranks_per_process = each;
  Session session(place, options);
  const int ranks = session.workers().size();
  std::atomic<std::size_t> wrong{0};
  session.run([&](HostRank& rank) {
    for (const RankGroups& groups : {RankGroups{2, 1}, RankGroups{2, 2}, RankGroups{2, 4},
                                     RankGroups{3, 2}, RankGroups{4, 1}, RankGroups{4, 2}}) {
      if (ranks % (groups.size * groups.stride) != 0) continue;
      for (const Algorithm* algorithm : all_algorithms())
        for (const std::size_t count : {1u, 1001u, 40'002u})
          wrong += wrong_in_groups(rank, session, *algorithm, groups, count);
    }
  });
  session.leave();
  return wrong == 0 ? 0 : 3;
}

TEST(RealGroups, AreExactOnThreads) {
  for (const int ranks : {4, 6, 8}) EXPECT_EQ(groups_status({}, ranks), 0) << ranks;
}

TEST(RealGroups, AreExactBetweenProcesses) {
  NEEDS_OFI();
  for (const auto& [processes, each] : {std::pair(4, 1), {6, 1}, {2, 4}})
    EXPECT_EQ(
        spawn(processes,
              [each = each](const ProcessPlace& place) { return groups_status(place, each); }),
        0)
        << processes << " x " << each;
}

// ------------------------------------------------------------------ steps

/// The one row of `run --workload resnet50` with these options.
json row_of(const std::string& options) {
  const Result r =
      run("--workload resnet50 --compute-scale 0.2 --iterations 2 --warmup 1 "
          "--format json " +
          options);
  EXPECT_EQ(r.status, 0) << options << "\n" << r.out;
  return r.status == 0 ? json::parse(r.out).at("rows").at(0) : json();
}

double bytes_of(const json& row, const std::string& kind) {
  for (const json& c : row.at("collectives"))
    if (c.at("kind") == kind) return c.at("bytes");
  return 0;
}

constexpr double kParameters = 4 * 25'557'032.0;  // of torchvision's ResNet-50 in fp32

void expect_whole_step(const json& row) {
  const double compute = row.at("forward_s").get<double>() + row.at("backward_s").get<double>(),
               step = row.at("median_s");
  EXPECT_GE(step, compute);
  EXPECT_NEAR(row.at("exposed_s").get<double>(), step - compute, 1e-9);
  double exposed = 0, longest = 0;
  for (const json& c : row.at("collectives")) {
    EXPECT_GE(c.at("exposed_s").get<double>(), 0) << c;
    exposed += c.at("exposed_s").get<double>();
    longest = std::max(longest, c.at("time_s").get<double>());
  }
  EXPECT_GT(longest, 0);
  // Medians of two steps: the parts need not add up to the whole.
  EXPECT_LE(exposed, 1.2 * (row.at("p95_s").get<double>() - compute));
  EXPECT_LE(longest, 1.2 * row.at("p95_s").get<double>());
}

TEST(RealReplay, MovesWhatEachStrategySays) {
  const json ddp = row_of("--ranks 4");
  expect_whole_step(ddp);
  EXPECT_EQ(bytes_of(ddp, "all_reduce"), kParameters);
  const json zero1 = row_of("--ranks 4 --sharding zero1");
  expect_whole_step(zero1);
  EXPECT_EQ(bytes_of(zero1, "reduce_scatter"), kParameters);
  EXPECT_EQ(bytes_of(zero1, "all_gather"), kParameters);
  const json zero3 = row_of("--ranks 4 --sharding fsdp");
  expect_whole_step(zero3);
  EXPECT_EQ(bytes_of(zero3, "reduce_scatter"), kParameters);
  // All again before backward, but for the root and the last block (layer4.2).
  const double root = 4 * (64 * 3 * 49 + 128 + 2048 * 1000 + 1000),
               last = 4 * (2048 * 512 + 512 * 512 * 9 + 512 * 2048 + 2 * (512 + 512 + 2048));
  EXPECT_EQ(bytes_of(zero3, "all_gather"), 2 * kParameters - root - last);
  const json kept = row_of("--ranks 4 --sharding zero3 --keep-gathered");
  EXPECT_EQ(bytes_of(kept, "all_gather"), kParameters);
}

TEST(RealReplay, HybridGroupsReduceTheirShards) {
  for (const std::string on : {"--ranks 4", "--ranks 4 --transport ofi",
                               "--ranks 4 --transport "
                               "ofi --per-process 2"}) {
    if (on != "--ranks 4" && !has_ofi()) continue;
    const json row = row_of(on + " --sharding zero3 --hybrid 2 --units '4 MiB' --algorithm direct");
    expect_whole_step(row);
    EXPECT_EQ(bytes_of(row, "reduce_scatter"), kParameters) << on;
    EXPECT_NEAR(bytes_of(row, "all_reduce"), kParameters / 2, 4 * 161) << on;
    for (const json& c : row.at("collectives")) EXPECT_EQ(c.at("ranks"), 2) << on;
  }
}

/// Collectives that take next to no time leave a step of mere computing.
TEST(RealReplay, ComputesAsLongAsItSays) {
  const Result r = run(
      "--workload resnet50 --ranks 2 --sharding zero3 --dtype f16 --compute-scale 20 --iterations "
      "1 --warmup 1 --format json");
  ASSERT_EQ(r.status, 0) << r.out;
  const json row = json::parse(r.out).at("rows").at(0);
  const double compute = row.at("forward_s").get<double>() + row.at("backward_s").get<double>();
  EXPECT_NEAR(row.at("forward_s").get<double>() / compute, 1.0 / 3, 0.01);
  EXPECT_GT(row.at("median_s").get<double>(), compute);
  EXPECT_LT(row.at("median_s").get<double>(), 1.5 * compute);
}

TEST(RealReplay, ReportsForPeople) {
  const Result r = run("--workload resnet50 --ranks 2 --sharding zero2 --iterations 1 --warmup 0");
  ASSERT_EQ(r.status, 0) << r.out;
  for (const char* part : {"zero2", "all_gather", "reduce_scatter", "exposed s", "97.5 MiB"})
    EXPECT_SAYS(r.out, part);
}

// ------------------------------------------------------------------ validate

/// Seconds of a collective of 1 MiB on the four hosts of `folder`, by the profile ideal.
double simulated(const fs::path& folder, const std::string& collective) {
  const Result r =
      shell(kProgram + " compare --instance " + (folder / "host.yaml").string() +
            " --nodes 4 --algorithm ring --sizes '1 MiB' --profile ideal --collective " +
            collective + " --format json");
  EXPECT_EQ(r.status, 0) << r.out;
  return r.status == 0 ? json::parse(r.out).at("points").at(0).at("time_us").get<double>() * 1e-6
                       : 0;
}

TEST(ValidateReplays, AddUpToTheirCollectives) {
  const fs::path folder = fs::path(testing::TempDir()) / "bed-replays";
  const std::string testbed = std::string(FOREDUCE_SOURCE_FOLDER) + "/tests/testbed/testbed.py";
  ASSERT_EQ(shell(testbed + " --hosts 4 --rate 100 --write " + folder.string()).status, 0);
  const json unit{{"name", "a.0"}, {"elements", 1 << 18}, {"share", 1}, {"root", false}};
  json zero3{{"algorithm", "ring"}, {"inner", "ring"},  {"workload", "one unit"},
             {"segments", 0},       {"dtype", "float"}, {"forward_s", 0.25},
             {"backward_s", 0.5},   {"median_s", 1.0}};
  json ddp = zero3;
  zero3["step"] = {
      {"sharding", "zero3"},           {"shard_ranks", 4}, {"replicas", 1}, {"prefetch", 1},
      {"reshard_after_forward", true}, {"units", {unit}}};
  ddp["step"] = {{"sharding", "none"},
                 {"shard_ranks", 1},
                 {"replicas", 4},
                 {"buckets", {{{"elements", 1 << 18}, {"ready", 1}}}}};
  json report{{"kind", "run"}, {"layout", {{"ranks", 4}}}, {"rows", {zero3, ddp}}};
  const auto validated = [&](const std::string& options) {
    std::ofstream(folder / "run.json") << report;
    return shell(kProgram + " validate ideal " + (folder / "run.json").string() + " --cluster " +
                 (folder / "cluster.yaml").string() + " " + options);
  };
  const Result r = validated("--format json");
  ASSERT_EQ(r.status, 0) << r.out;
  const json rows = json::parse(r.out).at("replays");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_NEAR(rows[0].at("predicted_s").get<double>(),
              0.75 + simulated(folder, "all_gather") + simulated(folder, "reduce_scatter"), 1e-9);
  EXPECT_NEAR(rows[1].at("predicted_s").get<double>(), 0.75 + simulated(folder, "all_reduce"),
              1e-9);
  EXPECT_EQ(rows[0].at("measured_s"), 1.0);
  const Result table = validated("");
  for (const char* part : {"2 replayed training steps", "one unit", "zero3", "ddp"})
    EXPECT_SAYS(table.out, part);
  EXPECT_SAYS(validated("--format csv").out, "zero3");
  // What a person may have broken.
  const json good = report;
  for (const auto& [path, value] : {std::pair("/rows/0/step/shard_ranks", json(3)),
                                    {"/rows/0/step/units/0/elements", json(-1)},
                                    {"/rows/0/step/units", json("none")},
                                    {"/rows/0/step/sharding", json("zero4")},
                                    {"/rows/0/algorithm", json("double-tree")},
                                    {"/rows/0/median_s", json(0)},
                                    {"/rows/1/step", json::object()},
                                    {"/rows/1/step", json(7)}}) {
    report = good;
    report[json::json_pointer(path)] = value;
    const Result bad = validated("");
    EXPECT_EQ(bad.status, 2) << path << "\n" << bad.out;
  }
}

}  // namespace
}  // namespace foreduce
