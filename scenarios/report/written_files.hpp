// Files of our own that foreduce writes from what others describe: a workload, a machine.
#pragma once

#include <string>
#include <vector>

#include "models/workload.hpp"

namespace foreduce {

/// A workload file that loads as `workload`. `remarks` are the comments at its head, a sentence or
/// a few each. Its tensors stand in the file itself, or as the shape that they are made from.
std::string workload_file(const Workload& workload, const std::vector<std::string>& remarks);

}  // namespace foreduce
