// Tables that people make of nccl-tests' output: sizes, times and bandwidths, and nothing else.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreduce {

/// Turns the lines of such a table into those of nccl-tests. Its heading names a size, a bus
/// bandwidth, and a time or an algorithm bandwidth, in any order, between blanks, bars, commas or
/// semicolons; but no count, as nccl-tests' own tables do. Elements are taken for float.
class ShortTable {
 public:
  /// "size count type time algbw busbw" of a heading, and the numbers of a row below it. Nothing
  /// for other lines.
  std::optional<std::string> take(std::string_view line);

 private:
  struct Columns {
    std::size_t size = 0, busbw = 0, all = 0;
    std::optional<std::size_t> time, algbw;
    double micro_seconds = 1;  ///< of the heading's unit of time
    char between = ' ';
  };
  static std::optional<Columns> columns_of(const std::vector<std::string>& cells, char between);
  std::optional<std::string> row(const std::vector<std::string>& cells) const;

  std::optional<Columns> columns_;
};

}  // namespace foreduce
