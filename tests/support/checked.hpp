#pragma once

#include <fmt/ranges.h>

#include <string>

#include "scenarios/validation/diagnosis.hpp"

namespace foreduce::test {

/// What `check` remarks on a table, in one string.
inline std::string remarks_of(const CheckedTable& t) {
  return fmt::format("{}", fmt::join(t.remarks, "; "));
}

}  // namespace foreduce::test
