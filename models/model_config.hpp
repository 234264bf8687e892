// A workload from a model's own description: Hugging Face's config.json, or its size alone.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/workload.hpp"

namespace foreduce {

/// A workload that was made from a description, and what a reader of it must know.
struct DescribedModel {
  Workload workload;
  std::string architecture;        ///< the class that holds the tensors: "LlamaForCausalLM"
  std::vector<std::string> notes;  ///< what the description did not tell, and what stands for it
};

/// What may be chosen where a description leaves it open.
struct DescriptionChoices {
  std::string name;  ///< of the workload; empty: the model's own, else the file's
  int sequence = 0;  ///< tokens of a sample; 0: the model's context, at most 8192
};

/// Reads a config.json of Hugging Face's transformers and writes down the tensors that its class
/// registers there (modeling_*.py): names, order, elements, and the forward multiply-accumulates of
/// one sample. Buffers and copies of tied weights are no parameters. Throws InputError for what is
/// no such file, for a key that is missing or out of range, and for an unknown architecture with
/// the known ones.
DescribedModel workload_from_config(const std::filesystem::path& config,
                                    const DescriptionChoices& choices);

/// What is known of a decoder of which nothing was published but its size.
struct ModelSize {
  Count parameters;
  int layers = 0, hidden = 0, vocabulary = 32000;
};
/// A decoder of that size, otherwise as Llama's: the width of its feed-forward layers is what gives
/// the parameters. Throws InputError for a size that no such width gives.
DescribedModel workload_from_size(const ModelSize& size, const DescriptionChoices& choices);

/// The architectures that are known, as config.json names them in model_type.
std::vector<std::string> known_architectures();

}  // namespace foreduce
