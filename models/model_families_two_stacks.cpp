// Models of an encoder and a decoder (modeling_t5.py of huggingface/transformers).
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

}  // namespace

const std::vector<ModelFamily>& two_stack_families() {
  static const std::vector<ModelFamily> all = {
      {"t5", "T5", {Head::language, Head::none}, t5, "t5-base"},
  };
  return all;
}

}  // namespace foreduce
