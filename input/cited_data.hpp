// Constants of foreduce's own data files, in which every number names its source.
#pragma once

#include <filesystem>

#include "input/fields.hpp"

namespace foreduce {

/// Reads all of the file by describe() of T. Throws InputError for a number without a source, an
/// unknown key or one that is missing.
template <class T>
T load_cited(const std::filesystem::path& path) {
  YamlFile file = YamlFile::load(path);
  file.citations = YamlFile::Citations::required;
  T constants;
  read_file(file, constants);
  return constants;
}

}  // namespace foreduce
