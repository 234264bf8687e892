// How a process of a run ended, as its launcher sees it.
#pragma once

#include <string>
#include <type_traits>

namespace foreduce {

/// spawn() sends one of these to every process when the first of them has ended.
struct ProcessEnd {
  int process = 0;
  int status = 0;  ///< as from waitpid()

  /// "process 2 was killed by signal 9 (Killed)" or "process 2 ended with status 1".
  std::string text() const;
};
static_assert(std::is_trivially_copyable_v<ProcessEnd>);

}  // namespace foreduce
