// Decoders that are not like Llama (modeling_gpt2.py, modeling_gpt_neox.py, modeling_opt.py of
// huggingface/transformers).
#include "models/family_parts.hpp"

#include <fmt/format.h>

namespace foreduce {
namespace {

using Bias = TensorList::Bias;
using Norm = TensorList::Norm;

FamilyModel gpt2(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t hidden = c.whole("n_embd"), layers = c.whole("n_layer"),
                    context = c.context_or("n_positions", 1024),
                    inner = c.whole_or("n_inner", 4 * hidden), vocabulary = c.whole("vocab_size");
  const std::size_t sequence = tokens_of_learned(in, "n_positions", context, m);
  const auto tokens = static_cast<double>(sequence);
  const bool tied = c.flag("tie_word_embeddings").value_or(true),
             language = in.head == Head::language;
  const std::string model = in.head == Head::none ? "" : "transformer.";
  m.tensors.add(model + "wte.weight", vocabulary * hidden, language && tied ? tokens : 0);
  m.tensors.add(model + "wpe.weight", context * hidden);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string of = fmt::format("{}h.{}.", model, layer);
    m.tensors.norm(of + "ln_1", hidden, Norm::layer);
    m.tensors.linear(of + "attn.c_attn", hidden, 3 * hidden, tokens, Bias::with);
    m.tensors.linear(of + "attn.c_proj", hidden, hidden, tokens, Bias::with);
    m.tensors.norm(of + "ln_2", hidden, Norm::layer);
    m.tensors.linear(of + "mlp.c_fc", hidden, inner, tokens, Bias::with);
    m.tensors.linear(of + "mlp.c_proj", inner, hidden, tokens, Bias::with);
  }
  m.tensors.norm(model + "ln_f", hidden, Norm::layer);
  if (language && !tied) m.tensors.add("lm_head.weight", vocabulary * hidden, tokens);
  if (in.head == Head::classes) m.tensors.add("score.weight", c.labels() * hidden, tokens);
  m.score_macs = score_macs(layers, sequence, sequence, hidden);
  return m;
}

FamilyModel gpt_neox(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t hidden = c.whole("hidden_size"), layers = c.whole("num_hidden_layers"),
                    inner = c.whole("intermediate_size"), vocabulary = c.whole("vocab_size");
  const std::size_t sequence =
      tokens_of_sample(in, c.context_or("max_position_embeddings", 2048), m);
  const auto tokens = static_cast<double>(sequence);
  const bool language = in.head == Head::language;
  const bool tied = language && c.flag("tie_word_embeddings").value_or(false);
  const Bias attention = c.flag("attention_bias").value_or(true) ? Bias::with : Bias::without;
  const std::string model = in.head == Head::none ? "" : "gpt_neox.";
  m.tensors.add(model + "embed_in.weight", vocabulary * hidden, tied ? tokens : 0);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string of = fmt::format("{}layers.{}.", model, layer);
    m.tensors.norm(of + "input_layernorm", hidden, Norm::layer);
    m.tensors.norm(of + "post_attention_layernorm", hidden, Norm::layer);
    m.tensors.linear(of + "attention.query_key_value", hidden, 3 * hidden, tokens, attention);
    m.tensors.linear(of + "attention.dense", hidden, hidden, tokens, attention);
    m.tensors.linear(of + "mlp.dense_h_to_4h", hidden, inner, tokens, Bias::with);
    m.tensors.linear(of + "mlp.dense_4h_to_h", inner, hidden, tokens, Bias::with);
  }
  m.tensors.norm(model + "final_layer_norm", hidden, Norm::layer);
  if (language && !tied) m.tensors.add("embed_out.weight", vocabulary * hidden, tokens);
  if (in.head == Head::classes) m.tensors.add("score.weight", c.labels() * hidden, tokens);
  m.score_macs = score_macs(layers, sequence, sequence, hidden);
  return m;
}

FamilyModel opt(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t hidden = c.whole("hidden_size"), layers = c.whole("num_hidden_layers"),
                    inner = c.whole("ffn_dim"), vocabulary = c.whole("vocab_size"),
                    width = c.whole_or("word_embed_proj_dim", hidden),
                    context = c.context_or("max_position_embeddings", 2048);
  const std::size_t sequence = tokens_of_learned(in, "max_position_embeddings", context, m);
  const auto tokens = static_cast<double>(sequence);
  const bool tied = c.flag("tie_word_embeddings").value_or(true),
             language = in.head == Head::language;
  const Bias bias = c.flag("enable_bias").value_or(true) ? Bias::with : Bias::without;
  const std::string model = in.head == Head::none ? "decoder." : "model.decoder.";
  constexpr std::size_t kUnusedPositions = 2;  // OPTLearnedPositionalEmbedding's offset
  m.tensors.add(model + "embed_tokens.weight", vocabulary * width, language && tied ? tokens : 0);
  m.tensors.add(model + "embed_positions.weight", (context + kUnusedPositions) * hidden);
  if (width != hidden) {
    m.tensors.linear(model + "project_out", hidden, width, tokens, Bias::without);
    m.tensors.linear(model + "project_in", width, hidden, tokens, Bias::without);
  }
  if (c.flag("do_layer_norm_before").value_or(true) &&
      !c.flag("_remove_final_layer_norm").value_or(false))
    m.tensors.norm(model + "final_layer_norm", hidden, Norm::layer);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string of = fmt::format("{}layers.{}.", model, layer);
    for (const char* matrix : {"k_proj", "v_proj", "q_proj", "out_proj"})
      m.tensors.linear(of + "self_attn." + matrix, hidden, hidden, tokens, bias);
    m.tensors.norm(of + "self_attn_layer_norm", hidden, Norm::layer);
    m.tensors.linear(of + "fc1", hidden, inner, tokens, bias);
    m.tensors.linear(of + "fc2", inner, hidden, tokens, bias);
    m.tensors.norm(of + "final_layer_norm", hidden, Norm::layer);
  }
  if (language && !tied) m.tensors.add("lm_head.weight", vocabulary * width, tokens);
  if (in.head == Head::classes) m.tensors.add("score.weight", c.labels() * width, tokens);
  m.score_macs = score_macs(layers, sequence, sequence, hidden);
  return m;
}

}  // namespace

const std::vector<ModelFamily>& gpt_families() {
  static const std::vector<ModelFamily> all = {
      {"gpt2", "GPT2", decoder_heads(), gpt2, "gpt2-1.5b"},
      {"gpt_neox", "GPTNeoX", decoder_heads(), gpt_neox, "gpt-neox-20b"},
      {"opt", "OPT", decoder_heads(), opt, "gpt2-1.5b"},
  };
  return all;
}

}  // namespace foreduce
