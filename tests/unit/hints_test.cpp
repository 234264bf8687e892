// What other programs call a thing: a scenario says what it is here, and suggests nothing else.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "input/problem.hpp"
#include "scenarios/sweep/scenario.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/files.hpp"
#include "tests/support/says.hpp"
#include "topologies/machine.hpp"

namespace foreduce {
namespace {

using namespace test;

Scenario hinted(const std::string& keys, const std::string& rest = "") {
  return parse_scenario("s.yaml", "name: x\nworkload: { model: llama3-8b, batch_per_gpu: 1, " +
                                      keys + " }\ncluster: { instance: p5.48xlarge, nodes: 2 }\n" +
                                      rest);
}
std::string hint_of(const std::string& keys, const std::string& rest = "") {
  return error_of([&] { hinted(keys, rest); });
}

TEST(Hints, KeysOfOtherProgramsAreNamed) {
  for (const auto& [key, meant] : {std::pair("tp", "tensor_parallel"),
                                   {"cp", "context_parallel"},
                                   {"context_parallel_degree", "context_parallel"},
                                   {"pp", "pipeline"},
                                   {"pipeline_parallel", "pipeline"},
                                   {"vpp", "virtual_pipeline"},
                                   {"ep", "expert_parallel"},
                                   {"gradient_accumulation", "accumulation"},
                                   {"gradient_accumulation_steps", "accumulation"},
                                   {"global_batch_size", "global_batch"},
                                   {"micro_batch_size", "batch_per_gpu"},
                                   {"seq_len", "sample"}}) {
    const std::string said = hint_of(std::string(key) + ": 2");
    EXPECT_SAYS(said, std::string("s.yaml:2:"));
    EXPECT_SAYS(said, "there is no such key here");
    EXPECT_SAYS(said, "did you mean '" + std::string(meant) + "'?");
  }
  EXPECT_SAYS(hint_of("data_parallel: 8"), "cluster.nodes says how many");
}

TEST(Hints, WaysToShardAreSaidInTheWordsOfAScenario) {
  EXPECT_SAYS(hint_of("sharding: hsdp"), "HSDP is sharding: fsdp with hybrid: node");
  EXPECT_SAYS_NOT(hint_of("sharding: hsdp"), "did you mean");
}

// The schema offers what works.
TEST(Hints, OffloadIsNoneAndCpuGetsTheReason) {
  EXPECT_SAYS(hint_of("offload: cpu"), "offload to the host is not modelled");
  EXPECT_SAYS(hint_of("offload: activations"), "offload to the host is not modelled");
  EXPECT_EQ(hint_of("offload: none"), "(accepted)");
  const nlohmann::json offload =
      scenario_schema()["properties"]["workload"]["properties"]["offload"];
  EXPECT_EQ(offload.at("enum"), nlohmann::json::array({"none"})) << offload;
}

TEST(Hints, NcclsAlgorithmsAreForcedBesideIt) {
  const auto said_of = [](const std::string& name) {
    return error_of([&] { hinted("precision: bf16", "allreduce: { algorithm: " + name + " }"); });
  };
  EXPECT_SAYS(said_of("nccl:ring"), "algorithm: nccl, nccl: { algo: Ring }");
  EXPECT_SAYS(said_of("nccl-Tree"), "algorithm: nccl, nccl: { algo: Tree }");
  EXPECT_SAYS(said_of("'nccl NVLSTree'"), "algorithm: nccl, nccl: { algo: NVLSTree }");
}

TEST(Hints, AListOfClustersIsOneProblem) {
  const std::string said = error_of([] {
    parse_scenario("s.yaml",
                   "cluster: [{ instance: p5.48xlarge, nodes: 2 }]\nmessages: { sizes: 1 MiB }");
  });
  EXPECT_SAYS(said, "expected a map");
  EXPECT_SAYS_NOT(said, "no machines");
}

TEST(Hints, AListHasBrackets) {
  const std::string said = error_of(
      [] { parse_scenario("s.yaml", "cluster: { instance: p5.48xlarge, nodes: '4,8' }"); });
  EXPECT_SAYS(said, "'4,8' is no single value");
  EXPECT_SAYS(said, "a list has brackets: [4,8]");
}

TEST(Hints, APatchReleaseOfNcclIsItsRelease) {
  const auto version = [](const std::string& text) {
    return hinted("precision: bf16", "allreduce: { nccl: { version: " + text + " } }")
        .allreduce.nccl.version.values;
  };
  EXPECT_EQ(version("2.20.5"), std::vector<std::string>{"2.20"});
  EXPECT_EQ(version("[2.20.5, 2.21]"), (std::vector<std::string>{"2.20", "2.21"}));
  for (const char* none : {"2.99.1", "2.20.", "2.20.x", "2.20.5.1"})
    EXPECT_SAYS(error_of([&] { version(none); }), "there is no release called");
}

TEST(Hints, ABudgetHasThousandsAndMillions) {
  const auto budget = [](const std::string& text) {
    return hinted("precision: bf16", "goal: { samples: 1 M, budget: " + text + " }")
        .goal->budget->value;
  };
  EXPECT_EQ(budget("4M USD"), 4e6);
  EXPECT_EQ(budget("$4M"), 4e6);
  EXPECT_EQ(budget("250 k USD"), 250e3);
  EXPECT_EQ(budget("1.5 million USD"), 1.5e6);
}

TEST(Hints, ABudgetMayBeInAnyCurrency) {
  const auto budget = [](const std::string& text) {
    return hinted("precision: bf16", "goal: { samples: 1 M, budget: " + text + " }")
        .goal->budget->value;
  };
  for (const char* same : {"900 EUR", "€900", "900€", "0.9 k EUR"})
    EXPECT_NEAR(budget(std::string(same) + ", exchange_rate: 1.1"), 990, 1e-9) << same;
  EXPECT_NEAR(budget("4M GBP, exchange_rate: 1.25"), 5e6, 1e-6);
  const auto refusal = [&](const std::string& text) { return error_of([&] { budget(text); }); };
  EXPECT_SAYS(refusal("900 EUR"), "goal.budget: a budget in EUR needs exchange_rate: USD for one");
  EXPECT_SAYS(refusal("$900, exchange_rate: 1.1"), "goal.exchange_rate: the budget is in USD");
  EXPECT_SAYS(refusal("900 euros"), "'euros' is not a unit of a sum of money");
  EXPECT_SAYS(refusal("900 euros"), "or a currency's three letters, such as EUR");
  EXPECT_SAYS(error_of([] {
                hinted("precision: bf16",
                       "goal: { samples: 1 M, deadline: 2 days, exchange_rate: 1.1 }");
              }),
              "goal.exchange_rate: there is no budget");
}

TEST(Hints, AFileUnderItsOtherEndingIsNamed) {
  const TemporaryFolder folder;
  folder.write("base.yaml", "name: x\n");
  const auto missing = folder.path() / "base.yml";
  EXPECT_SAYS(error_of([&] { YamlFile::load(missing); }), "base.yaml'?");
  EXPECT_SAYS_NOT(error_of([&] { YamlFile::load(folder.path() / "other.yml"); }), "did you mean");
}

TEST(Hints, NoInstanceOfAnotherKindIsSuggested) {
  EXPECT_EQ(nearest("trn1.32xlarge", machine_names()), "");
  EXPECT_EQ(nearest("p4d.24xlrge", machine_names()), "p4d.24xlarge");
  EXPECT_EQ(nearest("p5n.48xlarge", machine_names()), "p5.48xlarge");
}

TEST(Hints, WordsOfPricesPointAtPrices) {
  for (const char* key : {"spot", "region"})
    EXPECT_SAYS(error_of([&] {
                  parse_scenario("s.yaml",
                                 "name: x\nworkload: { model: llama3-8b, batch_per_gpu: 1 }\n"
                                 "cluster: { instance: p5.48xlarge, nodes: 2, " +
                                     std::string(key) + ": 1 }\n");
                }),
                "did you mean 'prices'?");
}

}  // namespace
}  // namespace foreduce
