// What nccl-tests printed: text of any age, with whatever mpirun, a scheduler or NCCL_DEBUG put
// between its lines, or its JSON; and the table of all_reduce_bench.py (stas00/ml-engineering),
// which measures all-reduces from PyTorch. Measurements are what is taken from a log, and what NCCL
// says of how it ran, its own settings included, and the line that says why a run failed: no other
// environment variable, no command line, no unknown line is kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "input/units.hpp"
#include "scenarios/validation/nccl_facts.hpp"

namespace foreduce {

/// One half of a row.
struct NcclTiming {
  Seconds time;
  double algbw = 0, busbw = 0;       ///< GB/s (1e9), as printed
  std::optional<double> wrong = {};  ///< elements; null: not counted
  std::optional<double> error = {};  ///< the largest, of tests before 2.12, which do not count
  bool unchecked = false;            ///< "N/A" stands where these are

  bool checked() const { return wrong || error; }
};

struct NcclRow {
  int line = 0;  ///< in the file; 0 in JSON
  double bytes = 0, count = 0;
  std::string type, redop;
  int root = -1;                                     ///< -1: none
  std::optional<NcclTiming> out_of_place, in_place;  ///< at least one

  /// Out of place where there is one: what the published tables give.
  const NcclTiming& timing() const { return out_of_place ? *out_of_place : *in_place; }
};

/// One collective's table.
struct NcclTable {
  std::string collective;  ///< "all_reduce"; where nothing names it, what the columns leave
                           ///< possible ("all_gather or alltoall"); "" where they leave all
  std::string or_of;       ///< "all_gather or alltoall", where nothing names it and no more than
                           ///< what is checked in place tells which; else ""
  double ratio = 0;        ///< busbw over algbw, where nothing names it; 0: it is named, or unknown
  std::vector<NcclRow> rows;
  int ranks = 0;                    ///< 0: unknown
  bool ranks_from_columns = false;  ///< from busbw over algbw or size over count, not from the list
  int least_listed = 0;             ///< ranks, by the last of a list with holes
  int hosts = 0;                    ///< 0: unknown
  int least_on_host = 0;  ///< GPUs of a host, at least: by the largest number that one has
  /// Processes that each list the same ranks: runs side by side that know nothing of each other, as
  /// mpirun starts them of an nccl-tests without MPI. 1: as it should be.
  int independent_runs = 1;
  int groups = 1;  ///< of ranks that each run a collective of their own (NCCL_TESTS_SPLIT)
  std::string ranks_by_row;  ///< "8, 16", where rows are of different numbers of ranks
  std::string uneven;        ///< "10 on a, 6 on b", where hosts have different numbers of ranks
  /// "rank 0 is on a and on b": runs of several hosts that know nothing of each other; else "".
  std::string conflicting_hosts;
  std::string same_gpu;  ///< "ranks 0 and 8 are both on device 0 of a"; "": none share one
  std::string gpu;       ///< "NVIDIA A100-SXM4-40GB"; "" where unknown or mixed
  std::string mixed;  ///< "NVIDIA A100-SXM4-40GB and NVIDIA H100 80GB HBM3", where mixed; else ""
  std::string caller = "nccl-tests";    ///< see models/caller.hpp
  int least_ranks = 0, most_ranks = 0;  ///< that the columns allow, where they told `ranks`
  int gpus_of_process = 1;              ///< -g times -t: of several GPUs one process drives all
  std::vector<std::string> gpu_buses;   ///< "53", "64", …: of a host's GPUs; empty: not known
  bool ranks_behind = false;            ///< ranks are listed behind the log's last row
  double asked_bytes = 0;               ///< up to which the run was asked to go; 0: unknown
  double out_of_bounds = 0;             ///< wrong elements, as the run's last lines say
  double most_left_out = 0;             ///< the largest size whose row is whole but not sound
  int unread_rows = 0;                  ///< rows of it that cannot be read
  bool ended = false;                   ///< the run printed its last lines
  bool below_minimum = false;           ///< and that its own minimum bandwidth was not reached
  std::string failure;                  ///< what the log says of why it failed; else ""
  NcclFacts facts;
};

/// A run that printed no row.
struct FailedRun {
  int line = 0;            ///< where it began
  std::string collective;  ///< "" where nothing names it
  std::string failure;     ///< what the log says of why; "" where it just ends
  std::string warning;     ///< NCCL's last before that; "" where it gave none
};

struct NcclLog {
  std::string file;
  std::vector<NcclTable> tables;  ///< with at least one row each; none: see NoRow
  std::vector<FailedRun> failed_runs;
  std::vector<std::string> notes;  ///< "line 17: …": rows left out, and why
};

/// What a log is of which every run ended before its first row.
enum class NoRow : std::uint8_t {
  is_error,
  is_failed_run  ///< a log without tables: that a run failed is an answer, too
};

/// Reads a log; throws InputError (file:line: what) where there is no table in it. A damaged row
/// costs a note, not the log.
NcclLog load_nccl_log(const std::filesystem::path& file, NoRow no_row = NoRow::is_error);
/// The same from text; `name` stands in messages.
NcclLog parse_nccl_log(const std::string& name, std::string_view text,
                       NoRow no_row = NoRow::is_error);

}  // namespace foreduce
