// Workloads from models' own descriptions: published counts, the tensors of workloads that ship,
// and what is wrong with a description.
#include "models/model_config.hpp"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/memory.hpp"
#include "models/tensors.hpp"
#include "models/units.hpp"
#include "scenarios/report/written_files.hpp"
#include "scenarios/sweep/cases.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

std::filesystem::path published(const std::string& name) {
  return source_folder() / "tests" / "configs" / (name + ".json");
}

/// A model of a published configuration with some keys changed; null removes one.
DescribedModel changed(const std::string& name, const nlohmann::json& changes,
                       const DescriptionChoices& choices = {}) {
  nlohmann::json config = nlohmann::json::parse(read_text(published(name)));
  config.merge_patch(changes);
  const TemporaryFolder folder;
  return workload_from_config(folder.write("config.json", config.dump()), choices);
}

struct PublishedCount {
  const char* name;
  std::size_t parameters;
  std::size_t blocks;
};

class PublishedConfig : public testing::TestWithParam<PublishedCount> {};

TEST_P(PublishedConfig, GivesThePublishedNumberOfParameters) {
  const DescribedModel model = workload_from_config(published(GetParam().name), {});
  EXPECT_EQ(model.workload.elements(), GetParam().parameters);
  const auto units = units_of(model.workload, {}, 2);
  EXPECT_EQ(units.size(), GetParam().blocks + 1) << "blocks, and a root";
}

// What is written loads as what was made.
TEST_P(PublishedConfig, IsWrittenAsAWorkloadFileThatLoads) {
  const Workload made = workload_from_config(published(GetParam().name), {}).workload;
  const TemporaryFolder folder;
  const Workload read = Workloads::load_file(folder.write("own.yaml", workload_file(made, {})));
  ASSERT_EQ(read.tensors.size(), made.tensors.size());
  for (std::size_t i = 0; i < made.tensors.size(); ++i) {
    EXPECT_EQ(read.tensors[i].name, made.tensors[i].name);
    EXPECT_EQ(read.tensors[i].elements, made.tensors[i].elements);
    EXPECT_NEAR(read.tensors[i].macs, made.tensors[i].macs, 0.5);
  }
  EXPECT_EQ(read.variants.at(0).sample, made.variants.at(0).sample);
  EXPECT_NEAR(read.variants.at(0).train_gflop / made.variants.at(0).train_gflop, 1, 1e-9);
  EXPECT_EQ(read.name, made.name);
  const Scenario scenario = parse_scenario(
      "s.yaml", fmt::format("workload: {{ model: ./own.yaml, batch_per_gpu: 1, sample: {} }}\n"
                            "cluster: {{ instance: p5.48xlarge, nodes: 1 }}\n",
                            made.variants.at(0).sample));
  EXPECT_EQ(sample_of(scenario, read), made.variants.at(0).sample);
}

INSTANTIATE_TEST_SUITE_P(
    configs, PublishedConfig,
    testing::Values(
        PublishedCount{"llama2-7b", 6738415616, 32}, PublishedCount{"llama3-8b", 8030261248, 32},
        PublishedCount{"llama3.2-1b", 1235814400, 16}, PublishedCount{"mistral-7b", 7241732096, 32},
        PublishedCount{"mixtral-8x7b", 46702792704, 32}, PublishedCount{"gpt2", 124439808, 12},
        PublishedCount{"gpt-neox-20b", 20554567680, 44}, PublishedCount{"opt-125m", 125239296, 12},
        PublishedCount{"opt-350m", 331196416, 24},
        PublishedCount{"bert-base-uncased", 109514298, 12},
        PublishedCount{"t5-small", 60506624, 12}, PublishedCount{"t5-base", 222903552, 24},
        PublishedCount{"flan-t5-small", 76961152, 16},
        PublishedCount{"vit-base-patch16-224", 86567656, 12},
        PublishedCount{"qwen2-0.5b", 494032768, 24}, PublishedCount{"qwen2-7b", 7615616512, 28},
        PublishedCount{"qwen1.5-moe-a2.7b", 14315784192, 24},
        PublishedCount{"qwen3-0.6b", 596049920, 28}, PublishedCount{"qwen3-8b", 8190735360, 36},
        PublishedCount{"qwen3-30b-a3b", 30532122624, 48},
        PublishedCount{"gemma-2b", 2506172416, 18}, PublishedCount{"gemma-2-2b", 2614341888, 26},
        PublishedCount{"gemma-3-1b", 999885952, 26},
        // Of 4300079472 those of text; SigLIP has 416866032, and its way to the text 2950272.
        PublishedCount{"gemma-3-4b", 4300079472 - 416866032 - 2950272, 34},
        PublishedCount{"phi-2", 2779683840, 32}, PublishedCount{"phi-3-mini-4k", 3821079552, 32},
        PublishedCount{"phi-4", 14659507200, 40}, PublishedCount{"olmo-1b", 1176764416, 16},
        PublishedCount{"olmo-2-7b", 7298617344, 32},
        PublishedCount{"starcoder2-3b", 3030371328, 30},
        PublishedCount{"aya-expanse-8b", 8028033024, 32},
        PublishedCount{"command-r-plus", 103810674688, 64},
        PublishedCount{"stablelm-3b-4e1t", 2795443200, 32},
        PublishedCount{"stablelm-2-1.6b", 1644515328, 24},
        PublishedCount{"granite-3.3-2b", 2533539840, 40},
        PublishedCount{"smollm3-3b", 3075098624, 36}, PublishedCount{"gpt-j-6b", 6050882784, 28},
        PublishedCount{"starcoder", 15517456384, 40}, PublishedCount{"bloom-560m", 559214592, 24},
        PublishedCount{"bloom", 176247271424, 70}, PublishedCount{"falcon-rw-1b", 1311625216, 24},
        // Two of Falcon's files hold an output layer beside the embedding that it is tied to.
        PublishedCount{"falcon-7b", 7217189760 - 65024ull * 4544, 32},
        PublishedCount{"falcon-40b", 41303293952, 60},
        PublishedCount{"falcon-180b", 179522565120 - 65024ull * 14848, 80},
        PublishedCount{"mpt-7b", 6649286656, 32}, PublishedCount{"dbrx", 131596523520, 40},
        PublishedCount{"roberta-base", 124697433, 12},
        PublishedCount{"xlm-roberta-base", 278295186, 12},
        PublishedCount{"camembert-base", 110655493, 12},
        // Its last layer, which chooses nothing but whether a word was replaced, has 257.
        PublishedCount{"electra-small-discriminator", 13548800 + 257, 12},
        PublishedCount{"distilbert-base-uncased", 66985530, 6},
        PublishedCount{"deberta-v3-base", 183831552, 12},
        PublishedCount{"whisper-tiny", 37760640, 8},
        PublishedCount{"whisper-large-v3", 1543490560, 64},
        PublishedCount{"clip-vit-base-patch32", 151277313, 24},
        PublishedCount{"dinov2-base", 86580480, 12}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
      return name;
    });

/// What a model card says of a mixture of experts, in billions.
struct CardOfMixture {
  const char* name;
  double parameters, active;  ///< as many digits as there are
  double digit;               ///< what the last one of `parameters` stands for
  bool with_embedding;        ///< whether the active ones have the embedding that is looked up
  int experts, per_token;
};

class PublishedMixture : public testing::TestWithParam<CardOfMixture> {};

TEST_P(PublishedMixture, HasTheParametersOfItsCard) {
  const CardOfMixture card = GetParam();
  const Workload w =
      workload_from_config(published(card.name), {.name = "", .sequence = 1}).workload;
  EXPECT_NEAR(static_cast<double>(w.elements()) / 1e9, card.parameters, 0.9 * card.digit);
  double active = 0;
  for (const Tensor& t : w.tensors) active += t.macs;
  if (card.with_embedding) active += static_cast<double>(w.tensors.front().elements);
  EXPECT_NEAR(active / 1e9 / card.active, 1, 0.04);
  ASSERT_TRUE(w.experts);
  EXPECT_EQ(w.experts->count, card.experts);
  EXPECT_EQ(w.experts->per_token, card.per_token);
  // Of a token a block hands on as much as its width, and keeps what its experts put out: two inner
  // products and the last, for each expert that it takes.
  const auto width = static_cast<double>(usual_width(w.tensors));
  EXPECT_EQ(block_output(w, "", 1), width);
  double of_experts = 0;
  for (const Tensor& t : w.tensors)
    if ((t.name.ends_with("down_proj") || t.name.ends_with("w2")) && is_of_experts(t, w)) {
      const double inner = static_cast<double>(t.elements) / card.experts / width;
      of_experts += card.per_token * (2 * inner + width);
    }
  const double kept = activations(w, "", Precision::bf16, 1, Recompute::none).value / 4;
  EXPECT_GT(kept, of_experts);
  EXPECT_LT(kept, 4 * of_experts + 40 * width * static_cast<double>(units_of(w, {}, 2).size()) +
                      2.0 * static_cast<double>(w.tensors.front().elements) / width);
  EXPECT_GT(loss_working_space(w, "", 1).value, 0);
  // What is written down loads as the same mixture.
  const TemporaryFolder folder;
  const Workload read = Workloads::load_file(folder.write("own.yaml", workload_file(w, {})));
  EXPECT_EQ(read.elements(), w.elements());
  ASSERT_TRUE(read.experts);
  EXPECT_EQ(read.experts->count, card.experts);
  EXPECT_EQ(units_of(read, {}, 2).back().experts, units_of(w, {}, 2).back().experts);
}

INSTANTIATE_TEST_SUITE_P(
    configs, PublishedMixture,
    testing::Values(CardOfMixture{"mixtral-8x7b", 46.7, 12.9, 0.1, true, 8, 2},
                    CardOfMixture{"mixtral-8x22b", 141, 39, 1, true, 8, 2},
                    CardOfMixture{"phi-3.5-moe", 41.9, 6.6, 0.1, true, 16, 2},
                    CardOfMixture{"olmoe-1b-7b", 6.9, 1.3, 0.1, true, 64, 8},
                    CardOfMixture{"qwen1.5-moe-a2.7b", 14.3, 2.7, 0.1, true, 60, 4},
                    CardOfMixture{"qwen3-30b-a3b", 30.5, 3.3, 0.1, true, 128, 8},
                    CardOfMixture{"gpt-oss-20b", 20.9, 3.61, 0.1, false, 32, 4},
                    CardOfMixture{"gpt-oss-120b", 116.8, 5.13, 0.1, false, 128, 4},
                    CardOfMixture{"glm-4.5-air", 106, 12.8, 1, false, 128, 8},
                    CardOfMixture{"llama-4-scout", 107, 17, 1, true, 16, 1},
                    CardOfMixture{"deepseek-v2-lite", 15.7, 2.4, 0.1, false, 64, 6},
                    CardOfMixture{"deepseek-v3", 671, 36.7, 1, false, 256, 8},
                    CardOfMixture{"dbrx", 132, 36, 1, true, 16, 4}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
      return name;
    });

// Where no layer has experts, or only one, nothing is a mixture, and the file loads.
TEST(ModelConfig, AMixtureOfNothingIsDense) {
  for (const auto& [name, key, value] : {std::tuple("qwen3-30b-a3b", "decoder_sparse_step", 1000),
                                         {"mixtral-8x7b", "num_local_experts", 1},
                                         {"deepseek-v2-lite", "first_k_dense_replace", 100}}) {
    nlohmann::json changes = {{key, value}};
    if (std::string(key) == "num_local_experts") changes["num_experts_per_tok"] = 1;
    const Workload w = changed(name, changes).workload;
    EXPECT_FALSE(w.experts) << name;
    const TemporaryFolder folder;
    EXPECT_EQ(Workloads::load_file(folder.write("own.yaml", workload_file(w, {}))).elements(),
              w.elements());
  }
}

TEST(ModelConfig, CountsTheTensorsOfTheClassThatItNames) {
  const auto as = [](const char* name, const char* architecture) {
    return changed(name, {{"architectures", {architecture}}}).workload.elements();
  };
  EXPECT_EQ(as("bert-base-uncased", "BertModel"), 109482240u);
  EXPECT_EQ(as("bert-base-uncased", "BertForPreTraining"), 110106428u);
  EXPECT_EQ(as("bert-base-uncased", "BertForSequenceClassification"), 109482240u + 2 * 769);
  EXPECT_EQ(as("bert-base-uncased", "BertForQuestionAnswering"), 108893186u);
  EXPECT_EQ(as("bert-base-uncased", "BertForTokenClassification"), 108893186u);  // of 2 labels
  EXPECT_EQ(as("distilbert-base-uncased", "DistilBertForQuestionAnswering"), 66364418u);
  EXPECT_EQ(as("vit-base-patch16-224", "ViTModel"), 86389248u);
  EXPECT_EQ(as("llama2-7b", "LlamaModel"), 6738415616u - 32000u * 4096);
  EXPECT_EQ(as("roberta-base", "RobertaModel"), 124645632u);
  EXPECT_EQ(as("roberta-base", "RobertaForSequenceClassification"), 124647170u);
  EXPECT_EQ(as("distilbert-base-uncased", "DistilBertModel"), 66362880u);
  EXPECT_EQ(as("distilbert-base-uncased", "DistilBertForSequenceClassification"), 66955010u);
  EXPECT_EQ(as("deberta-v3-base", "DebertaV2ForSequenceClassification"), 184423682u);
  EXPECT_EQ(changed("gpt2", {{"architectures", nullptr}}).architecture, "GPT2LMHeadModel");
}

/// The tensors that ship were written down from the published models, not by this code.
void expect_tensors_of(const Workload& shipped, const Workload& made, const std::string& prefix) {
  ASSERT_EQ(made.tensors.size(), shipped.tensors.size());
  for (std::size_t i = 0; i < made.tensors.size(); ++i) {
    EXPECT_EQ(made.tensors[i].name, prefix + shipped.tensors[i].name);
    EXPECT_EQ(made.tensors[i].elements, shipped.tensors[i].elements) << made.tensors[i].name;
    EXPECT_EQ(made.tensors[i].macs, shipped.tensors[i].macs) << made.tensors[i].name;
  }
  EXPECT_EQ(made.attention_scores, shipped.attention_scores);
  EXPECT_NEAR(made.variants.at(0).train_gflop / shipped.variants.at(0).train_gflop, 1, 0.005);
}

TEST(ModelConfig, GivesTheTensorsOfWorkloadsThatShip) {
  const Workloads all;
  const auto made = [](const char* name) {
    return workload_from_config(published(name), {}).workload;
  };
  expect_tensors_of(all.load("llama2-7b"), made("llama2-7b"), "");
  expect_tensors_of(all.load("llama3-8b"), made("llama3-8b"), "");
  expect_tensors_of(all.load("gpt2-124m"), made("gpt2"), "transformer.");
  expect_tensors_of(all.load("t5-base"), made("t5-base"), "");
}

TEST(ModelConfig, CountsOnlyChosenExpertsArithmetic) {
  const Workload w =
      workload_from_config(published("mixtral-8x7b"), {.name = "", .sequence = 1}).workload;
  double macs = 0;
  for (const Tensor& t : w.tensors) macs += t.macs;
  // 12,879,925,248 active parameters (Jiang et al., arXiv 2401.04088: "13B"), of which the
  // looked-up embedding and the norms do no multiply-adds.
  EXPECT_EQ(macs, 12879925248.0 - 32000.0 * 4096 - 65 * 4096);
}

TEST(ModelConfig, TakesTheModelsContextUpToALimit) {
  const auto sample = [](const char* name, int sequence) {
    return workload_from_config(published(name), {.name = "", .sequence = sequence})
        .workload.variants.at(0);
  };
  EXPECT_EQ(sample("llama2-7b", 0).sample, "4096 tokens");
  EXPECT_EQ(sample("llama3.2-1b", 0).sample, "8192 tokens");
  EXPECT_EQ(sample("llama3.2-1b", 2048).sample, "2048 tokens");
  EXPECT_EQ(sample("t5-small", 128).sample, "128+128 tokens");
  EXPECT_EQ(sample("vit-base-patch16-224", 0).sample, "224x224 image");
  // A window of 4096 tokens: beyond it arithmetic grows in proportion.
  EXPECT_DOUBLE_EQ(sample("mistral-7b", 16384).train_gflop,
                   2 * sample("mistral-7b", 8192).train_gflop);
  EXPECT_SAYS(error_of([&] { sample("gpt2", 2048); }),
              "n_positions: the model has 1024 positions, and --sequence asks for 2048");
}

TEST(ModelConfig, SaysThatStoredPrecisionIsNotTakenOver) {
  nlohmann::json config = nlohmann::json::parse(read_text(published("llama2-7b")));
  const auto notes = [&] {
    const TemporaryFolder folder;
    return fmt::format(
        "{}", fmt::join(workload_from_config(folder.write("config.json", config.dump()), {}).notes,
                        "\n"));
  };
  EXPECT_EQ(notes().find("quantization_config"), std::string::npos);
  config["quantization_config"] = {{"bits", 4}, {"quant_method", "gptq"}};
  EXPECT_SAYS(notes(), "quantization_config says how a checkpoint is stored");
}

// Of Qwen's models that see, text_config has another name than the language model has alone.
TEST(ModelConfig, ReadsTheLanguageModelOfOneThatSees) {
  const auto nested = [](const char* name, const char* type) {
    nlohmann::json text = nlohmann::json::parse(read_text(published(name)));
    text.erase("architectures");
    text["model_type"] = type;
    const nlohmann::json whole = {{"model_type", "that_sees"},
                                  {"architectures", {"ThatSeesForConditionalGeneration"}},
                                  {"text_config", text},
                                  {"vision_config", {{"depth", 32}}}};
    const TemporaryFolder folder;
    return workload_from_config(folder.write("config.json", whole.dump()), {});
  };
  for (const auto& [name, type] : {std::pair("qwen2-7b", "qwen2_5_vl_text"),
                                   {"qwen3-8b", "qwen3_vl_text"},
                                   {"qwen3-30b-a3b", "qwen3_vl_moe_text"},
                                   {"mistral-7b", "mistral"}}) {
    const DescribedModel model = nested(name, type);
    EXPECT_EQ(model.workload.elements(),
              workload_from_config(published(name), {}).workload.elements())
        << type;
    EXPECT_SAYS(fmt::format("{}", fmt::join(model.notes, " ")), "Only text_config is read");
  }
  const DescribedModel beside =
      changed("qwen2-7b", {{"model_type", "qwen2_5_vl"},
                           {"architectures", {"Qwen2_5_VLForConditionalGeneration"}},
                           {"vision_config", {{"depth", 32}}}});
  EXPECT_EQ(beside.workload.elements(),
            workload_from_config(published("qwen2-7b"), {}).workload.elements());
}

TEST(ModelConfig, SaysWhichPartLeavesOutAKey) {
  const TemporaryFolder folder;
  const nlohmann::json llava = {{"model_type", "llava"},
                                {"architectures", {"LlavaForConditionalGeneration"}},
                                {"text_config", {{"model_type", "llama"}, {"vocab_size", 32064}}}};
  const std::string error =
      error_of([&] { workload_from_config(folder.write("config.json", llava.dump()), {}); });
  EXPECT_SAYS(error, "text_config.hidden_size: this key is missing");
  EXPECT_SAYS(error, "config.json of the language model itself");
}

TEST(ModelConfig, RefusesADiffusersFileByItsName) {
  const TemporaryFolder folder;
  const nlohmann::json unet = {{"_class_name", "UNet2DConditionModel"},
                               {"_diffusers_version", "0.30.0"},
                               {"cross_attention_dim", 768}};
  const std::string error =
      error_of([&] { workload_from_config(folder.write("config.json", unet.dump()), {}); });
  EXPECT_SAYS(error, "this is a file of diffusers, of UNet2DConditionModel");
  EXPECT_SAYS(error, "from-trace");
}

TEST(ModelConfig, NamesAnUnknownArchitectureAndTheNearest) {
  const std::string error = error_of([] { changed("llama2-7b", {{"model_type", "lama"}}); });
  EXPECT_SAYS(error, "model_type: 'lama' is an architecture that foreduce does not know");
  EXPECT_SAYS(error, "did you mean 'llama'?");
  EXPECT_SAYS(error, "gpt_neox");
  EXPECT_SAYS(
      error_of([] {
        changed("llama2-7b", {{"model_type", nullptr}, {"architectures", {"LLamaForCausalLM"}}});
      }),
      "did you mean 'LlamaForCausalLM'?");
  EXPECT_SAYS(error_of([] {
                changed("llama2-7b", {{"architectures", {"LlamaForTokenRanking"}}});
              }),
              "architectures: 'LlamaForTokenRanking' is a class that foreduce does not know");
}

TEST(ModelConfig, RefusesKeysThatAreMissingOrOdd) {
  const auto error = [](const nlohmann::json& changes) {
    return error_of([&] { changed("llama3-8b", changes); });
  };
  EXPECT_SAYS(error({{"hidden_size", nullptr}}), "hidden_size: this key is missing");
  EXPECT_SAYS(error({{"hidden_size", "4096"}}), "hidden_size: a whole number is expected");
  EXPECT_SAYS(error({{"hidden_size", -1}}), "hidden_size: it must be from 1 to");
  EXPECT_SAYS(error({{"hidden_size", 1e300}}), "hidden_size: a whole number is expected");
  EXPECT_SAYS(error({{"vocab_size", 18446744073709551615u}}), "vocab_size: it must be from 1 to");
  EXPECT_SAYS(error({{"num_hidden_layers", 1000000}}), "at most 1000 layers");
  EXPECT_SAYS(error({{"num_key_value_heads", 7}}), "32 heads cannot share the keys of 7");
  EXPECT_SAYS(error({{"num_attention_heads", 24}, {"num_key_value_heads", 8}}),
              "hidden_size 4096 is no multiple of 24 heads");
  EXPECT_SAYS(error({{"attention_bias", "yes"}}), "attention_bias: true or false is expected");
  EXPECT_SAYS(error({{"architectures", 3}}), "architectures: a list");
}

// Every beginning of a file is refused; a file with a letter changed gives a workload or an error.
TEST(ModelConfig, SurvivesDamagedFiles) {
  const std::string whole = read_text(published("mixtral-8x7b"));
  const TemporaryFolder folder;
  const auto try_it = [&](const std::string& text) {
    return error_of([&] { workload_from_config(folder.write("config.json", text), {}); });
  };
  const std::size_t closed = whole.find_last_of('}');
  for (std::size_t end = 0; end < closed; ++end)
    EXPECT_NE(try_it(whole.substr(0, end)), "(accepted)") << end;
  for (std::size_t at = 0; at < whole.size(); at += 7)
    for (const char letter : {'9', '"', '{', '-'}) {
      std::string damaged = whole;
      damaged[at] = letter;
      try_it(damaged);
    }
}

TEST(ModelSize, GivesADecoderOfThatSize) {
  const DescribedModel model =
      workload_from_size({.parameters = Count{13e9}, .layers = 40, .hidden = 5120}, {});
  EXPECT_NEAR(static_cast<double>(model.workload.elements()), 13e9, 1e6);
  // Llama-2 13B has exactly this shape, and feed-forward layers of 13824.
  EXPECT_NEAR(model.workload.transformer->feed_forward, 13824, 30);
  const TemporaryFolder folder;
  const Workload read =
      Workloads::load_file(folder.write("own.yaml", workload_file(model.workload, model.notes)));
  EXPECT_EQ(read.elements(), model.workload.elements());
  EXPECT_EQ(units_of(read, {}, 2).size(), 41u);
}

TEST(ModelSize, RefusesSizesThatDoNotFit) {
  const std::string error = error_of(
      [] { workload_from_size({.parameters = Count{13e9}, .layers = 4, .hidden = 512}, {}); });
  EXPECT_SAYS(error, "13 billion parameters do not fit 4 layers of width 512");
  EXPECT_SAYS(error, "with feed-forward layers of 256 to 16384 there are");
}

// Text of a foreign file may not become keys of ours.
TEST(WorkloadFile, QuotesForeignNames) {
  Workload w = changed("gpt2", {{"_name_or_path", "a\"b\nestimate: { fp16: 1 }\\"}}).workload;
  const std::string name = w.name;
  const TemporaryFolder folder;
  EXPECT_EQ(
      Workloads::load_file(folder.write("own.yaml", workload_file(w, {"a\nworkload: x"}))).name,
      name);
}

// Nobody's rate of a mixture of experts is among those that the interval comes from.
TEST(ModelConfig, IsUnsureOfMixturesOfExperts) {
  for (const char* mixture : {"mixtral-8x7b", "qwen3-30b-a3b", "qwen1.5-moe-a2.7b"}) {
    const DescribedModel model = workload_from_config(published(mixture), {});
    EXPECT_FALSE(model.workload.estimate.within) << mixture;
    EXPECT_SAYS(model.notes.back(), "A mixture of experts");
  }
  EXPECT_TRUE(workload_from_config(published("llama3-8b"), {}).workload.estimate.within);
}

}  // namespace
}  // namespace foreduce
