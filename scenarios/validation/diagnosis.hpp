// `foreduce check`: is what nccl-tests measured what this cluster should do, and if not, why.
#pragma once

#include "scenarios/validation/nccl_log.hpp"
#include "scenarios/cli/shared_options.hpp"

namespace foreduce {

/// Adds the command; when it is chosen, `action` does the work.
void add_check(CLI::App& app, Action& action);

enum class Verdict { normal, slow, fast };
const char* name_of(Verdict verdict);

/// A cause that explains the measurements better than a sound cluster does: predicted with the same model, then compared.
struct Cause {
  std::string what;      ///< "1 of 4 rails carries everything"
  std::string remedy;    ///< what to look at
  std::string evidence;  ///< what the log itself says for it; may be empty
  double misfit = 0;     ///< mean distance from its prediction, in half-widths of the interval
};

/// One row against the model.
struct CheckedRow {
  NcclRow row;
  Seconds expected, low, high;
  Verdict verdict = Verdict::normal;
};

/// One table against the model.
struct CheckedTable {
  std::string instance, profile;
  int nodes = 0, ranks = 0;
  std::vector<CheckedRow> rows;
  bool normal = false;        ///< no three sizes in a row and no fifth of all are out of their intervals
  double misfit = 0;          ///< of the sound cluster, as Cause::misfit
  std::vector<Cause> causes;  ///< best first; those that fit about as well stand beside it
  std::vector<std::string> remarks;
};

/// Judges every all-reduce table of a log. `instance` and `nodes` ("" and 0: from the log) say where it ran. Throws InputError
/// where that is not known, or the log contradicts it.
std::vector<CheckedTable> check(const NcclLog& log, const std::string& instance, int nodes, int jobs);

}  // namespace foreduce
