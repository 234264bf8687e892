#include "input/fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "input/files.hpp"
#include "input/holds.hpp"
#include "input/text_stream.hpp"

namespace foreduce {
namespace {

/// Of a word that is not accepted: what is known of it, else the nearest of those that are.
std::string hint_for(const std::string& word, const std::vector<std::string>& accepted,
                     const std::vector<std::pair<std::string, std::string>>& others) {
  const std::string* said = said_of(word, others);
  return said ? *said : suggest(word, accepted);
}

}  // namespace

const std::string* said_of(const std::string& word,
                           const std::vector<std::pair<std::string, std::string>>& others) {
  const auto means = [&word](const std::string& pattern) {
    if (!pattern.ends_with('*')) return word == pattern;
    const std::size_t length = pattern.size() - 1;
    return word.size() >= length &&
           std::equal(pattern.begin(), pattern.end() - 1, word.begin(), [](char p, char w) {
             return p == static_cast<char>(std::tolower(static_cast<unsigned char>(w)));
           });
  };
  const auto at =
      std::find_if(others.begin(), others.end(), [&](const auto& o) { return means(o.first); });
  return at == others.end() ? nullptr : &at->second;
}

void FieldReader::finish() {
  if (node_.kind != YamlNode::Kind::map) {
    file_.problem(node_.mark, path_, fmt_expected("a map", node_),
                  fmt::format("its keys: {}", fmt::join(known_, ", ")));
    return;
  }
  for (const auto& entry : node_.entries) {
    if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) continue;
    const bool rest = entry.value.kind == YamlNode::Kind::nothing && !entry.key.empty() &&
                      std::isdigit(static_cast<unsigned char>(entry.key.front())) != 0;
    if (rest)
      file_.problem(entry.mark, join(entry.key), kNoSuchKey,
                    "inside { } a comma ends a value: write a list as [1, 2], and a large number "
                    "in quotes or without commas");
    else
      file_.problem(entry.mark, join(entry.key), kNoSuchKey, hint_for(entry.key, known_, hints_));
  }
}

void FieldReader::sources(const char* key) {
  const YamlNode* map = take(key);
  if (!map || map->kind != YamlNode::Kind::map)
    return problem(key, "a map is missing here: the name of each source, and what it is");
  std::vector<std::string> names, used;
  for (const auto& entry : map->entries) {
    names.push_back(entry.key);
    if (entry.value.kind != YamlNode::Kind::scalar || entry.value.text.empty())
      file_.problem(entry.mark, join(key), fmt::format("what is '{}'?", entry.key));
  }
  for (const YamlFile::Citation& c : file_.cited) {
    used.push_back(c.source);
    if (!map->find(c.source))
      problem(c.key, fmt::format("there is no source called '{}'", c.source),
              suggest(c.source, names));
  }
  for (const auto& entry : map->entries)
    if (std::find(used.begin(), used.end(), entry.key) == used.end())
      file_.problem(entry.mark, join(key), fmt::format("nothing cites '{}'", entry.key));
}

void FieldReader::problem(const std::string& key, std::string message, std::string hint) {
  file_.problem(mark_of(key), join(key), std::move(message), std::move(hint));
}

Mark FieldReader::mark_of(const std::string& key) const {
  const YamlNode* at = &node_;
  TextStream words(key);
  for (std::string word; std::getline(words, word, '.');) {
    const auto bracket = std::min(word.find('['), word.size());
    const YamlNode* below = at->find(word.substr(0, bracket));
    if (!below) break;
    at = below;
    if (bracket == word.size()) continue;
    const std::size_t number = std::stoul(word.substr(bracket + 1));
    if (number >= at->items.size()) break;
    at = &at->items[number];
  }
  return at->mark;
}

namespace {

/// Of "1-8" and "1,2,4", which people write for a range and a list.
std::string hint_of_number(const std::string& text) {
  const auto is_plain = [](const std::string& part) {
    return !part.empty() && part.find_first_not_of("0123456789 ") == std::string::npos;
  };
  if (const auto dash = text.find('-', 1); dash != std::string::npos &&
                                           is_plain(text.substr(0, dash)) &&
                                           is_plain(text.substr(dash + 1)))
    return fmt::format("a range is {}..{}", text.substr(0, dash), text.substr(dash + 1));
  if (const auto comma = text.find(',');
      comma != std::string::npos && is_plain(text.substr(0, comma)))
    return fmt::format("a list is [{}]", text);
  return "";
}

}  // namespace

std::string FieldReader::cited(const YamlNode& node, const std::string& path, Sourced kind) {
  if (file_.citations == YamlFile::Citations::none) return node.text;
  const auto at = node.text.rfind(" @");
  if (at == std::string::npos) {
    if (file_.citations == YamlFile::Citations::required && kind == Sourced::measurement)
      file_.problem(node.mark, path, "a number in our data names its source, e.g. '100 Gbps @S2'");
    return node.text;
  }
  const std::string value = node.text.substr(0, node.text.find_last_not_of(' ', at) + 1);
  file_.cited.push_back({path, value, node.text.substr(at + 2)});
  return value;
}

void FieldReader::in_limits(const YamlNode& node, const std::string& path, double value,
                            const std::string& text, const Limits& limits, const NumberKind& kind) {
  const auto written = [&](double limit) {
    return kind.units    ? exact_text(limit, kind.units)
           : limits.unit ? fmt::format("{:.12g} {}", limit, limits.unit)
                         : fmt::format("{:.12g}", limit);
  };
  const bool bounded = limits.most < kind.most,
             is_share = !kind.units && !limits.unit && limits.least >= 0 && limits.most == 1;
  const std::string at_most = bounded ? ", at most " + written(limits.most) : "";
  if (value < limits.least || (value == limits.least && !limits.least_allowed))
    file_.problem(
        node.mark, path,
        limits.least == 0
            ? fmt::format("'{}' is not accepted: it must be {}{}", text,
                          limits.least_allowed ? "zero or more" : "more than zero", at_most)
            : fmt::format("'{}' is too small: at least {}{}", text, written(limits.least),
                          at_most));
  else if (value > 0 && value < kind.least)
    file_.problem(node.mark, path, fmt::format("'{}' is too small", text),
                  fmt::format("at least {}: check the unit", written(kind.least)));
  else if (value > std::min(limits.most, kind.most))
    file_.problem(node.mark, path, fmt::format("'{}' is too large", text),
                  is_share && value <= 100 && !text.ends_with('%')
                      ? fmt::format("at most 1; did you mean '{} %'?", text)
                  : bounded ? "at most " + written(limits.most)
                            : fmt::format("at most {}: check the unit", written(kind.most)));
}

void FieldReader::read_double(const YamlNode& node, double& into, const std::string& path,
                              const Limits& limits, Sourced kind) {
  if (!scalar(node, path, "a number")) return;
  std::string text = cited(node, path, kind);
  if (limits.unit && text.ends_with(limits.unit))
    text.resize(text.find_last_not_of(' ', text.size() - std::strlen(limits.unit) - 1) + 1);
  if (limits.ratio && text.ends_with(":1")) text.resize(text.size() - 2);
  const bool percent = text.size() > 1 && text.ends_with('%');
  std::string why;
  // What has a unit may be a large number, as people write them: "110 thousand tokens/s".
  const bool read =
      limits.unit
          ? parse_quantity(text, UnitsOf<Count>::table, UnitsOf<Count>::kind, into, why)
          : parse_number(
                percent ? text.substr(0, text.find_last_not_of(' ', text.size() - 2) + 1) : text,
                into, why);
  if (!read) {
    into = 0;
    if (limits.unit)
      why = fmt::format("'{}' is not a number of {}, such as 15 or 110 thousand {}", node.text,
                        limits.unit, limits.unit);
    file_.problem(node.mark, path, why, hint_of_number(text));
    return;
  }
  if (percent) into /= 100;
  constexpr NumberKind kPlain;
  in_limits(node, path, into, text, limits, kPlain);
  // Checks across fields take place all the same: a million GPUs shall cost them no memory.
  into = std::clamp(into, limits.least, std::min(limits.most, kPlain.most));
}

void FieldReader::read_quantity(const YamlNode& node, double& into, const std::string& path,
                                const Limits& limits, const NumberKind& kind) {
  if (!scalar(node, path, (std::string("a ") + kind.name).c_str())) return;
  const std::string text = cited(node, path);
  std::string why;
  double value = 0;
  if (!parse_quantity(text, kind.units, kind.name, value, why)) {
    file_.problem(node.mark, path, why);
    return;
  }
  into = value;
  in_limits(node, path, value, text, limits, kind);
}

std::vector<YamlNode> FieldReader::range(const YamlNode& node, const std::string& path) {
  // "1..64:x2", and "1:64:x2" as ranges of sizes are written.
  const auto dots = std::min(node.text.find(".."), node.text.find(':'));
  if (node.kind != YamlNode::Kind::scalar || dots == std::string::npos) return {};
  const std::size_t sign = node.text[dots] == '.' ? 2 : 1;
  const auto colon = std::min(node.text.size(), node.text.find(':', dots + sign));
  const std::string step = node.text.substr(std::min(node.text.size(), colon + 1));
  double low = 0, high = 0, by = 1;
  std::string why;
  const bool read =
      parse_number(node.text.substr(0, dots), low, why) &&
      parse_number(node.text.substr(dots + sign, colon - dots - sign), high, why) &&
      (colon == node.text.size() ||
       ((step.starts_with("x") || step.starts_with("+")) && parse_number(step.substr(1), by, why)));
  const bool factor = step.starts_with("x");
  constexpr double kMostValues = 10000;
  if (!read || low < 1 || high < low || high > 2e9 || by < (factor ? 1.1 : 1) ||
      (!factor && (high - low) / by > kMostValues)) {
    file_.problem(node.mark, path, fmt::format("'{}' is not a rising range", node.text),
                  "e.g. 1..64:x2 (doubling), 2..16:+2 or 1..4");
    return {};
  }
  std::vector<YamlNode> all;
  for (double value = low; value <= high * (1 + 1e-9); value = factor ? value * by : value + by) {
    const std::string text = fmt::format("{:.0f}", value);
    if (!all.empty() && all.back().text == text) continue;
    all.push_back(node);
    all.back().text = text;
  }
  return all;
}

void FieldReader::read_size_range(const YamlNode& node, std::vector<Bytes>& into,
                                  const std::string& path, const Limits& limits) {
  std::string why;
  if (!parse_size_range(node.text, into, why))
    return file_.problem(node.mark, path, why, "e.g. 8B:1GiB:x4, or 1MiB:1GiB (doubling)");
  for (const double end : {into.front().value, into.back().value})
    in_limits(node, path, end, node.text, limits, kind_of<Bytes>());
}

bool FieldReader::is_bare_list(const YamlNode& node) {
  return node.kind == YamlNode::Kind::scalar && node.text.find(',') != std::string::npos &&
         !names_file(node.text);
}

void FieldReader::read_bool(const YamlNode& node, bool& into, const std::string& path) {
  if (!scalar(node, path, "yes or no")) return;
  const std::string text = cited(node, path, Sourced::index);
  if (text == "yes" || text == "true") into = true;
  else if (text == "no" || text == "false") into = false;
  else file_.problem(node.mark, path, fmt::format("'{}' is neither yes nor no", text));
}

/// What begins with a digit is meant as a number: what is wrong with it is said of numbers.
bool FieldReader::read_number_in_place(const YamlNode& node, std::string& into,
                                       const std::string& path, const OneOf& accepted) {
  constexpr const char* kDigits = "0123456789";
  if (node.text.find_first_of(kDigits) != 0) return false;
  if (accepted.or_else == OneOf::Or::patch_release) {
    const auto dot = node.text.rfind('.');
    const std::string release = node.text.substr(0, dot);
    const bool patched = holds(accepted.names, release) && dot + 1 < node.text.size() &&
                         node.text.find_first_not_of(kDigits, dot + 1) == std::string::npos;
    if (patched) into = release;
    return patched;
  }
  if (accepted.or_else == OneOf::Or::size) {
    Bytes size;
    read(node, size, path);
  } else {
    int number = 0;
    read(node, number, path, Limits::between(1, 1e6));
  }
  return true;
}

void FieldReader::read_word(const YamlNode& node, std::string& into, const std::string& path,
                            const OneOf* accepted) {
  if (!scalar(node, path, "a word")) return;
  into = node.text;
  if (into.empty()) {
    file_.problem(node.mark, path, "the value is empty");
    return;
  }
  if (!accepted ||
      std::find(accepted->names.begin(), accepted->names.end(), into) != accepted->names.end())
    return;
  if (accepted->or_file && names_file(into)) return;
  if (accepted->or_else != OneOf::Or::nothing && read_number_in_place(node, into, path, *accepted))
    return;
  file_.problem(node.mark, path, fmt::format("there is no {} called '{}'", accepted->noun, into),
                hint_for(into, accepted->names, accepted->others));
}

}  // namespace foreduce
