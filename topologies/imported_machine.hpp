// A machine from a dump of its topology. What the dump does not tell is taken from the machine of
// the catalogue that is most like it, and is called assumed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "input/field_yaml.hpp"
#include "topologies/machine.hpp"
#include "topologies/topology_dump.hpp"

namespace foreduce {

/// All keys of a machine's file with their values, in its order.
std::vector<YamlLine> lines_of(const Machine& machine);

struct ImportedMachine {
  Machine machine;
  std::string base;  ///< the instance type of the catalogue that is most like it
  /// What the dump told, by key of the machine's file ("nic.bandwidth"), and how. All other keys
  /// are assumed.
  std::map<std::string, std::string> told;
  std::vector<std::string> notes;        ///< what was simplified, and how devices are numbered
  std::vector<std::string> differences;  ///< "pcie.bandwidth: 24 GB/s; in g5.48xlarge 12 GB/s"
};

/// What may be chosen where a dump leaves it open.
struct ImportChoices {
  std::string name;  ///< of the machine; empty: that of the dump's file
  std::string like;  ///< the instance type, or ./file.yaml, that it resembles; empty: by its GPUs
};

/// Throws InputError where the dump does not tell what its GPUs are and `like` does not either.
ImportedMachine import_machine(const TopologyDump& dump, const ImportChoices& choices);

}  // namespace foreduce
