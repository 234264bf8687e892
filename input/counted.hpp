// "1 node", "2 nodes".
#pragma once

#include <fmt/format.h>

#include <string>

namespace foreduce {

/// So many of a noun whose plural has an s.
template <class Number>
std::string counted(Number count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == Number{1} ? "" : "s");
}

}  // namespace foreduce
