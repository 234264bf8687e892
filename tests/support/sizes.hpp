#pragma once

namespace foreduce::test {

inline constexpr double kMiB = 1048576;  // bytes

}  // namespace foreduce::test
