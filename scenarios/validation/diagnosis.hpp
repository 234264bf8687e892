// `foreduce check`: is what nccl-tests measured what this cluster should do, and if not, why.
#pragma once

#include "scenarios/sweep/sweep.hpp"
#include "scenarios/validation/nccl_log.hpp"

namespace foreduce {

enum class Verdict : std::uint8_t { normal, slow, fast };
const char* name_of(Verdict verdict);

/// A cause that explains the measurements better than a healthy cluster does: predicted with the
/// same model, then compared.
struct Cause {
  std::string what;      ///< "1 of 4 rails carries everything"
  std::string remedy;    ///< what to look at
  std::string evidence;  ///< what the log itself says for it; may be empty
  double misfit = 0;     ///< mean distance from its prediction, in half-widths of the interval
};

/// One row against the model.
struct CheckedRow {
  NcclRow row;
  Seconds expected, low, high;  ///< 99 % prediction interval
  Verdict verdict = Verdict::normal;
};

/// One table against the model.
struct CheckedTable {
  std::string instance, profile;
  int nodes = 0, ranks = 0;
  std::vector<CheckedRow> rows;
  bool normal = false;  ///< no three sizes in a row and no fifth of all are out of their intervals
  double misfit = 0;    ///< of the healthy cluster, as Cause::misfit
  std::vector<Cause> causes;  ///< best first; those that fit about as well stand beside it
  std::vector<std::string> remarks;
};

/// Judges every all-reduce table of a log. `instance` and `nodes` ("" and 0: from the log) say
/// where it ran. Throws InputError where that is not known, or the log contradicts it.
std::vector<CheckedTable> check(const NcclLog& log, const std::string& instance, int nodes,
                                const BatchOptions& options);

}  // namespace foreduce
