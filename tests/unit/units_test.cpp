// FSDP's units: which tensors travel together, and how much of the arithmetic is theirs.
#include <gtest/gtest.h>

#include "models/units.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

TEST(BlockOf, IsTheNameUpToTheLayersNumber) {
  EXPECT_EQ(block_of("model.layers.3.mlp.up_proj.weight"), "model.layers.3");
  EXPECT_EQ(block_of("h.11.ln_1.bias"), "h.11");
  EXPECT_EQ(block_of("encoder.block.0.layer.1.layer_norm.weight"), "encoder.block.0");
  EXPECT_EQ(block_of("encoder.layers.encoder_layer_7.mlp.0.bias"),
            "encoder.layers.encoder_layer_7");
  EXPECT_EQ(block_of("layer1.2.conv3.weight"), "layer1.2");
  EXPECT_EQ(block_of("block.5"), "block.5");
  for (const char* none : {"wte.weight", "lm_head.weight", "conv1.weight", "fc", "model.norm.bias"})
    EXPECT_EQ(block_of(none), "") << none;
}

double sum_of_shares(const std::vector<ModelUnit>& units) {
  double sum = 0;
  for (const ModelUnit& u : units) sum += u.share;
  return sum;
}
std::size_t sum_of_elements(const std::vector<ModelUnit>& units) {
  std::size_t sum = 0;
  for (const ModelUnit& u : units) sum += u.elements;
  return sum;
}

TEST(Units, HaveAllOfEveryShippedModel) {
  const Workloads all;
  for (const std::string& name : all.names()) {
    const Workload w = all.load(name);
    for (const UnitRule& rule :
         {UnitRule{UnitRule::By::block, {}}, UnitRule{UnitRule::By::tensor, {}},
          UnitRule{UnitRule::By::size, Bytes{1e8}}}) {
      const auto units = units_of(w, rule, 2);
      EXPECT_EQ(sum_of_elements(units), w.elements()) << name;
      EXPECT_NEAR(sum_of_shares(units), 1, 1e-12) << name;
    }
  }
}

TEST(Units, ABlockOfATransformerEach) {
  const auto count = [](const char* name) {
    return units_of(Workloads().load(name), {}, 2).size();
  };
  EXPECT_EQ(count("llama2-7b"), 1 + 32u);
  EXPECT_EQ(count("gpt2-1.5b"), 1 + 48u);
  EXPECT_EQ(count("bert-large"), 1 + 24u);
  EXPECT_EQ(count("t5-3b"), 1 + 48u);
  EXPECT_EQ(count("vit-l16"), 1 + 24u);
  EXPECT_EQ(count("resnet50"), 1 + 16u);
}

// A block of Llama-2 7B has 202 million parameters; the root has the embedding and the output
// layer.
TEST(Units, TheRootHasWhatBelongsToNoBlock) {
  const auto units = units_of(Workloads().load("llama2-7b"), {}, 2);
  EXPECT_TRUE(units[0].root);
  EXPECT_EQ(units[0].elements, 2 * 131072000u + 4096);
  EXPECT_FALSE(units[1].root);
  EXPECT_EQ(units[1].elements, 202383360u);
}

// Of a token's 6 FLOP a parameter 131 million are the output layer's; scores are all the blocks'.
TEST(Units, BlocksIncludeAttentionScores) {
  const Workload w = Workloads().load("llama2-7b");
  const double all = w.variants[0].train_gflop * 1e9;
  EXPECT_NEAR(units_of(w, {}, 2)[0].share, 6.0 * 131072000 * 4096 / all, 1e-4);
}

TEST(Units, BySizeCloseWhenTheyHaveIt) {
  const Workload w = Workloads().load("gpt2-124m");
  const auto units = units_of(w, {UnitRule::By::size, Bytes{20e6}}, 2);
  for (std::size_t i = 0; i + 1 < units.size(); ++i) EXPECT_GE(units[i].elements * 2, 20e6);
  EXPECT_GT(units_of(w, {UnitRule::By::size, Bytes{10e6}}, 2).size(), units.size());
}

TEST(Stages, DivideTheBlocksBetweenTheEmbeddingAndTheOutputLayer) {
  const auto units = units_of(Workloads().load("llama2-7b"), {}, 2);
  const auto stages = stages_of(units, 4);
  ASSERT_EQ(stages.size(), 4u);
  const std::size_t matrix = 32000 * 4096;
  EXPECT_EQ(stages[0].size(), 9u);
  EXPECT_EQ(stages[1].size(), 8u);
  EXPECT_EQ(stages[3].size(), 9u);
  for (const std::size_t end : {0u, 3u}) EXPECT_TRUE(stages[end][0].root);
  EXPECT_EQ(stages[0][0].elements, matrix);
  EXPECT_EQ(stages[3][0].elements, matrix + 4096);
  EXPECT_EQ(stages[0][0].share, 0);
  EXPECT_EQ(stages[3][0].share, units[0].share);
  // A matrix that both share is there twice.
  const auto tied = units_of(Workloads().load("gpt2-124m"), {}, 2);
  const auto two = stages_of(tied, 2);
  EXPECT_EQ(two[0][0].elements, 50257u * 768 + 1024 * 768);
  EXPECT_EQ(two[1][0].elements, 50257u * 768 + 2 * 768);
  // Of 32 blocks on five stages the last and the first have the embedding's place and the loss's,
  // and one more stage has six.
  std::vector<std::size_t> sizes;
  for (const auto& stage : stages_of(units, 5)) sizes.push_back(stage.size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{6 + 1, 7, 7, 6, 6 + 1}));
  EXPECT_SAYS(error_of([&] { stages_of(units, 33); }), "32 units cannot be divided into 33 stages");
}

}  // namespace
}  // namespace foreduce
