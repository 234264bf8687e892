// Tables for people: aligned, of few columns, fitted to the terminal; and the same rows as Markdown
// or CSV.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace foreduce {

/// How an answer is written.
enum class Format : std::uint8_t { table, csv, json, markdown, html, nccl_tests };

/// How an answer is shown to a person.
struct View {
  Format format = Format::table;
  bool wide = false;         ///< all columns, however long the lines
  bool explain = false;      ///< definitions, sources and long reasons below
  bool colour = false;       ///< headings set apart with an escape sequence
  int width = 100;           ///< columns of the terminal
  std::string command = {};  ///< what was typed, for a page; empty: unknown
};

/// Columns that are shown without --wide.
inline constexpr std::size_t kMostColumns = 8;

class Table {
 public:
  /// `rank` says what goes first where there is no room: the highest; 0 never goes. Columns keep
  /// the order of adding.
  void column(std::string heading, int rank = 0);
  /// The next row; its cells follow, one a column.
  void row(std::vector<std::string> cells);
  /// A row without an answer: the cells of its first columns, which say what was asked, and why.
  void failed_row(std::vector<std::string> cells, std::string why);
  bool empty() const { return rows_.empty(); }
  std::size_t size() const { return rows_.size(); }

  /// Text or Markdown. At most kMostColumns columns, and no more than fit; all with `view.wide`.
  std::string text(const View& view) const;
  /// A table of HTML with all columns, of the class "more" those that text() would leave out, and
  /// with the rows that fit into `most` bytes.
  std::string html(std::size_t most) const;
  /// RFC 4180, all columns.
  std::string csv() const;
  /// Headings that text() leaves out.
  std::vector<std::string> hidden(const View& view) const;
  /// Reasons of rows without an answer that text() cuts short, each once.
  std::vector<std::string> cut_errors(const View& view) const;

 private:
  struct Column {
    std::string heading;
    int rank = 0;
    std::size_t width = 0;  // of its widest text, in letters
  };
  struct Row {
    std::vector<std::string> cells;
    std::string error;
    std::size_t given = 0;  // cells; of an error, those that say what was asked
  };
  void add(Row row);
  std::vector<std::size_t> shown(const View& view) const;
  std::size_t total_width(const std::vector<std::size_t>& columns) const;
  /// The table with its first column cut, where the columns that must be shown are too wide.
  std::optional<Table> narrowed(const std::vector<std::size_t>& columns, const View& view) const;
  std::string line(const std::vector<std::size_t>& columns, const std::vector<std::string>& cells,
                   const std::vector<bool>& right) const;
  std::string wrapped_line(const std::vector<std::size_t>& columns,
                           const std::vector<std::string>& cells, const std::vector<bool>& right,
                           const View& view) const;
  std::string error_begins(const std::vector<std::size_t>& columns, const Row& row,
                           const std::vector<bool>& right) const;
  std::string markdown(const std::vector<std::size_t>& columns) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

/// One line of CSV (RFC 4180).
std::string csv_line(const std::vector<std::string>& cells);

/// Text for HTML, inside an element or a quoted attribute.
std::string html_escaped(const std::string& text);

/// Letters, not bytes: "§" is one.
std::size_t letters(const std::string& text);
/// `text` in lines of at most `width` letters, broken at spaces; lines after the first begin with
/// `indent` spaces.
std::string wrapped(const std::string& text, const View& view, int indent = 2);

}  // namespace foreduce
