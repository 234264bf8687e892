// The program's references: its commands as Markdown, as a man page and as shell completions; the
// scenario's keys as Markdown.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace foreduce {

/// What the program says of its own command line.
struct Manual {
  struct Option {
    std::string name, description, standard;  ///< standard: the default value; empty: none
    std::string accepted;                     ///< words, with commas; empty: any value
    bool positional = false, required = false, flag = false;
  };
  struct Command {
    std::string name;  ///< "predict", or "workload from-config" of one that belongs to another
    std::string description, footer;
    std::vector<Option> options;
  };
  std::string name, version, description, footer;
  std::vector<Command> commands;
};

std::string command_reference(const Manual& manual);
std::string man_page(const Manual& manual);
/// Completions: of commands, of their options with what these say, and of files.
std::string bash_completions(const Manual& manual);
std::string zsh_completions(const Manual& manual);
std::string fish_completions(const Manual& manual);

/// Every key of a scenario with its type and meaning, from its JSON Schema.
std::string scenario_reference(const nlohmann::ordered_json& scenario,
                               const nlohmann::ordered_json& workload);
/// The same of a machine file.
std::string machine_reference(const nlohmann::ordered_json& machine);

}  // namespace foreduce
