// What programs show on a terminal.
#pragma once

#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace foreduce::test {

/// What a command line writes where all its streams are a terminal of so many columns.
inline std::string on_terminal(const std::string& command, int columns) {
  winsize size{};
  size.ws_row = 40;
  size.ws_col = static_cast<unsigned short>(columns);
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    ::unsetenv("COLUMNS");
    ::setenv("FOREDUCE_CACHE", "off", 0);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  std::string out;
  char buffer[4096];
  // The other end's close is an error here.
  for (ssize_t n = 0; (n = ::read(terminal, buffer, sizeof buffer)) > 0;)
    out.append(buffer, static_cast<std::size_t>(n));
  ::close(terminal);
  ::waitpid(child, nullptr, 0);
  return out;
}

}  // namespace foreduce::test
