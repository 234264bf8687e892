// The command line as a whole: its commands, help, and one style of usage errors.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "scenarios/cli/shared_options.hpp"

namespace foreduce {

/// The program with all its commands. The chosen one leaves its work in `action`, which must
/// outlive it.
std::unique_ptr<CLI::App> make_app(Action& action);

/// Parses the arguments and runs the command. Returns the exit status: 0 fine, 1 the answer is no,
/// 2 bad usage or bad input, 130 interrupted. Throws InputError for bad usage and bad input.
int run_command_line(int argc, char** argv);

/// "0.1.0 (commit 1a2b3c4)".
std::string program_version();

}  // namespace foreduce
