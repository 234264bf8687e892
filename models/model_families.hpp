// The tensors of the model families of Hugging Face's transformers, from their configurations.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/tensor_list.hpp"

namespace foreduce {

/// The keys of a config.json with their types and limits. Throws InputError with file and key.
class ConfigKeys {
 public:
  /// `within`: the part of the file that the keys are of, as "text_config."
  ConfigKeys(std::string file, nlohmann::json keys, std::string within = {})
      : file_(std::move(file)), keys_(std::move(keys)), within_(std::move(within)) {}

  /// A whole number from 1 to a million, of which three can be multiplied; null counts as missing.
  std::size_t whole(const char* key) const;
  std::size_t whole_or(const char* key, std::size_t otherwise) const;
  /// That of the first of several names that is there, of which the last is the usual one.
  std::size_t whole_of(std::initializer_list<const char*> keys) const;
  /// Of a model's context, which may be longer.
  std::size_t context_or(const char* key, std::size_t otherwise) const;
  /// The same, which may be 0.
  std::size_t count_or(const char* key, std::size_t otherwise) const;
  /// The same where 0 and -1 stand for none.
  std::size_t above_0_or(const char* key, std::size_t otherwise) const;
  /// A list of whole numbers or of words; empty if it is missing.
  std::vector<std::size_t> numbers(const char* key) const;
  std::vector<std::string> words(const char* key) const;
  bool is_set(const char* key) const { return keys_.contains(key) && !keys_.at(key).is_null(); }
  std::optional<bool> flag(const char* key) const;
  std::string word(const char* key, const std::string& otherwise) const;
  /// The keys of an object in it; none if it is missing.
  ConfigKeys part(const char* key) const;
  /// The same with what a family's class has for keys that are missing.
  ConfigKeys with(nlohmann::json defaults) const;
  /// Whether a text, or one of a list of words, has that in it.
  bool mentions(const char* key, const std::string& word) const;
  /// Throws where there are more layers than any model has.
  void limit_layers() const;
  /// How many classes a head tells apart: id2label, else num_labels, else transformers' 2.
  std::size_t labels() const;
  /// The class in `architectures`; empty if there is none.
  std::string architecture() const;
  [[noreturn]] void fail(const char* key, std::string message, std::string hint = {}) const;

 private:
  std::size_t whole_to(const char* key, std::size_t most) const;

  std::string file_;
  nlohmann::json keys_;
  std::string within_;  ///< "vision_config."
};

/// What stands on a model's last layer, by the end of its class's name.
enum class Head : std::uint8_t {
  none,
  language,
  masked,
  pretraining,
  classes,
  spans,  ///< whether an answer begins or ends at each position
  tags    ///< a class for each position
};

/// A model as a family's function makes it.
struct FamilyModel {
  TensorList tensors;
  std::string sample;      ///< "4096 tokens"
  double score_macs = 0;   ///< forward multiply-adds of attention scores and their use, per sample
  double kept_scores = 0;  ///< see Workload::attention_scores
  std::optional<Experts> experts;
  std::vector<std::string> notes;
};

/// What a function makes a model from: `sequence` 0 is the model's own.
struct FamilyInput {
  const ConfigKeys& keys;
  Head head = Head::none;
  std::size_t sequence = 0;
};

/// Tokens of a sample: what was asked for, else the model's context, at most 8192. Puts the
/// sample's name and what is to be said of it into `m`.
std::size_t tokens_of_sample(const FamilyInput& in, std::size_t context, FamilyModel& m);

/// One family of models.
struct ModelFamily {
  const char* type;          ///< model_type of config.json
  const char* class_prefix;  ///< of its classes: "Llama"
  std::vector<Head> heads;   ///< the usual first
  FamilyModel (*make)(const FamilyInput&);
  const char* estimate_from;  ///< the shipped workload whose `estimate` the family uses
};
const std::vector<ModelFamily>& model_families();
/// Values of model_type whose models nothing here describes as they are, and why not.
const std::vector<std::pair<std::string, std::string>>& refused_families();
/// Of these Llama and what was made from it.
const std::vector<ModelFamily>& llama_families();
/// More that are made as Llama is, of dense layers.
const std::vector<ModelFamily>& dense_families();
/// Those of mixtures of experts.
const std::vector<ModelFamily>& mixture_families();
/// Other decoders.
const std::vector<ModelFamily>& gpt_families();
const std::vector<ModelFamily>& encoder_families();
const std::vector<ModelFamily>& vision_families();
/// Those of an encoder and a decoder.
const std::vector<ModelFamily>& two_stack_families();

/// Ends of the names of classes, and the heads that they mean.
const std::vector<std::pair<std::string, Head>>& head_names();

}  // namespace foreduce
