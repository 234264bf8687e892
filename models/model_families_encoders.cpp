// Encoders of text: BERT, RoBERTa and what was trained as it (XLM-R, CamemBERT), ELECTRA,
// DistilBERT, DeBERTa-v2 and -v3 (the modeling_*.py of huggingface/transformers).
#include <fmt/format.h>

#include <algorithm>

#include "models/family_parts.hpp"

namespace foreduce {
namespace {

using Bias = TensorList::Bias;
using Norm = TensorList::Norm;

}  // namespace

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

namespace {

/// What of an encoder's config.json its tensors depend on.
struct BertShape {
  std::size_t hidden, embedding, layers, inner, vocabulary;
  double tokens;
};

/// What sets one of BERT's descendants apart.
struct BertKind {
  const char* model;  ///< "bert."
  /// Rows of the embedding of positions before the first one's.
  std::size_t (*unused_positions)(const ConfigKeys&);
  bool own_embedding;          ///< whether the embedding may have another width, embedding_size
  std::vector<Head> of_words;  ///< heads that choose a word for every position
  void (*heads)(const FamilyInput&, const BertShape&, const std::string& model, TensorList&);
};

/// What RoBERTa's descendants and ELECTRA put behind the first position to tell classes apart.
void two_layers_of_classes(const FamilyInput& in, std::size_t hidden, TensorList& t) {
  t.linear("classifier.dense", hidden, hidden, 1, Bias::with);
  t.linear("classifier.out_proj", hidden, in.keys.labels(), 1, Bias::with);
}

/// What tells something of each position.
void layer_of_positions(const FamilyInput& in, std::size_t hidden, double positions,
                        TensorList& t) {
  if (in.head == Head::spans) t.linear("qa_outputs", hidden, 2, positions, Bias::with);
  if (in.head == Head::tags)
    t.linear("classifier", hidden, in.keys.labels(), positions, Bias::with);
}

void bert_heads(const FamilyInput& in, const BertShape& s, const std::string& model,
                TensorList& t) {
  const bool predicts = in.head == Head::masked || in.head == Head::pretraining;
  const bool pools = in.head != Head::masked && in.head != Head::spans && in.head != Head::tags;
  if (pools) t.linear(model + "pooler.dense", s.hidden, s.hidden, 1, Bias::with);
  if (predicts) {
    t.add("cls.predictions.bias", s.vocabulary);
    t.linear("cls.predictions.transform.dense", s.hidden, s.hidden, s.tokens, Bias::with);
    t.norm("cls.predictions.transform.LayerNorm", s.hidden, Norm::layer);
  }
  if (in.head == Head::pretraining) t.linear("cls.seq_relationship", s.hidden, 2, 1, Bias::with);
  if (in.head == Head::classes) t.linear("classifier", s.hidden, in.keys.labels(), 1, Bias::with);
}

void roberta_heads(const FamilyInput& in, const BertShape& s, const std::string& model,
                   TensorList& t) {
  if (in.head == Head::none) t.linear(model + "pooler.dense", s.hidden, s.hidden, 1, Bias::with);
  if (in.head == Head::classes) two_layers_of_classes(in, s.hidden, t);
  if (in.head != Head::masked) return;
  t.add("lm_head.bias", s.vocabulary);
  t.linear("lm_head.dense", s.hidden, s.hidden, s.tokens, Bias::with);
  t.norm("lm_head.layer_norm", s.hidden, Norm::layer);
}

void electra_heads(const FamilyInput& in, const BertShape& s, const std::string&, TensorList& t) {
  if (in.head == Head::pretraining) {  // says of every position whether its word was replaced
    t.linear("discriminator_predictions.dense", s.hidden, s.hidden, s.tokens, Bias::with);
    t.linear("discriminator_predictions.dense_prediction", s.hidden, 1, s.tokens, Bias::with);
  }
  if (in.head == Head::masked) {
    t.norm("generator_predictions.LayerNorm", s.embedding, Norm::layer);
    t.linear("generator_predictions.dense", s.hidden, s.embedding, s.tokens, Bias::with);
    t.add("generator_lm_head.bias", s.vocabulary);
  }
  if (in.head == Head::classes) two_layers_of_classes(in, s.hidden, t);
}

FamilyModel bert_like(const FamilyInput& in, const BertKind& kind) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t rows = c.context_or("max_position_embeddings", 512),
                    unused = kind.unused_positions(c);
  if (unused >= rows)
    c.fail("max_position_embeddings", fmt::format("{} are no positions beside pad_token_id", rows));
  const std::size_t sequence = tokens_of_learned(in, "max_position_embeddings", rows - unused, m);
  BertShape s{};
  s.hidden = c.whole("hidden_size");
  s.embedding = kind.own_embedding ? c.whole_or("embedding_size", s.hidden) : s.hidden;
  s.layers = c.whole("num_hidden_layers");
  s.inner = c.whole("intermediate_size");
  s.vocabulary = c.whole("vocab_size");
  s.tokens = static_cast<double>(sequence);
  const std::string model = in.head == Head::none ? "" : kind.model,
                    embeddings = model + "embeddings.";
  const bool of_words =
      std::find(kind.of_words.begin(), kind.of_words.end(), in.head) != kind.of_words.end();
  const bool tied = of_words && c.flag("tie_word_embeddings").value_or(true);
  // The layer that chooses a word for every position shares the embedding's weights.
  m.tensors.add(embeddings + "word_embeddings.weight", s.vocabulary * s.embedding,
                tied ? s.tokens : 0);
  m.tensors.add(embeddings + "position_embeddings.weight", rows * s.embedding);
  m.tensors.add(embeddings + "token_type_embeddings.weight",
                c.whole_or("type_vocab_size", 2) * s.embedding);
  m.tensors.norm(embeddings + "LayerNorm", s.embedding, Norm::layer);
  if (s.embedding != s.hidden)
    m.tensors.linear(model + "embeddings_project", s.embedding, s.hidden, s.tokens, Bias::with);
  for (std::size_t layer = 0; layer < s.layers; ++layer)
    encoder_block(fmt::format("{}encoder.layer.{}.", model, layer),
                  {"attention.self.", "attention.output.dense", "attention.output.LayerNorm"},
                  s.hidden, s.inner, s.tokens, Bias::with, m.tensors);
  kind.heads(in, s, model, m.tensors);
  layer_of_positions(in, s.hidden, s.tokens, m.tensors);
  m.score_macs = score_macs(s.layers, sequence, sequence, s.hidden);
  return m;
}

std::size_t no_positions(const ConfigKeys&) { return 0; }

FamilyModel bert(const FamilyInput& in) {
  return bert_like(in,
                   {"bert.", no_positions, false, {Head::masked, Head::pretraining}, bert_heads});
}
FamilyModel roberta(const FamilyInput& in) {
  const auto up_to_padding = [](const ConfigKeys& c) { return c.count_or("pad_token_id", 1) + 1; };
  return bert_like(in, {"roberta.", up_to_padding, false, {Head::masked}, roberta_heads});
}
FamilyModel electra(const FamilyInput& in) {
  return bert_like(in, {"electra.", no_positions, true, {Head::masked}, electra_heads});
}

FamilyModel distilbert(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t hidden = c.whole("dim"), layers = c.whole("n_layers"),
                    inner = c.whole("hidden_dim"), vocabulary = c.whole("vocab_size"),
                    context = c.context_or("max_position_embeddings", 512);
  const std::size_t sequence = tokens_of_learned(in, "max_position_embeddings", context, m);
  const auto tokens = static_cast<double>(sequence);
  const bool masked = in.head == Head::masked;
  const std::string model = in.head == Head::none ? "" : "distilbert.",
                    embeddings = model + "embeddings.";
  m.tensors.add(embeddings + "word_embeddings.weight", vocabulary * hidden,
                masked && c.flag("tie_word_embeddings").value_or(true) ? tokens : 0);
  m.tensors.add(embeddings + "position_embeddings.weight", context * hidden);
  m.tensors.norm(embeddings + "LayerNorm", hidden, Norm::layer);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string of = fmt::format("{}transformer.layer.{}.", model, layer);
    for (const char* matrix : {"q_lin", "k_lin", "v_lin", "out_lin"})
      m.tensors.linear(of + "attention." + matrix, hidden, hidden, tokens, Bias::with);
    m.tensors.norm(of + "sa_layer_norm", hidden, Norm::layer);
    m.tensors.linear(of + "ffn.lin1", hidden, inner, tokens, Bias::with);
    m.tensors.linear(of + "ffn.lin2", inner, hidden, tokens, Bias::with);
    m.tensors.norm(of + "output_layer_norm", hidden, Norm::layer);
  }
  if (masked) {
    m.tensors.linear("vocab_transform", hidden, hidden, tokens, Bias::with);
    m.tensors.norm("vocab_layer_norm", hidden, Norm::layer);
    m.tensors.add("vocab_projector.bias", vocabulary);
  }
  if (in.head == Head::classes) {
    m.tensors.linear("pre_classifier", hidden, hidden, 1, Bias::with);
    m.tensors.linear("classifier", hidden, c.labels(), 1, Bias::with);
  }
  layer_of_positions(in, hidden, tokens, m.tensors);
  m.score_macs = score_macs(layers, sequence, sequence, hidden);
  return m;
}

/// Relative positions of DeBERTa-v2: the rows of their embedding, and the kinds of scores that they
/// add to those of words.
struct RelativePositions {
  std::size_t rows = 0;
  bool of_keys = false, of_queries = false;  ///< words with keys' positions, and with queries'
};

RelativePositions relative_positions(const ConfigKeys& c, std::size_t context) {
  RelativePositions r;
  if (!c.flag("relative_attention").value_or(false)) return r;
  r.rows = 2 * c.above_0_or("position_buckets", c.above_0_or("max_relative_positions", context));
  r.of_keys = c.mentions("pos_att_type", "c2p");
  r.of_queries = c.mentions("pos_att_type", "p2c");
  return r;
}

void deberta_block(const ConfigKeys& c, const std::string& of, const BertShape& s,
                   const RelativePositions& r, TensorList& t) {
  const std::string attention = of + "attention.self.";
  for (const char* matrix : {"query_proj", "key_proj", "value_proj"})
    t.linear(attention + matrix, s.hidden, s.hidden, s.tokens, Bias::with);
  if (r.rows > 0 && !c.flag("share_att_key").value_or(false)) {
    // They take all rows, which a batch's samples share.
    if (r.of_keys) t.linear(attention + "pos_key_proj", s.hidden, s.hidden, 0, Bias::with);
    if (r.of_queries) t.linear(attention + "pos_query_proj", s.hidden, s.hidden, 0, Bias::with);
  }
  t.linear(of + "attention.output.dense", s.hidden, s.hidden, s.tokens, Bias::with);
  t.norm(of + "attention.output.LayerNorm", s.hidden, Norm::layer);
  t.linear(of + "intermediate.dense", s.hidden, s.inner, s.tokens, Bias::with);
  t.linear(of + "output.dense", s.inner, s.hidden, s.tokens, Bias::with);
  t.norm(of + "output.LayerNorm", s.hidden, Norm::layer);
}

void deberta_heads(const FamilyInput& in, const BertShape& s, TensorList& t) {
  if (in.head == Head::masked) {
    const bool former = in.keys.flag("legacy").value_or(true);
    const std::string of = former ? "cls.predictions." : "lm_predictions.lm_head.",
                      transform = former ? of + "transform." : of;
    t.add(of + "bias", s.vocabulary);
    t.linear(transform + "dense", s.hidden, s.embedding, s.tokens, Bias::with);
    t.norm(transform + "LayerNorm", s.embedding, Norm::layer);
  }
  if (in.head != Head::classes) return;
  t.linear("pooler.dense", s.hidden, s.hidden, 1, Bias::with);
  t.linear("classifier", s.hidden, in.keys.labels(), 1, Bias::with);
}

FamilyModel deberta_v2(const FamilyInput& in) {
  FamilyModel m;
  const ConfigKeys& c = in.keys;
  const std::size_t context = c.context_or("max_position_embeddings", 512),
                    sequence = tokens_of_learned(in, "max_position_embeddings", context, m),
                    types = c.count_or("type_vocab_size", 0),
                    heads = c.whole("num_attention_heads");
  BertShape s{};
  s.hidden = c.whole("hidden_size");
  s.embedding = c.whole_or("embedding_size", s.hidden);
  s.layers = c.whole("num_hidden_layers");
  s.inner = c.whole("intermediate_size");
  s.vocabulary = c.whole("vocab_size");
  s.tokens = static_cast<double>(sequence);
  const RelativePositions r = relative_positions(c, context);
  const std::string model = in.head == Head::none ? "" : "deberta.",
                    embeddings = model + "embeddings.";
  const bool tied = in.head == Head::masked && c.flag("tie_word_embeddings").value_or(true);
  m.tensors.add(embeddings + "word_embeddings.weight", s.vocabulary * s.embedding,
                tied ? s.tokens : 0);
  if (c.flag("position_biased_input").value_or(true))
    m.tensors.add(embeddings + "position_embeddings.weight", context * s.embedding);
  if (types > 0) m.tensors.add(embeddings + "token_type_embeddings.weight", types * s.embedding);
  if (s.embedding != s.hidden)
    m.tensors.linear(embeddings + "embed_proj", s.embedding, s.hidden, s.tokens, Bias::without);
  m.tensors.norm(embeddings + "LayerNorm", s.hidden, Norm::layer);
  for (std::size_t layer = 0; layer < s.layers; ++layer)
    deberta_block(c, fmt::format("{}encoder.layer.{}.", model, layer), s, r, m.tensors);
  if (r.rows > 0) m.tensors.add(model + "encoder.rel_embeddings.weight", r.rows * s.hidden);
  if (c.mentions("norm_rel_ebd", "layer_norm"))
    m.tensors.norm(model + "encoder.LayerNorm", s.hidden, Norm::layer);
  if (const std::size_t kernel = c.count_or("conv_kernel_size", 0); kernel > 0) {
    m.tensors.linear(model + "encoder.conv.conv", kernel * s.hidden, s.hidden, s.tokens,
                     Bias::with);
    m.tensors.norm(model + "encoder.conv.LayerNorm", s.hidden, Norm::layer);
  }
  deberta_heads(in, s, m.tensors);
  layer_of_positions(in, s.hidden, s.tokens, m.tensors);
  m.score_macs = score_macs(s.layers, sequence, sequence, s.hidden);
  // Words' scores with positions: once with each row, and no second time with values.
  const std::size_t kinds = std::size_t{r.of_keys} + std::size_t{r.of_queries};
  m.score_macs += score_macs(s.layers, sequence, kinds * r.rows, s.hidden) / 2;
  // They are added to scores, which no fused kernel of PyTorch's does.
  m.kept_scores = static_cast<double>(heads * s.layers) * s.tokens * s.tokens;
  return m;
}

}  // namespace

const std::vector<ModelFamily>& encoder_families() {
  static const std::vector<Head> usual = {Head::masked, Head::none, Head::classes, Head::spans,
                                          Head::tags};
  static const std::vector<ModelFamily> all = {
      {"bert",
       "Bert",
       {Head::masked, Head::pretraining, Head::none, Head::classes, Head::spans, Head::tags},
       bert,
       "bert-large"},
      {"roberta", "Roberta", usual, roberta, "bert-large"},
      {"xlm-roberta", "XLMRoberta", usual, roberta, "bert-large"},
      {"camembert", "Camembert", usual, roberta, "bert-large"},
      {"electra",
       "Electra",
       {Head::pretraining, Head::masked, Head::none, Head::classes, Head::spans, Head::tags},
       electra,
       "bert-large"},
      {"distilbert", "DistilBert", usual, distilbert, "bert-large"},
      {"deberta-v2",
       "DebertaV2",
       {Head::none, Head::masked, Head::classes, Head::spans, Head::tags},
       deberta_v2,
       "bert-large"},
  };
  return all;
}

}  // namespace foreduce
