// One document in many forms: JSON is stored, tables, Markdown and CSV are rendered from it.
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;

/// A command whose report can be shown again.
struct Shown {
  const char* name;
  std::string arguments;
};
void PrintTo(const Shown& shown, std::ostream* out) { *out << shown.name; }

class Show : public testing::TestWithParam<Shown> {};

TEST_P(Show, PrintsWhatTheCommandDid) {
  const TemporaryFolder folder;
  const std::string report = (folder.path() / "report.json").string();
  ASSERT_LE(foreduce_says(GetParam().arguments + " -o " + report).status, 1);
  const std::string command = GetParam().arguments.substr(0, GetParam().arguments.find(' '));
  const bool explains =
      foreduce_says(command + " --help").out.find("--explain") != std::string::npos;
  for (const std::string form :
       {"--format table", explains ? "--format table --wide --explain" : "--format table --wide",
        "--format csv", "--format markdown", "--format json"}) {
    const Result shown = foreduce_says("show " + report + " " + form);
    EXPECT_EQ(shown.status, 0) << shown.out;
    EXPECT_EQ(shown.out, foreduce_says(GetParam().arguments + " " + form + " 2>/dev/null").out)
        << form;
  }
}

INSTANTIATE_TEST_SUITE_P(
    commands, Show,
    testing::Values(Shown{"predict", "predict " + scenario_path("claim-herring") + " --no-cost"},
                    Shown{"compare",
                          "compare --instance p4d.24xlarge --nodes 2 --algorithm ring,nccl,nvls "
                          "--sizes 8B,1MiB --no-cost"},
                    Shown{"plan", "plan " + scenario_path("plan-resnet50")},
                    Shown{"check", "check " + p4d_log_path() + " --instance p4d.24xlarge"},
                    Shown{"topology", "topology p4d.24xlarge"},
                    Shown{"algorithms", "list algorithms"}, Shown{"instances", "list instances"},
                    Shown{"profiles", "list profiles"}, Shown{"workloads", "list workloads"},
                    Shown{"transports", "list transports"}),
    [](const auto& shown) { return std::string(shown.param.name); });

TEST(Show, RefusesWhatIsNoReport) {
  const TemporaryFolder folder;
  for (const char* text : {"", "[]", "{}", R"({"kind": "schema"})", R"({"kind": "predict"})"}) {
    const std::string file = folder.write("report.json", text).string();
    const Result r = foreduce_says("show " + file);
    EXPECT_EQ(r.status, 2) << text;
    EXPECT_SAYS(r.out, ": error: not ");
  }
}

TEST(Format, FollowsFromTheEndingOfTheFile) {
  const TemporaryFolder folder;
  for (const auto& [ending, format] : {std::pair("json", "json"),
                                       {"JSON", "json"},
                                       {"csv", "csv"},
                                       {"md", "markdown"},
                                       {"txt", "table"}}) {
    const fs::path file = folder.path() / (std::string("answer.") + ending);
    ASSERT_EQ(foreduce_says("list instances -o " + file.string()).status, 0);
    EXPECT_EQ(read_text(file), foreduce_says(std::string("list instances --format ") + format).out)
        << ending;
  }
}

TEST(Format, RefusesPictures) {
  const TemporaryFolder folder;
  const Result r = foreduce_says("list instances -o " + (folder.path() / "answer.PNG").string());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, ".png files cannot be written");
}

// A table of text took the place of a scenario, with an exit status of 0.
TEST(Format, RefusesEndingsOfOtherFiles) {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("own.yaml", "name: mine").string();
  const auto refuses = [](const std::string& arguments, const char* why) {
    const Result r = foreduce_says(arguments);
    EXPECT_EQ(r.status, 2) << arguments;
    EXPECT_SAYS(r.out, why);
  };
  refuses("list instances -o " + scenario, ".yaml files cannot be written here\n  accepted: .txt");
  refuses("predict " + scenario_path("first-look") + " --html " + scenario,
          "accepted: .html, .htm");
  refuses("list instances -o " + scenario + ".cvs", "did you mean '.csv'?");
  refuses("topology p4d.24xlarge -o g.dot", ".dot files cannot be written here");
  refuses("topology p4d.24xlarge --dot -o g.xml", "accepted: .dot, .gv");
  refuses("calibrate x.log -o g.json", "accepted: .yaml, .yml");
  refuses("workload from-config x.json -o g", "'g' has no ending\n  accepted: .yaml, .yml");
  refuses("workload from-trace x.json --workload g", "'g' has no ending\n  accepted: .yaml, .yml");
  EXPECT_EQ(read_text(scenario), "name: mine");
}

TEST(Format, IsATablesWhereAPipeHasNoEnding) {
  for (const char* file : {"/dev/stdout", "-", "/proc/self/fd/1"})
    EXPECT_EQ(foreduce_says(std::string("list instances -o ") + file).out,
              foreduce_says("list instances").out)
        << file;
}

TEST(Format, OptionWinsOverTheEndingOfTheFile) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "answer.csv";
  ASSERT_EQ(foreduce_says("list instances --format json -o " + file.string()).status, 0);
  EXPECT_TRUE(nlohmann::json::parse(read_text(file)).contains("instances"));
}

TEST(Format, CsvHasTheNumbersOfJson) {
  const std::string arguments = "predict " + scenario_path("maskrcnn-p3dn");
  const auto report = json_of(arguments);
  const auto lines = lines_of(foreduce_says(arguments + " --format csv").out);
  ASSERT_EQ(lines.size(), report["points"].size() + 1);
  const auto split = [](const std::string& line) {
    static const std::regex comma(",");
    return std::vector<std::string>{std::sregex_token_iterator(line.begin(), line.end(), comma, -1),
                                    {}};
  };
  const auto keys = split(lines[0]);
  const auto column =
      static_cast<std::size_t>(std::find(keys.begin(), keys.end(), "step_time_s") - keys.begin());
  ASSERT_LT(column, keys.size());
  for (std::size_t i = 0; i < report["points"].size(); ++i)
    EXPECT_EQ(std::stod(split(lines[i + 1]).at(column)),
              report["points"][i]["step_time_s"].get<double>());
}

// A row without an answer has fewer fields, and a sweep knows its columns before its rows.
TEST(Format, CsvOfAStoredReportIsWhatTheCommandWrote) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "report.json").string();
  for (const std::string scenario :
       {"mixtral-8x7b-p5-experts", "llama2-70b-p5-hsdp", "first-look"}) {
    const std::string asked = "predict " + scenario_path(scenario);
    ASSERT_EQ(foreduce_says(asked + " -o " + file).status, 0) << scenario;
    EXPECT_EQ(foreduce_says("show " + file + " --format csv").out,
              foreduce_says(asked + " --format csv").out)
        << scenario;
  }
}

// What a simulation took stood in each row, so that no two runs gave the same file.
TEST(Format, EqualQuestionsGiveEqualCsv) {
  for (const std::string& question :
       {"predict " + scenario_path("maskrcnn-p3dn"),
        std::string(
            "compare --instance p4d.24xlarge --nodes 2 --algorithm ring --sizes 8B,1MiB")}) {
    const std::string first = foreduce_says(question + " --no-cache --format csv").out;
    EXPECT_EQ(first, foreduce_says(question + " --format csv").out);
    EXPECT_EQ(first, foreduce_says(question + " --no-cost --format csv").out);
    EXPECT_SAYS_NOT(first, "wall_seconds");
  }
}

TEST(Format, CsvHasACellForEveryHeading) {
  const auto lines = lines_of(foreduce_says("list instances --format csv").out);
  for (const std::string& line : lines)
    EXPECT_EQ(std::count(line.begin(), line.end(), ','),
              std::count(lines[0].begin(), lines[0].end(), ','));
}

TEST(Format, AnswersDoNotHangOnJobs) {
  const std::string arguments = "predict " + scenario_path("maskrcnn-p3dn") + " --no-cost";
  for (const char* format : {"table", "json"}) {
    const std::string form = std::string(" --format ") + format;
    EXPECT_EQ(foreduce_says(arguments + form + " --jobs 1").out,
              foreduce_says(arguments + form + " --jobs 4").out);
  }
}

TEST(Format, SaysInOneLineWhichPointsHaveNoAnswer) {
  const std::string arguments =
      "compare --instance p4d.24xlarge --nodes 2 --algorithm nvls,ring,nvls-tree "
      "--sizes 8B,1KiB";
  const Result r = foreduce_says(arguments + " --format json 2>&1 >/dev/null");
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.out, "4 of 6 points have no answer: 0, 2-3, 5\n");
}

TEST(Output, AHyphenIsStandardOutput) {
  const TemporaryFolder folder;
  const std::string to = "cd " + folder.path().string() + " && ",
                    asked = to + FOREDUCE_PROGRAM
                            " compare --instance p4d.24xlarge --nodes 2 "
                            "--algorithm ring --sizes 1MiB";
  EXPECT_EQ(shell(asked + " -o -").out, shell(asked).out);
  EXPECT_EQ(shell(to + FOREDUCE_PROGRAM " docs scenario -o -").out,
            shell(to + FOREDUCE_PROGRAM " docs scenario").out);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FullPipelines, AreNotExtrapolated) {
  const std::string arguments =
      "compare --instance p5.48xlarge --nodes 1 --algorithm nccl --sizes 1GiB ";
  const auto line = json_of(arguments)["points"][0];
  const auto full = json_of(arguments + "--full-pipelines")["points"][0];
  ASSERT_TRUE(line["extrapolation_error"].is_number()) << line;
  EXPECT_TRUE(full["extrapolation_error"].is_null()) << full;
  EXPECT_NEAR(line["time_us"].get<double>() / full["time_us"].get<double>(), 1,
              line["extrapolation_error"].get<double>());
}

}  // namespace
}  // namespace foreduce
