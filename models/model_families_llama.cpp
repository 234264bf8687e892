// Llama and what was made from it: Mistral, Qwen (modeling_llama.py, modeling_mistral.py,
// modeling_qwen2.py, modeling_qwen3.py of huggingface/transformers).
#include "models/llama_like.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreduce {
namespace {

using Bias = TensorList::Bias;
using Norm = TensorList::Norm;

Bias bias_if(bool there) { return there ? Bias::with : Bias::without; }

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
  s.tokens = tokens_of_sample(in, c.context_or("max_position_embeddings", 2048), m);
  return s;
}

/// What one token attends to in a layer.
std::size_t attended(const FamilyInput& in, const LlamaKind& kind, const LlamaShape& s,
                     std::size_t layer) {
  const ConfigKeys& c = in.keys;
  // Where every layer's type is listed that says all (transformers from 4.53 on).
  if (const auto types = c.words("layer_types"); layer < types.size())
    return types[layer] == "sliding_attention" && c.is_set("sliding_window")
               ? std::min(s.tokens, c.context_or("sliding_window", s.tokens))
               : s.tokens;
  if (!c.is_set("sliding_window") || !c.flag("use_sliding_window").value_or(kind.windows))
    return s.tokens;
  const std::size_t wide =
      kind.wide_every > 0 ? c.whole_or("sliding_window_pattern", kind.wide_every) : 0;
  if (layer < c.count_or("max_window_layers", 0) || (wide > 0 && (layer + 1) % wide == 0))
    return s.tokens;
  return std::min(s.tokens, c.context_or("sliding_window", s.tokens));
}

double llama_attention(const ConfigKeys& c, const LlamaKind& kind, const LlamaShape& s,
                       std::size_t attended, const std::string& of, TensorList& t) {
  const auto tokens = static_cast<double>(s.tokens);
  const bool all = c.flag(kind.bias_key).value_or(kind.bias);
  const Bias of_query = bias_if(kind.query_bias || all);
  const std::size_t queries = s.heads * s.head_size, keys = s.kv_heads * s.head_size;
  t.linear(of + "q_proj", s.hidden, queries, tokens, of_query);
  t.linear(of + "k_proj", s.hidden, keys, tokens, of_query);
  t.linear(of + "v_proj", s.hidden, keys, tokens, of_query);
  t.linear(of + "o_proj", queries, s.hidden, tokens,
           bias_if(kind.output_bias || (all && kind.bias_of_output)));
  if (kind.sinks) t.add(of + "sinks", s.heads);
  if (kind.head_norms != LlamaKind::HeadNorms::none) {
    const bool each = kind.head_norms == LlamaKind::HeadNorms::each_head;
    t.norm(of + "q_norm", each ? s.head_size : queries, Norm::rms);
    t.norm(of + "k_norm", each ? s.head_size : keys, Norm::rms);
  }
  return 2 * tokens * static_cast<double>(attended) * static_cast<double>(queries);
}

}  // namespace

void gated_mlp(const std::string& of, std::size_t hidden, std::size_t inner, double positions,
               Bias bias, TensorList& t) {
  t.linear(of + "gate_proj", hidden, inner, positions, bias);
  t.linear(of + "up_proj", hidden, inner, positions, bias);
  t.linear(of + "down_proj", inner, hidden, positions, bias);
}

FamilyModel llama_like(const FamilyInput& in, const LlamaKind& kind, const FeedForward& mlp) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const LlamaShape s = llama_shape(in, kind, m);
  const auto tokens = static_cast<double>(s.tokens);
  const std::string model = in.head == Head::none ? "" : "model.";
  const bool tied = in.head == Head::language && c.flag("tie_word_embeddings").value_or(kind.tied);
  m.tensors.add(model + "embed_tokens.weight", s.vocabulary * s.hidden, tied ? tokens : 0);
  for (std::size_t layer = 0; layer < s.layers; ++layer) {
    const std::string block = fmt::format("{}layers.{}.", model, layer), of = block + "self_attn.";
    const std::size_t seen = attended(in, kind, s, layer);
    m.score_macs += kind.attention ? kind.attention(c, s, seen, of, m.tensors)
                                   : llama_attention(c, kind, s, seen, of, m.tensors);
    mlp(c, s, layer, block, m.tensors);
    for (const char* norm : kind.norms) m.tensors.norm(block + norm, s.hidden, kind.norm);
  }
  if (kind.last_norm) m.tensors.norm(model + kind.last_norm, s.hidden, kind.norm);
  if (in.head == Head::language && !tied)
    m.tensors.linear("lm_head", s.hidden, s.vocabulary, tokens,
                     bias_if(c.flag("lm_head_bias").value_or(kind.bias_of_head)));
  if (in.head == Head::classes) m.tensors.add("score.weight", c.labels() * s.hidden, tokens);
  return m;
}

void dense_mlp(const ConfigKeys& c, const LlamaShape& s, std::size_t, const std::string& block,
               TensorList& t) {
  gated_mlp(block + "mlp.", s.hidden, s.inner, static_cast<double>(s.tokens),
            bias_by(c, "mlp_bias", Bias::without), t);
}

namespace {

FamilyModel llama(const FamilyInput& in) { return llama_like(in, {}, dense_mlp); }
FamilyModel mistral(const FamilyInput& in) { return llama_like(in, {.windows = true}, dense_mlp); }
FamilyModel qwen2(const FamilyInput& in) { return llama_like(in, {.query_bias = true}, dense_mlp); }
FamilyModel qwen3(const FamilyInput& in) {
  return llama_like(in, {.head_norms = LlamaKind::HeadNorms::each_head, .head_size = 128},
                    dense_mlp);
}

}  // namespace

const std::vector<ModelFamily>& llama_families() {
  static const std::vector<ModelFamily> all = {
      {"llama", "Llama", decoder_heads(), llama, "llama2-7b"},
      {"mistral", "Mistral", decoder_heads(), mistral, "llama2-7b"},
      {"qwen2", "Qwen2", decoder_heads(), qwen2, "llama2-7b"},
      {"qwen3", "Qwen3", decoder_heads(), qwen3, "llama2-7b"},
  };
  return all;
}

}  // namespace foreduce
