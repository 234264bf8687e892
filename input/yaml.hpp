// The one reader of YAML. Everything is checked and all mistakes of a file are reported at once, in
// order. Stricter than YAML on purpose: no anchors or aliases, no doubled keys, no tags, one
// document, 1 MiB, 32 levels.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "input/problem.hpp"

namespace foreduce {

/// A place in a file, counted from 1.
struct Mark {
  int line = 1, column = 1;
};

/// A YAML value with its place.
struct YamlNode {
  enum class Kind { nothing, scalar, list, map };
  struct Entry;
  Kind kind = Kind::nothing;
  Mark mark;
  std::string text;             // scalar
  std::vector<YamlNode> items;  // list
  std::vector<Entry> entries;   // map, in the file's order

  const YamlNode* find(const std::string& key) const;
  const char* kind_name() const;
};
struct YamlNode::Entry {
  std::string key;
  Mark mark;
  YamlNode value;
};

/// A parsed file and the problems found in it so far.
class YamlFile {
 public:
  /// Reads and parses; throws InputError for an unreadable, over-long or malformed file.
  static YamlFile load(const std::filesystem::path& path);
  /// The same from a stream; `name` stands in messages.
  static YamlFile read(std::string name, std::istream& in);
  /// Parses text that came from elsewhere; `name` stands in messages, relative paths start at the
  /// working directory.
  static YamlFile parse(std::string name, std::string text);

  const YamlNode& root() const { return root_; }
  /// Puts a value in place of a key's own, or adds the key: "cluster.nodes=4", the value as YAML. A
  /// list's elements are numbered from 0: "workload.measured[0].mfu=0.4". Throws InputError for
  /// text that is no such assignment.
  void set(const std::string& assignment);
  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  /// Where relative paths in the file start.
  std::filesystem::path folder() const { return std::filesystem::path(name_).parent_path(); }

  void problem(Mark mark, std::string key, std::string message, std::string hint = {});
  /// Whether a problem of the value at that key was found.
  bool tells_of(const std::string& key) const;
  /// Throws InputError with all problems, sorted by place, if there are any.
  void throw_if_problems() const;

  /// Data files of ours cite a source behind each number ("100 Gbps @S2"). Allowed: such a suffix
  /// is taken off and kept; required: a number without one is a problem.
  enum class Citations { none, allowed, required };
  Citations citations = Citations::none;
  struct Citation {
    std::string key, value, source;
  };
  std::vector<Citation> cited;

 private:
  std::string name_, text_;
  YamlNode root_;
  std::vector<Problem> problems_;
  std::size_t untold_ = 0;                // problems beyond those that are told
  std::vector<std::size_t> line_begins_;  // in the text; made with the first problem
};

}  // namespace foreduce
