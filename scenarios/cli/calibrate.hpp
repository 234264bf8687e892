// `foreduce calibrate`: a transport profile from measurements.
#pragma once

#include "scenarios/cli/shared_options.hpp"

namespace foreduce {

/// Adds the command; when it is chosen, `action` does the work.
void add_calibrate(CLI::App& app, Action& action);

}  // namespace foreduce
