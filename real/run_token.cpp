#include "real/run_token.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <charconv>
#include <system_error>

namespace foreduce {

RunToken RunToken::random() {
  RunToken token;
  ssize_t got = 0;
  do {
    got = ::getrandom(&token, sizeof token, 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof token))
    throw std::system_error(errno, std::generic_category(),
                            "no random numbers for the run's token");
  return token;
}

std::optional<RunToken> RunToken::from_hex(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  const auto half = [](std::string_view digits, std::uint64_t& value) {
    const char* end = digits.data() + digits.size();
    const auto [stopped, failed] = std::from_chars(digits.data(), end, value, 16);
    return failed == std::errc{} && stopped == end;
  };
  RunToken token;
  if (!half(text.substr(0, 16), token.high) || !half(text.substr(16), token.low))
    return std::nullopt;
  return token;
}

std::string RunToken::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

}  // namespace foreduce
