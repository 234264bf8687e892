#include "scenarios/cli/app.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <regex>
#include <sstream>

#include "input/text_stream.hpp"
#include "scenarios/cli/plugin_options.hpp"

namespace foreduce {
namespace {

/// Help that fits the terminal.
class WrappedHelp : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    return fitted(option->get_description());
  }
  /// Without what it excludes: the descriptions say so, in fewer words.
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string all = CLI::Formatter::make_option_opts(option);
    return in_lines(all.substr(0, all.find(" Excludes:")),
                    2 + make_option_name(option, option->get_positional()).size());
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    out.exceptions(std::ios::badbit);
    CLI::detail::format_help(out, command->get_name(), fitted(command->get_description()),
                             column_width_);
    return out.str();
  }
  std::string make_description(const CLI::App* command) const override {
    return wrapped(command->get_description(), View{.width = terminal_width()}, 0);
  }
  std::string make_footer(const CLI::App* command) const override {
    TextStream lines(command->get_footer());
    std::string out = "\n";
    for (std::string line; std::getline(lines, line);)
      out += wrapped(line, View{.width = terminal_width()}, 2);
    return out;
  }

 private:
  /// A long list of words goes on below itself, broken at commas; `begins`: where its line does.
  static std::string in_lines(const std::string& list, std::size_t begins) {
    constexpr std::size_t kIndent = 6;
    std::string out;
    std::size_t column = begins;
    TextStream words(list);
    for (std::string word; std::getline(words, word, ',');) {
      if (!out.empty()) out += ',';
      if (column + word.size() + 1 > static_cast<std::size_t>(terminal_width()) && !out.empty()) {
        out += "\n" + std::string(kIndent, ' ');
        column = kIndent;
      }
      out += word;
      column += word.size() + 1;
    }
    return out;
  }
  /// In the column beside the names; the formatter indents what follows a line break.
  std::string fitted(const std::string& text) const {
    std::string out = wrapped(
        text, View{.width = std::max(40, terminal_width() - static_cast<int>(column_width_))}, 0);
    out.pop_back();
    return out;
  }
};

/// The command of that name. Throws InputError with the nearest name.
CLI::App* command_named(CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  if (!app.get_parent()) names.emplace_back("help");
  for (CLI::App* c : app.get_subcommands(nullptr)) {
    if (c->get_name() == word) return c;
    names.push_back(c->get_name());
  }
  throw input_error(fmt::format("there is no command called '{}'", word), suggest(word, names));
}

/// "foreduce workload from-config": a command as one types it.
std::string typed(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent ? typed(*parent) + " " + command.get_name() : command.get_name();
}

/// Whether a word behind a command's name is the name of one of its own commands. A command that
/// has nothing else there refuses other words.
bool names_command(CLI::App& command, const std::string& word) {
  const auto below =
      command.get_subcommands([&](const CLI::App* c) { return c->get_name() == word; });
  return !word.starts_with("-") && (command.get_require_subcommand_min() > 0 || !below.empty());
}

/// CLI11 reports an unknown option as what it would have excluded, or not at all.
void refuse_unknown_options(CLI::App& app, int argc, char** argv) {
  CLI::App* command = &app;
  bool leading = true;  // as long as all words were commands
  const auto is_number = [](const std::string& name) {
    return name.find_first_of(".0123456789") == 1;  // a value: --sizes -8B
  };
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string word(argv[i]);
    std::string name = word.substr(0, word.find('='));
    leading = leading && names_command(*command, word);
    if (leading) command = command_named(*command, word);
    if (!name.starts_with("-") || name == "-" || is_number(name)) continue;
    const bool attached = !name.starts_with("--") &&  // -oFILE
                          command->get_option_no_throw(name.substr(0, 2)) != nullptr;
    if (attached || command->get_option_no_throw(name)) continue;
    std::vector<std::string> names;
    for (const CLI::Option* o : command->get_options())
      for (const std::string& known : o->get_lnames()) names.push_back("--" + known);
    const bool drawn = name == "--plot" && command->get_option_no_throw("--html");
    throw input_error(
        fmt::format("{} has no option {}", typed(*command), name),
        drawn ? "did you mean '--html'? its page has the charts" : suggest(name, names));
  }
}

/// CLI11 reads 010 as eight, 0x4 as four and takes "nan" for a number.
void refuse_odd_numbers(const CLI::App& command) {
  for (const CLI::App* chosen : command.get_subcommands()) refuse_odd_numbers(*chosen);
  for (const CLI::Option* o : command.get_options()) {
    const std::string type = o->get_type_name();
    const bool whole = type.starts_with("INT") || type.starts_with("UINT");
    if (!whole && !type.starts_with("FLOAT")) continue;
    for (const std::string& word : o->results()) {
      double value = 0;
      std::string why;
      const bool leading = word.size() > 1 && word[0] == '0' &&
                           word.find_first_not_of("0123456789") == std::string::npos;
      if (!parse_number(word, value, why))
        throw input_error(fmt::format("{}: {}", o->get_name(), why));
      if (whole && (leading || word.find_first_not_of("-0123456789") != std::string::npos))
        throw input_error(
            fmt::format("{}: '{}' is no whole number in decimal digits", o->get_name(), word));
    }
  }
}

/// A shell's variable that is empty would otherwise mean the default. An output of "-" is kept as
/// none.
void refuse_empty_values(const CLI::App& command) {
  for (const CLI::App* chosen : command.get_subcommands()) refuse_empty_values(*chosen);
  for (const CLI::Option* o : command.get_options())
    if (o->get_items_expected_max() > 0 && !o->check_lname("output"))
      for (const std::string& word : o->results())
        if (word.empty()) throw input_error(o->get_name() + ": the value is empty");
}

/// Bounds as CLI11 prints them, without the zeros behind the point.
std::string short_number(const std::string& text) {
  return text.find('.') == std::string::npos ? text : fmt::format("{:g}", std::stod(text));
}

/// What is wrong with the command line, in the words of the program's other errors.
std::string usage_words(const std::string& said) {
  std::smatch part;
  const auto is = [&](const char* pattern) {
    return std::regex_match(said, part, std::regex(pattern));
  };
  if (said == "A subcommand is required") return "a subcommand is missing";
  if (is("(\\S+) is required")) return fmt::format("{} is missing", part.str(1));
  if (is("(\\S+) excludes (\\S+)"))
    return fmt::format("{} and {} cannot be given together", part.str(1), part.str(2));
  if (is("(\\S+) requires (\\S+)"))
    return fmt::format("{} goes with {}, which is missing", part.str(1), part.str(2));
  if (is("(\\S+): \\d+ required .* missing")) return fmt::format("{} needs a value", part.str(1));
  if (is("(\\S+): At Most \\d+ required but received (\\d+)"))
    return fmt::format("{} is given {} times, and once is accepted", part.str(1), part.str(2));
  if (is("(\\S+): Value (.*) not in range (\\S+) to (\\S+)")) {
    const bool open = part.str(4).find("e+308") != std::string::npos || part.str(4).size() > 300;
    return fmt::format("{}: '{}' is not accepted: a number from {} {} is", part.str(1), part.str(2),
                       short_number(part.str(3)), open ? "on" : "to " + short_number(part.str(4)));
  }
  if (is("Could not convert: (\\S+) = (.*)"))
    return fmt::format("{}: '{}' is not accepted here", part.str(1), part.str(2));
  if (is("The following arguments? w\\S+ not expected: (.*)"))
    return fmt::format("nothing is expected where '{}' stands", part.str(1));
  return said;
}

void give_help(CLI::App& command) {
  command.set_help_flag("-h,--help", "Print this help.");
  for (CLI::App* below : command.get_subcommands(nullptr)) give_help(*below);
}

/// `foreduce help`, which is `foreduce help help`, and `foreduce help COMMAND`.
int show_help(CLI::App& app, int argc, char** argv) {
  CLI::App* command = &app;
  const bool of_itself = argc == 3 && std::string_view(argv[2]) == "help";
  for (int i = of_itself ? 3 : 2; i < argc; ++i) {
    if (command->get_subcommands(nullptr).empty())
      throw input_error("help takes one command", "foreduce help predict");
    command = command_named(*command, argv[i]);
  }
  std::cout << (command == &app ? app.help() : command->help(typed(*command->get_parent())));
  return 0;
}

}  // namespace

std::unique_ptr<CLI::App> make_app(Action& action) {
  auto app = std::make_unique<CLI::App>(
      "Predicts how data-parallel training scales on EC2, with which all-reduce algorithm, and "
      "what it costs.");
  app->name("foreduce");
  app->set_version_flag("--version", "foreduce " + program_version());
  app->set_help_flag("-h,--help", "Print this help.");
  app->require_subcommand(1);
  app->formatter(std::make_shared<WrappedHelp>());
  app->get_formatter()->column_width(34);
  add_predict(*app, action);
  add_compare(*app, action);
  add_tune(*app, action);
  add_explain(*app, action);
  add_plan(*app, action);
  add_check(*app, action);
  add_run(*app, action);
  add_calibrate(*app, action);
  add_validate(*app, action);
  add_topology(*app, action);
  add_workload(*app, action);
  add_algorithm_command(*app, action);
  add_test_algorithm(*app, action);
  add_list(*app, action);
  add_cache(*app, action);
  add_show_and_merge(*app, action);
  add_schema_and_docs(*app, action);
  for (const char* name : {"predict", "compare", "plan", "explain", "tune", "check", "run",
                           "validate", "list", "schema", "test-algorithm"})
    add_plugin_option(*app->get_subcommand(name));
  for (CLI::App* command : app->get_subcommands(nullptr)) give_help(*command);
  app->footer(
      "Exit status: 0 fine, 1 the answer is no, 2 bad usage or bad input, 130 interrupted.\n"
      "Start with: foreduce predict scenarios/bert-large-p3dn.yaml; details: foreduce help "
      "COMMAND");
  return app;
}

int run_command_line(int argc, char** argv) {
  Action action;
  remember_command(argc, argv);
  const auto app = make_app(action);
  if (argc < 2) {
    std::cerr << app->help();
    return 2;
  }
  if (std::string_view(argv[1]) == "help") return show_help(*app, argc, argv);
  refuse_unknown_options(*app, argc, argv);
  load_plugins_of_environment();
  try {
    app->parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help and --version
    return app->exit(e);
  } catch (const CLI::ParseError& e) {
    const std::string command = argv[1][0] == '-' ? "" : std::string(" ") + argv[1];
    throw input_error(usage_words(e.what()), "see: foreduce help" + command);
  }
  refuse_odd_numbers(*app);
  refuse_empty_values(*app);
  return action();
}

}  // namespace foreduce
