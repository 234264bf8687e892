#include "scenarios/validation/nccl_log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "algorithms/core/collective.hpp"
#include "input/json.hpp"
#include "models/caller.hpp"
#include "scenarios/validation/log_text.hpp"
#include "scenarios/validation/nccl_json.hpp"
#include "scenarios/validation/nccl_ratio.hpp"
#include "scenarios/validation/nccl_words.hpp"
#include "scenarios/validation/rank_list.hpp"

namespace foreduce {
namespace {

using namespace nccl_words;

constexpr std::size_t kMaxNotes = 50;

InputError fail(const std::string& file, int line, std::string message, std::string hint = {}) {
  return InputError(
      Problem{file, line, line > 0 ? 1 : 0, "", std::move(message), std::move(hint), ""});
}

/// Why a row of CPU's times may be left out.
constexpr string_view kUntold =
    "a time of the CPU (-C 1), and too low a bandwidth to tell the GPU's; left out";
/// A timing whose time is the CPU's: its bandwidth is the GPU's all the same (nccl-tests
/// common.cu). Nothing where that has too few decimals.
std::optional<NcclTiming> by_bandwidth(double bytes, double algbw, double busbw) {
  constexpr double kTold = 0.1;  // GB/s
  if (algbw < kTold) return std::nullopt;
  return NcclTiming{Seconds{bytes / algbw / 1e9}, algbw, busbw};
}

class LogReader {
 public:
  LogReader(const std::string& name, NoRow no_row) : no_row_(no_row) { log_.file = name; }

  NcclLog text(string_view text) {
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
    return finish();
  }

  nlohmann::json parse(string_view text) const;
  NcclLog json(string_view text);

 private:
  /// What all_reduce_bench.py says of its run.
  struct TorchRun {
    int ranks = 0;  // 0: nothing
    std::string gpu;
  };

  void note(std::string what) {
    if (log_.notes.size() < kMaxNotes)
      log_.notes.push_back(line_ > 0 ? fmt::format("line {}: {}", line_, what) : std::move(what));
    else if (log_.notes.size() == kMaxNotes) log_.notes.emplace_back("and more of the kind");
  }

  void take(string_view line) {
    const std::optional<std::string> printed = unwrapped(line);
    if (printed) line = *printed;
    std::string plain;
    if (line.find('\x1b') != string_view::npos) line = plain = without_colours(line);
    std::string untagged;
    if (line.find("<std") != string_view::npos) line = untagged = without_tags(line);
    const std::optional<CellLine> cells = words_of_cells(line);
    if (cells) line = cells->words;
    if (cells && cells->is_heading) cells_between_ = cells->between;
    if (!cells && cells_between_ != 0 && begins_as_row_of(line, cells_between_))
      return note("a row whose size, count or type cannot be read; left out");
    if (const auto failure = failure_in(line)) fail_run(*failure);
    if (std::string warning = warning_in(line); !warning.empty()) warning_ = std::move(warning);
    if (line.find("NCCL ") != string_view::npos || line.find("NET/") != string_view::npos)
      take_info(facts_, line);
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
        const auto bytes = whole(words[i].substr(words[i].find_last_of(">:") + 1)),
                   count = whole(words[i + 1]);
        if (bytes && count)
          return row(*bytes, *count,
                     {words.begin() + static_cast<std::ptrdiff_t>(i) + 2, words.end()});
        if (count && open_) return note("a size that is no number of bytes; left out");
      }
    }
  }

  /// Of the run that has printed no row yet, else of the last table; the first line says most.
  void fail_run(const std::string& why) {
    std::string& failure =
        begun_.line > 0 || log_.tables.empty() ? begun_.failure : log_.tables.back().failure;
    if (failure.empty()) failure = why;
  }

  /// A line of all_reduce_bench.py: "| 32KiB | 1.42GBps | 0.81GBps |" is a size, busbw and algbw.
  bool from_torch(const Words& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::size_t left = words.size() - i;
      if (left > 5 && words[i] == "bandwidth" && words[i + 2] == "all_reduce" &&
          words[i + 5] == "ranks") {
        torch_ = TorchRun{small(words[i + 4]).value_or(0), torch_.gpu};
        begin();
        return true;
      }
      if (left > 5 && words[i].ends_with('|') && words[i + 2] == "|" && words[i + 4] == "|")
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

  void torch_row(double bytes, double busbw, double algbw) {
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

  bool comment(const Words& words) {
    if (words.size() > 2 && words[0] == "size" && words[1] == "count" && words[2] == "type") {
      columns_ = columns_of({words.begin() + 2, words.end()});
      if (!columns_)
        note(fmt::format("a header without time, algbw and busbw, in this order: {}",
                         fmt::join(words, " ")));
      begin();
      begin_run();
      heading_seen_ = true;
      return true;
    }
    if (words.size() > 3 && words[0] == "Collective" && words[2] == "starting:") {
      collective_ = collective_of(words[3]);
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
    if (words.size() > 3 && words[0] == "Reducing" && words[1] == "maxBytes") {
      asked_.bytes = whole(words[3]).value_or(0);
      return true;
    }
    if (words.size() > 4 && words[0] == "Avg" && words[1] == "bus") {
      if (!open_) return true;
      log_.tables.back().ended = true;
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

  /// A new table, made when its first row comes.
  void begin() { open_ = false; }

  NcclTable& table() {
    if (open_) return log_.tables.back();
    NcclTable t;
    t.collective = collective_;
    t.asked_bytes = asked_.bytes;
    t.gpus_of_process = asked_.each_process;
    ranks_.tell(t);
    log_.tables.push_back(std::move(t));
    open_ = true;
    return log_.tables.back();
  }

  void row(double bytes, double count, const Words& printed) {
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
      note(!c && words.size() > kCutShort
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
    for (const int half : {0, 1}) {
      const int shift = half == 1 && blank ? c->time[1] - c->time[0] : 0;
      if (c->time[half] < 0 || (half == 0 && blank)) continue;
      const auto word = [&](int at) { return words[static_cast<std::size_t>(at - shift)]; };
      const int at = c->time[half];
      if (word(at) == "N/A") continue;
      const auto time = number(word(at)), algbw = number(word(c->algbw[half])),
                 busbw = number(word(c->busbw[half]));
      const bool unchecked = c->wrong[half] < 0 || word(c->wrong[half]) == "N/A";
      const auto wrong = unchecked ? std::optional(0.0) : number_or_none(word(c->wrong[half]));
      if (!time || !algbw || !busbw || !wrong || !(*time > 0))
        return leave_out(bytes, (time ? *time <= 0 : word(at).starts_with('-'))
                                    ? fmt::format("a row whose time is {}; left out", word(at))
                                    : "a row with something else where a number is due; left out");
      if (c->cpu_time) {
        const auto timing = by_bandwidth(bytes, *algbw, *busbw);
        if (!timing) return note(std::string(kUntold));
        (half == 0 ? r.out_of_place : r.in_place) = timing;
        continue;
      }
      // What the columns say of each other tells a shifted or damaged row from a sound one, but for
      // the digits that are printed: two in 1.2e+06.
      const double says = bytes / (*time * 1e-6) / 1e9, few = half_digit(word(at)) / *time,
                   slack = word(at).find('e') == string_view::npos ? std::max(0.01, few) : 0.06;
      if (std::abs(says - *algbw) >
          std::clamp(half_digit(word(c->algbw[half])), 0.006, 0.05) + slack * says) {
        return leave_out(
            bytes, fmt::format("a row whose algbw is not its size over its time ({:.4g} GB/s); "
                               "left out",
                               says));
      }
      NcclTiming timing{Seconds{*time * 1e-6}, *algbw, *busbw};
      timing.unchecked = unchecked && c->wrong[half] >= 0;
      if (!unchecked)
        (c->largest_error || *wrong != std::floor(*wrong) ? timing.error : timing.wrong) = wrong;
      (half == 0 ? r.out_of_place : r.in_place) = timing;
    }
    if (!r.out_of_place && !r.in_place) return note("a row without a time; left out");
    add(std::move(r));
  }

  void leave_out(double bytes, std::string why) {
    note(std::move(why));
    if (open_) log_.tables.back().most_left_out = std::max(log_.tables.back().most_left_out, bytes);
  }

  void add(NcclRow r) {
    if (open_ && !columns_ && r.bytes < log_.tables.back().rows.back().bytes)
      begin();  // without headers: a size that falls begins a table
    table().rows.push_back(std::move(r));
    settings_.give_to(facts_);
    ranks_.row_printed();
    begun_ = {};
    warning_.clear();  // the run goes on all the same
  }

  /// A run begins that has printed no row yet.
  void begin_run() {
    if (begun_.line > 0 && !begun_.failure.empty()) end_without_row();
    if (begun_.line == 0) begun_ = {line_, collective_, "", ""};
  }
  void end_without_row() {
    begun_.warning = std::exchange(warning_, {});
    log_.failed_runs.push_back(std::exchange(begun_, {}));
  }
  /// What NCCL said before was of the runs before.
  void begin_ranks() {
    ranks_.clear();
    if (log_.tables.size() == told_) return;
    give_facts();
    facts_ = {};
  }
  void give_facts() {
    for (std::size_t i = told_; i < log_.tables.size(); ++i) log_.tables[i].facts = facts_;
    told_ = log_.tables.size();
  }

  NcclLog finish();

  NoRow no_row_;
  NcclLog log_;
  NcclFacts facts_;
  CommandSettings settings_;
  std::size_t told_ = 0;  // tables that have their facts
  AskedRun asked_;           // of the run that has begun
  int line_ = 0;
  bool ends_ = true, open_ = false;
  std::string collective_;
  RankList ranks_;
  FailedRun begun_;            // that has printed no row yet; line 0: none
  char cells_between_ = 0;     // of the last table whose heading stands in cells; 0: none
  bool heading_seen_ = false;  // of the run that has begun
  std::string warning_;        // NCCL's last, which may say why there is no row
  TorchRun torch_;
  std::optional<Columns> columns_;
};

NcclLog LogReader::finish() {
  if (log_.tables.empty()) {
    if (begun_.line > 0) end_without_row();
    // Rows that cannot be read are no failure of the run, unless it says that it failed.
    const bool failed = std::any_of(
        log_.failed_runs.begin(), log_.failed_runs.end(),
        [&](const FailedRun& run) { return !run.failure.empty() || log_.notes.empty(); });
    if (failed && no_row_ == NoRow::is_failed_run) return std::move(log_);
    if (!failed && !log_.notes.empty())
      throw fail(log_.file, line_,
                 fmt::format("no row of an nccl-tests table can be read; {}", log_.notes.front()));
    if (failed) {
      const auto& [began, collective, why, last] = log_.failed_runs.back();
      throw fail(log_.file, line_,
                 !why.empty()
                     ? fmt::format("the run ended with an error before its first row: {}", why)
                     : "the run ended, or hung, before its first row" +
                           (last.empty() ? last : fmt::format("; its last warning: {}", last)),
                 "what stands behind the heading says why; run with NCCL_DEBUG=INFO");
    }
    throw fail(log_.file, 0, "there is no table of nccl-tests in it",
               "accepted: the text of all_reduce_perf and the like, or its JSON (-J); the table of "
               "all_reduce_bench.py; also packed by gzip, or wrapped in JSON line by line");
  }
  give_facts();
  if (begun_.line > 0) end_without_row();
  for (NcclTable& t : log_.tables) read_ratio(t, log_.notes);
  std::erase_if(log_.tables, [](const NcclTable& t) { return t.rows.empty(); });
  if (log_.tables.empty())
    throw fail(log_.file, line_,
               fmt::format("no row of an nccl-tests table can be read; {}", log_.notes.front()));
  return std::move(log_);
}

nlohmann::json LogReader::parse(string_view text) const {
  using nlohmann::json;
  check_json_depth(log_.file, text);
  try {
    // The block of environment variables holds secrets: it is dropped while it is read.
    return json::parse(text, [](int depth, json::parse_event_t event, json& value) {
      return !(depth == 1 && event == json::parse_event_t::key && value == "env");
    });
  } catch (const json::parse_error& e) {  // what() quotes the file: not passed on
    const auto byte = static_cast<std::ptrdiff_t>(std::min(e.byte, text.size()));
    const auto lines = std::count(text.begin(), text.begin() + byte, '\n');
    throw fail(log_.file, static_cast<int>(lines) + 1,
               fmt::format("no JSON from byte {} on", byte));
  } catch (const json::out_of_range&) {
    throw fail(log_.file, 0, "a number is out of range");
  }
}

NcclLog LogReader::json(string_view text) {
  using nccl_json::number_of;
  using nccl_json::text_of;
  using nlohmann::json;
  const json all = parse(text);
  const auto wrong = [&](const std::string& what) {
    return fail(log_.file, 0, what, "accepted: what nccl-tests -J writes, versions 1 to 3");
  };
  if (!all.is_object() || !all.contains("results"))
    throw wrong("JSON without results: not nccl-tests'");
  if (const auto version = number_of(all, "version"); !version || *version < 1 || *version > 3)
    throw wrong(version ? fmt::format("version {} of nccl-tests' JSON is not known", *version)
                        : "JSON without nccl-tests' version");
  if (const auto version = number_of(all, "nccl_version");
      version && *version > 1000 && *version < 1e7) {
    const int v = static_cast<int>(*version), major = v >= 10000 ? v / 10000 : v / 1000,
              minor = v >= 10000 ? v / 100 % 100 : v / 100 % 10;
    facts_.nccl_version = fmt::format("{}.{}.{}", major, minor, v % 100);
  }
  const json& config =
      all.contains("config") && all["config"].is_object() ? all["config"] : json::object();
  asked_.bytes = number_of(config, "maximum_bytes").value_or(0);
  for (nccl_json::Device& d : nccl_json::devices_of(config))
    ranks_.take(d.rank, std::move(d.host), std::move(d.gpu));
  if (!all["results"].is_array()) throw wrong("results are no list");
  if (all.contains("args") && all["args"].is_array() && !all["args"].empty() &&
      all["args"][0].is_string())
    collective_ = collective_of(all["args"][0].get<std::string>());
  std::size_t place = 0;
  for (const json& r : all["results"]) {
    const auto at = place++;
    if (!r.is_object()) throw wrong(fmt::format("results[{}] is no object", at));
    NcclRow row;
    const auto bytes = number_of(r, "size"), count = number_of(r, "count");
    row.type = text_of(r, "type");
    row.redop = text_of(r, "redop");
    if (!bytes || !count || bytes_of(row.type) == 0)
      throw wrong(fmt::format("results[{}] lacks size, count or a known type", at));
    row.bytes = *bytes;
    row.count = *count;
    bool untold = false;
    for (const char* half : {"out_of_place", "in_place"}) {
      const auto found = r.find(half);
      if (found == r.end() || found->is_null()) continue;
      const bool of_cpu = found->is_object() && found->contains("cpu_time");
      const auto time =
          found->is_object() ? number_of(*found, of_cpu ? "cpu_time" : "time") : std::nullopt;
      const auto algbw = found->is_object() ? number_of(*found, "alg_bw") : std::nullopt,
                 busbw = found->is_object() ? number_of(*found, "bus_bw") : std::nullopt;
      if (!time || !algbw || !busbw || !(*time > 0))
        throw wrong(fmt::format("results[{}].{} lacks time, alg_bw or bus_bw", at, half));
      std::optional<NcclTiming> timing = NcclTiming{Seconds{*time * 1e-6}, *algbw, *busbw};
      if (of_cpu) timing = by_bandwidth(*bytes, *algbw, *busbw);
      untold = untold || !timing;
      if (!timing) continue;
      timing->wrong = number_of(*found, "nwrong");
      timing->unchecked = !timing->wrong;
      (half[0] == 'o' ? row.out_of_place : row.in_place) = timing;
    }
    if (row.out_of_place || row.in_place) add(std::move(row));
    else if (untold) note(fmt::format("results[{}] is {}", at, kUntold));
    else note(fmt::format("results[{}] has no time; left out", at));
  }
  NcclLog log = finish();
  if (!log.tables.empty()) nccl_json::take_end(all, log.tables.back());
  return log;
}

}  // namespace

NcclLog parse_nccl_log(const std::string& name, std::string_view text, NoRow no_row) {
  const auto first = text.find_first_not_of(" \t\r\n");
  const bool braced = first != string_view::npos && (text[first] == '{' || text[first] == '[');
  if (!braced) return LogReader(name, no_row).text(text);
  if (nlohmann::json::accept(text)) {
    if (const auto lines = lines_of_events(LogReader(name, no_row).parse(text)))
      return LogReader(name, no_row).text(*lines);
    return LogReader(name, no_row).json(text);
  }
  if (text[first] == '[') return LogReader(name, no_row).text(text);  // "[1,0]<stdout>:"
  try {  // A script may print its settings in braces before nccl-tests' table.
    return LogReader(name, no_row).text(text);
  } catch (const InputError&) {  // nor a table: what is wrong with the JSON says more
    return LogReader(name, no_row).json(text);
  }
}

}  // namespace foreduce
