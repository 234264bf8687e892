// What holds of every report that people read.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <set>

#include "scenarios/report/table.hpp"
#include "tests/support/program.hpp"

namespace foreduce::test {

/// The marks of a report's rows, such as "*b", each once in the order of rows.
inline std::vector<std::string> marks_of(const std::string& report) {
  static const std::regex mark(R"( (\*[a-z]?)(?=\s|$))");
  std::vector<std::string> marks;
  for (const PrintedTable& table : tables_in(report))
    for (const std::string& row : table.rows) {
      std::smatch found;
      if (!std::regex_search(row, found, mark)) continue;
      if (std::find(marks.begin(), marks.end(), found[1]) == marks.end()) marks.push_back(found[1]);
    }
  return marks;
}

/// Expects "*" alone, or "*a", "*b" and so on; and a note for each.
inline void expect_marks_in_order(const std::string& report) {
  const std::vector<std::string> marks = marks_of(report);
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const std::string letter = marks.size() == 1 ? "" : std::string(1, static_cast<char>('a' + i));
    EXPECT_EQ(marks[i], "*" + letter);
    EXPECT_NE(report.find("\n" + marks[i] + " wider interval: "), std::string::npos) << marks[i];
  }
}

/// Expects the headings of a report with --wide: those without, and those that it says it hides.
inline void expect_wide_has_all(const std::string& narrow, const std::string& wide) {
  const auto few = tables_in(narrow), all = tables_in(wide);
  ASSERT_EQ(few.size(), all.size()) << wide;
  std::multiset<std::string> expected, got;
  for (const PrintedTable& table : few)
    expected.insert(table.headings.begin(), table.headings.end());
  for (const std::string& heading : hidden_headings(narrow)) expected.insert(heading);
  for (const PrintedTable& table : all) got.insert(table.headings.begin(), table.headings.end());
  EXPECT_EQ(got, expected);
  EXPECT_EQ(hidden_headings(wide), std::vector<std::string>{});
}

/// Expects of a stored report that its tables have few columns and no long lines without --wide,
/// all columns with it, and marks in order.
inline void expect_tables_fit(const std::string& report) {
  const Result narrow = foreduce_says("show " + report);
  const Result wide = foreduce_says("show --wide " + report);
  ASSERT_EQ(narrow.status + wide.status, 0) << narrow.out << wide.out;
  EXPECT_EQ(fmt::format("{}", fmt::join(lines_wider_than(100, narrow.out), "\n")), "");
  const auto tables = tables_in(narrow.out);
  EXPECT_FALSE(tables.empty()) << narrow.out;
  for (const PrintedTable& table : tables) {
    EXPECT_LE(table.headings.size(), kMostColumns) << narrow.out;
    EXPECT_EQ(std::set(table.headings.begin(), table.headings.end()).size(), table.headings.size())
        << "a heading is there twice: " << fmt::format("{}", fmt::join(table.headings, ", "));
  }
  expect_wide_has_all(narrow.out, wide.out);
  expect_marks_in_order(narrow.out);
}

/// Cells of a row of Markdown; "\|" does not end one.
inline std::size_t markdown_cells(const std::string& row) {
  std::size_t bars = 0;
  for (std::size_t i = 0; i < row.size(); ++i)
    bars += row[i] == '|' && (i == 0 || row[i - 1] != '\\');
  return bars - 1;
}

/// Expects of a stored report that every row of its Markdown tables has as many cells as the first.
inline void expect_markdown_is_whole(const std::string& report) {
  const std::string text = foreduce_says("show --format markdown " + report).out;
  std::size_t tables = 0, cells = 0;
  bool within = false;
  for (const std::string& line : lines_of(text)) {
    const bool row = line.starts_with("|");
    if (row && !within) {
      ++tables;
      cells = markdown_cells(line);
    }
    if (row) {
      EXPECT_EQ(markdown_cells(line), cells) << line;
      EXPECT_EQ(line.back(), '|') << line;
    }
    within = row;
  }
  EXPECT_GT(tables, 0u) << text;
}

}  // namespace foreduce::test
