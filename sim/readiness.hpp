// When a task of several can begin.
#pragma once

#include <cstdint>

namespace foreduce {

/// Whether a task can begin.
enum class Readiness : std::uint8_t {
  ready,
  not_yet,  ///< it is asked again after others; at the end it is left undone
  needless  ///< it need not run at all
};

}  // namespace foreduce
