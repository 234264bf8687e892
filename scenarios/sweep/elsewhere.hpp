// Where a key or a word belongs that stands in the wrong place, and a file that is no scenario.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "input/problem.hpp"
#include "input/yaml.hpp"

namespace foreduce {

/// The same problems, and of each key that exists, but elsewhere in a scenario, where that is:
/// "did you mean cluster.fabric.oversubscription?".
InputError with_places_of_keys(const InputError& error);

/// The same problems, and of each key that was assigned by `set`, "cluster.nodes=-3", that one.
InputError with_assignments(const InputError& error, const std::vector<std::string>& set);

/// Throws InputError for a workload, a profile or a machine, which a scenario names, and for a list
/// of clusters, which `cluster.choices` takes.
void refuse_other_kinds(YamlFile& file);

/// NCCL's own algorithms as people write them beside ours, "nccl:ring", and where they are forced:
/// for OneOf::others.
std::vector<std::pair<std::string, std::string>> forced_in_names();

}  // namespace foreduce
