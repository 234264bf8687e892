// Ranks on a simulated network, for those who need not know SimGrid. The program has what does as a
// module (foreduce_simgrid.so), for loading SimGrid takes longer than most commands.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "algorithms/core/transport.hpp"
#include "sim/collective.hpp"
#include "sim/symmetry.hpp"

namespace foreduce {

/// In which order channels of one rank take turns, see NetworkModel::turn_of.
enum class ChannelOrder : std::uint8_t {
  from_own_rail,  ///< channel c of the algorithm begins at rail c of a node: a rank's own rail
                  ///< first
  as_numbered     ///< channels have nothing to do with rails
};

/// What ranks run on. Everything in it must outlive the run.
struct SimulatedNetwork {
  const Cluster& cluster;
  const Layout& layout;  ///< of all ranks
  const SymmetryReduction& symmetry;
  double element_bytes = 0;  ///< of one element, where data are counted and not sent
  ChannelOrder channel_order = ChannelOrder::from_own_rail;
  const SimOptions& options;
};

/// Runs `rank_function` on every rank that is simulated. Nothing if a pause delayed a message (see
/// SimOptions::pauses_from). One run at a time. Throws TransportError on deadlock, or where the
/// module is missing.
std::optional<CollectiveResult> run_ranks(const SimulatedNetwork& on,
                                          const std::function<void(Transport&)>& rank_function);

/// Loads the module, where this program has one: before other processes are started that simulate,
/// which then need not. Throws TransportError if it is missing.
void load_simulator();

/// What the linker says of the module's code and data (see build_id_of); "" in a program that has
/// no module.
const std::string& simulator_build_id();

}  // namespace foreduce
