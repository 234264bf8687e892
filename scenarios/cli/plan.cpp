// `foreduce plan`: which cluster meets a goal.
#include <fmt/format.h>

#include <iostream>

#include "input/files.hpp"
#include "scenarios/cli/machine_warnings.hpp"
#include "scenarios/cli/shared_options.hpp"
#include "scenarios/report/svg.hpp"
#include "scenarios/report/validation_report.hpp"

namespace foreduce {
namespace {

struct PlanArguments {
  std::string scenario, plot;
  std::vector<std::string> set;
  OutputOptions output;
  SimulationOptions simulation;
};

/// Status 1: no cluster reaches the goal, or a simulation died.
int plan_training(const PlanArguments& a) {
  const Scenario scenario = load_scenario(a.scenario, a.set);
  const double samples =
      goal_samples(scenario);  // what is wrong with the goal is said before the work, not after
  SweepOptions options;
  options.batch = a.simulation.batch();
  options.all_failed = AllFailed::is_answer;
  options.loads_of = LoadsOf::all;
  Answer out(a.output, a.scenario);
  if (!a.plot.empty()) make_folder(a.plot, kPictures);
  warn_of_machines(scenario);
  const Sweep<Prediction> sweep = predict(scenario, options, nullptr, Asked::plan);
  clear_progress();
  if (interrupted()) {
    std::cerr << "interrupted: no plan, since clusters are missing\n";
    return kInterruptedStatus;
  }
  const TrainingPlan plan = make_plan(*scenario.goal, samples, sweep.points);
  out.put(plan_report(scenario, sweep, plan));
  out.finish();
  if (!a.plot.empty() && !draw_plan(a.plot, scenario, sweep, plan))
    std::cerr << "no picture: nothing that can train this has a price\n";
  return plan.fastest && plan.died.empty() ? 0 : 1;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "plan", "Find the cheapest and the fastest cluster that meet a deadline or a budget.");
  const auto a = std::make_shared<PlanArguments>();
  command
      ->add_option("scenario", a->scenario,
                   "YAML file with a goal, e.g. scenarios/plan-gpt2.yaml, or - for standard input.")
      ->required();
  add_set_option(*command, a->set);
  command->add_option("--plot", a->plot, "Draw cost over time as an SVG picture into this folder.");
  a->output.add_to(*command);
  a->output.add_explain_to(*command);
  a->output.add_html_to(*command);
  a->simulation.add_to(*command);
  add_examples(*command, {"foreduce plan scenarios/plan-gpt2.yaml",
                          "foreduce plan scenarios/plan-gpt2.yaml --html plan.html",
                          "foreduce plan scenarios/plan-resnet50.yaml --plot plots"});
  command->callback([a, &action] { action = [a] { return plan_training(*a); }; });
}

}  // namespace foreduce
