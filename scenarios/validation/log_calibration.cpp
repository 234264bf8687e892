#include "scenarios/validation/log_calibration.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "scenarios/validation/log_cluster.hpp"
#include "scenarios/validation/row_remarks.hpp"
#include "scenarios/validation/suspects.hpp"

namespace foreduce {
namespace {

/// Fewer sizes do not tell half of them from the other half.
constexpr std::size_t kFewestSizes = 6;

void require_sound(const NcclLog& log, const NcclTable& table) {
  for (const auto& why : {wrong_sum_words(table), early_end_words(table)})
    if (why)
      throw table_error(log, table, *why, "a profile is fitted to whole runs whose sums are right");
}

/// Collects points of one kind of machine.
class Collector {
 public:
  explicit Collector(const LogCalibrationQuestion& question) : question_(question) {}

  void take(const NcclLog& log, const NcclTable& table) {
    const auto collective = collective_named(table.collective);
    if (!collective) return;
    require_sound(log, table);
    const LogCluster where = cluster_of_log(log, table, question_.instance, question_.nodes);
    if (!where.other_gpu.empty())
      throw table_error(log, table, where.remarks.back(), where.other_gpu);
    if (machine_ && machine_->name != where.machine.name)
      throw table_error(log, table,
                        fmt::format("this log is of {}, and one before it of {}",
                                    where.machine.name, machine_->name),
                        "a profile is of one kind of machine: calibrate each by itself");
    // All of its GPUs, whatever the tests used.
    if (!machine_ || machine_->gpus() < where.machine.gpus()) machine_ = where.machine;
    Published p;
    p.source = log.file;
    p.instance = p.machine = where.machine.name;
    p.caller = table.caller;
    p.version =
        table.facts.nccl_version.empty() ? question_.nccl_version : table.facts.nccl_version;
    p.plugin = table.facts.plugin_version;
    p.nodes = where.nodes;
    p.gpus = where.ranks;
    p.collective = *collective;
    const std::string forced = method_forced_by(table.facts, *collective);
    p.algorithm = forced.empty() ? "nccl" : forced;
    const std::string protocol = table.facts.setting("NCCL_PROTO");
    if (protocol == "LL" || protocol == "LL128" || protocol == "Simple") p.protocol = protocol;
    own_.clusters.add(p, std::make_shared<const Cluster>(
                             std::vector(static_cast<std::size_t>(where.nodes),
                                         std::make_shared<const Machine>(where.machine)),
                             FabricSpec{}));
    for (const NcclRow& row : table.rows) {
      if (row.bytes <= 0 || row.timing().time.value <= 0) continue;
      p.bytes = Bytes{std::max(4.0, row.bytes)};
      p.time = row.timing().time;
      own_.points.push_back(p);
    }
  }

  const std::optional<Machine>& machine() const { return machine_; }
  OwnPoints points() { return std::move(own_); }

 private:
  const LogCalibrationQuestion& question_;
  std::optional<Machine> machine_;
  OwnPoints own_;
};

/// The profile that ships for such a machine, under the name of the new one.
Profile start_for(const Machine& machine, const std::string& name) {
  Profile start = Profiles().nearest_to(machine);
  start.name = name;
  start.fabric = machine.fabric();
  start.instances = {machine.type()};
  start.nearest_for.clear();
  return start;
}

}  // namespace

OwnFit calibrate_to_logs(const std::vector<NcclLog>& logs, const LogCalibrationQuestion& question,
                         const CrossValidationOptions& options) {
  Collector collector(question);
  std::vector<std::string> files;
  for (const NcclLog& log : logs) {
    files.push_back(log.file);
    for (const NcclTable& table : log.tables) collector.take(log, table);
  }
  if (!collector.machine())
    throw file_error(logs.front().file, "nothing says which collective these times are of",
                     "calibrate needs logs that name it, as nccl-tests' own do");
  OwnPoints own = collector.points();
  if (own.points.size() < kFewestSizes)
    throw file_error(logs.front().file,
                     fmt::format("{} sizes are too few for a profile", own.points.size()),
                     "measure with -b 8 -e 8G -f 2");
  own.fitted_to = fmt::format("{}", fmt::join(files, ", "));
  const Machine& machine = *collector.machine();
  const std::string shipped = Profiles().nearest_to(machine).name;
  const std::size_t points = own.points.size();
  OwnFit fit = fit_to_own(start_for(machine, question.name), std::move(own), options);
  fit.profile.note =
      fmt::format("{}, fitted to {} times of {}", shipped, points, fmt::join(files, ", "));
  fit.validation.shipped = shipped;
  return fit;
}

}  // namespace foreduce
