// Where a key belongs that stands in the wrong place, and a file that is no scenario.
#pragma once

#include "input/problem.hpp"
#include "input/yaml.hpp"

namespace foreduce {

/// The same problems, and of each key that exists, but elsewhere in a scenario, where that is:
/// "did you mean cluster.fabric.oversubscription?".
InputError with_places_of_keys(const InputError& error);

/// Throws InputError for a workload, a profile or a machine, which a scenario names.
void refuse_other_kinds(const YamlFile& file);

}  // namespace foreduce
