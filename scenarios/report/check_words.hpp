// What `check` found, in words.
#pragma once

#include <string>

#include "scenarios/validation/findings.hpp"

namespace foreduce {

/// What is wrong: "1 of 4 rails carries everything".
std::string what_words(const Finding& finding);
/// What to look at, or to do.
std::string remedy_words(const Finding& finding);
/// What the log itself says for it; "" where it does not.
std::string evidence_words(const Finding& finding);

/// What to do about a run that failed with one of these messages of NCCL, CUDA or a launcher.
std::string remedy_of_failure(const std::string& failure, const std::string& warning);
/// The same for a table whose run is not to be trusted; "" where there is nothing to do.
std::string remedy_of_broken(const Remark& why);

/// "s" but for 1.
const char* plural(double count);
/// "32 KiB to 1 MiB", or one size alone.
std::string range_words(Bytes from, Bytes to);
/// What NCCL says that it chose otherwise than expected.
std::string choices_words(const Choices& choices);

/// A remark as a sentence without its capital and its full stop.
std::string remark_words(const Remark& remark);

}  // namespace foreduce
