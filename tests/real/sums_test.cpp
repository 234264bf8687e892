// Real ranks over libfabric and threads: sums are exact, baselines and replays work.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "algorithms/core/registry.hpp"
#include "real/launch.hpp"
#include "real/measure.hpp"
#include "tests/real/real_support.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

std::string all_algorithms() {
  std::string names;
  for (const Algorithm* a : algorithms())
    if (!a->name.starts_with("nvls"))
      names +=
          (names.empty() ? "" : ",") + std::string(a->name);  // those need a switch that reduces
  return names;
}

TEST(RealOfi, EveryAlgorithmSumsExactlyBetweenProcesses) {
  NEEDS_OFI();
  for (const int ranks : {1, 2, 3, 8})  // RealCollectives tries others
    expect_exact("--transport ofi --ranks " + std::to_string(ranks) + " --algorithm " +
                 all_algorithms() + " --sizes '4 B,20 KiB,600 KiB'");
}
TEST(RealOfi, NodesOfThreadsSumExactly) {
  NEEDS_OFI();
  expect_exact("--transport ofi --ranks 6 --per-process 2 --algorithm " + all_algorithms() +
               " --sizes '4 B,1 MiB' --segments 3");
}
TEST(RealOfi, EveryTypeSumsExactly) {
  NEEDS_OFI();
  for (const char* type : {"f32", "f64", "f16", "bf16", "i32"})
    expect_exact(std::string("--transport ofi --ranks 3 --algorithm ring,double-tree --sizes '6 "
                             "KiB,1 MiB' --dtype ") +
                 type);
}
TEST(RealOfi, SeveralRailsAndChannelsSumExactly) {
  NEEDS_OFI();
  expect_exact(
      "--transport ofi --ranks 4 --rails 2 --channels 2 --algorithm ring,double-tree --sizes '4 "
      "B,3 MiB'");
}
TEST(RealOfi, OtherProvidersSumExactly) {
  NEEDS_OFI();
  if (shell(kProgram + " list transports --format csv").out.find("shm") == std::string::npos)
    GTEST_SKIP() << "libfabric has no shm provider here";
  expect_exact(
      "--transport ofi --provider shm --ranks 3 --algorithm ring,direct --sizes '4 B,1 MiB'");
}
// A registration ends with its memory, because the next data may have the same address.
TEST(RealOfi, RegisteredMemorySumsExactlyIfDataMoves) {
  NEEDS_OFI();
  const int status = spawn(2, [](const ProcessPlace& here) {
    SessionOptions options;
    options.network.register_always = true;
    Session session(here, options);
    double wrong = 0;
    for (int round = 0; round < 4; ++round) {
      const Algorithm& ring = *find_algorithm("ring");
      const std::size_t count = 600'000;
      Trial trial{"ring",  &ring,
                  nullptr, with_defaults(ring, {0, 1, "ring"}, session.workers(), count * 4),
                  count,   Type::f32};
      for (const TrialResult& r :
           measure(session, {trial}, {.warmup = 0, .iterations = 2, .check = true}))
        wrong += r.in_place.wrong + r.out_of_place.wrong;
    }
    session.leave();
    return wrong == 0 ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
}
TEST(RealThreads, EveryAlgorithmSumsExactlyInTheLoop) {
  expect_exact("--ranks 4 --algorithm " + all_algorithms() + " --sizes '4 B,20 KiB,1 MiB'");
}

TEST(RealBaseline, MpiIsInTheSameTable) {
  NEEDS_MPI();
  expect_exact("--ranks 2 --algorithm ring,mpi --sizes '64 KiB'");
}

TEST(RealReplay, StepWaitsForItsGradients) {
  const Result r = run(
      "--workload resnet50 --ranks 2 --iterations 1 --warmup 0 --compute-scale 0.2 --format json");
  ASSERT_EQ(r.status, 0) << r.out;
  const auto row = nlohmann::json::parse(r.out)["rows"][0];
  EXPECT_GT(row["step"]["buckets"].size(), 2u);
  EXPECT_GE(row["median_s"].get<double>(), row["backward_s"].get<double>());
}

TEST(RealEnvironment, ReportsContainNoVariables) {
  const Result r =
      shell("SECRET_TOKEN=hunter2 " + kProgram + " run --sizes '4 B' --iterations 1 --format json");
  ASSERT_EQ(r.status, 0);
  EXPECT_SAYS_NOT(r.out, "hunter2");
}

}  // namespace
}  // namespace foreduce
