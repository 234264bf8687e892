// Predictions beside published measurements: a change that makes them worse must say so here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "models/uncertainty.hpp"
#include "tests/support/files.hpp"
#include "tests/support/report_checks.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;
using nlohmann::json;

/// The report of all published points with its pictures, made once for all tests of a process.
class ValidateReference : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new TemporaryFolder;
    file = (folder->path() / "reference.json").string();
    result = foreduce_says("validate --reference -o " + file + " --plot " +
                           (folder->path() / "pictures").string());
    report = json::parse(read_text(file));
  }
  static void TearDownTestSuite() { delete folder; }

  /// The group of that name; null if there is none.
  static json source(const std::string& name) {
    for (const json& s : report.at("sources"))
      if (s.at("name") == name) return s;
    return {};
  }

  inline static TemporaryFolder* folder = nullptr;
  inline static std::string file;
  inline static Result result;
  inline static json report;
};

/// Today's geometric mean errors, rounded up; below 1 MiB only where there is a figure.
struct Limit {
  const char* name;
  std::optional<double> small;
  double large;
};

/// "10.0 %".
std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// Lines of the notes took 86 columns of 80.
TEST_F(ValidateReference, FitsATerminalOfEightyColumns) {
  const Result narrow = shell("COLUMNS=80 " FOREDUCE_PROGRAM " show " + file);
  EXPECT_TRUE(lines_wider_than(80, narrow.out).empty()) << lines_wider_than(80, narrow.out).front();
  EXPECT_SAYS(narrow.out, "Kendall's tau");
}

TEST_F(ValidateReference, ReadmeHasTheseFigures) {
  const std::string readme = read_text(source_folder() / "README.md");
  const auto half = [](const json& s, const char* range, const char* key) {
    return s.at(range).at(key).get<double>();
  };
  for (const char* name :
       {"all that profiles are fitted to", "test set: sources that no fit may use"}) {
    const json s = source(name);
    EXPECT_SAYS(readme, fmt::format("| {} | {} | {} | {} |", s.at("below_1MiB").at("points").dump(),
                                    percent(half(s, "below_1MiB", "geometric_mean_error")),
                                    s.at("from_1MiB").at("points").dump(),
                                    percent(half(s, "from_1MiB", "geometric_mean_error"))));
  }
  const json test_set = source("test set: sources that no fit may use"),
             others = source(
                 "all-gathers and all-to-alls, of which two sources determined a number each");
  EXPECT_SAYS(readme, fmt::format("are {:.0f} and {:.0f} % of the test set",
                                  100 * half(test_set, "below_1MiB", "in_interval"),
                                  100 * half(test_set, "from_1MiB", "in_interval")));
  EXPECT_SAYS(readme, fmt::format("off by {:.1f} and {:.1f} %. Training",
                                  100 * half(others, "below_1MiB", "geometric_mean_error"),
                                  100 * half(others, "from_1MiB", "geometric_mean_error")));
}

TEST_F(ValidateReference, PointsStayAsNearAsTheyWere) {
  ASSERT_EQ(result.status, 0) << result.out;
  for (const Limit& limit :
       {Limit{"all that profiles are fitted to", 0.103, 0.065},
        Limit{"test set: sources that no fit may use", 0.25, 0.175},
        Limit{"of the test set: EC2", 0.195, 0.135},
        Limit{"of the test set: other machines and fabrics", 0.31, 0.195},
        Limit{"of these: all-gathers and reduce-scatters", 0.155, 0.162},
        Limit{"awsome-dt-p5 | p5.48xlarge | 2 x 8 | nccl", 0.11, 0.055},
        Limit{"eks-blueprints-p5-2024-10 | p5.48xlarge | 2 x 8 | nccl", 0.085, 0.03},
        Limit{"pcluster-p4de-2n | p4de.24xlarge | 2 x 8 | nccl Simple", 0.07, 0.045},
        Limit{"dstack-crusoe-a100 | dgx-a100 | 2 x 8 | nccl", 0.25, 0.135},
        Limit{"deepops-dgxa100-2n-ring | dgx-a100 | 2 x 8 | ring", 0.3, 0.105},
        Limit{"oke-a100-2n | bm.gpu4.8 | 2 x 8 | nccl", 0.095, 0.21},
        Limit{"oci-h200-2n | hgx-h200-ib | 2 x 8 | nccl", {}, 0.015},
        Limit{"alcf-sophia-a100 | dgx-a100 | 2 x 8 | nccl all-gather", 0.106, 0.03},
        Limit{"gcp-a3ultra-maci0 | hgx-h200-ib | 2 x 8 | nccl all-gather", 0.122, 0.172},
        Limit{"vultr-b200-2n | hgx-b200-ib | 2 x 8 | nccl all-to-all", 0.1, 0.22},
        Limit{"keitaw-p5-nccl2.22 | p5.48xlarge | 2 x 8 | nccl", 0.16, 0.035},
        Limit{"terrificdm-p6-b300 | p6-b300.48xlarge | 2 x 8 | nccl", 0.06, 0.047},
        Limit{"awslabs-1255-p6-b300 | p6-b300.48xlarge | 2 x 8 | nccl", {}, 0.03},
        Limit{"terrificdm-p5en | p5en.48xlarge | 2 x 8 | nccl", {}, 0.02},
        Limit{"aws-dlami-p4d | p4d.24xlarge | 2 x 8 | nccl", 0.04, 0.03},
        Limit{"skypilot-p4d-vm | p4d.24xlarge | 2 x 8 | nccl", 0.07, 0.08},
        Limit{"nccl-tests-309 | hgx-h100-ib | 4 x 8 | nccl", 0.15, 0.05},
        Limit{"dstack-nebius-h100 | hgx-h100-ib | 2 x 8 | nccl", 0.283, 0.127},
        Limit{"aws-do-eks-g4dn.8xl-efa | g4dn.8xlarge-efa | 2 x 1 | nccl", 0.02, 0.06},
        Limit{"crazyguitar-p5 | p5.48xlarge | 8 x 8 | nccl", {}, 0.02},
        Limit{"crazyguitar-p5 | p5.48xlarge | 16 x 8 | nccl", {}, 0.05},
        Limit{"crazyguitar-p5 | p5.48xlarge | 32 x 8 | nccl", {}, 0.12},
        Limit{"stas00-p5en-4n | p5en.48xlarge | 4 x 8 | ring", {}, 0.04},
        Limit{"stas00-p6-b200-1n | p6-b200.48xlarge | 1 x 8 | nccl", 0.042, 0.047},
        Limit{"coreweave-gb200 | GB200 NVL72 (IB) | 1 x 72 | nccl", {}, 0.105},
        Limit{"coreweave-gb200 | gb200-nvl72-ib | 2 x 64 | nccl", {}, 0.12},
        Limit{"coreweave-gb200 | gb200-nvl72-ib | 20 x 72 | nccl", {}, 0.561},
        // What torch's loop takes on several nodes is not known.
        Limit{"stas00-p6-b200-4n | p6-b200.48xlarge | 4 x 8 | nccl", {}, 0.30}}) {
    const json s = source(limit.name);
    ASSERT_FALSE(s.is_null()) << limit.name;
    EXPECT_LE(s.at("from_1MiB").at("geometric_mean_error"), limit.large) << limit.name;
    if (limit.small) {
      EXPECT_LE(s.at("below_1MiB").at("geometric_mean_error"), *limit.small) << limit.name;
    }
  }
}

TEST_F(ValidateReference, AllPointsAreThere) {
  const json all = source("all"),
             others = source(
                 "all-gathers and all-to-alls, of which two sources determined a number each");
  ASSERT_FALSE(all.is_null() || others.is_null());
  EXPECT_GE(all.at("from_1MiB").at("points"), 859);
  EXPECT_GE(all.at("below_1MiB").at("points"), 772);
  EXPECT_EQ(report.at("points").size(), 859u + 772u + 458u);
  EXPECT_EQ(others.at("from_1MiB").at("points"), 364);
  // All-to-alls of superbench-a100 alone are 84 % off.
  EXPECT_LE(others.at("from_1MiB").at("geometric_mean_error"), 0.17);
  // One process drives all GPUs there, which one all-to-all of 1 KiB in one node shows.
  EXPECT_LE(others.at("below_1MiB").at("geometric_mean_error"), 0.163);
  EXPECT_GE(all.at("from_1MiB").at("in_interval"), 0.87);
}

// Nine of ten: all sites by what the others tell, healthy ones by the interval itself, which from
// 64 KiB to 1 MiB misses four in a hundred more.
TEST_F(ValidateReference, IntervalsHoldNineOfTenOfWhatNoFitHasSeen) {
  const json& ranges = report.at("intervals");
  const auto& shipped = uncertainty_constants().published;
  ASSERT_EQ(ranges.size(), 6u);  // the last two are of all sizes below and from 1 MiB on
  ASSERT_EQ(shipped.size(), 4u);
  for (std::size_t i = 0; i < shipped.size(); ++i) {
    SCOPED_TRACE(ranges[i].dump());
    const json &published = ranges[i].at("published"), &healthy = ranges[i].at("healthy");
    EXPECT_GE(published.at("inside"), 0.88);
    EXPECT_LE(published.at("inside"), 0.92);
    EXPECT_GE(healthy.at("inside"), i == 1 ? 0.84 : 0.9);
    EXPECT_GE(published.at("points"), 120);
    EXPECT_GE(published.at("sources"), 25);
    EXPECT_NEAR(published.at("power"), shipped[i].power, 0.02);
  }
  EXPECT_LE(ranges[0].at("healthy").at("median_width"), 1.6);
  EXPECT_LE(ranges[3].at("published").at("median_width"), 1.35);
  EXPECT_LE(ranges[4].at("healthy").at("median_width"), 1.6);  // docs/accuracy-notes.md, targets
  for (const char* of : {"healthy", "published"})
    EXPECT_LE(ranges[5].at(of).at("median_width"), 1.35);
}

// On eight p3dn nodes ring and double tree are predicted within 0.3 % at 32 MiB, where they change
// places.
TEST_F(ValidateReference, OrderOfAlgorithmsStaysAsRightAsItWas) {
  EXPECT_EQ(report.at("order").size(), 7u);
  for (const json& order : report.at("order")) {
    const bool close = order.at("name") == "cybertronai-p3dn-fig | p3dn.24xlarge | 8 x 8";
    EXPECT_GE(order.at("kendall_tau"), close ? 0.33 : 1.0) << order;
  }
}

TEST_F(ValidateReference, PictureHasADotPerPoint) {
  const std::string text =
      read_text(folder->path() / "pictures" / "aws-dlami-p4d-p4d-24xlarge-2-x-8-nccl.svg");
  EXPECT_TRUE(text.starts_with("<svg"));
  std::size_t dots = 0;
  for (std::size_t at = 0; (at = text.find("<circle", at)) != std::string::npos; ++at) ++dots;
  EXPECT_EQ(dots, 28u);
}

TEST_F(ValidateReference, TablesFit) {
  expect_tables_fit(file);
  expect_markdown_is_whole(file);
}

TEST_F(ValidateReference, ShowPrintsWhatTheCommandDid) {
  EXPECT_EQ(foreduce_says("show " + file + " --format csv").out,
            foreduce_says("validate --reference --format csv").out);
  for (const std::string form : {"table", "markdown"})
    EXPECT_EQ(foreduce_says("show " + file + " --format " + form).status, 0) << form;
}

TEST_F(ValidateReference, PointsAreARowEach) {
  const auto lines = lines_of(foreduce_says("validate --reference --points --format csv").out);
  EXPECT_EQ(lines.size(), report.at("points").size() + 1);
}

TEST(Validate, EndsWithOneBeyondTheTolerance) {
  EXPECT_EQ(foreduce_says("validate --reference --tolerance 0.001").status, 1);
}

// docs/accuracy-notes.md has the whole table. A log of large sizes alone cannot show 100 us.
TEST(Validate, DetectsFaultsInLogsOfKnownClusters) {
  const std::set<std::string> never_missed = {"x 1.3 from 1 MiB", "x 1.5 from 1 MiB",
                                              "one rail of four", "half of the rails",
                                              "TCP at 10 GB/s",   "one size x 3"};
  const Result r = foreduce_says("validate --detection --format json");
  ASSERT_EQ(r.status, 0) << r.out;
  const json report = json::parse(r.out);
  std::size_t seen = 0;
  for (const json& row : report.at("rows")) {
    const std::string fault = row.at("fault");
    SCOPED_TRACE(fault);
    const int known = row.at("logs_of_known_clusters"),
              found = row.at("called_not_normal_of_known_clusters");
    EXPECT_GE(known, 5);
    EXPECT_GE(row.at("logs_of_stand_in_clusters"), 23);
    if (fault == "none") {
      EXPECT_EQ(found, 0);
      // torch on four p6-b200: 200 us more below 16 MiB
      EXPECT_LE(row.at("called_not_normal_of_other_clusters"), 1);
      EXPECT_LE(row.at("called_not_normal_of_stand_in_clusters"), 4);
    } else if (never_missed.contains(fault)) {
      EXPECT_EQ(found, known);
      ++seen;
    } else {
      EXPECT_GE(5 * found, 3 * known);
    }
  }
  EXPECT_EQ(seen, never_missed.size());
}

// Nothing was fitted to these; each row is shown, and of a group of strategies which is faster.
TEST(ValidateSharded, PredictsEveryPublishedRun) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "sharded.json").string();
  ASSERT_EQ(foreduce_says("validate --sharded -o " + file).status, 0);
  const json report = json::parse(read_text(file));
  EXPECT_EQ(report.at("rows").size(), 31u);
  int mixtures = 0;
  double deepspeed = 0;  // sum of errors, as logarithms
  for (const json& row : report.at("rows")) {
    ASSERT_TRUE(row.at("predicted").is_number()) << row;
    const auto series = row.at("series").get<std::string>();
    if (series.find("Mixtral") == std::string::npos && series.find("A3B") == std::string::npos &&
        series.find("gpt-oss") == std::string::npos &&
        series.find("DeepSpeed") == std::string::npos)
      continue;
    const double ratio = row.at("predicted").get<double>() / row.at("measured").get<double>();
    if (series.find("DeepSpeed") == std::string::npos) ++mixtures;
    else deepspeed += std::abs(std::log(ratio));
    EXPECT_NEAR(std::log(ratio), 0, std::log(1.4)) << row;
  }
  EXPECT_EQ(mixtures, 7);
  EXPECT_LE(deepspeed / 6, std::log(1.15));  // as FSDP2 it would be 1.5
  EXPECT_EQ(report.at("series").size(), 6u);
  std::vector<double> points_off;  // of scaling efficiencies
  for (const json& series : report.at("series"))
    if (series.at("compared") == "order") {
      EXPECT_TRUE(series.at("good").get<bool>()) << series;
    } else {
      points_off.push_back(
          std::abs(series.at("predicted").get<double>() - series.at("measured").get<double>()));
    }
  ASSERT_EQ(points_off.size(), 4u);
  std::sort(points_off.begin(), points_off.end());
  EXPECT_LE(0.5 * (points_off[1] + points_off[2]), 0.03) << "in the median";
  expect_tables_fit(file);
}

// No fit has seen this cluster. EFA's latencies would call its small sizes too fast.
TEST(Check, JudgesInfiniBandByInfiniBand) {
  const Result r = foreduce_says(
      "check " + (source_folder() / "tests" / "logs" / "nebius_h100_ib_2n.txt").string());
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "over InfiniBand");
  EXPECT_SAYS(r.out, "nccl-h100+rdma");
}

}  // namespace
}  // namespace foreduce
