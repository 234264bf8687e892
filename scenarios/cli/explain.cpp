// `foreduce explain`: why one point takes what it takes.
#include "scenarios/cli/machine_warnings.hpp"
#include "scenarios/cli/message_options.hpp"
#include "scenarios/cli/shared_options.hpp"
#include "scenarios/report/explain_report.hpp"

namespace foreduce {

void add_explain(CLI::App& app, Action& action) {
  struct Arguments {
    MessageOptions messages{MessagePoints::one};
    std::optional<std::size_t> point;
    bool no_changes = false;
    OutputOptions output;
    SimulationOptions simulation;
  };
  auto* command = app.add_subcommand(
      "explain",
      "Explain why one point takes what it takes: its critical path, the bottleneck link, and what "
      "would help most.");
  const auto a = std::make_shared<Arguments>();
  a->messages.add_to(*command);
  command
      ->add_option("--point", a->point,
                   "Explain the point of this number, from 0 in the order of the rows of predict "
                   "or compare. Needed where a scenario has several.")
      ->check(CLI::Range(0, 100'000'000));
  command->add_flag("--no-changes", a->no_changes,
                    "Do not estimate what would help; the rest is ready much sooner.");
  a->output.add_to(*command, Forms::without_csv);
  a->output.add_explain_to(*command);
  a->output.add_html_to(*command);
  a->simulation.add_to(*command);
  add_examples(*command, {"foreduce explain scenarios/bert-large-p3dn.yaml --point 3",
                          "foreduce explain --instance p5.48xlarge --nodes 4 --algorithm ring "
                          "--size 64MiB",
                          "foreduce explain mine.yaml --point 0 --html why.html"});
  command->callback([a, &action] {
    action = [a] {
      const Scenario scenario = a->messages.asked();
      warn_of_machines(scenario);
      ExplainOptions options;
      options.sweep.batch = a->simulation.batch();
      options.sweep.shard.only = a->point;
      options.changes = !a->no_changes;
      Answer out(a->output, scenario.file);
      const Explanation explanation = explain(scenario, options);
      clear_progress();
      if (interrupted()) return kInterruptedStatus;
      out.put(explain_report(explanation));
      out.finish();
      return 0;
    };
  });
}

}  // namespace foreduce
