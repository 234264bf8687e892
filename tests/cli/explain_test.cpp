// `foreduce explain`: its parts add up to the time that predict and compare tell, and what it says
// would help is what these commands answer with that change.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/report_checks.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
using nlohmann::json;

double sum_of(const json& all, const char* key) {
  double sum = 0;
  for (const json& one : all) sum += one.at(key).get<double>();
  return sum;
}

/// The change of that kind whose words are these; null if there is none.
json change_of(const json& report, const std::string& words) {
  for (const json& c : report.at("changes"))
    if (c.at("words") == words) return c;
  return {};
}

double step_of(const std::string& arguments) {
  const json report = json_of("predict " + arguments);
  return report.at("points").at(0).at("step_time_s").get<double>();
}

void expect_explained(const json& report, double time) {
  ASSERT_TRUE(report.is_object() && report.contains("parts")) << report.dump().substr(0, 500);
  EXPECT_NEAR(report.at("time_s"), time, 1e-9 * time);
  EXPECT_NEAR(sum_of(report.at("parts"), "time_s"), time, 1e-9 * time);
  EXPECT_NEAR(sum_of(report.at("parts"), "share"), 1, 1e-9);
  double before = INFINITY;
  for (const json& c : report.at("changes")) {
    EXPECT_NEAR(c.at("time_s").get<double>() + c.at("saved_s").get<double>(), time, 1e-9 * time);
    EXPECT_LE(c.at("saved_s"), before);
    before = c.at("saved_s");
  }
}

TEST(Explain, StepsPartsAddUpAndChangesAreWhatPredictSays) {
  const std::string question = scenario_path("first-look") + " --point 4";
  const json report = json_of("explain " + question);
  expect_explained(report, step_of(question));
  const std::string file = scenario_path("first-look");
  const std::string here = " --set cluster.nodes=4 --set allreduce.algorithm=";
  EXPECT_NEAR(change_of(report, "algorithm: ring").at("time_s"), step_of(file + here + "ring"),
              1e-12);
  EXPECT_NEAR(change_of(report, "buckets of 100 MiB").at("time_s"),
              step_of(file + here + "nccl --set 'allreduce.bucket=100 MiB'"), 1e-12);
  for (const json& c : report.at("collectives")) {
    double end = 0;
    for (const json& m : c.at("messages")) {
      EXPECT_GE(m.at("start_s"), end - 1e-15);
      end = m.at("end_s");
    }
    EXPECT_NEAR(end, c.at("recorded_time_s"), 1e-9 * end);
  }
}

TEST(Explain, FasterNicIsTheMachineWithAFasterNic) {
  const TemporaryFolder folder;
  const auto machine =
      folder.write("fast.yaml", "like: p4d.24xlarge\nnic: { bandwidth: 200 Gbps }\n");
  const std::string rest = " --nodes 2 --algorithm ring --profile ideal --size 16MiB";
  const json report = json_of("explain --instance p4d.24xlarge" + rest);
  const json fast = json_of("explain --no-changes --instance " + machine.string() + rest);
  ASSERT_TRUE(fast.contains("time_s")) << fast;
  EXPECT_NEAR(change_of(report, "NICs twice as fast").at("time_s"), fast.at("time_s").get<double>(),
              1e-9);
  EXPECT_TRUE(fast.at("changes").empty());
}

// What NCCL is forced to stays as it is in a machine with other NVLinks.
// A factor of 2 in a NIC gained 6.9 times, for NCCL chose otherwise, which nothing said.
TEST(Explain, ChangesSayWhereNcclWouldChooseOtherwise) {
  const auto words = [](const std::string& more) {
    const json report = json_of("explain --instance g5.48xlarge --nodes 8 --size 1MiB" + more);
    std::vector<std::string> all;
    for (const json& change : report.at("changes"))
      if (change.at("change") == "nic_bandwidth") all.push_back(change.at("words"));
    return all;
  };
  EXPECT_EQ(words(""), std::vector<std::string>{"NICs twice as fast, then double-tree LL"});
  EXPECT_EQ(words(" --nccl-algo Tree --nccl-proto Simple"),
            std::vector<std::string>{"NICs twice as fast"});
}

TEST(Explain, ChangesKeepWhatNcclIsForcedTo) {
  const TemporaryFolder folder;
  const auto fast =
      folder.write("fast.yaml", "like: p4d.24xlarge\nnvlink: { bandwidth: 50 GB/s }\n");
  const std::string forced =
      " --nodes 1 --size 8MiB --nccl-algo Ring --nccl-proto LL --nccl-channels 2";
  const json report = json_of("explain --instance p4d.24xlarge" + forced),
             other = json_of("explain --no-changes --instance " + fast.string() + forced);
  ASSERT_TRUE(other.contains("time_s")) << other;
  EXPECT_NEAR(change_of(report, "NVLink twice as fast").at("time_s"),
              other.at("time_s").get<double>(), 1e-9);
}

// A fabric without oversubscription is one; and another algorithm chooses its own segments.
TEST(Explain, ChangesAreOfOneThing) {
  const TemporaryFolder folder;
  const auto asked = [&](const std::string& name, const std::string& allreduce) {
    const std::string text =
        R"(name: x
cluster: { instance: p4d.24xlarge, nodes: 4,
  fabric: { nodes_per_leaf: 2, oversubscription: 4, placement: spread } }
allreduce: { )" +
        allreduce + " }\nmessages: { sizes: 8 MiB }\n";
    return folder.write(name + ".yaml", text).string();
  };
  const std::string ring = asked("ring", "algorithm: ring, segments: 3");
  const auto time = [](const std::string& question) {
    const json report = json_of("explain --no-changes " + question);
    return report.is_object() ? report.value("time_s", 0.0) : 0;
  };
  const json report = json_of("explain " + ring);
  ASSERT_TRUE(report.is_object());
  EXPECT_NEAR(change_of(report, "no oversubscription").at("time_s"),
              time(ring + " --set cluster.fabric.oversubscription=1"), 1e-12);
  EXPECT_NEAR(change_of(report, "algorithm: tree").at("time_s"),
              time(asked("tree", "algorithm: tree")), 1e-12);
}

TEST(Explain, CollectiveTakesWhatCompareSays) {
  const std::string rest = " --instance p4d.24xlarge --nodes 2 --algorithm hierarchical ";
  const json compared = json_of("compare --full-pipelines --sizes 4MiB" + rest);
  const json report = json_of("explain --size 4MiB" + rest);
  expect_explained(report, compared.at("points").at(0).at("time_us").get<double>() * 1e-6);
  EXPECT_TRUE(report.at("path").empty());
  EXPECT_EQ(report.at("cluster").at("nodes"), 2);
}

TEST(Explain, ShardedStepsPartsAddUp) {
  const std::string question = scenario_path("ddp-or-fsdp-g5") + " --point ";
  const json all = json_of("predict " + scenario_path("ddp-or-fsdp-g5"));
  int points = 0;
  for (const json& p : all.at("points")) {
    if (p.contains("error") || p.at("nodes") != 2) continue;
    ++points;
    SCOPED_TRACE(p.at("sharding"));
    expect_explained(json_of("explain --no-changes " + question + p.at("point").dump()),
                     p.at("step_time_s"));
  }
  EXPECT_GT(points, 1);
}

// What is in no block has no name: "reduce_scatter of h.0 to".
TEST(Explain, NamesBothEndsOfARunOfCollectives) {
  const TemporaryFolder folder;
  const auto scenario = folder.write("s.yaml", R"(
workload: { model: gpt2-1.5b, precision: bf16, batch_per_gpu: 4, sharding: zero3 }
cluster: { instance: p4d.24xlarge, nodes: 2 }
)");
  EXPECT_SAYS(foreduce_says("explain --no-changes " + scenario.string()).out,
              "reduce_scatter of h.0 to the rest");
}

// One row of 34 ms stood beside "69 shorter pieces" of 1.34 s.
TEST(Explain, JoinsTheComputingOfUnitsThatFollow) {
  const std::string asked =
      "explain " + scenario_path("llama2-7b-p4d-fsdp") + " --point 5 --no-changes";
  const std::string said = foreduce_says(asked).out;
  EXPECT_SAYS(said, "forward model.layers.0 to the rest");
  EXPECT_SAYS(said, "backward to model.layers.0");
  EXPECT_SAYS_NOT(said, "shorter pieces");
  EXPECT_SAYS(foreduce_says(asked + " --wide").out, "forward model.layers.7 ");
}

TEST(Explain, AsksWhichPointAndRefusesWhatItCannotExplain) {
  const auto says = [](const std::string& arguments) {
    const Result r = foreduce_says("explain " + arguments);
    EXPECT_EQ(r.status, 2) << r.out;
    return r.out;
  };
  EXPECT_SAYS(says(scenario_path("first-look")), "choose one with --point");
  EXPECT_SAYS(says(scenario_path("first-look") + " --point 8"), "there is no point 8");
  EXPECT_SAYS(says(""), "--instance and --nodes");
  EXPECT_SAYS(says("--instance p4d.24xlarge --nodes 2"), "--size 64MiB");
  EXPECT_SAYS(says("--instance p4d.24xlarge --nodes 2 --size 1MiB --algorithm rin"), "ring");
  EXPECT_SAYS(says("--instance p4d.24xlarge --nodes 2 --size 1MiB --segments 4"), "only nccl");
  EXPECT_SAYS(says(scenario_path("first-look") + " --point 1 --format csv"), "csv");
}

TEST(Explain, ReportsFitAndShowRendersThemAgain) {
  const TemporaryFolder folder;
  const auto report = folder.path() / "a.json";
  ASSERT_EQ(
      foreduce_says("explain " + scenario_path("first-look") + " --point 3 -o " + report.string())
          .status,
      0);
  for (const std::size_t width : {80u, 100u}) {
    const Result narrow =
        shell("COLUMNS=" + std::to_string(width) + " " FOREDUCE_PROGRAM " show " + report.string());
    EXPECT_EQ(narrow.status, 0);
    EXPECT_TRUE(lines_wider_than(width, narrow.out).empty()) << narrow.out;
    EXPECT_SAYS(narrow.out, "What would help most: ");
  }
  expect_markdown_is_whole(report.string());
}

// A report that somebody changed: loads are drawn as five steps, however large they are.
TEST(Explain, DrawsLoadsBeyondAllMeasure) {
  std::ifstream file(source_folder() / "tests" / "fuzz" / "reports" / "explain");
  json report = json::parse(file);
  for (json& link : report.at("cluster").at("drawn").at(0).at("links")) link.at(4) = 3e14;
  const TemporaryFolder folder;
  const std::string shown = folder.write("report.json", report.dump()).string(),
                    page = (folder.path() / "page.html").string();
  ASSERT_EQ(foreduce_says("show " + shown + " -o " + page).status, 0);
  std::ifstream html(page);
  const std::string text{std::istreambuf_iterator<char>(html), {}};
  EXPECT_SAYS(text, "class=\"link l5\"");
  EXPECT_SAYS_NOT(text, "l-2147483648");
}

TEST(Explain, NamesTheCollectiveThatWasAskedFor) {
  const std::string asked =
      "explain --instance p5.48xlarge --nodes 2 --size 64MiB --collective all_gather --no-changes";
  EXPECT_SAYS(foreduce_says(asked).out, "On the path of the all_gather of 64 MiB");
  EXPECT_EQ(json_of(asked)["collectives"][0]["kind"], "all_gather");
}

// NICs and PCIe links of p4d are as wide: the answer named one of the two, and neither alone helps.
TEST(Explain, NamesAllLinksThatAreAsBusy) {
  const std::string asked = "explain --instance p4d.24xlarge --nodes 4 --size 1GiB";
  EXPECT_SAYS(foreduce_says(asked).out, "which is as busy");
  const json report = json_of(asked);
  const json both = change_of(report, "NICs and PCIe twice as fast"),
             nics = change_of(report, "NICs twice as fast");
  ASSERT_TRUE(both.is_object());
  EXPECT_GT(both.at("saved_share"), 0.4);
  EXPECT_LT(nics.at("saved_share"), 0.1);
  // What messages cost is no link that could be busy.
  const std::string two = "explain --instance p4d.24xlarge --nodes 2 --size 64MiB";
  EXPECT_EQ(json_of(two)["point"]["bottleneck_link"], "latency");
  EXPECT_SAYS_NOT(foreduce_says(two).out, "as busy");
}

}  // namespace
}  // namespace foreduce
