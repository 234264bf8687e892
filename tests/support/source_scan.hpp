// A rough reading of C++ sources, for rules about all of them: what is included, how long functions
// are, which parameters they take.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace foreduce::test {

/// Where the literal or comment that begins at `at` ends; `at` itself if none begins there.
inline std::size_t end_of_noise(const std::string& s, std::size_t at) {
  const auto after = [&](const std::string& end, std::size_t from) {
    const std::size_t found = s.find(end, from);
    return found == std::string::npos ? s.size() : found + end.size();
  };
  if (s.compare(at, 2, "//") == 0) return std::min(s.find('\n', at), s.size());
  if (s.compare(at, 2, "/*") == 0) return after("*/", at + 2);
  const bool in_word =
      at > 0 && (std::isalnum(static_cast<unsigned char>(s[at - 1])) || s[at - 1] == '_');
  if (s.compare(at, 2, "R\"") == 0 && !in_word) {
    const std::size_t open = std::min(s.find('(', at), s.size());
    return after(")" + s.substr(at + 2, open - at - 2) + "\"", open);
  }
  if (s[at] != '"' && (s[at] != '\'' || in_word)) return at;  // 1'000 is one number
  std::size_t end = at + 1;
  while (end < s.size() && s[end] != s[at]) end += s[end] == '\\' ? 2u : 1u;
  return std::min(end + 1, s.size());
}

/// The source with comments, literals and preprocessor lines blanked. All else stays in its line
/// and column.
inline std::string code_of(const std::string& source) {
  std::string code = source;
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i)
      if (code[i] != '\n') code[i] = ' ';
  };
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t end = end_of_noise(source, at);
    blank(at, end);
    at = std::max(end, at + 1);
  }
  for (std::size_t begin = 0; begin < code.size();) {
    std::size_t end = std::min(code.find('\n', begin), code.size());
    if (const auto first = code.find_first_not_of(" \t", begin);
        first < end && code[first] == '#') {
      while (end < code.size() && code[end - 1] == '\\')
        end = std::min(code.find('\n', end + 1), code.size());
      blank(begin, end);
    }
    begin = end + 1;
  }
  return code;
}

inline int line_of(const std::string& text, std::size_t at) {
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

/// "ring/x.hpp" of every `#include "ring/x.hpp"`.
inline std::vector<std::string> includes_of(const std::string& source) {
  static const std::regex include(R"(#\s*include\s+"([^"]+)\")");
  std::vector<std::string> files;
  for (std::sregex_iterator i(source.begin(), source.end(), include), end; i != end; ++i)
    files.push_back((*i)[1]);
  return files;
}

/// The body of a function, or of a lambda outside of functions.
struct Function {
  std::string name;
  int line = 0;                    ///< where its declaration begins
  int lines = 0;                   ///< from there to its closing brace
  std::size_t begin = 0, end = 0;  ///< of its body, braces included
};

/// The name before the first bracket of a declaration; empty if there is none, as for a lambda.
inline std::string name_in(const std::string& declaration) {
  static const std::regex before_bracket(R"(([\w:~]+|operator[^\s\w]+)\s*\()");
  std::smatch match;
  return std::regex_search(declaration, match, before_bracket) ? match[1].str() : "";
}

/// A function that begins with the brace at `brace`, whose declaration begins at `head`.
inline Function function_at(const std::string& code, std::size_t head, std::size_t brace) {
  const std::string declaration = code.substr(head, brace - head);
  const std::string name = name_in(declaration);
  std::size_t begin = declaration.find_first_not_of(" \t\n");
  // A lambda begins at its capture; before it may stand other fields of an initializer.
  if (const auto capture = declaration.rfind('['); name.empty() && capture != std::string::npos)
    begin = capture;
  return {name, line_of(code, head + begin), 0, brace, code.size()};
}

/// All functions of a source, without those inside of others. A brace begins one if a `)` is
/// between it and the last brace or semicolon; so it need not know namespaces, classes and
/// initializers.
inline std::vector<Function> functions_of(const std::string& source) {
  const std::string code = code_of(source);
  std::vector<Function> functions;
  std::size_t head = 0;  // where the declaration begins
  int depth = 0;         // of braces within the function; 0 outside
  int arguments = 0;     // of braces within a declaration's brackets, as in f(int a, Plan b = {})
  for (std::size_t at = 0; at < code.size(); ++at) {
    const char c = code[at];
    if (depth > 0) {
      depth += (c == '{') - (c == '}');
      if (depth > 0) continue;
      functions.back().end = at + 1;
      functions.back().lines = line_of(code, at) - functions.back().line + 1;
    } else if (c == '{') {
      const std::string declaration = code.substr(head, at - head);
      if (declaration.find(')') != std::string::npos) {
        functions.push_back(function_at(code, head, at));
        depth = 1;
      } else if (declaration.find('(') != std::string::npos) {
        ++arguments;
        continue;
      }
    } else if (c == '}' && arguments > 0) {
      --arguments;
      continue;
    }
    if (c == ';') arguments = 0;
    if (c == '{' || c == '}' || c == ';') head = at + 1;
  }
  return functions;
}

/// What a declaration that ends before a brace, a semicolon or its initializer defines: a function,
/// a type or a constant; empty for members defined elsewhere, operators and all else.
inline std::string defined_in(const std::string& declaration) {
  static const std::regex type(R"(\b(?:struct|class|union|enum(?:\s+class)?)\s+(\w+)[^()=]*$)"),
      constant(R"(\bconst(?:expr)?\b[^()]*?(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=.*)?$)"),
      plain(R"([A-Za-z_]\w*)");
  std::smatch match;
  if (std::regex_search(declaration, match, type)) return match[1];
  const std::string before_value = declaration.substr(0, declaration.find('='));
  if (before_value.find('(') == std::string::npos)
    return std::regex_search(before_value, match, constant) ? match[1].str() : "";
  const std::string name = name_in(declaration);
  return std::regex_match(name, plain) ? name : "";
}

/// The functions, types and constants that a source defines in its unnamed namespaces.
inline std::set<std::string> unnamed_names_of(const std::string& source) {
  static const std::regex space(R"(\bnamespace\s*([\w:]*)\s*$)");
  enum class Brace : std::uint8_t { named, unnamed, other };
  const std::string code = code_of(source);
  std::vector<Brace> open;
  std::set<std::string> names;
  std::size_t head = 0;
  int round = 0;  // brackets that are open in the declaration
  const auto all_spaces = [&] {
    return std::find(open.begin(), open.end(), Brace::other) == open.end();
  };
  for (std::size_t at = 0; at < code.size(); ++at) {
    const char c = code[at];
    if (c != '{' && c != '}' && c != ';') {
      if (all_spaces()) round += (c == '(') - (c == ')');
      continue;
    }
    const std::string declaration = code.substr(head, at - head);
    std::smatch match;
    const bool is_space = c == '{' && std::regex_search(declaration, match, space);
    const bool counts = all_spaces() && round == 0 && !is_space && c != '}' &&
                        std::find(open.begin(), open.end(), Brace::unnamed) != open.end();
    const bool declares = declaration.find('(') == std::string::npos;  // a function has its body
    if (counts && (c == '{' || declares))
      if (const std::string name = defined_in(declaration); !name.empty()) names.insert(name);
    if (c == '}' && !open.empty()) open.pop_back();
    if (c == '{')
      open.push_back(!is_space                ? Brace::other
                     : match[1].str().empty() ? Brace::unnamed
                                              : Brace::named);
    if (all_spaces() && round == 0) head = at + 1;
    if (c == '{' && !is_space && round == 0) head = at + 1;
  }
  return names;
}

/// "line: function" of every `bool` in the parameters of a function declaration, with or without a
/// name. Bodies of functions, the parameters of a std::function, and references are left out.
inline std::vector<std::string> bool_parameters_of(const std::string& source) {
  std::string code = code_of(source);
  for (const Function& f : functions_of(source))
    for (std::size_t i = f.begin; i < f.end; ++i)
      if (code[i] != '\n') code[i] = i == f.begin ? ';' : ' ';
  static const std::regex parameter(R"(([(,])\s*(?:const\s+)?bool\s*\w*\s*(?=[,)=]))");
  std::vector<std::string> found;
  for (std::sregex_iterator i(code.begin(), code.end(), parameter), none; i != none; ++i) {
    // The bracket that the parameter is directly in.
    std::size_t open = static_cast<std::size_t>(i->position()) + ((*i)[1] == "(" ? 1 : 0);
    int round = 0, angle = 0;
    while (open > 0 && round <= 0 && code[open - 1] != ';') {
      const char c = code[--open];
      round += (c == '(') - (c == ')');
      if (round == 0) angle += (c == '<') - (c == '>');
    }
    if (round <= 0 || angle > 0) continue;
    const std::size_t start = code.find_last_of(";{}", open);
    const std::string declaration = code.substr(start + 1, open - start - 1);
    static const std::regex function_type(R"(function<[^<>()]*$)");
    if (std::regex_search(declaration, function_type)) continue;
    found.push_back(std::to_string(line_of(code, open)) + ": " + name_in(declaration + "("));
  }
  return found;
}

}  // namespace foreduce::test
