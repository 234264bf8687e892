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

/// A decoder's usual heads.
const std::vector<Head>& decoder_heads();

}  // namespace foreduce
