#include <fmt/format.h>

#include <fstream>
#include <iostream>

#include "input/files.hpp"
#include "input/problem.hpp"
#include "scenarios/validation/log_text.hpp"
#include "scenarios/validation/nccl_log.hpp"

namespace foreduce {

static constexpr std::size_t kMaxBytes = 256u << 20;

NcclLog load_nccl_log(const std::filesystem::path& file, NoRow no_row) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) throw file_error(file, "is a directory");
  std::ifstream opened;
  if (file != "-") opened.open(file, std::ios::binary);
  std::istream& in = file == "-" ? std::cin : opened;
  std::string text;
  std::error_code none;
  if (file != "-" && !std::filesystem::exists(file, none)) throw no_such_file(file);
  if (in) {
    std::vector<char> block(1 << 16);
    while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
      text.append(block.data(), static_cast<std::size_t>(in.gcount()));
      if (text.size() > kMaxBytes)
        throw file_error(file, fmt::format("is larger than {} MiB", kMaxBytes >> 20));
    }
  }
  if (!in.eof()) throw file_error(file, "cannot be read");
  return parse_nccl_log(file.string(), readable(file.string(), std::move(text), kMaxBytes), no_row);
}

}  // namespace foreduce
