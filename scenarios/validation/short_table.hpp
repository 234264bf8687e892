// Tables that people make of nccl-tests' output: sizes, times and bandwidths, and nothing else.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreduce {

/// Turns the lines of such a table into those of nccl-tests. Its heading names a size in bytes, an
/// algorithm and a bus bandwidth, and perhaps a time in us, ms or s, in any order, between bars,
/// commas, semicolons or tabs, and nothing else but in-place columns. nccl-tests' own tables have a
/// count and a type, and are none. Elements are taken for float.
class ShortTable {
 public:
  /// A line of such a table.
  struct Line {
    std::string words;  ///< "size count type time algbw busbw", or a row's numbers; empty: a row
                        ///< that cannot be read
  };
  /// Nothing for lines of other kinds.
  std::optional<Line> take(std::string_view line);

 private:
  struct Columns {
    std::size_t size = 0, busbw = 0, all = 0;
    std::optional<std::size_t> time, algbw;  ///< at least one
    double micro_seconds = 1;                ///< of the heading's unit of time
    char between = '|';
  };
  static std::optional<Columns> columns_of(const std::vector<std::string>& cells, char between);
  std::optional<std::string> row(const std::vector<std::string>& cells) const;

  std::optional<Columns> columns_;
};

}  // namespace foreduce
