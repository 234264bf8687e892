#include "scenarios/cli/calibrate.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <iterator>

#include "models/fit.hpp"
#include "models/statistics.hpp"
#include "real/probe.hpp"
#include "scenarios/validation/cross_validation.hpp"
#include "scenarios/cli/launch_options.hpp"
#include "scenarios/sweep/scenario.hpp"

namespace foreduce {
namespace {

using nlohmann::ordered_json;

struct CalibrateArguments {
  LaunchOptions launch;
  std::string points, cluster, sizes = "4KiB:4MiB:x2", keep, output, name = "calibrated";
  int warmup = 1, iterations = 5;
  bool reference = false;
  CalibrateOptions published;
  std::string format = "table";
};

ordered_json to_json(const std::vector<ProbePoint>& points) {
  ordered_json all = ordered_json::array();
  for (const ProbePoint& p : points)
    all.push_back({{"kind", p.kind}, {"way", p.way}, {"bytes", p.bytes}, {"fan", p.fan}, {"samples_s", p.samples}});
  return all;
}

/// The points of a report; everything is checked, since a person may have touched it.
std::vector<CalibrationPoint> points_of(const ordered_json& report, const std::string& file) {
  const auto bad = [&](const std::string& why) {
    return file_error(file, why, "the JSON of foreduce calibrate --keep");
  };
  if (report.is_discarded() || !report.is_object() || report.value("kind", "") != "probe" || !report.contains("points") ||
      !report["points"].is_array())
    throw bad("is no report of probes");
  std::vector<CalibrationPoint> points;
  for (const auto& p : report["points"]) {
    const bool sound = p.is_object() && p.contains("kind") && p["kind"].is_string() && p.contains("way") && p["way"].is_string() &&
                       p.contains("bytes") && p["bytes"].is_number_integer() && p.contains("fan") && p["fan"].is_number_integer() &&
                       p.contains("samples_s") && p["samples_s"].is_array() && !p["samples_s"].empty();
    if (!sound) throw bad(fmt::format("point {} lacks kind, way, bytes, fan or samples_s", points.size() + 1));
    std::vector<double> samples;
    for (const auto& s : p["samples_s"]) {
      if (!s.is_number() || !(s.get<double>() > 0))
        throw bad(fmt::format("point {}: a sample is no positive number of seconds", points.size() + 1));
      samples.push_back(s.get<double>());
    }
    points.push_back({p["kind"].get<std::string>(), p["way"].get<std::string>(), p["bytes"].get<double>(), p["fan"].get<int>(),
                      quantile(samples, 0.5)});
  }
  return points;
}

Table errors_table(const Calibration& c) {
  Table t;
  t.headings = {"experiment", "way", "points", "", "median error", "worst", "bias"};
  for (const CalibrationError& e : c.errors)
    t.rows.push_back({e.kind, e.way, std::to_string(e.points), e.fitted ? "fitted" : "kept back",
                      fmt::format("{:.1f} %", 100 * e.median), fmt::format("{:.1f} %", 100 * e.worst),
                      fmt::format("{:+.1f} %", 100 * e.bias)});
  return t;
}

void answer(const CalibrateArguments& a, const ordered_json& report, const std::string& file) {
  const auto cluster = only_cluster(load_scenario(a.cluster));
  const Machine& machine = cluster->node(0).machine();
  const BytesPerSecond memory = machine.pcie   ? machine.pcie->bandwidth
                                : machine.host ? machine.host->memory_bandwidth
                                               : BytesPerSecond{0};
  const std::string source = fmt::format("foreduce calibrate on {} ({})", report["environment"].value("cpu", "?"),
                                         report["environment"].value("provider", report["environment"].value("transport", "?")));
  Calibration c = calibrate(points_of(report, file), machine.nic.bandwidth * machine.nic.count,
                            memory.value > 0 ? memory : BytesPerSecond{1e12}, source);
  c.profile.name = a.name;
  const std::string table = errors_table(c).text(false);
  if (a.output.empty()) {
    std::cerr << table;
    Output("").put(to_yaml(c.profile));
  } else {
    Output(a.output).put(to_yaml(c.profile));
    Output("").put(table);
  }
}

int run(CalibrateArguments a) {
  if (a.name.empty()) throw input_error("--name: a profile needs a name");
  if (a.reference) {
    Output out(a.output);
    out.put(calibrate_reference(a.published, a.format == "json" ? Format::json : a.format == "csv" ? Format::csv : Format::table));
    return 0;
  }
  if (a.cluster.empty())
    throw input_error("calibrate needs --cluster: what the data sheet promises, for efficiencies to refer to",
                      "a scenario with one cluster, e.g. the testbed's cluster.yaml");
  if (!a.points.empty()) {
    const auto report = ordered_json::parse(read_text(a.points), nullptr, false);
    points_of(report, a.points);
    answer(a, report, a.points);
    return 0;
  }
  only_cluster(load_scenario(a.cluster));
  ProbeOptions options;
  options.warmup = a.warmup;
  options.iterations = a.iterations;
  for (const Bytes size : parse_sizes(a.sizes))
    options.sizes.push_back(std::max<std::size_t>(4, static_cast<std::size_t>(size.value) / 4 * 4));
  return a.launch.go([&](const ProcessPlace& here) {
    Session session(here, a.launch.session({{"probe", a.sizes}, {"warmup", a.warmup}, {"iterations", a.iterations}}));
    const auto points = probe(session, options);
    session.leave();
    if (!session.first()) return;
    const ordered_json report{{"foreduce_version", FOREDUCE_VERSION},
                              {"kind", "probe"},
                              {"environment", environment_json(a.launch, session)},
                              {"layout", layout_json(a.launch, session)},
                              {"points", to_json(points)}};
    if (!a.keep.empty()) Output(a.keep).put(report.dump(1) + "\n");
    answer(a, report, "measured");
  });
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("calibrate", "a transport profile: fitted to point-to-point messages and reduces, never to an all-reduce");
  const auto a = std::make_shared<CalibrateArguments>();
  auto* points = command->add_option("points", a->points, "measured before, with --keep; without: measure now");
  auto* cluster = command->add_option("--cluster", a->cluster, "a scenario with the one cluster that was measured");
  command->add_option("--keep", a->keep, "write what was measured there");
  command->add_option("--name", a->name, "of the profile")->capture_default_str();
  command->add_option("--sizes", a->sizes, "of the messages")->capture_default_str();
  command->add_option("--warmup", a->warmup, "iterations that do not count")->check(CLI::Range(0, 1000))->capture_default_str();
  command->add_option("--iterations", a->iterations, "that do")->check(CLI::Range(1, 1000))->capture_default_str();
  command->add_option("-o,--output", a->output,
                      "write the profile (--reference: the report) to this file instead of standard output");
  auto* reference =
      command->add_flag("--reference", a->reference, "fit the shipped profiles to what others have published, which ships as well")
          ->excludes(points)
          ->excludes(cluster);
  command->add_option("--profile", a->published.profiles, "which; default: all that have fitted numbers")
      ->delimiter(',')
      ->needs(reference);
  command->add_option("--folder", a->published.folder, "write the fitted profiles there")->needs(reference);
  command->add_option("--rounds", a->published.rounds, "of the fit")
      ->check(CLI::Range(1, 100))
      ->capture_default_str()
      ->needs(reference);
  command->add_option("--jobs", a->published.jobs, "simulations at a time; default: one a core")
      ->check(CLI::Range(1, 4096))
      ->needs(reference);
  command->add_option("--format", a->format, "of the report: table, csv or json")
      ->check(CLI::IsMember({"table", "csv", "json"}))
      ->capture_default_str()
      ->needs(reference);
  a->launch.add_to(*command, false);
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace foreduce
