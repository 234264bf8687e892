// `foreduce schema` and `foreduce docs`: references that the program writes of itself, from the
// descriptions that it checks with.
#include "scenarios/report/manual.hpp"

#include "scenarios/cli/app.hpp"
#include "topologies/machine.hpp"

namespace foreduce {
namespace {

/// "a,b" of an option whose type says "TEXT:{a,b}".
std::string accepted_by(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto open = type.find('{'), close = type.find('}', open);
  return close == std::string::npos ? "" : type.substr(open + 1, close - open - 1);
}

/// The commands below `app` and theirs, each after the one that it belongs to.
void add_commands(const CLI::App& app, const std::string& before, Manual& manual) {
  for (const CLI::App* c : app.get_subcommands(nullptr)) {
    const std::string name = before + c->get_name();
    Manual::Command& command = manual.commands.emplace_back(
        Manual::Command{name, c->get_description(), c->get_footer(), {}});
    for (const CLI::Option* o : c->get_options()) {
      if (o->get_name() == "--help") continue;
      const bool positional = o->get_positional();
      command.options.push_back({o->get_name(positional, true), o->get_description(),
                                 o->get_type_size() > 0 ? o->get_default_str() : "",
                                 accepted_by(*o), positional, o->get_required(),
                                 o->get_items_expected_max() == 0});
    }
    add_commands(*c, name + " ", manual);
  }
}

/// The commands and options of the program, as data.
Manual manual_of(const CLI::App& app) {
  Manual manual{app.get_name(), program_version(), app.get_description(), app.get_footer(), {}};
  add_commands(app, "", manual);
  return manual;
}

}  // namespace

void add_schema_and_docs(CLI::App& app, Action& action) {
  struct Arguments {
    std::string what, output;
  };
  auto* schema = app.add_subcommand("schema", "Print the JSON Schema of a scenario, for editors.");
  const auto s = std::make_shared<Arguments>();
  add_output_option(*schema, s->output)->check(ends_in({".json"}));
  add_examples(*schema, {"foreduce schema > scenario.schema.json"});
  schema->callback([s, &action] {
    action = [s] {
      write_output(s->output, dump(scenario_schema()));
      return 0;
    };
  });

  auto* docs = app.add_subcommand(
      "docs",
      "Write a reference of this program: commands, scenario keys, man page or completions.");
  const auto d = std::make_shared<Arguments>();
  docs->add_option(
          "what", d->what,
          "commands, scenario or machine (Markdown), man (roff), or the completions of bash, zsh "
          "or fish.")
      ->transform(one_of({"commands", "scenario", "machine", "man", "bash", "zsh", "fish"}));
  add_output_option(*docs, d->output);
  add_examples(*docs,
               {"foreduce docs commands > docs/commands.md", "foreduce docs man | man -l -"});
  docs->callback([d, &action] {
    action = [d] {
      if (d->what.empty())
        throw input_error("what to write is missing",
                          "accepted: commands, scenario, machine, man, bash, zsh, fish");
      Action none;
      const Manual manual = manual_of(*make_app(none));
      write_output(d->output, d->what == "scenario"
                                  ? scenario_reference(scenario_schema(), workload_schema())
                              : d->what == "machine" ? machine_reference(machine_schema())
                              : d->what == "man"     ? man_page(manual)
                              : d->what == "bash"    ? bash_completions(manual)
                              : d->what == "zsh"     ? zsh_completions(manual)
                              : d->what == "fish"    ? fish_completions(manual)
                                                     : command_reference(manual));
      return 0;
    };
  });
}

}  // namespace foreduce
