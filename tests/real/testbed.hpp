// The cluster of network namespaces that tests/testbed makes.
#pragma once

#include <string>

namespace foreduce::test {

inline const std::string kTestbed =
    std::string(FOREDUCE_SOURCE_FOLDER) + "/tests/testbed/testbed.py";

}  // namespace foreduce::test
