// `foreduce check`: is this bandwidth normal?
#include <algorithm>

#include "scenarios/cli/shared_options.hpp"

namespace foreduce {

void add_check(CLI::App& app, Action& action) {
  struct Arguments {
    std::string log, instance;
    int nodes = 0;
    OutputOptions output;
    SimulationOptions simulation;
  };
  auto* command = app.add_subcommand(
      "check", "Judge whether a measured bandwidth is normal, and say what may be wrong.");
  const auto a = std::make_shared<Arguments>();
  command->add_option("log", a->log, "What all_reduce_perf printed, or its JSON (-J).")->required();
  command->add_option("--instance", a->instance,
                      "Instance type or ./file.yaml. Default: from the GPU's name in the log.");
  command
      ->add_option("--nodes", a->nodes,
                   "How many instances. Default: the hosts of the log, else ranks over GPUs.")
      ->check(CLI::Range(1, 65536));
  a->output.add_to(*command);
  a->simulation.add_to(*command);
  add_examples(*command, {"foreduce check nccl-tests.log",
                          "foreduce check nccl-tests.log --instance p4d.24xlarge --nodes 2"});
  command->callback([a, &action] {
    action = [a] {
      const NcclLog log = load_nccl_log(a->log);
      const auto tables = check(log, a->instance, a->nodes, a->simulation.batch());
      clear_progress();
      a->output.write(check_report(log, tables), a->log);
      return std::all_of(tables.begin(), tables.end(),
                         [](const CheckedTable& t) { return t.normal; })
                 ? 0
                 : 1;
    };
  });
}

}  // namespace foreduce
