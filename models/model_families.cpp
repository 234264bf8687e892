// The families that are not like Llama (modeling_gpt2.py, modeling_gpt_neox.py, modeling_opt.py,
// modeling_bert.py, modeling_t5.py, modeling_vit.py of huggingface/transformers), and the table of
// all.
#include "models/llama_like.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreduce {

std::size_t tokens_of_sample(const FamilyInput& in, std::size_t context, FamilyModel& m) {
  constexpr std::size_t kLongestUsual = 8192;  // attention's arithmetic is quadratic in it
  const std::size_t tokens = in.sequence > 0 ? in.sequence : std::min(context, kLongestUsual);
  if (tokens < context)
    m.notes.push_back(fmt::format(
        "A sample has {} tokens here. The model takes up to {} (--sequence).", tokens, context));
  if (tokens > context)
    m.notes.push_back(fmt::format("A sample has {} tokens here, and the model's context is {}.",
                                  tokens, context));
  m.sample = fmt::format("{} tokens", tokens);
  return tokens;
}

namespace {

using Bias = TensorList::Bias;
using Norm = TensorList::Norm;

/// The same where positions are parameters, so that there are no more of them.
std::size_t tokens_of_learned(const FamilyInput& in, const char* key, std::size_t context,
                              FamilyModel& m) {
  if (in.sequence > context)
    in.keys.fail(key, fmt::format("the model has {} positions, and --sequence asks for {}", context,
                                  in.sequence));
  return tokens_of_sample(in, context, m);
}

/// Scores of all pairs of so many positions, and their use, in so many layers.
double score_macs(std::size_t layers, std::size_t from, std::size_t to, std::size_t width) {
  return 2.0 * static_cast<double>(layers) * static_cast<double>(from) * static_cast<double>(to) *
         static_cast<double>(width);
}

FamilyModel gpt2(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t hidden = c.whole("n_embd"), layers = c.whole("n_layer"),
                    context = c.whole_or("n_positions", 1024),
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
  const std::size_t sequence = tokens_of_sample(in, c.whole_or("max_position_embeddings", 2048), m);
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
                    context = c.whole_or("max_position_embeddings", 2048);
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

/// A block of an encoder with biases, as BERT and ViT have it.
struct EncoderBlock {
  const char *query, *output, *norm_of_attention;  ///< null: its norms come last (ViT)
};
void encoder_block(const std::string& of, const EncoderBlock& names, std::size_t hidden,
                   std::size_t inner, double positions, Bias query_bias, TensorList& t) {
  for (const char* matrix : {"query", "key", "value"})
    t.linear(of + names.query + matrix, hidden, hidden, positions, query_bias);
  t.linear(of + names.output, hidden, hidden, positions, Bias::with);
  if (names.norm_of_attention) t.norm(of + names.norm_of_attention, hidden, Norm::layer);
  t.linear(of + "intermediate.dense", hidden, inner, positions, Bias::with);
  t.linear(of + "output.dense", inner, hidden, positions, Bias::with);
  if (names.norm_of_attention) {
    t.norm(of + "output.LayerNorm", hidden, Norm::layer);
  } else {
    t.norm(of + "layernorm_before", hidden, Norm::layer);
    t.norm(of + "layernorm_after", hidden, Norm::layer);
  }
}

void bert_heads(const FamilyInput& in, std::size_t hidden, std::size_t vocabulary, double tokens,
                const std::string& model, FamilyModel& m) {
  const bool predicts = in.head == Head::masked || in.head == Head::pretraining;
  if (in.head != Head::masked)
    m.tensors.linear(model + "pooler.dense", hidden, hidden, 1, Bias::with);
  if (predicts) {
    m.tensors.add("cls.predictions.bias", vocabulary);
    m.tensors.linear("cls.predictions.transform.dense", hidden, hidden, tokens, Bias::with);
    m.tensors.norm("cls.predictions.transform.LayerNorm", hidden, Norm::layer);
  }
  if (in.head == Head::pretraining)
    m.tensors.linear("cls.seq_relationship", hidden, 2, 1, Bias::with);
  if (in.head == Head::classes)
    m.tensors.linear("classifier", hidden, in.keys.labels(), 1, Bias::with);
}

FamilyModel bert(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t hidden = c.whole("hidden_size"), layers = c.whole("num_hidden_layers"),
                    inner = c.whole("intermediate_size"), vocabulary = c.whole("vocab_size"),
                    context = c.whole_or("max_position_embeddings", 512);
  const std::size_t sequence = tokens_of_learned(in, "max_position_embeddings", context, m);
  const auto tokens = static_cast<double>(sequence);
  const std::string model = in.head == Head::none ? "" : "bert.",
                    embeddings = model + "embeddings.";
  const bool predicts = in.head == Head::masked || in.head == Head::pretraining;
  // The layer that chooses a word for every position shares the embedding's weights.
  m.tensors.add(embeddings + "word_embeddings.weight", vocabulary * hidden,
                predicts && c.flag("tie_word_embeddings").value_or(true) ? tokens : 0);
  m.tensors.add(embeddings + "position_embeddings.weight", context * hidden);
  m.tensors.add(embeddings + "token_type_embeddings.weight",
                c.whole_or("type_vocab_size", 2) * hidden);
  m.tensors.norm(embeddings + "LayerNorm", hidden, Norm::layer);
  for (std::size_t layer = 0; layer < layers; ++layer)
    encoder_block(fmt::format("{}encoder.layer.{}.", model, layer),
                  {"attention.self.", "attention.output.dense", "attention.output.LayerNorm"},
                  hidden, inner, tokens, Bias::with, m.tensors);
  bert_heads(in, hidden, vocabulary, tokens, model, m);
  m.score_macs = score_macs(layers, sequence, sequence, hidden);
  return m;
}

FamilyModel vit(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t hidden = c.whole("hidden_size"), layers = c.whole("num_hidden_layers"),
                    inner = c.whole("intermediate_size"), image = c.whole_or("image_size", 224),
                    patch = c.whole_or("patch_size", 16), channels = c.whole_or("num_channels", 3);
  if (patch > image)
    c.fail("patch_size", fmt::format("{} is more than image_size, {}", patch, image));
  if (in.sequence > 0)
    c.fail("image_size", "an image's patches are its positions, so --sequence does not apply");
  const std::size_t patches = (image / patch) * (image / patch), positions = patches + 1;
  m.sample = fmt::format("{0}x{0} image", image);
  const auto each = static_cast<double>(positions);
  const std::string model = in.head == Head::none ? "" : "vit.";
  m.tensors.add(model + "embeddings.cls_token", hidden);
  m.tensors.add(model + "embeddings.position_embeddings", positions * hidden);
  m.tensors.linear(model + "embeddings.patch_embeddings.projection", channels * patch * patch,
                   hidden, static_cast<double>(patches), Bias::with);
  for (std::size_t layer = 0; layer < layers; ++layer)
    encoder_block(fmt::format("{}encoder.layer.{}.", model, layer),
                  {"attention.attention.", "attention.output.dense", nullptr}, hidden, inner, each,
                  c.flag("qkv_bias").value_or(true) ? Bias::with : Bias::without, m.tensors);
  m.tensors.norm(model + "layernorm", hidden, Norm::layer);
  if (in.head == Head::none) m.tensors.linear("pooler.dense", hidden, hidden, 1, Bias::with);
  if (in.head == Head::classes) m.tensors.linear("classifier", hidden, c.labels(), 1, Bias::with);
  m.score_macs = score_macs(layers, positions, positions, hidden);
  return m;
}

/// T5's sizes; samples have as many tokens before the answer as in it.
struct T5Shape {
  std::size_t hidden, inner, width, heads, buckets;
  double tokens;
  bool gated;
};

void t5_attention(const T5Shape& s, const std::string& of, TensorList& t) {
  for (const char* matrix : {"q", "k", "v"})
    t.linear(of + matrix, s.hidden, s.width, s.tokens, Bias::without);
  t.linear(of + "o", s.width, s.hidden, s.tokens, Bias::without);
}

void t5_stack(const T5Shape& s, const std::string& stack, std::size_t layers, TensorList& t) {
  const bool decoder = stack == "decoder";
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string block = fmt::format("{}.block.{}.layer.", stack, layer);
    t5_attention(s, block + "0.SelfAttention.", t);
    if (layer == 0)
      t.add(block + "0.SelfAttention.relative_attention_bias.weight", s.buckets * s.heads);
    t.norm(block + "0.layer_norm", s.hidden, Norm::rms);
    if (decoder) {
      t5_attention(s, block + "1.EncDecAttention.", t);
      t.norm(block + "1.layer_norm", s.hidden, Norm::rms);
    }
    const std::string last = block + (decoder ? "2." : "1.");
    for (const char* matrix : {"wi_0", "wi_1"})
      if (s.gated)
        t.linear(last + "DenseReluDense." + matrix, s.hidden, s.inner, s.tokens, Bias::without);
    if (!s.gated) t.linear(last + "DenseReluDense.wi", s.hidden, s.inner, s.tokens, Bias::without);
    t.linear(last + "DenseReluDense.wo", s.inner, s.hidden, s.tokens, Bias::without);
    t.norm(last + "layer_norm", s.hidden, Norm::rms);
  }
  t.norm(stack + ".final_layer_norm", s.hidden, Norm::rms);
}

FamilyModel t5(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t layers = c.whole("num_layers"), vocabulary = c.whole("vocab_size"),
                    answers = c.whole_or("num_decoder_layers", layers),
                    sequence = tokens_of_sample(in, c.whole_or("n_positions", 512), m);
  T5Shape s{};
  s.hidden = c.whole("d_model");
  s.inner = c.whole("d_ff");
  s.heads = c.whole("num_heads");
  s.width = s.heads * c.whole("d_kv");
  s.buckets = c.whole_or("relative_attention_num_buckets", 32);
  s.tokens = static_cast<double>(sequence);
  s.gated = c.word("feed_forward_proj", "relu").starts_with("gated");
  const bool language = in.head == Head::language,
             tied = c.flag("tie_word_embeddings").value_or(true);
  m.sample = fmt::format("{0}+{0} tokens", sequence);
  m.tensors.add("shared.weight", vocabulary * s.hidden, language && tied ? s.tokens : 0);
  t5_stack(s, "encoder", layers, m.tensors);
  t5_stack(s, "decoder", answers, m.tensors);
  if (language && !tied) m.tensors.add("lm_head.weight", vocabulary * s.hidden, s.tokens);
  // A decoder's layer attends to its own tokens and to the encoder's.
  m.score_macs = score_macs(layers + 2 * answers, sequence, sequence, s.width);
  // Its relative positions are added to scores, which no fused kernel of PyTorch's does.
  m.kept_scores = static_cast<double>(s.heads * (layers + 2 * answers)) * s.tokens * s.tokens;
  return m;
}

}  // namespace

const std::vector<std::pair<std::string, Head>>& head_names() {
  static const std::vector<std::pair<std::string, Head>> all = {
      {"ForCausalLM", Head::language},
      {"LMHeadModel", Head::language},
      {"ForConditionalGeneration", Head::language},
      {"ForMaskedLM", Head::masked},
      {"ForPreTraining", Head::pretraining},
      {"ForSequenceClassification", Head::classes},
      {"ForImageClassification", Head::classes},
      {"Model", Head::none}};
  return all;
}

const std::vector<ModelFamily>& model_families() {
  static const std::vector<ModelFamily> all = [] {
    std::vector<ModelFamily> families = llama_families();
    const auto& mixtures = mixture_families();
    families.insert(families.end(), mixtures.begin(), mixtures.end());
    const std::vector<Head>& decoder = decoder_heads();
    families.push_back({"gpt2", "GPT2", decoder, gpt2, "gpt2-1.5b"});
    families.push_back({"gpt_neox", "GPTNeoX", decoder, gpt_neox, "gpt-neox-20b"});
    families.push_back({"opt", "OPT", decoder, opt, "gpt2-1.5b"});
    families.push_back({"bert",
                        "Bert",
                        {Head::masked, Head::pretraining, Head::none, Head::classes},
                        bert,
                        "bert-large"});
    families.push_back({"t5", "T5", {Head::language, Head::none}, t5, "t5-base"});
    families.push_back({"vit", "ViT", {Head::classes, Head::none}, vit, "vit-b16"});
    return families;
  }();
  return all;
}

}  // namespace foreduce
