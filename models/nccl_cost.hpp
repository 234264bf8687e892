// What NCCL would do: its choice of algorithm and protocol by its own cost model and by
// aws-ofi-nccl's tuner. What differs between GPUs and releases is data (models/nccl.yaml,
// models/ofi_tuner_regions.csv); factors that are the same for all stand in the formulas.
#pragma once

#include <memory>
#include <optional>

#include "algorithms/core/registry.hpp"
#include "models/nccl_constants.hpp"
#include "models/nccl_names.hpp"
#include "models/profile.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

/// What NCCL does with one collective.
struct NcclChoice {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  std::string why;  ///< which rule chose it
  Collective collective = Collective::all_reduce;
};

/// What the environment leaves NCCL no choice of, and whose choice it is.
struct NcclForced {
  std::optional<NcclAlgorithm> algorithm = {};  ///< NCCL_ALGO
  std::optional<NcclProtocol> protocol = {};    ///< NCCL_PROTO
  int channels = 0;                             ///< NCCL_MIN_CTAS and NCCL_MAX_CTAS; 0: NCCL's own
  std::string release = {};  ///< of nccl_releases(); empty: the profile's own, else the newest
  Bytes buffer = {};         ///< NCCL_BUFFSIZE; 0: the profile's
  std::optional<Seconds> reported = {};  ///< by the network's plugin; empty: what today's reports
};

/// Where a collective runs, and by whose numbers its messages are timed.
struct Site {
  const Cluster& cluster;
  const Layout& layout;
  std::shared_ptr<const Profile> profile;
};

/// The constants of the release whose choice it is.
const NcclConstants& nccl_constants(const Profile& profile, const NcclForced& forced);

/// Chooses for `bytes`, nccl-tests' size, what is not forced. In NCCL 2.4 the size decides; on more
/// than two nodes the plugin's tuner, where the instance has one; else the cost model. A
/// reduce-scatter or all-gather goes by ring, by NVLS in one node, or by PAT with one rank a node;
/// a broadcast by ring; an all-to-all as pairs of sends and receives, which releases before 2.7
/// lack. Throws InputError for what is forced and cannot be.
NcclChoice nccl_choice(const Site& site, Bytes bytes, const NcclForced& forced = {},
                       Collective collective = Collective::all_reduce);

/// The largest chunk that NCCL reduces in the switch (NVLS) on such a cluster: across four nodes
/// and more NCCL itself keeps to 64 KiB (nvls.cc); aws-ofi-nccl sets another limit.
Bytes nccl_nvls_chunk(const Cluster& cluster, const Layout& layout);

}  // namespace foreduce
