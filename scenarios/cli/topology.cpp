// `foreduce topology`: what a machine is believed to look like.
#include <fmt/format.h>

#include "scenarios/cli/shared_options.hpp"
#include "topologies/export_simgrid.hpp"

namespace foreduce {
namespace {

struct TopologyArguments {
  std::string instance;
  bool dot = false, simgrid = false;
  int nodes = 1;
  OutputOptions output;
};

int answer(const TopologyArguments& a) {
  const Machine machine = machine_named(a.instance);
  if (a.nodes > 1 && !a.dot && !a.simgrid)
    throw input_error("--nodes draws or exports a cluster", "--dot or --simgrid");
  if (a.simgrid && machine.cpu_only())
    throw input_error(
        fmt::format("{} has no GPUs, which are the hosts of --simgrid", machine.name));
  if (!a.dot && !a.simgrid) {
    a.output.write(topology_report(machine));
    return 0;
  }
  const auto cluster = [&] {
    return Cluster(
        std::vector(static_cast<std::size_t>(a.nodes), std::make_shared<const Machine>(machine)),
        {});
  };
  write_output(a.output.file(), a.simgrid     ? to_simgrid(cluster())
                                : a.nodes > 1 ? cluster().dot()
                                              : NodeGraph(machine).dot());
  return 0;
}

}  // namespace

void add_topology(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "topology", "Show what a machine looks like: links, routes, and how certain each number is.");
  const auto a = std::make_shared<TopologyArguments>();
  command->add_option("instance", a->instance, "Instance type or ./file.yaml.")->required();
  a->output.add_to(*command);
  command->add_flag("--dot", a->dot, "Write the graph for Graphviz.")->excludes("--format");
  command
      ->add_flag("--simgrid", a->simgrid,
                 "Write a platform file for SimGrid's own programs (smpirun -platform).")
      ->excludes("--format")
      ->excludes("--dot");
  command
      ->add_option(
          "--nodes", a->nodes,
          "With --dot or --simgrid: a cluster of so many machines on a fabric that never blocks.")
      ->check(CLI::Range(1, 1024));
  add_examples(*command, {"foreduce topology p4d.24xlarge",
                          "foreduce topology p4d.24xlarge --dot | dot -Tsvg -Kneato > p4d.svg",
                          "foreduce topology p5.48xlarge --simgrid --nodes 4 > platform.xml"});
  command->callback([a, &action] { action = [a] { return answer(*a); }; });
}

}  // namespace foreduce
