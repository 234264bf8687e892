// Bad input: one clear error each, with file, line, column, key, and what would do.
#include <gtest/gtest.h>

#include <set>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "algorithms/core/registry.hpp"
#include "input/files.hpp"
#include "models/compute.hpp"
#include "models/profile.hpp"
#include "models/workload.hpp"
#include "scenarios/sweep/scenario.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/files.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;

const std::string kGood = R"(name: a question
workload:  { model: bert-large, precision: fp16, batch_per_gpu: 8 }
cluster:   { instance: p3dn.24xlarge, nodes: [1, 2] }
allreduce: { algorithm: [ring, hierarchical], bucket: 25 MiB }
)";

/// The good scenario with one thing changed.
std::string with(const std::string& what, const std::string& instead) {
  std::string text = kGood;
  const auto at = text.find(what);
  if (at == std::string::npos) throw std::logic_error("'" + what + "' is not in the scenario");
  return text.replace(at, what.size(), instead);
}
/// The good scenario with a line more.
std::string plus(const std::string& line) { return kGood + line + "\n"; }

std::string error_in(const std::string& text) {
  return error_of([&] { parse_scenario("s.yaml", text); });
}

struct Bad {
  const char* name;
  std::string text;
  std::vector<std::string> parts;  ///< of the message
};
void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class BadScenario : public testing::TestWithParam<Bad> {};
TEST_P(BadScenario, IsOneClearError) {
  const std::string error = error_in(GetParam().text);
  for (const std::string& part : GetParam().parts) EXPECT_SAYS(error, part);
}
std::string bad_name(const testing::TestParamInfo<Bad>& of) { return of.param.name; }

const Bad kSyntax[] = {
    {"empty_file", "", {"the file is empty"}},
    {"only_a_comment", "# nothing\n", {"s.yaml:1:"}},
    {"broken_yaml", with("[1, 2]", "[1, 2"), {"s.yaml:", "not valid YAML"}},
    {"cycle", "name: &a [*a]\n", {"aliases (*name) are not accepted"}},
    {"anchor", with("fp16", "&x fp16"), {"anchors (&name) are not accepted"}},
    {"tag", with("8 }", "!!int 8 }"), {"tags"}},
    {"two_documents", plus("---\nname: b"), {"only one document a file"}},
    {"too_deep", "name: " + std::string(100, '['), {"more than 32 levels deep"}},
    {"binary", std::string("name: \0x", 8), {"not a text file"}},
    {"latin1", "name: x\nnote: caf\xe9\n", {"2:10: error: not UTF-8 text (byte 0xe9)"}},
    {"overlong", "name: \xc0\xaf\n", {"1:7: error: not UTF-8 text (byte 0xc0)"}},
    {"surrogate", "name: \xed\xa0\x80\n", {"1:7: error: not UTF-8 text"}},
    {"cut_off", "name: \xe2\x82", {"1:7: error: not UTF-8 text"}},
    {"tab", "cluster:\n\tnodes: 2\n", {"2:1: error: not valid YAML: a tab, where spaces indent"}},
    {"open_double_quote", plus("goal: \"abc"), {"this quote is not closed"}},
    {"open_single_quote", with("a question", "'a question"), {"this quote is not closed"}},
};
INSTANTIATE_TEST_SUITE_P(Syntax, BadScenario, testing::ValuesIn(kSyntax), bad_name);

const Bad kKeys[] = {
    {"unknown_key",
     with("bucket:", "buckets:"),
     {"s.yaml:4:47: error: allreduce.buckets: there is no such key here",
      "did you mean 'bucket'?"}},
    {"doubled_key",
     with("precision: fp16", "precision: fp16, precision: fp32"),
     {"s.yaml:2:50: error: precision: this key is given twice", "line 2"}},
    {"missing_key",
     with("model: bert-large, ", ""),
     {"s.yaml:2:12: error: workload.model: this key is missing here"}},
    {"missing_nodes", with(", nodes: [1, 2]", ""), {"cluster.nodes: this key is missing here"}},
    {"two_batches",
     with("batch_per_gpu: 8", "batch_per_gpu: 8, accumulation: 2, global_batch: 512"),
     {"s.yaml:2:82: error: workload.accumulation: global_batch says how many"}},
    {"goal_of_nothing",
     plus("goal: { deadline: 2 d }"),
     {"s.yaml:5:7: error: goal.samples: this key (or tokens) is missing here"}},
    {"goal_of_both",
     plus("goal: { samples: 2 million, tokens: 1 B }"),
     {"s.yaml:5:18: error: goal.samples: give samples or tokens, not both"}},
    {"rate_of_several",
     with("precision: fp16", "precision: [fp16, fp32], samples_per_s: 5"),
     {"samples_per_s is of one model, precision, batch and instance type"}},
    {"no_machines",
     with("{ instance: p3dn.24xlarge, nodes: [1, 2] }", "{ fabric: { nodes_per_leaf: 4 } }"),
     {"the cluster has no machines"}},
    {"two_kinds_of_cluster",
     with("nodes: [1, 2]", "nodes: 1, switch: { ranks: 2, bandwidth: 1 GB/s, latency: 1 us }"),
     {"give one of instance, choices, switch and mixed"}},
    {"servers_without_count",
     with("bucket: 25 MiB", "servers: { place: dedicated }"),
     {"dedicated servers need instance and count"}},
    {"nothing_to_oversubscribe",
     with("nodes: [1, 2]", "nodes: 2, fabric: { oversubscription: 4 }"),
     {"nothing to oversubscribe"}},
    {"predict_on_a_switch",
     with("{ instance: p3dn.24xlarge, nodes: [1, 2] }",
          "{ switch: { ranks: 2, bandwidth: 1 GB/s, latency: 1 us } }"),
     {"a switch is for compare"}},
};
INSTANTIATE_TEST_SUITE_P(Keys, BadScenario, testing::ValuesIn(kKeys), bad_name);

const Bad kValues[] = {
    {"list_for_a_word",
     with("name: a question", "name: [a, b]"),
     {"s.yaml:1:7: error: name: expected a word, found a list"}},
    {"word_for_a_map",
     with("{ model: bert-large, precision: fp16, batch_per_gpu: 8 }", "bert-large"),
     {"workload: expected a map, found a single value"}},
    {"empty_list", with("[ring, hierarchical]", "[]"), {"the list is empty"}},
    {"empty_value", with("name: a question", "name:"), {"expected a word, found nothing"}},
    {"not_a_number",
     with("batch_per_gpu: 8", "batch_per_gpu: 12abc"),
     {"s.yaml:2:", "'12abc' is not a number"}},
    {"octal", with("batch_per_gpu: 8", "batch_per_gpu: 010"), {"'010' starts with a zero"}},
    {"fraction", with("batch_per_gpu: 8", "batch_per_gpu: 2.5"), {"expected a whole number"}},
    {"negative", with("batch_per_gpu: 8", "batch_per_gpu: -8"), {"'-8' is too small"}},
    {"infinite", with("batch_per_gpu: 8", "batch_per_gpu: 1e400"), {"is not a number"}},
    {"zero", with("nodes: [1, 2]", "nodes: 0"), {"'0' is too small"}},
    {"huge",
     with("nodes: [1, 2]", "nodes: 100000000"),
     {"'100000000' is too large", "at most 65536"}},
    {"missing_unit", with("25 MiB", "25"), {"allreduce.bucket: '25' has no unit", "MiB"}},
    {"wrong_unit", with("25 MiB", "25 Mib"), {"'Mib' is not a unit of a size", "MB", "MiB"}},
    {"unit_of_another_kind", with("25 MiB", "25 ms"), {"'ms' is not a unit of a size"}},
    {"goal_without_unit",
     plus("goal: { samples: 2 lakh, budget: 5 }"),
     {"s.yaml:5:18: error: goal.samples: 'lakh' is not a unit of a large number; accepted: "
      "thousand, million",
      "s.yaml:5:34: error: goal.budget: '5' has no unit: a sum of money is written with one of "
      "USD"}},
    {"goal_of_tokens_as_samples",
     plus("goal: { samples: 3 billion tokens }"),
     {"s.yaml:5:18: error: goal.samples: counts samples, not tokens", "tokens: 3 billion tokens"}},
    {"nan", with("25 MiB", "nan MiB"), {"is not a size"}},
    {"huge_size", with("25 MiB", "25e30 TiB"), {"is too large", "check the unit"}},
    {"negative_size", with("25 MiB", "-25 MiB"), {"'-25 MiB' is too small"}},
    {"bucket_of_a_byte", with("25 MiB", "1 B"), {"allreduce.bucket: '1 B' is too small"}},
    {"negative_rate",
     with("{ instance: p3dn.24xlarge, nodes: [1, 2] }",
          "{ switch: { ranks: 2, bandwidth: -1 GB/s, latency: 1 us } }"),
     {"must be more than zero"}},
    {"unknown_algorithm",
     with("[ring,", "[rnig,"),
     {"s.yaml:4:26: error: allreduce.algorithm: there is no algorithm called 'rnig'",
      "did you mean 'ring'?", "direct, double-tree"}},
    {"unknown_instance",
     with("p3dn.24xlarge", "p4d.24xlrge"),
     {"s.yaml:3:24: error: cluster.instance: there is no instance called 'p4d.24xlrge'",
      "did you mean 'p4d.24xlarge'?"}},
    {"part_of_an_ultraserver",
     with("p3dn.24xlarge", "p6e-gb200.36xlarge"),
     {"there is no instance called 'p6e-gb200.36xlarge'", "did you mean 'u-p6e-gb200x36'?"}},
    {"unknown_workload",
     with("bert-large", "bert-lagre"),
     {"there is no workload called 'bert-lagre'", "did you mean 'bert-large'?"}},
};
INSTANTIATE_TEST_SUITE_P(Values, BadScenario, testing::ValuesIn(kValues), bad_name);

TEST(ParseScenario, AcceptsTheGoodOne) { EXPECT_EQ(error_in(kGood), "(accepted)"); }

TEST(ParseScenario, AcceptsClosedQuotes) {
  for (const char* name : {"'a ''b'''", R"("a \" b")", R"("ä\\")", "\"a\n  b\""})
    EXPECT_EQ(error_in(with("a question", name)), "(accepted)") << name;
}

TEST(ParseScenario, IgnoresAByteOrderMark) {
  EXPECT_EQ(error_in("\xEF\xBB\xBF" + with("[ring, hierarchical]", R"(["ring", 'direct'])")),
            "(accepted)");
}

TEST(ParseScenario, ReadsRangesOfWholeNumbers) {
  const auto nodes = [](const std::string& text) {
    return parse_scenario("s.yaml", with("[1, 2]", text)).cluster.nodes.values;
  };
  EXPECT_EQ(nodes("1..64:x2"), (std::vector<int>{1, 2, 4, 8, 16, 32, 64}));
  EXPECT_EQ(nodes("2..7:+2"), (std::vector<int>{2, 4, 6}));
  EXPECT_EQ(nodes("[1..3, 8]"), (std::vector<int>{1, 2, 3, 8}));
  EXPECT_EQ(nodes("1..4:x1.5"), (std::vector<int>{1, 2, 3}));
  for (const char* bad :
       {"4..2", "1..", "..4", "1..8:2", "1..8:x1", "1..8:x", "1..1000000", "0..4"})
    EXPECT_SAYS(error_in(with("[1, 2]", bad)), "cluster.nodes") << bad;
}

TEST(ParseScenario, ReadsAmountsAsPeopleWriteThem) {
  const Scenario s = parse_scenario("s.yaml", R"(
name: amounts
workload: { model: resnet50, batch_per_gpu: 8, samples_per_s: 15 samples/s }
cluster:
  instance: p3dn.24xlarge
  nodes: 2
  fabric: { nodes_per_leaf: 1, oversubscription: "4:1" }
  prices: [{ instance: p3dn.24xlarge, price: $9.50/h }]
allreduce: { algorithm: ring, bucket: 25MB }
goal: { samples: 1M, deadline: 2 days, budget: $500 }
)");
  EXPECT_EQ(*s.workload->samples_per_s, 15);
  EXPECT_EQ(s.cluster.fabric.oversubscription.first(), 4);
  EXPECT_EQ(s.cluster.prices[0].price.value, 9.5);
  EXPECT_EQ(s.allreduce.bucket.first().value, 25e6);
  EXPECT_EQ(s.goal->deadline->value, 2 * 86400);
  EXPECT_EQ(s.goal->budget->value, 500);
  EXPECT_SAYS(error_in(with("batch_per_gpu: 8", "batch_per_gpu: 8, samples_per_s: 15 images/s")),
              "'15 images/s' is not a number of samples/s, such as 15 or 110 thousand samples/s");
  for (const char* rate : {"1.5 thousand samples/s", "1.5k", "\"1,500 samples/s\"", "1.5e3"}) {
    const std::string text =
        with("batch_per_gpu: 8", std::string("batch_per_gpu: 8, samples_per_s: ") + rate);
    EXPECT_EQ(*parse_scenario("s.yaml", text).workload->samples_per_s, 1500) << rate;
  }
}

// The collective was an all-reduce then, which Bruck's algorithm has none of.
TEST(ParseScenario, TellsAMisspelledCollectiveOnce) {
  const std::string error = error_in(
      R"(name: x
cluster: { instance: p3dn.24xlarge, nodes: 2 }
messages: { sizes: 1 MiB, collective: all_gater }
allreduce: { algorithm: bruck }
)");
  EXPECT_SAYS(error, "there is no collective called 'all_gater'");
  EXPECT_SAYS_NOT(error, "bruck has no");
}

TEST(ParseScenario, TakesClustersWithNodeCountsOfTheirOwn) {
  const Scenario s =
      parse_scenario("s.yaml", with("instance: p3dn.24xlarge, nodes: [1, 2]", R"(choices: [
      { instance: p3dn.24xlarge, nodes: 1..4:x2 }, { instance: [p4d.24xlarge, p5.48xlarge], nodes: 2 }])"));
  ASSERT_EQ(s.cluster.choices.size(), 2u);
  EXPECT_EQ(s.cluster.choices[0].nodes.values.size(), 3u);
  EXPECT_EQ(s.cluster.choices[1].instance.values.size(), 2u);
  EXPECT_SAYS(
      error_in(with("nodes: [1, 2]", "nodes: 1, choices: [{ instance: p3.2xlarge, nodes: 1 }]")),
      "give one of instance, choices, switch and mixed");
  EXPECT_SAYS(error_in(with("instance: p3dn.24xlarge, nodes: [1, 2]", "choices: []")),
              "cluster.choices: the list is empty");
}

TEST(LoadScenario, SetsValuesInPlaceOfTheFiles) {
  const TemporaryFolder folder;
  const auto file = folder.write("s.yaml", kGood);
  const Scenario plain = load_scenario(file);
  const Scenario set =
      load_scenario(file, {"cluster.nodes=[4, 8]", "workload.gradient=fp32", "goal.samples=1M"});
  EXPECT_EQ(set.cluster.nodes.values, (std::vector<int>{4, 8}));
  EXPECT_EQ(set.workload->gradient.values, std::vector<Precision>{Precision::fp32});
  EXPECT_EQ(set.goal->samples->value, 1e6);
  EXPECT_NE(set.hash, plain.hash);
  const auto error = [&](const std::string& assignment) {
    return error_of([&] { load_scenario(file, {assignment}); });
  };
  EXPECT_SAYS(error("cluster.nodse=4"), "cluster.nodse: there is no such key here");
  EXPECT_SAYS(error("cluster.nodes=many"), "cluster.nodes: 'many' is not a number");
  EXPECT_SAYS(error("cluster.nodes"), "is not KEY=VALUE");
  EXPECT_SAYS(error("name.more=4"), "name is a single value, not a map");
  EXPECT_SAYS(error("cluster.nodes="), "gives cluster.nodes no value");
}

TEST(LoadScenario, SetsElementsOfLists) {
  const TemporaryFolder folder;
  const auto file = folder.write("s.yaml", R"(
workload:
  model: resnet50
  batch_per_gpu: 64
  measured: [{ instance: p4d.24xlarge, mfu: 0.3 }, { instance: p3dn.24xlarge, mfu: 0.2 }]
cluster: { instance: [p4d.24xlarge, p3dn.24xlarge], nodes: [2, 4] }
)");
  for (const char* second : {"workload.measured[1].mfu=0.4", "workload.measured.1.mfu=0.4"}) {
    const Scenario s = load_scenario(file, {second, "cluster.nodes[0]=8"});
    EXPECT_EQ(s.workload->measured.at(0).mfu, 0.3);
    EXPECT_EQ(s.workload->measured.at(1).mfu, 0.4);
    EXPECT_EQ(s.cluster.nodes.values, (std::vector<int>{8, 4}));
  }
  for (const char* wrong : {"cluster.nodes[2]=8", "cluster.nodes[-1]=8", "cluster.nodes[]=8",
                            "cluster.nodes.first=8", "cluster.nodes[1x]=8"})
    EXPECT_SAYS(error_of([&] { load_scenario(file, {wrong}); }), "0 to 1");
}

TEST(LoadScenario, NeedsTheClusterAlone) {
  const TemporaryFolder folder;
  const Scenario s = load_scenario(folder.write("our-job.yaml",
                                                R"(workload: { model: bert-large, batch_per_gpu: 8 }
cluster: { instance: p4d.24xlarge, nodes: 2 }
goal: { tokens: 3 billion tokens }
)"));
  EXPECT_EQ(s.name, "our-job");
  EXPECT_EQ(s.allreduce.algorithm.values, std::vector<std::string>{"nccl"});
  EXPECT_EQ(s.goal->tokens->value, 3e9);
}

TEST(ParseScenario, RefusesAHundredMegabytes) {
  EXPECT_SAYS(error_in(std::string(100u << 20, 'a')), "longer than 1048576 bytes");
}

TEST(ParseScenario, ReportsAllErrorsInOrder) {
  const std::string error = error_in(R"(name: x
workload: { model: bert-larg, batch_per_gpu: 0 }
cluster: { instance: p4d, nodes: [1, -2] }
allreduce: { algorithm: rign, bucket: 25 }
)");
  std::size_t at = 0;
  for (const char* part :
       {"s.yaml:2:20", "s.yaml:2:", "s.yaml:3:22", "s.yaml:3:38", "s.yaml:4:25", "s.yaml:4:39"}) {
    const auto found = error.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << " is not after " << at << " in:\n" << error;
    at = found + 1;
  }
}

TEST(LoadScenario, NamesAnUnreadableFile) {
  EXPECT_SAYS(error_of([] { load_scenario("/nowhere/s.yaml"); }), "/nowhere/s.yaml");
  EXPECT_THROW(load_scenario("/"), InputError);
}

Scenario scenario_with(const std::string& workload, const std::string& cluster) {
  return parse_scenario("scenario.yaml", "workload: { model: resnet50, batch_per_gpu: 64" +
                                             workload + " }\ncluster: { instance: p4d.24xlarge, " +
                                             cluster + " }\n");
}

TEST(Input, TakesPercentAndRangesAsSizesHaveThem) {
  const Scenario s = scenario_with(", spread: 2 %", "nodes: 1:8:x2");
  EXPECT_EQ(s.workload->spread.values, std::vector<double>{0.02});
  EXPECT_EQ(s.cluster.nodes.values, (std::vector<int>{1, 2, 4, 8}));
}

// As --sizes has them on the command line.
TEST(Input, TakesRangesOfSizes) {
  const auto sizes = [](const std::string& text) {
    const Scenario s = parse_scenario(
        "s.yaml",
        "cluster: { instance: p4d.24xlarge, nodes: 2 }\nmessages: { sizes: " + text + " }\n");
    std::vector<double> all;
    for (const Bytes b : s.messages->sizes.values) all.push_back(b.value);
    return all;
  };
  EXPECT_EQ(sizes("8B:1KiB:x4"), (std::vector<double>{8, 32, 128, 512}));
  EXPECT_EQ(sizes("[8 B, '1 KiB..4 KiB', 1 MiB]"),
            (std::vector<double>{8, 1024, 2048, 4096, 1 << 20}));
  EXPECT_SAYS(error_of([&] { sizes("4KiB:1KiB"); }),
              "s.yaml:2:20: error: messages.sizes: the range "
              "must rise, by a factor of at least 1.1");
  EXPECT_SAYS(error_of([&] { sizes("1KiB:4KiB:2"); }), "a range is low:high or low:high:xFACTOR");
  EXPECT_SAYS(error_of([&] { sizes("1KiB:4:x2"); }), "'4' has no unit");
  EXPECT_SAYS(error_of([] {  // as each of its values alone
                parse_scenario("s.yaml",
                               R"(cluster: { instance: p4d.24xlarge, nodes: 2 }
messages: { sizes: 1 MiB }
allreduce: { algorithm: nccl, nccl: { buffsize: '1KiB:1MiB' } }
)");
              }),
              "allreduce.nccl.buffsize");
}

TEST(Input, RefusesSlowGpusWhereNothingComputes) {
  EXPECT_SAYS(error_of([] {
                parse_scenario("s.yaml",
                               "cluster: { mixed: [{ instance: p4d.24xlarge, nodes: 2, gpu_speed: "
                               "0.5 }] }\nmessages: { sizes: 1 MiB }\n");
              }),
              "without a workload nothing computes");
}

TEST(Input, SaysWhereAKeyBelongs) {
  EXPECT_SAYS(error_of([] { scenario_with("", "nodes: 2, oversubscription: 4"); }),
              "did you mean cluster.fabric.oversubscription?");
  EXPECT_SAYS(error_of([] { scenario_with(", tokens_per_s: 4000", "nodes: 2"); }),
              "did you mean workload.measured[].tokens_per_s?");
  EXPECT_SAYS(error_of([] { scenario_with(", parameters: 7 billion", "nodes: 2"); }),
              "a model of your own is a file");
}

TEST(Input, SaysThatSeveralClustersAreChoices) {
  EXPECT_SAYS(error_of([] {
                parse_scenario("s.yaml",
                               "workload: { model: bert-large, batch_per_gpu: 8 }\n"
                               "cluster: [{ instance: p4d.24xlarge, nodes: 2 }]\n");
              }),
              "several clusters: cluster: { choices:");
}

// ------------------------------------------------------------------ schema and fuzzing

TEST(ScenarioSchema, ListsTheLoadersKeysAndWords) {
  const auto schema = scenario_schema();
  const auto& algorithm = schema["properties"]["allreduce"]["properties"]["algorithm"]["anyOf"][0]
                                ["anyOf"][0];  // a name, or else a file
  std::set<std::string_view> names{"nccl", "smddp", "best"};
  for (const Algorithm* a : all_algorithms()) names.insert(a->name);
  EXPECT_EQ(algorithm["enum"].size(), names.size());
  EXPECT_EQ(schema["required"], (nlohmann::ordered_json{"cluster"}));
  EXPECT_EQ(schema["additionalProperties"], false);
}

std::vector<std::string> shipped_scenarios() {
  std::vector<std::string> texts;
  for (const auto& entry : fs::directory_iterator(fs::path(FOREDUCE_SOURCE_FOLDER) / "scenarios"))
    if (entry.path().extension() == ".yaml") texts.push_back(read_text(entry.path()));
  return texts;
}

/// Some characters replaced, inserted, erased or repeated.
void damage(std::string& text, std::mt19937& dice) {
  const std::string alphabet = "{}[]:,-#&*!|>'\"%@`\n\t 0129.eEinfaNMiBGbps~?";
  for (unsigned i = 0, n = 1 + dice() % 4; i < n && !text.empty(); ++i) {
    const std::size_t at = dice() % text.size();
    switch (dice() % 4) {
      case 0: text[at] = alphabet[dice() % alphabet.size()]; break;
      case 1: text.insert(at, 1, alphabet[dice() % alphabet.size()]); break;
      case 2: text.erase(at, 1 + dice() % 8); break;
      default: text.insert(at, text.substr(dice() % text.size(), dice() % 20));
    }
  }
}

/// Shipped scenarios with random damage: nothing but an InputError may be thrown.
TEST(ParseScenario, AcceptsOrRefusesDamagedFiles) {
  const std::vector<std::string> seeds = shipped_scenarios();
  ASSERT_GE(seeds.size(), 7u);
  std::mt19937 dice(7);
  int refused = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string text = seeds[dice() % seeds.size()];
    damage(text, dice);
    const std::string error = error_of([&] { parse_scenario("fuzz.yaml", text); });
    if (error == "(accepted)") continue;
    ++refused;
    EXPECT_SAYS(error, "fuzz.yaml");
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace foreduce
