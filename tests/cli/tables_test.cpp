// Tables for people: few columns, no long lines, errors in their rows, footnotes in order.
#include <gtest/gtest.h>

#include "scenarios/report/table.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/report_checks.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// A command whose tables are looked at.
struct Printed {
  const char* name;
  std::string arguments;
};
void PrintTo(const Printed& printed, std::ostream* out) { *out << printed.name; }

std::string log_check(const char* log, const char* more) {
  return "check " + (source_folder() / "tests" / "logs" / log).string() + " --instance " + more;
}

class Tables : public testing::TestWithParam<Printed> {};

TEST_P(Tables, FitWithoutWideAndAreWholeWithIt) {
  const TemporaryFolder folder;
  const std::string report = (folder.path() / "report.json").string();
  const Result r = foreduce_says(GetParam().arguments + " -o " + report);
  ASSERT_LE(r.status, 1) << r.out;
  expect_tables_fit(report);
  expect_markdown_is_whole(report);
}

INSTANTIATE_TEST_SUITE_P(
    compare, Tables,
    testing::Values(Printed{"p4d", "compare --instance p4d.24xlarge --nodes 2 --sizes 8B:1GiB:x64"},
                    Printed{"p5",
                            "compare --instance p5.48xlarge --nodes 2 --algorithm "
                            "nccl,best,ring,nvls,nvls-tree --sizes 8B:1GiB:x64"}),
    [](const auto& printed) { return std::string(printed.param.name); });

INSTANTIATE_TEST_SUITE_P(
    check, Tables,
    testing::Values(
        Printed{"dlami_p3dn", log_check("dlami_p3dn_2n.txt", "p3dn.24xlarge")},
        Printed{"eksefa_p3dn", log_check("eksefa_p3dn_2n_1gpu.txt", "p3dn.24xlarge --nodes 2")},
        Printed{"dlami_p4d", log_check("dlami_p4d_2n.txt", "p4d.24xlarge")},
        Printed{"awsome_p4de", log_check("awsome_p4de_2n.txt", "p4de.24xlarge")},
        Printed{"awsome_p5", log_check("awsome_p5_2n.txt", "p5.48xlarge")},
        Printed{"awsome_p5_batch", log_check("awsome_p5_1n_batch.txt", "p5.48xlarge")},
        Printed{"nebius_h100", log_check("nebius_h100_ib_2n.txt", "p5.48xlarge")},
        Printed{"skypilot_p4d", log_check("skypilot_p4d_2n.txt", "p4d.24xlarge")},
        Printed{"own_h100", log_check("own_h100_4n_sockets.txt", "p5.4xlarge")},
        Printed{"stas00_p5en", log_check("stas00_p5en_1n_torch.txt", "p5en.48xlarge")},
        Printed{"one_efa", log_check("skypilot_p4d_2n_one_efa.txt", "p4d.24xlarge --nodes 2")}),
    [](const auto& printed) { return std::string(printed.param.name); });

INSTANTIATE_TEST_SUITE_P(others, Tables,
                         testing::Values(Printed{"instances", "list instances"},
                                         Printed{"profiles", "list profiles"},
                                         Printed{"workloads", "list workloads"}),
                         [](const auto& printed) { return std::string(printed.param.name); });

TEST(Topology, FoldsLinksThatAreAlike) {
  const std::string folded = foreduce_says("topology u-p6e-gb200x72").out,
                    whole = foreduce_says("topology u-p6e-gb200x72 --wide").out;
  EXPECT_LT(lines_of(folded).size(), 60u);
  EXPECT_TRUE(std::regex_search(
      folded, std::regex(R"(socket0>socket1 and 629 more +socket interconnect +40 GB/s)")))
      << folded;
  EXPECT_SAYS(folded, "all of them with --wide");
  EXPECT_SAYS(whole, "\nsocket34>socket35  socket interconnect");
  EXPECT_SAYS(foreduce_says("topology p4d.24xlarge").out, "\ngpu7>pcie3");
}

TEST(Tables, EveryLogIsChecked) {
  std::size_t logs = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_folder() / "tests" / "logs"))
    logs += file.path().extension() == ".txt";
  EXPECT_EQ(logs, 11u) << "add the new log to the tests above";
}

// A cluster of two kinds of nodes, on which only some algorithms run.
TEST(TableErrors, StandInTheirRowsAndFit) {
  const TemporaryFolder folder;
  folder.write("one.yaml", R"(
instance: p4de.24xlarge
gpu: { model: A100, count: 1, fp16: 312 TFLOPS, reduce_bandwidth: 500 GB/s }
nic: { count: 1, bandwidth: 100 Gbps, latency: 5 us, efa: 1 }
)");
  const std::string file = folder
                               .write("mixed.yaml", R"(
name: mixed
workload: { model: resnet50, batch_per_gpu: 64 }
cluster:
  mixed:
    - { instance: p4d.24xlarge, nodes: 1 }
    - { instance: ./one.yaml, nodes: 1 }
allreduce: { algorithm: [ring, hierarchical] }
)")
                               .string();
  const Result narrow = foreduce_says("predict " + file);
  EXPECT_EQ(narrow.status, 1);
  const auto tables = tables_in(narrow.out);
  ASSERT_EQ(tables.size(), 1u) << narrow.out;
  ASSERT_EQ(tables[0].rows.size(), 2u) << narrow.out;
  EXPECT_SAYS_NOT(tables[0].rows[0], "error:");
  EXPECT_SAYS(tables[0].rows[1], "hierarchical  error: ");
  EXPECT_TRUE(lines_wider_than(100, narrow.out).empty()) << narrow.out;
  const Result wide = foreduce_says("predict " + file + " --wide");
  EXPECT_SAYS(tables_in(wide.out).at(0).rows.at(1), "same number of GPUs");
}

TEST(TableErrors, AreCutToTheWidthUnlessWide) {
  Table table;
  table.column("name");
  table.column("value", 1);
  table.row({"one", "1"});
  table.failed_row({"two", "-"}, std::string(200, 'x'));
  const std::string text = table.text(View{});
  EXPECT_TRUE(lines_wider_than(100, text).empty()) << text;
  EXPECT_SAYS(text, "two   error: xxx");
  EXPECT_SAYS(text, "…\n");
  EXPECT_SAYS(table.text(View{.wide = true}), std::string(200, 'x'));
  EXPECT_EQ(table.cut_errors(View{}), std::vector<std::string>{std::string(200, 'x')});
  EXPECT_TRUE(table.cut_errors(View{.wide = true}).empty());
}

TEST(Table, LastCellGoesOnBelowItself) {
  Table table;
  table.column("name");
  table.column("what");
  table.row({"one", "some words that do not fit into so narrow a terminal"});
  EXPECT_EQ(table.text(View{.width = 40}),
            "name  what\n"
            "one   some words that do not fit into so\n"
            "      narrow a terminal\n");
}

TEST(Table, DropsTheLeastNeededColumnsFirst) {
  Table table;
  for (const auto& [heading, rank] : {std::pair("id", 0), {"b", 3}, {"c", 1}, {"d", 2}})
    table.column(heading, rank);
  table.row({"1", std::string(50, 'b'), std::string(40, 'c'), std::string(30, 'd')});
  EXPECT_EQ(table.hidden(View{}), std::vector<std::string>{"b"});
  EXPECT_EQ(table.hidden(View{.width = 60}), (std::vector<std::string>{"b", "d"}));
  EXPECT_EQ(table.hidden(View{.wide = true}), std::vector<std::string>{});
}

TEST(Table, HasAtMostEightColumnsUnlessWide) {
  Table table;
  for (int c = 0; c < 12; ++c) table.column("c" + std::to_string(c), c);
  table.row(std::vector<std::string>(12, "1"));
  EXPECT_EQ(tables_in(table.text(View{})).at(0).headings.size(), kMostColumns);
  EXPECT_EQ(tables_in(table.text(View{.wide = true})).at(0).headings.size(), 12u);
}

TEST(Table, MarkdownEscapesWhatWouldEndACell) {
  Table table;
  table.column("a");
  table.column("b");
  table.row({"x | y", "2"});
  EXPECT_EQ(table.text(View{.format = Format::markdown}), R"(| a | b |
|---|---:|
| x \| y | 2 |
)");
}

TEST(Table, CsvQuotesWhatWouldEndACell) {
  Table table;
  table.column("a");
  table.column("b");
  table.row({"x, y", R"(say "z")"});
  EXPECT_EQ(table.csv(), "a,b\n\"x, y\",\"say \"\"z\"\"\"\n");
}

TEST(Wrapped, BreaksAtSpacesAndKeepsIndents) {
  const View narrow{.width = 40};
  EXPECT_EQ(wrapped("word:   a b", narrow), "word:   a b\n");
  EXPECT_EQ(wrapped("  indented", narrow), "  indented\n");
  const std::string text = wrapped("one two three four five six seven eight nine ten", narrow, 4);
  EXPECT_EQ(text, "one two three four five six seven eight\n    nine ten\n");
}

// The headline of several fabrics was of one, and did not say which.
TEST(Predict, NamesTheFabricThatItIsOf) {
  const TemporaryFolder folder;
  const std::string file = folder
                               .write("s.yaml", R"(
workload: { model: gpt2-124m, batch_per_gpu: 4 }
cluster:
  instance: p4d.24xlarge
  nodes: 4
  fabric: { oversubscription: [1, 4], placement: spread, nodes_per_leaf: 2 }
)")
                               .string();
  EXPECT_SAYS(foreduce_says("predict " + file).out, "On 4 nodes, oversubscription 1:1, nccl");
  const std::string one =
      foreduce_says("predict " + file + " --set cluster.fabric.oversubscription=4").out;
  EXPECT_SAYS(one, "oversubscription 4:1");
  EXPECT_SAYS(one, "placement spread");
}

TEST(Machine, RatesThatAreTooSmallAreRefused) {
  const TemporaryFolder folder;
  const auto topology = [&](const std::string& keys) {
    return foreduce_says(
        "topology " +
        folder.write("m.yaml", "instance: mine\nlike: g5.12xlarge\n" + keys).string());
  };
  const Result slow = topology("nic: { bandwidth: 1e-300 Gbps }");
  EXPECT_EQ(slow.status, 2);
  EXPECT_SAYS(slow.out, "'1e-300 Gbps' is too small\n");
  EXPECT_EQ(topology("nic: { bandwidth: 1 Gbps }").status, 0);
}

TEST(TestAlgorithm, JudgesAnInnerAlgorithmByItsOwnSteps) {
  const Result r = foreduce_says("test-algorithm hierarchical --inner tree --ranks 4,6");
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "not tested: ");  // tree has no reduce-scatter
}

}  // namespace
}  // namespace foreduce
