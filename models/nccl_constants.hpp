// The constants of NCCL's own cost model (models/nccl.yaml), and what they were in its releases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "input/units.hpp"
#include "input/words.hpp"
#include "topologies/machine.hpp"

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
  std::vector<std::string> gpus;  ///< their models, see is_model()
  std::string compared_from;      ///< the oldest release that intervals are from; empty: all
  NcclNumbers ll_max, ll128_ring, ll128_tree, tree, nvls_tree;
  double nvls_efficiency = 0;
  double most = 0;        ///< GB/s that rings and trees are taken to reach at most; 0: no limit
  NcclNumbers tree_most;  ///< GB/s that a tree is taken to reach at most, on all channels; empty:
                          ///< what `tree` says of each
  NcclNumbers ll128_tree_most;  ///< the same by LL128; empty: as by Simple
  double ring_plateau = 1;      ///< by which a ring's latency by Simple between nodes is longer,
                                ///< from NcclConstants::plateau_a_rank on
  bool nvls_tree_corrected_on_x86 = false;  ///< NVLSTree has the trees' correction there
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
  NcclNumbers ll_max, ll128_ring, ll128_tree, tree, tree_most, ll128_tree_most, nvls_tree;
  std::optional<double> most, ring_plateau;
};
/// Up to how many bytes NCCL 2.4 uses LL: in a ring per rank and channel, in a tree per channel.
struct NcclLimits {
  Bytes ring, tree;
};
/// What NCCL makes of the latency that a network's plugin reports.
enum class NcclReportedUse : std::uint8_t {
  added,    ///< to its own hop over the network, by Simple twice
  instead,  ///< in place of it
  ignored
};
/// Of releases before the newest, which adds it.
template <>
struct EnumWords<NcclReportedUse> {
  static constexpr EnumWord<NcclReportedUse> all[] = {{NcclReportedUse::instead, "instead"},
                                                      {NcclReportedUse::ignored, "ignored"}};
};
/// What releases up to `until` have in other ways than those after them; empty: the same.
struct NcclOlder {
  std::string until;
  std::optional<NcclHops> base, hop_nvlink, hop_pcie, hop_net;
  NcclNumbers tree_simple;  ///< a tree by Simple: {base, hop by NVLink, by PCIe, by network}
  NcclNumbers nvls_hop, nvls_tree_hop, pat;
  NcclNumbers correction[3];
  std::optional<double> ring_ll_share, ll_inside, nvls_share, nvls_chain, tree_share, tree_ll_share,
      tree_ll128_share, ll128_ring_most;
  std::optional<Bytes> plateau_a_rank;
  std::optional<NcclLimits> ll_up_to;
  std::optional<bool> hop_more;
  std::optional<NcclReportedUse> reported;
  bool nvls_by_graph = false, lone_as_ring = false, no_post_overhead = false, no_pat = false,
       no_nvls = false, no_nvls_tree = false, nvls_sums_only = false, shorter_tree_chunks = false,
       no_p2p = false, ll128_on_volta = false, ring_hops_alike = false, whole_slices = false,
       no_tree_lines = false;
  std::vector<NcclOlderGeneration> generations;
};

/// NCCL's cost model: times in us, rates in GB/s.
struct NcclConstants {
  std::string source;
  std::string release;  ///< whose they are: "2.30"
  NcclHops base, hop_nvlink, hop_pcie, hop_net;
  NcclNumbers nvls_chunk, nvls_hop, nvls_tree_hop;
  int nvls_heads = 0;  ///< GPUs of a node that a switch shares data out between, at most
  Bytes p2p_ll;        ///< up to which GPUs of a node send to each other by LL
  NcclNumbers pat;  ///< base, share of a network hop a doubling, us a rank, share of the bandwidth
  NcclNumbers correction[3];
  double ring_ll_share = 0;     ///< of a ring's bandwidth that LL reaches
  double tree_share = 0;        ///< of a tree's channels that it reaches, by Simple
  double tree_ll_share = 0;     ///< of that, by LL
  double tree_ll128_share = 0;  ///< of that, by LL128 between nodes
  double ll128_ring_most = 0;   ///< GB/s that a ring by LL128 reaches on all channels; 0: what its
                                ///< generation's `ll128_ring` says of each
  Bytes plateau_a_rank;         ///< from which rings have a plateau; 0: 64 B a rank and channel
  double ll_inside = 1;  ///< by which a hop of LL inside a node is longer where there are more
  bool nvls_by_graph = false;   ///< NVLS has the rate of its graph, not of the switch
  double nvls_share = 5.0 / 6;  ///< of that rate
  double nvls_chain = 0;        ///< of the graph's rate that NVLSTree reaches, taken for a chain of
                                ///< nodes; 0: it is taken for a tree
  bool hop_more = false;        ///< rings are taken to cross the network once more each way
  bool lone_as_ring = false;  ///< a single rank of a node has a ring's latency there, not a tree's,
                              ///< and by LL128 0.7 of its bandwidth, not 0.92
  bool ll128_on_volta = false;  ///< LL128 is for that generation alone
  bool ring_hops_alike =
      false;  ///< between nodes all hops of a ring are taken to cross the network
  bool no_post_overhead = false;  ///< a ring's hop inside is not as long as posting to the network
  NcclReportedUse reported_use = NcclReportedUse::added;
  bool no_pat = false, no_nvls = false, no_nvls_tree = false, no_p2p = false;
  bool nvls_sums_only = false;       ///< NVLS is for all-reduces alone
  bool shorter_tree_chunks = false;  ///< of Simple, where the pipeline would not be full
  bool whole_slices = false;   ///< a ring by Simple sends two steps at once, and a second, empty
                               ///< message where nothing is left for it
  bool no_tree_lines = false;  ///< trees by LL do not hand on each line as it comes
  std::optional<NcclLimits> ll_up_to;  ///< sizes decide, rather than the cost model
  std::string buffers_from;   ///< the version of aws-ofi-nccl that first sets NCCL_BUFFSIZE
  std::string reported_from;  ///< the one that first reports a latency by instance type
  Seconds reported_earlier;   ///< what those before it report
  std::string ll_max_amd, ll_max_others;  ///< the generation whose ll_max holds between nodes, by
                                          ///< the CPU's maker
  std::string newest;                     ///< the release that the top of the file describes
  std::vector<NcclOlder> older;
  std::vector<NcclGeneration> generations;
  std::vector<NcclReported> reported;
  std::vector<NcclTuner> tuner;

  /// Of a GPU by its model; for one that is not listed, by the precisions that it computes in and
  /// its peak.
  const NcclGeneration& generation_of(const Gpu& gpu) const;
  /// "Hopper".
  const NcclGeneration& generation(const std::string& name) const;
};

/// Of a release such as "2.21"; empty: the newest. Throws InputError for one that is not among
/// nccl_releases().
const NcclConstants& nccl_constants(const std::string& release = {});
/// Whose constants are known, oldest first: "2.4" to the newest.
const std::vector<std::string>& nccl_releases();
/// The one of them that holds for a version such as "2.21.5" that somebody ran; empty for one
/// before 2.4.
std::string nccl_release_of(const std::string& version);

/// Whether a release, "2.9", is older than those that somebody compared on such a GPU.
bool older_than_compared(const std::string& release, const Gpu& gpu);

/// NCCL_BUFFSIZE where nobody sets it (src/init.cc).
inline constexpr Bytes kNcclBuffer{4 << 20};
/// NCCL_BUFFSIZE with that version of aws-ofi-nccl, "1.13.2": NCCL's own before it sets more.
/// 0 where it is as in the profiles, or the version empty.
Bytes nccl_buffer_with(const std::string& plugin_version);
/// The latency over EFA that that version reports to NCCL; nothing where it is as in the constants,
/// or the version empty.
std::optional<Seconds> nccl_reported_with(const std::string& plugin_version);

}  // namespace foreduce
