// What the functions of several families are made of.
#pragma once

#include <string>

#include "models/model_families.hpp"

namespace foreduce {

/// As tokens_of_sample, where positions are parameters, so that there are no more of them.
std::size_t tokens_of_learned(const FamilyInput& in, const char* key, std::size_t context,
                              FamilyModel& m);

/// Scores of all pairs of so many positions, and their use, in so many layers.
double score_macs(std::size_t layers, std::size_t from, std::size_t to, std::size_t width);

/// Whether matrices have a bias, by a flag of config.json.
TensorList::Bias bias_by(const ConfigKeys& c, const char* flag, TensorList::Bias otherwise);

/// A block of an encoder with biases, as BERT and ViT have it.
struct EncoderBlock {
  /// What the names of queries begin with, those of the others being as long; the output's name;
  /// the norm's behind it, of which null says that all norms come last (ViT).
  const char *query, *output, *norm_of_attention;
};
void encoder_block(const std::string& of, const EncoderBlock& names, std::size_t hidden,
                   std::size_t inner, double positions, TensorList::Bias query_bias, TensorList& t);

/// A decoder's usual heads.
const std::vector<Head>& decoder_heads();

}  // namespace foreduce
