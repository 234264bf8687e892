#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "scenarios/validation/log_reader.hpp"

namespace foreduce {

using namespace nccl_words;

std::optional<NcclTiming> timing_by_bandwidth(double bytes, double algbw, double busbw) {
  constexpr double kTold = 0.1;  // GB/s
  if (algbw < kTold) return std::nullopt;
  return NcclTiming{Seconds{bytes / algbw / 1e9}, algbw, busbw};
}

bool LogReader::goes_on(string_view line) {
  const Words words = split(line);
  if (words.empty() || !std::all_of(words.begin(), words.end(), is_value)) return false;
  begun_row_.words += fmt::format(" {}", line);
  return true;
}

void LogReader::begin_or_go_on(string_view piece) {
  const Words words = split(piece);
  if (const auto at = row_begins(words)) {
    end_begun_row();
    const auto from = static_cast<std::size_t>(words[*at].data() - piece.data());
    begun_row_ = {line_, std::string(piece.substr(from))};
    return;
  }
  if (begun_row_.words.empty()) return;
  std::size_t values = words.size();
  while (values > 0 && is_value(words[values - 1])) --values;
  for (; values < words.size(); ++values) begun_row_.words += fmt::format(" {}", words[values]);
}

void LogReader::end_begun_row() {
  const BegunRow begun = std::exchange(begun_row_, {});
  if (begun.words.empty()) return;
  const Words words = split(begun.words);
  const int line = std::exchange(line_, begun.line);
  row(*amount(without_prefix(words[0])), *amount(words[1]), {words.begin() + 2, words.end()},
      Breaks::ended);
  line_ = line;
}

bool LogReader::take_half(NcclRow& r, int half, const Columns& c, const Words& words, int shift) {
  const auto word = [&](int at) { return words[static_cast<std::size_t>(at - shift)]; };
  const int at = c.time[half];
  if (at < 0 || word(at) == "N/A") return true;
  const auto time = number(word(at)), algbw = number(word(c.algbw[half])),
             busbw = number(word(c.busbw[half]));
  const bool unchecked = c.wrong[half] < 0 || word(c.wrong[half]) == "N/A";
  const auto wrong = unchecked ? std::optional(0.0) : number_or_none(word(c.wrong[half]));
  if (!time || !algbw || !busbw || !wrong || !(*time > 0)) {
    leave_out(r.bytes, (time ? *time <= 0 : word(at).starts_with('-'))
                           ? fmt::format("a row whose time is {}; left out", word(at))
                           : "a row with something else where a number is due; left out");
    return false;
  }
  auto& there = half == 0 ? r.out_of_place : r.in_place;
  if (c.cpu_time) {
    there = timing_by_bandwidth(r.bytes, *algbw, *busbw);
    if (!there) note(std::string(kUntoldTime));
    return there.has_value();
  }
  // What the columns say of each other tells a shifted or damaged row from a sound one, but for
  // the digits that are printed: two in 1.2e+06.
  const auto agree = [&](double rate) {
    const double few = half_digit(word(at)) / *time,
                 slack = word(at).find('e') == string_view::npos ? std::max(0.01, few) : 0.06;
    return std::abs(rate - *algbw) <=
           std::clamp(half_digit(word(c.algbw[half])), 0.006, 0.05) + slack * rate;
  };
  constexpr double kMilli = 1e3;  // nccl-tests of 2017 printed milliseconds
  const double rate = r.bytes / (*time * 1e-6) / 1e9;
  const bool in_ms = !agree(rate) && *algbw > 0.1 && agree(rate / kMilli);
  if (!agree(rate) && !in_ms) {
    leave_out(r.bytes, fmt::format("a row whose algbw is not its size over its time ({:.4g} "
                                   "GB/s); left out",
                                   rate));
    return false;
  }
  NcclTiming timing{Seconds{*time * (in_ms ? kMilli : 1) * 1e-6}, *algbw, *busbw};
  timing.unchecked = unchecked && c.wrong[half] >= 0;
  if (!unchecked)
    (c.largest_error || *wrong != std::floor(*wrong) ? timing.error : timing.wrong) = wrong;
  there = timing;
  return true;
}

void LogReader::row(double bytes, double count, const Words& printed, Breaks breaks) {
  std::optional<Columns> c = columns_;
  const Words words = whole_row(printed, c);
  if (!c) c = columns_like(words);
  const std::size_t expected = c ? c->words + (c->timestamp ? 2 : 0) : 0;
  NcclRow r{line_, bytes, count, std::string(words[0]), "", -1, {}, {}};
  // Trace replay leaves the first half blank; then the second stands in its place.
  bool blank = c && c->time[1] > 0 &&
               words.size() + static_cast<std::size_t>(c->time[1] - c->time[0]) == expected;
  if (blank) {
    const string_view before = words[static_cast<std::size_t>(c->time[0] - 1)],
                      first = words[static_cast<std::size_t>(c->time[0])];
    blank = first.data() - (before.data() + before.size()) >
            20;  // else it is the second half that is missing
  }
  if (!c || (words.size() != expected && !blank)) {
    constexpr std::size_t kCutShort = 4;
    if (breaks == Breaks::may_go_on && words.size() < std::max(expected, kCutShort + 1)) {
      begun_row_ = {line_, fmt::format("{:.0f} {:.0f} {}", bytes, count, fmt::join(printed, " "))};
      return;
    }
    unread_row(
        !c && words.size() > kCutShort
            ? fmt::format("a row of {} columns after the type, which no nccl-tests prints; left "
                          "out",
                          words.size() - 1)
        : ends_ ? "a row that breaks off or has another line in it; left out"
                : "the last row breaks off; left out");
    return;
  }
  if (c->redop > 0) r.redop = words[static_cast<std::size_t>(c->redop)];
  if (c->root > 0)
    if (const auto root = small(words[static_cast<std::size_t>(c->root)])) r.root = *root;
  if (!blank && !take_half(r, 0, *c, words, 0)) return;
  if (!take_half(r, 1, *c, words, blank ? c->time[1] - c->time[0] : 0)) return;
  if (!r.out_of_place && !r.in_place) return note("a row without a time; left out");
  add(std::move(r));
}

void LogReader::leave_out(double bytes, std::string why) {
  note(std::move(why));
  if (open_) log_.tables.back().most_left_out = std::max(log_.tables.back().most_left_out, bytes);
}

void LogReader::add(NcclRow r) {
  if (open_ && !columns_ && r.bytes < log_.tables.back().rows.back().bytes)
    begin();  // without headers: a size that falls begins a table
  table().rows.push_back(std::move(r));
  settings_.give_to(facts_);
  ranks_.row_printed();
  if (!begun_.failure.empty())
    note(fmt::format("before its first row the log says \"{}\"", begun_.failure));
  begun_ = {};
  warning_.clear();  // the run goes on all the same
}

}  // namespace foreduce
