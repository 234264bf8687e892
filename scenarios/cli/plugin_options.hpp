// Algorithms from plug-ins, on the command line and by FOREDUCE_PLUGINS.
#pragma once

#include "scenarios/cli/shared_options.hpp"

namespace foreduce {

/// --plugin, of a command that takes algorithms. Plug-ins are loaded while the command line is
/// parsed, so that the command finds their algorithms. Throws InputError then.
void add_plugin_option(CLI::App& command);

/// Loads what FOREDUCE_PLUGINS names. Throws InputError that names the variable.
void load_plugins_of_environment();

/// Files and contents of all loaded plug-ins, on which the processes of a run must agree.
Json plugins_json();

}  // namespace foreduce
