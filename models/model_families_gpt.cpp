// Decoders that are not like Llama: GPT-2, StarCoder, GPT-J, GPT-NeoX, OPT, BLOOM, Falcon and MPT
// (the modeling_*.py of huggingface/transformers).
#include "models/family_parts.hpp"

#include <fmt/format.h>

namespace foreduce {
namespace {

using Bias = TensorList::Bias;
using Norm = TensorList::Norm;

/// `keys`: width of all keys of a token, and of all values; 0: as that of queries.
FamilyModel gpt2_like(const FamilyInput& in, std::size_t keys) {
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
    m.tensors.linear(of + "attn.c_attn", hidden, hidden + 2 * (keys > 0 ? keys : hidden), tokens,
                     Bias::with);
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

FamilyModel gpt2(const FamilyInput& in) { return gpt2_like(in, 0); }

/// A head's width. Throws where there is no such.
std::size_t width_of_head(const ConfigKeys& c, const char* key, std::size_t hidden,
                          std::size_t heads) {
  if (hidden % heads != 0)
    c.fail(key, fmt::format("a width of {} is no multiple of {} heads", hidden, heads));
  return hidden / heads;
}

FamilyModel gpt_bigcode(const FamilyInput& in) {
  const ConfigKeys& c = in.keys;
  if (!c.flag("multi_query").value_or(true)) return gpt2_like(in, 0);
  return gpt2_like(in, width_of_head(c, "n_head", c.whole("n_embd"), c.whole("n_head")));
}

/// Scores of all pairs, which its class keeps, having no fused attention of PyTorch's.
void keep_scores(std::size_t layers, std::size_t heads, double tokens, FamilyModel& m) {
  m.kept_scores = static_cast<double>(layers * heads) * tokens * tokens;
  m.notes.emplace_back(
      "Its class in transformers has no fused attention of PyTorch's, so attention_scores are "
      "kept. Where you have one, take that line out.");
}

FamilyModel gptj(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t hidden = c.whole("n_embd"), layers = c.whole("n_layer"),
                    inner = c.whole_or("n_inner", 4 * hidden), vocabulary = c.whole("vocab_size");
  const std::size_t sequence = tokens_of_sample(in, c.context_or("n_positions", 2048), m);
  const auto tokens = static_cast<double>(sequence);
  const bool language = in.head == Head::language;
  const bool tied = language && c.flag("tie_word_embeddings").value_or(false);
  const std::string model = in.head == Head::none ? "" : "transformer.";
  m.tensors.add(model + "wte.weight", vocabulary * hidden, tied ? tokens : 0);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string of = fmt::format("{}h.{}.", model, layer);
    m.tensors.norm(of + "ln_1", hidden, Norm::layer);
    for (const char* matrix : {"k_proj", "v_proj", "q_proj", "out_proj"})
      m.tensors.linear(of + "attn." + matrix, hidden, hidden, tokens, Bias::without);
    m.tensors.linear(of + "mlp.fc_in", hidden, inner, tokens, Bias::with);
    m.tensors.linear(of + "mlp.fc_out", inner, hidden, tokens, Bias::with);
  }
  m.tensors.norm(model + "ln_f", hidden, Norm::layer);
  if (tied) m.tensors.add("lm_head.bias", vocabulary);
  if (language && !tied) m.tensors.linear("lm_head", hidden, vocabulary, tokens, Bias::with);
  if (in.head == Head::classes) m.tensors.add("score.weight", c.labels() * hidden, tokens);
  m.score_macs = score_macs(layers, sequence, sequence, hidden);
  keep_scores(layers, c.whole("n_head"), tokens, m);
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

FamilyModel bloom(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t hidden = c.whole_of({"n_embed", "hidden_size"}),
                    layers = c.whole_of({"num_hidden_layers", "n_layer"}),
                    heads = c.whole_of({"num_attention_heads", "n_head"}),
                    vocabulary = c.whole("vocab_size");
  const std::size_t sequence = tokens_of_sample(in, c.context_or("seq_length", 2048), m);
  const auto tokens = static_cast<double>(sequence);
  const bool tied = c.flag("tie_word_embeddings").value_or(true),
             language = in.head == Head::language;
  const std::string model = in.head == Head::none ? "" : "transformer.";
  m.tensors.add(model + "word_embeddings.weight", vocabulary * hidden,
                language && tied ? tokens : 0);
  m.tensors.norm(model + "word_embeddings_layernorm", hidden, Norm::layer);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string of = fmt::format("{}h.{}.", model, layer);
    m.tensors.norm(of + "input_layernorm", hidden, Norm::layer);
    m.tensors.linear(of + "self_attention.query_key_value", hidden, 3 * hidden, tokens, Bias::with);
    m.tensors.linear(of + "self_attention.dense", hidden, hidden, tokens, Bias::with);
    m.tensors.norm(of + "post_attention_layernorm", hidden, Norm::layer);
    m.tensors.linear(of + "mlp.dense_h_to_4h", hidden, 4 * hidden, tokens, Bias::with);
    m.tensors.linear(of + "mlp.dense_4h_to_h", 4 * hidden, hidden, tokens, Bias::with);
  }
  m.tensors.norm(model + "ln_f", hidden, Norm::layer);
  if (language && !tied) m.tensors.add("lm_head.weight", vocabulary * hidden, tokens);
  if (in.head == Head::classes) m.tensors.add("score.weight", c.labels() * hidden, tokens);
  m.score_macs = score_macs(layers, sequence, sequence, hidden);
  keep_scores(layers, heads, tokens, m);
  return m;
}

/// The norms of Falcon's blocks. Attention and feed-forward layer stand beside each other with one
/// norm (7B) or two (40B), or behind each other.
std::vector<const char*> falcon_norms(const ConfigKeys& c) {
  if (!c.flag("parallel_attn").value_or(true))
    return {"post_attention_layernorm", "input_layernorm"};
  const bool grouped = c.flag("new_decoder_architecture").value_or(false);
  if (c.whole_or("num_ln_in_parallel_attn", grouped ? 2 : 1) == 2) return {"ln_attn", "ln_mlp"};
  return {"input_layernorm"};
}

/// How many heads' keys a token has.
std::size_t falcon_kv_heads(const ConfigKeys& c, std::size_t heads) {
  if (c.flag("new_decoder_architecture").value_or(false))
    return c.is_set("num_kv_heads") || c.is_set("n_head_kv")
               ? c.whole_of({"num_kv_heads", "n_head_kv"})
               : heads;
  return c.flag("multi_query").value_or(true) ? 1 : heads;
}

FamilyModel falcon(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t hidden = c.whole_of({"n_embed", "hidden_size"}),
                    layers = c.whole_of({"n_layer", "num_hidden_layers"}),
                    heads = c.whole_of({"n_head", "num_attention_heads"}),
                    inner = c.whole_or("ffn_hidden_size", 4 * hidden),
                    vocabulary = c.whole("vocab_size"), kv_heads = falcon_kv_heads(c, heads),
                    head = width_of_head(c, "num_attention_heads", hidden, heads);
  if (heads % kv_heads != 0)
    c.fail("num_kv_heads", fmt::format("{} heads cannot share the keys of {}", heads, kv_heads));
  const std::size_t sequence =
      tokens_of_sample(in, c.context_or("max_position_embeddings", 2048), m);
  const auto tokens = static_cast<double>(sequence);
  const bool tied = c.flag("tie_word_embeddings").value_or(true),
             language = in.head == Head::language;
  const Bias bias = bias_by(c, "bias", Bias::without);
  const std::string model = in.head == Head::none ? "" : "transformer.";
  m.tensors.add(model + "word_embeddings.weight", vocabulary * hidden,
                language && tied ? tokens : 0);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string of = fmt::format("{}h.{}.", model, layer);
    m.tensors.linear(of + "self_attention.query_key_value", hidden, (heads + 2 * kv_heads) * head,
                     tokens, bias);
    m.tensors.linear(of + "self_attention.dense", hidden, hidden, tokens, bias);
    m.tensors.linear(of + "mlp.dense_h_to_4h", hidden, inner, tokens, bias);
    m.tensors.linear(of + "mlp.dense_4h_to_h", inner, hidden, tokens, bias);
    for (const char* norm : falcon_norms(c)) m.tensors.norm(of + norm, hidden, Norm::layer);
  }
  m.tensors.norm(model + "ln_f", hidden, Norm::layer);
  if (language && !tied) m.tensors.add("lm_head.weight", vocabulary * hidden, tokens);
  if (in.head == Head::classes) m.tensors.add("score.weight", c.labels() * hidden, tokens);
  m.score_macs = score_macs(layers, sequence, sequence, hidden);
  return m;
}

FamilyModel mpt(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t hidden = c.whole("d_model"), layers = c.whole("n_layers"),
                    inner = 4 * hidden,  // MptMLP's, whatever expansion_ratio says
      vocabulary = c.whole("vocab_size");
  const std::size_t sequence = tokens_of_sample(in, c.context_or("max_seq_len", 2048), m);
  const auto tokens = static_cast<double>(sequence);
  const bool tied = c.flag("tie_word_embeddings").value_or(true),
             language = in.head == Head::language;
  const std::string model = in.head == Head::none ? "" : "transformer.";
  m.tensors.add(model + "wte.weight", vocabulary * hidden, language && tied ? tokens : 0);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string of = fmt::format("{}blocks.{}.", model, layer);
    m.tensors.norm(of + "norm_1", hidden, Norm::rms);  // MptBlock takes the biases out
    m.tensors.linear(of + "attn.Wqkv", hidden, 3 * hidden, tokens, Bias::without);
    m.tensors.linear(of + "attn.out_proj", hidden, hidden, tokens, Bias::without);
    m.tensors.norm(of + "norm_2", hidden, Norm::rms);
    m.tensors.linear(of + "ffn.up_proj", hidden, inner, tokens, Bias::without);
    m.tensors.linear(of + "ffn.down_proj", inner, hidden, tokens, Bias::without);
  }
  m.tensors.norm(model + "norm_f", hidden, Norm::rms);
  if (language && !tied) m.tensors.add("lm_head.weight", vocabulary * hidden, tokens);
  if (in.head == Head::classes) m.tensors.add("score.weight", c.labels() * hidden, tokens);
  m.score_macs = score_macs(layers, sequence, sequence, hidden);
  keep_scores(layers, c.whole("n_heads"), tokens, m);
  return m;
}

}  // namespace

const std::vector<ModelFamily>& gpt_families() {
  static const std::vector<ModelFamily> all = {
      {"gpt2", "GPT2", decoder_heads(), gpt2, "gpt2-1.5b"},
      {"gpt_bigcode", "GPTBigCode", decoder_heads(), gpt_bigcode, "gpt2-1.5b"},
      {"gptj", "GPTJ", decoder_heads(), gptj, "gpt-neox-20b"},
      {"gpt_neox", "GPTNeoX", decoder_heads(), gpt_neox, "gpt-neox-20b"},
      {"opt", "OPT", decoder_heads(), opt, "gpt2-1.5b"},
      {"bloom", "Bloom", decoder_heads(), bloom, "gpt-neox-20b"},
      {"falcon", "Falcon", decoder_heads(), falcon, "gpt-neox-20b"},
      {"mpt", "Mpt", decoder_heads(), mpt, "gpt-neox-20b"},
  };
  return all;
}

}  // namespace foreduce
