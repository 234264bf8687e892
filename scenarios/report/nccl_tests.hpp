// nccl-tests' own lines, so that scripts that read those read ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/core/collective.hpp"

namespace foreduce {

struct NcclTestsTiming {
  double time_us = 0, algbw = 0, busbw = 0;  ///< GB/s (1e9)
  std::optional<double> wrong;               ///< elements; null: not checked
};
struct NcclTestsRow {
  std::string title;  ///< rows of one title form a table
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;  ///< of a block where the collective has some: counted_blocks()
  std::string type;         ///< "f32" or nccl-tests' "float"
  NcclTestsTiming out_of_place, in_place;
  Collective collective = Collective::all_reduce;
};

/// A table for each title, in the order of rows, as the collective's program of nccl-tests prints
/// it (src/common.cu), each with its average; `heading` is a comment above.
std::string nccl_tests_tables(const std::string& heading, const std::vector<NcclTestsRow>& rows);

}  // namespace foreduce
