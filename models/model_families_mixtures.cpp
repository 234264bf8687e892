// Decoders whose blocks have experts in place of a feed-forward layer: Mixtral, Phi-3.5-MoE, OLMoE,
// Qwen, GLM-4.5, gpt-oss, Llama 4, DeepSeek, Kimi K2 and DBRX (the modeling_*.py of
// huggingface/transformers). All experts of a block are one tensor a kind, as transformers 5
// registers them.
#include <fmt/format.h>

#include <algorithm>

#include "models/llama_like.hpp"

namespace foreduce {
namespace {

using Bias = TensorList::Bias;
using Norm = TensorList::Norm;
using HeadNorms = LlamaKind::HeadNorms;

/// What tells a family's mixture apart, and the keys of its config.json that say the rest.
struct Mixture {
  const char* count;  ///< key of the number of a block's experts
  const char* width;  ///< key of an expert's inner width
  /// Whether a layer has experts; all have by default.
  bool (*there)(const ConfigKeys&, std::size_t layer) = [](const ConfigKeys&, std::size_t) {
    return true;
  };
  const char* dense_width = "intermediate_size";  ///< of layers without
  /// Inner width of what every token takes beside its experts; 0: there is none.
  std::size_t (*shared)(const ConfigKeys&) = [](const ConfigKeys&) { return std::size_t{0}; };
  bool shared_gate = false;  ///< whether that has a gate of its own
  bool router_bias = false;  ///< or a correction of its scores, which is as large
  bool expert_bias = false;
};

/// The experts of a block.
Experts experts_of(const ConfigKeys& c, const Mixture& x) {
  const std::size_t all = c.whole(x.count), chosen = c.whole("num_experts_per_tok");
  if (chosen > all)
    c.fail("num_experts_per_tok", fmt::format("{} of {} experts cannot be chosen", chosen, all));
  return {static_cast<int>(all), static_cast<int>(chosen)};
}

void add_experts(const ConfigKeys& c, const Mixture& x, const LlamaShape& s, const std::string& of,
                 TensorList& t) {
  const Experts experts = experts_of(c, x);
  const auto count = static_cast<std::size_t>(experts.count);
  const std::size_t inner = c.whole(x.width);
  const auto tokens = static_cast<double>(s.tokens);
  // What one expert sees when tokens are spread evenly.
  const double each = tokens * experts.per_token / experts.count;
  t.linear(of + "gate", s.hidden, count, tokens, x.router_bias ? Bias::with : Bias::without);
  t.add(of + "experts.gate_up_proj", 2 * count * s.hidden * inner, each);
  if (x.expert_bias) t.add(of + "experts.gate_up_proj_bias", 2 * count * inner);
  t.add(of + "experts.down_proj", count * inner * s.hidden, each);
  if (x.expert_bias) t.add(of + "experts.down_proj_bias", count * s.hidden);
  const std::size_t shared = x.shared(c);
  if (shared == 0) return;
  gated_mlp(of + "shared_experts.", s.hidden, shared, tokens, Bias::without, t);
  if (x.shared_gate) t.add(of + "shared_expert_gate.weight", s.hidden, tokens);
}

FamilyModel mixture(const FamilyInput& in, const LlamaKind& kind, const Mixture& x) {
  bool any = false;  // layers with experts
  const auto feed_forward = [&](const ConfigKeys& c, const LlamaShape& s, std::size_t layer,
                                const std::string& block, TensorList& t) {
    const std::string of = block + "mlp.";
    if (x.there(c, layer)) {
      any = true;
      return add_experts(c, x, s, of, t);
    }
    gated_mlp(of, s.hidden, c.whole(x.dense_width), static_cast<double>(s.tokens), Bias::without,
              t);
  };
  FamilyModel m = llama_like(in, kind, feed_forward);
  // A mixture of one, or of no layer, is a dense model.
  if (const Experts experts = experts_of(in.keys, x); experts.count > 1 && any) m.experts = experts;
  return m;
}

FamilyModel mixtral(const FamilyInput& in) {
  return mixture(in, {.windows = true}, {"num_local_experts", "intermediate_size"});
}
FamilyModel phimoe(const FamilyInput& in) {
  return mixture(in, {.norm = Norm::layer, .windows = true},
                 {"num_local_experts", "intermediate_size"});
}
FamilyModel olmoe(const FamilyInput& in) {
  return mixture(in, {.head_norms = HeadNorms::all_heads}, {"num_experts", "intermediate_size"});
}

bool qwen_has_experts(const ConfigKeys& c, std::size_t layer) {
  const auto dense = c.numbers("mlp_only_layers");
  return std::find(dense.begin(), dense.end(), layer) == dense.end() &&
         (layer + 1) % c.whole_or("decoder_sparse_step", 1) == 0;
}
FamilyModel qwen2_moe(const FamilyInput& in) {
  Mixture x{"num_experts", "moe_intermediate_size", qwen_has_experts};
  x.shared = [](const ConfigKeys& c) { return c.whole("shared_expert_intermediate_size"); };
  x.shared_gate = true;
  return mixture(in, {.query_bias = true}, x);
}
FamilyModel qwen3_moe(const FamilyInput& in) {
  return mixture(in, {.head_norms = HeadNorms::each_head},
                 {"num_experts", "moe_intermediate_size", qwen_has_experts});
}

/// DeepSeek's, which GLM-4.5 and Kimi K2 have too.
bool deepseek_has_experts(const ConfigKeys& c, std::size_t layer) {
  const std::size_t dense = c.count_or("first_k_dense_replace", 0);
  return layer >= dense && layer % c.whole_or("moe_layer_freq", 1) == 0;
}
Mixture deepseek_mixture() {
  Mixture x{"n_routed_experts", "moe_intermediate_size", deepseek_has_experts};
  x.shared = [](const ConfigKeys& c) {
    return c.count_or("n_shared_experts", 0) * c.whole("moe_intermediate_size");
  };
  return x;
}

/// Attention with keys and values in a latent space (DeepSeek-V2, arXiv 2405.04434, section 2.1).
double latent_attention(const ConfigKeys& c, const LlamaShape& s, std::size_t attended,
                        const std::string& of, TensorList& t) {
  const auto tokens = static_cast<double>(s.tokens);
  const std::size_t plain = c.whole("qk_nope_head_dim"), rotary = c.whole("qk_rope_head_dim"),
                    value = c.whole("v_head_dim"), latent = c.whole("kv_lora_rank");
  const std::size_t queries = s.heads * (plain + rotary);
  const Bias bias = c.flag("attention_bias").value_or(false) ? Bias::with : Bias::without;
  if (c.is_set("q_lora_rank")) {
    const std::size_t rank = c.whole("q_lora_rank");
    t.linear(of + "q_a_proj", s.hidden, rank, tokens, bias);
    t.norm(of + "q_a_layernorm", rank, Norm::rms);
    t.linear(of + "q_b_proj", rank, queries, tokens, Bias::without);
  } else {
    t.linear(of + "q_proj", s.hidden, queries, tokens, Bias::without);
  }
  t.linear(of + "kv_a_proj_with_mqa", s.hidden, latent + rotary, tokens, bias);
  t.norm(of + "kv_a_layernorm", latent, Norm::rms);
  t.linear(of + "kv_b_proj", latent, s.heads * (plain + value), tokens, Bias::without);
  t.linear(of + "o_proj", s.heads * value, s.hidden, tokens, bias);
  return tokens * static_cast<double>(attended) *
         static_cast<double>(s.heads * (plain + rotary + value));
}
void note_left_out(const ConfigKeys& c, FamilyModel& m) {
  if (c.count_or("num_nextn_predict_layers", 0) > 0)
    m.notes.emplace_back("The layers that predict further tokens are left out.");
}
FamilyModel deepseek(const FamilyInput& in, bool corrected) {
  Mixture x = deepseek_mixture();
  x.router_bias = corrected;
  FamilyModel m = mixture(in, {.attention = latent_attention}, x);
  note_left_out(in.keys, m);
  return m;
}
FamilyModel deepseek_v2(const FamilyInput& in) { return deepseek(in, false); }
FamilyModel deepseek_v3(const FamilyInput& in) { return deepseek(in, true); }
FamilyModel glm4_moe(const FamilyInput& in) {
  Mixture x = deepseek_mixture();
  x.router_bias = true;
  LlamaKind kind;
  kind.bias_of_output = false;
  if (in.keys.flag("use_qk_norm").value_or(false)) kind.head_norms = HeadNorms::each_head;
  FamilyModel m = mixture(in, kind, x);
  note_left_out(in.keys, m);
  return m;
}

FamilyModel gpt_oss(const FamilyInput& in) {
  Mixture x{"num_local_experts", "intermediate_size"};
  x.router_bias = x.expert_bias = true;
  return mixture(in, {.sinks = true}, x);
}

FamilyModel llama4(const FamilyInput& in) {
  Mixture x{"num_local_experts", "intermediate_size"};
  x.there = [](const ConfigKeys& c, std::size_t layer) {
    return (layer + 1) % c.whole_or("interleave_moe_layer_step", 1) == 0;
  };
  x.dense_width = "intermediate_size_mlp";
  x.shared = [](const ConfigKeys& c) { return c.whole("intermediate_size"); };
  return mixture(in, {}, x);
}

/// DBRX, whose config.json has attention's keys and the experts' in objects of their own.
FamilyModel dbrx(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys &c = in.keys, attention = c.part("attn_config"),
                   of_experts = c.part("ffn_config");
  const std::size_t hidden = c.whole("d_model"), layers = c.whole("n_layers"),
                    heads = c.whole("n_heads"), kv_heads = attention.whole_or("kv_n_heads", heads),
                    count = of_experts.whole("moe_num_experts"),
                    chosen = of_experts.whole("moe_top_k"),
                    inner = of_experts.whole("ffn_hidden_size"), vocabulary = c.whole("vocab_size");
  if (hidden % heads != 0)
    c.fail("n_heads", fmt::format("a width of {} is no multiple of {} heads", hidden, heads));
  if (chosen > count)
    of_experts.fail("moe_top_k", fmt::format("{} of {} experts cannot be chosen", chosen, count));
  const std::size_t sequence = tokens_of_sample(in, c.context_or("max_seq_len", 2048), m);
  const auto tokens = static_cast<double>(sequence);
  const double each = tokens * static_cast<double>(chosen) / static_cast<double>(count);
  const bool language = in.head == Head::language;
  const bool tied = language && c.flag("tie_word_embeddings").value_or(false);
  const std::string model = in.head == Head::none ? "" : "transformer.";
  m.tensors.add(model + "wte.weight", vocabulary * hidden, tied ? tokens : 0);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string block = fmt::format("{}blocks.{}.", model, layer),
                      of = block + "norm_attn_norm.";
    m.tensors.norm(of + "norm_1", hidden, Norm::rms);  // layer norms without biases
    m.tensors.linear(of + "attn.Wqkv", hidden, hidden + 2 * kv_heads * (hidden / heads), tokens,
                     Bias::without);
    m.tensors.linear(of + "attn.out_proj", hidden, hidden, tokens, Bias::without);
    m.tensors.norm(of + "norm_2", hidden, Norm::rms);
    m.tensors.linear(block + "ffn.router.layer", hidden, count, tokens, Bias::without);
    for (const char* matrix : {"w1", "v1", "w2"})
      m.tensors.add(block + "ffn.experts.mlp." + matrix, count * inner * hidden, each);
  }
  m.tensors.norm(model + "norm_f", hidden, Norm::rms);
  if (language && !tied) m.tensors.linear("lm_head", hidden, vocabulary, tokens, Bias::without);
  m.score_macs = score_macs(layers, sequence, sequence, hidden);
  if (count > 1) m.experts = Experts{static_cast<int>(count), static_cast<int>(chosen)};
  return m;
}

}  // namespace

const std::vector<ModelFamily>& mixture_families() {
  static const std::vector<ModelFamily> all = {
      {"mixtral", "Mixtral", decoder_heads(), mixtral, "llama2-7b"},
      {"phimoe", "Phimoe", decoder_heads(), phimoe, "llama2-7b"},
      {"olmoe", "Olmoe", decoder_heads(), olmoe, "llama2-7b"},
      {"qwen2_moe", "Qwen2Moe", decoder_heads(), qwen2_moe, "llama2-7b"},
      {"qwen3_moe", "Qwen3Moe", decoder_heads(), qwen3_moe, "llama2-7b"},
      {"glm4_moe", "Glm4Moe", decoder_heads(), glm4_moe, "llama2-7b"},
      {"gpt_oss", "GptOss", decoder_heads(), gpt_oss, "llama2-7b"},
      {"llama4_text", "Llama4", decoder_heads(), llama4, "llama2-7b"},
      {"deepseek_v2", "DeepseekV2", decoder_heads(), deepseek_v2, "llama2-7b"},
      {"deepseek_v3", "DeepseekV3", decoder_heads(), deepseek_v3, "llama2-7b"},
      {"dbrx", "Dbrx", {Head::language, Head::none}, dbrx, "llama2-7b"},
      {"kimi_k2", "DeepseekV3", decoder_heads(), deepseek_v3, "llama2-7b"},
  };
  return all;
}

}  // namespace foreduce
