// What the columns of a table say of each other: which collective it is of, and of how many ranks.
#pragma once

#include <string>
#include <vector>

#include "scenarios/validation/nccl_log.hpp"

namespace foreduce {

/// busbw over algbw tells the collective and the ranks. Both are printed rounded, so each row
/// leaves a range of ratios; what most rows agree on holds, and a row that says otherwise is only
/// noted. Where the count is of a rank's block, size over count tells the ranks; a row of another
/// size than its count makes is left out. `notes` gets what is odd.
void read_ratio(NcclTable& table, std::vector<std::string>& notes);

}  // namespace foreduce
