#include "real/process_end.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>

namespace foreduce {

std::string ProcessEnd::text() const {
  if (WIFSIGNALED(status))
    return fmt::format("process {} was killed by signal {} ({})", process, WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  return fmt::format("process {} ended with status {}", process, WEXITSTATUS(status));
}

}  // namespace foreduce
