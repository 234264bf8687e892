#include "scenarios/report/table.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <cctype>

#include "input/printable.hpp"
#include "input/text_stream.hpp"

namespace foreduce {
namespace {

bool numeric(const std::string& cell) {
  return !cell.empty() &&
         (std::isdigit(static_cast<unsigned char>(cell[0])) || cell[0] == '-' || cell[0] == '+');
}

/// The first `most` letters, with an ellipsis where some are cut off.
std::string shortened(const std::string& text, std::size_t most) {
  if (letters(text) <= most) return text;
  std::string out;
  std::size_t count = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80 && ++count >= most) break;
    out += c;
  }
  return out + "…";
}

/// Letters that are left for an error's reason.
std::size_t room_after(const std::string& begin, const View& view) {
  return static_cast<std::size_t>(std::max<int>(24, view.width - static_cast<int>(letters(begin))));
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

/// Whether `next` is the unit of the number before it: "5 %" and "431.0 ms" stay together.
bool is_unit_behind(const std::string& word, const std::string& next) {
  static const std::set<std::string_view> kUnits = {
      "ns",  "us", "ms", "s",  "min", "h",    "d",    "B",    "KiB",  "MiB", "GiB",
      "TiB", "KB", "MB", "GB", "TB",  "MB/s", "GB/s", "TB/s", "Gbps", "USD", "TFLOPS"};
  if (next.starts_with('%')) return true;
  const auto ends = next.find_last_not_of(".,;:)");
  const auto digit = std::min(word.size(), word.find_first_not_of("($-"));
  return digit < word.size() && std::isdigit(static_cast<unsigned char>(word[digit])) != 0 &&
         ends != std::string::npos && kUnits.contains(std::string_view(next).substr(0, ends + 1));
}

}  // namespace

std::size_t letters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string wrapped(const std::string& text, const View& view, int indent) {
  if (view.format == Format::markdown || view.format == Format::html) return text + "\n";
  std::string spaced = text, out, line;
  std::replace(spaced.begin(), spaced.end(), '\n', ' ');
  TextStream pieces(spaced);
  std::vector<std::string> words;
  for (std::string word; std::getline(pieces, word, ' ');) {
    if (!words.empty() && is_unit_behind(words.back(), word)) words.back() += " " + word;
    else words.push_back(word);
  }
  bool begun = false;  // an empty word is one more space
  for (const std::string& word : words) {
    const auto last = line.find_last_not_of(' ');
    const bool full =
        letters(line) + 1 + letters(word) > static_cast<std::size_t>(std::max(20, view.width));
    if (full && !word.empty() && last != std::string::npos) {
      out += line.substr(0, last + 1) + "\n";
      line = std::string(static_cast<std::size_t>(indent), ' ') + word;
    } else {
      line += (begun ? " " : "") + word;
    }
    begun = true;
  }
  return out + without_trailing_spaces(line) + "\n";
}

void Table::column(std::string heading, int rank) {
  const std::size_t width = letters(heading);
  columns_.push_back({std::move(heading), rank, width});
}
void Table::row(std::vector<std::string> cells) { add({std::move(cells), "", 0}); }
void Table::failed_row(std::vector<std::string> cells, std::string why) {
  add({std::move(cells), std::move(why), 0});
}

void Table::add(Row row) {
  row.given = row.cells.size();
  row.cells.resize(columns_.size(), "-");  // an error has few; a stored report's lists may differ
  for (std::string& cell : row.cells) cell = printable(cell, cell.size());
  row.error = printable(row.error, row.error.size());
  for (std::size_t c = 0; c < columns_.size(); ++c)
    if (row.error.empty() || columns_[c].rank == 0)
      columns_[c].width = std::max(columns_[c].width, letters(row.cells[c]));
  rows_.push_back(std::move(row));
}

std::size_t Table::total_width(const std::vector<std::size_t>& columns) const {
  std::size_t total = 0;
  for (const std::size_t c : columns) total += columns_[c].width + 2;
  return total > 0 ? total - 2 : 0;
}

std::vector<std::size_t> Table::shown(const View& view) const {
  std::vector<std::size_t> columns(columns_.size());
  for (std::size_t c = 0; c < columns.size(); ++c) columns[c] = c;
  const auto drop_one = [&] {
    const auto last = std::max_element(
        columns.begin(), columns.end(),
        [&](std::size_t a, std::size_t b) { return columns_[a].rank < columns_[b].rank; });
    if (columns_[*last].rank == 0) return false;
    columns.erase(last);
    return true;
  };
  if (view.wide) return columns;
  while (columns.size() > kMostColumns && drop_one()) {
  }
  if (view.format == Format::markdown) return columns;
  while (total_width(columns) > static_cast<std::size_t>(view.width) && drop_one()) {
  }
  return columns;
}

std::vector<std::string> Table::hidden(const View& view) const {
  const std::vector<std::size_t> columns = shown(view);
  std::vector<std::string> names;
  for (std::size_t c = 0; c < columns_.size(); ++c)
    if (std::find(columns.begin(), columns.end(), c) == columns.end())
      names.push_back(columns_[c].heading);
  return names;
}

std::string Table::line(const std::vector<std::size_t>& columns,
                        const std::vector<std::string>& cells,
                        const std::vector<bool>& right) const {
  std::string out;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string& cell = cells[columns[i]];
    const std::size_t width = columns_[columns[i]].width;
    const std::string space(width - std::min(width, letters(cell)), ' ');
    out += (i > 0 ? "  " : "") + (right[i] ? space + cell : cell + space);
  }
  return without_trailing_spaces(out);
}

std::optional<Table> Table::narrowed(const std::vector<std::size_t>& columns,
                                     const View& view) const {
  constexpr std::size_t kLeast = 20;
  const std::size_t total = total_width(columns), width = static_cast<std::size_t>(view.width);
  if (view.wide || total <= width) return std::nullopt;
  const std::size_t first = columns.front(), more = total - width;
  if (columns.size() < 2 || columns_[first].width < more + kLeast) return std::nullopt;
  Table narrow = *this;
  narrow.columns_[first].width -= more;
  for (Row& row : narrow.rows_)
    row.cells[first] = shortened(row.cells[first], narrow.columns_[first].width);
  return narrow;
}

std::string Table::text(const View& view) const {
  const std::vector<std::size_t> columns = shown(view);
  if (view.format == Format::markdown) return markdown(columns);
  if (const auto narrow = narrowed(columns, view)) return narrow->text(view);
  std::vector<std::string> headings;
  std::vector<bool> right;
  for (const std::size_t c : columns) {
    const auto filled = std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) {
      return r.error.empty() && r.cells[c] != "-";
    });
    right.push_back(filled != rows_.end() && numeric(filled->cells[c]));
  }
  for (const Column& c : columns_) headings.push_back(c.heading);
  const std::string head = line(columns, headings, right);
  std::string out = (view.colour ? "\033[1m" + head + "\033[0m" : head) + "\n";
  for (const Row& row : rows_) {
    if (row.error.empty()) {
      out += wrapped_line(columns, row.cells, right, view);
      continue;
    }
    const std::string begin = error_begins(columns, row, right);
    out += begin + (view.wide ? row.error : shortened(row.error, room_after(begin, view))) + "\n";
  }
  return out;
}

/// A row whose last cell, if that is text, goes on below itself where there is no room.
std::string Table::wrapped_line(const std::vector<std::size_t>& columns,
                                const std::vector<std::string>& cells,
                                const std::vector<bool>& right, const View& view) const {
  constexpr std::size_t kLeast = 20;
  const std::size_t before = total_width(columns) - columns_[columns.back()].width,
                    width = static_cast<std::size_t>(view.width);
  if (view.wide || right.back() || total_width(columns) <= width || before + kLeast > width)
    return line(columns, cells, right) + "\n";
  TextStream parts(
      wrapped(cells[columns.back()], View{.width = static_cast<int>(width - before)}, 0));
  std::vector<std::string> some = cells;
  std::getline(parts, some[columns.back()]);
  std::string out = line(columns, some, right) + "\n";
  for (std::string part; std::getline(parts, part);) out += std::string(before, ' ') + part + "\n";
  return out;
}

/// An error's row up to the reason: the columns that say which row it is stay in their places.
std::string Table::error_begins(const std::vector<std::size_t>& columns, const Row& row,
                                const std::vector<bool>& right) const {
  const auto last = std::find_if(columns.rbegin(), columns.rend(), [&](std::size_t c) {
    return columns_[c].rank == 0 && c < row.given;
  });
  const std::vector<std::size_t> identifying(columns.begin(), last.base());
  std::string begin = line(identifying, row.cells, right);
  std::size_t width = total_width(identifying);
  begin.resize(begin.size() + width - std::min(width, letters(begin)), ' ');
  return begin + "  error: ";
}

std::vector<std::string> Table::cut_errors(const View& view) const {
  std::vector<std::string> cut;
  if (view.wide || view.format == Format::markdown || view.format == Format::html) return cut;
  const std::vector<std::size_t> columns = shown(view);
  for (const Row& row : rows_)
    if (!row.error.empty() &&
        letters(row.error) >
            room_after(error_begins(columns, row, std::vector<bool>(columns.size())), view) &&
        std::find(cut.begin(), cut.end(), row.error) == cut.end())
      cut.push_back(row.error);
  return cut;
}

std::string Table::markdown(const std::vector<std::size_t>& columns) const {
  const auto escaped = [](std::string cell) {
    for (std::size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2)
      cell.insert(at, "\\");
    return cell;
  };
  std::string out = "|", rule = "|";
  for (const std::size_t c : columns) {
    const bool right = !rows_.empty() && rows_[0].error.empty() && numeric(rows_[0].cells[c]);
    out += " " + escaped(columns_[c].heading) + " |";
    rule += right ? "---:|" : "---|";
  }
  out += "\n" + rule + "\n";
  for (const Row& row : rows_) {
    out += "|";
    bool told = false;
    for (const std::size_t c : columns) {
      const bool blank = !row.error.empty() && columns_[c].rank != 0;
      out += " " + (blank ? (told ? "" : escaped("error: " + row.error)) : escaped(row.cells[c])) +
             " |";
      told = told || blank;
    }
    out += "\n";
  }
  return out;
}

std::string html_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const char* entity = c == '<'    ? "&lt;"
                         : c == '>'  ? "&gt;"
                         : c == '&'  ? "&amp;"
                         : c == '"'  ? "&quot;"
                         : c == '\'' ? "&#39;"
                                     : nullptr;
    const bool control = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
    if (entity) out += entity;
    else out += control ? ' ' : c;  // XML has no control characters
  }
  return out;
}

std::string Table::html(std::size_t most) const {
  const std::vector<std::size_t> usual = shown(View{.format = Format::markdown});
  const auto tag = [&](const char* name, std::size_t c, const char* style) {
    const bool more = std::find(usual.begin(), usual.end(), c) == usual.end();
    const std::string classes =
        std::string(more ? "more" : "") + (more && *style ? " " : "") + style;
    return std::string("<") + name + (classes.empty() ? "" : " class=\"" + classes + "\"") + ">";
  };
  std::string out = "<table>\n<thead><tr>";
  std::vector<const char*> styles;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const auto filled = std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) {
      return r.error.empty() && r.cells[c] != "-";
    });
    styles.push_back(filled != rows_.end() && numeric(filled->cells[c]) ? "number" : "");
    out += tag("th", c, styles[c]) + html_escaped(columns_[c].heading) + "</th>";
  }
  out += "</tr></thead>\n<tbody>\n";
  const auto last =
      std::find_if(columns_.rbegin(), columns_.rend(), [](const Column& c) { return c.rank == 0; });
  const auto identifying = static_cast<std::size_t>(last.base() - columns_.begin());
  std::size_t told = 0;
  for (const Row& row : rows_) {
    std::string line = row.error.empty() ? "<tr>" : "<tr class=\"failed\">";
    std::size_t c = 0;
    for (; c < (row.error.empty() ? columns_.size() : identifying); ++c)
      line += tag("td", c, styles[c]) + html_escaped(row.cells[c]) + "</td>";
    if (!row.error.empty())
      line += "<td colspan=\"" + std::to_string(std::max<std::size_t>(1, columns_.size() - c)) +
              "\">error: " + html_escaped(row.error) + "</td>";
    line += "</tr>\n";
    if (out.size() + line.size() > most) break;
    out += line;
    ++told;
  }
  out += "</tbody>\n</table>\n";
  if (told < rows_.size())
    out += "<p class=\"note\">The first " + std::to_string(told) + " of " +
           std::to_string(rows_.size()) + " rows; the JSON report has all.</p>\n";
  return out;
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string out;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    std::string cell = cells[c];
    if (cell.find_first_of(",\"\n") != std::string::npos) {
      for (std::size_t at = 0; (at = cell.find('"', at)) != std::string::npos; at += 2)
        cell.insert(at, "\"");
      cell = "\"" + cell + "\"";
    }
    out += (c ? "," : "") + cell;
  }
  return out + "\n";
}

std::string Table::csv() const {
  std::vector<std::string> headings;
  for (const Column& c : columns_) headings.push_back(c.heading);
  std::string out = csv_line(headings);
  for (const Row& row : rows_) out += csv_line(row.cells);
  return out;
}

}  // namespace foreduce
