// Every scenario that ships has answers for all its points, in tables that fit.
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/report_checks.hpp"

namespace foreduce {
namespace {

using namespace test;

void expect_keys(const nlohmann::json& point, const std::vector<const char*>& keys) {
  for (const char* key : keys) EXPECT_TRUE(point.contains(key)) << key << " in " << point.dump();
}

/// What a point of `compare` says, which no all-reduce beats.
void expect_comparison(const nlohmann::json& point) {
  expect_keys(point, {"instance", "nodes", "ranks", "algorithm", "bytes", "algbw_GBps",
                      "busbw_GBps", "interval_widened", "interval_widened_because"});
  EXPECT_GE(point.at("time_us").get<double>(), point.at("bound_time_us").get<double>() * (1 - 1e-6))
      << point.dump();
}

/// What a point of `predict` or `plan` says, which is never faster than compute alone.
void expect_prediction(const nlohmann::json& point) {
  expect_keys(point, {"instance", "nodes", "gpus", "algorithm", "bucket_bytes", "straggler_wait_s",
                      "exposed_communication_s", "throughput_samples_per_s", "usd_per_hour",
                      "usd_per_million_samples", "bottleneck_link", "simulated_messages",
                      "interval_widened", "interval_widened_because", "extrapolation_error"});
  EXPECT_GE(point.at("step_time_s").get<double>(),
            point.at("compute_time_s").get<double>() - 1e-12);
  EXPECT_GT(point.at("scaling_efficiency").get<double>(), 0);
  EXPECT_LE(point.at("scaling_efficiency").get<double>(), 1 + 1e-9);
}

void expect_cost(const nlohmann::json& point) {
  expect_keys(point, {"wall_seconds", "peak_rss_bytes"});
  const auto modes = {"full", "symmetric", "extrapolated", "cached"};
  EXPECT_NE(std::find(modes.begin(), modes.end(), point.value("mode", "")), modes.end())
      << point.dump();
}

class Shipped : public testing::TestWithParam<std::string> {};

TEST_P(Shipped, AnswersEveryPointInTablesThatFit) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "report.json").string();
  const std::string command = command_for(GetParam());
  const Result r = foreduce_says(command + " " + scenario_path(GetParam()) + " -o " + file);
  ASSERT_EQ(r.status, 0) << r.out;
  EXPECT_EQ(r.out, "");
  const auto report = nlohmann::json::parse(read_text(file));
  EXPECT_EQ(report.at("kind"), command);
  EXPECT_FALSE(report.at("foreduce_version").get<std::string>().empty());
  EXPECT_EQ(report.at("scenario_hash").get<std::string>().size(), 40u);
  EXPECT_TRUE(report.at("unused_keys").empty());
  ASSERT_GT(report.at("points").size(), 0u);
  for (const nlohmann::json& point : report["points"]) {
    if (command == "compare") expect_comparison(point);
    else expect_prediction(point);
    if (command != "plan") expect_cost(point);
  }
  expect_tables_fit(file);
  expect_markdown_is_whole(file);
}

INSTANTIATE_TEST_SUITE_P(scenarios, Shipped, testing::ValuesIn(shipped_scenarios()),
                         [](const auto& name) {
                           std::string id = name.param;
                           std::replace(id.begin(), id.end(), '-', '_');
                           return id;
                         });

TEST(ShippedScenarios, ScenariosAreThoseThatDocumentsName) {
  const auto names = shipped_scenarios();
  for (const char* name :
       {"bert-large-p3dn", "resnet50-p3-to-p5", "gpt2-p4d", "maskrcnn-p3dn",
        "reduction-server-vs-ring", "oversubscribed-fabric", "message-sizes-p4d"})
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
}

TEST(ShippedScenarios, MarksOfRowsAreInOrder) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "report.json").string();
  ASSERT_EQ(foreduce_says("predict " + scenario_path("bert-large-p3dn") + " -o " + file).status, 0);
  const std::string table = foreduce_says("show " + file).out;
  EXPECT_EQ(marks_of(table), (std::vector<std::string>{"*a", "*b"})) << table;
  expect_marks_in_order(table);
}

}  // namespace
}  // namespace foreduce
