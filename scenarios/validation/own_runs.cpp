#include "scenarios/validation/own_runs.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "input/counted.hpp"
#include "input/json.hpp"
#include "models/rank_layout.hpp"
#include "scenarios/sweep/cases.hpp"

namespace foreduce {
namespace {

using Json = nlohmann::json;

/// Reads one report of `run`; everything is checked, since a person may have touched it.
class RunsReader {
 public:
  RunsReader(std::string file, int ranks, int nodes)
      : file_(std::move(file)), ranks_(ranks), nodes_(nodes) {}

  void read(UserRunsValidation& v) {
    const Json report = load_json<Json>(file_);
    if (!report.is_object() || report.value("kind", Json()) != "run" || !report.contains("rows") ||
        !report["rows"].is_array())
      throw bad("is no report of a run");
    const Json layout = report.contains("layout") && report["layout"].is_object() ? report["layout"]
                                                                                  : Json::object();
    if (!layout.contains("ranks") || !layout["ranks"].is_number_integer())
      throw bad("layout.ranks is missing");
    if (layout["ranks"] != ranks_)
      throw file_error(file_, fmt::format("{} ranks were measured, and --cluster has {}",
                                          layout["ranks"].dump(), ranks_));
    if (layout.contains("nodes") && layout["nodes"].is_number_integer() &&
        layout["nodes"] != nodes_)
      throw file_error(
          file_,
          fmt::format("it ran on {} node{}, and --cluster has {}", layout["nodes"].dump(),
                      layout["nodes"] == 1 ? "" : "s", nodes_),
          "threads are on one node; foreduce run under mpirun or srun is on as many as hosts");
    if (layout.value("channels", Json(1)) != 1)
      throw file_error(file_,
                       fmt::format("it ran with --channels {}, and predictions are of one channel",
                                   layout["channels"].dump()),
                       "foreduce run without --channels");
    if (layout.contains("servers") && layout["servers"].is_number_integer())
      servers_ = layout["servers"];
    if (report.contains("collective")) collective_ = collective_of(report["collective"]);
    const std::size_t before = v.runs.size() + v.replays.size();
    for (const Json& row : report["rows"]) {
      ++row_;
      if (row.is_object() && row.contains("step")) {
        with_typed_fields(file_, [&] { v.replays.push_back(own_replay(row, ranks_, file_)); });
        continue;
      }
      const std::string algorithm = word(row, "algorithm");
      if (algorithm == "mpi" || algorithm == "nccl") continue;  // baselines, not ours to predict
      // Too small for a block of every rank.
      if (row.contains("bytes") && row["bytes"].is_number() && row["bytes"] == 0) continue;
      v.runs.push_back(run_of(row, algorithm));
    }
    if (v.runs.size() + v.replays.size() == before) throw bad("has no rows");
  }
  /// Of the report that was read; one without the key is older than other collectives.
  Collective collective() const { return collective_; }

 private:
  Collective collective_of(const Json& name) const {
    const auto found = name.is_string() ? collective_named(name.get<std::string>()) : std::nullopt;
    if (!found) throw bad(fmt::format("there is no collective {}", name.dump()));
    return *found;
  }
  InputError bad(const std::string& why) const {
    return file_error(file_, why, "the JSON of foreduce run");
  }
  std::string word(const Json& row, const char* key) const {
    if (!row.is_object() || !row.contains(key) || !row[key].is_string())
      throw bad(fmt::format("row {} lacks {}", row_, key));
    return row[key];
  }
  UserRun run_of(const Json& row, const std::string& algorithm) const {
    UserRun run;
    run.algorithm = find_algorithm(algorithm, collective_);
    if (!run.algorithm)
      throw bad(fmt::format("row {}: there is no algorithm called '{}' for {}", row_, algorithm,
                            title_of(collective_)));
    run.servers = servers_;
    run.inner = row.contains("inner") ? word(row, "inner") : kUsualInner;
    run.type = type_named(word(row, "dtype"));
    const Json place = row.contains("in_place") ? row["in_place"] : Json();
    const bool whole = row.contains("count") && row["count"].is_number_unsigned() &&
                       row.contains("segments") && row["segments"].is_number_unsigned() &&
                       place.is_object() && place.contains("median_s") &&
                       place["median_s"].is_number() && place["median_s"].get<double>() > 0;
    if (!whole) throw bad(fmt::format("row {} lacks count, segments or in_place.median_s", row_));
    constexpr std::uint64_t kMostCount = std::uint64_t{1} << 40, kMostSegments = 4000;
    if (row["count"] < 1 || row["count"] > kMostCount || row["segments"] < 1 ||
        row["segments"] > kMostSegments)
      throw bad(fmt::format("row {}: count is from 1 to 2^40, segments from 1 to {}", row_,
                            kMostSegments));
    run.count = row["count"].get<std::size_t>() *
                static_cast<std::size_t>(counted_blocks(collective_, ranks_));
    run.segments = row["segments"];
    run.bytes = static_cast<double>(run.count * size_of(run.type));
    run.measured = place["median_s"];
    return run;
  }

  std::string file_;
  int ranks_, nodes_, servers_ = 0;
  Collective collective_ = Collective::all_reduce;
  std::size_t row_ = 0;
};

std::shared_ptr<const Cluster> with_co_located_servers(
    const std::shared_ptr<const Cluster>& cluster) {
  std::vector<std::shared_ptr<const Machine>> nodes;
  for (int n = 0; n < cluster->worker_nodes(); ++n)
    nodes.push_back(std::shared_ptr<const Machine>(cluster, &cluster->node(n).machine()));
  ServerSpec servers;
  servers.co_located = true;
  return std::make_shared<Cluster>(nodes, cluster->fabric(), servers);
}

void predict_runs(UserRunsValidation& v, const std::shared_ptr<const Cluster>& cluster,
                  const std::shared_ptr<const Profile>& profile, const BatchOptions& options) {
  Batch batch;
  std::vector<std::size_t> numbers;
  std::shared_ptr<const Cluster> with_servers;  // not every machine has a host for them
  for (const UserRun& run : v.runs) {
    const Algorithm& algorithm = *run.algorithm;
    if (algorithm.uses_servers && !with_servers) with_servers = with_co_located_servers(cluster);
    const auto& on = algorithm.uses_servers ? with_servers : cluster;
    const Plan plan{run.segments, 1, run.inner};
    const Layout layout = rank_layout(*on);
    if (const auto why = unsupported_reason(algorithm, layout, plan))
      throw file_error(v.cluster, fmt::format("{}: {}", algorithm.name, *why));
    if (algorithm.uses_servers && run.servers > 0 && run.servers != layout.servers())
      throw file_error(v.cluster,
                       fmt::format("{} ran with {} and is predicted with {}", algorithm.name,
                                   counted(run.servers, "server"), layout.servers()),
                       "foreduce run with one server for each node (--servers)");
    Schedule schedule;
    schedule.algorithm = &algorithm;
    schedule.plan = plan;
    schedule.sending.profile = profile;
    numbers.push_back(batch.ask({on, schedule, run.count, run.type}));
  }
  batch.run(options);
  for (std::size_t i = 0; i < v.runs.size(); ++i) {
    const Outcome& outcome = batch[numbers[i]];
    if (!outcome.ok) throw TransportError(outcome.error);
    v.runs[i].predicted = outcome.result.time.value;
  }
}

}  // namespace

Collective read_own_runs(const std::string& file, int ranks, int nodes, UserRunsValidation& into) {
  RunsReader reader(file, ranks, nodes);
  reader.read(into);
  return reader.collective();
}

UserRunsValidation validate_own_runs(const std::string& profile_name,
                                     const std::string& cluster_file,
                                     const std::vector<std::string>& files,
                                     std::optional<Collective> only, const BatchOptions& options) {
  const auto profile = std::make_shared<const Profile>(Profiles().load(profile_name));
  const Scenario scenario = load_scenario(cluster_file);
  const auto cluster = only_cluster(scenario);
  UserRunsValidation v;
  v.profile = profile->name;
  v.cluster = cluster_file;
  v.ranks = cluster->gpus();
  v.nodes = cluster->worker_nodes();
  std::set<std::string> seen;
  for (const std::string& file : files) {
    if (!seen.insert(file).second) throw file_error(file, "is given twice");
    UserRunsValidation one;
    const Collective collective = read_own_runs(file, v.ranks, v.nodes, one);
    if (only && (collective != *only || one.runs.empty())) continue;
    if (!v.runs.empty() && collective != v.collective)
      throw file_error(
          file,
          fmt::format("this is of {}, and the reports before are of {}", name_of(collective),
                      name_of(v.collective)),
          fmt::format("validate one collective at a time: --collective {}", name_of(collective)));
    v.collective = collective;
    v.runs.insert(v.runs.end(), one.runs.begin(), one.runs.end());
    v.replays.insert(v.replays.end(), one.replays.begin(), one.replays.end());
  }
  if (only && v.runs.empty())
    throw input_error(fmt::format("--collective: no report is of {}", name_of(*only)));
  if (!v.runs.empty()) predict_runs(v, cluster, profile, options);
  if (!v.replays.empty()) predict_replays(v.replays, scenario, profile_name, options);
  std::vector<double> residuals;
  std::vector<Timed> timed;
  for (const UserRun& r : v.runs) {
    residuals.push_back(std::log(r.predicted / r.measured));
    timed.push_back({std::string(r.algorithm->name), r.bytes, r.measured, r.predicted});
  }
  for (const UserReplay& r : v.replays) residuals.push_back(std::log(r.predicted / r.measured));
  v.errors = errors_of(residuals);
  v.kendall_tau = kendall(timed);
  v.crossings = crossings(timed);
  return v;
}

}  // namespace foreduce
