// Sweeps in parts: shards, array jobs, merging, interrupts, simulations that die.
#include <gtest/gtest.h>

#include "scenarios/report/report.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;
using nlohmann::json;

const std::string kSweep = "predict " + scenario_path("maskrcnn-p3dn") + " --no-cost";

class Sweeps : public testing::Test {
 protected:
  /// Writes an answer to a file of that name, and returns its path. `environment`: before the
  /// program.
  std::string answer(const std::string& arguments, const std::string& name,
                     const std::string& environment = "") const {
    const std::string file = (folder.path() / name).string();
    const Result r = shell(environment + " " FOREDUCE_PROGRAM " " + arguments + " -o " + file);
    EXPECT_EQ(r.status, 0) << arguments << "\n" << r.out;
    return file;
  }
  /// The points of the sweep's part that an environment asks for.
  json part(const std::string& environment, const std::string& more = "") const {
    return json::parse(read_text(answer(kSweep + more, "part.json", environment)))["points"];
  }
  TemporaryFolder folder;
};

TEST_F(Sweeps, ShardsThroughGnuParallelGiveTheBytesOfOneRun) {
  if (shell("command -v parallel").status != 0) GTEST_SKIP() << "GNU parallel is not installed";
  const std::string whole = answer(kSweep, "whole.json");
  const Result r = shell("parallel -j 2 " FOREDUCE_PROGRAM " " + kSweep + " --shard {}/4 -o " +
                         (folder.path() / "part-{}.json").string() + " ::: 1 2 3 4");
  ASSERT_EQ(r.status, 0) << r.out;
  const std::string merged =
      answer("merge " + (folder.path() / "part-*.json").string(), "merged.json");
  EXPECT_TRUE(read_text(whole) == read_text(merged));
}

TEST_F(Sweeps, ArrayJobsOfSlurmAndAwsBatchKnowTheirPart) {
  const json flag = part("", " --shard 3/4");
  EXPECT_EQ(part("SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_COUNT=4"), flag);
  EXPECT_EQ(part("SLURM_ARRAY_TASK_ID=12 SLURM_ARRAY_TASK_MIN=10 SLURM_ARRAY_TASK_COUNT=4"), flag);
  EXPECT_EQ(part("AWS_BATCH_JOB_ARRAY_INDEX=2 AWS_BATCH_JOB_ARRAY_SIZE=4"), flag);
}

TEST_F(Sweeps, MergeRefusesWhatDoesNotFitTogether) {
  const std::string one = answer(kSweep + " --shard 1/2", "1.json");
  const std::string two = answer(kSweep + " --shard 2/2", "2.json");
  const std::string other =
      answer("predict " + scenario_path("claim-herring") + " --no-cost --shard 2/2", "other.json");
  EXPECT_EQ(foreduce_says("merge " + two + " " + one).status, 0);
  for (const auto& [files, part] : std::vector<std::pair<std::string, std::string>>{
           {one, "points are missing"},
           {one + " " + two + " " + one, "is also in"},
           {one + " " + other, "is a part of something else"},
           {one + " /nowhere.json", "there is no such file"},
           {one + " " + scenario_path("gpt2-p4d"), "not JSON from here on"}}) {
    const Result r = foreduce_says("merge " + files);
    EXPECT_EQ(r.status, 2) << files;
    EXPECT_SAYS(r.out, part);
  }
}

TEST_F(Sweeps, MergeLeavesItsPartsAsTheyAre) {
  const std::string one = answer(kSweep + " --shard 1/2", "1.json"),
                    two = answer(kSweep + " --shard 2/2", "2.json"), before = read_text(two);
  const Result r = foreduce_says("merge " + one + " " + two + " -o " + two);
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "2.json: error: -o would overwrite a file");
  EXPECT_EQ(read_text(two), before);
}

TEST_F(Sweeps, APartThatIsShownSaysThatItIsOne) {
  const std::string line = "This is part 2 of 2 of a sweep of";
  const std::string part = answer(kSweep + " --shard 2/2", "2.json");
  EXPECT_SAYS(foreduce_says("show " + part).out, line);
  const std::string whole = answer(kSweep, "whole.json");
  EXPECT_EQ(foreduce_says("show " + whole).out.find("This is part"), std::string::npos);
}

TEST_F(Sweeps, RefuseShardsThatAreNone) {
  for (const char* shard : {"0/4", "5/4", "x", "1/0", "-1/4"})
    EXPECT_EQ(foreduce_says(kSweep + " --shard " + shard).status, 2) << shard;
}

TEST_F(Sweeps, PartsThatReadDifferentMachinesDoNotFitTogether) {
  const auto write_machine = [&](const std::string& rate) {
    folder.write("m.yaml", R"(
instance: m
gpu: { model: X, count: 1, reduce_bandwidth: 500 GB/s }
nic: { count: 1, latency: 5 us, bandwidth: )" +
                               rate + " }\n");
  };
  const std::string question = "compare " + folder
                                                .write("s.yaml", R"(
name: x
cluster: { instance: ./m.yaml, nodes: [2, 3] }
allreduce: { algorithm: ring }
messages: { sizes: 1 MiB }
)")
                                                .string();
  write_machine("100 Gbps");
  const std::string one = answer(question + " --shard 1/2", "1.json");
  const std::string two = answer(question + " --shard 2/2", "2.json");
  EXPECT_EQ(foreduce_says("merge " + one + " " + two).status, 0);
  write_machine("10 Gbps");
  answer(question + " --shard 2/2", "2.json");
  EXPECT_EQ(foreduce_says("merge " + one + " " + two).status, 2);
}

TEST_F(Sweeps, PartsThatReadProfilesFitTogether) {
  const std::string shipped = read_text(source_folder() / "models" / "profiles" / "nccl-a100.yaml");
  folder.write("profile-a.yaml", shipped + "# a\n");
  folder.write("profile-b.yaml", shipped + "# b\n");
  const auto file = folder.write("profiles.yaml", R"(
name: x
cluster: { instance: p4d.24xlarge, nodes: 2 }
allreduce: { algorithm: ring, profile: [./profile-a.yaml, ./profile-b.yaml] }
messages: { sizes: 1 MiB }
)");
  std::string parts;
  for (const char* part : {"1", "2", "3"})  // the third is empty
    parts += " " + answer("compare " + file.string() + " --shard " + part + "/3",
                          std::string(part) + ".json");
  const Result merged = foreduce_says("merge" + parts);
  ASSERT_EQ(merged.status, 0) << merged.out;
  const auto points = json::parse(merged.out)["points"];
  EXPECT_NE(points[0]["profile"], points[1]["profile"]);
}

TEST(Ranges, NameNeighboursTogether) {
  EXPECT_EQ(as_ranges({}), "");
  EXPECT_EQ(as_ranges({3}), "3");
  EXPECT_EQ(as_ranges({0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
}

TEST(Ranges, ListAtMostTwenty) {
  std::vector<std::size_t> odd;
  for (std::size_t n = 1; n < 41; n += 2) odd.push_back(n);
  EXPECT_TRUE(as_ranges(odd).ends_with(", 37, 39"));
  odd.push_back(41);
  EXPECT_TRUE(as_ranges(odd).ends_with(", 37, 39, …"));
}

// 240 points: seconds of work on any machine; the signal comes when some rows are there.
TEST_F(Sweeps, InterruptKeepsCompleteRowsAndSaysWhatIsMissing) {
  const auto file = folder.write("long.yaml", R"(
name: long
workload: { model: bert-large, batch_per_gpu: 8 }
cluster: { instance: p4d.24xlarge, nodes: [2, 4, 8, 16, 24, 32] }
allreduce:
  algorithm: [ring, double-tree]
  bucket: [5 MiB, 10 MiB, 15 MiB, 20 MiB, 25 MiB, 30 MiB, 35 MiB, 40 MiB, 45 MiB, 50 MiB]
  segments: [8, 32]
)");
  const std::string out = (folder.path() / "rows.csv").string();
  const Result r =
      shell(FOREDUCE_PROGRAM " predict " + file.string() + " -o " + out +
            " & pid=$!; while [ \"$(wc -l < " + out +
            " 2>/dev/null || echo 0)\" -lt 3 ]; do sleep 0.05; done; kill -INT $pid; wait $pid; "
            "exit $?");
  EXPECT_EQ(r.status, 130) << r.out;
  EXPECT_SAYS(r.out, "interrupted: ");
  EXPECT_SAYS(r.out, "of 240 points are missing");
  const auto rows = lines_of(read_text(out));
  EXPECT_GE(rows.size(), 3u);
  EXPECT_LT(rows.size(), 241u);
  // Whole lines; a quoted source may hold commas of its own.
  for (const std::string& row : rows)
    EXPECT_GE(std::count(row.begin(), row.end(), ','),
              std::count(rows[0].begin(), rows[0].end(), ','));
}

// Two seconds of processor time are too little for a plain double tree (an odd number has no
// mirror) over 4,008 GPUs, and enough for the rest.
TEST_F(Sweeps, KilledSimulationIsOneRow) {
  const auto file = folder.write("large.yaml", R"(
name: large
cluster: { instance: p3dn.24xlarge, nodes: [1, 2, 1001] }
allreduce: { algorithm: double-tree, segments: 512 }
messages: { sizes: 64 MiB }
)");
  const Result r = shell("ulimit -t 1; " FOREDUCE_PROGRAM " compare " + file.string() +
                         " --format json 2>/dev/null");
  EXPECT_EQ(r.status, 1) << r.out;
  const auto points = json::parse(r.out)["points"];
  ASSERT_EQ(points.size(), 3u);
  EXPECT_TRUE(points[0].contains("time_us"));
  EXPECT_TRUE(points[1].contains("time_us"));
  EXPECT_SAYS(points[2]["error"].get<std::string>(), "killed by signal");
}

// Clusters of up to 2,000 nodes by 2,000 batches by 3 models: none of it is made.
TEST_F(Sweeps, MoreThanAMillionPointsAreRefusedBeforeAnyIsMade) {
  const auto file = folder.write("huge.yaml", R"(
name: huge
workload: { model: [resnet50, bert-large, vgg16], batch_per_gpu: 1..2000 }
cluster: { instance: p3dn.24xlarge, nodes: 1..2000 }
allreduce: { algorithm: [ring, nccl] }
)");
  for (const std::string command : {"predict", "explain"}) {
    const Result r = shell("ulimit -v 700000; ulimit -t 5; " FOREDUCE_PROGRAM " " + command + " " +
                           file.string());
    EXPECT_EQ(r.status, 2) << r.out;
    EXPECT_SAYS(r.out, "24000000 points");
    EXPECT_SAYS(r.out, "--shard K/N");
  }
  const auto messages = folder.write("messages.yaml", R"(
name: messages
cluster: { instance: p3dn.24xlarge, nodes: 1..10000 }
allreduce: { algorithm: nccl, nccl: { channels: 1..16 } }
messages: { sizes: [1 KiB, 2 KiB, 4 KiB, 8 KiB, 16 KiB, 32 KiB, 64 KiB] }
)");
  const Result r =
      shell("ulimit -v 700000; ulimit -t 5; " FOREDUCE_PROGRAM " compare " + messages.string());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "1120000 points");
}

// One point of so many is asked for that no machine could list them.
TEST(Sweep, OnePointOfVeryManyIsAnsweredWithoutTheOthers) {
  const TemporaryFolder folder;
  const auto file = folder.write("many.yaml", R"(
name: many
workload: { model: resnet50, batch_per_gpu: 1..10000, accumulation: 1..10000 }
cluster: { instance: p4d.24xlarge, nodes: 1..10 }
allreduce: { algorithm: nccl, bucket: [1 MiB, 2 MiB, 4 MiB, 8 MiB, 16 MiB, 25 MiB, 32 MiB, 64 MiB, 100 MiB, 128 MiB] }
)");
  const nlohmann::json report = json_of("predict " + file.string() + " --point 7");
  ASSERT_EQ(report["points"].size(), 1u);
  EXPECT_EQ(report["points"][0]["point"], 7);
  EXPECT_EQ(report["points"][0]["bucket_bytes"], 64 << 20);
  EXPECT_EQ(report["points_in_sweep"], 10'000'000'000u);
}

}  // namespace
}  // namespace foreduce
