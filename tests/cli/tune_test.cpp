// `foreduce tune`: NCCL's choice beside the fastest that it could make, and its tuner's file.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

const std::string kP5en = "--instance p5en.48xlarge --sizes 32KiB:512KiB:x2 ";

double time_of(const std::string& choice_options, const nlohmann::json& row) {
  const nlohmann::json points =
      json_of("compare --instance p5en.48xlarge --algorithm nccl --nodes " + row["nodes"].dump() +
              " --sizes " + row["bytes"].dump() + "B " + choice_options)["points"];
  return points[0]["time_us"].get<double>() * 1e-6;
}

// Each time is what compare says of that choice; no other choice of NCCL's is faster.
TEST(Tune, ChoosesTheFastestOfAllThatNcclCanDo) {
  // A name of its own: a part of a temporary is gone when the loop begins.
  const nlohmann::json rows = json_of("tune " + kP5en + "--nodes 4,8 --gain 1")["rows"];
  ASSERT_EQ(rows.size(), 10u);
  for (const nlohmann::json& row : rows) {
    EXPECT_DOUBLE_EQ(row["own_time_s"].get<double>(), time_of("", row));
    double least = 1e9;
    for (const char* algo : {"Ring", "Tree"})
      for (const char* proto : {"LL", "LL128", "Simple"})
        least = std::min(
            least, time_of(std::string("--nccl-algo ") + algo + " --nccl-proto " + proto, row));
    EXPECT_DOUBLE_EQ(row["choice_time_s"].get<double>(), least) << row;
    EXPECT_DOUBLE_EQ(row["gain"].get<double>(), row["own_time_s"].get<double>() / least);
  }
}

TEST(Tune, KeepsNcclsChoiceWhereLittleIsGained) {
  const nlohmann::json rows = json_of("tune " + kP5en + "--nodes 8 --gain 1.1")["rows"];
  int changed = 0;
  for (const nlohmann::json& row : rows) {
    EXPECT_TRUE(row["choice"] == row["own"] || row["gain"].get<double>() >= 1.1) << row;
    changed += row["choice"] != row["own"];
  }
  EXPECT_GT(changed, 0);
  EXPECT_LT(changed, static_cast<int>(rows.size()));
  EXPECT_SAYS(foreduce_says("tune --instance p4d.24xlarge --nodes 2 --sizes 1GiB").out,
              "No other choice of NCCL's is 1.05 times as fast as its own at any of 1 size.\n");
}

// As NVIDIA/nccl's plugins/tuner/example reads it: every size that was asked about has one line. Of
// smaller ones nothing is known.
TEST(Tune, WritesAFileThatHasEverySizeOnce) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "nccl_tuner.conf";
  const std::regex line(
      "allreduce,(\\d+),(\\d+),(ring|tree|nvls|nvls_tree),(ll|ll128|simple),-1,"
      "(\\d+,\\d+)");
  using Ends = std::map<std::string, double>;
  for (const auto& [clusters, all] :
       {std::pair{"--nodes 4,8", Ends{{"4,32", 524288}, {"8,64", 524288}}},
        std::pair{"--nodes 4 --gpus-per-node 4,8", Ends{{"4,16", 524288}, {"4,32", 524288}}}}) {
    ASSERT_EQ(foreduce_says("tune " + kP5en + clusters + " --tuner-file " + file.string()).status,
              0);
    Ends end;
    std::istringstream lines(read_text(file));
    for (std::string text; std::getline(lines, text);) {
      if (text.starts_with("#")) continue;
      std::smatch m;
      ASSERT_TRUE(std::regex_match(text, m, line)) << text;
      const double from = std::stod(m[1]), to = std::stod(m[2]);
      const auto known = end.find(m[5]);
      EXPECT_EQ(from, known == end.end() ? 32768 : known->second + 1) << text;
      EXPECT_GT(to, from);
      end[m[5]] = to;
    }
    EXPECT_EQ(end, all);
  }
}

TEST(Tune, HasSizesThatEveryRanksBlockFits) {
  const Result r = foreduce_says("tune --instance p5.48xlarge --nodes 16 --collective all_gather");
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "What NCCL chooses for all-gathers");
}

TEST(Tune, CanBeShownAgain) {
  const TemporaryFolder folder;
  const std::string report = (folder.path() / "t.json").string(),
                    asked = "tune " + kP5en + "--nodes 8";
  ASSERT_EQ(foreduce_says(asked + " -o " + report).status, 0);
  EXPECT_EQ(foreduce_says("show " + report).out, foreduce_says(asked).out);
}

TEST(Tune, WritesOneLineASizeAsCsv) {
  const std::string csv = foreduce_says("tune " + kP5en + "--nodes 8 --format csv").out;
  EXPECT_TRUE(
      csv.starts_with("instance,nodes,ranks,bytes,own,own_time_s,choice,choice_time_s,gain\n"
                      "p5en.48xlarge,8,64,32768,double-tree LL,"))
      << csv;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 5);
}

TEST(Tune, RefusesWhatCannotBeTuned) {
  const TemporaryFolder folder;
  for (const auto& [options, says] : std::map<std::string, std::string>{
           {"--instance p4d.24xlarge --nodes 2 --collective alltoall",
            "there is nothing to choose"},
           {"--instance p4d.24xlarge,p5.48xlarge --nodes 2 --tuner-file " +
                (folder.path() / "x").string(),
            "the file is of one instance type"},
           {"--instance p4d.24xlarge --nodes 1:2:x2x", "is not a rising range"},
           {"--instance p4d.24xlarge --nodes 2 --gain 0.9", "--gain"}}) {
    const Result r = foreduce_says("tune " + options);
    EXPECT_EQ(r.status, 2) << options;
    EXPECT_SAYS(r.out, says);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace foreduce
