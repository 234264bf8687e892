#include "scenarios/validation/short_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/validation/nccl_words.hpp"

namespace foreduce {

using nccl_words::number;
using std::string_view;

namespace {

/// The cells of a line, without blanks and quotes around them. An empty one at either end, outside
/// of a bar, is none.
std::vector<std::string> cells_between(string_view line, char between) {
  constexpr string_view kAround = " \t*`\"'#";
  std::vector<std::string> cells;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(between, at), line.size());
    string_view text = line.substr(at, end - at);
    text.remove_prefix(std::min(text.find_first_not_of(kAround), text.size()));
    text = text.substr(0, text.find_last_not_of(kAround) + 1);
    const bool edge = cells.empty() || end == line.size();
    if (!text.empty() || (between != ' ' && !edge)) cells.emplace_back(text);
    at = end + 1;
  }
  return cells;
}

/// A size in bytes: "8388608", "8 MiB", "8M"; prefixes are powers of 1024, as nccl-tests' -b.
std::optional<double> bytes_in(std::string text) {
  std::erase(text, ' ');
  if (const auto bytes = nccl_words::whole(text)) return bytes;
  if (!text.empty() && text.back() != 'B') text += 'B';
  return nccl_words::binary_size(text);
}

}  // namespace

std::optional<ShortTable::Columns> ShortTable::columns_of(const std::vector<std::string>& cells,
                                                          char between) {
  Columns c;
  c.between = between;
  c.all = cells.size();
  std::optional<std::size_t> size, busbw;
  const auto once = [](auto& place, std::size_t at) {  // out of place stands before in place
    if (!place) place = at;
  };
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string name = nccl_words::lower(cells[i]);
    if (name.starts_with("count") || name.starts_with("type")) return std::nullopt;
    if (name.starts_with("size") || name.starts_with("bytes") || name.starts_with("message"))
      once(size, i);
    else if (name.starts_with("busbw") || name.starts_with("bus bandwidth") ||
             name.starts_with("bus_bw"))
      once(busbw, i);
    else if (name.starts_with("algbw") || name.starts_with("alg_bw")) once(c.algbw, i);
    else if (name.starts_with("time")) {
      once(c.time, i);
      if (name.find("ms") != std::string::npos) c.micro_seconds = 1e3;
    }
  }
  if (!size || !busbw || (!c.time && !c.algbw)) return std::nullopt;
  c.size = *size;
  c.busbw = *busbw;
  return c;
}

std::optional<std::string> ShortTable::row(const std::vector<std::string>& cells) const {
  if (cells.size() != columns_->all) return std::nullopt;
  const auto bytes = bytes_in(cells[columns_->size]);
  const auto busbw = number(cells[columns_->busbw]);
  auto time = columns_->time ? number(cells[*columns_->time]) : std::nullopt;
  auto algbw = columns_->algbw ? number(cells[*columns_->algbw]) : std::nullopt;
  if (time) *time *= columns_->micro_seconds;
  if (!time && algbw && *algbw > 0 && bytes) time = *bytes / *algbw / 1e3;
  if (!algbw && time && *time > 0 && bytes) algbw = *bytes / *time / 1e3;
  if (!bytes || !busbw || !time || !algbw) return std::nullopt;
  constexpr double kFloat = 4;
  return fmt::format("{:.0f} {:.0f} float {:.6g} {:.6g} {:.6g}", *bytes, *bytes / kFloat, *time,
                     *algbw, *busbw);
}

std::optional<std::string> ShortTable::take(string_view line) {
  constexpr std::size_t kFewest = 3;
  for (const char between : {'|', ',', ';', '\t', ' '}) {
    if (columns_ && columns_->between != between) continue;
    const auto cells = cells_between(line, between);
    if (cells.size() < kFewest) continue;
    if (columns_) {
      if (auto words = row(cells)) return words;
      break;
    }
    if (auto columns = columns_of(cells, between)) {
      columns_ = std::move(columns);
      return "size count type time algbw busbw";
    }
  }
  return std::nullopt;
}

}  // namespace foreduce
