// `foreduce validate`: predicted beside measured, for runs of one's own or for what others have published.
#pragma once

#include "scenarios/cli/shared_options.hpp"

namespace foreduce {

/// Adds the command; when it is chosen, `action` does the work.
void add_validate(CLI::App& app, Action& action);

}  // namespace foreduce
