// What each family of models registers: names, biases and order of a block and of the rest, as the
// classes of huggingface/transformers build them; windows of attention; and what is wrong with a
// description of any of them.
#include "models/model_families.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/model_config.hpp"
#include "models/tensors.hpp"
#include "models/units.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

std::filesystem::path config_of(const std::string& name) {
  return source_folder() / "tests" / "configs" / (name + ".json");
}

/// The tensors' names in order, without ".weight". A "+" stands for a bias behind its weight.
std::string names_in(const std::vector<Tensor>& tensors, const std::string& block) {
  std::string all, last;
  for (const Tensor& t : tensors) {
    if (block_of(t.name) != block) continue;
    std::string name = block.empty() ? t.name : t.name.substr(block.size() + 1);
    if (name.ends_with(".weight")) name.resize(name.size() - 7);
    if (name == last + ".bias") {
      all += "+";
      continue;
    }
    all += (all.empty() ? "" : " ") + name;
    last = name;
  }
  return all;
}

struct Registered {
  const char *config, *block, *names, *rest;
};

class Family : public testing::TestWithParam<Registered> {};

TEST_P(Family, RegistersItsTensorsInOrder) {
  const auto tensors = workload_from_config(config_of(GetParam().config), {}).workload.tensors;
  EXPECT_EQ(names_in(tensors, GetParam().block), GetParam().names);
  EXPECT_EQ(names_in(tensors, ""), GetParam().rest);
}

constexpr const char* kLlamaRest = "model.embed_tokens model.norm";

INSTANTIATE_TEST_SUITE_P(
    families, Family,
    testing::Values(
        Registered{"gemma-2b", "model.layers.1",
                   "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj "
                   "mlp.gate_proj mlp.up_proj mlp.down_proj input_layernorm "
                   "post_attention_layernorm",
                   kLlamaRest},
        Registered{"gemma-3-1b", "model.layers.1",
                   "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj "
                   "self_attn.q_norm self_attn.k_norm mlp.gate_proj mlp.up_proj mlp.down_proj "
                   "input_layernorm post_attention_layernorm pre_feedforward_layernorm "
                   "post_feedforward_layernorm",
                   kLlamaRest},
        Registered{"phi-2", "model.layers.31",
                   "self_attn.q_proj+ self_attn.k_proj+ self_attn.v_proj+ self_attn.dense+ "
                   "mlp.fc1+ mlp.fc2+ input_layernorm+",
                   "model.embed_tokens model.final_layernorm+ lm_head+"},
        Registered{"phi-3-mini-4k", "model.layers.1",
                   "self_attn.o_proj self_attn.qkv_proj mlp.gate_up_proj mlp.down_proj "
                   "input_layernorm post_attention_layernorm",
                   "model.embed_tokens model.norm lm_head"},
        Registered{"olmo-1b", "model.layers.1",
                   "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj "
                   "mlp.gate_proj mlp.up_proj mlp.down_proj",
                   "model.embed_tokens"},
        Registered{"olmo-2-7b", "model.layers.1",
                   "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj "
                   "self_attn.q_norm self_attn.k_norm mlp.gate_proj mlp.up_proj mlp.down_proj "
                   "post_attention_layernorm post_feedforward_layernorm",
                   "model.embed_tokens model.norm lm_head"},
        Registered{"starcoder2-3b", "model.layers.1",
                   "self_attn.q_proj+ self_attn.k_proj+ self_attn.v_proj+ self_attn.o_proj+ "
                   "mlp.c_fc+ mlp.c_proj+ input_layernorm+ post_attention_layernorm+",
                   "model.embed_tokens model.norm+"},
        Registered{"command-r-plus", "model.layers.1",
                   "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj "
                   "self_attn.q_norm self_attn.k_norm mlp.gate_proj mlp.up_proj mlp.down_proj "
                   "input_layernorm",
                   kLlamaRest},
        Registered{"stablelm-2-1.6b", "model.layers.1",
                   "self_attn.q_proj+ self_attn.k_proj+ self_attn.v_proj+ self_attn.o_proj "
                   "mlp.gate_proj mlp.up_proj mlp.down_proj input_layernorm+ "
                   "post_attention_layernorm+",
                   "model.embed_tokens model.norm+ lm_head"},
        Registered{"gpt-j-6b", "transformer.h.27",
                   "ln_1+ attn.k_proj attn.v_proj attn.q_proj attn.out_proj mlp.fc_in+ mlp.fc_out+",
                   "transformer.wte transformer.ln_f+ lm_head+"},
        Registered{"starcoder", "transformer.h.1",
                   "ln_1+ attn.c_attn+ attn.c_proj+ ln_2+ mlp.c_fc+ mlp.c_proj+",
                   "transformer.wte transformer.wpe transformer.ln_f+"},
        Registered{"bloom-560m", "transformer.h.1",
                   "input_layernorm+ self_attention.query_key_value+ self_attention.dense+ "
                   "post_attention_layernorm+ mlp.dense_h_to_4h+ mlp.dense_4h_to_h+",
                   "transformer.word_embeddings transformer.word_embeddings_layernorm+ "
                   "transformer.ln_f+"},
        Registered{"falcon-rw-1b", "transformer.h.1",
                   "self_attention.query_key_value+ self_attention.dense+ mlp.dense_h_to_4h+ "
                   "mlp.dense_4h_to_h+ post_attention_layernorm+ input_layernorm+",
                   "transformer.word_embeddings transformer.ln_f+"},
        Registered{"falcon-7b", "transformer.h.1",
                   "self_attention.query_key_value self_attention.dense mlp.dense_h_to_4h "
                   "mlp.dense_4h_to_h input_layernorm+",
                   "transformer.word_embeddings transformer.ln_f+"},
        Registered{"falcon-40b", "transformer.h.1",
                   "self_attention.query_key_value self_attention.dense mlp.dense_h_to_4h "
                   "mlp.dense_4h_to_h ln_attn+ ln_mlp+",
                   "transformer.word_embeddings transformer.ln_f+"},
        Registered{"mpt-7b", "transformer.blocks.1",
                   "norm_1 attn.Wqkv attn.out_proj norm_2 ffn.up_proj ffn.down_proj",
                   "transformer.wte transformer.norm_f"},
        Registered{"dbrx", "transformer.blocks.1",
                   "norm_attn_norm.norm_1 norm_attn_norm.attn.Wqkv norm_attn_norm.attn.out_proj "
                   "norm_attn_norm.norm_2 ffn.router.layer ffn.experts.mlp.w1 ffn.experts.mlp.v1 "
                   "ffn.experts.mlp.w2",
                   "transformer.wte transformer.norm_f lm_head"},
        Registered{"roberta-base", "roberta.encoder.layer.1",
                   "attention.self.query+ attention.self.key+ attention.self.value+ "
                   "attention.output.dense+ attention.output.LayerNorm+ intermediate.dense+ "
                   "output.dense+ output.LayerNorm+",
                   "roberta.embeddings.word_embeddings roberta.embeddings.position_embeddings "
                   "roberta.embeddings.token_type_embeddings roberta.embeddings.LayerNorm+ "
                   "lm_head.bias lm_head.dense+ lm_head.layer_norm+"},
        Registered{"electra-small-discriminator", "electra.encoder.layer.1",
                   "attention.self.query+ attention.self.key+ attention.self.value+ "
                   "attention.output.dense+ attention.output.LayerNorm+ intermediate.dense+ "
                   "output.dense+ output.LayerNorm+",
                   "electra.embeddings.word_embeddings electra.embeddings.position_embeddings "
                   "electra.embeddings.token_type_embeddings electra.embeddings.LayerNorm+ "
                   "electra.embeddings_project+ discriminator_predictions.dense+ "
                   "discriminator_predictions.dense_prediction+"},
        Registered{"distilbert-base-uncased", "distilbert.transformer.layer.1",
                   "attention.q_lin+ attention.k_lin+ attention.v_lin+ attention.out_lin+ "
                   "sa_layer_norm+ ffn.lin1+ ffn.lin2+ output_layer_norm+",
                   "distilbert.embeddings.word_embeddings "
                   "distilbert.embeddings.position_embeddings distilbert.embeddings.LayerNorm+ "
                   "vocab_transform+ vocab_layer_norm+ vocab_projector.bias"},
        Registered{"deberta-v3-base", "encoder.layer.1",
                   "attention.self.query_proj+ attention.self.key_proj+ "
                   "attention.self.value_proj+ attention.output.dense+ "
                   "attention.output.LayerNorm+ intermediate.dense+ output.dense+ "
                   "output.LayerNorm+",
                   "embeddings.word_embeddings embeddings.LayerNorm+ encoder.rel_embeddings "
                   "encoder.LayerNorm+"},
        Registered{"whisper-tiny", "model.decoder.layers.3",
                   "self_attn.k_proj self_attn.v_proj+ self_attn.q_proj+ self_attn.out_proj+ "
                   "self_attn_layer_norm+ encoder_attn.k_proj encoder_attn.v_proj+ "
                   "encoder_attn.q_proj+ encoder_attn.out_proj+ encoder_attn_layer_norm+ fc1+ "
                   "fc2+ final_layer_norm+",
                   "model.encoder.conv1+ model.encoder.conv2+ model.encoder.embed_positions "
                   "model.encoder.layer_norm+ model.decoder.embed_tokens "
                   "model.decoder.embed_positions model.decoder.layer_norm+"},
        Registered{"clip-vit-base-patch32", "vision_model.encoder.layers.1",
                   "self_attn.k_proj+ self_attn.v_proj+ self_attn.q_proj+ self_attn.out_proj+ "
                   "layer_norm1+ mlp.fc1+ mlp.fc2+ layer_norm2+",
                   "logit_scale text_model.embeddings.token_embedding "
                   "text_model.embeddings.position_embedding text_model.final_layer_norm+ "
                   "vision_model.embeddings.class_embedding "
                   "vision_model.embeddings.patch_embedding "
                   "vision_model.embeddings.position_embedding vision_model.pre_layrnorm+ "
                   "vision_model.post_layernorm+ visual_projection text_projection"},
        Registered{"dinov2-base", "encoder.layer.1",
                   "norm1+ attention.attention.query+ attention.attention.key+ "
                   "attention.attention.value+ attention.output.dense+ layer_scale1.lambda1 "
                   "norm2+ mlp.fc1+ mlp.fc2+ layer_scale2.lambda1",
                   "embeddings.cls_token embeddings.mask_token embeddings.position_embeddings "
                   "embeddings.patch_embeddings.projection+ layernorm+"}),
    [](const auto& test) {
      std::string name = test.param.config;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
      return name;
    });

/// A model of a published configuration with some keys changed; null removes one.
DescribedModel with_keys(const std::string& name, const nlohmann::json& changes,
                         const DescriptionChoices& choices = {}) {
  static const TemporaryFolder folder;
  nlohmann::json config = nlohmann::json::parse(read_text(config_of(name)));
  config.merge_patch(changes);
  return workload_from_config(folder.write("config.json", config.dump()), choices);
}

double gflop(const DescribedModel& model) { return model.workload.variants.at(0).train_gflop; }

// Of Gemma-2 every second layer attends to all tokens, of Gemma-3 every sixth, and of the others
// each token to a window of the last ones.
TEST(ModelFamilies, CountWindowsOfAttention) {
  const double tokens = 8192;
  const auto saved = [&](const char* name,
                         const nlohmann::json& changes = nlohmann::json::object()) {
    const DescriptionChoices choices{.name = "", .sequence = 8192};
    return gflop(with_keys(name, {{"sliding_window", nullptr}}, choices)) -
           gflop(with_keys(name, changes, choices));
  };
  const auto of_layers = [&](double layers, double window, double width) {
    return 6 * 2 * layers * tokens * (tokens - window) * width / 1e9;
  };
  EXPECT_NEAR(saved("gemma-2-2b") / of_layers(13, 4096, 2048), 1, 1e-6);
  EXPECT_NEAR(saved("gemma-3-1b") / of_layers(22, 512, 1024), 1, 1e-6);
  nlohmann::json types = nlohmann::json::array();
  for (int layer = 0; layer < 26; ++layer)
    types.push_back(layer < 20 ? "sliding_attention" : "full_attention");
  EXPECT_NEAR(saved("gemma-3-1b", {{"layer_types", types}}) / of_layers(20, 512, 1024), 1, 1e-6);
  EXPECT_NEAR(saved("phi-3-mini-4k") / of_layers(32, 2047, 3072), 1, 1e-6);
  EXPECT_NEAR(saved("starcoder2-3b") / of_layers(30, 4096, 3072), 1, 1e-6);
}

// Whisper's decoder hears 1500 positions, whatever it says itself.
TEST(ModelFamilies, CountWhatEachStackSees) {
  const auto macs = [](int sequence) {
    double sum = 0;
    for (const Tensor& t :
         workload_from_config(config_of("whisper-tiny"), {.name = "", .sequence = sequence})
             .workload.tensors)
      sum += t.macs;
    return sum;
  };
  // Of a token: 4 layers of 4 + 2 square matrices and of 2 feed-forward ones, and the vocabulary.
  EXPECT_EQ(macs(200) - macs(100), 100.0 * (4 * (6 * 384 * 384 + 2 * 384 * 1536) + 51865 * 384));
}

// What sets larger models of some families apart: a norm for each head, a gate, a convolution.
TEST(ModelFamilies, ReadWhatLargerModelsHave) {
  // StableLM 2 12B: attention beside the feed-forward layer, which share a norm.
  const auto stablelm =
      with_keys("stablelm-3b-4e1t", {{"qk_layernorm", true}, {"use_parallel_residual", true}})
          .workload.tensors;
  const std::string names = names_in(stablelm, "model.layers.1");
  EXPECT_SAYS(names, "self_attn.o_proj self_attn.q_layernorm.norms.0 ");
  EXPECT_SAYS(names, "self_attn.k_layernorm.norms.31 mlp.gate_proj");
  EXPECT_TRUE(names.ends_with("mlp.down_proj input_layernorm+")) << names;
  EXPECT_EQ(usual_width(stablelm), 2560u);
  // OLMo has not one vector.
  EXPECT_EQ(usual_width(workload_from_config(config_of("olmo-1b"), {}).workload.tensors), 2048u);
  // 1.1 billion (facebookresearch/dinov2, README), 900 million (microsoft/DeBERTa, README).
  const auto giant = with_keys(
      "dinov2-base", {{"hidden_size", 1536}, {"num_hidden_layers", 40}, {"use_swiglu_ffn", true}});
  EXPECT_NEAR(static_cast<double>(giant.workload.elements()), 1.1e9, 0.05e9);
  const auto xlarge = with_keys("deberta-v3-base", {{"hidden_size", 1536},
                                                    {"intermediate_size", 6144},
                                                    {"num_hidden_layers", 24},
                                                    {"num_attention_heads", 24},
                                                    {"conv_kernel_size", 3}});
  EXPECT_NEAR(static_cast<double>(xlarge.workload.elements()), 0.9e9, 0.05e9);
  EXPECT_SAYS(names_in(xlarge.workload.tensors, ""), "encoder.conv.conv+ encoder.conv.LayerNorm+");
}

TEST(ModelFamilies, SaysWhatItCannotDescribe) {
  const auto error = [](const char* type) {
    return error_of([&] { with_keys("llama2-7b", {{"model_type", type}}); });
  };
  EXPECT_SAYS(error("mamba"), "pass a state on from token to token");
  EXPECT_SAYS(error("albert"), "its layers share their weights");
  EXPECT_SAYS(error("gemma3"), "did you mean 'gemma3_text'?");
  EXPECT_SAYS(error("gpt-neox"), "did you mean 'gpt_neox'?");
  EXPECT_SAYS(error("lalma"), "did you mean 'llama'?");
  // Short names of other models are no slips of the pen, and other numbers are other releases.
  for (const char* other :
       {"bart", "llava", "clap", "git", "dpt", "beit", "olmo3", "phi5", "mistral3"})
    EXPECT_EQ(error(other).find("did you mean"), std::string::npos) << error(other);
  const auto of_class = [](const char* name) {
    return error_of([&] {
      with_keys("llama2-7b", {{"model_type", nullptr}, {"architectures", {name}}});
    });
  };
  EXPECT_EQ(of_class("XGLMForCausalLM").find("did you mean"), std::string::npos);
  EXPECT_SAYS(of_class("GemmaaForCausalLM"), "did you mean 'GemmaForCausalLM'?");
}

// Each key of each family that is missing, or has a value of another kind or out of range: there is
// a workload, or one error that names a key.
TEST(ModelFamilies, RefusesDamagedKeysWithOneError) {
  const nlohmann::json damaged = {nullptr,
                                  "x",
                                  -1,
                                  1.5,
                                  1e300,
                                  18446744073709551615u,
                                  1'000'000,
                                  nlohmann::json::array({1}),
                                  nlohmann::json::object()};
  for (const char* name :
       {"gemma-2-2b", "phi-2", "phi-3-mini-4k", "starcoder2-3b", "stablelm-2-1.6b", "gpt-j-6b",
        "starcoder", "bloom-560m", "falcon-40b", "mpt-7b", "dbrx", "roberta-base",
        "electra-small-discriminator", "distilbert-base-uncased", "deberta-v3-base", "whisper-tiny",
        "clip-vit-base-patch32", "dinov2-base"}) {
    const nlohmann::json config = nlohmann::json::parse(read_text(config_of(name)));
    const auto try_it = [&](const std::string& key, const nlohmann::json& changes) {
      const std::string error = error_of([&] { with_keys(name, changes); });
      if (error == "(accepted)") return;
      EXPECT_EQ(error.find("error: ", error.find("error: ") + 1), std::string::npos) << error;
      EXPECT_SAYS(error, "config.json: error: ");
      EXPECT_LT(error.size(), 1200u) << key;
    };
    for (const auto& [key, value] : config.items())
      for (const nlohmann::json& instead : damaged) {
        try_it(key, {{key, instead}});
        if (value.is_object())
          for (const auto& [inner, _] : value.items()) try_it(inner, {{key, {{inner, instead}}}});
      }
  }
}

// Sizes whose products no integer holds are refused, and not taken for small ones.
TEST(ModelFamilies, RefusesSizesThatNoIntegerHolds) {
  EXPECT_SAYS(error_of([] {
                with_keys("mixtral-8x7b", {{"num_local_experts", 100'000'000}});
              }),
              "num_local_experts: it must be from 1 to 1000000");
  const nlohmann::json largest = {
      {"num_local_experts", 1'000'000},   {"hidden_size", 1'000'000},
      {"intermediate_size", 1'000'000},   {"num_attention_heads", 1'000'000},
      {"num_key_value_heads", 1'000'000}, {"head_dim", 1'000'000}};
  EXPECT_SAYS(error_of([&] { with_keys("mixtral-8x7b", largest); }),
              "parameters are more than any model has");
  EXPECT_SAYS(
      error_of([] {
        with_keys("vit-base-patch16-224", {{"image_size", 1'000'000}, {"patch_size", 1'000'000}});
      }),
      "image_size: it must be from 1 to 10000");
  EXPECT_SAYS(
      error_of([] {
        with_keys("clip-vit-base-patch32", {{"vision_config", {{"num_hidden_layers", 1001}}}});
      }),
      "vision_config.num_hidden_layers: at most 1000 layers are accepted");
  EXPECT_SAYS(error_of([] {
                with_keys("dbrx", {{"ffn_config", {{"moe_top_k", 17}}}});
              }),
              "ffn_config.moe_top_k: 17 of 16 experts cannot be chosen");
}

}  // namespace
}  // namespace foreduce
