#include "input/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>

#include "input/files.hpp"
#include "input/text_stream.hpp"

namespace foreduce {
namespace {

constexpr std::uintmax_t kMaxBytes = 1u << 20;
constexpr std::size_t kMaxDepth = 32;

/// Builds our tree from yaml-cpp's events: its own nodes lose the second of two equal keys and the
/// place of a key.
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(YamlFile& file) : file_(file) {}

  YamlNode root;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(make(YamlNode::Kind::nothing, mark, "", anchor));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*name) are not accepted; write the value out");
    add(make(YamlNode::Kind::nothing, mark, "", 0));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = make(YamlNode::Kind::scalar, mark, tag, anchor);
    node.text = value;
    if (tag == "!" && !closed(static_cast<std::size_t>(std::max(0, mark.pos))))
      refuse(mark, "this quote is not closed");
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(make(YamlNode::Kind::list, mark, tag, anchor));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(make(YamlNode::Kind::map, mark, tag, anchor));
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    YamlNode node;
    bool has_key = false;
    YamlNode key;
    std::set<std::string> keys = {};  // of the map so far
  };

  /// Whether the quoted word that begins there ends: yaml-cpp takes the end of the file for the
  /// other quote.
  bool closed(std::size_t begin) const {
    const std::string& text = file_.text();
    if (begin >= text.size() || (text[begin] != '"' && text[begin] != '\'')) return true;
    const char quote = text[begin];
    for (std::size_t i = begin + 1; i < text.size(); ++i) {
      if (quote == '"' && text[i] == '\\') ++i;
      else if (text[i] == quote && (quote == '"' || i + 1 == text.size() || text[i + 1] != quote))
        return true;
      else if (text[i] == quote) ++i;
    }
    return false;
  }

  static Mark place(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }
  void refuse(const YAML::Mark& mark, std::string message) {
    file_.problem(place(mark), "", std::move(message));
  }

  YamlNode make(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
                YAML::anchor_t anchor) {
    if (anchor != 0) refuse(mark, "anchors (&name) are not accepted; write the value out");
    if (!tag.empty() && tag != "?" && tag != "!")
      refuse(mark, fmt::format("tags ({}) are not accepted", tag));
    YamlNode node;
    node.kind = kind;
    node.mark = place(mark);
    return node;
  }

  void open(YamlNode node) {
    if (levels_.size() >= kMaxDepth) {
      file_.problem(node.mark, "", fmt::format("more than {} levels deep", kMaxDepth));
      file_.throw_if_problems();
    }
    levels_.push_back({std::move(node), false, {}});
  }

  void close() {
    YamlNode node = std::move(levels_.back().node);
    levels_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (levels_.empty()) {
      root = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == YamlNode::Kind::list) {
      level.node.items.push_back(std::move(node));
      return;
    }
    if (!level.has_key) {
      if (node.kind != YamlNode::Kind::scalar) file_.problem(node.mark, "", "a key must be a word");
      level.key = std::move(node);
      level.has_key = true;
      return;
    }
    level.has_key = false;
    const bool again = !level.keys.insert(level.key.text).second;
    if (const auto* first = again ? level.node.find(level.key.text) : nullptr;
        first && level.key.kind == YamlNode::Kind::scalar)
      file_.problem(level.key.mark, level.key.text, "this key is given twice",
                    fmt::format("its first value is on line {}", first->mark.line));
    else level.node.entries.push_back({level.key.text, level.key.mark, std::move(node)});
  }

  YamlFile& file_;
  std::vector<Level> levels_;
};

}  // namespace

const YamlNode* YamlNode::find(const std::string& key) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

const char* YamlNode::kind_name() const {
  switch (kind) {
    case Kind::scalar: return "a single value";
    case Kind::list: return "a list";
    case Kind::map: return "a map";
    case Kind::nothing: break;
  }
  return "nothing";
}

YamlFile YamlFile::load(const std::filesystem::path& path) {
  const auto fail = [&](std::string message) {
    return file_error(path.string(), std::move(message));
  };
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw no_such_file(path);
  if (std::filesystem::is_directory(path, error)) throw fail("this is a folder, not a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw fail(fmt::format("cannot be read: {}", std::strerror(errno)));
  return read(path.string(), in);
}

YamlFile YamlFile::read(std::string name, std::istream& in) {
  std::string text;
  std::array<char, 16 * 1024> part;
  while (in && text.size() <= kMaxBytes) {  // of an endless file no more than tells that it is one
    in.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) throw file_error(name, "cannot be read");  // the half that was is not the file
  return parse(std::move(name), std::move(text));
}

namespace {

/// Where a text is not UTF-8; nothing where all of it is (RFC 3629: no overlong forms, no
/// surrogates).
std::optional<std::size_t> where_not_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = [&](std::size_t i) {
      return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
    };
    const unsigned first = byte(at);
    const std::size_t more = first < 0x80                     ? 0
                             : first >= 0xC2 && first <= 0xDF ? 1
                             : first >= 0xE0 && first <= 0xEF ? 2
                             : first >= 0xF0 && first <= 0xF4 ? 3
                                                              : 4;
    if (more == 4) return at;
    for (std::size_t i = 1; i <= more; ++i)
      if ((byte(at + i) & 0xC0) != 0x80) return at;
    const unsigned second = byte(at + 1);
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
      return at;
    at += more + 1;
  }
  return std::nullopt;
}

/// The line and column of a byte.
Mark mark_of(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n') + 1;  // 0 where there is none
  return {static_cast<int>(line) + 1, static_cast<int>(at - start) + 1};
}

/// The tab by which that line, counted from 1, is indented, which YAML does not take.
std::optional<Mark> indenting_tab(std::string_view text, int line) {
  std::size_t start = 0;
  for (int n = 1; n < line; ++n) {
    start = text.find('\n', start);
    if (start++ == std::string_view::npos) return std::nullopt;
  }
  const std::size_t first = text.find_first_not_of(' ', start);
  if (first == std::string_view::npos || text[first] != '\t') return std::nullopt;
  return Mark{line, static_cast<int>(first - start) + 1};
}

}  // namespace

YamlFile YamlFile::parse(std::string name, std::string text) {
  YamlFile file;
  file.name_ = std::move(name);
  if (text.size() > kMaxBytes)
    throw file_error(file.name_,
                     fmt::format("longer than {} bytes; no file of ours is", kMaxBytes));
  if (const auto odd = text.find_first_of(std::string_view("\0\x7f", 2)); odd != std::string::npos)
    throw file_error(file.name_, fmt::format("not a text file (byte {} is not a character)", odd));
  if (text.starts_with("\xEF\xBB\xBF"))
    text.erase(0, 3);  // yaml-cpp skips it, and counts places without it
  if (const auto odd = where_not_utf8(text)) {
    const Mark at = mark_of(text, *odd);
    throw InputError(Problem{
        file.name_, at.line, at.column, "",
        fmt::format("not UTF-8 text (byte 0x{:02x})", static_cast<unsigned char>(text[*odd])),
        "save it as UTF-8", ""});
  }
  file.text_ = std::move(text);
  TextStream in(file.text_);
  Builder builder(file);
  try {
    YAML::Parser parser(in);
    if (!parser.HandleNextDocument(builder)) {
      file.problem({1, 1}, "", "the file is empty");
    } else {
      file.root_ = std::move(builder.root);
      Builder second(file);
      if (parser.HandleNextDocument(second))
        file.problem(second.root.mark, "", "only one document a file is accepted");
    }
  } catch (const YAML::Exception& e) {
    if (const auto tab = indenting_tab(file.text_, e.mark.line + 1))
      file.problem(*tab, "", "not valid YAML: a tab, where spaces indent");
    else
      file.problem({std::max(1, e.mark.line + 1), std::max(1, e.mark.column + 1)}, "",
                   "not valid YAML: " + e.msg);
  }
  file.throw_if_problems();
  return file;
}

namespace {

/// Where an assignment of --set goes: its words, and whether one is a place in a list.
struct PathWord {
  std::string text;
  bool in_list = false;
};

/// "workload.measured[0].mfu" as its words. Throws InputError.
std::vector<PathWord> path_words(const std::string& path, const std::string& assignment) {
  const auto malformed = [&] {
    return input_error(fmt::format("--set: '{}': '{}' is not a key", assignment, path),
                       "e.g. cluster.nodes, or workload.measured[0].mfu in a list");
  };
  std::vector<PathWord> words;
  TextStream keys(path);
  for (std::string key; std::getline(keys, key, '.');) {
    const auto bracket = std::min(key.find_first_of("[]"), key.size());
    if (bracket == 0 && (words.empty() || key.empty())) throw malformed();
    if (bracket > 0) words.push_back({key.substr(0, bracket)});
    for (auto at = bracket; at < key.size();) {
      const auto end = key.find(']', at);
      if (key[at] != '[' || end == std::string::npos) throw malformed();
      words.push_back({key.substr(at + 1, end - at - 1), true});
      at = end + 1;
    }
  }
  if (words.empty() || path.ends_with('.')) throw malformed();
  return words;
}

/// The element of a list of that number.
YamlNode& element(YamlNode& list, const std::string& number, const std::string& assignment) {
  std::size_t at = 0;
  const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), at);
  if (error != std::errc() || stop != number.data() + number.size() || at >= list.items.size())
    throw input_error(fmt::format("--set: '{}': there is no element '{}' in a list of {}",
                                  assignment, number, list.items.size()),
                      list.items.empty() ? "" : fmt::format("0 to {}", list.items.size() - 1));
  return list.items[at];
}

/// What a value is of a file: it is in no line of it.
void unplace(YamlNode& node) {
  node.mark = {0, 0};
  for (YamlNode& item : node.items) unplace(item);
  for (YamlNode::Entry& entry : node.entries) {
    entry.mark = {0, 0};
    unplace(entry.value);
  }
}

}  // namespace

void YamlFile::set(const std::string& assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    throw input_error(fmt::format("--set: '{}' is not KEY=VALUE", assignment),
                      "e.g. --set cluster.nodes=4");
  const std::string path = assignment.substr(0, equals), text = assignment.substr(equals + 1);
  if (text.find_first_not_of(" \t") == std::string::npos)
    throw input_error(fmt::format("--set: '{}' gives {} no value", assignment, path),
                      "e.g. --set cluster.nodes=4");
  YamlNode value = parse("--set " + assignment, text).root_;
  unplace(value);
  YamlNode* at = &root_;
  std::string so_far;
  for (const PathWord& word : path_words(path, assignment)) {
    const bool absent = at->kind == YamlNode::Kind::nothing;
    if (absent && !word.in_list) at->kind = YamlNode::Kind::map;
    if (at->kind == YamlNode::Kind::list) {
      at = &element(*at, word.text, assignment);
    } else if (word.in_list || at->kind != YamlNode::Kind::map) {
      throw absent
          ? input_error(fmt::format("--set: '{}': there is no list {}", assignment, so_far),
                        fmt::format("set all of it: {}=[…]", so_far))
          : input_error(fmt::format("--set: '{}': {} is {}{}", assignment, so_far, at->kind_name(),
                                    word.in_list ? ", not a list" : ", not a map"));
    } else {
      auto found = std::find_if(at->entries.begin(), at->entries.end(),
                                [&](const YamlNode::Entry& e) { return e.key == word.text; });
      if (found == at->entries.end()) {
        YamlNode fresh;
        fresh.mark = {0, 0};
        found = at->entries.insert(found, {word.text, {0, 0}, std::move(fresh)});
      }
      at = &found->value;
    }
    so_far += word.in_list ? "[" + word.text + "]" : (so_far.empty() ? "" : ".") + word.text;
  }
  *at = std::move(value);
}

bool YamlFile::tells_of(const std::string& key) const {
  return std::any_of(problems_.begin(), problems_.end(),
                     [&](const Problem& p) { return p.key == key; });
}

void YamlFile::problem(Mark mark, std::string key, std::string message, std::string hint) {
  constexpr std::size_t kMostTold = 100;
  if (problems_.size() >= kMostTold) {
    ++untold_;
    return;
  }
  if (line_begins_.empty()) {
    line_begins_.push_back(0);
    for (std::size_t i = 0; i < text_.size(); ++i)
      if (text_[i] == '\n') line_begins_.push_back(i + 1);
  }
  std::string excerpt;
  if (mark.line >= 1 && static_cast<std::size_t>(mark.line) <= line_begins_.size()) {
    const std::size_t begin = line_begins_[static_cast<std::size_t>(mark.line) - 1];
    excerpt = text_.substr(begin, std::min(text_.find('\n', begin), text_.size()) - begin);
  }
  if (!excerpt.empty() && excerpt.back() == '\r') excerpt.pop_back();
  std::replace(excerpt.begin(), excerpt.end(), '\t', ' ');
  problems_.push_back({name_, mark.line, mark.column, std::move(key), std::move(message),
                       std::move(hint), excerpt});
}

void YamlFile::throw_if_problems() const {
  if (problems_.empty()) return;
  auto sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem& a, const Problem& b) {
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  });
  if (untold_ > 0)
    sorted.push_back({name_, 0, 0, "", fmt::format("and {} more mistakes", untold_), "", ""});
  throw InputError(std::move(sorted));
}

}  // namespace foreduce
