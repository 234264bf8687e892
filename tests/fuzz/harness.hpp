// What the fuzzers of files share: what counts as refused, and files that hold the fuzzer's bytes.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "input/problem.hpp"

namespace foreduce::fuzz {

/// Runs `work`, which accepts an input or throws InputError with a message. Any other exception
/// ends the fuzzer.
template <class Work>
void accepted_or_refused(const Work& work) {
  try {
    work();
  } catch (const InputError& e) {
    if (std::string_view(e.what()).empty()) std::abort();
  }
}

/// A folder of this process, for inputs that are read as files. It goes when the fuzzer ends.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("foreduce-fuzz." + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  /// Writes a file there and returns its path.
  std::string write(const std::string& name, std::string_view text) const {
    const std::string file = (path_ / name).string();
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

 private:
  std::filesystem::path path_;
};

inline const Folder& folder() {
  static const Folder own;
  return own;
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace foreduce::fuzz
