// Plug-ins: shared objects with algorithms of the user's own, built against the installed headers
// (see algorithms/README.md).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "algorithms/core/registry.hpp"

namespace foreduce {

/// A plug-in that is part of the program from now on.
struct Plugin {
  std::filesystem::path file;
  std::string content;  ///< SHA-1 of the file
  std::vector<const Algorithm*> algorithms;
};

/// Loads a plug-in and adds its algorithms to those of the program; one that is loaded already is
/// not loaded again. Call it while the process has one thread. Throws InputError for a file that is
/// missing, is no shared object or no plug-in, was built for another kPluginAbi, has no algorithm,
/// or one whose name is taken. After an error none of its algorithms is there.
const Plugin& load_plugin(const std::filesystem::path& file);

/// All that are loaded, in the order in which they were.
std::vector<const Plugin*> loaded_plugins();

/// The files of a list as in FOREDUCE_PLUGINS: separated by colons, empty entries left out.
std::vector<std::string> plugins_listed(const std::string& list);

}  // namespace foreduce
