// What NCCL would do: its choice of algorithm and protocol by its own cost model and by aws-ofi-nccl's tuner, and how it cuts the
// data. The constants are data (models/nccl.yaml, models/ofi_tuner_regions.csv).
#pragma once

#include "algorithms/core/registry.hpp"
#include "models/profile.hpp"
#include "topologies/core/cluster.hpp"

namespace foreduce {

/// What NCCL does with one all-reduce.
struct NcclChoice {
  std::string algorithm;  ///< ours: ring, double-tree, nvls, nvls-tree
  std::string protocol;   ///< LL, LL128, Simple
  std::string why;        ///< which rule chose it
};

/// Chooses for `bytes` a rank. `algorithm`, if not empty, is forced (NCCL_ALGO) and only the protocol is chosen. Where the profile
/// has limits for the protocols (NCCL 2.4 and 2.6) they decide; on more than two nodes the plugin's tuner, where the instance has
/// one; else the cost model. Throws InputError for a forced algorithm that cannot be.
NcclChoice nccl_choice(const Cluster& cluster, const Layout& layout, const Profile& profile, Bytes bytes,
                       const std::string& algorithm = {});

/// How many channels NCCL uses, of how many bytes its messages are.
struct NcclCut {
  double channels = 1;
  Bytes chunk;        ///< payload of one message on one channel
  double chunks = 1;  ///< that a channel's data is cut into (ring: each rank's part of them)
  double slots = 0;   ///< messages on the way on one channel's connection; 0: no limit
};
NcclCut nccl_cut(const Cluster& cluster, const Layout& layout, const Profile& profile, const NcclChoice& choice, Bytes bytes);

}  // namespace foreduce
