// Decoders of dense layers that stand where Llama's do: Gemma, Phi, OLMo, StarCoder2, Cohere's
// Command R, StableLM, Granite, SmolLM3 (the modeling_*.py of huggingface/transformers).
#include <fmt/format.h>

#include "models/llama_like.hpp"

namespace foreduce {
namespace {

using Bias = TensorList::Bias;
using Norm = TensorList::Norm;
using HeadNorms = LlamaKind::HeadNorms;

/// What a token's queries do with the keys and values of those that it attends to.
double scores_of(const LlamaShape& s, std::size_t attended) {
  return 2.0 * static_cast<double>(s.tokens) * static_cast<double>(attended) *
         static_cast<double>(s.heads * s.head_size);
}

constexpr std::size_t kGemmaHead = 256;

FamilyModel gemma(const FamilyInput& in) {
  return llama_like(in, {.tied = true, .head_size = kGemmaHead}, dense_mlp);
}

/// Norms before and behind both parts of a block, and windows in most layers.
LlamaKind gemma2_kind() {
  LlamaKind kind;
  kind.norms = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                "post_feedforward_layernorm"};
  kind.tied = kind.windows = true;
  kind.head_size = kGemmaHead;
  kind.wide_every = 2;
  return kind;
}
FamilyModel gemma2(const FamilyInput& in) { return llama_like(in, gemma2_kind(), dense_mlp); }
FamilyModel gemma3(const FamilyInput& in) {
  LlamaKind kind = gemma2_kind();
  kind.head_norms = HeadNorms::each_head;
  kind.wide_every = 6;
  // What Gemma3TextConfig has for what the files of the larger ones leave out.
  const ConfigKeys keys = in.keys.with({{"vocab_size", 262208},
                                        {"num_attention_heads", 8},
                                        {"num_key_value_heads", 4},
                                        {"max_position_embeddings", 131072}});
  return llama_like({keys, in.head, in.sequence}, kind, dense_mlp);
}

/// A feed-forward part of two matrices.
void plain_mlp(const std::string& first, const std::string& second, const LlamaShape& s, Bias bias,
               TensorList& t) {
  const auto tokens = static_cast<double>(s.tokens);
  t.linear(first, s.hidden, s.inner, tokens, bias);
  t.linear(second, s.inner, s.hidden, tokens, bias);
}

double phi_attention(const ConfigKeys& c, const LlamaShape& s, std::size_t attended,
                     const std::string& of, TensorList& t) {
  const auto tokens = static_cast<double>(s.tokens);
  t.linear(of + "q_proj", s.hidden, s.heads * s.head_size, tokens, Bias::with);
  t.linear(of + "k_proj", s.hidden, s.kv_heads * s.head_size, tokens, Bias::with);
  t.linear(of + "v_proj", s.hidden, s.kv_heads * s.head_size, tokens, Bias::with);
  t.linear(of + "dense", s.heads * s.head_size, s.hidden, tokens, Bias::with);
  if (c.flag("qk_layernorm").value_or(false))
    for (const char* norm : {"q_layernorm", "k_layernorm"})
      t.norm(of + norm, s.head_size, Norm::layer);
  return scores_of(s, attended);
}
FamilyModel phi(const FamilyInput& in) {
  LlamaKind kind;
  kind.norm = Norm::layer;
  kind.norms = {"input_layernorm"};  // of both parts, which stand beside each other
  kind.last_norm = "final_layernorm";
  kind.bias_of_head = true;
  kind.attention = phi_attention;
  return llama_like(
      in, kind,
      [](const ConfigKeys&, const LlamaShape& s, std::size_t, const std::string& block,
         TensorList& t) { plain_mlp(block + "mlp.fc1", block + "mlp.fc2", s, Bias::with, t); });
}

/// Queries, keys and values of one matrix, and so gate and up.
double phi3_attention(const ConfigKeys&, const LlamaShape& s, std::size_t attended,
                      const std::string& of, TensorList& t) {
  const auto tokens = static_cast<double>(s.tokens);
  t.linear(of + "o_proj", s.heads * s.head_size, s.hidden, tokens, Bias::without);
  t.linear(of + "qkv_proj", s.hidden, (s.heads + 2 * s.kv_heads) * s.head_size, tokens,
           Bias::without);
  return scores_of(s, attended);
}
FamilyModel phi3(const FamilyInput& in) {
  LlamaKind kind;
  kind.windows = true;
  kind.attention = phi3_attention;
  return llama_like(in, kind,
                    [](const ConfigKeys&, const LlamaShape& s, std::size_t,
                       const std::string& block, TensorList& t) {
                      const auto tokens = static_cast<double>(s.tokens);
                      t.linear(block + "mlp.gate_up_proj", s.hidden, 2 * s.inner, tokens,
                               Bias::without);
                      t.linear(block + "mlp.down_proj", s.inner, s.hidden, tokens, Bias::without);
                    });
}

FamilyModel olmo(const FamilyInput& in) {  // its norms have no parameters
  return llama_like(in, {.norms = {}, .last_norm = nullptr}, dense_mlp);
}
FamilyModel olmo2(const FamilyInput& in) {
  return llama_like(in,
                    {.head_norms = HeadNorms::all_heads,
                     .norms = {"post_attention_layernorm", "post_feedforward_layernorm"}},
                    dense_mlp);
}

FamilyModel starcoder2(const FamilyInput& in) {
  LlamaKind kind;
  kind.bias_key = "use_bias";
  kind.bias = kind.tied = kind.windows = true;
  kind.norm = Norm::layer;
  return llama_like(in, kind,
                    [](const ConfigKeys& c, const LlamaShape& s, std::size_t,
                       const std::string& block, TensorList& t) {
                      plain_mlp(block + "mlp.c_fc", block + "mlp.c_proj", s,
                                bias_by(c, "use_bias", Bias::with), t);
                    });
}

/// One norm for attention and feed-forward layer, which stand beside each other.
LlamaKind cohere_kind() {
  LlamaKind kind;
  kind.norms = {"input_layernorm"};
  kind.tied = true;
  return kind;
}
FamilyModel cohere(const FamilyInput& in) {
  LlamaKind kind = cohere_kind();
  if (in.keys.flag("use_qk_norm").value_or(false)) kind.head_norms = HeadNorms::all_heads;
  return llama_like(in, kind, dense_mlp);
}
FamilyModel cohere2(const FamilyInput& in) {
  LlamaKind kind = cohere_kind();
  kind.windows = true;
  kind.wide_every = 4;
  return llama_like(in, kind, dense_mlp);
}

double stablelm_attention(const ConfigKeys& c, const LlamaShape& s, std::size_t attended,
                          const std::string& of, TensorList& t) {
  const auto tokens = static_cast<double>(s.tokens);
  const Bias bias = bias_by(c, "use_qkv_bias", Bias::without);
  t.linear(of + "q_proj", s.hidden, s.heads * s.head_size, tokens, bias);
  t.linear(of + "k_proj", s.hidden, s.kv_heads * s.head_size, tokens, bias);
  t.linear(of + "v_proj", s.hidden, s.kv_heads * s.head_size, tokens, bias);
  t.linear(of + "o_proj", s.heads * s.head_size, s.hidden, tokens, Bias::without);
  if (!c.flag("qk_layernorm").value_or(false)) return scores_of(s, attended);
  constexpr std::size_t kMostHeads = 1000;
  if (s.heads > kMostHeads)
    c.fail("num_attention_heads",
           fmt::format("at most {} heads with norms are accepted", kMostHeads));
  for (std::size_t head = 0; head < s.heads; ++head)
    t.norm(fmt::format("{}q_layernorm.norms.{}", of, head), s.head_size, Norm::rms);
  for (std::size_t head = 0; head < s.kv_heads; ++head)
    t.norm(fmt::format("{}k_layernorm.norms.{}", of, head), s.head_size, Norm::rms);
  return scores_of(s, attended);
}
FamilyModel stablelm(const FamilyInput& in) {
  LlamaKind kind;
  kind.norm = Norm::layer;
  kind.attention = stablelm_attention;
  if (in.keys.flag("use_parallel_residual").value_or(false)) kind.norms = {"input_layernorm"};
  return llama_like(in, kind, dense_mlp);
}

FamilyModel granite(const FamilyInput& in) { return llama_like(in, {}, dense_mlp); }
FamilyModel smollm3(const FamilyInput& in) { return llama_like(in, {.tied = true}, dense_mlp); }

}  // namespace

const std::vector<ModelFamily>& dense_families() {
  static const std::vector<Head> no_classes = {Head::language, Head::none};
  static const std::vector<ModelFamily> all = {
      {"gemma", "Gemma", decoder_heads(), gemma, "llama2-7b"},
      {"gemma2", "Gemma2", decoder_heads(), gemma2, "llama2-7b"},
      {"gemma3_text", "Gemma3", decoder_heads(), gemma3, "llama2-7b"},
      {"phi", "Phi", decoder_heads(), phi, "llama2-7b"},
      {"phi3", "Phi3", decoder_heads(), phi3, "llama2-7b"},
      {"olmo", "Olmo", no_classes, olmo, "llama2-7b"},
      {"olmo2", "Olmo2", no_classes, olmo2, "llama2-7b"},
      {"starcoder2", "Starcoder2", decoder_heads(), starcoder2, "llama2-7b"},
      {"cohere", "Cohere", no_classes, cohere, "llama2-7b"},
      {"cohere2", "Cohere2", no_classes, cohere2, "llama2-7b"},
      {"stablelm", "StableLm", decoder_heads(), stablelm, "llama2-7b"},
      {"granite", "Granite", no_classes, granite, "llama2-7b"},
      {"smollm3", "SmolLM3", decoder_heads(), smollm3, "llama2-7b"},
  };
  return all;
}

}  // namespace foreduce
