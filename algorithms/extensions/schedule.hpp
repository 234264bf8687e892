// Schedules as data in the place of algorithms: MSCCL's XML and plans of MSCCL++.
#pragma once

#include <filesystem>

#include "algorithms/core/registry.hpp"
#include "algorithms/extensions/lowered.hpp"

namespace foreduce {

/// An algorithm that does what the program says, on as many ranks as it has GPUs. Segments each
/// take the whole schedule, one behind the other. Throws InputError as lowered() does.
Algorithm algorithm_of(const MscclProgram& program);

/// Adds the algorithm of a schedule's file to those of the program, under the name that a scenario
/// or a command line gives the file, unless it is there. Throws InputError for a file that is no
/// schedule, or a wrong one. Call it while the process has one thread.
const Algorithm& load_schedule(const std::string& name, const std::filesystem::path& file);

/// The same for those of `names` that name a file, relative to `folder`.
void load_schedules(const std::vector<std::string>& names, const std::filesystem::path& folder);

/// What the file of a loaded schedule says that has no effect here: "proto=LL". Empty for other
/// names.
std::vector<std::string> without_effect(const std::string& name);

/// What `algorithm` does on `layout`, recorded rank by rank, as a program of MSCCL's. Throws
/// std::invalid_argument if it cannot run there, or cannot be said in that form.
MscclProgram recorded_program(const Algorithm& algorithm, const Layout& layout, const Plan& plan);

}  // namespace foreduce
