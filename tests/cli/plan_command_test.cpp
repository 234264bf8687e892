// What `plan` answers, seen from outside.
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

class PlanCommand : public testing::Test {
 protected:
  /// Asks for a plan, or something else, of one training with this goal.
  Result ask(const std::string& goal, const std::string& command = "plan",
             const std::string& options = "") const {
    return foreduce_says(command + " " + file(goal) + options);
  }
  std::string file(const std::string& goal) const {
    return folder
        .write("plan.yaml", R"(
name: q
workload: { model: resnet50, precision: fp16, batch_per_gpu: 128, global_batch: 2048 }
cluster: { instance: p3.16xlarge, nodes: [1, 2, 4] }
allreduce: { algorithm: ring }
)" + goal)
        .string();
  }
  TemporaryFolder folder;
};

constexpr const char* kWithinAnHour = "goal: { samples: 10 million, deadline: 1 h }\n";

TEST_F(PlanCommand, SaysSmallGoalsInFull) {
  const std::string goal = " --set 'goal={samples: 1, budget: 1e-9 USD}'";
  EXPECT_SAYS(foreduce_says("plan " + scenario_path("plan-resnet50") + goal).out,
              "Goal: 1 sample for at most 1e-09 USD\n");
}

TEST_F(PlanCommand, NamesTheClusterToTake) {
  const Result r = ask(kWithinAnHour);
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "\nCheapest and most robust: 1 x p3.16xlarge, ring, accum 2: ");
}

// On eight GPUs steps are multiples of 1024 samples: 2100 is near to one, 1500 is not.
TEST_F(PlanCommand, TakesTheNearestStepThatAClusterCanDo) {
  const auto plan = [&](int samples) {
    const auto asked =
        folder.write("nearest.yaml",
                     "name: q\nworkload: { model: resnet50, precision: fp16, batch_per_gpu: 128, "
                     "global_batch: " +
                         std::to_string(samples) +
                         R"( }
cluster: { instance: p3.16xlarge, nodes: 1 }
allreduce: { algorithm: ring }
)" + kWithinAnHour);
    return foreduce_says("plan " + asked.string());
  };
  const Result near = plan(2100);
  EXPECT_EQ(near.status, 0) << near.out;
  EXPECT_SAYS(near.out, "A step of 2100 samples cannot be cut so on every cluster;");
  EXPECT_SAYS(near.out, "where it cannot, the nearest is taken:\n  2048.");
  const Result far = plan(1500);
  EXPECT_SAYS(far.out, "a step of 1500 samples cannot be cut into micro-batches of 128");
  const Result exact = plan(2048);
  EXPECT_EQ(exact.out.find("the nearest is taken"), std::string::npos);
}

// It read "8 x 7xp4d.24xlarge+1xp4de.24xlarge".
TEST_F(PlanCommand, CountsTheNodesOfAMixedClusterOnce) {
  const auto mixed = folder.write("mixed.yaml", R"(
name: q
workload: { model: resnet50, precision: fp16, batch_per_gpu: 128 }
cluster: { mixed: [{ instance: p4d.24xlarge, nodes: 3 }, { instance: p4de.24xlarge, nodes: 1 }] }
allreduce: { algorithm: ring }
goal: { samples: 10 million, deadline: 1 h }
)");
  const Result r = foreduce_says("plan " + mixed.string());
  EXPECT_SAYS(r.out, ": 3xp4d.24xlarge+1xp4de.24xlarge, ring: ");
}

TEST_F(PlanCommand, SaysWhatIsRuledOut) {
  EXPECT_SAYS(std::regex_replace(ask(kWithinAnHour).out, std::regex("\\s+"), " "),
              "ruled out: 4 x p3.16xlarge: a step of 2048 samples cannot be cut into "
              "micro-batches of 128 on 32 GPUs");
}

TEST_F(PlanCommand, DrawsAPicture) {
  const std::filesystem::path pictures = folder.path() / "pictures";
  ask(kWithinAnHour, "plan", " --plot " + pictures.string());
  EXPECT_TRUE(read_text(pictures / "q.svg").starts_with("<svg"));
}

TEST_F(PlanCommand, EndsWithOneWhereNoClusterReachesTheGoal) {
  const Result r = ask("goal: { samples: 10 million, deadline: 1 min }\n");
  EXPECT_EQ(r.status, 1) << r.out;
  EXPECT_SAYS(r.out, "No cluster reaches the goal.");
}

// A part of the clusters would be no choice.
TEST_F(PlanCommand, RefusesToBePartOfAnArrayJob) {
  const Result r =
      shell("SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_COUNT=4 " FOREDUCE_PROGRAM " plan " +
            file("goal: { samples: 10 million }\n"));
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS_NOT(r.out, "part 7");
}

TEST_F(PlanCommand, NeedsAGoal) {
  const Result r = ask("");
  EXPECT_EQ(r.status, 2) << r.out;
  EXPECT_SAYS(r.out, "a plan needs a goal");
}

TEST_F(PlanCommand, PredictDoesNotUseItsGoal) {
  const Result r = ask("goal: { samples: 10 million }\n", "predict");
  EXPECT_SAYS(r.out, "without effect here: goal");
  EXPECT_EQ(r.status, 1);  // for the four nodes that cannot be
}

TEST_F(PlanCommand, SaysWhyNoClusterCanTrain) {
  const auto scenario = folder.write("large.yaml", R"(
name: q
workload: { model: llama2-7b, precision: bf16, batch_per_gpu: 1 }
cluster: { instance: [p3.16xlarge, g6.48xlarge], nodes: 1 }
allreduce: { algorithm: ring }
goal: { tokens: 1 billion }
)");
  const Result r = foreduce_says("plan " + scenario.string());
  EXPECT_EQ(r.status, 1) << r.out;
  EXPECT_SAYS(r.out, "ruled out: 1 x p3.16xlarge: V100-SXM2-16GB has no bf16 arithmetic");
  EXPECT_SAYS(r.out, "ruled out: 1 x g6.48xlarge: llama2-7b does not fit");
  EXPECT_SAYS(r.out, "No cluster can train this.");
}

}  // namespace
}  // namespace foreduce
