// Files: what they hold, which names mean one, and where the project's own data are.
#pragma once

#include <filesystem>
#include <string>

#include "input/problem.hpp"

namespace foreduce {

/// What no text file of ours exceeds.
inline constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;
/// All that a file holds. Throws InputError for one that is missing, a folder, unreadable or longer
/// than `most` bytes.
std::string read_text(const std::filesystem::path& file, std::size_t most = kMostTextBytes);

/// The error of a file that is not there, with the nearest name in its folder.
InputError no_such_file(const std::filesystem::path& file);

/// Whether a name in a scenario or on the command line is a file ("./mine.yaml") rather than a name
/// we know.
bool names_file(const std::string& name);

/// The folder that holds topologies/, models/ and scenarios/ data: $FOREDUCE_DATA, else where the
/// program was installed, else the source tree. Throws InputError if there is none.
std::filesystem::path data_folder();

/// Makes the folder if it is missing, so that it is known before the work whether something can be
/// written there. Throws InputError, which says `what` cannot: "pictures".
void make_folder(const std::filesystem::path& folder, const std::string& what);

/// Where the module "foreduce_<name>.so" is: beside the program in a build tree (tests' programs
/// are one folder deeper), in ../lib/foreduce once installed. Empty if it is nowhere.
std::filesystem::path module_file(const std::string& name);

/// SHA-1 of a text, in hexadecimal: tells whether two questions are the same.
std::string sha1(const std::string& text);

}  // namespace foreduce
