// Llama and what was made from it: Mistral, Mixtral, Qwen (modeling_llama.py, modeling_mistral.py,
// modeling_mixtral.py, modeling_qwen2.py, modeling_qwen2_moe.py, modeling_qwen3.py,
// modeling_qwen3_moe.py of huggingface/transformers).
#include "models/model_families.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreduce {
namespace {

using Bias = TensorList::Bias;
using Norm = TensorList::Norm;

Bias bias_if(bool there) { return there ? Bias::with : Bias::without; }

/// What sets one of Llama's descendants apart.
struct LlamaKind {
  bool query_bias = false, output_bias = false;
  bool head_norms = false;    ///< norms of queries and keys (Qwen3)
  std::size_t head_size = 0;  ///< where config.json does not say; 0: hidden / heads
  bool windows = false;       ///< whether sliding_window holds without use_sliding_window
};

struct LlamaShape {
  std::size_t hidden, layers, heads, kv_heads, head_size, inner, vocabulary, tokens;
};

LlamaShape llama_shape(const FamilyInput& in, const LlamaKind& kind, FamilyModel& m) {
  const ConfigKeys& c = in.keys;
  LlamaShape s{};
  s.hidden = c.whole("hidden_size");
  s.layers = c.whole("num_hidden_layers");
  s.heads = c.whole("num_attention_heads");
  s.kv_heads = c.whole_or("num_key_value_heads", s.heads);
  if (s.heads % s.kv_heads != 0)
    c.fail("num_key_value_heads",
           fmt::format("{} heads cannot share the keys of {}", s.heads, s.kv_heads));
  if (!c.is_set("head_dim") && kind.head_size == 0 && s.hidden % s.heads != 0)
    c.fail("num_attention_heads",
           fmt::format("hidden_size {} is no multiple of {} heads", s.hidden, s.heads));
  s.head_size = c.whole_or("head_dim", kind.head_size > 0 ? kind.head_size : s.hidden / s.heads);
  s.inner = c.whole("intermediate_size");
  s.vocabulary = c.whole("vocab_size");
  s.tokens = tokens_of_sample(in, c.whole_or("max_position_embeddings", 2048), m);
  return s;
}

/// What one token attends to in a layer.
std::size_t attended(const FamilyInput& in, const LlamaKind& kind, const LlamaShape& s,
                     std::size_t layer) {
  const ConfigKeys& c = in.keys;
  if (!c.is_set("sliding_window") || !c.flag("use_sliding_window").value_or(kind.windows))
    return s.tokens;
  const std::size_t first = c.is_set("max_window_layers") ? c.whole("max_window_layers") : 0;
  return layer < first ? s.tokens : std::min(s.tokens, c.whole("sliding_window"));
}

void llama_attention(const FamilyInput& in, const LlamaKind& kind, const LlamaShape& s,
                     const std::string& of, TensorList& t) {
  const auto tokens = static_cast<double>(s.tokens);
  const bool all = in.keys.flag("attention_bias").value_or(false);
  const Bias of_query = bias_if(kind.query_bias || all);
  t.linear(of + "q_proj", s.hidden, s.heads * s.head_size, tokens, of_query);
  t.linear(of + "k_proj", s.hidden, s.kv_heads * s.head_size, tokens, of_query);
  t.linear(of + "v_proj", s.hidden, s.kv_heads * s.head_size, tokens, of_query);
  t.linear(of + "o_proj", s.heads * s.head_size, s.hidden, tokens,
           bias_if(kind.output_bias || all));
  if (!kind.head_norms) return;
  t.norm(of + "q_norm", s.head_size, Norm::rms);
  t.norm(of + "k_norm", s.head_size, Norm::rms);
}

void gated_mlp(const std::string& of, std::size_t hidden, std::size_t inner, double positions,
               Bias bias, TensorList& t) {
  t.linear(of + "gate_proj", hidden, inner, positions, bias);
  t.linear(of + "up_proj", hidden, inner, positions, bias);
  t.linear(of + "down_proj", inner, hidden, positions, bias);
}

using Mlp = void (*)(const ConfigKeys&, const LlamaShape&, std::size_t layer,
                     const std::string& block, TensorList&);

FamilyModel llama_like(const FamilyInput& in, const LlamaKind& kind, Mlp mlp) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const LlamaShape s = llama_shape(in, kind, m);
  const auto tokens = static_cast<double>(s.tokens);
  const std::string model = in.head == Head::none ? "" : "model.";
  const bool tied = in.head == Head::language && c.flag("tie_word_embeddings").value_or(false);
  m.tensors.add(model + "embed_tokens.weight", s.vocabulary * s.hidden, tied ? tokens : 0);
  for (std::size_t layer = 0; layer < s.layers; ++layer) {
    const std::string block = fmt::format("{}layers.{}.", model, layer);
    llama_attention(in, kind, s, block + "self_attn.", m.tensors);
    mlp(c, s, layer, block, m.tensors);
    m.tensors.norm(block + "input_layernorm", s.hidden, Norm::rms);
    m.tensors.norm(block + "post_attention_layernorm", s.hidden, Norm::rms);
    m.score_macs += 2 * tokens * static_cast<double>(attended(in, kind, s, layer)) *
                    static_cast<double>(s.heads * s.head_size);
  }
  m.tensors.norm(model + "norm", s.hidden, Norm::rms);
  if (in.head == Head::language && !tied)
    m.tensors.add("lm_head.weight", s.vocabulary * s.hidden, tokens);
  if (in.head == Head::classes) m.tensors.add("score.weight", c.labels() * s.hidden, tokens);
  return m;
}

void dense_mlp(const ConfigKeys& c, const LlamaShape& s, std::size_t, const std::string& block,
               TensorList& t) {
  gated_mlp(block + "mlp.", s.hidden, s.inner, static_cast<double>(s.tokens),
            bias_if(c.flag("mlp_bias").value_or(false)), t);
}

/// Positions of a sample that one expert sees when tokens are spread evenly.
double tokens_of_expert(const ConfigKeys& c, const LlamaShape& s, std::size_t experts,
                        std::size_t chosen) {
  if (chosen > experts)
    c.fail("num_experts_per_tok",
           fmt::format("{} of {} experts cannot be chosen", chosen, experts));
  return static_cast<double>(s.tokens) * static_cast<double>(chosen) / static_cast<double>(experts);
}

void mixtral_mlp(const ConfigKeys& c, const LlamaShape& s, std::size_t, const std::string& block,
                 TensorList& t) {
  const std::size_t experts = c.whole("num_local_experts");
  const double each = tokens_of_expert(c, s, experts, c.whole("num_experts_per_tok"));
  const std::string of = block + "block_sparse_moe.";
  t.add(of + "gate.weight", experts * s.hidden, static_cast<double>(s.tokens));
  constexpr std::size_t kMostApart = 64;
  if (experts > kMostApart)
    c.fail("num_local_experts", fmt::format("at most {} experts are accepted", kMostApart));
  for (std::size_t e = 0; e < experts; ++e)
    for (const char* matrix : {"w1", "w2", "w3"})
      t.add(fmt::format("{}experts.{}.{}.weight", of, e, matrix), s.hidden * s.inner, each);
}

/// Whether a layer of Qwen's mixtures has experts.
bool has_experts(const ConfigKeys& c, std::size_t layer) {
  return (layer + 1) % c.whole_or("decoder_sparse_step", 1) == 0;
}
/// All experts of a layer are one tensor a kind, as transformers 5 registers them: apart, 128
/// experts in 48 layers would be 18 432 tensors.
void qwen_experts(const ConfigKeys& c, const LlamaShape& s, std::size_t layer,
                  const std::string& block, TensorList& t) {
  if (!has_experts(c, layer)) return dense_mlp(c, s, layer, block, t);
  const std::size_t experts = c.whole("num_experts"), inner = c.whole("moe_intermediate_size");
  const double each = tokens_of_expert(c, s, experts, c.whole("num_experts_per_tok"));
  const std::string of = block + "mlp.";
  t.add(of + "gate.weight", experts * s.hidden, static_cast<double>(s.tokens));
  t.add(of + "experts.gate_up_proj", 2 * experts * s.hidden * inner, each);
  t.add(of + "experts.down_proj", experts * s.hidden * inner, each);
}
void qwen2_experts(const ConfigKeys& c, const LlamaShape& s, std::size_t layer,
                   const std::string& block, TensorList& t) {
  qwen_experts(c, s, layer, block, t);
  if (!has_experts(c, layer)) return;
  const auto tokens = static_cast<double>(s.tokens);
  gated_mlp(block + "mlp.shared_expert.", s.hidden, c.whole("shared_expert_intermediate_size"),
            tokens, Bias::without, t);
  t.add(block + "mlp.shared_expert_gate.weight", s.hidden, tokens);
}

FamilyModel llama(const FamilyInput& in) { return llama_like(in, {}, dense_mlp); }
FamilyModel mistral(const FamilyInput& in) { return llama_like(in, {.windows = true}, dense_mlp); }
FamilyModel mixtral(const FamilyInput& in) {
  return llama_like(in, {.windows = true}, mixtral_mlp);
}
FamilyModel qwen2(const FamilyInput& in) { return llama_like(in, {.query_bias = true}, dense_mlp); }
FamilyModel qwen2_moe(const FamilyInput& in) {
  return llama_like(in, {.query_bias = true}, qwen2_experts);
}
constexpr LlamaKind kQwen3{.head_norms = true, .head_size = 128};
FamilyModel qwen3(const FamilyInput& in) { return llama_like(in, kQwen3, dense_mlp); }
FamilyModel qwen3_moe(const FamilyInput& in) {
  LlamaKind kind = kQwen3;
  kind.head_size = 0;
  return llama_like(in, kind, qwen_experts);
}

}  // namespace

const std::vector<ModelFamily>& llama_families() {
  static const std::vector<Head> decoder = {Head::language, Head::none, Head::classes};
  static const std::vector<ModelFamily> all = {
      {"llama", "Llama", decoder, llama, "llama2-7b"},
      {"mistral", "Mistral", decoder, mistral, "llama2-7b"},
      {"mixtral", "Mixtral", decoder, mixtral, "llama2-7b"},
      {"qwen2", "Qwen2", decoder, qwen2, "llama2-7b"},
      {"qwen2_moe", "Qwen2Moe", decoder, qwen2_moe, "llama2-7b"},
      {"qwen3", "Qwen3", decoder, qwen3, "llama2-7b"},
      {"qwen3_moe", "Qwen3Moe", decoder, qwen3_moe, "llama2-7b"},
  };
  return all;
}

}  // namespace foreduce
