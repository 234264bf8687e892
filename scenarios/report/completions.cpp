// Completions of the command line for bash, zsh and fish.
#include <fmt/format.h>

#include <map>

#include "input/text_stream.hpp"

#include "scenarios/report/manual.hpp"

namespace foreduce {
namespace {

/// "-o,--output" as its forms; none of a positional.
std::vector<std::string> forms_of(const Manual::Option& option) {
  std::vector<std::string> forms;
  TextStream words(option.positional ? "" : option.name);
  for (std::string form; std::getline(words, form, ',');) forms.push_back(form);
  return forms;
}

/// Commands that belong to a command, by its name; those of the program itself by "".
using Below = std::map<std::string, std::vector<const Manual::Command*>>;
Below commands_below(const Manual& m) {
  Below below;
  for (const auto& c : m.commands) {
    const auto space = c.name.find(' ');
    below[space == std::string::npos ? "" : c.name.substr(0, space)].push_back(&c);
  }
  return below;
}

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

/// The first sentence, between single quotes of a shell.
std::string shell_quoted(const std::string& description) {
  const auto end = description.find(". ");
  std::string out;
  for (const char c : description.substr(0, end))
    if (c == '\'') out += "'\\''";
    else if (c == '\n') out += ' ';
    else out += c;
  if (out.ends_with('.')) out.pop_back();
  return "'" + out + "'";
}

/// A word of _describe: a colon ends it.
std::string described(const std::string& word, const std::string& description) {
  std::string name;
  for (const char c : word) name += c == ':' ? std::string("\\:") : std::string(1, c);
  return "'" + name + ":" + shell_quoted(description).substr(1);
}

}  // namespace

std::string bash_completions(const Manual& m) {
  std::string names, cases;
  Below below = commands_below(m);
  for (const auto* c : below[""]) names += c->name + " ";
  for (const auto& c : m.commands) {
    std::string words;
    for (const auto* b : below[c.name]) words += last_word(b->name) + " ";
    for (const auto& o : c.options)
      for (const std::string& form : forms_of(o)) words += form + " ";
    // The longer pattern comes first: a command's own commands also begin with its name.
    if (c.name.find(' ') == std::string::npos)
      cases += fmt::format("    \"{} \"*) words=\"{}--help\" ;;\n", c.name, words);
    else cases.insert(0, fmt::format("    \"{}\") words=\"{}--help\" ;;\n", c.name, words));
  }
  return fmt::format(
      "# Completions of {0} for bash. Written by `{0} docs bash`.\n"
      "_{0}() {{\n"
      "  local word=\"${{COMP_WORDS[COMP_CWORD]}}\" words=\"\"\n"
      "  case \"${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}\" in\n{2}  esac\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then words=\"{1}help\"; fi\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  case \"$word\" in -*) ;; *) [ \"$COMP_CWORD\" -gt 1 ] && COMPREPLY+=($(compgen -f -- "
      "\"$word\")) ;; esac\n"
      "}}\n"
      "complete -o filenames -F _{0} {0}\n",
      m.name, names, cases);
}

std::string zsh_completions(const Manual& m) {
  Below below = commands_below(m);
  std::string commands, cases;
  for (const auto* c : below[""]) commands += "      " + described(c->name, c->description) + "\n";
  for (const auto& c : m.commands) {
    std::string words;
    for (const auto* b : below[c.name])
      words += " " + described(last_word(b->name), b->description);
    for (const auto& o : c.options)
      for (const std::string& form : forms_of(o)) words += " " + described(form, o.description);
    const bool whole = c.name.find(' ') != std::string::npos;
    const std::string one = fmt::format("    (\"{}\"{}) options=({} '--help:Print this help') ;;\n",
                                        whole ? c.name : c.name + " ", whole ? "" : "*", words);
    if (whole) cases.insert(0, one);
    else cases += one;
  }
  return fmt::format(
      "#compdef {0}\n# Completions of {0} for zsh. Written by `{0} docs zsh`.\n"
      "_{0}() {{\n"
      "  local -a commands options\n"
      "  if (( CURRENT == 2 )); then\n"
      "    commands=(\n{1}      'help:Print help on a command'\n    )\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  case \"${{words[2]}} ${{words[3]}}\" in\n{2}  esac\n"
      "  _describe option options\n"
      "  [[ \"${{words[CURRENT]}}\" == -* ]] || _files\n"
      "}}\n"
      "if [ \"${{funcstack[1]}}\" = _{0} ]; then _{0} \"$@\"; else compdef _{0} {0}; fi\n",
      m.name, commands, cases);
}

std::string fish_completions(const Manual& m) {
  Below below = commands_below(m);
  std::string out =
      fmt::format("# Completions of {0} for fish. Written by `{0} docs fish`.\n", m.name);
  out +=
      fmt::format("complete -c {} -n __fish_use_subcommand -f -a help -d 'Print help'\n", m.name);
  for (const auto* c : below[""])
    out += fmt::format("complete -c {} -n __fish_use_subcommand -f -a {} -d {}\n", m.name, c->name,
                       shell_quoted(c->description));
  for (const auto& c : m.commands) {
    std::string seen;
    TextStream words(c.name);
    for (std::string word; words >> word;)
      seen += fmt::format("{}__fish_seen_subcommand_from {}", seen.empty() ? "" : "; and ", word);
    for (const auto* b : below[c.name])
      out += fmt::format("complete -c {} -n '{}' -a {} -d {}\n", m.name, seen, last_word(b->name),
                         shell_quoted(b->description));
    for (const auto& o : c.options) {
      std::string forms;
      for (const std::string& form : forms_of(o))
        forms += form.starts_with("--") ? " -l " + form.substr(2) : " -s " + form.substr(1);
      if (!forms.empty())
        out += fmt::format("complete -c {} -n '{}'{}{} -d {}\n", m.name, seen, forms,
                           o.flag ? "" : " -r", shell_quoted(o.description));
    }
  }
  return out;
}

}  // namespace foreduce
