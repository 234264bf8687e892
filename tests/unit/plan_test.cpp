// Which cluster a plan takes, by hand.
#include <gtest/gtest.h>

#include "scenarios/sweep/plan.hpp"

namespace foreduce {
namespace {

Scenario asks(std::optional<Seconds> deadline, std::optional<Dollars> budget) {
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

/// `seconds` of the training are 3600 * 1000 / rate; nine of ten within a factor of 1.25.
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
  p.step_bounds = {Seconds{0.08}, Seconds{0.125}, true, false, ""};
  p.compute_measured = true;
  p.priced = usd_per_hour.has_value();
  p.price = DollarsPerHour{usd_per_hour.value_or(0)};
  return p;
}

/// 10 h for 100 USD; 2.5 h for 125; 5 h for 300, which is beaten in both.
std::vector<Prediction> three() { return {cluster("slow", 100, 10), cluster("quick", 400, 50), cluster("beaten", 200, 60)}; }

std::string taken(const TrainingPlan& plan, const std::vector<Prediction>& points, const std::optional<std::size_t>& which) {
  return which ? points[plan.all[*which].at].instance : "-";
}

TrainingPlan make_plan(const Scenario& scenario, const std::vector<Prediction>& points) {
  return make_plan(scenario, scenario.goal->samples->value, points);
}

TEST(Plan, TakesTheCheapestInTimeAndTheFastestInBudget) {
  const auto points = three();
  const auto check = [&](std::optional<Seconds> deadline, std::optional<Dollars> budget, const char* cheapest, const char* fastest,
                         const char* most_robust) {
    const TrainingPlan plan = make_plan(asks(deadline, budget), points);
    EXPECT_EQ(taken(plan, points, plan.cheapest), cheapest);
    EXPECT_EQ(taken(plan, points, plan.fastest), fastest);
    EXPECT_EQ(taken(plan, points, plan.most_robust), most_robust);
  };
  const Seconds hour{3600};
  check({}, {}, "slow", "quick", "slow");
  check(12 * hour, {}, "slow", "quick", "quick");  // at the slow end 12.5 h
  check(6 * hour, {}, "quick", "quick", "quick");
  check({}, Dollars{110}, "slow", "slow", "-");  // at the slow end 125 USD
  check({}, Dollars{130}, "slow", "quick", "slow");
  check(6 * hour, Dollars{110}, "-", "-", "-");
  check(10 * hour, Dollars{100}, "slow", "slow", "-");  // just
}

TEST(Plan, IsWhatTheArithmeticSays) {
  const auto points = three();
  const TrainingPlan plan = make_plan(asks(Seconds{4 * 3600}, Dollars{120}), points);
  ASSERT_EQ(plan.all.size(), 3u);
  EXPECT_DOUBLE_EQ(plan.all[0].time.value, 9000);
  EXPECT_DOUBLE_EQ(plan.all[0].cost->value, 125);
  EXPECT_DOUBLE_EQ(plan.all[0].low.value, 7200);
  EXPECT_DOUBLE_EQ(plan.all[0].high.value, 11250);
  using Words = std::vector<std::string>;
  EXPECT_EQ(plan.all[0].missed, Words{"budget"});
  EXPECT_EQ(plan.all[1].missed, (Words{"deadline", "budget"}));
  EXPECT_EQ(plan.all[2].missed, Words{"deadline"});
  EXPECT_TRUE(plan.all[0].front);
  EXPECT_FALSE(plan.all[1].front);
  EXPECT_TRUE(plan.all[2].front);
}

TEST(Plan, WithoutAPriceNothingIsCheap) {
  auto points = three();
  points[1] = cluster("unpriced", 400, {});
  const TrainingPlan in_time = make_plan(asks(Seconds{6 * 3600}, {}), points);
  EXPECT_EQ(taken(in_time, points, in_time.fastest), "unpriced");
  EXPECT_EQ(taken(in_time, points, in_time.cheapest), "beaten");
  EXPECT_TRUE(in_time.all[1].front);  // nothing is known to beat it in cost
  points.push_back(cluster("ours", 50, {}));
  points.push_back(cluster("last", 40, 60));
  const TrainingPlan more = make_plan(asks({}, {}), points);
  ASSERT_EQ(more.all.size(), 5u);
  EXPECT_FALSE(more.all[3].front);  // slower than the other without a price
  EXPECT_FALSE(more.all[4].front);
  auto slow = three();
  slow.push_back(cluster("ours", 50, {}));
  EXPECT_TRUE(make_plan(asks({}, {}), slow).all[3].front);  // for nothing, perhaps
  const TrainingPlan within = make_plan(asks({}, Dollars{1000}), points);
  EXPECT_EQ(within.all[0].missed, std::vector<std::string>{"budget (no price)"});
  EXPECT_EQ(taken(within, points, within.fastest), "beaten");
}

TEST(Plan, IsSureOfMeasuredComputeOnly) {
  auto points = three();
  for (Prediction& p : points) p.compute_measured = false;
  const TrainingPlan plan = make_plan(asks(Seconds{100 * 3600}, {}), points);
  EXPECT_TRUE(plan.cheapest);
  EXPECT_FALSE(plan.most_robust);
}

TEST(Plan, SaysWhatIsRuledOutOnceAndWhatDied) {
  auto points = three();
  points[0].error = points[1].error = "too small";
  points[0].instance = points[1].instance = "same";
  points[1].nodes = 4;
  points[2].state = Bytes{20e9};
  points[2].gpu_memory = Bytes{16e9};
  points.push_back(points[0]);  // again, with another batch
  const Scenario s = asks({}, {});
  const TrainingPlan plan = make_plan(s, points);
  EXPECT_TRUE(plan.all.empty());
  ASSERT_EQ(plan.ruled_out.size(), 2u);
  EXPECT_EQ(plan.ruled_out[0], "2, 4 x same: too small");
  EXPECT_NE(plan.ruled_out[1].find(
                "2 x beaten: resnet50 does not fit: weights, gradients and optimizer take 18.63 GiB, a GPU has 14.9 GiB"),
            std::string::npos)
      << plan.ruled_out[1];
  const std::string says = plan_report(s, {4, points}, plan, Format::table, false, false);
  EXPECT_NE(says.find("no cluster can train this"), std::string::npos) << says;

  auto some = three();
  some[1].instance = "slow";
  some[1].algorithm = "tree";
  some[1].error = "tree needs a forest";
  some[2].error = "killed by signal 9";
  some[2].died = true;
  const TrainingPlan other = make_plan(s, some);
  ASSERT_EQ(other.ruled_out.size(), 1u);
  EXPECT_EQ(other.ruled_out[0], "2 x slow, tree: tree needs a forest");  // the ring can run there
  ASSERT_EQ(other.died.size(), 1u);
  EXPECT_EQ(other.died[0], "2 x beaten: killed by signal 9");
}

TEST(Plan, CountsTokensOfOneModel) {
  Scenario s = asks({}, {});
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

TEST(Plan, ReportsWhatIsWorthALook) {
  const auto points = three();
  const Scenario s = asks(Seconds{6 * 3600}, Dollars{200});
  const TrainingPlan plan = make_plan(s, points);
  const std::string table = plan_report(s, {3, points}, plan, Format::table, false, false),
                    all = plan_report(s, {3, points}, plan, Format::table, true, false);
  EXPECT_EQ(table.find("beaten "), std::string::npos) << table;
  EXPECT_NE(table.find("1 more is no better in either time or cost"), std::string::npos) << table;
  EXPECT_NE(table.find("cheapest: 2 x quick, ring: 2.5 h, 125 USD"), std::string::npos) << table;
  EXPECT_NE(all.find("beaten "), std::string::npos) << all;
  const TrainingPlan none = make_plan(asks(Seconds{3600}, {}), points);
  EXPECT_NE(plan_report(asks(Seconds{3600}, {}), {3, points}, none, Format::table, false, false)
                .find("no cluster reaches the goal; the fastest takes 2.5 h, 125 USD (2 x quick, ring), the cheapest 10 h, 100 USD "
                      "(2 x slow, ring)"),
            std::string::npos);
  const auto json = nlohmann::json::parse(plan_report(s, {3, points}, plan, Format::json, false, false));
  EXPECT_EQ(json.at("points").size(), 3u);
  EXPECT_DOUBLE_EQ(json.at("points")[0].at("usd_high").get<double>(), 156.25);
  EXPECT_EQ(json.at("points")[1].at("missed"), nlohmann::json::array({"budget"}));
  const std::string csv = plan_report(s, {3, points}, plan, Format::csv, false, false);
  EXPECT_NE(csv.find(",time_s,time_low_s,time_high_s,usd,usd_low,usd_high,missed,surely,front\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find(",156.25,,true,true\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find(",9000.0,"), std::string::npos) << csv;
  auto twice = points;
  twice[1].accumulation = 64;
  const std::string mixed = plan_report(s, {3, twice}, make_plan(s, twice), Format::table, false, false);
  EXPECT_NE(mixed.find("samples/step differs"), std::string::npos) << mixed;
  EXPECT_EQ(table.find("samples/step"), std::string::npos) << table;
  const std::string svg = plan_svg(s, {3, points}, plan);
  std::size_t dots = 0;
  for (std::size_t at = 0; (at = svg.find("r=\"3.5\"", at)) != std::string::npos; ++at) ++dots;
  EXPECT_EQ(dots, 3u);
}

}  // namespace
}  // namespace foreduce
