// Models of an encoder and a decoder: T5, and Whisper, which hears (modeling_t5.py,
// modeling_whisper.py of huggingface/transformers).
#include "models/family_parts.hpp"

#include <fmt/format.h>

namespace foreduce {
namespace {

using Bias = TensorList::Bias;
using Norm = TensorList::Norm;

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
                    sequence = tokens_of_sample(in, c.context_or("n_positions", 512), m);
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

/// Whisper's sizes.
struct WhisperShape {
  std::size_t hidden = 0, heard = 0, tokens = 0;  ///< `heard`: positions of the encoder
};

/// Attention of so many positions to so many others.
void whisper_attention(const std::string& of, std::size_t hidden, std::size_t from, std::size_t to,
                       TensorList& t) {
  const auto queries = static_cast<double>(from), keys = static_cast<double>(to);
  t.linear(of + ".k_proj", hidden, hidden, keys, Bias::without);
  t.linear(of + ".v_proj", hidden, hidden, keys, Bias::with);
  t.linear(of + ".q_proj", hidden, hidden, queries, Bias::with);
  t.linear(of + ".out_proj", hidden, hidden, queries, Bias::with);
  t.norm(of + "_layer_norm", hidden, Norm::layer);
}

void whisper_stack(const ConfigKeys& c, const WhisperShape& s, const std::string& model,
                   bool decoder, FamilyModel& m) {
  const std::string stack = decoder ? "decoder" : "encoder";
  const std::size_t layers = c.whole((stack + "_layers").c_str()),
                    inner = c.whole((stack + "_ffn_dim").c_str()),
                    positions = decoder ? s.tokens : s.heard;
  const auto each = static_cast<double>(positions);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string of = fmt::format("{}{}.layers.{}.", model, stack, layer);
    whisper_attention(of + "self_attn", s.hidden, positions, positions, m.tensors);
    if (decoder) whisper_attention(of + "encoder_attn", s.hidden, positions, s.heard, m.tensors);
    m.tensors.linear(of + "fc1", s.hidden, inner, each, Bias::with);
    m.tensors.linear(of + "fc2", inner, s.hidden, each, Bias::with);
    m.tensors.norm(of + "final_layer_norm", s.hidden, Norm::layer);
  }
  m.tensors.norm(model + stack + ".layer_norm", s.hidden, Norm::layer);
  m.score_macs += score_macs(layers, positions, positions, s.hidden);
  if (decoder) m.score_macs += score_macs(layers, positions, s.heard, s.hidden);
}

FamilyModel whisper(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t bins = c.whole_or("num_mel_bins", 80), vocabulary = c.whole("vocab_size"),
                    context = c.context_or("max_target_positions", 448);
  WhisperShape s;
  s.hidden = c.whole("d_model");
  s.heard = c.whole_or("max_source_positions", 1500);
  s.tokens = in.sequence > 0 ? in.sequence : context;
  if (s.tokens > context)
    c.fail(
        "max_target_positions",
        fmt::format("the model has {} positions, and --sequence asks for {}", context, s.tokens));
  constexpr std::size_t kPositionsOfSecond = 50, kKernel = 3;
  m.sample = fmt::format("{} s of sound and {} tokens", s.heard / kPositionsOfSecond, s.tokens);
  const bool language = in.head == Head::language,
             tied = c.flag("tie_word_embeddings").value_or(true);
  const std::string model = in.head == Head::none ? "" : "model.";
  const auto heard = static_cast<double>(s.heard), tokens = static_cast<double>(s.tokens);
  m.tensors.linear(model + "encoder.conv1", kKernel * bins, s.hidden, 2 * heard, Bias::with);
  m.tensors.linear(model + "encoder.conv2", kKernel * s.hidden, s.hidden, heard, Bias::with);
  m.tensors.add(model + "encoder.embed_positions.weight", s.heard * s.hidden);
  whisper_stack(c, s, model, false, m);
  m.tensors.add(model + "decoder.embed_tokens.weight", vocabulary * s.hidden,
                language && tied ? tokens : 0);
  m.tensors.add(model + "decoder.embed_positions.weight", context * s.hidden);
  whisper_stack(c, s, model, true, m);
  if (language && !tied) m.tensors.add("proj_out.weight", vocabulary * s.hidden, tokens);
  m.notes.push_back(fmt::format(
      "The encoder's positions, {} parameters, are trained here; its class keeps them as they are.",
      s.heard * s.hidden));
  return m;
}

}  // namespace

const std::vector<ModelFamily>& two_stack_families() {
  static const std::vector<ModelFamily> all = {
      {"t5", "T5", {Head::language, Head::none}, t5, "t5-base"},
      {"whisper", "Whisper", {Head::language, Head::none}, whisper, "bert-large"},
  };
  return all;
}

}  // namespace foreduce
