// Encoders of text and of images (modeling_bert.py, modeling_vit.py of huggingface/transformers).
#include "models/family_parts.hpp"

#include <fmt/format.h>

namespace foreduce {
namespace {

using Bias = TensorList::Bias;
using Norm = TensorList::Norm;

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
                    context = c.context_or("max_position_embeddings", 512);
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
  constexpr std::size_t kWidest = 10'000, kMostChannels = 1000;
  if (image > kWidest) c.fail("image_size", fmt::format("it must be from 1 to {}", kWidest));
  if (channels > kMostChannels)
    c.fail("num_channels", fmt::format("it must be from 1 to {}", kMostChannels));
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

}  // namespace

const std::vector<ModelFamily>& encoder_families() {
  static const std::vector<ModelFamily> all = {
      {"bert",
       "Bert",
       {Head::masked, Head::pretraining, Head::none, Head::classes},
       bert,
       "bert-large"},
      {"vit", "ViT", {Head::classes, Head::none}, vit, "vit-b16"},
  };
  return all;
}

}  // namespace foreduce
