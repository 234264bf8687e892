// How much memory this process may use.
#pragma once

#include <filesystem>
#include <string>

#include "input/units.hpp"

namespace foreduce {

/// The machine's memory, or what the control groups of a container or of a batch job leave of it.
Bytes machine_memory();

/// What the control groups below `root` (/sys/fs/cgroup) leave to a process whose groups are listed
/// as in /proc/self/cgroup: the least of its own group's limit and of those above. Infinite where
/// none has a limit.
Bytes memory_of_groups(const std::filesystem::path& root, const std::string& groups);

}  // namespace foreduce
