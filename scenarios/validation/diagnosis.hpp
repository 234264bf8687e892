// `foreduce check`: is what nccl-tests measured what this cluster should do, and if not, why.
#pragma once

#include <cstdint>
#include <memory>

#include "scenarios/sweep/sweep.hpp"
#include "scenarios/validation/findings.hpp"
#include "scenarios/validation/nccl_log.hpp"

namespace foreduce {

enum class Verdict : std::uint8_t { normal, slow, fast };
const char* name_of(Verdict verdict);

/// A cause that explains the measurements better than a healthy cluster does: predicted with the
/// same model, then compared.
struct Cause {
  Finding finding;
  double misfit = 0;     ///< how far its prediction is off in the mean: 0.08 is 8 %
  bool certain = false;  ///< the log leaves no other cause, or it is to be mended first
  bool crawls = false;   ///< so slow that only a few causes are left, of which times tell none
};

/// One row against a healthy cluster.
struct CheckedRow {
  NcclRow row;
  Seconds expected, low, high;
  HealthyFrom from = HealthyFrom::model;
  Verdict verdict = Verdict::normal;
};

/// One table against the model.
struct CheckedTable {
  Collective collective = Collective::all_reduce;
  std::string instance, profile;
  std::string timed_by;  ///< see models/caller.hpp
  int nodes = 0, ranks = 0;
  std::vector<CheckedRow> rows;
  /// No three sizes in a row and no fifth of all are out of their intervals, and none is far
  /// slower.
  bool normal = false;
  /// They are, and yet the largest take so much longer than predicted that a fault is as likely as
  /// an error of the model; then it is not normal.
  bool unsure = false;
  bool over_sockets = false;  ///< unsure, for sockets ran instead of RDMA and it may not show
  /// Only the GPU's name tells the machine, and most sizes are faster than such a machine.
  bool other_machine = false;
  /// Why the run is not to be trusted, whatever its speed, or what is slow where no row is.
  std::optional<Remark> broken;
  std::string nccl_version;
  NcclNetwork network = NcclNetwork::unknown;
  std::vector<std::string> sites;  ///< whose published runs say what is healthy
  std::string earlier;             ///< or the file of the earlier run that does
  double misfit = 0;               ///< of the healthy cluster, as Cause::misfit
  std::vector<Cause> causes;       ///< best first; those that fit about as well stand beside it
  std::vector<Remark> remarks;

  /// Whether the causes are only the nearest of the usual ones: the log speaks for none, and each
  /// leaves much of what the healthy cluster misses.
  bool none_fits_well() const;
};

/// A table that cannot be judged, although it is known that its run is not to be trusted.
struct BrokenTable {
  int line = 0;            ///< of its first row
  std::string collective;  ///< as NcclTable has it
  Remark why;
};

/// What of a log cannot be judged.
struct Unjudged {
  std::vector<Problem> problems;  ///< why; each is named once
  std::vector<BrokenTable> broken;
};

/// A log and what became of its tables.
struct CheckedLog {
  NcclLog log;
  std::vector<CheckedTable> tables;
  std::vector<BrokenTable> broken;  ///< of the tables that are not judged
};

/// Whether causes are wanted besides the verdict; each is simulated.
enum class Causes : std::uint8_t { sought, not_sought };

/// What is asked about a log.
struct CheckQuestion {
  std::string instance;                          ///< "": from the log
  int nodes = 0;                                 ///< 0: from the log
  HealthyFrom against = HealthyFrom::published;  ///< where there is such a thing; else the model
  std::string without =
      {};  ///< a published source that is left out, so that check can be tested on its logs
  Causes causes = Causes::sought;
  std::optional<Collective> collective = {};       ///< judge its tables only; nothing: all
  std::string timed_by = {};                       ///< see models/caller.hpp; "": what the log says
  std::shared_ptr<const NcclLog> earlier = {};     ///< for HealthyFrom::log
  std::shared_ptr<const Profile> profile = {};     ///< the asker's; null: the machine's
  MachineBy machine_by = MachineBy::log_or_asker;  ///< where `instance` is not empty
};

/// Judges every table of a log that is of a Collective. What others published are all-reduces; of
/// the others the prediction says what is normal. Stopped while it seeks causes it says what it
/// knows; stopped before a verdict it throws Interrupted. A log of failed runs alone (NoRow) has no
/// table to judge. Throws InputError where it is not known where it ran or of what it is, the log
/// contradicts the question, or the earlier log has no such table. Of a log with several tables
/// those that can be judged are; `unjudged` gets what is known of the others, where it is not null:
/// of a log of which none can be judged, too, where a run failed or its results are wrong.
std::vector<CheckedTable> check(const NcclLog& log, const CheckQuestion& question,
                                const BatchOptions& options, Unjudged* unjudged = nullptr);

}  // namespace foreduce
