#include "scenarios/cli/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "models/rank_layout.hpp"
#include "models/profile.hpp"
#include "models/statistics.hpp"
#include "scenarios/cli/launch_options.hpp"
#include "scenarios/validation/ranking.hpp"
#include "scenarios/report/svg.hpp"
#include "scenarios/sweep/scenario.hpp"
#include "scenarios/validation/validate.hpp"
#include "sim/collective.hpp"

namespace foreduce {
namespace {

using nlohmann::ordered_json;

struct ValidateArguments {
  std::string profile, cluster;
  std::vector<std::string> runs;
  std::optional<double> tolerance;
  Common common;
  bool reference = false;
  ValidateOptions published;
};

/// One measured row with its prediction.
struct Row {
  std::string algorithm, inner;
  int segments = 1;
  std::size_t count = 0;
  Type type = Type::f32;
  double bytes = 0, measured = 0, predicted = 0;
  double error() const { return predicted / measured - 1; }
};

/// The rows of `foreduce run --format json`, of so many ranks; everything is checked, since a person may have touched it.
std::vector<Row> rows_of(const std::string& file, int ranks) {
  const auto bad = [&](const std::string& why) { return file_error(file, why, "the JSON of foreduce run"); };
  const auto report = ordered_json::parse(read_text(file), nullptr, false);
  if (!report.is_object() || report.value("kind", "") != "run" || !report.contains("rows") || !report["rows"].is_array())
    throw bad("is no report of a run");
  const auto layout = report.contains("layout") && report["layout"].is_object() ? report["layout"] : ordered_json::object();
  if (!layout.contains("ranks") || !layout["ranks"].is_number_integer()) throw bad("layout.ranks is missing");
  if (layout["ranks"] != ranks)
    throw InputError(Problem{file, 0, 0, "",
                             fmt::format("{} ranks were measured, and --cluster has {}", layout["ranks"].dump(), ranks), "", ""});
  std::vector<Row> rows;
  for (const auto& r : report["rows"]) {
    const auto word = [&](const char* key) -> std::string {
      if (!r.is_object() || !r.contains(key) || !r[key].is_string())
        throw bad(fmt::format("row {} lacks {}", rows.size() + 1, key));
      return r[key];
    };
    if (word("algorithm") == "mpi" || word("algorithm") == "nccl") continue;  // baselines, not ours to predict
    Row row;
    row.algorithm = word("algorithm");
    if (!find_algorithm(row.algorithm))
      throw bad(fmt::format("row {}: there is no algorithm called '{}'", rows.size() + 1, row.algorithm));
    row.inner = r.value("inner", "ring");
    row.type = parse_type(word("dtype"));
    const auto place = r.contains("in_place") ? r["in_place"] : ordered_json();
    if (!r.contains("count") || !r["count"].is_number_integer() || !r.contains("segments") || !r["segments"].is_number_integer() ||
        !place.is_object() || !place.contains("median_s") || !place["median_s"].is_number() ||
        !(place["median_s"].get<double>() > 0))
      throw bad(fmt::format("row {} lacks count, segments or in_place.median_s", rows.size() + 1));
    row.count = r["count"];
    row.segments = r["segments"];
    row.bytes = static_cast<double>(row.count * size_of(row.type));
    row.measured = place["median_s"];
    rows.push_back(row);
  }
  if (rows.empty()) throw bad("has no rows");
  return rows;
}

ordered_json report_of(const std::vector<Row>& rows, const Profile& profile, const std::string& cluster) {
  ordered_json report{
      {"foreduce_version", FOREDUCE_VERSION}, {"kind", "validate"}, {"profile", profile.name}, {"cluster", cluster}};
  std::vector<double> magnitudes;
  double logs = 0, worst = 0, bias = 0;
  auto& list = report["rows"] = ordered_json::array();
  std::vector<Timed> timed;
  for (const Row& r : rows) {
    list.push_back({{"algorithm", r.algorithm},
                    {"segments", r.segments},
                    {"bytes", r.bytes},
                    {"measured_s", r.measured},
                    {"predicted_s", r.predicted},
                    {"error", r.error()}});
    magnitudes.push_back(std::abs(r.error()));
    logs += std::abs(std::log(r.predicted / r.measured));
    worst = std::max(worst, std::abs(r.error()));
    bias += std::log(r.predicted / r.measured);
    timed.push_back({r.algorithm, r.bytes, r.measured, r.predicted});
  }
  const double n = static_cast<double>(rows.size());
  report["points"] = rows.size();
  report["median_error"] = quantile(magnitudes, 0.5);
  report["geometric_mean_error"] = std::exp(logs / n) - 1;
  report["worst_error"] = worst;
  report["bias"] = std::exp(bias / n) - 1;
  const auto tau = kendall(timed);
  report["kendall_tau"] = tau ? ordered_json(*tau) : ordered_json();
  auto& changes = report["crossovers"] = ordered_json::array();
  for (const Crossing& c : crossings(timed))
    changes.push_back({{"algorithms", {c.algorithms.first, c.algorithms.second}},
                       {"measured_bytes", c.measured ? ordered_json(*c.measured) : ordered_json()},
                       {"predicted_bytes", c.predicted ? ordered_json(*c.predicted) : ordered_json()},
                       {"text", to_text(c)}});
  return report;
}

std::string text_of(const ordered_json& report, bool colour) {
  Table t;
  t.headings = {"algorithm", "segments", "size", "measured ms", "predicted ms", "error"};
  for (const auto& r : report["rows"])
    t.rows.push_back(
        {r["algorithm"], r["segments"].dump(), size_text(r["bytes"]), fmt::format("{:.3f}", 1e3 * r["measured_s"].get<double>()),
         fmt::format("{:.3f}", 1e3 * r["predicted_s"].get<double>()), fmt::format("{:+.1f} %", 100 * r["error"].get<double>())});
  std::string text = t.text(colour);
  const auto percent = [&](const char* key) { return fmt::format("{:.1f} %", 100 * report[key].get<double>()); };
  text += fmt::format("\n{} points, profile {}: error median {}, geometric mean {}, worst {}, bias {:+.1f} %\n",
                      report["points"].get<int>(), report["profile"].get<std::string>(), percent("median_error"),
                      percent("geometric_mean_error"), percent("worst_error"), 100 * report["bias"].get<double>());
  text += report["kendall_tau"].is_null()
              ? "no two algorithms differ by more than 10 % at any size\n"
              : fmt::format("order of the algorithms where measured times differ by more than 10 %: Kendall's tau {:.2f}\n",
                            report["kendall_tau"].get<double>());
  for (const auto& c : report["crossovers"]) text += c["text"].get<std::string>() + "\n";
  return text;
}

/// A curve an algorithm; where it ran in several ways at one size (segments, inner algorithms), the fastest stands for it.
std::vector<Curve> curves_of(const std::vector<Row>& rows, int ranks) {
  std::map<std::string, std::map<double, const Row*>> fastest;
  for (const Row& r : rows) {
    const Row*& at = fastest[r.algorithm][r.bytes];
    if (!at || r.measured < at->measured) at = &r;
  }
  std::vector<Curve> curves;
  for (const auto& [algorithm, by_size] : fastest) {
    Curve& curve = curves.emplace_back(Curve{algorithm, {}});
    for (const auto& [bytes, r] : by_size) {
      const double wire = bytes * 2 * (ranks - 1) / ranks;
      curve.points.push_back({bytes, wire / r->measured, wire / r->predicted});
    }
  }
  return curves;
}

int run(const ValidateArguments& a) {
  Output out(a.common.output);
  if (a.reference) {
    bool passed = true;
    ValidateOptions options = a.published;
    options.tolerance = a.tolerance;
    options.profile = a.profile;
    out.put(validate_reference(options, a.common.wanted(), passed));
    return passed ? 0 : 1;
  }
  if (a.profile.empty() || a.runs.empty() || a.cluster.empty())
    throw input_error("validate needs a profile, the JSON of foreduce run, and --cluster; or --reference",
                      "foreduce validate profile.yaml runs.json --cluster cluster.yaml");
  const auto profile = std::make_shared<const Profile>(Profiles().load(a.profile));
  const auto cluster = only_cluster(load_scenario(a.cluster));
  std::vector<Row> rows;
  for (const std::string& file : a.runs) {
    const auto more = rows_of(file, cluster->gpus());
    rows.insert(rows.end(), more.begin(), more.end());
  }
  std::shared_ptr<const Cluster> with_servers;
  for (Row& row : rows) {
    const Algorithm& algorithm = *find_algorithm(row.algorithm);
    if (algorithm.uses_servers && !with_servers) {
      std::vector<std::shared_ptr<const Machine>> nodes;
      for (int n = 0; n < cluster->worker_nodes(); ++n)
        nodes.push_back(std::shared_ptr<const Machine>(cluster, &cluster->node(n).machine()));
      ServerSpec servers;
      servers.co_located = true;
      with_servers = std::make_shared<Cluster>(nodes, cluster->fabric(), servers);
    }
    const Cluster& on = algorithm.uses_servers ? *with_servers : *cluster;
    const Plan plan{row.segments, 1, row.inner};
    if (const auto why = unsupported_reason(algorithm, rank_layout(on), plan))
      throw InputError(Problem{a.cluster, 0, 0, "cluster", fmt::format("{}: {}", row.algorithm, *why), "", ""});
    SimOptions options;
    options.sending.profile = profile;
    row.predicted = simulate({on, algorithm, plan, row.count, row.type}, options).time.value;
  }
  const ordered_json report = report_of(rows, *profile, a.cluster);
  if (!a.published.plot.empty())
    write_svg(
        a.published.plot, profile->name,
        curves_svg(fmt::format("{}, {} ranks on {} nodes", profile->name, rank_layout(*cluster).workers, cluster->worker_nodes()),
                   curves_of(rows, rank_layout(*cluster).workers)));
  if (a.common.wanted() == Format::json) {
    out.put(report.dump(2) + "\n");
  } else if (a.common.wanted() == Format::csv) {
    Table t;
    t.headings = {"algorithm", "segments", "bytes", "measured_s", "predicted_s", "error"};
    for (const auto& r : report["rows"])
      t.rows.push_back({r["algorithm"], r["segments"].dump(), r["bytes"].dump(), r["measured_s"].dump(), r["predicted_s"].dump(),
                        r["error"].dump()});
    out.put(t.csv());
  } else {
    out.put(text_of(report, a.common.colour()));
  }
  return a.tolerance && report["worst_error"].get<double>() > *a.tolerance ? 1 : 0;
}

}  // namespace

void add_validate(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("validate", "predicted beside measured");
  const auto a = std::make_shared<ValidateArguments>();
  command->add_option(
      "profile", a->profile,
      "a shipped profile or ./file.yaml; with --reference: for all points, default the one made for each instance type");
  auto* runs = command->add_option("runs", a->runs, "JSON reports of foreduce run");
  auto* cluster = command->add_option("--cluster", a->cluster, "a scenario with the one cluster that ran");
  command
      ->add_option(
          "--tolerance", a->tolerance,
          "exit 1 beyond it: of runs the worst error, of --reference the all-reduces' geometric mean from 1 MiB on, e.g. 0.15")
      ->check(CLI::NonNegativeNumber);
  auto* reference = command->add_flag("--reference", a->reference, "measured: what others have published, which ships")
                        ->excludes(runs)
                        ->excludes(cluster);
  command->add_option("--plot", a->published.plot,
                      "a folder for pictures (SVG): all algorithms in one; with --reference one a source");
  command->add_flag("--points", a->published.points, "one row a point")->needs(reference);
  command->add_option("--jobs", a->published.jobs, "simulations at a time; default: one a core")
      ->check(CLI::Range(1, 4096))
      ->needs(reference);
  a->common.add_to(*command, false);
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace foreduce
