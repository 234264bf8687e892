// `foreduce tune`: what NCCL should choose, and a file that tells it so.
#include "input/units.hpp"
#include "scenarios/cli/machine_warnings.hpp"
#include "scenarios/cli/message_options.hpp"
#include "scenarios/cli/shared_options.hpp"
#include "scenarios/report/tuning_report.hpp"

namespace foreduce {
namespace {

struct TuneArguments {
  MessageOptions messages;
  std::string tuner_file;
  double gain = 1.05;
  OutputOptions output;
  SimulationOptions simulation;
};

int tune_messages(const TuneArguments& a) {
  Scenario scenario = a.messages.asked();
  if (!a.tuner_file.empty() && scenario.cluster.instance.values.size() > 1)
    throw input_error("--tuner-file: the file is of one instance type, and several are asked for");
  warn_of_machines(scenario);
  Output file(a.tuner_file);
  SweepOptions options;
  options.batch = a.simulation.batch();
  const Tuning tuning = tune(scenario, options);
  clear_progress();
  if (interrupted()) return kInterruptedStatus;
  const Json report = tuning_report(tuning, a.gain);
  a.output.write(report);
  if (!a.tuner_file.empty()) file.put(tuner_file(report));
  file.finish();
  return 0;
}

}  // namespace

void add_tune(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "tune",
      "Find where another algorithm or protocol of NCCL's is faster than the one that it chooses, "
      "and write a file for NCCL's tuner plug-in.");
  const auto a = std::make_shared<TuneArguments>();
  MessageOptions& m = a->messages;
  m.algorithms = {"nccl"};
  m.usual_sizes = "1KiB:4GiB:x2";
  m.usual_sizes_of_blocks = "64KiB:4GiB:x2";
  command->add_option("--instance", m.instances, "Instance types or ./file.yaml, with commas.")
      ->delimiter(',')
      ->required();
  command->add_option("--nodes", m.nodes, "How many instances: 4, or 1,2,4, or 1..64:x2.")
      ->required();
  command->add_option("--gpus-per-node", m.gpus_per_node,
                      "How many GPUs of each instance, the first ones: 4, or 1,2,4. Default: all.");
  add_collective_option(*command, m.collective);
  command->add_option("--sizes", m.sizes,
                      "Message sizes: 8B,1MiB or 8B:1GiB:x4. Default: 1KiB:4GiB:x2, or "
                      "64KiB:4GiB:x2 where every rank has a block of its own.");
  command->add_option("--nccl-version", m.nccl_version,
                      "Whose choice: a release of NCCL, such as 2.23. Default: the newest known.");
  command
      ->add_option("--profile", m.profile,
                   "What messages cost: auto, another that ships, or ./file.yaml.")
      ->capture_default_str();
  command
      ->add_option("--gain", a->gain,
                   "How many times as fast another choice must be to be preferred.")
      ->check(CLI::Range(1.0, 10.0))
      ->capture_default_str();
  command->add_option("--tuner-file", a->tuner_file,
                      "Write the choices to this file, for NCCL_TUNER_CONFIG_FILE of the tuner "
                      "plug-in that comes with NCCL (plugins/tuner/example).");
  a->output.add_to(*command);
  a->simulation.add_to(*command);
  add_examples(*command, {"foreduce tune --instance p5en.48xlarge --nodes 2..32:x2",
                          "foreduce tune --instance p5.48xlarge --nodes 16 --collective all_gather",
                          "foreduce tune --instance p4d.24xlarge --nodes 8 --tuner-file "
                          "nccl_tuner.conf"});
  command->callback([a, &action] { action = [a] { return tune_messages(*a); }; });
}

}  // namespace foreduce
