// How much memory this process may use.
#pragma once

#include <filesystem>

#include "input/units.hpp"

namespace foreduce {

/// The machine's memory, or what the control group of a container or of a batch job leaves of it.
Bytes machine_memory();

/// The limit that a control group's file holds (memory.max, memory.limit_in_bytes); infinite for
/// "max", and where there is no such file.
Bytes memory_limit_in(const std::filesystem::path& file);

}  // namespace foreduce
