// Which cluster a plan takes, by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iterator>

#include "scenarios/report/validation_report.hpp"
#include "scenarios/sweep/memory_shortage.hpp"
#include "scenarios/sweep/plan.hpp"
#include "tests/support/files.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

constexpr Seconds kHour{3600};

Scenario plan_scenario(std::optional<Seconds> deadline, std::optional<Dollars> budget) {
  Scenario s;
  s.name = "a plan";
  s.file = "s.yaml";
  s.workload.emplace().model.values = {"resnet50"};
  s.goal.emplace();
  s.goal->samples = Count{3.6e6};
  s.goal->deadline = deadline;
  s.goal->budget = budget;
  return s;
}

/// A training takes 1,000 / rate hours; its 90 % prediction interval is a factor of 1.25 either
/// way.
Prediction cluster(const std::string& instance, double rate, std::optional<double> usd_per_hour) {
  Prediction p;
  p.model = "resnet50";
  p.sample = "224x224 image";
  p.instance = instance;
  p.nodes = 2;
  p.gpus = 16;
  p.batch_per_gpu = 8;
  p.algorithm = "ring";
  p.throughput = rate;
  p.step.total = Seconds{0.1};
  p.interval = {Seconds{0.08}, Seconds{0.125}, true, {}};
  p.compute_measured = true;
  p.priced = usd_per_hour.has_value();
  p.price = DollarsPerHour{usd_per_hour.value_or(0)};
  return p;
}

/// 10 h for 100 USD; 2.5 h for 125; 5 h for 300, which is beaten in both.
std::vector<Prediction> three() {
  std::vector<Prediction> points = {cluster("slow", 100, 10), cluster("quick", 400, 50),
                                    cluster("beaten", 200, 60)};
  for (std::size_t i = 0; i < points.size(); ++i) points[i].number = i;
  return points;
}

std::string instance_of(const TrainingPlan& plan, const std::vector<Prediction>& points,
                        const std::optional<std::size_t>& which) {
  return which ? points[plan.all[*which].at].instance : "-";
}

TrainingPlan plan_for(const Scenario& scenario, const std::vector<Prediction>& points) {
  return make_plan(*scenario.goal, goal_samples(scenario), points);
}

Json report_of(const Scenario& scenario, const std::vector<Prediction>& points) {
  const Sweep<Prediction> sweep{{scenario.name, scenario.file, "", {}}, points.size(), points};
  return plan_report(scenario, sweep, plan_for(scenario, points));
}

struct Choice {
  std::optional<Seconds> deadline;
  std::optional<Dollars> budget;
  const char *cheapest, *fastest, *most_robust;
};

class PlanChoice : public testing::TestWithParam<Choice> {};

TEST_P(PlanChoice, TakesCheapestFastestAndMostRobustWithinGoal) {
  const auto points = three();
  const TrainingPlan plan = plan_for(plan_scenario(GetParam().deadline, GetParam().budget), points);
  EXPECT_EQ(instance_of(plan, points, plan.cheapest), GetParam().cheapest);
  EXPECT_EQ(instance_of(plan, points, plan.fastest), GetParam().fastest);
  EXPECT_EQ(instance_of(plan, points, plan.most_robust), GetParam().most_robust);
}

INSTANTIATE_TEST_SUITE_P(
    goals, PlanChoice,
    testing::Values(Choice{{}, {}, "slow", "quick", "slow"},
                    Choice{12 * kHour, {}, "slow", "quick", "quick"},  // slow end: 12.5 h
                    Choice{6 * kHour, {}, "quick", "quick", "quick"},
                    Choice{{}, Dollars{110}, "slow", "slow", "-"},  // slow end: 125 USD
                    Choice{{}, Dollars{130}, "slow", "quick", "slow"},
                    Choice{6 * kHour, Dollars{110}, "-", "-", "-"},
                    Choice{10 * kHour, Dollars{100}, "slow", "slow", "-"}));  // just

TEST(Plan, TimesAndCostsFollowFromThroughputAndPrice) {
  const auto points = three();
  const TrainingPlan plan = plan_for(plan_scenario(4 * kHour, Dollars{120}), points);
  ASSERT_EQ(plan.all.size(), 3u);
  EXPECT_DOUBLE_EQ(plan.all[0].time.value, 9000);
  EXPECT_DOUBLE_EQ(plan.all[0].cost->value, 125);
  EXPECT_DOUBLE_EQ(plan.all[0].interval.low.value, 7200);
  EXPECT_DOUBLE_EQ(plan.all[0].interval.high.value, 11250);
  using Words = std::vector<std::string>;
  EXPECT_EQ(plan.all[0].missed, Words{"budget"});
  EXPECT_EQ(plan.all[1].missed, (Words{"deadline", "budget"}));
  EXPECT_EQ(plan.all[2].missed, Words{"deadline"});
}

TEST(Plan, FrontLeavesOutWhatIsBeatenInTimeAndCost) {
  const TrainingPlan plan = plan_for(plan_scenario({}, {}), three());
  ASSERT_EQ(plan.all.size(), 3u);
  EXPECT_TRUE(plan.all[0].front);
  EXPECT_FALSE(plan.all[1].front);
  EXPECT_TRUE(plan.all[2].front);
}

TEST(Plan, ClusterWithoutPriceIsNeverCheapest) {
  auto points = three();
  points[1] = cluster("unpriced", 400, {});
  const TrainingPlan plan = plan_for(plan_scenario(6 * kHour, {}), points);
  EXPECT_EQ(instance_of(plan, points, plan.fastest), "unpriced");
  EXPECT_EQ(instance_of(plan, points, plan.cheapest), "beaten");
}

TEST(Plan, ClusterWithoutPriceIsBeatenByItsLikeOnly) {
  auto points = three();
  points[1] = cluster("unpriced", 400, {});
  points.push_back(cluster("slower, unpriced", 50, {}));
  points.push_back(cluster("slowest", 40, 60));
  points.push_back(cluster("unpriced", 30, {}));
  const TrainingPlan plan = plan_for(plan_scenario({}, {}), points);
  ASSERT_EQ(plan.all.size(), 6u);
  EXPECT_TRUE(plan.all[1].front);  // nothing is known to beat it in cost
  EXPECT_TRUE(plan.all[3].front);  // nor this, of another type
  EXPECT_FALSE(plan.all[4].front);
  EXPECT_FALSE(plan.all[5].front);  // as many nodes of the same type are faster
  auto priced = three();
  priced.push_back(cluster("unpriced", 50, {}));
  EXPECT_TRUE(plan_for(plan_scenario({}, {}), priced).all[3].front);  // for nothing, perhaps
}

TEST(Plan, ClusterWithoutPriceMissesEveryBudget) {
  auto points = three();
  points[1] = cluster("unpriced", 400, {});
  const TrainingPlan plan = plan_for(plan_scenario({}, Dollars{1000}), points);
  EXPECT_EQ(plan.all[0].missed, std::vector<std::string>{"budget (no price)"});
  EXPECT_EQ(instance_of(plan, points, plan.fastest), "beaten");
}

TEST(Plan, CallsRobustByMeasuredComputeOnly) {
  auto points = three();
  for (Prediction& p : points) p.compute_measured = false;
  const TrainingPlan plan = plan_for(plan_scenario(100 * kHour, {}), points);
  EXPECT_TRUE(plan.cheapest);
  EXPECT_FALSE(plan.most_robust);
}

// What needs all of a GPU may run out of memory, for CUDA and NCCL take some of it.
TEST(Plan, CallsRobustOnlyWhatSurelyFits) {
  auto points = three();
  const auto robust = [&] { return plan_for(plan_scenario(100 * kHour, {}), points).most_robust; };
  const auto first = robust();
  ASSERT_TRUE(first);
  for (Prediction& p : points) {
    p.gpu_memory = Bytes{40e9};
    p.memory.activations = Bytes{39.5e9};
  }
  EXPECT_FALSE(robust());
  for (Prediction& p : points) p.memory.activations = Bytes{38.5e9};
  EXPECT_EQ(robust(), first);
}

TEST(Plan, NamesClustersThatAreRuledOutOnceByReason) {
  auto points = three();
  points[0].error = points[1].error = "too small";
  points[0].instance = points[1].instance = "same";
  points[1].nodes = 4;
  points[2].memory.optimizer = Bytes{20e9};
  points[2].gpu_memory = Bytes{16e9};
  points.push_back(points[0]);  // again, with another batch
  const Scenario scenario = plan_scenario({}, {});
  const TrainingPlan plan = plan_for(scenario, points);
  EXPECT_TRUE(plan.all.empty());
  ASSERT_EQ(plan.ruled_out.size(), 2u);
  EXPECT_EQ(plan.ruled_out[0].nodes, (std::vector<int>{2, 4}));
  EXPECT_TRUE(plan.ruled_out[0].algorithms.empty());
  const Json report = report_of(scenario, points);
  EXPECT_EQ(report["ruled_out"][0], "2, 4 x same: too small");
  EXPECT_SAYS(report["ruled_out"][1].get<std::string>(),
              "2 x beaten: resnet50 does not fit: weights, gradients and optimizer take 18.63 GiB, "
              "a GPU has 14.9 GiB");
  EXPECT_SAYS(render(report, View{}), "No cluster can train this.");
}

TEST(Plan, NamesFewOfManyThatAreRuledOut) {
  Json report = report_of(plan_scenario({}, {}), three());
  for (int i = 1; i <= 8; ++i) report["ruled_out"].push_back(fmt::format("{} x big: too small", i));
  EXPECT_SAYS(render(report, View{}), "ruled out: 3 more (--explain says why).");
  EXPECT_SAYS_NOT(render(report, View{}), "8 x big");
  EXPECT_SAYS(render(report, View{.explain = true}), "ruled out: 8 x big: too small");
}

// Llama-2 7B with 64 x 4,096 tokens on one B200 was the cheapest.
TEST(Plan, NeverNamesABatchThatCannotFit) {
  auto points = three();
  points[0].gpu_memory = Bytes{180e9};
  points[0].memory.optimizer = Bytes{100e9};
  points[0].memory.activations = Bytes{1e12};
  const TrainingPlan plan = plan_for(plan_scenario({}, {}), points);
  EXPECT_EQ(plan.all.size(), points.size() - 1);
  EXPECT_SAYS(memory_shortage(points[0]),
              "activations at least 931.3 GiB, CUDA and NCCL some 1 GiB, a GPU has 167.6 GiB");
  EXPECT_SAYS(memory_shortage(points[0]), "recompute: yes");
}

TEST(Plan, AdvisesOneGpuToShareWithOthers) {
  Prediction p;
  p.gpus = p.nodes = 1;
  p.gpu_memory = Bytes{16e9};
  p.memory.optimizer = Bytes{20e9};
  EXPECT_SAYS(memory_shortage(p), "several GPUs can share them with sharding: zero3");
  p.memory.optimizer = Bytes{10e9};
  p.memory.activations = Bytes{10e9};
  p.sharding.sharding = Sharding::zero3;
  p.recompute = Recompute::full;
  p.batch_per_gpu = 1;
  EXPECT_SAYS(memory_shortage(p), "a GPU with more memory is needed");
  p.gpus = 8;
  EXPECT_SAYS(memory_shortage(p), "what needs less: tensor_parallel");
}

// What is sharded is shared by copies of the model, not by the GPUs of one.
TEST(Plan, AdvisesOneCopyOfTheModelToShareWithOthers) {
  Prediction p;
  p.gpus = 8;
  p.nodes = 1;
  p.sharding.tensor = 2;
  p.sharding.stages = 4;
  p.gpu_memory = Bytes{16e9};
  p.memory.optimizer = Bytes{20e9};
  EXPECT_SAYS(memory_shortage(p),
              "several copies of the model can share them with sharding: zero3");
  p.memory.optimizer = Bytes{10e9};
  p.memory.activations = Bytes{10e9};
  EXPECT_SAYS(memory_shortage(p), "sharding: zero3 among several copies of the model");
}

TEST(Plan, NamesAlgorithmsThatAreRuledOutWhereOthersCanRun) {
  auto points = three();
  points[1].instance = "slow";
  points[1].algorithm = "tree";
  points[1].error = "tree needs a forest";
  const Json report = report_of(plan_scenario({}, {}), points);
  EXPECT_EQ(report["ruled_out"], Json::array({"2 x slow, tree: tree needs a forest"}));
}

TEST(Plan, TellsDiedSimulationsFromClustersThatCannotTrain) {
  auto points = three();
  points[2].error = "killed by signal 9";
  points[2].died = true;
  const Json report = report_of(plan_scenario({}, {}), points);
  EXPECT_EQ(report["ruled_out"], Json::array());
  EXPECT_EQ(report["died"], Json::array({"2 x beaten: killed by signal 9"}));
  EXPECT_SAYS(render(report, View{}), "no answer: 2 x beaten: killed by signal 9");
}

TEST(Plan, CountsTokensOfOneModel) {
  Scenario s = plan_scenario({}, {});
  EXPECT_DOUBLE_EQ(goal_samples(s), 3.6e6);
  s.goal->samples.reset();
  s.goal->tokens = Count{1e9};
  EXPECT_THROW(goal_samples(s), InputError);  // an image has none
  s.workload->model.values = {"bert-large"};
  s.workload->sample = "128 tokens";
  EXPECT_DOUBLE_EQ(goal_samples(s), 1e9 / 128);
  s.workload->model.values.push_back("vgg16");
  EXPECT_THROW(goal_samples(s), InputError);
  s.goal.reset();
  EXPECT_THROW(goal_samples(s), InputError);
}

TEST(PlanReport, TableLeavesOutBeatenClustersUnlessWide) {
  const Json report = report_of(plan_scenario(6 * kHour, Dollars{200}), three());
  const std::string table = render(report, View{});
  EXPECT_SAYS_NOT(table, "beaten ");
  EXPECT_SAYS(table, "1 more is both slower and dearer");
  EXPECT_SAYS(table, "Cheapest, fastest and most robust: 2 x quick, ring: 2.500 h, 125 USD.");
  EXPECT_SAYS(render(report, View{.wide = true}), "beaten ");
}

// The answer named a cluster that had no row.
TEST(PlanReport, TableHasTheRowThatIsRobustByEstimate) {
  auto points = three();
  for (Prediction& p : points) p.compute_measured = false;
  points[1].interval.high = Seconds{0.4};  // 10 h at worst, where "beaten" takes 6.25
  const Json report = report_of(plan_scenario(8 * kHour, {}), points);
  EXPECT_EQ(report["robust_by_estimate"], 2);
  const std::string table = words(render(report, View{}));
  EXPECT_SAYS(table, "By the estimates, 2 x beaten, ring reaches the goal even at the slow end");
  EXPECT_SAYS(table, " robust? ");
  EXPECT_SAYS_NOT(table, "both slower and dearer");
}

TEST(PlanReport, NamesNearestClustersWhereNoneReachesGoal) {
  const std::string table = render(report_of(plan_scenario(kHour, {}), three()), View{});
  EXPECT_SAYS(table, "No cluster reaches the goal.");
  EXPECT_SAYS(table, "Fastest:     2 x quick, ring: 2.500 h, 125 USD.");
  EXPECT_SAYS(table, "Cheapest:    2 x slow, ring: 10.00 h, 100 USD.");
}

TEST(PlanReport, JsonHasEveryClusterWithItsCostInterval) {
  const Json report = report_of(plan_scenario(6 * kHour, Dollars{200}), three());
  ASSERT_EQ(report["points"].size(), 3u);
  EXPECT_DOUBLE_EQ(report["points"][0]["usd_high"].get<double>(), 156.25);
  EXPECT_EQ(report["points"][1]["missed"], Json::array({"budget"}));
  EXPECT_EQ(report["cheapest"], 1);
  EXPECT_EQ(report["fastest"], 1);
  EXPECT_EQ(report["most_robust"], 1);
}

TEST(PlanReport, CsvHasEveryClusterWithItsCostInterval) {
  const std::string csv = render(report_of(plan_scenario(6 * kHour, Dollars{200}), three()),
                                 View{.format = Format::csv});
  EXPECT_SAYS(csv,
              ",time_s,time_low_s,time_high_s,usd,usd_low,usd_high,missed,robust,front,error\n");
  EXPECT_SAYS(csv, ",9000.0,");
  EXPECT_SAYS(csv, ",156.25,,true,true,\n");
}

TEST(PlanReport, WarnsWhereClustersTrainWithOtherBatches) {
  const Scenario scenario = plan_scenario({}, {});
  auto points = three();
  EXPECT_SAYS_NOT(render(report_of(scenario, points), View{}), "samples/step");
  points[1].accumulation = 64;
  EXPECT_SAYS(render(report_of(scenario, points), View{}), "samples/step differs");
}

TEST(PlanReport, PictureHasOneDotPerCluster) {
  const TemporaryFolder folder;
  const Scenario scenario = plan_scenario({}, {});
  const auto points = three();
  const Sweep<Prediction> sweep{{scenario.name, scenario.file, "", {}}, 3, points};
  ASSERT_TRUE(draw_plan(folder.path().string(), scenario, sweep, plan_for(scenario, points)));
  const std::string svg = read_text(folder.path() / "a-plan.svg");
  std::size_t dots = 0;
  for (std::size_t at = 0; (at = svg.find("r=\"3.5\"", at)) != std::string::npos; ++at) ++dots;
  EXPECT_EQ(dots, 3u);
}

// 504 and 512 of 72 GPUs with 7 each are both 504: two equal rows.
TEST(Plan, HasOneRowForGlobalBatchesThatComeToOne) {
  auto points = three();
  points[1] = points[2] = points[0];
  points[0].asked_global_batch = 504;
  points[2].asked_global_batch = 520;
  const TrainingPlan plan = plan_for(plan_scenario({}, {}), points);
  ASSERT_EQ(plan.all.size(), 1u);
  EXPECT_EQ(plan.all[0].at, 1u) << "the one that is as it was asked for";
  const std::int64_t step = 8 * points[0].sharding.data_parallel();
  EXPECT_EQ(plan.same_batches, (std::vector<SameBatch>{{504, step}, {520, step}}));
  EXPECT_SAYS(words(render(report_of(plan_scenario({}, {}), points), View{})),
              "A step of 504 or 520 samples cannot be cut so on every cluster");
}

// A thousand samples of a cluster that takes 4,096 at a time cost a step.
TEST(Plan, CountsWholeSteps) {
  const std::vector<Prediction> points{cluster("one", 100, 10)};
  const Scenario scenario = plan_scenario({}, {});
  const double a_step = points[0].throughput * points[0].step.total.value;
  for (const auto& [samples, steps] :
       {std::pair(0.2 * a_step, 1), {a_step, 1}, {1.5 * a_step, 2}}) {
    const TrainingPlan plan = make_plan(*scenario.goal, samples, points);
    EXPECT_NEAR(plan.all.at(0).time / points[0].step.total, steps, 1e-9);
  }
}

}  // namespace
}  // namespace foreduce
