// What Llama's many descendants have in common: their shape in config.json, and the order in which
// they register their tensors (modeling_llama.py of huggingface/transformers).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/family_parts.hpp"

namespace foreduce {

/// What of a decoder's config.json its tensors depend on.
struct LlamaShape {
  std::size_t hidden, layers, heads, kv_heads, head_size, inner, vocabulary, tokens;
};

/// Writes down a layer's feed-forward part. `block`: what its tensors' names begin with.
using FeedForward = std::function<void(const ConfigKeys&, const LlamaShape&, std::size_t layer,
                                       const std::string& block, TensorList&)>;

/// What sets one of Llama's descendants apart.
struct LlamaKind {
  using Norm = TensorList::Norm;
  enum class HeadNorms : std::uint8_t {
    none,
    each_head,  ///< queries and keys are normalised head by head (Qwen3)
    all_heads   ///< all of a token's together (OLMoE)
  };
  /// Writes down a layer's attention, and returns the forward multiply-adds of its scores and their
  /// use for a sample that attends to so many tokens.
  using Attention = double (*)(const ConfigKeys&, const LlamaShape&, std::size_t attended,
                               const std::string& of, TensorList&);

  bool query_bias = false, output_bias = false;  ///< of queries, keys and values, whatever the file
                                                 ///< says; of attention's output
  const char* bias_key = "attention_bias";       ///< key of attention's biases
  bool bias = false;                             ///< whether it has them where that is missing
  bool bias_of_output = true;                    ///< whether they are of the output too
  HeadNorms head_norms = HeadNorms::none;
  Norm norm = Norm::rms;
  std::vector<const char*> norms = {"input_layernorm", "post_attention_layernorm"};  ///< of a block
  const char* last_norm = "norm";  ///< null: it has no parameters
  bool tied = false;  ///< whether the output layer is the embedding where config.json does not say
  bool bias_of_head = false;      ///< whether the output layer has one
  std::size_t head_size = 0;      ///< where config.json does not say; 0: hidden / heads
  bool windows = false;           ///< whether sliding_window holds without use_sliding_window
  std::size_t wide_every = 0;     ///< of so many layers the last has no window; 0: all have one
  bool sinks = false;             ///< whether each head has a learnt one (gpt-oss)
  Attention attention = nullptr;  ///< where it is another one
};

/// A model of that kind.
FamilyModel llama_like(const FamilyInput& in, const LlamaKind& kind, const FeedForward& mlp);

/// One feed-forward layer with a gate.
void gated_mlp(const std::string& of, std::size_t hidden, std::size_t inner, double positions,
               TensorList::Bias bias, TensorList& t);
/// Llama's feed-forward part, which is one of those.
void dense_mlp(const ConfigKeys& c, const LlamaShape& s, std::size_t layer,
               const std::string& block, TensorList& t);

}  // namespace foreduce
