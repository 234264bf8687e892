#include "scenarios/sweep/element_types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "input/problem.hpp"

namespace foreduce {

std::optional<Type> type_of_word(const std::string& word) {
  static const std::map<std::string, Type> kOthers = {
      {"fp32", Type::f32},   {"float", Type::f32},   {"float32", Type::f32},
      {"double", Type::f64}, {"float64", Type::f64}, {"fp16", Type::f16},
      {"half", Type::f16},   {"float16", Type::f16}, {"bfloat16", Type::bf16},
      {"int32", Type::i32}};
  std::string name = word;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (const auto other = kOthers.find(name); other != kOthers.end()) return other->second;
  return value_named<Type>(name);
}

Type type_named(const std::string& name) {
  if (const auto type = type_of_word(name)) return *type;
  throw input_error(fmt::format("there is no element type '{}'", name),
                    suggest(name, names_of<Type>()));
}

}  // namespace foreduce
