// What a piece of work reports when it fails.
#pragma once

#include <string>

#include "input/problem.hpp"

namespace foreduce::test {

/// The text of the error that `work` throws, or "(accepted)". Exceptions of other types pass
/// through and fail the test.
template <class Error = InputError, class Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "(accepted)";
}

}  // namespace foreduce::test
