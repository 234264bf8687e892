// What other makers and clouds call machines that ship.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace foreduce {

/// Beginnings of names, each followed by "*", and what is said to who asks for such a machine:
/// which one that ships has such GPUs, and how it differs. From topologies/other_names.yaml.
/// Throws InputError for a malformed file.
const std::vector<std::pair<std::string, std::string>>& other_names();

}  // namespace foreduce
