// What the processes of one run know and nobody else does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace foreduce {

/// 128 random bits. Whoever shows them is of the run.
struct RunToken {
  std::uint64_t high = 0, low = 0;

  /// Of the kernel's random numbers. Throws std::system_error if there are none.
  static RunToken random();
  /// Reads 32 hexadecimal digits; nothing if the text is anything else.
  static std::optional<RunToken> from_hex(std::string_view text);
  /// 32 hexadecimal digits.
  std::string hex() const;

  /// Takes the same time for all tokens.
  friend bool operator==(const RunToken& a, const RunToken& b) {
    return ((a.high ^ b.high) | (a.low ^ b.low)) == 0;
  }
};

}  // namespace foreduce
