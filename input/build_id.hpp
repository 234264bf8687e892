// Which build of a program or library this is.
#pragma once

#include <filesystem>
#include <string>

namespace foreduce {

/// The linker's hash of this program's code and data (ELF's NT_GNU_BUILD_ID), in hexadecimal; "" if
/// it has none.
std::string build_id_of_program();

/// The same of a file; "" if it has none, or cannot be read.
std::string build_id_of(const std::filesystem::path& file);

}  // namespace foreduce
