// Warnings about values of machine files that no hardware has: a what-if, or a slip of a unit.
#pragma once

#include <filesystem>
#include <string>

#include "scenarios/sweep/scenario.hpp"

namespace foreduce {

/// A line on standard error for each such value of a machine file of the asker's; none of machines
/// that ship. `folder`: what a path is relative to.
void warn_of_machine(const std::string& instance, const std::filesystem::path& folder);
/// The same of every machine file that a scenario names.
void warn_of_machines(const Scenario& scenario);

}  // namespace foreduce
