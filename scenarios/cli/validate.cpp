// `foreduce validate`: predicted beside measured, for runs of one's own or for what others have
// published.
#include <optional>

#include "input/files.hpp"
#include "scenarios/cli/shared_options.hpp"
#include "scenarios/report/sharding_report.hpp"
#include "scenarios/report/svg.hpp"
#include "scenarios/report/validation_report.hpp"

namespace foreduce {
namespace {

struct ValidateArguments {
  std::string profile, cluster, plot, collective;
  std::vector<std::string> runs;
  std::optional<double> tolerance;
  bool reference = false, points = false, detection = false, sharded = false;
  OutputOptions output;
  SimulationOptions simulation;
};

int answer_reference(const ValidateArguments& a) {
  Answer out(a.output);
  if (!a.plot.empty()) make_folder(a.plot, kPictures);
  const ReferenceValidation v = validate_reference(a.profile, a.simulation.batch());
  clear_progress();
  if (!a.plot.empty()) draw_reference(a.plot, v);
  Json report = reference_report(v);
  if (a.points && a.output.format() != Format::json) report["show_points"] = true;
  out.put(report);
  out.finish();
  return a.tolerance && errors_of(v.all.large).mean > *a.tolerance ? 1 : 0;
}

int answer_detection(const ValidateArguments& a) {
  Answer out(a.output);
  const auto rows = detection_of_faults(a.simulation.batch());
  clear_progress();
  out.put(detection_report(rows));
  out.finish();
  return 0;
}

int answer_sharded_runs(const ValidateArguments& a) {
  Answer out(a.output);
  const ShardedValidation v = validate_sharded(a.simulation.batch());
  clear_progress();
  out.put(sharded_runs_report(v));
  out.finish();
  return 0;
}

int validate_profile(const ValidateArguments& a) {
  if (a.sharded) return answer_sharded_runs(a);
  if (a.detection) return answer_detection(a);
  if (a.reference) return answer_reference(a);
  if (a.profile.empty() || a.runs.empty() || a.cluster.empty())
    throw input_error(
        "validate needs a profile, the JSON of foreduce run, and --cluster; or --reference",
        "foreduce validate profile.yaml runs.json --cluster cluster.yaml");
  Answer out(a.output);
  if (!a.plot.empty()) make_folder(a.plot, kPictures);
  const UserRunsValidation v = validate_own_runs(
      a.profile, a.cluster, a.runs, collective_named(a.collective), a.simulation.batch());
  clear_progress();
  if (!a.plot.empty()) draw_own_runs(a.plot, v);
  out.put(own_runs_report(v));
  out.finish();
  return a.tolerance && v.errors.worst > *a.tolerance ? 1 : 0;
}

}  // namespace

void add_validate(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "validate", "Set predictions beside measurements: your own runs, or published ones.");
  const auto a = std::make_shared<ValidateArguments>();
  auto* profile =
      command->add_option("profile", a->profile,
                          "A shipped profile or ./file.yaml. With --reference it is used for all "
                          "points; default: the one made for each instance type.");
  auto* runs = command->add_option("runs", a->runs, "JSON reports of foreduce run.");
  auto* cluster =
      command->add_option("--cluster", a->cluster, "A scenario with the one cluster that ran.");
  auto* collective =
      command
          ->add_option("--collective", a->collective,
                       "Of the reports: those of this collective only. Default: all, which must be "
                       "of one.")
          ->transform(one_of(names_of<Collective>()));
  auto* tolerance =
      command
          ->add_option(
              "--tolerance", a->tolerance,
              "Exit with 1 beyond this error: of runs the worst, of --reference the "
              "all-reduces' geometric mean from 1 MiB on, "
              "e.g. 0.15. Without it the exit status is 0 whatever the verdict, for what is "
              "good enough is yours to say.")
          ->check(CLI::NonNegativeNumber);
  auto* reference =
      command->add_flag("--reference", a->reference, "Use the published measurements that ship.")
          ->excludes(runs)
          ->excludes(cluster)
          ->excludes(collective);
  auto* plot = command->add_option(
      "--plot", a->plot,
      "Draw SVG pictures into this folder: all algorithms in one; with --reference one a source.");
  const auto by_itself = [&](CLI::Option* flag) {
    for (CLI::Option* other : {profile, runs, cluster, collective, tolerance, reference, plot})
      flag->excludes(other);
    return flag;
  };
  auto* detection = by_itself(command->add_flag(
      "--detection", a->detection,
      "Put faults into the published all-reduces, and count which of them check finds."));
  by_itself(command->add_flag("--sharded", a->sharded,
                              "Predict published runs with sharding, which nothing was fitted to."))
      ->excludes(detection);
  command->add_flag("--points", a->points, "Show one row a point.")->needs(reference);
  a->output.add_to(*command);
  a->output.add_explain_to(*command);
  a->output.add_html_to(*command);
  a->simulation.add_to(*command);
  add_examples(*command,
               {"foreduce validate --reference --plot plots", "foreduce validate --sharded",
                "foreduce validate profile.yaml runs.json --cluster cluster.yaml --tolerance 0.2"});
  command->callback([a, &action] { action = [a] { return validate_profile(*a); }; });
}

}  // namespace foreduce
