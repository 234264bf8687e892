// Running programs from a test, as a user at a shell would.
#pragma once

#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

namespace foreduce::test {

/// What a command did.
struct Result {
  int status;       // 128 + signal for one that was killed
  std::string out;  // both streams
  double seconds;
};

/// The output less the address sanitizer's warnings that it does not follow SimGrid's own stacks.
inline std::string without_warnings_of_asan(const std::string& out) {
  std::string kept;
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t end = std::min(out.find('\n', at), out.size() - 1) + 1;
    const std::string line = out.substr(at, end - at);
    const bool warns = line.find("WARNING: ASan is ignoring requested __asan_handle_no_return") !=
                           std::string::npos ||
                       line.starts_with("False positive error reports may follow") ||
                       line.starts_with("For details see https://github.com/google/sanitizers");
    if (!warns) kept += line;
    at = end;
  }
  return kept;
}

/// Runs a command line and waits for its end. Nothing is taken from earlier runs unless it says so.
inline Result shell(const std::string& command) {
  const auto start = std::chrono::steady_clock::now();
  FILE* pipe = popen(
      ("exec 2>&1; unset COLUMNS; : ${FOREDUCE_CACHE:=off}; export FOREDUCE_CACHE; " + command)
          .c_str(),
      "r");
  std::string out;
  char buffer[4096];
  while (const std::size_t n = fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  const int status = pclose(pipe);
#ifdef __SANITIZE_ADDRESS__
  out = without_warnings_of_asan(out);
#endif
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

/// Runs the program with these arguments.
inline Result foreduce_says(const std::string& arguments) {
  return shell(std::string(FOREDUCE_PROGRAM) + " " + arguments);
}

}  // namespace foreduce::test
