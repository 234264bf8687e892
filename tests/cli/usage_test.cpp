// How the program takes its arguments: help, versions, and one style of errors.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "input/files.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;

constexpr const char* kRingOnP4d = "compare --instance p4d.24xlarge --nodes 2 --algorithm ring ";

TEST(Usage, HelpsAtEveryLevel) {
  for (const char* command : {"", "predict", "plan", "compare", "check", "run", "validate",
                              "topology", "list", "show", "merge", "schema", "docs", "workload",
                              "workload from-config", "topology import", "workload from-trace"}) {
    const Result r = foreduce_says(std::string(command) + " --help");
    EXPECT_EQ(r.status, 0) << command;
    EXPECT_SAYS(r.out, "--help");
    EXPECT_EQ(foreduce_says(std::string("help ") + command).out, r.out) << command;
  }
}

// An empty shell variable meant the default sizes.
TEST(Usage, EmptyValuesAreRefused) {
  for (const char* option : {"--sizes", "--nodes", "--max-memory", "--nccl-version"}) {
    const Result r = foreduce_says(fmt::format("compare --instance p4d.24xlarge {} ''", option));
    EXPECT_EQ(r.status, 2) << option;
    EXPECT_SAYS(r.out, fmt::format("{}: the value is empty", option));
  }
}

TEST(Usage, HelpShowsExamples) {
  EXPECT_SAYS(foreduce_says("help predict").out, "foreduce predict scenarios/bert-large-p3dn.yaml");
}

TEST(Usage, HelpForUnknownCommandNamesAllCommands) {
  const Result r = foreduce_says("help nosuch");
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "error: there is no command called 'nosuch'\n");
  EXPECT_SAYS(r.out, "predict, compare, tune, explain, plan");
  EXPECT_SAYS(foreduce_says("help predcit").out, "did you mean 'predict'?");
}

TEST(Usage, HelpOfHelpIsThatOfAll) {
  const Result r = foreduce_says("help help");
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.out, foreduce_says("help").out);
}

TEST(Usage, VersionPrintsNumberAndCommit) {
  const Result r = foreduce_says("--version");
  EXPECT_EQ(r.status, 0);
  EXPECT_TRUE(
      std::regex_match(r.out, std::regex(R"(foreduce \d+\.\d+\.\d+( \(commit [^)]+\))?\n)")))
      << r.out;
}

// A release is a tag; in a tree without tags, such as an archive, the changelog says which.
TEST(Usage, VersionIsTheNewestOfTheChangelog) {
  const std::string changes = read_text(std::string(FOREDUCE_SOURCE_FOLDER) + "/CHANGELOG.md");
  std::smatch newest;
  ASSERT_TRUE(std::regex_search(changes, newest, std::regex(R"(\n## (\d+\.\d+\.\d+))")));
  EXPECT_TRUE(foreduce_says("--version").out.starts_with("foreduce " + newest.str(1)));
}

/// Arguments that are refused, and what the error says.
struct Refused {
  std::string arguments, part;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.arguments; }

class BadUsage : public testing::TestWithParam<Refused> {};

TEST_P(BadUsage, EndsWithTwoAndSaysWhy) {
  const Result r = foreduce_says(GetParam().arguments);
  EXPECT_EQ(r.status, 2) << r.out;
  EXPECT_SAYS(r.out, GetParam().part);
}

INSTANTIATE_TEST_SUITE_P(
    Mistyped, BadUsage,
    testing::Values(
        Refused{"predcit", "did you mean 'predict'?"},
        Refused{"compare --instance p4d.24xlarge --algrithm ring", "did you mean '--algorithm'?"},
        Refused{"--versoin", "did you mean '--version'?"},
        Refused{"check tests/logs/awsome_p5_2n.txt --against modle", "did you mean 'model'?"},
        Refused{"compare --instance p4d.24xlarge --nodes 010", "starts with a zero"},
        Refused{"compare --instance p4d.24xlarge --nodes 0x4", "not a number"},
        Refused{"compare --instance p4d --nodes 2", "did you mean 'p4d.24xlarge'?"},
        Refused{"compare --instance p4d.24xlrge --nodes 2", "did you mean 'p4d.24xlarge'?"},
        Refused{"compare --instance p4d.24xlarge --nodes 2 --algorithm rnig",
                "did you mean 'ring'?"},
        Refused{"validate --reference --tolerance nan", "not a number"},
        Refused{"topology p4d", "unknown instance 'p4d'"}, Refused{"list nothing", "nothing"},
        Refused{"predict " + scenario_path("gpt2-p4d") + " --format xml", "xml"}));

INSTANTIATE_TEST_SUITE_P(
    Missing, BadUsage,
    testing::Values(
        Refused{"", "Subcommands:"}, Refused{"predict", "scenario"},
        Refused{"predict /nowhere.yaml", "/nowhere.yaml: error: there is no such file"},
        Refused{"predict " + scenario_path("bert-large-p3dm"), "bert-large-p3dn.yaml'?"},
        Refused{"check " + (source_folder() / "tests" / "logs" / "awsome_p5_2nodes.txt").string(),
                "awsome_p5_2n.txt'?"},
        Refused{"predict " + source_folder().string(), "this is a folder"},
        Refused{"merge /tmp", "this is a folder"},
        Refused{"predict " + scenario_path("message-sizes-p4d"), "predict needs a workload"},
        Refused{"predict " + scenario_path("gpt2-p4d") +
                    " --set allreduce.bucketing=smddp --set 'allreduce.bucket=1 KiB'",
                "are more than 100000 all-reduces"},
        Refused{"compare --instance p4d.24xlarge --nodes 40000 --algorithm ring --sizes 1GiB",
                "messages are numbered up to"},
        Refused{"compare --check " + scenario_path("bert-large-p3dn"), "has a workload and no"},
        Refused{"compare", "--instance and --nodes"}, Refused{"validate", "--reference"},
        Refused{"validate nosuch --reference", "nosuch"},
        Refused{"topology ./nowhere.yaml", "there is no such file"},
        Refused{"show /nowhere.json", "there is no such file"}));

INSTANTIATE_TEST_SUITE_P(
    Impossible, BadUsage,
    testing::Values(
        Refused{"compare --instance p4d.24xlarge --nodes 0", "nodes"},
        Refused{"compare --instance p4d.24xlarge --nodes 2 --sizes 8", "has no unit"},
        Refused{"compare --instance p4d.24xlarge --nodes 2 --sizes 8B:4B:x2", "must rise"},
        Refused{"compare --instance p4d.24xlarge --nodes 2 --inner nonsense "
                "--algorithm hierarchical",
                "nonsense"},
        Refused{"compare --instance p4d.24xlarge --nodes 2 --sizes 3B", "less than one element"},
        Refused{"compare --instance c5n.18xlarge --nodes 2", "has no GPU"},
        Refused{"compare " + scenario_path("message-sizes-p4d") + " --nodes 3", "nodes"},
        Refused{"compare --instance p4d.24xlarge --nodes 2 --segments 4096", "segments"},
        Refused{std::string(kRingOnP4d) + "--profile nccl-a10", "nccl-a10"},
        Refused{"predict " + scenario_path("gpt2-p4d") + " --jobs 0", "jobs"},
        Refused{"predict " + scenario_path("gpt2-p4d") + " --shard 5/4", "there is no part 5 of 4"},
        Refused{"run --sizes 3B --ranks 2", "holds no element"},
        Refused{"run --sizes 9TiB --ranks 2", "of memory"},
        Refused{"run --workload resnet50 --gpu K80", "nobody measured resnet50 on 'K80'"},
        Refused{"topology p4d.24xlarge --format nccl-tests", "nccl-tests"},
        Refused{"list algorithms -o /nowhere/x", "cannot be written"},
        Refused{"list algorithms -o /dev/full", "cannot be written"}));

INSTANTIATE_TEST_SUITE_P(
    Misplaced, BadUsage,
    testing::Values(
        Refused{"show", "error: report is missing"},
        Refused{"topology", "error: instance is missing\n  see: foreduce help topology\n"},
        Refused{"predict -x", "error: foreduce predict has no option -x\n  accepted: --set"},
        Refused{"predict x.yaml -wide", "has no option -wide\n  did you mean '--wide'?"},
        Refused{"compare --instance", "error: --instance needs a value"},
        Refused{"predict x.yaml y.yaml", "error: nothing is expected where 'y.yaml' stands"},
        Refused{"predict x.yaml --jobs 0", "--jobs: '0' is not accepted: a number from 1 to 4096"},
        Refused{"predict x.yaml --point-timeout 0", "a number from 0.001 to 1e+09 is"},
        Refused{"predict x.yaml --jobs 1 --jobs 2", "--jobs is given 2 times"},
        Refused{"predict x.yaml --wide=perhaps", "--wide: 'perhaps' is not accepted here"},
        Refused{"compare x.yaml --nodes 2", "scenario and --nodes cannot be given together"},
        Refused{"calibrate --folder x", "--folder goes with --reference, which is missing"}));

INSTANTIATE_TEST_SUITE_P(
    Limits, BadUsage,
    testing::Values(
        Refused{std::string(kRingOnP4d) + "--sizes -8B", "'-8B' is out of range: 0 B to 1000 TB"},
        Refused{std::string(kRingOnP4d) + "--sizes 1EB", "'EB' is not a unit of a size"},
        Refused{"compare --instance p4d.24xlarge --nodes 0",
                "error: --nodes: '0' is too small: at least 1, at most 65536\n"},
        Refused{"compare --instance p4d.24xlarge --nodes 2 --algorithm nccl --nccl-buffsize 0B",
                "error: --nccl-buffsize: '0B' is too small: at least 64 KiB, at most 1 GiB\n"},
        Refused{"compare --instance p4d.24xlarge --nodes 2 --algorithm nccl --nccl-channels 100",
                "a number from 1 to 64 is"},
        Refused{"compare " + scenario_path("message-sizes-p4d") +
                    " --set 'allreduce={algorithm: nccl, nccl: {channels: 100}}'",
                "allreduce.nccl.channels: '100' is too large\n  at most 64\n"},
        Refused{"predict " + scenario_path("gpt2-p4d") + " --set allreduce.bucket=1B",
                "'1B' is too small: at least 1 KiB\n"},
        Refused{"predict " + scenario_path("gpt2-p4d") + " --set 'workload.step_overhead=100 d'",
                "'100 d' is too large\n  at most 1 h\n"},
        Refused{"validate --reference --tolerance -1",
                "--tolerance: '-1' is not accepted: a number from 0 on is\n"}));

// What would do nothing is refused, not passed over.
INSTANTIATE_TEST_SUITE_P(
    WithoutEffect, BadUsage,
    testing::Values(
        Refused{"validate --sharded --tolerance 0.1", "--tolerance and --sharded cannot be given"},
        Refused{"validate --detection --plot /tmp/x", "--plot and --detection cannot be given"},
        Refused{"validate nccl-h100 --sharded", "cannot be given together"},
        Refused{std::string(kRingOnP4d) + "--inner rign",
                "'rign' cannot be the inner algorithm; accepted"},
        Refused{"calibrate x.json --cluster y.yaml --keep z.json",
                "--keep is of messages that are measured now, and x.json is of earlier ones"},
        Refused{"run --workload resnet50 --bucket 0MiB", "--bucket 0MiB: at least 1 KiB"},
        Refused{"algorithm export ring --ranks 4 --format msccl-xml -o x.json",
                "-o x.json: a file of --format msccl-xml has another ending"},
        Refused{"docs", "what to write is missing\n  accepted: commands, scenario, machine, man"},
        Refused{"algorithm export hierarchical --ranks 4 --per-node 2 --segments 256 -o x.xml",
                "cannot be written as msccl-xml: nchannels=\"257\" is no whole number"},
        Refused{"topology import " +
                    (source_folder() / "tests/topologies/p4d-24xl-topo.xml").string() +
                    " --like c5.18xlarge",
                "--like c5.18xlarge: it has no GPU"}));

INSTANTIATE_TEST_SUITE_P(
    Set, BadUsage,
    testing::Values(
        Refused{"predict " + scenario_path("gpt2-p4d") + " --set cluster.nodes=-3",
                "--set cluster.nodes=-3: error: cluster.nodes: '-3' is too small"},
        Refused{"predict " + scenario_path("gpt2-p4d") +
                    " --set cluster.nodes_a=3 --set cluster.nodes=2",
                "--set cluster.nodes_a=3: error: cluster.nodes_a: there is no such key here"},
        Refused{"predict " + scenario_path("gpt2-p4d") + " --set workload.model=",
                "error: --set: 'workload.model=' gives workload.model no value\n"},
        Refused{"predict " + scenario_path("gpt2-p4d") + " --set 'cluster[0]=3'",
                "error: --set: 'cluster[0]=3': cluster is a map, not a list\n"},
        Refused{"predict " + scenario_path("gpt2-p4d") + " --set 'workload.measured[5].mfu=0.4'",
                "there is no list workload.measured\n  set all of it: workload.measured=["},
        Refused{"predict " + scenario_path("gpt2-p4d") + " --set 'cluster.nodes[0=3'",
                "'cluster.nodes[0' is not a key\n"},
        Refused{"predict " + scenario_path("gpt2-p4d") + " --set cluster..nodes=1",
                "'cluster..nodes' is not a key\n"},
        Refused{"run --workload mixtral-8x7b --ranks 2 --gpu mew",
                "nobody measured mixtral-8x7b on 'mew', and no machine that ships has one"}));

INSTANTIATE_TEST_SUITE_P(
    Forms, BadUsage,
    testing::Values(
        Refused{"explain /nowhere.yaml -o e.csv",
                ".csv files cannot be written here\n  accepted: .txt, .json, .md, .html"},
        Refused{"explain /nowhere.yaml --format csv", "accepted: table, json, markdown, html"},
        Refused{"run --ranks 2 --sizes 1KiB --dtype f23", "did you mean 'f32'?"},
        Refused{std::string(kRingOnP4d) + "--dtype f23", "did you mean 'f32'?"}));

TEST(Usage, CalibrateSaysWhatItWritesWhere) {
  const std::string help = foreduce_says("help calibrate").out;
  EXPECT_SAYS(help, "Write the profile, which is YAML, to this file");
  EXPECT_EQ(help.find("Without it, the ending of -o decides"), std::string::npos) << help;
}

// The words of --collective alone took 88 columns of 80.
TEST(Usage, HelpFitsTheTerminal) {
  for (const char* command : {"predict", "compare", "tune", "explain", "plan", "check", "run",
                              "calibrate", "validate", "topology", "algorithm export"}) {
    const Result help = shell(std::string("COLUMNS=80 " FOREDUCE_PROGRAM " help ") + command);
    EXPECT_EQ(fmt::format("{}", fmt::join(lines_wider_than(80, help.out), "\n")), "") << command;
    EXPECT_GT(lines_of(help.out).size(), 10u) << command;
  }
}

TEST(Usage, ElementTypesHaveTheSameNamesEverywhere) {
  for (const char* name : {"F16", "half", "fp16", "Float16"}) {
    const Result run =
        foreduce_says(std::string("run --ranks 2 --sizes 1KiB --iterations 1 --dtype ") + name +
                      " --format json");
    EXPECT_EQ(run.status, 0) << run.out;
    EXPECT_SAYS(run.out, R"("dtype": "half")");
    const Result compare =
        foreduce_says(std::string(kRingOnP4d) + "--sizes 1KiB --format json --dtype " + name);
    EXPECT_EQ(compare.status, 0) << compare.out;
    EXPECT_SAYS(compare.out, R"("type": "f16")");
  }
}

TEST(Usage, ErrorsOfOneCommandPointToItsHelp) {
  const Result r = foreduce_says("predict " + scenario_path("gpt2-p4d") + " --jobs none");
  EXPECT_EQ(r.status, 2);
  EXPECT_TRUE(r.out.starts_with("error: ")) << r.out;
  EXPECT_SAYS(r.out, "\n  see: foreduce help predict\n");
}

TEST(Usage, MissingDataFolderIsOneClearError) {
  const Result r = shell("FOREDUCE_DATA=/nowhere " FOREDUCE_PROGRAM " list instances");
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "FOREDUCE_DATA=/nowhere: no foreduce data there");
}

TEST(Output, LeavesNothingWhereThereIsNoAnswer) {
  const TemporaryFolder folder;
  const std::string question = std::string(kRingOnP4d) + "--sizes 1MiB --profile nope -o ";
  EXPECT_EQ(foreduce_says(question + (folder.path() / "new").string()).status, 2);
  EXPECT_FALSE(fs::exists(folder.path() / "new"));
  fs::create_symlink(folder.path() / "target", folder.path() / "link");
  EXPECT_EQ(foreduce_says(question + (folder.path() / "link").string()).status, 2);
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
}

TEST(Output, LeavesTheOldAnswerWhereThereIsNoNewOne) {
  const TemporaryFolder folder;
  const fs::path old = folder.write("precious.json", "precious");
  const fs::path file = folder.write("bad_machine.yaml", R"(
name: x
workload: { model: resnet50, batch_per_gpu: 64 }
cluster: { instance: ./nowhere.yaml, nodes: 2 }
allreduce: { algorithm: ring }
)");
  EXPECT_EQ(foreduce_says("predict " + file.string() + " -o " + old.string()).status, 2);
  EXPECT_EQ(read_text(old), "precious");
}

TEST(Output, IsNeverWrittenOverTheScenario) {
  const TemporaryFolder folder;
  const std::string file = folder
                               .write("same.txt", R"(
name: x
cluster: { instance: p4d.24xlarge, nodes: 2 }
allreduce: { algorithm: ring }
messages: { sizes: 1 MiB }
)")
                               .string();
  EXPECT_SAYS(foreduce_says("compare " + file + " -o " + file).out, "would overwrite");
  EXPECT_EQ(foreduce_says("compare " + file).status, 0);
}

// An inner algorithm that nothing uses is no silent flag.
TEST(Usage, InnerAlgorithmsAreRefusedWhereNoneIsTaken) {
  for (const std::string command : {"test-algorithm ring --ranks 2", "algorithm export ring"}) {
    const Result r = foreduce_says(command + " --inner double-tree");
    EXPECT_EQ(r.status, 2) << command;
    EXPECT_SAYS(r.out, "--inner: ring takes no other algorithm between nodes");
  }
}

TEST(Usage, WordsOfOtherOptionsNameTheRightOnes) {
  for (const std::string name : {"nccl:ring", "nccl ring", "nccl-Ring"}) {
    const Result r = foreduce_says(
        "compare --instance p4d.24xlarge --nodes 2 --sizes 1MiB "
        "--algorithm '" +
        name + "'");
    EXPECT_EQ(r.status, 2) << name;
    EXPECT_SAYS(r.out, "--algorithm nccl --nccl-algo Ring");
  }
  const Result plot = foreduce_says("predict mine.yaml --plot x.svg");
  EXPECT_EQ(plot.status, 2);
  EXPECT_SAYS(plot.out, "did you mean '--html'?");
}

}  // namespace
}  // namespace foreduce
