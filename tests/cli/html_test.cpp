// Reports as pages: one file that asks for nothing, with the report's numbers in its tables and
// charts.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostBytes = 2'000'000;

/// What a page holds, see check_page.py; fails the test unless it is a sound page.
json page_of(const fs::path& file) {
  const Result r =
      shell((source_folder() / "tests" / "cli" / "check_page.py").string() + " " + file.string());
  EXPECT_EQ(r.status, 0) << r.out;
  json page = json::parse(r.out, nullptr, false);
  if (page.is_discarded()) return json::object();
  EXPECT_EQ(page.at("faults"), json::array());
  EXPECT_EQ(page.at("fetches"), json::array());
  EXPECT_EQ(page.at("doubled_ids"), json::array());
  EXPECT_LT(page.at("bytes"), kMostBytes);
  EXPECT_EQ(page.at("headings").size(), 1u);
  EXPECT_EQ(page.at("charts").size(), page.at("captions").size());
  return page;
}

/// All numbers of the charts' points under `key`.
std::vector<double> drawn(const json& page, const std::string& key) {
  std::vector<double> values;
  for (const json& chart : page.at("charts"))
    for (const json& series : chart.at("series"))
      for (const json& p : series.at("points"))
        if (p.contains(key)) values.push_back(p.at(key).get<double>());
  return values;
}

bool has(const std::vector<double>& values, double wanted) {
  return std::find(values.begin(), values.end(), wanted) != values.end();
}

struct Asked {
  const char* name;
  std::string arguments;
  std::size_t charts;
};
void PrintTo(const Asked& asked, std::ostream* out) { *out << asked.name; }

class Page : public testing::TestWithParam<Asked> {};

TEST_P(Page, IsWholeAndCarriesItsReport) {
  const TemporaryFolder folder;
  const fs::path html = folder.path() / "a.html", report = folder.path() / "a.json";
  ASSERT_LE(
      foreduce_says(GetParam().arguments + " -o " + report.string() + " --html " + html.string())
          .status,
      1);
  const json page = page_of(html);
  ASSERT_TRUE(page.contains("report"));
  EXPECT_EQ(page.at("charts").size(), GetParam().charts);
  EXPECT_FALSE(page.at("tables").empty());
  EXPECT_SAYS(page.at("text").get<std::string>(), GetParam().arguments.substr(0, 5));
  const json stored = json::parse(read_text(report));
  if (!page.at("report").is_null()) {
    EXPECT_EQ(page.at("report"), stored);
  }
  const Result sum = shell("sha1sum < " + report.string());
  EXPECT_SAYS(read_text(html), sum.out.substr(0, 40));
}

TEST_P(Page, ShowDrawsAStoredReportAlike) {
  const TemporaryFolder folder;
  const fs::path report = folder.path() / "a.json", shown = folder.path() / "shown.html",
                 html = folder.path() / "a.html";
  const std::string to = " --html " + html.string() + " -o " + report.string();
  ASSERT_LE(foreduce_says(GetParam().arguments + to).status, 1);
  ASSERT_EQ(foreduce_says("show " + report.string() + " -o " + shown.string()).status, 0);
  const json page = page_of(html), again = page_of(shown);
  for (const char* key : {"charts", "tables", "report", "title"})
    EXPECT_EQ(page.at(key), again.at(key)) << key;
}

INSTANTIATE_TEST_SUITE_P(
    commands, Page,
    testing::Values(
        Asked{"predict", "predict " + scenario_path("first-look") + " --no-cost", 3},
        Asked{"sharded", "predict " + scenario_path("ddp-or-fsdp-g5") + " --no-cost", 3},
        Asked{"compare",
              "compare --instance p4d.24xlarge --nodes 2 --algorithm ring,nccl,nvls --sizes "
              "8B:64MiB:x8 --no-cost",
              1},
        Asked{"explain",
              "explain --instance p4d.24xlarge --nodes 2 --algorithm ring --size 1MiB --no-changes",
              1},
        Asked{"plan", "plan " + scenario_path("plan-resnet50"), 2},
        Asked{"check", "check " + p4d_log_path() + " --instance p4d.24xlarge", 1},
        Asked{"validate", "validate --reference", 2}),
    [](const auto& asked) { return std::string(asked.param.name); });

TEST(Html, ChartsHaveTheNumbersOfTheReport) {
  const TemporaryFolder folder;
  const fs::path html = folder.path() / "a.html";
  const std::string question = "predict " + scenario_path("first-look") + " --no-cost";
  const json report = json_of(question);
  ASSERT_EQ(foreduce_says(question + " --html " + html.string()).status, 0);
  const json page = page_of(html);
  const std::vector<double> y = drawn(page, "y"), low = drawn(page, "low");
  ASSERT_EQ(report.at("points").size(), 8u);
  for (const json& p : report.at("points")) {
    for (const char* key : {"throughput_samples_per_s", "compute_time_s", "straggler_wait_s",
                            "exposed_communication_s", "usd_per_million_samples"})
      EXPECT_TRUE(has(y, p.at(key))) << key;
    const double slowest =
        p.at("throughput_samples_per_s").get<double>() /
        (p.at("step_time_high_s").get<double>() / p.at("step_time_s").get<double>());
    EXPECT_TRUE(has(low, slowest)) << p.at("point");
  }
}

// Each of many algorithms had a chart of its own, and all but six had none.
TEST(Html, AllAlgorithmsAreLinesOfOneChart) {
  const TemporaryFolder folder;
  const fs::path html = folder.path() / "a.html";
  const std::string question = "compare --instance p4d.24xlarge --nodes 2 --sizes 1KiB,64MiB";
  ASSERT_EQ(foreduce_says(question + " --html " + html.string()).status, 0);
  const json page = page_of(html), report = json_of(question);
  ASSERT_EQ(page.at("charts").size(), 1u);
  std::set<std::string> asked, lines;
  for (const json& p : report.at("points"))
    if (!p.contains("error")) asked.insert(p.at("algorithm"));
  for (const json& series : page.at("charts")[0].at("series")) lines.insert(series.at("name"));
  EXPECT_GT(asked.size(), 8u);
  for (const std::string& name : asked) EXPECT_TRUE(lines.contains(name)) << name;
}

// Micro-batches follow from the number of GPUs where a step's samples are given: one line for each
// instance type, and none for what does not fit.
TEST(Html, LinesGoOverTheNodesOfOneGlobalBatchAndOfWhatFits) {
  const TemporaryFolder folder;
  const auto scenario = folder.write("s.yaml", R"(
workload: { model: llama3-8b, precision: bf16, batch_per_gpu: 1, global_batch: 64, sharding: fsdp }
cluster: { instance: [g5.48xlarge, p5.48xlarge, p5en.48xlarge], nodes: [1, 2, 4, 8] }
)");
  const auto file = folder.path() / "page.html";
  const Result r = foreduce_says("predict " + scenario.string() + " --html " + file.string());
  ASSERT_EQ(r.status, 0) << r.out;
  const json page = page_of(file);
  ASSERT_FALSE(page.at("charts").empty());
  const json& throughput = page.at("charts")[0];
  EXPECT_SAYS(page.at("captions").dump(), "Left out: 4 points beyond the GPUs' memory.");
  std::set<std::string> lines;
  for (const json& series : throughput.at("series")) {
    const auto name = series.at("name").get<std::string>();
    lines.insert(name.substr(0, name.find('.')));
    EXPECT_EQ(series.at("points").size(), 4u) << name;
  }
  EXPECT_TRUE(lines.contains("p5") && lines.contains("p5en"));
  EXPECT_FALSE(lines.contains("g5"));
}

// Each number of micro-batches had a chart, whose lines joined steps of different samples.
TEST(Html, SeveralGlobalBatchesAreLinesOfTheirOwn) {
  const TemporaryFolder folder;
  const auto scenario = folder.write("s.yaml", R"(
workload: { model: llama3-8b, precision: bf16, batch_per_gpu: 1, global_batch: [64, 128], sharding: fsdp }
cluster: { instance: p5.48xlarge, nodes: [1, 2, 4, 8] }
)");
  const auto file = folder.path() / "page.html";
  ASSERT_EQ(foreduce_says("predict " + scenario.string() + " --html " + file.string()).status, 0);
  const json page = page_of(file);
  std::set<std::string> lines;
  for (const json& series : page.at("charts").at(0).at("series")) {
    lines.insert(series.at("name").get<std::string>());
    EXPECT_EQ(series.at("points").size(), 4u);
  }
  EXPECT_TRUE(lines.contains("samples/step 64") && lines.contains("samples/step 128"));
}

TEST(Html, BarsAddUpToTheStep) {
  const TemporaryFolder folder;
  const fs::path html = folder.path() / "a.html";
  const std::string question = "predict " + scenario_path("ddp-or-fsdp-g5");
  const json report = json_of(question);
  ASSERT_EQ(foreduce_says(question + " --html " + html.string()).status, 0);
  const json page = page_of(html);
  const auto bars = std::find_if(page.at("charts").begin(), page.at("charts").end(),
                                 [](const json& c) { return c.contains("bars"); });
  ASSERT_NE(bars, page.at("charts").end());
  ASSERT_EQ(bars->at("bars").size(), report.at("points").size());
  for (std::size_t i = 0; i < report.at("points").size(); ++i) {
    double sum = 0;
    for (const json& part : bars->at("series")) sum += part.at("points")[i].at("y").get<double>();
    EXPECT_NEAR(sum, report.at("points")[i].at("step_time_s").get<double>(), 1e-12);
  }
}

TEST(Html, TableHasTheRowsOfCsv) {
  const TemporaryFolder folder;
  const fs::path html = folder.path() / "a.html";
  const std::string question = "predict " + scenario_path("first-look");
  ASSERT_EQ(foreduce_says(question + " --html " + html.string()).status, 0);
  const json page = page_of(html);
  const std::string wide = foreduce_says(question + " --wide").out;
  const json& table = page.at("tables").back();
  ASSERT_EQ(table.size(), 9u);
  for (std::size_t row = 0; row < table.size(); ++row)
    for (const json& cell : table[row]) EXPECT_SAYS(wide, cell.get<std::string>());
}

/// "83.1 % busy" at the end of a link's words.
double busy(const std::string& words) {
  static const std::regex share("([0-9.]+) % busy$");
  std::smatch found;
  return std::regex_search(words, found, share) ? std::stod(found[1]) : -1;
}

TEST(Html, DrawsEveryLinkOfEveryNodeWithItsLoad) {
  const TemporaryFolder folder;
  const fs::path html = folder.path() / "a.html";
  const std::string question =
      "compare --instance p3dn.24xlarge --nodes 2 --algorithm tree --sizes 16MiB ";
  const json report = json_of(question);
  ASSERT_EQ(foreduce_says(question + "--html " + html.string()).status, 0);
  const json topology = json_of("topology p3dn.24xlarge"), page = page_of(html);
  ASSERT_EQ(page.at("nodes").size(), 2u);
  double busiest = 0;
  for (const json& node : page.at("nodes")) {
    EXPECT_EQ(node.at("links").size(), topology.at("links").size());
    for (const json& link : node.at("links")) {
      const double share = busy(link[1]);
      busiest = std::max(busiest, share);
      if (share < 0) EXPECT_EQ(link[0], "ideal") << link;
      else
        EXPECT_EQ(link[0],
                  share < 0.5 ? "l0"
                              : "l" + std::to_string(std::min(5, 1 + static_cast<int>(share / 20))))
            << link;
    }
  }
  EXPECT_NEAR(busiest, 100 * report.at("points")[0].at("bottleneck_utilisation").get<double>(),
              0.051);
}

TEST(Html, ManyNodesAreDrawnAsOneWithTheSpineBelow) {
  const TemporaryFolder folder;
  const fs::path html = folder.path() / "a.html";
  ASSERT_EQ(foreduce_says("predict " + scenario_path("oversubscribed-fabric") + " --html " +
                          html.string())
                .status,
            0);
  const json page = page_of(html);
  ASSERT_EQ(page.at("nodes").size(), 1u);
  const auto boxes = page.at("nodes")[0].at("boxes").get<std::vector<std::string>>();
  EXPECT_NE(std::find(boxes.begin(), boxes.end(), "spine"), boxes.end());
  EXPECT_SAYS(page.at("text").get<std::string>(), "one of 16 nodes");
}

TEST(Html, NoWordOfTheUserBecomesMarkup) {
  const TemporaryFolder folder;
  const std::string evil =
      "</title></script><script>alert(1)</script><img src=x onerror='alert(2)'> & \\\" ]]>";
  const fs::path scenario = folder.write("a<b>&\".yaml", "name: \"" + evil +
                                                             R"("
# <!-- <script>
workload: { model: resnet50, batch_per_gpu: 64 }
cluster: { instance: p3.2xlarge, nodes: [1, 2] }
allreduce: { algorithm: ring }
)");
  const fs::path html = folder.path() / "a.html";
  const Result r = foreduce_says("predict '" + scenario.string() + "' --html " + html.string());
  ASSERT_EQ(r.status, 0) << r.out;
  const json page = page_of(html);
  EXPECT_EQ(page.at("title").get<std::string>(),
            "</title></script><script>alert(1)</script><img src=x onerror='alert(2)'> & \" ]]>");
  EXPECT_EQ(page.at("report").at("name"), page.at("title"));
  EXPECT_SAYS(page.at("text").get<std::string>(), "# <!-- <script>");
}

TEST(Html, LongSweepStaysBelowTwoMegabytesAndSaysWhatItLeavesOut) {
  const TemporaryFolder folder;
  json report = json_of("predict " + scenario_path("first-look") + " --no-cost");
  ASSERT_TRUE(report.contains("points"));
  const json some = report.at("points");
  for (int i = 1; i < 500; ++i)
    for (json p : some) {
      p["nodes"] = p.at("nodes").get<int>() + 8 * i;
      report["points"].push_back(std::move(p));
    }
  const fs::path file = folder.write("long.json", report.dump()), html = folder.path() / "a.html";
  ASSERT_EQ(foreduce_says("show " + file.string() + " -o " + html.string()).status, 0);
  const json page = page_of(html);
  EXPECT_TRUE(page.at("report").is_null());
  EXPECT_SAYS(page.at("text").get<std::string>(), " of 4000 rows; the JSON report has all.");
}

TEST(Html, FileIsKnownToBeWritableBeforeTheWork) {
  const TemporaryFolder folder;
  const Result nowhere =
      foreduce_says("predict " + scenario_path("first-look") + " --html /nowhere/a.html");
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_SAYS(nowhere.out, "/nowhere/a.html");
  const std::string file = (folder.path() / "a.html").string();
  const Result twice =
      foreduce_says("predict " + scenario_path("first-look") + " -o " + file + " --html " + file);
  EXPECT_EQ(twice.status, 2);
  EXPECT_SAYS(twice.out, "the same file");
}

/// What headless Chromium makes of a page: its elements once all scripts have run.
TEST(Html, ChromiumDrawsEveryChartAndLogsNoError) {
  if (shell("command -v chromium").status != 0)
    GTEST_SKIP() << "chromium is not installed: pages are not drawn (apt-get install chromium)";
  const TemporaryFolder folder;
  const fs::path html = folder.path() / "a.html";
  ASSERT_EQ(
      foreduce_says("predict " + scenario_path("first-look") + " --html " + html.string()).status,
      0);
  for (const char* size : {"1280,900", "390,844"}) {
    const Result dom = shell(
        "HOME=" + folder.path().string() +
        " timeout 120 chromium --headless=new --no-sandbox --disable-gpu --enable-logging=stderr "
        "--window-size=" +
        size + " --virtual-time-budget=5000 --dump-dom file://" + html.string() + " 2> " +
        (folder.path() / "log").string());
    ASSERT_EQ(dom.status, 0) << read_text(folder.path() / "log");
    EXPECT_SAYS(dom.out, "class=\"script\"");
    std::size_t canvases = 0;  // Chart.js gives those that it draws a size
    for (std::size_t at = 0; (at = dom.out.find("<canvas id=\"chart-", at)) != std::string::npos;
         ++at)
      canvases += dom.out.substr(at, 300).find("display: block") != std::string::npos;
    EXPECT_EQ(canvases, 3u);
    EXPECT_EQ(read_text(folder.path() / "log").find("CONSOLE"), std::string::npos)
        << read_text(folder.path() / "log");
  }
}

}  // namespace
}  // namespace foreduce
