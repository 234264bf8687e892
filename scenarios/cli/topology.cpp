// `foreduce topology`: what a machine is believed to look like.
#include <fmt/format.h>

#include "scenarios/cli/machine_warnings.hpp"
#include "scenarios/cli/shared_options.hpp"
#include "scenarios/report/written_files.hpp"
#include "topologies/export_nccl.hpp"
#include "topologies/export_simgrid.hpp"

namespace foreduce {
namespace {

struct TopologyArguments {
  std::string instance;
  bool dot = false, simgrid = false, nccl = false;
  int nodes = 1;
  OutputOptions output;
};

int show_topology(const TopologyArguments& a) {
  const Machine machine = machine_named(a.instance);
  warn_of_machine(a.instance, {});
  if (a.nccl) {
    if (a.nodes > 1) throw input_error("--nccl is of one machine, without --nodes");
    write_output(a.output.file(), to_nccl_topology(machine));
    return 0;
  }
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

struct ImportArguments {
  std::string dump, output;
  ImportChoices choices;
};

int import_topology(const ImportArguments& a) {
  const ImportedMachine imported = import_machine(load_topology_dump(a.dump), a.choices);
  write_output(a.output, machine_file(imported, "foreduce topology import"), a.dump);
  if (a.output.empty()) return 0;
  write_output("", import_summary(imported, a.output, View{.width = terminal_width()}));
  return 0;
}

void add_import(CLI::App& topology, Action& action) {
  auto* command = topology.add_subcommand(
      "import",
      "Write a machine file from NCCL's topology (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE), or from "
      "the "
      "text of nvidia-smi topo -m or lspci (-vv as root, or -tv); what the dump does not tell is "
      "marked as assumed.");
  const auto a = std::make_shared<ImportArguments>();
  command->add_option("dump", a->dump, "The XML or the text.")->required();
  add_output_option(*command, a->output)->check(ends_in({".yaml", ".yml"}));
  command->add_option("--like", a->choices.like,
                      "A machine of foreduce list instances, or ./file.yaml that tells what the "
                      "dump does not. Default: the one with the same GPUs.");
  command->add_option("--name", a->choices.name, "Name of the machine. Default: the dump's.");
  add_examples(*command, {"foreduce topology import topo.xml -o mine.yaml",
                          "nvidia-smi topo -m > topo.txt; foreduce topology import topo.txt --like "
                          "p4d.24xlarge",
                          "sudo lspci -vvnn > pci.txt; foreduce topology import pci.txt"});
  command->callback([a, &action] { action = [a] { return import_topology(*a); }; });
}

}  // namespace

void add_topology(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "topology", "Show what a machine looks like: links, routes, and how certain each number is.");
  const auto a = std::make_shared<TopologyArguments>();
  command->add_option("instance", a->instance,
                      "A machine of foreduce list instances, or ./file.yaml.");
  a->output.add_to(*command);
  a->output.add_explain_to(*command);
  a->output.take_endings([command]() -> std::vector<std::string> {
    if (command->count("--dot") > 0) return {".dot", ".gv"};
    if (command->count("--simgrid") + command->count("--nccl") > 0) return {".xml"};
    return {};
  });
  command->add_flag("--dot", a->dot, "Write the graph for Graphviz.")->excludes("--format");
  command
      ->add_flag("--simgrid", a->simgrid,
                 "Write a platform file for SimGrid's own programs (smpirun -platform).")
      ->excludes("--format")
      ->excludes("--dot");
  command
      ->add_flag("--nccl", a->nccl,
                 "Write NCCL's topology file (NCCL_TOPO_FILE), which topology import reads.")
      ->excludes("--format")
      ->excludes("--dot")
      ->excludes("--simgrid");
  command
      ->add_option(
          "--nodes", a->nodes,
          "With --dot or --simgrid: a cluster of so many machines on a fabric that never blocks.")
      ->check(CLI::Range(1, 1024));
  add_examples(*command, {"foreduce topology p4d.24xlarge",
                          "foreduce topology p4d.24xlarge --dot | dot -Tsvg -Kneato > p4d.svg",
                          "foreduce topology p5.48xlarge --simgrid --nodes 4 > platform.xml"});
  command->callback([a, command, &action] {
    if (!command->get_subcommands().empty()) return;
    if (a->instance.empty()) throw CLI::RequiredError("instance");
    action = [a] { return show_topology(*a); };
  });
  add_import(*command, action);
}

}  // namespace foreduce
