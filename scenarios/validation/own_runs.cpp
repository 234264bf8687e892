#include "scenarios/validation/own_runs.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "input/json.hpp"
#include "models/rank_layout.hpp"
#include "scenarios/sweep/cases.hpp"

namespace foreduce {
namespace {

using Json = nlohmann::json;

/// Reads one report of `run`; everything is checked, since a person may have touched it.
class RunsReader {
 public:
  RunsReader(std::string file, int ranks) : file_(std::move(file)), ranks_(ranks) {}

  std::vector<OwnRun> read() {
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
    std::vector<OwnRun> runs;
    for (const Json& row : report["rows"]) {
      ++row_;
      const std::string algorithm = word(row, "algorithm");
      if (algorithm == "mpi" || algorithm == "nccl") continue;  // baselines, not ours to predict
      runs.push_back(run_of(row, algorithm));
    }
    if (runs.empty()) throw bad("has no rows");
    return runs;
  }

 private:
  InputError bad(const std::string& why) const {
    return file_error(file_, why, "the JSON of foreduce run");
  }
  std::string word(const Json& row, const char* key) const {
    if (!row.is_object() || !row.contains(key) || !row[key].is_string())
      throw bad(fmt::format("row {} lacks {}", row_, key));
    return row[key];
  }
  OwnRun run_of(const Json& row, const std::string& algorithm) const {
    OwnRun run;
    run.algorithm = algorithm;
    if (!find_algorithm(algorithm))
      throw bad(fmt::format("row {}: there is no algorithm called '{}'", row_, algorithm));
    run.inner = row.contains("inner") ? word(row, "inner") : "ring";
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
    run.count = row["count"];
    run.segments = row["segments"];
    run.bytes = static_cast<double>(run.count * size_of(run.type));
    run.measured = place["median_s"];
    return run;
  }

  std::string file_;
  int ranks_;
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

void predict(std::vector<OwnRun>& runs, const std::shared_ptr<const Cluster>& cluster,
             const std::shared_ptr<const Profile>& profile, const std::string& file,
             const BatchOptions& options) {
  Batch batch;
  std::vector<std::size_t> numbers;
  const auto with_servers = with_co_located_servers(cluster);
  for (const OwnRun& run : runs) {
    const Algorithm& algorithm = *find_algorithm(run.algorithm);
    const auto& on = algorithm.uses_servers ? with_servers : cluster;
    const Plan plan{run.segments, 1, run.inner};
    if (const auto why = unsupported_reason(algorithm, rank_layout(*on), plan))
      throw file_error(file, fmt::format("{}: {}", run.algorithm, *why));
    Schedule schedule;
    schedule.algorithm = &algorithm;
    schedule.plan = plan;
    schedule.sending.profile = profile;
    numbers.push_back(batch.ask({on, schedule, run.count, run.type}));
  }
  batch.run(options);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Outcome& outcome = batch[numbers[i]];
    if (!outcome.ok) throw TransportError(outcome.error);
    runs[i].predicted = outcome.result.time.value;
  }
}

}  // namespace

OwnRunsValidation validate_own_runs(const std::string& profile_name,
                                    const std::string& cluster_file,
                                    const std::vector<std::string>& files,
                                    const BatchOptions& options) {
  const auto profile = std::make_shared<const Profile>(Profiles().load(profile_name));
  const auto cluster = only_cluster(load_scenario(cluster_file));
  OwnRunsValidation v;
  v.profile = profile->name;
  v.cluster = cluster_file;
  v.ranks = cluster->gpus();
  v.nodes = cluster->worker_nodes();
  for (const std::string& file : files) {
    const auto more = RunsReader(file, v.ranks).read();
    v.runs.insert(v.runs.end(), more.begin(), more.end());
  }
  predict(v.runs, cluster, profile, cluster_file, options);
  std::vector<double> residuals;
  std::vector<Timed> timed;
  for (const OwnRun& r : v.runs) {
    residuals.push_back(std::log(r.predicted / r.measured));
    timed.push_back({r.algorithm, r.bytes, r.measured, r.predicted});
  }
  v.errors = errors_of(residuals);
  v.kendall_tau = kendall(timed);
  v.crossings = crossings(timed);
  return v;
}

}  // namespace foreduce
