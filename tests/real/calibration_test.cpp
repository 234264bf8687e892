// Fits of made-up points, and the comparison of a run with the simulator.
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "input/problem.hpp"
#include "input/yaml.hpp"
#include "models/fit.hpp"
#include "tests/real/real_support.hpp"
#include "tests/real/testbed.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

namespace fs = std::filesystem;

TEST(Fit, RecoversTheParametersDespiteAnOutlier) {
  std::vector<CalibrationPoint> points;
  const double latency = 40e-6, per_byte = 1 / (0.9 * 1e9), reduce_bandwidth = 8e9, overhead = 2e-6;
  int i = 0;
  for (double bytes = 1024; bytes <= 4e6; bytes *= 2, ++i) {
    const double noise = 1 + 0.01 * ((i * 37) % 5 - 2);
    points.push_back(
        {Experiment::exchange, ExperimentPath::network, bytes, 1,
         (latency + 2 * overhead + bytes * per_byte) * noise * (i == 4 ? 5 : 1)});  // one outlier
    points.push_back({Experiment::ping_pong, ExperimentPath::network, bytes, 1,
                      latency + 2 * overhead + bytes * per_byte});
    points.push_back(
        {Experiment::reduce, ExperimentPath::memory, bytes, 1, 1e-7 + bytes / reduce_bandwidth});
  }
  points.push_back(
      {Experiment::burst, ExperimentPath::network, 1024, 1, std::max(overhead, 1024 * per_byte)});
  points.push_back(
      {Experiment::burst, ExperimentPath::network, 4096, 1, std::max(overhead, 4096 * per_byte)});
  const Calibration c = calibrate(points, BytesPerSecond{1e9}, BytesPerSecond{1e10}, "test");
  const LinkClass& network = c.profile.of(PathClass::network);
  EXPECT_NEAR(network.latency->value.value, latency, 0.1 * latency);
  EXPECT_NEAR(network.efficiency->value, 0.9, 0.02);
  EXPECT_NEAR(network.overhead->value.value, overhead, 0.02 * overhead);
  EXPECT_NEAR(c.profile.reduce_bandwidth->value.value, reduce_bandwidth, 0.02 * reduce_bandwidth);
  EXPECT_LE((*network.efficiency->interval)[0], network.efficiency->value);
  EXPECT_GE((*network.efficiency->interval)[1], network.efficiency->value);
  bool held_out = false;
  for (const CalibrationError& e : c.errors)
    if (e.experiment == Experiment::ping_pong) {
      EXPECT_FALSE(e.fitted);
      EXPECT_LT(e.median, 0.05);
      held_out = true;
    }
  EXPECT_TRUE(held_out);
  const Profile again = read_profile(YamlFile::parse("again", to_yaml(c.profile)));
  EXPECT_NEAR(again.of(PathClass::network).efficiency->value, network.efficiency->value, 1e-8);
}
TEST(Fit, CoefficientsAreNeverNegative) {
  Eigen::MatrixXd a(4, 2);
  Eigen::VectorXd b(4);
  for (int i = 0; i < 4; ++i) {
    a.row(i) << 1, 1000 * (i + 1);
    b[i] = 1e-6 * (i + 1) - 0.5e-6;  // a line that meets zero time at half a step
  }
  const LinearFit fit = fit_robust(a, b);
  EXPECT_EQ(fit.x[0], 0);
  EXPECT_GT(fit.x[1], 0);
  EXPECT_THROW(fit_robust(a.topRows(1), b.head(1)), std::invalid_argument);
}
TEST(Fit, RefusesTooFewPoints) {
  EXPECT_THROW(calibrate({{Experiment::exchange, ExperimentPath::network, 1024, 1, 1e-3}},
                         BytesPerSecond{1e9}, BytesPerSecond{1e9}, "test"),
               InputError);
  EXPECT_THROW(calibrate({}, BytesPerSecond{1e9}, BytesPerSecond{1e9}, "test"), InputError);
}

TEST(Validate, ComparesARunWithTheSimulator) {
  const fs::path folder = fs::path(testing::TempDir()) / "bed";
  ASSERT_EQ(shell(kTestbed + " --hosts 4 --rate 100 --write " + folder.string()).status, 0);
  // The simulator's own times for this cluster serve as measured ones.
  const Result predicted = shell(
      kProgram + " compare --instance " + (folder / "host.yaml").string() +
      " --nodes 4 --algorithm ring,direct --sizes '64 KiB,1 MiB' --profile ideal --format json");
  ASSERT_EQ(predicted.status, 0) << predicted.out;
  nlohmann::json report{
      {"kind", "run"}, {"layout", {{"ranks", 4}}}, {"rows", nlohmann::json::array()}};
  const auto points = nlohmann::json::parse(predicted.out)["points"];
  for (const auto& p : points)
    report["rows"].push_back({{"algorithm", p["algorithm"]},
                              {"segments", p["segments"]},
                              {"count", p["count"]},
                              {"dtype", "float"},
                              {"in_place", {{"median_s", p["time_us"].get<double>() * 1e-6}}}});
  std::ofstream(folder / "run.json") << report;
  const std::string command = kProgram + " validate ideal " + (folder / "run.json").string() +
                              " --cluster " + (folder / "cluster.yaml").string();
  const Result exact = shell(command + " --format json --tolerance 0.001");
  ASSERT_EQ(exact.status, 0) << exact.out;
  EXPECT_LT(nlohmann::json::parse(exact.out)["worst_error"].get<double>(), 1e-6);
  report["layout"]["nodes"] = 1;  // as threads of one process are
  std::ofstream(folder / "run.json") << report;
  const Result elsewhere = shell(command);
  EXPECT_EQ(elsewhere.status, 2);
  EXPECT_SAYS(elsewhere.out, "it ran on 1 node, and --cluster has 4");
  report["layout"].erase("nodes");
  report["layout"]["channels"] = 4;
  std::ofstream(folder / "run.json") << report;
  const Result channels = shell(command);
  EXPECT_EQ(channels.status, 2);
  EXPECT_SAYS(channels.out, "it ran with --channels 4, and predictions are of one channel");
  report["layout"].erase("channels");
  std::ofstream(folder / "run.json") << report;
  ASSERT_EQ(shell(command + " --plot " + folder.string()).status, 0);
  std::ifstream picture(folder / "ideal.svg");
  const std::string svg(std::istreambuf_iterator<char>(picture), {});
  EXPECT_EQ(svg.rfind("<svg", 0), 0u);
  EXPECT_SAYS(svg, ">ring<");  // in the legend
  report["rows"].back()["in_place"]["median_s"] =
      1.5 * report["rows"].back()["in_place"]["median_s"].get<double>();
  std::ofstream(folder / "run.json") << report;
  const Result wrong = shell(command + " --format json --tolerance 0.3");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NEAR(nlohmann::json::parse(wrong.out)["worst_error"].get<double>(), 0.5,
              1e-6);  // a factor of 1.5
  for (const char* text : {"", "[]", "{}", R"({"kind":"run","rows":[{}]})",
                           R"({"kind":"run","rows":[{"algorithm":"rign"}]})",
                           R"({"kind":"run","rows":[]})", R"({"kind":)"}) {
    std::ofstream(folder / "run.json") << text;
    const Result bad = shell(command);
    EXPECT_EQ(bad.status, 2) << text << "\n" << bad.out;
    EXPECT_SAYS(bad.out, "run.json");
  }
}

// The simulator's own times for another collective serve as measured ones; what is validated must
// be that collective with its size, whose report gives the elements of a block.
TEST(Validate, PredictsTheCollectiveOfTheRun) {
  const fs::path folder = fs::path(testing::TempDir()) / "bed-of-collectives";
  ASSERT_EQ(shell(kTestbed + " --hosts 4 --rate 100 --write " + folder.string()).status, 0);
  const auto measured = [&](const std::string& collective, const std::string& algorithm) {
    const Result predicted =
        shell(kProgram + " compare --instance " + (folder / "host.yaml").string() +
              " --nodes 4 --algorithm " + algorithm + " --collective " + collective +
              " --sizes '64 KiB,1 MiB' --profile ideal --format json");
    EXPECT_EQ(predicted.status, 0) << predicted.out;
    nlohmann::json report{{"kind", "run"}, {"collective", collective}, {"layout", {{"ranks", 4}}}};
    const auto points = nlohmann::json::parse(predicted.out)["points"];
    for (const auto& p : points)
      report["rows"].push_back({{"algorithm", p["algorithm"]},
                                {"segments", p["segments"]},
                                {"bytes", p["bytes"]},
                                {"count", p["count"]},
                                {"dtype", "float"},
                                {"in_place", {{"median_s", p["time_us"].get<double>() * 1e-6}}}});
    // What run prints where a size has no block for every rank.
    report["rows"].push_back(
        {{"algorithm", algorithm}, {"bytes", 0}, {"count", 0}, {"dtype", "float"}});
    std::ofstream(folder / (collective + ".json")) << report;
    return (folder / (collective + ".json")).string() + " ";
  };
  const auto validated = [&](const std::string& files) {
    return shell(kProgram + " validate ideal " + files + "--cluster " +
                 (folder / "cluster.yaml").string() + " --format json");
  };
  for (const auto& [collective, algorithm] : {std::pair{"reduce_scatter", "ring"},
                                              {"all_gather", "bruck"},
                                              {"broadcast", "binomial"},
                                              {"alltoall", "pairwise"}}) {
    const Result exact = validated(measured(collective, algorithm));
    ASSERT_EQ(exact.status, 0) << exact.out;
    const auto report = nlohmann::json::parse(exact.out);
    EXPECT_EQ(report["collective"], collective);
    EXPECT_EQ(report["points"], 2);
    EXPECT_LT(report["worst_error"].get<double>(), 1e-6) << exact.out;
  }
  const Result both = validated(measured("all_gather", "ring") + measured("alltoall", "pairwise"));
  EXPECT_EQ(both.status, 2);
  EXPECT_SAYS(both.out, "this is of alltoall, and the reports before are of all_gather");
  EXPECT_SAYS(both.out, "validate one collective at a time: --collective alltoall");
  const Result one = validated(measured("all_gather", "ring") + measured("alltoall", "pairwise") +
                               "--collective alltoall ");
  ASSERT_EQ(one.status, 0) << one.out;
  EXPECT_EQ(nlohmann::json::parse(one.out)["collective"], "alltoall");
  EXPECT_EQ(nlohmann::json::parse(one.out)["points"], 2);
  const Result none = validated(measured("all_gather", "ring") + "--collective alltoall ");
  EXPECT_EQ(none.status, 2);
  EXPECT_SAYS(none.out, "--collective: no report is of alltoall");
  nlohmann::json unknown{{"kind", "run"},
                         {"collective", "all_scatter"},
                         {"layout", {{"ranks", 4}}},
                         {"rows", nlohmann::json::array()}};
  std::ofstream(folder / "unknown.json") << unknown;
  const Result refused = validated((folder / "unknown.json").string() + " ");
  EXPECT_EQ(refused.status, 2);
  EXPECT_SAYS(refused.out, "there is no collective \"all_scatter\"");
}

}  // namespace
}  // namespace foreduce
