// A reader of CSV (RFC 4180: quotes may hold commas and doubled quotes), for data that ship.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "input/problem.hpp"

namespace foreduce {

/// A table with its headings; every row has as many cells as there are headings.
struct Csv {
  std::string name;  ///< of the file, for messages
  std::vector<std::string> headings;
  struct Row {
    int line = 0;
    std::vector<std::string> cells;
  };
  std::vector<Row> rows;

  /// Reads a file; lines that start with '#' are comments. Throws InputError with file and line for
  /// an unreadable file, an open quote, or a row of another length.
  static Csv load(const std::filesystem::path& file);
  static Csv parse(std::string name, const std::string& text);
  /// The column of that heading. Throws InputError if there is none.
  std::size_t column(const std::string& heading) const;
  /// A cell as a number; throws InputError with its line and column heading.
  double number(const Row& row, std::size_t column) const;
  [[noreturn]] void fail(const Row& row, std::size_t column, const std::string& message) const;
};

}  // namespace foreduce
