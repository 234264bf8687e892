// `foreduce calibrate`: a transport profile from measurements.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <regex>

#include "input/files.hpp"
#include "input/json.hpp"
#include "models/fit.hpp"
#include "models/statistics.hpp"
#include "real/probe.hpp"
#include "scenarios/validation/leave_out.hpp"
#include "scenarios/validation/log_calibration.hpp"
#include "scenarios/cli/launch_options.hpp"
#include "scenarios/report/calibration_report.hpp"
#include "scenarios/sweep/cases.hpp"

namespace foreduce {
namespace {

struct CalibrateArguments {
  LaunchOptions launch;
  std::vector<std::string> files;  // one of points, or logs
  std::string cluster, sizes = "4KiB:4MiB:x2", keep, name = "calibrated";
  std::vector<std::string> collectives{"all_reduce"};
  bool collectives_given = false;
  std::string of_messages;  // an option that was given and says how messages are measured
  LogCalibrationQuestion logs;
  int warmup = 1, iterations = 5;
  bool reference = false;
  std::string left_out = "source";
  CrossValidationOptions published;
  OutputOptions output;
  SimulationOptions simulation;
};

Json probes_json(const std::vector<ProbePoint>& points) {
  Json all = Json::array();
  for (const ProbePoint& p : points)
    all.push_back({{"kind", name_of(p.experiment)},
                   {"path", name_of(p.path)},
                   {"bytes", p.bytes},
                   {"fan", p.fan},
                   {"samples_s", p.samples}});
  return all;
}

/// The points of a report; everything is checked, since a person may have touched it.
std::vector<CalibrationPoint> points_of(const Json& report, const std::string& file) {
  const auto bad = [&](const std::string& why) {
    return file_error(file, why, "the JSON of foreduce calibrate --keep");
  };
  if (report.is_object() && report.value("kind", Json()) == "run")
    throw file_error(file,
                     "is a report of run: profiles are fitted to point-to-point messages, from "
                     "which every collective is predicted",
                     "foreduce validate compares runs of any collective with a profile");
  if (report.is_discarded() || !report.is_object() || report.value("kind", Json()) != "probe" ||
      !report.contains("points") || !report["points"].is_array())
    throw bad("is no report of probes");
  std::vector<CalibrationPoint> points;
  for (const auto& p : report["points"]) {
    const bool sound = p.is_object() && p.contains("kind") && p["kind"].is_string() &&
                       p.contains("path") && p["path"].is_string() && p.contains("bytes") &&
                       p["bytes"].is_number_integer() && p.contains("fan") &&
                       p["fan"].is_number_integer() && p.contains("samples_s") &&
                       p["samples_s"].is_array() && !p["samples_s"].empty();
    if (!sound)
      throw bad(
          fmt::format("point {} lacks kind, path, bytes, fan or samples_s", points.size() + 1));
    std::vector<double> samples;
    for (const auto& s : p["samples_s"]) {
      if (!s.is_number() || !(s.get<double>() > 0))
        throw bad(
            fmt::format("point {}: a sample is no positive number of seconds", points.size() + 1));
      samples.push_back(s.get<double>());
    }
    const auto experiment = experiment_named(p["kind"].get<std::string>());
    const auto path = experiment_path_named(p["path"].get<std::string>());
    if (!experiment || !path)
      throw bad(fmt::format("point {}: there is no experiment {} by {}", points.size() + 1,
                            p["kind"].dump(), p["path"].dump()));
    points.push_back({*experiment, *path, p["bytes"].get<double>(), p["fan"].get<int>(),
                      quantile(samples, 0.5)});
  }
  return points;
}

/// Writes the profile, and returns the exit status.
int put_report(const CalibrateArguments& a, const Json& report, const std::string& file) {
  const auto cluster = only_cluster(load_scenario(a.cluster));
  const Machine& machine = cluster->node(0).machine();
  const BytesPerSecond memory = machine.pcie   ? machine.pcie->bandwidth
                                : machine.host ? machine.host->memory_bandwidth
                                               : BytesPerSecond{0};
  const Json environment = report.contains("environment") && report["environment"].is_object()
                               ? report["environment"]
                               : Json::object();
  const auto word = [&](const char* key) {
    return environment.contains(key) && environment[key].is_string()
               ? environment[key].get<std::string>()
               : std::string("?");
  };
  const std::string source =
      fmt::format("foreduce calibrate on {} ({})", word("cpu"),
                  environment.contains("provider") ? word("provider") : word("transport"));
  Calibration c = calibrate(points_of(report, file), machine.nic.bandwidth * machine.nic.count,
                            memory.value > 0 ? memory : BytesPerSecond{1e12}, source);
  c.profile.name = a.name;
  write_output(a.output.file(), to_yaml(c.profile));
  const std::string judged = calibration_text(c);
  if (a.output.file().empty()) std::cerr << judged;
  else write_output("", judged);
  return describes_its_messages(c) ? 0 : 1;
}

/// Whether the file is a report of this program, which a log never is.
bool is_report(const std::string& file) {
  if (file == "-") return false;
  try {
    const auto json = load_json<Json>(file);
    return json.is_object() && json.contains("foreduce_version");
  } catch (const InputError&) {
    return false;
  }
}

/// Fits the profile that ships to logs of nccl-tests.
int fit_to_logs(CalibrateArguments& a) {
  if (!a.of_messages.empty())
    throw input_error(fmt::format("{} is of messages that are measured now, and {} is a log",
                                  a.of_messages, a.files.front()));
  const std::string& out_file = a.output.file();
  Output out(out_file, a.files.front());
  std::vector<NcclLog> logs;
  for (const std::string& file : a.files) logs.push_back(load_nccl_log(file));
  a.logs.name = a.name;
  a.logs.collectives.clear();
  for (const std::string& name : a.collectives)
    a.logs.collectives.push_back(*collective_named(name));
  const std::string& version = a.logs.nccl_version;
  if (!version.empty() && !std::regex_match(version, std::regex(R"(2\.\d+(\.\d+)?)")))
    throw input_error(fmt::format("--nccl-version {}: that is no release of NCCL", version),
                      "such as 2.19");
  a.published.batch = a.simulation.batch();
  const UserFit fit = calibrate_to_logs(logs, a.logs, a.published);
  clear_progress();
  const Json report = cross_validation_report(fit.validation);
  const std::string judged = render(report, a.output.view());
  out.put(to_yaml(fit.profile));
  out.finish();
  if (out_file.empty()) std::cerr << judged;
  else write_output("", judged);
  return describes_its_logs(report) ? 0 : 1;
}

/// Throws InputError where files, if any, are not one of points with the cluster that it is of.
void check_files(const CalibrateArguments& a) {
  const auto mixed = std::find_if(a.files.begin(), a.files.end(), is_report);
  if (mixed != a.files.end() && a.files.size() > 1)
    throw file_error(*mixed, "is a report of foreduce, no log",
                     "logs of nccl-tests, or one file of points with --cluster");
  if (!a.logs.instance.empty() || a.logs.nodes > 0 || !a.logs.nccl_version.empty() ||
      a.collectives_given)
    throw input_error(
        "--instance, --nodes, --nccl-version and --collective are of logs of nccl-tests",
        "--cluster says it of messages between ranks");
  if (a.cluster.empty())
    throw input_error(
        "calibrate needs --cluster: what the data sheet promises, for efficiencies to refer to",
        "a scenario with one cluster, e.g. the testbed's cluster.yaml; or logs of nccl-tests");
  if (!a.files.empty() && !a.of_messages.empty())
    throw input_error(
        fmt::format("{} is of messages that are measured now, and {} is of earlier ones",
                    a.of_messages, a.files.front()));
  if (a.files.size() > 1)
    throw input_error(fmt::format("--cluster goes with one file of points, not {}", a.files.size()),
                      "logs of nccl-tests go without --cluster");
}

int calibrate(CalibrateArguments a) {
  if (a.name.empty()) throw input_error("--name: a profile needs a name");
  if (a.reference) {
    if (a.left_out != "source" && !(a.published.folder.empty() && a.published.profiles.empty()))
      throw input_error("--profile and --folder go with --leave-out source",
                        "without a fabric or a GPU every profile is fitted, and none is kept");
    Output out(a.output.file());
    if (!a.published.folder.empty()) make_folder(a.published.folder, "profiles");
    a.published.batch = a.simulation.batch();
    a.published.batch.cache.clear();  // no two fits ask the same
    const CrossValidation v =
        a.left_out == "source"
            ? cross_validate(a.published)
            : leave_groups_out(a.published,
                               a.left_out == "fabric" ? HeldOut::fabric : HeldOut::gpu);
    clear_progress();
    out.put(render(cross_validation_report(v), a.output.view()));
    out.finish();
    return 0;
  }
  if (a.cluster.empty() && !a.files.empty() &&
      std::none_of(a.files.begin(), a.files.end(), is_report))
    return fit_to_logs(a);
  check_files(a);
  if (!a.files.empty()) {
    const std::string& file = a.files.front();
    const auto report = load_json<Json>(file);
    return with_typed_fields(file, [&] {
      points_of(report, file);
      return put_report(a, report, file);
    });
  }
  only_cluster(load_scenario(a.cluster));
  ProbeOptions options;
  options.warmup = a.warmup;
  options.iterations = a.iterations;
  for (const Bytes size : parse_sizes(a.sizes))
    options.sizes.push_back(std::max<std::size_t>(4, static_cast<std::size_t>(size.value) / 4 * 4));
  return a.launch.run_processes([&](const ProcessPlace& here) {
    Session session(
        here,
        a.launch.session({{"probe", a.sizes}, {"warmup", a.warmup}, {"iterations", a.iterations}}));
    const auto points = probe(session, options);
    session.leave();
    if (!session.first()) return 0;
    const Json report{{"foreduce_version", FOREDUCE_VERSION},
                      {"kind", "probe"},
                      {"environment", environment_json(a.launch, session)},
                      {"layout", layout_json(a.launch, session)},
                      {"points", probes_json(points)}};
    if (!a.keep.empty()) write_output(a.keep, report.dump(1) + "\n");
    return put_report(a, report, "measured");
  });
}

/// Where logs were made, as far as they do not say it.
void add_log_options(CLI::App& command, CalibrateArguments& a, CLI::Option* cluster) {
  LogCalibrationQuestion& logs = a.logs;
  command
      .add_option("--instance", logs.instance,
                  "Of logs: a machine of foreduce list instances, or ./file.yaml. Default: from "
                  "the GPU's name in them.")
      ->excludes(cluster);
  command
      .add_option("--nodes", logs.nodes,
                  "Of logs: how many instances. Default: their hosts, else ranks over GPUs.")
      ->check(CLI::Range(1, 65536))
      ->excludes(cluster);
  command
      .add_option("--nccl-version", logs.nccl_version,
                  "Of logs: NCCL's release where they do not name it, such as 2.19. Default: the "
                  "newest that is known.")
      ->excludes(cluster);
  command
      .add_option("--collective", a.collectives,
                  "Of logs: to which collectives in them the profile is fitted, with commas. "
                  "Others in them are predicted from it, and the report says how well.")
      ->delimiter(',')
      ->transform(one_of(names_of<Collective>()))
      ->capture_default_str()
      ->excludes(cluster);
}

/// How the shipped profiles are fitted to published measurements.
void add_reference_options(CLI::App& command, CalibrateArguments& a, CLI::Option* files,
                           CLI::Option* cluster) {
  auto* reference =
      command
          .add_flag("--reference", a.reference,
                    "Fit the shipped profiles to the published measurements that ship.")
          ->excludes(files)
          ->excludes(cluster);
  for (const char* of_logs : {"--instance", "--nodes", "--nccl-version", "--collective"})
    reference->excludes(command.get_option(of_logs));
  command
      .add_option("--profile", a.published.profiles,
                  "With --reference: which profiles. Default: all that have fitted numbers.")
      ->delimiter(',')
      ->needs(reference);
  command
      .add_option(
          "--folder", a.published.folder,
          "With --reference: write the fitted profiles into this folder, which is made if missing.")
      ->needs(reference);
  command
      .add_option("--leave-out", a.left_out,
                  "With --reference: what is predicted by a fit that has not seen it: each source, "
                  "each fabric with all that was measured over it, or each GPU.")
      ->transform(one_of({"source", "fabric", "gpu"}))
      ->capture_default_str()
      ->needs(reference);
}

/// What was given although it has a default.
void note_given(const CLI::App& command, CalibrateArguments& a) {
  for (const char* option :
       {"--keep", "--sizes", "--warmup", "--iterations", "--transport", "--provider", "--address",
        "--rails", "--ranks", "--per-process", "--timeout"})
    if (command.count(option) > 0) a.of_messages = option;
  a.collectives_given = command.count("--collective") > 0;
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("calibrate",
                                     "Fit a transport profile to what nccl-tests printed on your "
                                     "cluster, to point-to-point messages, or to published "
                                     "all-reduces. Every collective is predicted from it.");
  const auto a = std::make_shared<CalibrateArguments>();
  auto* points = command->add_option(
      "files", a->files,
      "Logs of nccl-tests; or, with --cluster, what was measured before with --keep. Without a "
      "file, measure messages now.");
  auto* cluster = command->add_option("--cluster", a->cluster,
                                      "A scenario with the one cluster that is measured.");
  add_log_options(*command, *a, cluster);
  command->add_option("--keep", a->keep, "Write what was measured to this file.")
      ->check(ends_in({".json"}));
  command->add_option("--name", a->name, "Name of the profile.")->capture_default_str();
  command->add_option("--sizes", a->sizes, "Sizes of the messages.")->capture_default_str();
  command->add_option("--warmup", a->warmup, "Iterations that are not timed.")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command->add_option("--iterations", a->iterations, "Timed iterations.")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_reference_options(*command, *a, points, cluster);
  command
      ->add_option("--rounds", a->published.rounds,
                   "Of logs, and with --reference: rounds of the fit.")
      ->check(CLI::Range(1, 100))
      ->capture_default_str()
      ->excludes(cluster);
  a->output.add_to(*command);
  a->output.take_endings([command]() -> std::vector<std::string> {
    if (command->count("--reference") > 0) return {};
    return {".yaml", ".yml"};
  });
  command->get_option("--output")
      ->description(
          "Write the profile, which is YAML, to this file instead of standard output; "
          "with --reference, the report.");
  command->get_option("--format")
      ->description(
          "Form of the report. Without it, table; with --reference, the ending of -o "
          "decides (.csv, .json, .md, .html, .txt).");
  a->simulation.add_to(*command);
  a->launch.add_to(*command, Memory::host);
  add_examples(*command, {"foreduce calibrate 1-node.log 2-nodes.log -o my-cluster.yaml",
                          "foreduce calibrate all_reduce.log --instance ./machine.yaml --name mine",
                          "foreduce calibrate all_gather.log --instance p4d.24xlarge --collective "
                          "all_gather -o mine.yaml",
                          "foreduce calibrate --cluster cluster.yaml --transport ofi --ranks 2 "
                          "--keep probes.json -o profile.yaml",
                          "foreduce calibrate probes.json --cluster cluster.yaml -o profile.yaml",
                          "foreduce calibrate --reference --profile nccl-b200 --rounds 1"});
  command->callback([a, command, &action] {
    note_given(*command, *a);
    action = [a] { return calibrate(*a); };
  });
}

}  // namespace foreduce
