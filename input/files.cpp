#include "input/files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/uuid/detail/sha1.hpp>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "input/problem.hpp"

namespace foreduce {

InputError no_such_file(const std::filesystem::path& file) {
  constexpr std::size_t kMostNames = 10'000;  // a folder of more takes long to read
  std::vector<std::string> names;
  std::error_code error;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  for (std::filesystem::directory_iterator at(folder, error), end;
       !error && at != end && names.size() < kMostNames; at.increment(error)) {
    std::error_code none;
    if (!at->is_directory(none)) names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(),
            names.end());  // so that the answer does not depend on the folder's order
  const std::string near = nearest(file.filename().string(), names);
  return file_error(
      file, "there is no such file",
      near.empty() ? "" : fmt::format("did you mean '{}'?", (file.parent_path() / near).string()));
}

std::string read_text(const std::filesystem::path& file, std::size_t most) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) throw no_such_file(file);
  if (std::filesystem::is_directory(file, error))
    throw file_error(file, "this is a folder, not a file");
  std::ifstream in(file, std::ios::binary);
  std::string text;
  std::vector<char> block(1 << 16);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > most)
      throw file_error(file, fmt::format("is larger than {} MiB; no file of ours is", most >> 20));
  }
  if (in.bad() || !in.eof()) throw file_error(file, "cannot be read");
  return text;
}

void make_folder(const std::filesystem::path& folder, const std::string& what) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (!std::filesystem::is_directory(folder, failed) || ::access(folder.c_str(), W_OK | X_OK) != 0)
    throw file_error(folder, what + " cannot be written there");
}

bool names_file(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".yaml") || name.ends_with(".xml") ||
         name.ends_with(".json");
}

std::filesystem::path data_folder() {
  const auto complete = [](const std::filesystem::path& p) {
    std::error_code error;
    return std::filesystem::is_directory(p / "topologies" / "ec2", error) &&
           std::filesystem::is_directory(p / "models", error);
  };
  if (const char* given = std::getenv("FOREDUCE_DATA")) {
    if (complete(given)) return given;
    throw input_error(fmt::format("FOREDUCE_DATA={}: no foreduce data there", given),
                      "it must hold topologies/ec2 and models");
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto installed = program.parent_path().parent_path() / "share" / "foreduce";
  for (const std::filesystem::path& candidate :
       {installed, std::filesystem::path(FOREDUCE_SOURCE_FOLDER)})
    if (complete(candidate)) return candidate;
  throw input_error(fmt::format("foreduce's data folder is missing; looked in {} and {}",
                                installed.string(), FOREDUCE_SOURCE_FOLDER),
                    "set FOREDUCE_DATA to the folder that holds topologies/ec2 and models");
}

std::filesystem::path module_file(const std::string& name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const std::string file = "foreduce_" + name + ".so";
  for (const auto& folder :
       {program, program.parent_path(), program.parent_path() / "lib" / "foreduce"})
    if (std::filesystem::exists(folder / file, error)) return folder / file;
  return {};
}

std::string sha1(const std::string& text) {
  boost::uuids::detail::sha1 digest;
  digest.process_bytes(text.data(), text.size());
  boost::uuids::detail::sha1::digest_type words;
  // From Boost 1.86 on these are 20 bytes, of which five would be 40 bits of the digest.
  static_assert(sizeof words == 20 && sizeof words[0] == 4);
  digest.get_digest(words);
  return fmt::format("{:08x}{:08x}{:08x}{:08x}{:08x}", words[0], words[1], words[2], words[3],
                     words[4]);
}

}  // namespace foreduce
