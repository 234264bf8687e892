// Visits the description of a struct's fields and writes the JSON Schema: the reader's twin
// (input/fields.hpp).
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>

#include "input/fields.hpp"

namespace foreduce {

/// Matches a release with its patch number, see OneOf::Or::patch_release.
inline constexpr const char* kPatchRelease = "^[0-9]+[.][0-9]+[.][0-9]+$";

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
      const auto list_of = [](const Json& items) {
        return Json{{"type", "array"}, {"minItems", 1}, {"items", items}};
      };
      if constexpr (std::is_integral_v<decltype(one)> || std::is_same_v<decltype(one), Bytes>) {
        const Json range = {{"type", "string"},
                            {"pattern", std::is_same_v<decltype(one), Bytes> ? kSizes : kRange}};
        return {{"anyOf",
                 Json::array({item, range, list_of({{"anyOf", Json::array({item, range})}})})}};
      }
      return {{"anyOf", Json::array({item, list_of(item)})}};
    } else if constexpr (IsVector<T>::value) {
      typename T::value_type one{};
      return {{"type", "array"}, {"items", schema_of(one, rule...)}};
    } else if constexpr (IsQuantity<T>::value) {
      const Json text = {{"type", "string"}, {"pattern", pattern_of(UnitsOf<T>::table)}};
      if (*UnitsOf<T>::table->spelling) return text;
      return {{"anyOf", Json::array({text, number(NumberKind::real)})}};
    } else if constexpr (std::is_same_v<T, bool>) {
      return {{"enum", Json::array({"yes", "no", true, false})}};
    } else if constexpr (std::is_arithmetic_v<T>) {
      return number(std::is_integral_v<T> ? NumberKind::whole : NumberKind::real, rule...);
    } else if constexpr (std::is_same_v<T, std::string> || HasWords<T>) {
      return word(rule...);
    } else if constexpr (HasShortForm<T>) {
      return {{"anyOf", Json::array({schema_of(short_form(value)), of(value)})}};
    } else {
      return of(value);
    }
  }
  /// Numbers with one of the offered units, or with another spelling of one; "$500" for money.
  static std::string pattern_of(const Unit* table) {
    std::string offered, accepted, money;
    for (const Unit* u = table; u->spelling; ++u) {
      std::string spelling = u->spelling;
      if (const auto sign = spelling.find('$'); sign != std::string::npos) {
        money += (money.empty() ? "" : "|") + spelling.substr(sign + 1);
        spelling.replace(sign, 1, "[$]");
      }
      std::string& into = u->offered ? offered : accepted;
      if (!spelling.empty()) into += (into.empty() ? "" : "|") + spelling;
    }
    const std::string digits = groups_thousands(table) ? "[0-9,." : "[0-9.",
                      number = "^[0-9]" + digits + "eE+-]* *(";
    return number + offered + ")$" + (accepted.empty() ? "" : "|" + number + accepted + ")$") +
           (money.empty() ? "" : "|^[$]" + digits + "]+(" + money + ")$");
  }
  static constexpr const char* kRange = "^[0-9]+[.][.][0-9]+(:[x+][0-9.]+)?$";
  static constexpr const char* kSizes = "^[0-9][^:]*(:|[.][.])[0-9][^:]*(:x[0-9.]+)?$";
  enum class NumberKind { whole, real };
  static Json number(NumberKind kind, const Limits& limits = Limits::positive()) {
    Json schema = {{"type", kind == NumberKind::whole ? "integer" : "number"}};
    schema[limits.least_allowed ? "minimum" : "exclusiveMinimum"] = limits.least;
    if (limits.most < 1e300) schema["maximum"] = limits.most;
    const bool part = kind == NumberKind::real && limits.most <= 1;
    if (!part && !limits.unit && !limits.ratio) return schema;
    std::string counts;
    for (const Unit* u = UnitsOf<Count>::table; u->spelling; ++u)
      counts += (counts.empty() ? "" : "|") + std::string(u->spelling);
    const std::string large = "^[0-9][0-9.,]* ?(" + counts + ")?",
                      text_of = limits.unit ? large + " *(" + limits.unit + ")$|" + large + "$"
                                            : std::string("^[0-9][0-9.]* *(") +
                                                  (limits.ratio ? ":1" : "%") + ")$";
    const Json text = {{"type", "string"}, {"pattern", text_of}};
    return {{"anyOf", Json::array({schema, text})}};
  }
  static Json word() { return {{"type", "string"}}; }
  static Json word(const OneOf& accepted) {
    if (accepted.or_else == OneOf::Or::whole_number)
      return {{"anyOf", Json::array({number(NumberKind::whole, Limits::between(1, 1e6)),
                                     Json{{"enum", accepted.names}}})}};
    if (accepted.or_else == OneOf::Or::size) {
      Bytes size;
      return {{"anyOf", Json::array({Json{{"enum", accepted.names}}, schema_of(size)})}};
    }
    if (accepted.or_else == OneOf::Or::patch_release)
      return {{"anyOf", Json::array({Json{{"enum", accepted.names}},
                                     Json{{"type", "string"}, {"pattern", kPatchRelease}}})}};
    Json words = accepted.names;
    if (std::find(words.begin(), words.end(), "yes") != words.end())
      words.insert(words.end(), {true, false});
    if (!accepted.or_file) return {{"enum", words}};
    return {
        {"anyOf", Json::array({Json{{"enum", accepted.names}},
                               Json{{"type", "string"}, {"pattern", "/|\\.(yaml|xml|json)$"}}})}};
  }

  Json properties_ = Json::object();
  std::vector<std::string> required_;
};

}  // namespace foreduce
