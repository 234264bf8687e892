#include "scenarios/sweep/element_types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "input/problem.hpp"

namespace foreduce {

const std::vector<std::string>& type_names() {
  static const std::vector<std::string> kNames = {"f32", "f64", "f16", "bf16", "i32"};
  return kNames;
}

std::string type_name_of(const std::string& word) {
  static const std::map<std::string, std::string> kOthers = {
      {"fp32", "f32"},      {"float", "f32"}, {"float32", "f32"}, {"double", "f64"},
      {"float64", "f64"},   {"fp16", "f16"},  {"half", "f16"},    {"float16", "f16"},
      {"bfloat16", "bf16"}, {"int32", "i32"}};
  std::string name = word;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (const auto other = kOthers.find(name); other != kOthers.end()) return other->second;
  const auto& names = type_names();
  return std::find(names.begin(), names.end(), name) == names.end() ? "" : name;
}

Type type_named(const std::string& name) {
  static const std::map<std::string, Type> kTypes = {{"f32", Type::f32},
                                                     {"f64", Type::f64},
                                                     {"f16", Type::f16},
                                                     {"bf16", Type::bf16},
                                                     {"i32", Type::i32}};
  const auto type = kTypes.find(type_name_of(name));
  if (type == kTypes.end())
    throw input_error(fmt::format("there is no element type '{}'", name),
                      suggest(name, type_names()));
  return type->second;
}

}  // namespace foreduce
