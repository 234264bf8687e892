// Real runs between network namespaces of this machine, with links that are slow, cut or gone.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/real/real_support.hpp"
#include "tests/real/testbed.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

namespace fs = std::filesystem;

Result on_testbed(const std::string& options, const std::string& command) {
  return shell(kTestbed + " " + options + " -- " + kProgram + " " + command);
}
#define NEEDS_TESTBED(result) \
  if ((result).status == 77) GTEST_SKIP() << "no network namespaces here: " << (result).out

TEST(Testbed, CalibratesAndSumsExactlyOnLimitedLinks) {
  NEEDS_OFI();
  const fs::path folder = fs::path(testing::TempDir()) / "bed4";
  const std::string bed = "--hosts 4 --rate 400 --write " + folder.string();
  const Result calibrated = on_testbed(
      bed, "calibrate --transport ofi --sizes 16KiB:512KiB:x2 --iterations 3 --cluster " +
               (folder / "cluster.yaml").string() + " -o " + (folder / "profile.yaml").string());
  NEEDS_TESTBED(calibrated);
  // 1: it does not describe its messages, which other jobs on this machine may hold up.
  ASSERT_LE(calibrated.status, 1) << calibrated.out;
  const Result ran = on_testbed(bed,
                                "run --transport ofi --algorithm ring,direct --sizes 256KiB,1MiB "
                                "--iterations 3 --warmup 1 --check --format json -o " +
                                    (folder / "run.json").string());
  ASSERT_EQ(ran.status, 0) << ran.out;
  std::ifstream in(folder / "run.json");
  const auto rows = nlohmann::json::parse(in)["rows"];
  for (const auto& row : rows) EXPECT_EQ(row["in_place"]["wrong"], 0);
  const Result validated =
      shell("cd " + folder.string() + " && " + kProgram +
            " validate ./profile.yaml run.json --cluster cluster.yaml --format json");
  ASSERT_EQ(validated.status, 0) << validated.out;
  // The error has no limit here, because other jobs share this machine. docs/testbed.md has a table
  // of errors.
  EXPECT_EQ(nlohmann::json::parse(validated.out)["points"], 4);
  const Result step = on_testbed(bed,
                                 "run --transport ofi --workload resnet50 --dtype f16 --sharding "
                                 "zero3 --hybrid 2 --iterations 1 --warmup 0 --format json -o " +
                                     (folder / "step.json").string());
  ASSERT_EQ(step.status, 0) << step.out;
  const Result predicted =
      shell("cd " + folder.string() + " && " + kProgram +
            " validate ./profile.yaml step.json --cluster cluster.yaml --format json");
  ASSERT_EQ(predicted.status, 0) << predicted.out;
  const auto replayed = nlohmann::json::parse(predicted.out)["replays"].at(0);
  EXPECT_EQ(replayed["sharding"], "zero3");
  EXPECT_EQ(replayed["hybrid"], 2);
  EXPECT_LT(std::abs(replayed["error"].get<double>()), 0.5);
}

TEST(Testbed, CutLinkEndsEveryRank) {
  NEEDS_OFI();
  const Result r = on_testbed(
      "--hosts 3 --rate 100 --cut 1:6",
      "run --transport ofi --algorithm ring --sizes '4 MiB' --iterations 1000 --timeout 3");
  NEEDS_TESTBED(r);
  EXPECT_EQ(r.status, 1) << r.out;
  EXPECT_LT(r.seconds, 40);
  expect_rank_report(r.out);
  for (const char* rank : {"rank 0", "rank 1", "rank 2"}) EXPECT_SAYS(r.out, rank);
}

TEST(Testbed, KilledHostEndsEveryRank) {
  NEEDS_OFI();
  const Result r = on_testbed(
      "--hosts 3 --rate 100 --kill 2:6",
      "run --transport ofi --algorithm ring --sizes '4 MiB' --iterations 1000 --timeout 20");
  NEEDS_TESTBED(r);
  EXPECT_EQ(r.status, 137) << r.out;
  EXPECT_LT(r.seconds, 20) << "a closed connection is known at once";
  EXPECT_SAYS(r.out, "process 2 is gone");
  expect_rank_report(r.out);
}

TEST(Testbed, LeavesNoProcessesAndLinks) {
  const Result r = shell("links=$(ip -o link | wc -l); " + kTestbed +
                         " --hosts 2 -- sleep 31 & bed=$!; sleep 1; kill -9 $bed; sleep 1; pgrep "
                         "-x -f 'sleep 31' && echo LEFT; "
                         "[ $(ip -o link | wc -l) = $links ] || echo LEFT; true");
  EXPECT_SAYS_NOT(r.out, "LEFT");
}

}  // namespace
}  // namespace foreduce
