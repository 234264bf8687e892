// The constants of NCCL's own cost model (models/nccl.yaml), and what they were in its releases.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "input/units.hpp"

namespace foreduce {

/// One number for each protocol {LL, LL128, Simple}, or as said where it is used.
using NcclNumbers = std::vector<double>;

/// us, by algorithm.
struct NcclHops {
  NcclNumbers tree, ring;
};
/// What NCCL's search finds: {channels, GB/s inside a node, GB/s between nodes}.
struct NcclGraphs {
  NcclNumbers ring, tree, nvls;
};
/// What NCCL assumes of a generation of GPUs; caps in GB/s for {one node, two nodes, more}.
struct NcclGeneration {
  std::string name;
  std::vector<std::string> gpus;  ///< beginnings of models
  NcclNumbers ll_max, ll128_ring, ll128_tree, tree, nvls_tree;
  double nvls_efficiency = 0;
  NcclGraphs one_node, nodes;
  double network = 0;  ///< GB/s of the NICs of a node that `nodes` is for
};
/// A latency that aws-ofi-nccl reports to NCCL over EFA. The last one that names a type holds.
struct NcclReported {
  std::vector<std::string> instances;  ///< empty: any
  Seconds latency;
};
/// Which of the plugin's tuner regions hold for these instance types.
struct NcclTuner {
  std::vector<std::string> instances;
  std::string regions;
};
/// What another release has of one generation; empty: the same.
struct NcclOlderGeneration {
  std::string name;
  NcclNumbers ll_max, ll128_ring, ll128_tree, tree, nvls_tree;
};
/// What releases up to `until` have in other ways than those after them; empty: the same.
struct NcclOlder {
  std::string until;
  NcclNumbers tree_simple;  ///< a tree by Simple: {base, hop by NVLink, by PCIe, by network}
  NcclNumbers nvls_hop, nvls_tree_hop, pat;
  std::optional<double> ring_ll_share;
  bool nvls_by_graph = false, hop_more = false, no_pat = false, shorter_tree_chunks = false;
  std::vector<NcclOlderGeneration> generations;
};

/// NCCL's cost model: times in us, rates in GB/s.
struct NcclConstants {
  std::string source;
  NcclHops base, hop_nvlink, hop_pcie, hop_net;
  NcclNumbers nvls_chunk, nvls_hop, nvls_tree_hop;
  NcclNumbers pat;  ///< base, share of a network hop a doubling, us a rank, share of the bandwidth
  NcclNumbers correction[3];
  double ring_ll_share = 0;    ///< of a ring's bandwidth that LL reaches
  bool nvls_by_graph = false;  ///< NVLS has the rate of its graph, not of the switch
  bool hop_more = false;       ///< rings are taken to cross the network once more each way, and
                               ///< single ranks of a node not to have a tree's latency there
  bool no_pat = false;
  bool shorter_tree_chunks = false;  ///< of Simple, where the pipeline would not be full
  std::string buffers_from;          ///< the version of aws-ofi-nccl that first sets NCCL_BUFFSIZE
  std::string newest;                ///< the release that the top of the file describes
  std::vector<NcclOlder> older;
  std::vector<NcclGeneration> generations;
  std::vector<NcclReported> reported;
  std::vector<NcclTuner> tuner;

  /// Of a GPU by the beginning of its model; the newest for one that is not known.
  const NcclGeneration& generation_of(const std::string& gpu) const;
};

/// Of a release such as "2.21"; empty: the newest. Throws InputError for one that is not among
/// nccl_releases().
const NcclConstants& nccl_constants(const std::string& release = {});
/// Whose constants are known, oldest first: "2.19" to the newest.
const std::vector<std::string>& nccl_releases();
/// The one of them that holds for a version such as "2.21.5" that somebody ran: the oldest from 2.8
/// on, empty for one before that.
std::string nccl_release_of(const std::string& version);

/// NCCL_BUFFSIZE with that version of aws-ofi-nccl, "1.13.2": NCCL's own 4 MiB before it sets more.
/// 0 where it is as in the profiles, or the version empty.
Bytes nccl_buffer_with(const std::string& plugin_version);

}  // namespace foreduce
