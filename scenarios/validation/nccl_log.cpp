#include "scenarios/validation/nccl_log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "algorithms/core/collective.hpp"
#include "models/caller.hpp"
#include "scenarios/validation/log_reader.hpp"
#include "scenarios/validation/log_text.hpp"
#include "scenarios/validation/nccl_ratio.hpp"

namespace foreduce {

using namespace nccl_words;

InputError LogReader::fail(int line, std::string message, std::string hint) const {
  return InputError(
      Problem{log_.file, line, line > 0 ? 1 : 0, "", std::move(message), std::move(hint), ""});
}

static constexpr std::size_t kMaxNotes = 50;

void LogReader::note(std::string what) {
  if (log_.notes.size() < kMaxNotes)
    log_.notes.push_back(line_ > 0 ? fmt::format("line {}: {}", line_, what) : std::move(what));
  else if (log_.notes.size() == kMaxNotes) log_.notes.emplace_back("and more of the kind");
}

NcclLog LogReader::text(string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    ++line_;
    std::size_t end = text.find('\n', at);
    ends_ = end != string_view::npos;
    if (!ends_) end = text.size();
    string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    take(line);
    at = end + 1;
  }
  end_begun_row();
  return finish();
}

void LogReader::take(string_view line) {
  const std::optional<std::string> printed = unwrapped(line);
  if (printed) line = *printed;
  std::string plain;
  if (line.find('\x1b') != string_view::npos) line = plain = without_colours(line);
  std::string unescaped;
  if (line.find("\\_") != string_view::npos || line.find("\\#") != string_view::npos)
    line = unescaped = without_escapes(line);
  std::string untagged;
  if (line.find("<std") != string_view::npos) line = untagged = without_tags(line);
  // NCCL's words may cling to a row that has begun: "… sum -1host:41:41 [0] NCCL INFO …".
  if (const std::size_t clings = where_nccl_begins(line, nccl_host_); clings > 0) {
    begin_or_go_on(line.substr(0, clings));
    line.remove_prefix(clings);
  } else if (!begun_row_.words.empty()) {
    if (goes_on(line)) return;
    if (!is_of_nccl(line)) end_begun_row();
  }
  if (is_of_nccl(line))
    if (std::string host = host_in(line); !host.empty()) nccl_host_ = std::move(host);
  take_printed(line);
}

void LogReader::take_printed(string_view line) {
  const std::optional<ShortTable::Line> of_short_table = short_table_.take(line);
  if (of_short_table && of_short_table->words.empty())
    return unread_row("a row whose size, time or bandwidth cannot be read; left out");
  if (of_short_table) line = of_short_table->words;
  const std::optional<CellLine> cells = words_of_cells(line);
  if (cells) line = cells->words;
  if (cells && cells->is_heading) cells_between_ = cells->between;
  if (!cells && cells_between_ != 0 && begins_as_row_of(line, cells_between_))
    return unread_row("a row whose size, count or type cannot be read; left out");
  if (const auto failure = failure_in(line)) fail_run(*failure);
  if (std::string warning = warning_in(line); !warning.empty()) warning_ = std::move(warning);
  for (const string_view amds : {"rccl-tests: Version", "rccl-tests version", "RCCL version"})
    if (line.find(amds) != string_view::npos) facts_.rccl = true;
  // Settings of Slingshot's provider, which hardly anybody makes elsewhere.
  if (const std::size_t cxi = line.find("FI_CXI_");
      cxi != string_view::npos && line.find('=', cxi) != string_view::npos &&
      facts_.other_plugin.empty() && !facts_.efa_named)
    facts_.other_plugin = kSlingshot;
  if (line.find("NCCL ") != string_view::npos || line.find("NET/") != string_view::npos)
    take_nccl(line);
  else settings_.take(line);
  const Words words = split(line);
  if (from_torch(words)) return;
  if (const string_view test = test_in(words); !test.empty()) collective_ = collective_of(test);
  if (lacks_sign(words) && comment(words)) return;
  for (std::size_t i = 0; i < words.size(); ++i) {
    // "#  Rank", "# Collective test", "#  size": behind whatever prefix, which may cling to the
    // sign.
    if (words[i].ends_with('#') &&
        comment({words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end()}))
      return;
    if (i + 2 < words.size() && bytes_of(without_mark(words[i + 2])) > 0) {
      const auto bytes = amount(without_prefix(words[i])), count = amount(words[i + 1]);
      if (bytes && count)
        return row(*bytes, *count,
                   {words.begin() + static_cast<std::ptrdiff_t>(i) + 2, words.end()},
                   Breaks::may_go_on);
      if (count && open_) return unread_row("a size that is no number of bytes; left out");
    }
  }
  constexpr std::size_t kFewest = 6;  // size, count, type, time, algbw, busbw
  if (heading_seen_ && words.size() >= kFewest && words[0][0] >= '0' && words[0][0] <= '9' &&
      bytes_of(words[2]) > 0)
    unread_row("a row whose size or count is no whole number; left out");
}

void LogReader::fail_run(const std::string& why) {
  if (unheaded_.line == 0) unheaded_ = {line_, "", why, ""};
  std::string& failure =
      begun_.line > 0 || log_.tables.empty() ? begun_.failure : log_.tables.back().failure;
  if (failure.empty()) failure = why;
}

bool LogReader::from_torch(const Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t left = words.size() - i;
    if (left > 5 && words[i] == "bandwidth" && words[i + 2] == "all_reduce" &&
        words[i + 5] == "ranks") {
      torch_ = TorchRun{small(words[i + 4]).value_or(0), torch_.gpu, false};
      begin();
      return true;
    }
    if (left > 5 && words[i].ends_with('|') && words[i + 1] == "payload")
      torch_.other_table = std::find(words.begin(), words.end(), "busbw") == words.end() ||
                           std::find(words.begin(), words.end(), "algbw") == words.end();
    if (left > 5 && !torch_.other_table && words[i].ends_with('|') && words[i + 2] == "|" &&
        words[i + 4] == "|")
      if (const auto bytes = binary_size(words[i + 1]))
        if (const auto busbw = in_gbps(words[i + 3]), algbw = in_gbps(words[i + 5]);
            busbw && algbw) {
          torch_row(*bytes, *busbw, *algbw);
          return true;
        }
    if (words[i].starts_with("_CudaDeviceProperties(name='")) torch_.gpu = quoted_from(words, i);
    if (left > 2 && words[i].starts_with("nccl=("))
      facts_.nccl_version = dotted({words[i].substr(6), words[i + 1], words[i + 2]});
  }
  return false;
}

void LogReader::torch_row(double bytes, double busbw, double algbw) {
  constexpr double kTold = 0.1;  // GB/s: below, two decimals are too few
  if (busbw < kTold || algbw <= 0)
    return note("a bandwidth of less than 0.1 GB/s has too few digits; left out");
  const double factor =
      torch_.ranks > 1 ? bus_factor(Collective::all_reduce, torch_.ranks) : busbw / algbw;
  if (std::abs(busbw - factor * algbw) > 0.0051 * (1 + factor))
    return note("a row whose busbw is not what its algbw makes it; left out");
  const double rate = busbw / factor;  // busbw has more digits
  NcclRow r{line_, bytes, bytes / 4, "float", "sum", -1, {}, {}};
  r.out_of_place = NcclTiming{Seconds{bytes / rate / 1e9}, algbw, busbw};
  if (!open_) {
    NcclTable t;
    t.collective = "all_reduce";
    t.ranks = torch_.ranks;
    t.gpu = torch_.gpu;
    t.caller = kTorch;
    log_.tables.push_back(std::move(t));
    open_ = true;
  }
  log_.tables.back().rows.push_back(std::move(r));
}

bool LogReader::comment(const Words& words) {
  if (words.size() > 2 && words[0] == "size" && words[1] == "count" && words[2] == "type") {
    columns_ = columns_of({words.begin() + 2, words.end()});
    if (!columns_)
      note(fmt::format("a header without time, algbw and busbw, in this order: {}",
                       fmt::join(words, " ")));
    if (behind_end_) begin_facts();  // of a page that leaves out the lines before
    begin();
    if (heading_seen_ || begun_.line == 0) begin_run();  // else nThread began it
    heading_seen_ = true;
    return true;
  }
  if (words.size() > 3 && words[0] == "Collective" && words[2] == "starting:") {
    collective_ = collective_of(without_tail(words[3]));
    ranks_.test_begins();
    return true;
  }
  if (words.size() > 2 && words[0] == "nThread") {
    // Runs side by side each print this line before any prints its heading.
    if (begun_.line > 0 && heading_seen_) end_without_row();
    heading_seen_ = false;
    begin_ranks();
    begin_run();
    asked_ = asked_in(words);
    return true;
  }
  if (words.size() > 1 && words[0] == "Blocking" && words[1].starts_with("Enabled")) {
    facts_.blocking = true;
    return true;
  }
  if (words.size() > 3 && words[0] == "Reducing" && words[1] == "maxBytes") {
    asked_.bytes = whole(words[3]).value_or(0);
    return true;
  }
  if (words.size() > 4 && words[0] == "Avg" && words[1] == "bus") {
    if (!open_) {  // it ran to its end, and only its rows cannot be read
      begun_ = {};
      return true;
    }
    NcclTable& ended = log_.tables.back();
    ended.ended = true;
    behind_end_ = true;
    if (!ended.failure.empty())  // and yet it ran to its end
      note(fmt::format("between its rows the log says \"{}\"", std::exchange(ended.failure, {})));
    log_.tables.back().below_minimum = words.back() == "FAILED";  // NCCL_TESTS_MIN_BW
    return true;
  }
  if (words.size() > 5 && words[0] == "Out" && words[3] == "values") {  // "…: 12 FAILED"
    if (open_ && words.back() != "OK")
      log_.tables.back().out_of_bounds = number(words[5]).value_or(1);
    return true;
  }
  if (words.size() > 4 && words[0] == "Rank") {
    if (!ranks_.take(words)) note("a rank that cannot be read");
    return true;
  }
  return false;
}

void LogReader::begin_run() {
  if (begun_.line > 0 && !begun_.failure.empty()) end_without_row();
  if (begun_.line == 0) begun_ = {line_, collective_, "", ""};
}

void LogReader::end_without_row() {
  begun_.warning = std::exchange(warning_, {});
  log_.failed_runs.push_back(std::exchange(begun_, {}));
}

void LogReader::begin_ranks() {
  note_ranks_behind();
  ranks_.clear();
  if (log_.tables.size() > told_) begin_facts();
}

void LogReader::begin_facts() {
  give_facts();
  facts_ = {};
  behind_end_ = false;
  for (const std::string& line : std::exchange(nccls_behind_, {})) take_info(facts_, line);
}

void LogReader::take_nccl(string_view line) {
  if (behind_end_) nccls_behind_.emplace_back(line);
  else take_info(facts_, line);
}

void LogReader::note_ranks_behind() {
  if (!log_.tables.empty() && log_.tables.back().least_listed == 0 && ranks_.is_behind_rows())
    log_.tables.back().ranks_behind = true;
}

void LogReader::give_facts() {
  for (std::size_t i = told_; i < log_.tables.size(); ++i) log_.tables[i].facts = facts_;
  told_ = log_.tables.size();
}

void LogReader::unread_row(std::string why) {
  note(std::move(why));
  ++(open_ ? log_.tables.back().unread_rows : unread_);
}

NcclTable& LogReader::table() {
  if (open_) return log_.tables.back();
  NcclTable t;
  t.collective = collective_;
  t.asked_bytes = asked_.bytes;
  t.gpus_of_process = asked_.each_process;
  t.unread_rows = std::exchange(unread_, 0);
  ranks_.tell(t);
  log_.tables.push_back(std::move(t));
  open_ = true;
  return log_.tables.back();
}

NcclLog LogReader::finish() {
  if (log_.tables.empty()) {
    // A run may fail before it prints its heading.
    if (begun_.line == 0 && log_.failed_runs.empty() && log_.notes.empty())
      begun_ = std::exchange(unheaded_, {});
    if (begun_.line > 0) end_without_row();
    // Rows that cannot be read are no failure of the run, unless it says that it failed.
    const bool failed = std::any_of(
        log_.failed_runs.begin(), log_.failed_runs.end(),
        [&](const FailedRun& run) { return !run.failure.empty() || log_.notes.empty(); });
    if (failed && no_row_ == NoRow::is_failed_run) return std::move(log_);
    if (!failed && !log_.notes.empty())
      throw fail(line_,
                 fmt::format("no row of an nccl-tests table can be read; {}", log_.notes.front()));
    if (failed) {
      const auto& [began, collective, why, last] = log_.failed_runs.back();
      throw fail(line_,
                 !why.empty()
                     ? fmt::format("the run ended with an error before its first row: {}", why)
                     : "the run ended, or hung, before its first row" +
                           (last.empty() ? last : fmt::format("; its last warning: {}", last)),
                 "what stands behind the heading says why; run with NCCL_DEBUG=INFO");
    }
    throw fail(0, "there is no table of nccl-tests in it",
               "accepted: the text of all_reduce_perf and the like, or its JSON (-J); the table of "
               "all_reduce_bench.py; also packed by gzip, or wrapped in JSON line by line");
  }
  for (const std::string& line : nccls_behind_) take_info(facts_, line);
  give_facts();
  if (begun_.line > 0) end_without_row();
  for (NcclTable& t : log_.tables) read_ratio(t, log_.notes);
  note_ranks_behind();
  std::erase_if(log_.tables, [](const NcclTable& t) { return t.rows.empty(); });
  if (log_.tables.empty())
    throw fail(line_,
               fmt::format("no row of an nccl-tests table can be read; {}", log_.notes.front()));
  return std::move(log_);
}

namespace {

NcclLog parse_lines(const std::string& name, std::string_view text, NoRow no_row) {
  const std::optional<std::string> whole = unfolded(text);
  if (!whole) return LogReader(name, no_row).text(text);
  NcclLog log = LogReader(name, no_row).text(*whole);
  log.notes.insert(log.notes.begin(), "lines were cut at the width of a terminal; joined again");
  return log;
}

}  // namespace

NcclLog parse_nccl_log(const std::string& name, std::string_view text, NoRow no_row) {
  const auto first = text.find_first_not_of(" \t\r\n");
  const bool braced = first != string_view::npos && (text[first] == '{' || text[first] == '[');
  if (!braced) return parse_lines(name, text, no_row);
  if (nlohmann::json::accept(text)) {
    if (const auto lines = lines_of_events(LogReader(name, no_row).parse(text)))
      return parse_lines(name, *lines, no_row);
    return LogReader(name, no_row).json(text);
  }
  if (text[first] == '[') return parse_lines(name, text, no_row);  // "[1,0]<stdout>:"
  try {  // A script may print its settings in braces before nccl-tests' table.
    return parse_lines(name, text, no_row);
  } catch (const InputError&) {  // nor a table: what is wrong with the JSON says more
    return LogReader(name, no_row).json(text);
  }
}

}  // namespace foreduce
