// What families share, and the table of all.
#include <fmt/format.h>

#include <algorithm>

#include "models/family_parts.hpp"

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

std::size_t tokens_of_learned(const FamilyInput& in, const char* key, std::size_t context,
                              FamilyModel& m) {
  if (in.sequence > context)
    in.keys.fail(key, fmt::format("the model has {} positions, and --sequence asks for {}", context,
                                  in.sequence));
  return tokens_of_sample(in, context, m);
}

double score_macs(std::size_t layers, std::size_t from, std::size_t to, std::size_t width) {
  return 2.0 * static_cast<double>(layers) * static_cast<double>(from) * static_cast<double>(to) *
         static_cast<double>(width);
}

TensorList::Bias bias_by(const ConfigKeys& c, const char* flag, TensorList::Bias otherwise) {
  const auto there = c.flag(flag);
  if (!there) return otherwise;
  return *there ? TensorList::Bias::with : TensorList::Bias::without;
}

const std::vector<Head>& decoder_heads() {
  static const std::vector<Head> heads = {Head::language, Head::none, Head::classes};
  return heads;
}

const std::vector<std::pair<std::string, Head>>& head_names() {
  static const std::vector<std::pair<std::string, Head>> all = {
      {"ForCausalLM", Head::language},
      {"LMHeadModel", Head::language},
      {"ForConditionalGeneration", Head::language},
      {"ForMaskedLM", Head::masked},
      {"ForPreTraining", Head::pretraining},
      {"ForSequenceClassification", Head::classes},
      {"ForImageClassification", Head::classes},
      {"ForQuestionAnswering", Head::spans},
      {"ForTokenClassification", Head::tags},
      {"Model", Head::none}};
  return all;
}

const std::vector<std::pair<std::string, std::string>>& refused_families() {
  static const std::vector<std::pair<std::string, std::string>> all = [] {
    std::vector<std::pair<std::string, std::string>> refused = {
        {"albert",
         "its layers share their weights, whose gradients are there at the end of backward alone"}};
    for (const char* type : {"mamba", "mamba2", "falcon_mamba", "falcon_h1", "jamba", "bamba",
                             "zamba2", "nemotron_h", "rwkv", "qwen3_next"})
      refused.emplace_back(
          type, "it has layers that pass a state on from token to token, which are no products");
    return refused;
  }();
  return all;
}

const std::vector<ModelFamily>& model_families() {
  static const std::vector<ModelFamily> all = [] {
    std::vector<ModelFamily> families;
    for (const auto* some :
         {&llama_families(), &dense_families(), &mixture_families(), &gpt_families(),
          &encoder_families(), &vision_families(), &two_stack_families()})
      families.insert(families.end(), some->begin(), some->end());
    return families;
  }();
  return all;
}

}  // namespace foreduce
