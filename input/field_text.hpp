// Visits the description of a struct's fields and writes all their values exactly: equal texts mean
// equal structs (input/fields.hpp's other twin).
#pragma once

#include <fmt/format.h>

#include "input/fields.hpp"

namespace foreduce {

class FieldText {
 public:
  template <class T>
  static std::string of(T& value) {
    FieldText fields;
    describe(fields, value);
    return std::move(fields.text_);
  }
  template <class T, class... Rule>
  void required(const char* key, T& value, const char*, const Rule&...) {
    text_ += key;
    text_ += '=';
    put(value);
  }
  template <class T, class... Rule>
  void optional(const char* key, T& value, const char* doc, const Rule&...) {
    required(key, value, doc);
  }
  template <class Check>
  void verify(Check) {}

 private:
  template <class T>
  void put(T& value) {
    if constexpr (IsOptional<T>::value) {
      if (value) put(*value);
      else text_ += "none;";
    } else if constexpr (IsVector<T>::value) {
      text_ += fmt::format("[{};", value.size());
      for (auto& item : value) put(item);
    } else if constexpr (std::is_same_v<T, std::string>) {
      text_ += fmt::format("{}:{};", value.size(), value);
    } else if constexpr (HasWords<T>) {
      std::string word = to_text(value);
      put(word);
    } else if constexpr (IsQuantity<T>::value) {
      text_ += fmt::format("{:a};", value.value);
    } else if constexpr (std::is_floating_point_v<T>) {
      text_ += fmt::format("{:a};", value);
    } else if constexpr (std::is_arithmetic_v<T>) {
      text_ += fmt::format("{};", static_cast<long long>(value));
    } else {
      text_ += '{';
      describe(*this, value);
      text_ += '}';
    }
  }

  std::string text_;
};

}  // namespace foreduce
