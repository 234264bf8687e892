// `foreduce compare`: a scenario file, or a question put together from options.
#include "scenarios/cli/message_options.hpp"
#include "scenarios/cli/sweep_command.hpp"

namespace foreduce {
namespace {

struct CompareArguments {
  MessageOptions messages;
  bool check = false;
  OutputOptions output;
  SimulationOptions simulation;
  SweepArguments sweep;
};

/// Of a scenario with a workload: its strategies and algorithms side by side, as predict answers.
int compare_strategies(const Scenario& scenario, const CompareArguments& a) {
  if (a.check || a.output.format() == Format::nccl_tests)
    throw input_error(
        fmt::format("{}: this is of collectives, and {} has a workload and no messages",
                    a.check ? "--check" : "--format nccl-tests", scenario.file),
        "leave it out, or give messages: { sizes: 1 GiB }");
  return answer_sweep<Prediction>(scenario, a.output, a.simulation, a.sweep,
                                  [](const Scenario& s, const SweepOptions& o,
                                     const OnPoint<Prediction>& p) { return predict(s, o, p); });
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "compare",
      "Compare algorithms for a collective over message sizes, with the lower bound; of a scenario "
      "with a workload, strategies of training, as predict does.");
  const auto a = std::make_shared<CompareArguments>();
  a->messages.add_to(*command);
  a->output.add_to(*command, Forms::with_nccl_tests);
  a->output.add_explain_to(*command);
  a->output.add_html_to(*command);
  a->simulation.add_to(*command);
  command->add_flag(
      "--check", a->check,
      "Sum small buffers with every schedule first; one that sums wrongly has no time. Those of "
      "plug-ins and files are always checked.");
  a->sweep.add_to(*command, TraceOf::collectives);
  add_examples(*command, {"foreduce compare --instance p4d.24xlarge --nodes 16",
                          "foreduce compare --instance p4d.24xlarge,p5.48xlarge --nodes 1..16:x2 "
                          "--algorithm nccl --sizes 1GiB",
                          "foreduce compare --instance p5.48xlarge --nodes 4 --algorithm nccl,best "
                          "--sizes 1MiB:1GiB:x4",
                          "foreduce compare --instance p4d.24xlarge --nodes 8 --collective "
                          "all_gather --sizes 16MiB:1GiB:x4",
                          "foreduce compare scenarios/message-sizes-p4d.yaml --format nccl-tests",
                          "foreduce compare scenarios/ddp-or-fsdp-g5.yaml"});
  command->callback([a, &action] {
    action = [a] {
      const Scenario asked = a->messages.asked();
      if (asked.workload && !asked.messages) return compare_strategies(asked, *a);
      return answer_sweep<Comparison>(
          asked, a->output, a->simulation, a->sweep,
          [&](const Scenario& s, SweepOptions o, const OnPoint<Comparison>& p) {
            o.batch.check_sums = a->check;
            return compare(s, o, p);
          });
    };
  });
}

}  // namespace foreduce
