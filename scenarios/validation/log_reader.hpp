// Reads what nccl-tests printed, line by line or as JSON. For nccl_log.cpp and its neighbours
// alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input/problem.hpp"
#include "scenarios/validation/nccl_log.hpp"
#include "scenarios/validation/nccl_words.hpp"
#include "scenarios/validation/rank_list.hpp"
#include "scenarios/validation/short_table.hpp"

namespace foreduce {

/// One log's tables, as they are read.
class LogReader {
 public:
  LogReader(const std::string& name, NoRow no_row) : no_row_(no_row) { log_.file = name; }

  /// Reads a text. Throws InputError where there is no table in it.
  NcclLog text(std::string_view text);
  /// Reads what nccl-tests -J writes. Throws InputError for other JSON.
  NcclLog json(std::string_view text);
  /// JSON of any kind, without its block of environment variables, which holds secrets. Throws
  /// InputError for what is none.
  nlohmann::json parse(std::string_view text) const;

 private:
  using Words = nccl_words::Words;

  /// What all_reduce_bench.py says of its run.
  struct TorchRun {
    int ranks = 0;  ///< 0: nothing
    std::string gpu;
    bool other_table = false;  ///< whose heading names no busbw and algbw
  };
  /// A row that has begun: what NCCL says of each call (NCCL_DEBUG_SUBSYS=TUNING, COLL) comes
  /// between its columns.
  struct BegunRow {
    int line = 0;
    std::string words;  ///< empty: there is none
  };
  enum class Breaks : std::uint8_t { may_go_on, ended };

  InputError fail(int line, std::string message, std::string hint = {}) const;
  void note(std::string what);

  void take(std::string_view line);
  void take_printed(std::string_view line);
  bool goes_on(std::string_view line);
  void begin_or_go_on(std::string_view piece);
  void end_begun_row();
  bool from_torch(const Words& words);
  void torch_row(double bytes, double busbw, double algbw);
  bool comment(const Words& words);
  void unread_row(std::string why);

  /// A new table, made when its first row comes.
  void begin() { open_ = false; }
  NcclTable& table();
  void row(double bytes, double count, const Words& printed, Breaks breaks);
  /// One half of a row; false where it holds no measurement, of which a note is made.
  bool take_half(NcclRow& row, int half, const nccl_words::Columns& columns, const Words& words,
                 int shift);
  void leave_out(double bytes, std::string why);
  void add(NcclRow row);

  /// Of the run that has printed no row yet, else of the last table; the first line says most.
  void fail_run(const std::string& why);
  /// A run begins that has printed no row yet.
  void begin_run();
  void end_without_row();
  /// What NCCL said before was of the runs before.
  void begin_ranks();
  void give_facts();
  void begin_facts();
  /// A line of NCCL's. Behind a run's end it is of the run that follows, if one does.
  void take_nccl(std::string_view line);
  /// Says of the last table where a list of ranks follows it, and it has none of its own.
  void note_ranks_behind();
  NcclLog finish();

  NoRow no_row_;
  NcclLog log_;
  NcclFacts facts_;
  bool behind_end_ = false;                // of a run whose last line has come
  std::vector<std::string> nccls_behind_;  // what NCCL has said since
  CommandSettings settings_;
  std::size_t told_ = 0;        // tables that have their facts
  nccl_words::AskedRun asked_;  // of the run that has begun
  int line_ = 0;
  bool ends_ = true, open_ = false;
  std::string collective_;
  RankList ranks_;
  FailedRun begun_;     // that has printed no row yet; line 0: none
  FailedRun unheaded_;  // the first line that speaks of a failure
  BegunRow begun_row_;
  std::string nccl_host_;  // before NCCL's last words
  int unread_ = 0;         // rows that cannot be read, of a table that has no other yet
  ShortTable short_table_;
  char cells_between_ = 0;     // of the last table whose heading stands in cells; 0: none
  bool heading_seen_ = false;  // of the run that has begun
  std::string warning_;        // NCCL's last, which may say why there is no row
  TorchRun torch_;
  std::optional<nccl_words::Columns> columns_;
};

/// A timing whose time is the CPU's: its bandwidth is the GPU's all the same (nccl-tests
/// common.cu). Nothing where that has too few decimals.
std::optional<NcclTiming> timing_by_bandwidth(double bytes, double algbw, double busbw);
/// Why a row of CPU's times may be left out.
inline constexpr std::string_view kUntoldTime =
    "a time of the CPU (-C 1), and too low a bandwidth to tell the GPU's; left out";

}  // namespace foreduce
