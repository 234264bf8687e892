// `foreduce run`: the algorithms on real ranks, in nccl-tests' columns.
#pragma once

#include "scenarios/cli/shared_options.hpp"

namespace foreduce {

/// Adds the command; when it is chosen, `action` does the work.
void add_run(CLI::App& app, Action& action);

/// The transports of this build, with what they need and what was left out: a table for `list transports`.
Table transports_table();

}  // namespace foreduce
