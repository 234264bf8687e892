// What `predict` makes of the asker's own rates and prices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/predicted.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// A slow GPU in one node sets the pace, wherever the node stands in the list.
TEST(Predict, TakesTheAskersRatesInAMixedCluster) {
  const TemporaryFolder folder;
  folder.write("slow.yaml", R"(like: p4d.24xlarge
instance: slow
nic: { bandwidth: 20 Gbps }
)");
  const auto step = [&](const std::string& mixed, const std::string& rates) {
    const auto file = folder.write("mixed.yaml", R"(
workload:
  model: bert-large
  precision: fp16
  batch_per_gpu: 32
  measured: [)" + rates + R"(]
cluster: { mixed: [)" + mixed + R"(] }
)");
    return json_of("predict " + file.string())["points"][0];
  };
  const std::string fast = "{ instance: p4d.24xlarge, nodes: 3 }",
                    slow = "{ instance: ./slow.yaml, nodes: 1 }";
  const std::string rates =
      "{ instance: p4d.24xlarge, samples_per_s: 200 }, "
      "{ instance: ./slow.yaml, samples_per_s: 100 }";
  const nlohmann::json last = step(fast + ", " + slow, rates),
                       first = step(slow + ", " + fast, rates);
  EXPECT_GT(last["compute_time_s"].get<double>(), 0.3);  // 32 samples at 100 a second
  EXPECT_NEAR(last["step_time_s"].get<double>(), first["step_time_s"].get<double>(), 1e-9);
}

TEST(Predict, TakesOwnPricesAndOwnRatesOfSeveralInstances) {
  const nlohmann::json points = points_of(R"(
name: x
workload:
  model: gpt2-124m
  precision: bf16
  batch_per_gpu: 8
  measured:
    - { instance: p4d.24xlarge, samples_per_s: 60 }
    - { instance: p5.48xlarge, tokens_per_s: 153600 }
cluster:
  instance: [p4d.24xlarge, p5.48xlarge]
  nodes: 1
  prices: [{ instance: p5.48xlarge, price: 20 USD/h }]
allreduce: { algorithm: nccl }
)");
  ASSERT_EQ(points.size(), 2u);
  EXPECT_SAYS(points[0]["compute_source"].get<std::string>(), "60 samples a second");
  EXPECT_SAYS(points[1]["compute_source"].get<std::string>(), "150 samples a second");
  EXPECT_GT(points[0]["usd_per_hour"], 21);
  EXPECT_EQ(points[1]["usd_per_hour"], 20);
  const double tokens = points[1]["throughput_tokens_per_s"];
  EXPECT_NEAR(tokens, 1024 * points[1]["throughput_samples_per_s"].get<double>(), 1);
  EXPECT_NEAR(points[1]["usd_per_billion_tokens"].get<double>(), 20 / 3600.0 / tokens * 1e9, 1e-6);
  // 6 x parameters x tokens, and attention, over the peak of 8 GPUs.
  EXPECT_NEAR(points[1]["model_flops_utilisation"].get<double>(),
              tokens * 874.9e9 / 1024 / (8 * 989e12), 0.003);
}

TEST(Predict, TakesPricesInOtherCurrenciesAtTheStatedRate) {
  const auto with_price = [](const std::string& price) {
    return R"(
name: x
workload: { model: gpt2-124m, precision: bf16, batch_per_gpu: 8 }
cluster: { instance: p5.48xlarge, nodes: 2, prices: [{ instance: p5.48xlarge, )" +
           price + " }] }\nallreduce: { algorithm: ring }\n";
  };
  for (const char* price :
       {"price: 50 EUR/h, exchange_rate: 1.1", "price: 50 €/hour, exchange_rate: 1.1"})
    EXPECT_NEAR(points_of(with_price(price)).at(0).at("usd_per_hour").get<double>(), 2 * 50 * 1.1,
                1e-9);
  const TemporaryFolder folder;
  const std::vector<std::pair<const char*, const char*>> wrong{
      {"price: 50 EUR/h", "a price in EUR needs exchange_rate: USD for one EUR"},
      {"price: 50 USD/h, exchange_rate: 1.1", "the price is in USD already"},
      {"price: 50 euros", "a currency's three letters and /h, such as EUR/h"},
      {"price: 50", "a currency's three letters and /h, such as EUR/h"},
      {"price: -2 EUR/h, exchange_rate: 1.1", "a price is above 0 and at most 1000000 USD/h"},
      {"price: 50 EUR/h, exchange_rate: 0", "exchange_rate"}};
  for (const auto& [price, says] : wrong) {
    const auto result =
        foreduce_says("predict " + folder.write("w.yaml", with_price(price)).string());
    EXPECT_EQ(result.status, 2) << price;
    EXPECT_SAYS(result.out, says);
  }
}

// A list of prices and rates may serve several scenarios; a name that is nobody's is a mistake.
TEST(Predict, NamesPricesAndRatesWithoutEffect) {
  const TemporaryFolder folder;
  const auto with = [&](const std::string& instance, const std::string& more = "") {
    return foreduce_says(
        "predict " + folder
                         .write("other.yaml",
                                "workload: { model: gpt2-124m, batch_per_gpu: 8, measured: [{ "
                                "instance: " +
                                    instance + ", samples_per_s: 9 }" + more +
                                    "] }\ncluster: { instance: p4d.24xlarge, nodes: 1, prices: [{ "
                                    "instance: " +
                                    instance + ", price: 2 USD/h }] }\n")
                         .string());
  };
  const Result other = with("p5.48xlarge");
  EXPECT_EQ(other.status, 0);
  EXPECT_SAYS(other.out,
              "Keys without effect here: cluster.prices of p5.48xlarge, workload.measured of "
              "p5.48xlarge");
  const Result unknown = with("p5.48xlrge");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_SAYS(unknown.out, "prices: p5.48xlrge is not part of the cluster");
  EXPECT_SAYS(unknown.out, "measured: p5.48xlrge is not part of the cluster");
  EXPECT_SAYS(unknown.out, "did you mean 'p5.48xlarge'?");
  const Result twice = with("p4d.24xlarge", ", { instance: p4d.24xlarge, samples_per_s: 10 }");
  EXPECT_EQ(twice.status, 2);
  EXPECT_SAYS(twice.out, "measured: p4d.24xlarge is there twice");
  EXPECT_SAYS(with("p4d.24xlarge", ", { instance: p4d.24xlarge, batch: 4, samples_per_s: 10 }").out,
              "Keys without effect here: workload.measured of p4d.24xlarge at batch 4");
}

// The file was named, and no line of it.
TEST(Predict, ARateAboveThePeakIsAnErrorAtItsKey) {
  const TemporaryFolder folder;
  const auto error = [&](const char* rate) {
    return foreduce_says("predict " +
                         folder
                             .write("fast.yaml", std::string("workload:\n  model: bert-large\n  "
                                                             "batch_per_gpu: 8\n  ") +
                                                     rate +
                                                     "\ncluster: { instance: p4d.24xlarge, "
                                                     "nodes: 2 }\n")
                             .string());
  };
  const Result one = error("samples_per_s: 15000");
  EXPECT_EQ(one.status, 2);
  EXPECT_SAYS(one.out, "fast.yaml:4:3: error: workload.samples_per_s: 15000 samples a second");
  EXPECT_SAYS(error("measured: [{ instance: p4d.24xlarge, samples_per_s: 15000 }]").out,
              "fast.yaml:4:3: error: workload.measured: 15000 samples a second");
}

// MFU is the model's arithmetic over the peak's: what a rate of half the peak must give back.
TEST(Predict, TakesAMeasuredShareOfThePeak) {
  const nlohmann::json points = points_of(R"(
name: x
workload: { model: gpt2-1.5b, precision: bf16, batch_per_gpu: 4, measured: [{ instance: p4d.24xlarge, mfu: 0.5 }] }
cluster: { instance: p4d.24xlarge, nodes: 1 }
allreduce: { algorithm: nccl }
)");
  ASSERT_EQ(points.size(), 1u);
  EXPECT_NEAR(points[0]["model_flops_utilisation"].get<double>() /
                  points[0]["scaling_efficiency"].get<double>(),
              0.5, 1e-9);
}

// A rate of one's own is of a GPU, so it holds for a job that has half of the node's, too; the
// price is of the whole node.
TEST(Predict, TakesOwnRatesForSomeOfANodesGpus) {
  const TemporaryFolder folder;
  const nlohmann::json points = json_of("predict " + folder
                                                         .write("s.yaml", R"(
name: half
workload: { model: gpt2-124m, batch_per_gpu: 8, measured: [{ instance: p5.48xlarge, samples_per_s: 9 }] }
cluster: { instance: p5.48xlarge, nodes: 2, gpus_per_node: [4, 8] }
allreduce: { algorithm: ring }
)")
                                                         .string())["points"];
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0]["gpus"], 8);
  EXPECT_EQ(points[1]["gpus"], 16);
  for (const nlohmann::json& p : points)
    EXPECT_SAYS(p["compute_source"].get<std::string>(), "as the scenario says");
  EXPECT_EQ(points[0].at("usd_per_hour"), points[1].at("usd_per_hour"));
}

// Above 80 % of a GPU's peak a rate decides what is cheapest, and hardly any GPU has it.
TEST(Predict, AndPlanWarnOfDoubtfulRates) {
  const TemporaryFolder folder;
  const std::string file = folder
                               .write("s.yaml", R"(
workload:  { model: llama2-7b, precision: bf16, batch_per_gpu: 1, sharding: fsdp, measured: [{ instance: p5.48xlarge, mfu: 85 % }] }
cluster:   { instance: [p5.48xlarge, p5en.48xlarge], nodes: 2 }
allreduce: { algorithm: nccl }
goal:      { samples: 1e6 }
)")
                               .string();
  for (const std::string command : {"predict ", "plan "}) {
    const Result r = foreduce_says(command + file);
    EXPECT_SAYS(r.out, "Doubtful: ");
    EXPECT_SAYS(r.out, "85 % of H100");
  }
}

/// What the asker measured of a sharded model is what the step computes.
TEST(Predict, KeepsAMeasuredRateOfAShardedModel) {
  const TemporaryFolder folder;
  const auto file = folder.write("own.yaml", R"(
workload:
  model: llama2-7b
  precision: bf16
  batch_per_gpu: 1
  sharding: fsdp
  measured: [{ instance: p5.48xlarge, tokens_per_s: 16000 }]
cluster:   { instance: p5.48xlarge, nodes: 1 }
allreduce: { algorithm: nccl }
)");
  const nlohmann::json p = json_of("predict " + file.string())["points"][0];
  EXPECT_NEAR(p["compute_time_s"].get<double>(), 4096.0 / 16000, 0.01 * 4096 / 16000);
  EXPECT_LT(p["throughput_tokens_per_s"], 8 * 16000);
  const Result far = foreduce_says("predict " + file.string() +
                                   " --set workload.recompute=full --set "
                                   "\"workload.measured=[{instance: p5.48xlarge, mfu: 0.9}]\"");
  EXPECT_EQ(far.status, 2);
  EXPECT_SAYS(far.out, "120 % of H100");
}

// A rate of a GPU that nothing has took no part in any prediction, and nothing said so.
TEST(Predict, RefusesRatesOfGpusThatNothingHas) {
  const TemporaryFolder folder;
  const auto predicted = [&](const char* gpu, const char* instance) {
    folder.write("own.yaml", fmt::format(R"(
workload: own
parameters: 100 million
blocks: 4
variants: [{{ sample: 128 tokens, train_gflop: 77 }}]
measured: [{{ gpu: {}, precision: fp16, sample: 128 tokens, batch: 8, samples_per_s: 400,
             source: mine }}]
)",
                                         gpu));
    folder.write("x9.yaml", R"(like: p4d.24xlarge
gpu: { model: X9-80GB }
)");
    return foreduce_says("predict " + folder
                                          .write("s.yaml", fmt::format(R"(
workload: {{ model: ./own.yaml, precision: fp16, batch_per_gpu: 8 }}
cluster: {{ instance: {}, nodes: 2 }}
)",
                                                                       instance))
                                          .string());
  };
  const Result misspelt = predicted("A1000", "p4d.24xlarge");
  EXPECT_EQ(misspelt.status, 2);
  EXPECT_SAYS(misspelt.out, "has a GPU called 'A1000'\n  did you mean 'A100'?");
  EXPECT_EQ(predicted("A100", "p4d.24xlarge").status, 0);
  EXPECT_EQ(predicted("V100", "p4d.24xlarge").status, 0);  // its rate is moved to A100
  EXPECT_EQ(predicted("X9", "p4d.24xlarge").status, 2);
  EXPECT_EQ(predicted("X9", "./x9.yaml").status, 0);  // a GPU that the asker describes
}

}  // namespace
}  // namespace foreduce
