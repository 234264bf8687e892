// Who is who: node, place in the node, rail, worker or reduction server; and in which order the
// workers of each channel are best visited. Filled from the topology in the simulator, by the
// launcher on hardware.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace foreduce {

class SpanningTrees;

/// One rank's place.
struct Member {
  int node = 0;         ///< which host
  int local = 0;        ///< which of the host's workers (or of its servers)
  int rail = 0;         ///< which of the host's NICs (or bundles of NICs) its traffic uses
  bool server = false;  ///< a reduction server: a CPU process that only sums
};

/// Equal groups of workers that run a collective each, all at once: group members are `stride`
/// ranks apart. On nodes of 8 GPUs {8, 1} are the nodes, {4, 8} the GPUs of one place on four
/// nodes.
struct RankGroups {
  int size = 0;  ///< members of a group; 0: all workers are one group
  int stride = 1;

  bool whole() const { return size == 0; }
  /// The group that `rank` belongs to, in rank order. The workers must be a multiple of size x
  /// stride.
  std::vector<int> of(int rank) const;
  friend bool operator==(const RankGroups&, const RankGroups&) = default;
};

/// Who sums what the workers of a node send: they themselves, or the switch between them (NVLS).
enum class SummedBy : std::uint8_t { gpus, switches };

/// Workers are ranks 0 … workers-1, node by node; servers, if any, follow.
struct Layout {
  std::vector<Member> members;
  int workers = 0;
  int nodes = 0;              ///< hosts with workers
  bool uniform_nodes = true;  ///< equal links and rails inside all of them; see node_rings
  bool switch_reduces =
      false;  ///< the switch between a node's workers can sum and multicast (NVLS)
  bool dedicated_servers = false;    ///< servers on hosts of their own rather than on the workers'
  bool straight_to_servers = false;  ///< a worker's way to them is as good as to its peers: summing
                                     ///< in the node first gains nothing
  /// One entry a channel: all workers in the order in which data best travels over them, the
  /// workers of a node next to each other. Channel c enters and leaves a node through rail c.
  std::vector<std::vector<int>> channels;
  /// Closed rings over the workers of one node (of any, if they are uniform), by local index;
  /// empty: any two workers of a node reach each other directly at full speed (NVSwitch), so no
  /// ring is needed.
  std::vector<std::vector<int>> node_rings;
  /// Such rings over some workers of one node, from their local indices, by their numbers among
  /// these. May be called by several threads. Null: it is not known.
  std::function<std::vector<std::vector<int>>(const std::vector<int>&)> rings_among;
  /// Trees that use the topology's links as well as can be; null: it is not known. See forest.
  std::shared_ptr<const SpanningTrees> trees;
  /// per_node(), kept by who has filled in all members, for counting takes all ranks; -1: not
  /// counted.
  int counted_per_node = -1;

  int size() const { return static_cast<int>(members.size()); }
  int servers() const { return size() - workers; }
  /// The order of workers on channel c.
  const std::vector<int>& channel(int c) const { return channels[static_cast<std::size_t>(c)]; }
  const Member& at(int rank) const { return members[static_cast<std::size_t>(rank)]; }
  /// Workers on each node, or 0 if the nodes differ.
  int per_node() const;
  /// All workers of the node of `rank`, by local index.
  std::vector<int> node_peers(int rank) const;

  /// `nodes` × `per_node` workers on one rail, one channel in rank order, `servers_per_node`
  /// co-located servers.
  static Layout uniform(int nodes, int per_node = 1, int servers_per_node = 0);
  /// The layout that the given worker ranks form among themselves, renumbered 0 … n-1. Several on
  /// each of several nodes keep the channels, and with them the nodes' NICs; those of one node have
  /// a channel for each ring among them, and others have one.
  Layout subset(std::span<const int> ranks) const;
  /// The same of one of the groups. Where these differ, because they do not fill nodes, it is the
  /// first of those that reach the most nodes: what can run there can run in all.
  Layout subset(const RankGroups& groups) const;
};

}  // namespace foreduce
