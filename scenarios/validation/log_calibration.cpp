#include "scenarios/validation/log_calibration.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "input/holds.hpp"
#include "models/nccl_constants.hpp"
#include "scenarios/validation/log_cluster.hpp"
#include "scenarios/validation/row_remarks.hpp"
#include "scenarios/validation/suspects.hpp"

namespace foreduce {
namespace {

/// Fewer sizes do not tell half of them from the other half.
constexpr std::size_t kFewestSizes = 6;

void require_sound(const NcclLog& log, const NcclTable& table, Collective collective) {
  const char* const hint =
      "a profile is fitted to whole runs whose sums are right; foreduce check says what is wrong "
      "with this one";
  if (wrong_sums(table, collective))
    throw table_error(log, table, "sums of this run are wrong", hint);
  if (const auto ended = ended_early(table))
    throw table_error(log, table,
                      ended->failure.empty()
                          ? fmt::format("this run ended early, at {}", to_text(ended->last))
                          : fmt::format("this run ended with an error (\"{}\")", ended->failure),
                      hint);
}

/// Collects points of one kind of machine.
class Collector {
 public:
  explicit Collector(const LogCalibrationQuestion& question) : question_(question) {}

  /// Whether there was anything in it that the profile is fitted to.
  bool take(const NcclLog& log) {
    const std::size_t before = own_.points.size();
    for (const std::string& note : log.notes) remarks_.push_back(remark::LogNote{log.file, note});
    for (const NcclTable& table : log.tables)
      if (const auto collective = collective_named(table.collective)) take(log, table, *collective);
      else remarks_.push_back(remark::LeftOut{log.file, table.collective});
    return own_.points.size() > before;
  }
  bool saw(Collective collective) const { return seen_.contains(collective); }
  const std::set<Collective>& seen() const { return seen_; }

  const std::optional<Machine>& machine() const { return machine_; }
  UserPoints points() { return std::move(own_); }
  std::size_t sizes() const {
    std::set<double> all;
    for (const Published& p : own_.points) all.insert(p.bytes.value);
    return all.size();
  }
  /// The release of NCCL that all of them ran; empty where some differ or none is known.
  std::string release() const {
    std::set<std::string> all;
    for (const Published& p : own_.points) all.insert(nccl_release_of(p.version));
    return all.size() == 1 && !own_.points.front().version.empty() ? *all.begin() : "";
  }
  std::vector<Remark> remarks() { return std::move(remarks_); }

 private:
  void take(const NcclLog& log, const NcclTable& table, Collective collective) {
    require_sound(log, table, collective);
    const LogCluster where = cluster_of_log(log, table, question_.instance, question_.nodes);
    if (where.other_gpu)
      throw table_error(
          log, table,
          fmt::format("the log's GPUs are {}, and {} has others", where.other_gpu->gpu,
                      where.other_gpu->instance),
          where.other_gpu->fitting.empty()
              ? "describe the machine in a file (docs/machine.md): --instance ./file.yaml"
              : fmt::format("such GPUs are in --instance {}",
                            fmt::join(where.other_gpu->fitting, " or ")));
    remarks_.insert(remarks_.end(), where.remarks.begin(), where.remarks.end());
    if (machine_ && machine_->name != where.machine.name)
      throw table_error(log, table,
                        fmt::format("this log is of {}, and one before it of {}",
                                    where.machine.name, machine_->name),
                        "a profile is of one kind of machine: calibrate each by itself");
    // All of its GPUs, whatever the tests used.
    if (!machine_ || machine_->gpus() < where.machine.gpus()) machine_ = where.machine;
    seen_.insert(collective);
    const auto& asked = question_.collectives;
    const bool fits = std::find(asked.begin(), asked.end(), collective) != asked.end();
    Published p;
    p.collective = collective;
    p.source = log.file;
    p.instance = p.machine = where.machine.type();  // as intervals look it up
    p.caller = table.caller;
    p.version =
        table.facts.nccl_version.empty() ? question_.nccl_version : table.facts.nccl_version;
    p.plugin = table.facts.plugin_version;
    p.nodes = where.nodes;
    p.gpus = where.ranks;
    p.algorithm = algorithm_forced_by(table.facts, p.collective);
    p.protocol = nccl_protocol_forced(table.facts.setting("NCCL_PROTO"));
    own_.clusters.add(p, std::make_shared<const Cluster>(
                             std::vector(static_cast<std::size_t>(where.nodes),
                                         std::make_shared<const Machine>(where.machine)),
                             FabricSpec{}));
    for (const NcclRow& row : table.rows) {
      if (row.bytes <= 0 || row.timing().time.value <= 0) continue;
      p.bytes = Bytes{std::max(4.0, row.bytes)};
      p.time = row.timing().time;
      (fits ? own_.points : own_.others).push_back(p);
    }
  }

  const LogCalibrationQuestion& question_;
  std::optional<Machine> machine_;
  UserPoints own_;
  std::set<Collective> seen_;
  std::vector<Remark> remarks_;
};

/// The profile that ships for such a machine, under the name of the new one.
Profile start_for(const Machine& machine, const std::string& name) {
  Profile start = Profiles().nearest_to(machine);
  start.name = name;
  start.fabric = machine.fabric();
  start.needs_fabric = false;
  start.instances = {machine.type()};
  if (machine.gpu) start.nearest_for = {family_of(*machine.gpu)};
  return start;
}

/// Throws InputError where a collective was asked for that no log has.
void require_asked(const std::vector<NcclLog>& logs, const Collector& collector,
                   const std::vector<Collective>& asked) {
  for (const Collective collective : asked) {
    if (collector.saw(collective)) continue;
    std::vector<std::string_view> others;
    for (const Collective other : collector.seen()) others.push_back(name_of(other));
    throw table_error(logs.front(), logs.front().tables.front(),
                      fmt::format("there is no {} in {}", title_of(collective),
                                  logs.size() == 1 ? "this log" : "these logs"),
                      others.empty()
                          ? fmt::format("run {}_perf", name_of(collective))
                          : fmt::format("--collective {} fits the profile to what is there",
                                        fmt::join(others, ",")));
  }
}

/// What check says of the logs that a profile is fitted to, for a fit learns faults silently.
std::vector<Remark> learnt_faults(const std::vector<NcclLog>& logs,
                                  const LogCalibrationQuestion& question,
                                  const BatchOptions& options) {
  CheckQuestion healthy;
  healthy.instance = question.instance;
  healthy.nodes = question.nodes;
  std::vector<Remark> found;
  for (const NcclLog& log : logs) try {
      for (const CheckedTable& table : check(log, healthy, options)) {
        const bool fitted = holds(question.collectives, table.collective);
        const bool slow =
            std::any_of(table.rows.begin(), table.rows.end(),
                        [](const CheckedRow& row) { return row.verdict == Verdict::slow; });
        if (!fitted || table.normal || table.unsure || !slow) continue;
        remark::LearntFault fault{log.file, {}};
        if (!table.causes.empty()) fault.likeliest = table.causes.front().finding;
        found.emplace_back(std::move(fault));
        break;
      }
    } catch (const InputError&) {  // a log that cannot be judged is fitted all the same
    }
  return found;
}

}  // namespace

UserFit calibrate_to_logs(const std::vector<NcclLog>& logs, const LogCalibrationQuestion& question,
                          const CrossValidationOptions& options) {
  Collector collector(question);
  std::vector<std::string> files, fitted_to;
  for (const NcclLog& log : logs) {
    if (std::find(files.begin(), files.end(), log.file) != files.end())
      throw file_error(log.file, "is given twice");
    files.push_back(log.file);
    if (collector.take(log)) fitted_to.push_back(log.file);
  }
  require_asked(logs, collector, question.collectives);
  if (collector.sizes() < kFewestSizes)
    throw file_error(
        fmt::format("{}", fmt::join(fitted_to.empty() ? files : fitted_to, ", ")),
        fmt::format("{} size{} too few for a profile, which takes {}", collector.sizes(),
                    collector.sizes() == 1 ? " is" : "s are", kFewestSizes),
        "measure with -b 8 -e 8G -f 2");
  const std::string release = collector.release();
  std::vector<Remark> remarks = collector.remarks();
  for (Remark& fault : learnt_faults(logs, question, options.batch))
    remarks.push_back(std::move(fault));
  const Machine machine = *collector.machine();
  UserPoints own = collector.points();
  own.fitted_to = fmt::format("{}", fmt::join(fitted_to, ", "));
  const std::string shipped = Profiles().nearest_to(machine).name;
  const std::size_t points = own.points.size();
  Profile start = start_for(machine, question.name);
  if (!release.empty()) start.nccl_release = release;
  UserFit fit = fit_to_own(start, std::move(own), options);
  fit.profile.note =
      fmt::format("{}, fitted to {} times of {}", shipped, points, fmt::join(fitted_to, ", "));
  fit.validation.shipped = shipped;
  fit.validation.remarks = std::move(remarks);
  return fit;
}

}  // namespace foreduce
