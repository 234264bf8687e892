#include "input/csv.hpp"

#include "input/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "input/units.hpp"

namespace foreduce {

Csv Csv::load(const std::filesystem::path& file) { return parse(file.string(), read_text(file)); }

Csv Csv::parse(std::string name, const std::string& text) {
  Csv table;
  table.name = std::move(name);
  int line = 1;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '#') {
      at = std::min(text.find('\n', at), text.size() - 1) + 1;
      ++line;
      continue;
    }
    Row row{line, {""}};
    bool quoted = false;
    for (; at < text.size() && (quoted || text[at] != '\n'); ++at) {
      const char c = text[at];
      if (c == '\n') ++line;
      if (quoted && c == '"' && at + 1 < text.size() && text[at + 1] == '"')
        row.cells.back() += text[++at];
      else if (quoted && c == '"') quoted = false;
      else if (!quoted && c == '"' && row.cells.back().empty()) quoted = true;
      else if (!quoted && c == ',') row.cells.emplace_back();
      else if (quoted || c != '\r') row.cells.back() += c;
    }
    if (quoted)
      throw InputError(Problem{table.name, row.line, 0, "", "a quote is not closed", "", ""});
    ++at;
    ++line;
    if (table.headings.empty()) {
      table.headings = std::move(row.cells);
      continue;
    }
    if (row.cells.size() != table.headings.size())
      throw InputError(Problem{
          table.name, row.line, 0, "",
          fmt::format("{} cells where the heading has {}", row.cells.size(), table.headings.size()),
          "", ""});
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::size_t Csv::column(const std::string& heading) const {
  const auto at = std::find(headings.begin(), headings.end(), heading);
  if (at == headings.end())
    throw InputError(
        Problem{name, 1, 0, heading, "this column is missing", suggest(heading, headings), ""});
  return static_cast<std::size_t>(at - headings.begin());
}

double Csv::number(const Row& row, std::size_t column) const {
  double value = 0;
  std::string why;
  if (!parse_number(row.cells[column], value, why)) fail(row, column, why);
  return value;
}

void Csv::fail(const Row& row, std::size_t column, const std::string& message) const {
  throw InputError(Problem{name, row.line, 0, headings[column], message, "", ""});
}

}  // namespace foreduce
