#include "scenarios/validation/short_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <regex>

#include "scenarios/validation/nccl_words.hpp"

namespace foreduce {

using nccl_words::number;
using std::string_view;

namespace {

/// The cells of a line, without blanks and quotes around them. Nothing stands outside of a bar at
/// either end.
std::vector<std::string> cells_between(string_view line, char between) {
  constexpr string_view kAround = " \t*`\"'#";
  std::vector<std::string> cells;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(between, at), line.size());
    string_view text = line.substr(at, end - at);
    text.remove_prefix(std::min(text.find_first_not_of(kAround), text.size()));
    text = text.substr(0, text.find_last_not_of(kAround) + 1);
    const bool edge = cells.empty() || end == line.size();
    if (!text.empty() || !edge) cells.emplace_back(text);
    at = end + 1;
  }
  return cells;
}

/// A size in bytes: "8388608", "8,388,608", "8 MiB", "8M"; prefixes are powers of 1024, as in
/// nccl-tests' -b.
std::optional<double> bytes_in(std::string text) {
  std::erase(text, ' ');
  if (text.ends_with('B') && text.size() > 1 &&
      std::isdigit(static_cast<unsigned char>(text[text.size() - 2])) != 0)
    text.pop_back();
  if (text.find('k') != std::string::npos) text[text.find('k')] = 'K';
  return nccl_words::amount(text);
}

/// A cell's number, where one of these units may stand behind it.
std::string without_unit(std::string cell, std::initializer_list<string_view> units) {
  for (const string_view unit : units)
    if (cell.ends_with(unit)) cell.resize(cell.size() - unit.size());
  while (cell.ends_with(' ')) cell.pop_back();
  return cell;
}

/// Microseconds of the unit behind a column's name, "time (ms)"; 0 for another.
double micro_seconds_of(const std::string& name) {
  static const std::regex kTime(R"(time[ _]*[(\[]?(us|usec|\xc2\xb5s|\xce\xbcs|ms|s)?[)\]]?)");
  std::smatch found;
  if (!std::regex_match(name, found, kTime)) return 0;
  const std::string unit = found[1].str();
  return unit == "ms" ? 1e3 : unit == "s" ? 1e6 : 1;
}

}  // namespace

std::optional<ShortTable::Columns> ShortTable::columns_of(const std::vector<std::string>& cells,
                                                          char between) {
  static const std::regex kSize(R"(((message )?(size|bytes)|message)[ _]*[(\[]?(b|bytes)?[)\]]?)"),
      kAlgbw(R"(alg(orithm)?[ _]?(bw|bandwidth)[ _]*[(\[]?(gb/s|gbps)?[)\]]?)"),
      kBusbw(R"(bus[ _]?(bw|bandwidth)[ _]*[(\[]?(gb/s|gbps)?[)\]]?)"), kWrong("#?wrong|error");
  Columns c;
  c.between = between;
  c.all = cells.size();
  std::optional<std::size_t> size, algbw, busbw;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string name = nccl_words::lower(cells[i]);
    if (std::regex_match(name, kSize) && !size) size = i;
    else if (std::regex_match(name, kAlgbw))
      algbw = algbw.value_or(i);  // out of place stands first
    else if (std::regex_match(name, kBusbw)) busbw = busbw.value_or(i);
    else if (const double unit = micro_seconds_of(name); unit > 0) {
      if (!c.time) c.micro_seconds = unit;
      c.time = c.time.value_or(i);
    } else if (!std::regex_match(name, kWrong)) return std::nullopt;
  }
  if (!size || !busbw || !(algbw || c.time)) return std::nullopt;
  c.size = *size;
  c.algbw = algbw;
  c.busbw = *busbw;
  return c;
}

std::optional<std::string> ShortTable::row(const std::vector<std::string>& cells) const {
  if (cells.size() != columns_->all) return std::nullopt;
  const auto bytes = bytes_in(cells[columns_->size]);
  // As printed: their digits say how exact they are.
  std::string algbw =
      columns_->algbw ? without_unit(cells[*columns_->algbw], {"GB/s", "GBps"}) : "";
  const std::string busbw = without_unit(cells[columns_->busbw], {"GB/s", "GBps"});
  auto time =
      columns_->time ? number(without_unit(cells[*columns_->time], {"us", "µs"})) : std::nullopt;
  if (time) *time *= columns_->micro_seconds;
  if (algbw.empty() && bytes && time && *time > 0)
    algbw = fmt::format("{:.2f}", *bytes / *time / 1e3);
  const auto rate = number(algbw);
  if (!columns_->time && bytes && rate && *rate > 0) time = *bytes / *rate / 1e3;
  if (!bytes || !rate || !number(busbw) || !time) return std::nullopt;
  constexpr double kFloat = 4;
  return fmt::format("{:.0f} {:.0f} float {:.6g} {} {}", *bytes, *bytes / kFloat, *time, algbw,
                     busbw);
}

std::optional<ShortTable::Line> ShortTable::take(string_view line) {
  for (const char between : {'|', ',', ';', '\t'}) {
    if (line.find(between) == string_view::npos) continue;
    const auto cells = cells_between(line, between);
    if (auto columns = columns_of(cells, between)) {
      columns_ = std::move(columns);
      return Line{"size count type time algbw busbw"};
    }
    if (!columns_ || columns_->between != between || cells.empty()) continue;
    if (auto words = row(cells)) return Line{std::move(*words)};
    // A row begins with a digit; what divides the heading from rows does not.
    if (std::isdigit(static_cast<unsigned char>(cells[0].empty() ? ' ' : cells[0][0])) != 0 &&
        cells.size() + 1 >= columns_->all)
      return Line{};
  }
  return std::nullopt;
}

}  // namespace foreduce
