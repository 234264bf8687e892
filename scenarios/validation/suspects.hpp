// What goes wrong with NCCL on clusters in practice, each as the cluster that it would be, so that
// the same model predicts it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/core/collective.hpp"
#include "models/nccl_names.hpp"
#include "models/profile.hpp"
#include "scenarios/validation/findings.hpp"
#include "scenarios/validation/nccl_log.hpp"

namespace foreduce {

/// What may be wrong; none: nothing is.
enum class Fault {
  none,
  instance,
  gpu,  ///< an instance type with another GPU
  pcie,
  nvlink,
  rails,
  link,   ///< a PCIe link of a GPU or a NIC
  cards,  ///< at a lower rate
  channels,
  buffer,  ///< between two ranks
  sockets,
  bounce,
  latency,
  algorithm,
  protocol,
  no_nvls,
  floor
};

/// The fault that a cause is a case of.
Fault fault_of(const CauseKind& kind);
/// Whether the same is to be done about both.
bool have_one_remedy(const CauseKind& a, const CauseKind& b);

/// The settings that say how many channels NCCL may use at most.
inline constexpr const char* kMostChannelsSettings[] = {"NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"};

/// A cluster as it may be: healthy, or with one thing wrong.
struct Setup {
  CauseKind kind;
  Machine machine;
  Profile profile;
  std::optional<NcclAlgorithm> algorithm = {};  ///< that NCCL_ALGO forces; null: NCCL chooses
  std::optional<NcclProtocol> protocol = {};    ///< that NCCL_PROTO forces; null: none
  int channels = 0;                             ///< that NCCL is held to; 0: as many as it takes
  Bytes buffer = {};                            ///< that NCCL_BUFFSIZE sets; 0: the usual
  std::optional<Evidence> evidence = {};        ///< of a suspect, what the log itself says for it

  Fault fault() const { return fault_of(kind); }
};

/// The usual suspects before the rare ones. Of how many NICs there are, only what the log leaves
/// possible.
std::vector<Setup> suspects(const NcclTable& table, Collective collective, const Machine& healthy,
                            const Profile& profile, int nodes, MachineBy known_by);
/// The suspect that every such collective takes `more`, whatever its size.
Setup latency_floor(cause::LatencyFloor floor, const Machine& healthy, const Profile& profile);

/// The algorithm that NCCL_ALGO in the log leaves NCCL no choice but; null where NCCL chose, also
/// because it has no such algorithm for that collective.
std::optional<NcclAlgorithm> algorithm_forced_by(const NcclFacts& facts, Collective collective);

/// What the log itself says for a suspect; nothing where it does not.
std::optional<Evidence> evidence_for(const NcclFacts& facts, const Setup& suspect,
                                     const Machine& healthy);
/// Whether the log speaks against it.
bool contradicted(const NcclFacts& facts, const Setup& suspect, const Machine& healthy);

}  // namespace foreduce
