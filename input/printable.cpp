#include "input/printable.hpp"

#include <fmt/format.h>

namespace foreduce {

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  for (const char c : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    // Bytes from 0x80 on are parts of UTF-8; those of its control characters follow 0xc2.
    const bool control = byte < 0x20 || byte == 0x7f;
    const bool second_of_control = byte >= 0x80 && byte < 0xa0 && !out.empty() &&
                                   static_cast<unsigned char>(out.back()) == 0xc2;
    if (second_of_control) out.pop_back();
    if ((control && c != '\n') || second_of_control) out += fmt::format("\\x{:02x}", byte);
    else out += c;
  }
  if (text.size() > most) out += " ...";
  return out;
}

}  // namespace foreduce
