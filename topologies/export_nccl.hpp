// A machine as NCCL's topology file (NCCL_TOPO_FILE).
#pragma once

#include <string>

#include "topologies/machine.hpp"

namespace foreduce {

/// The XML that NCCL reads: sockets, PCIe switches with their GPUs and NICs, NVLinks, speeds of
/// NICs. Rates of PCIe that no number of lanes has are left out. Throws InputError for a machine
/// without GPUs or without a PCIe tree.
std::string to_nccl_topology(const Machine& machine);

}  // namespace foreduce
