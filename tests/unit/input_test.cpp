// Bad input: one clear error each, with file, line, column, key, and what would do.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "algorithms/core/registry.hpp"
#include "models/workload.hpp"
#include "scenarios/sweep/scenario.hpp"
#include "tests/support/machines.hpp"

namespace foreduce {
namespace {

namespace fs = std::filesystem;

const char* const kGood =
    "name: a question\n"
    "workload:  { model: bert-large, precision: fp16, batch_per_gpu: 8 }\n"
    "cluster:   { instance: p3dn.24xlarge, nodes: [1, 2] }\n"
    "allreduce: { algorithm: [ring, hierarchical], bucket: 25 MiB }\n";

std::string with(const std::string& what, const std::string& instead) {
  std::string text = kGood;
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), instead);
}

std::string error_of(const std::string& text) {
  try {
    parse_scenario("s.yaml", text);
  } catch (const InputError& e) {
    return e.what();
  }
  return "(accepted)";
}

struct Bad {
  const char* name;
  std::string text;
  std::vector<std::string> parts;  // of the message
};
void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class BadInput : public testing::TestWithParam<Bad> {};
TEST_P(BadInput, IsOneClearError) {
  const std::string error = error_of(GetParam().text);
  for (const std::string& part : GetParam().parts)
    EXPECT_NE(error.find(part), std::string::npos) << "'" << part << "' is not in:\n" << error;
}

std::string deep() {
  std::string text = "name: ";
  for (int i = 0; i < 100; ++i) text += "[";
  return text;
}

INSTANTIATE_TEST_SUITE_P(
    kinds, BadInput,
    testing::Values(
        Bad{"unknown_key",
            with("bucket:", "buckets:"),
            {"s.yaml:4:47: error: allreduce.buckets: there is no such key here", "did you mean 'bucket'?"}},
        Bad{"doubled_key",
            with("precision: fp16", "precision: fp16, precision: fp32"),
            {"s.yaml:2:50: error: precision: this key is given twice", "line 2"}},
        Bad{"two_batches",
            with("batch_per_gpu: 8", "batch_per_gpu: 8, accumulation: 2, global_batch: 512"),
            {"s.yaml:2:82: error: workload.accumulation: global_batch says how many"}},
        Bad{"goal_of_nothing",
            kGood + std::string("goal: { deadline: 2 d }\n"),
            {"s.yaml:5:7: error: goal.samples: this key (or tokens) is missing here"}},
        Bad{"goal_of_both",
            kGood + std::string("goal: { samples: 2 million, tokens: 1 B }\n"),
            {"s.yaml:5:18: error: goal.samples: give samples or tokens, not both"}},
        Bad{"goal_without_unit",
            kGood + std::string("goal: { samples: 2 lakh, budget: 5 }\n"),
            {"s.yaml:5:18: error: goal.samples: 'lakh' is not a unit of large number; accepted: thousand, million",
             "s.yaml:5:34: error: goal.budget: '5' has no unit: a sum of money is written with one of USD"}},
        Bad{"rate_of_several",
            with("precision: fp16", "precision: [fp16, fp32], samples_per_s: 5"),
            {"samples_per_s is of one model, precision, batch and instance type"}},
        Bad{"missing_key", with("model: bert-large, ", ""), {"s.yaml:2:12: error: workload.model: this key is missing here"}},
        Bad{"missing_nodes", with(", nodes: [1, 2]", ""), {"cluster.nodes: this key is missing here"}},
        Bad{"wrong_type_list",
            with("name: a question", "name: [a, b]"),
            {"s.yaml:1:7: error: name: expected a word, found a list"}},
        Bad{"wrong_type_map",
            with("{ model: bert-large, precision: fp16, batch_per_gpu: 8 }", "bert-large"),
            {"workload: expected a map, found a single value"}},
        Bad{"not_a_number", with("batch_per_gpu: 8", "batch_per_gpu: 12abc"), {"s.yaml:2:", "'12abc' is not a number"}},
        Bad{"octal", with("batch_per_gpu: 8", "batch_per_gpu: 010"), {"'010' starts with a zero"}},
        Bad{"fraction", with("batch_per_gpu: 8", "batch_per_gpu: 2.5"), {"expected a whole number"}},
        Bad{"missing_unit", with("25 MiB", "25"), {"allreduce.bucket: '25' has no unit", "MiB"}},
        Bad{"wrong_unit", with("25 MiB", "25 Mib"), {"'Mib' is not a unit of size", "MB", "MiB"}},
        Bad{"unit_of_another_kind", with("25 MiB", "25 ms"), {"'ms' is not a unit of size"}},
        Bad{"negative", with("batch_per_gpu: 8", "batch_per_gpu: -8"), {"'-8' is too small"}},
        Bad{"zero", with("nodes: [1, 2]", "nodes: 0"), {"'0' is too small"}},
        Bad{"huge", with("nodes: [1, 2]", "nodes: 100000000"), {"'100000000' is too large", "at most 65536"}},
        Bad{"infinite", with("batch_per_gpu: 8", "batch_per_gpu: 1e400"), {"is not a number"}},
        Bad{"nan", with("25 MiB", "nan MiB"), {"is not a size"}},
        Bad{"huge_size", with("25 MiB", "25e30 TiB"), {"is too large", "check the unit"}},
        Bad{"negative_size", with("25 MiB", "-25 MiB"), {"'-25 MiB' is too small"}},
        Bad{"negative_rate",
            with("{ instance: p3dn.24xlarge, nodes: [1, 2] }", "{ switch: { ranks: 2, bandwidth: -1 GB/s, latency: 1 us } }"),
            {"must be more than zero"}},
        Bad{"unknown_algorithm",
            with("[ring,", "[rnig,"),
            {"s.yaml:4:26: error: allreduce.algorithm: there is no algorithm called 'rnig'", "did you mean 'ring'?",
             "direct, double-tree"}},
        Bad{"unknown_instance",
            with("p3dn.24xlarge", "p4d.24xlrge"),
            {"s.yaml:3:24: error: cluster.instance: there is no instance called 'p4d.24xlrge'", "did you mean 'p4d.24xlarge'?"}},
        Bad{"unknown_workload",
            with("bert-large", "bert-lagre"),
            {"there is no workload called 'bert-lagre'", "did you mean 'bert-large'?"}},
        Bad{"empty_list", with("[ring, hierarchical]", "[]"), {"the list is empty"}},
        Bad{"empty_value", with("name: a question", "name:"), {"expected a word, found nothing"}},
        Bad{"empty_file", "", {"the file is empty"}}, Bad{"only_a_comment", "# nothing\n", {"s.yaml:1:"}},
        Bad{"broken_yaml", with("[1, 2]", "[1, 2"), {"s.yaml:", "not valid YAML"}},
        Bad{"cycle", "name: &a [*a]\n", {"aliases (*name) are not accepted"}},
        Bad{"anchor", with("fp16", "&x fp16"), {"anchors (&name) are not accepted"}},
        Bad{"tag", with("8 }", "!!int 8 }"), {"tags"}},
        Bad{"two_documents", std::string(kGood) + "---\nname: b\n", {"only one document a file"}},
        Bad{"too_deep", deep(), {"more than 32 levels deep"}}, Bad{"binary", std::string("name: \0x", 8), {"not a text file"}},
        Bad{"no_machines",
            with("{ instance: p3dn.24xlarge, nodes: [1, 2] }", "{ fabric: { nodes_per_leaf: 4 } }"),
            {"the cluster has no machines"}},
        Bad{"two_kinds_of_cluster",
            with("nodes: [1, 2]", "nodes: 1, switch: { ranks: 2, bandwidth: 1 GB/s, latency: 1 us }"),
            {"give one of instance, switch and mixed"}},
        Bad{"servers_without_count",
            with("bucket: 25 MiB", "servers: { place: dedicated }"),
            {"dedicated servers need instance and count"}},
        Bad{"nothing_to_oversubscribe",
            with("nodes: [1, 2]", "nodes: 2, fabric: { oversubscription: 4 }"),
            {"nothing to oversubscribe"}},
        Bad{"predict_on_a_switch",
            with("{ instance: p3dn.24xlarge, nodes: [1, 2] }", "{ switch: { ranks: 2, bandwidth: 1 GB/s, latency: 1 us } }"),
            {"a switch is for compare"}},
        Bad{"bucket_of_a_byte", with("25 MiB", "1 B"), {"allreduce.bucket: '1 B' is too small"}},
        Bad{"no_question",
            with("workload:  { model: bert-large, precision: fp16, batch_per_gpu: 8 }\n", ""),
            {"asks about a workload (predict) or messages (compare)"}}),
    [](const auto& case_of) { return case_of.param.name; });

TEST(Input, AHundredMegabytesAreRefused) {
  EXPECT_NE(error_of(std::string(100u << 20, 'a')).find("longer than 1048576 bytes"), std::string::npos);
}

TEST(Input, TheGoodScenarioIsAccepted) { EXPECT_EQ(error_of(kGood), "(accepted)"); }

TEST(Input, QuotesMustClose) {
  EXPECT_NE(error_of(std::string(kGood) + "goal: \"abc\n").find("this quote is not closed"), std::string::npos);
  EXPECT_NE(error_of(with("a question", "'a question")).find("this quote is not closed"), std::string::npos);
  for (const char* name : {"'a ''b'''", R"("a \" b")", R"("ä\\")", "\"a\n  b\""})
    EXPECT_EQ(error_of(with("a question", name)), "(accepted)") << name;
  // A byte order mark is no part of the text.
  EXPECT_EQ(error_of("\xEF\xBB\xBF" + with("[ring, hierarchical]", "[\"ring\", 'direct']")), "(accepted)");
}

TEST(Input, AllErrorsOfAFileComeAtOnceInOrder) {
  const std::string error = error_of(
      "name: x\nworkload: { model: bert-larg, batch_per_gpu: 0 }\ncluster: { instance: p4d, nodes: [1, -2] }\nallreduce: { "
      "algorithm: rign, bucket: 25 }\n");
  std::size_t at = 0;
  for (const char* part : {"s.yaml:2:20", "s.yaml:2:", "s.yaml:3:22", "s.yaml:3:38", "s.yaml:4:25", "s.yaml:4:39"}) {
    const auto found = error.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << " is not after " << at << " in:\n" << error;
    at = found + 1;
  }
}

TEST(Input, AnUnreadableFileIsNamed) {
  EXPECT_THROW(load_scenario("/nowhere/s.yaml"), InputError);
  EXPECT_THROW(load_scenario("/"), InputError);
}

TEST(Units, ReadWhatPeopleWrite) {
  const auto value = [](const std::string& text, const Unit* table) {
    double v = -1;
    std::string why;
    EXPECT_TRUE(parse_quantity(text, table, "thing", v, why)) << why;
    return v;
  };
  EXPECT_DOUBLE_EQ(value("25 MiB", UnitsOf<Bytes>::table), 25 * 1048576.0);
  EXPECT_DOUBLE_EQ(value("25MB", UnitsOf<Bytes>::table), 25e6);
  EXPECT_DOUBLE_EQ(value("100 Gbps", UnitsOf<BytesPerSecond>::table), 12.5e9);
  EXPECT_DOUBLE_EQ(value("12.5 GB/s", UnitsOf<BytesPerSecond>::table), 12.5e9);
  EXPECT_DOUBLE_EQ(value("30 us", UnitsOf<Seconds>::table), 30e-6);
  EXPECT_DOUBLE_EQ(value("1e3 ns", UnitsOf<Seconds>::table), 1e-6);
}

TEST(Units, ReadBackWhatIsWritten) {
  for (const double v : {1.0, 1024.0, 25 * 1048576.0, 3.0 * 1073741824}) {
    double back = 0;
    std::string why;
    ASSERT_TRUE(parse_quantity(to_text(Bytes{v}), UnitsOf<Bytes>::table, "size", back, why)) << why;
    EXPECT_NEAR(back / v, 1, 1e-3);
  }
}

// ------------------------------------------------------------------ machines of one's own

std::string machine_error(const std::string& text) {
  const fs::path file = fs::path(testing::TempDir()) / "machine.yaml";
  std::ofstream(file) << text;
  try {
    load_machine(file);
  } catch (const InputError& e) {
    return e.what();
  }
  return "(accepted)";
}

TEST(Machines, OfOnesOwnAreCheckedAsStrictly) {
  const std::string flat =
      "instance: mine\ngpu: { model: X, count: 1, reduce_bandwidth: 300 GB/s }\nnic: { count: 1, bandwidth: 100 Gbps, latency: 5 us }\n";
  EXPECT_EQ(machine_error(flat), "(accepted)");
  EXPECT_NE(machine_error(flat + "color: red\n").find("color: there is no such key here"), std::string::npos);
  EXPECT_NE(machine_error("instance: x\nnic: { count: 1, bandwidth: 1 Gbps, latency: 5 us }\n").find("has GPUs (gpu), or a CPU"),
            std::string::npos);
  std::string two = flat;
  EXPECT_NE(machine_error(two.replace(two.find("count: 1"), 8, "count: 2")).find("how are they connected?"), std::string::npos);
  const std::string mesh =
      "instance: m\ngpu: { model: X, count: 2, reduce_bandwidth: 300 GB/s }\nnic: { count: 1, bandwidth: 100 Gbps, latency: 5 us "
      "}\nnvlink: { kind: mesh, links: 2, bandwidth: 25 GB/s, latency: 1 us, edges: ";
  EXPECT_EQ(machine_error(mesh + "[[0, 1, 2]] }\n"), "(accepted)");
  EXPECT_NE(machine_error(mesh + "[[0, 1, 3]] }\n").find("has more than 2 links"), std::string::npos);
  EXPECT_NE(machine_error(mesh + "[[0, 2, 1]] }\n").find("two different GPUs below 2"), std::string::npos);
  EXPECT_NE(machine_error(mesh + "[[0, 1, 1], [1, 0, 1]] }\n").find("is given twice"), std::string::npos);
}

TEST(Machines, OfTheCatalogueMustCiteASource) {
  const fs::path file = fs::path(testing::TempDir()) / "uncited.yaml";
  std::ofstream(file) << "instance: x\ngpu: { model: X, count: 1, reduce_bandwidth: 300 GB/s }\nnic: { count: 1, bandwidth: 100 Gbps @S2, "
                         "latency: 5 us @S2 }\n";
  EXPECT_THROW(load_machine(file, Citing::required), InputError);
  EXPECT_NO_THROW(load_machine(file));
}

TEST(Workloads, RefuseTensorsThatDoNotAddUp) {
  const fs::path folder = testing::TempDir();
  std::ofstream(folder / "t.csv") << "a,10,5\nb,20,0\n";
  const auto write = [&](const char* parameters) {
    std::ofstream(folder / "w.yaml")
        << "workload: w\ntitle: W\ntensors: t.csv\nparameters: " << parameters
        << "\nvariants: [{ sample: s, train_gflop: 1 }]\nestimate: { fp16: 0.4, fp32: 0.5, source: x }\n";
  };
  write("30");
  EXPECT_NO_THROW(Workloads::load_file(folder / "w.yaml"));
  write("31");
  EXPECT_THROW(Workloads::load_file(folder / "w.yaml"), InputError);
  write("30");
  std::ofstream(folder / "t.csv") << "a,10,5\nb,2x0,0\n";
  EXPECT_THROW(Workloads::load_file(folder / "w.yaml"), InputError);
}

// ------------------------------------------------------------------ schema and fuzzing

TEST(Schema, ListsWhatTheLoaderKnows) {
  const auto schema = scenario_schema();
  EXPECT_EQ(schema["properties"]["allreduce"]["properties"]["algorithm"]["anyOf"][0]["enum"].size(),
            algorithms().size() + 2);  // and nccl, best
  EXPECT_EQ(schema["required"], (nlohmann::ordered_json{"name", "cluster", "allreduce"}));
  EXPECT_EQ(schema["additionalProperties"], false);
}

/// Shipped scenarios with random damage: each is either accepted or refused with an InputError; nothing else may happen.
TEST(Fuzz, DamagedScenariosAreAcceptedOrRefused) {
  std::vector<std::string> seeds;
  for (const auto& entry : fs::directory_iterator(fs::path(FOREDUCE_SOURCE_FOLDER) / "scenarios"))
    if (entry.path().extension() == ".yaml") {
      std::ifstream in(entry.path());
      seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  ASSERT_GE(seeds.size(), 7u);
  std::mt19937 dice(7);
  const std::string alphabet = "{}[]:,-#&*!|>'\"%@`\n\t 0129.eEinfaNMiBGbps~?";
  int refused = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string text = seeds[dice() % seeds.size()];
    for (unsigned i = 0, n = 1 + dice() % 4; i < n && !text.empty(); ++i) {
      const std::size_t at = dice() % text.size();
      switch (dice() % 4) {
        case 0: text[at] = alphabet[dice() % alphabet.size()]; break;
        case 1: text.insert(at, 1, alphabet[dice() % alphabet.size()]); break;
        case 2: text.erase(at, 1 + dice() % 8); break;
        default: text.insert(at, text.substr(dice() % text.size(), dice() % 20));
      }
    }
    try {
      parse_scenario("fuzz.yaml", text);
    } catch (const InputError& e) {
      ++refused;
      EXPECT_NE(std::string(e.what()).find("fuzz.yaml"), std::string::npos) << e.what();
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace foreduce
