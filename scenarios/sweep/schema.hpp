// Visits the description of a struct's fields and writes the JSON Schema: the reader's twin
// (input/fields.hpp).
#pragma once

#include <nlohmann/json.hpp>

#include "input/fields.hpp"

namespace foreduce {

class SchemaFields {
 public:
  using Json = nlohmann::ordered_json;

  template <class T>
  static Json of(T& value) {
    SchemaFields fields;
    describe(fields, value);
    Json schema = {
        {"type", "object"}, {"additionalProperties", false}, {"properties", fields.properties_}};
    if (!fields.required_.empty()) schema["required"] = fields.required_;
    return schema;
  }

  template <class T, class... Rule>
  void required(const char* key, T& value, const char* doc, const Rule&... rule) {
    required_.push_back(key);
    optional(key, value, doc, rule...);
  }
  template <class T, class... Rule>
  void optional(const char* key, T& value, const char* doc, const Rule&... rule) {
    Json schema = schema_of(value, rule...);
    schema["description"] = doc;
    properties_[key] = std::move(schema);
  }
  template <class Check>
  void verify(Check) {}  // checks across keys are not for editors

 private:
  template <class T, class... Rule>
  static Json schema_of(T& value, const Rule&... rule) {
    if constexpr (IsOptional<T>::value) {
      typename T::value_type inner{};
      return schema_of(inner, rule...);
    } else if constexpr (IsAxis<T>::value) {
      typename std::decay_t<decltype(value.values)>::value_type one{};
      const Json item = schema_of(one, rule...);
      return {{"anyOf",
               Json::array({item, Json{{"type", "array"}, {"minItems", 1}, {"items", item}}})}};
    } else if constexpr (IsVector<T>::value) {
      typename T::value_type one{};
      return {{"type", "array"}, {"items", schema_of(one, rule...)}};
    } else if constexpr (IsQuantity<T>::value) {
      std::string units;
      for (const Unit* u = UnitsOf<T>::table; u->spelling; ++u)
        if (*u->spelling) units += (units.empty() ? "" : "|") + std::string(u->spelling);
      const Json text = {{"type", "string"}, {"pattern", "^[0-9][0-9.eE+-]* *(" + units + ")$"}};
      if (*UnitsOf<T>::table->spelling) return text;
      return {{"anyOf", Json::array({text, number(NumberKind::real)})}};
    } else if constexpr (std::is_same_v<T, bool>) {
      return {{"enum", Json::array({"yes", "no", true, false})}};
    } else if constexpr (std::is_arithmetic_v<T>) {
      return number(std::is_integral_v<T> ? NumberKind::whole : NumberKind::real, rule...);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return word(rule...);
    } else {
      return of(value);
    }
  }
  enum class NumberKind { whole, real };
  static Json number(NumberKind kind, const Limits& limits = Limits::positive()) {
    Json schema = {{"type", kind == NumberKind::whole ? "integer" : "number"}};
    schema[limits.least_allowed ? "minimum" : "exclusiveMinimum"] = limits.least;
    if (limits.most < 1e300) schema["maximum"] = limits.most;
    return schema;
  }
  static Json word() { return {{"type", "string"}}; }
  static Json word(const OneOf& accepted) {
    if (!accepted.or_file) return {{"enum", accepted.names}};
    return {{"anyOf", Json::array({Json{{"enum", accepted.names}},
                                   Json{{"type", "string"}, {"pattern", "/|\\.yaml$"}}})}};
  }

  Json properties_ = Json::object();
  std::vector<std::string> required_;
};

}  // namespace foreduce
