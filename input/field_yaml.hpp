// Visits the description of a struct's fields and writes them as YAML that reads back as the same
// struct (input/fields.hpp's other twin).
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "input/fields.hpp"

namespace foreduce {

/// The shortest text with a unit that reads back as exactly this quantity.
template <class Q>
std::string exact_text(const Q& quantity) {
  return exact_text(quantity.value, UnitsOf<Q>::table);
}

/// One key of a file.
struct YamlLine {
  std::string path;    ///< "gpu.memory"
  std::string indent;  ///< spaces before the key
  std::string key;
  std::string value;      ///< on the key's line; empty: what follows is below it
  bool quantity = false;  ///< whether it is a number of something, which may cite a source
};

class FieldYaml {
 public:
  /// All keys that have a value, in the order of the description. What is optional and zero or
  /// empty is left out.
  template <class T>
  static std::vector<YamlLine> of(T& value) {
    FieldYaml fields("", "");
    describe(fields, value);
    return std::move(fields.lines_);
  }
  template <class T, class... Rule>
  void required(const char* key, T& value, const char*, const Rule&...) {
    put(key, value);
  }
  template <class T, class... Rule>
  void optional(const char* key, T& value, const char*, const Rule&...) {
    if (!nothing(value)) put(key, value);
  }
  template <class Check>
  void verify(Check) {}

 private:
  FieldYaml(std::string path, std::string indent)
      : path_(std::move(path)), indent_(std::move(indent)) {}

  template <class T>
  static bool nothing(const T& value) {
    if constexpr (IsOptional<T>::value) return !value;
    else if constexpr (IsVector<T>::value || std::is_same_v<T, std::string>) return value.empty();
    else if constexpr (IsQuantity<T>::value) return value.value == 0;
    else if constexpr (std::is_same_v<T, bool>) return false;
    else if constexpr (std::is_arithmetic_v<T>) return value == 0;
    else return false;
  }
  static std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
  /// A value on one line.
  template <class T>
  static std::string inline_text(T& value) {
    if constexpr (IsVector<T>::value) {
      std::string all;
      for (auto& item : value) all += (all.empty() ? "" : ", ") + inline_text(item);
      return "[" + all + "]";
    } else if constexpr (std::is_same_v<T, std::string>) {
      return quoted(value);
    } else if constexpr (HasWords<T>) {
      return quoted(to_text(value));
    } else if constexpr (IsQuantity<T>::value) {
      return exact_text(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      return value ? "yes" : "no";
    } else if constexpr (std::is_arithmetic_v<T>) {
      return fmt::format("{}", value);
    } else {
      FieldYaml fields("", "");
      describe(fields, value);
      std::string all;
      for (const YamlLine& line : fields.lines_)
        all += (all.empty() ? "" : ", ") + line.key + ": " + line.value;
      return "{ " + all + " }";
    }
  }
  template <class T>
  void put(const char* key, T& value) {
    const std::string path = path_.empty() ? key : path_ + "." + key;
    if constexpr (IsOptional<T>::value) {
      if (value) put(key, *value);
    } else if constexpr (IsVector<T>::value || std::is_same_v<T, std::string> ||
                         std::is_arithmetic_v<T> || IsQuantity<T>::value || HasWords<T>) {
      if constexpr (IsVector<T>::value) {
        if (!value.empty() && !std::is_arithmetic_v<typename T::value_type> &&
            !std::is_same_v<typename T::value_type, std::string>) {
          lines_.push_back({path, indent_, key, "", false});
          for (auto& item : value)
            lines_.push_back({path + "[]", indent_ + "  ", "-", inline_text(item), false});
          return;
        }
      }
      const bool number = IsQuantity<T>::value ||
                          (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) ||
                          std::is_same_v<T, bool>;
      lines_.push_back({path, indent_, key, inline_text(value), number});
    } else {
      lines_.push_back({path, indent_, key, "", false});
      FieldYaml below(path, indent_ + "  ");
      describe(below, value);
      lines_.insert(lines_.end(), below.lines_.begin(), below.lines_.end());
    }
  }

  std::string path_, indent_;
  std::vector<YamlLine> lines_;
};

}  // namespace foreduce
