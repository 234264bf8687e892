// Reads a map of YAML into a struct by a description of its fields. The same description, visited
// by another class, becomes the JSON Schema: there is one list of keys, not two.
//
//   template <class Fields> void describe(Fields& f, Nic& nic) {
//     f.required("bandwidth", nic.bandwidth, "line rate, one direction");
//     f.optional("latency", nic.latency, "…", Limits::zero_or_more());
//   }
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "input/units.hpp"
#include "input/words.hpp"
#include "input/yaml.hpp"

namespace foreduce {

/// What a number may be, in base units.
struct Limits {
  double least = 0;
  bool least_allowed = false;  ///< whether `least` itself is accepted
  double most = std::numeric_limits<double>::max();
  const char* unit = nullptr;  ///< that may follow the number, e.g. samples/s
  bool ratio = false;          ///< whether "4:1" is accepted for 4

  constexpr Limits in(const char* its_unit) const {
    Limits limits = *this;
    limits.unit = its_unit;
    return limits;
  }
  constexpr Limits or_ratio() const {
    Limits limits = *this;
    limits.ratio = true;
    return limits;
  }
  static constexpr Limits positive() { return {}; }
  static constexpr Limits zero_or_more() { return {0, true}; }
  static constexpr Limits between(double low, double high) { return {low, true, high}; }
  static constexpr Limits at_least(double low) { return {low, true}; }
};

/// A word out of a list; `noun` is what the words are ("algorithm").
struct OneOf {
  const char* noun = "value";
  std::vector<std::string> names;
  bool or_file = false;  ///< also "./path/to/file.yaml"
  /// What else is accepted: a whole number from 1 on, a size with its unit, or a release with its
  /// patch number ("2.20.5" for 2.20), which is read as the release.
  enum class Or : std::uint8_t { nothing, whole_number, size, patch_release };
  Or or_else = Or::nothing;
  /// Words that are not accepted, and what is said of them: what is meant by them here, or why not.
  /// "dgx-h100*" is every word that begins so, whatever its case.
  std::vector<std::pair<std::string, std::string>> others = {};
};
/// What `others` (see OneOf) say of a word; null: nothing.
const std::string* said_of(const std::string& word,
                           const std::vector<std::pair<std::string, std::string>>& others);
/// The words of an enum (input/words.hpp), for a field of that type.
template <HasWords E>
OneOf one_of(const char* noun) {
  return {noun, names_of<E>()};
}

/// One value or a list of values: an axis of a sweep. Whole numbers may be a range: 1..64:x2
/// doubles, 2..16:+2 adds two, 1..4 adds one; and sizes: 8B:1GiB:x4.
template <class T>
struct Axis {
  std::vector<T> values;
  Axis() = default;
  Axis(std::initializer_list<T> v) : values(v) {}
  const T& first() const { return values.front(); }
};

template <class T>
struct IsQuantity : std::false_type {};
template <class K>
struct IsQuantity<Quantity<K>> : std::true_type {};
template <class T>
struct IsAxis : std::false_type {};
template <class T>
struct IsAxis<Axis<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

/// A map of which one key may be written alone: `price: 10 USD/h` for `price: { on_demand: … }`.
template <class T>
concept HasShortForm = requires(T& map) {
  short_form(map);
};

class FieldReader {
 public:
  /// `keys`: whether all that are required must be there, or `into` already holds the others.
  enum class Keys : std::uint8_t { all, some };
  FieldReader(YamlFile& file, const YamlNode& node, std::string path, Keys keys = Keys::all)
      : file_(file), node_(node), path_(std::move(path)), keys_(keys) {}
  FieldReader(const FieldReader&) = delete;
  FieldReader& operator=(const FieldReader&) = delete;

  template <class T, class... Rule>
  void required(const char* key, T& into, const char*, const Rule&... rule) {
    if (const YamlNode* node = take(key)) {
      read(*node, into, join(key), rule...);
    } else if (node_.kind == YamlNode::Kind::map && keys_ == Keys::all) {
      file_.problem(node_.mark, join(key), "this key is missing here");
    }
  }
  /// Leaves `into` alone if the key is not there.
  template <class T, class... Rule>
  void optional(const char* key, T& into, const char*, const Rule&... rule) {
    if (const YamlNode* node = take(key)) read(*node, into, join(key), rule...);
  }
  /// Checks across keys: `check(*this)` may call problem(). Other visitors of the description pass
  /// over it.
  template <class Check>
  void verify(Check check) {
    check(*this);
  }
  /// A map of names to texts, by which the numbers of the file cite their sources: a name that is
  /// cited must be there, and one that is there be cited. Call once, after all numbers.
  void sources(const char* key);
  /// Says what is meant by keys that are none here, as other programs have them.
  void hint(std::initializer_list<const char*> keys, const char* meant) {
    for (const char* key : keys) hints_.emplace_back(key, meant);
  }
  bool has(const char* key) const { return node_.find(key) != nullptr; }
  /// Reports keys that nobody asked for, or that this is no map. Call once, last.
  void finish();

  /// For checks across fields: a problem at the value of `key` (or at the map, if the key is
  /// absent). Below that: "pcie.switches[1].gpus", or as far as the file says that much.
  void problem(const std::string& key, std::string message, std::string hint = {});
  Mark mark_of(const std::string& key) const;
  /// Whether nothing was found wrong with the value at `key`; a word that is refused leaves an enum
  /// as it was.
  bool is_sound(const std::string& key) const { return !file_.tells_of(join(key)); }
  /// What stands at `key`; empty if it is absent or no single value.
  std::string text_of(const char* key) const {
    const YamlNode* node = node_.find(key);
    return node ? node->text : "";
  }
  YamlFile& file() { return file_; }

 private:
  static std::string fmt_expected(const char* what, const YamlNode& node) {
    return std::string("expected ") + what + ", found " + node.kind_name();
  }
  std::string join(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  const YamlNode* take(const char* key) {
    known_.emplace_back(key);
    return node_.find(key);
  }

  bool scalar(const YamlNode& node, const std::string& path, const char* what) {
    if (node.kind == YamlNode::Kind::scalar) return true;
    file_.problem(node.mark, path, fmt_expected(what, node));
    return false;
  }
  /// The value without its citation. An index (a count, a place) may do without one even in our own
  /// data.
  enum class Sourced : std::uint8_t { measurement, index };
  std::string cited(const YamlNode& node, const std::string& path,
                    Sourced kind = Sourced::measurement);
  /// What is known of all numbers of a kind. A plain number has no units.
  struct NumberKind {
    const char* name = "number";
    const Unit* units = nullptr;
    double most = 1e18;  ///< none is larger
    double least = 0;    ///< none but zero is smaller
  };
  template <class Quantity>
  static NumberKind kind_of() {
    return {UnitsOf<Quantity>::kind, UnitsOf<Quantity>::table, kMostOf<Quantity>,
            kLeastOf<Quantity>};
  }
  /// Reports a value, written as `text`, that the field does not accept.
  void in_limits(const YamlNode& node, const std::string& path, double value,
                 const std::string& text, const Limits& limits, const NumberKind& kind);
  void read_double(const YamlNode& node, double& into, const std::string& path,
                   const Limits& limits, Sourced kind);
  void read_quantity(const YamlNode& node, double& into, const std::string& path,
                     const Limits& limits, const NumberKind& kind);
  /// The values of a range such as 1..64:x2; empty if the node is none. Reports a malformed one.
  std::vector<YamlNode> range(const YamlNode& node, const std::string& path);
  /// The same of sizes: 8B:1GiB:x4.
  void read_size_range(const YamlNode& node, std::vector<Bytes>& into, const std::string& path,
                       const Limits& limits);
  static bool is_range(const YamlNode& node) {
    return node.kind == YamlNode::Kind::scalar &&
           (node.text.find("..") != std::string::npos || node.text.find(':') != std::string::npos);
  }
  /// Whether it is meant as a list, which has brackets: "4,8".
  static bool is_bare_list(const YamlNode& node);
  void read_bool(const YamlNode& node, bool& into, const std::string& path);
  void read_word(const YamlNode& node, std::string& into, const std::string& path,
                 const OneOf* accepted);
  bool read_number_in_place(const YamlNode& node, std::string& into, const std::string& path,
                            const OneOf& accepted);

  template <class T, class... Rule>
  void read(const YamlNode& node, T& into, const std::string& path, const Rule&... rule) {
    if constexpr (IsOptional<T>::value) {
      const Keys outer = keys_;
      if (!into) {
        into.emplace();
        keys_ = Keys::all;
      }
      read(node, *into, path, rule...);
      keys_ = outer;
    } else if constexpr (IsAxis<T>::value) {
      into.values.clear();
      if (node.kind == YamlNode::Kind::list) {
        if (node.items.empty())
          file_.problem(node.mark, path, "the list is empty; give at least one value");
        for (const YamlNode& item : node.items) read_values(item, into, path, rule...);
      } else if (is_bare_list(node)) {
        file_.problem(node.mark, path, "'" + node.text + "' is no single value",
                      "a list has brackets: [" + node.text + "]");
      } else {
        read_values(node, into, path, rule...);
      }
      std::set<std::decay_t<decltype(into.first())>>
          seen;  // a value that is named twice counts once
      std::erase_if(into.values, [&seen](const auto& v) { return !seen.insert(v).second; });
    } else if constexpr (IsVector<T>::value) {
      into.clear();
      if (node.kind != YamlNode::Kind::list) {
        file_.problem(node.mark, path, fmt_expected("a list", node));
        return;
      }
      const Keys outer = keys_;
      keys_ = Keys::all;
      for (const YamlNode& item : node.items) read(item, into.emplace_back(), path, rule...);
      keys_ = outer;
    } else if constexpr (IsQuantity<T>::value) {
      read_quantity(node, into.value, path, limits_of(rule...), kind_of<T>());
    } else if constexpr (std::is_same_v<T, bool>) {
      read_bool(node, into, path);
    } else if constexpr (std::is_arithmetic_v<T>) {
      double value = 0;
      read_double(node, value, path, limits_of(rule...),
                  std::is_integral_v<T> ? Sourced::index : Sourced::measurement);
      if constexpr (std::is_integral_v<T>) {
        if (value != std::floor(value)) file_.problem(node.mark, path, "expected a whole number");
        if (std::abs(value) >= 2e9) {
          file_.problem(node.mark, path, "the number is too large");
          value = 0;
        }
      }
      into = static_cast<T>(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      const OneOf* accepted = nullptr;
      if constexpr (sizeof...(rule) == 1) accepted = &(rule, ...);
      read_word(node, into, path, accepted);
    } else if constexpr (HasWords<T>) {
      static_assert(sizeof...(rule) == 1, "an enum is read by one_of<T>(noun)");
      std::string word;
      read_word(node, word, path, &(rule, ...));
      if (const auto value = value_named<T>(word)) into = *value;
    } else {
      if constexpr (HasShortForm<T>)
        if (node.kind == YamlNode::Kind::scalar) {
          into = T{};  // what the map says else is of another value
          return read(node, short_form(into), path);
        }
      FieldReader fields(file_, node, path, keys_);
      describe(fields, into);
      fields.finish();
    }
  }
  template <class T, class... Rule>
  void read_values(const YamlNode& node, Axis<T>& into, const std::string& path,
                   const Rule&... rule) {
    if constexpr (std::is_integral_v<T>) {
      for (const YamlNode& one : range(node, path))
        read(one, into.values.emplace_back(), path, rule...);
      if (is_range(node)) return;  // as its values, or as a problem
    }
    if constexpr (std::is_same_v<T, Bytes>)
      if (is_range(node)) return read_size_range(node, into.values, path, limits_of(rule...));
    read(node, into.values.emplace_back(), path, rule...);
  }
  static Limits limits_of() { return Limits::positive(); }
  static Limits limits_of(const Limits& limits) { return limits; }

  YamlFile& file_;
  const YamlNode& node_;
  std::string path_;
  Keys keys_;
  std::vector<std::string> known_;
  std::vector<std::pair<std::string, std::string>> hints_;  // of other keys
};

/// What is said of an unknown key.
inline constexpr const char* kNoSuchKey = "there is no such key here";

/// Reads a whole file into `into` by its description; throws InputError with all problems. `keys`:
/// whether what is required must be there, or `into` already holds it.
template <class T>
void read_file(YamlFile& file, T& into, FieldReader::Keys keys = FieldReader::Keys::all) {
  FieldReader fields(file, file.root(), "", keys);
  describe(fields, into);
  fields.finish();
  file.throw_if_problems();
}

}  // namespace foreduce
