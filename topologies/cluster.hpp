// Many machines on a fabric. A cluster knows its links by number, and the way between any two
// devices; it is made of the machines' graphs, so a thousand equal nodes cost one graph.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "input/words.hpp"
#include "topologies/graph.hpp"

namespace foreduce {

/// How nodes are placed below the leaf switches.
enum class Placement : std::uint8_t {
  packed,  ///< one leaf after the other is filled
  spread   ///< dealt out over the leaves in turn
};
template <>
struct EnumWords<Placement> {
  static constexpr EnumWord<Placement> all[] = {{Placement::packed, "packed"},
                                                {Placement::spread, "spread"}};
};

/// The network between the machines.
struct FabricSpec {
  int nodes_per_leaf = 0;       ///< 0: one switch that never blocks
  double oversubscription = 1;  ///< NIC bandwidth below a leaf over its bandwidth to the spine; ≥ 1
  Seconds spine_latency{0};     ///< what a message pays more when it crosses the spine
  Placement placement = Placement::packed;
  bool placement_group = true;  ///< cluster placement group: decides ENA's limit per flow
};

/// Where reduction servers run.
struct ServerSpec {
  bool co_located = false;                   ///< one a rail on every worker host
  std::shared_ptr<const Machine> dedicated;  ///< or instances of their own, null: none
  int dedicated_count = 0;
  bool any() const { return co_located || dedicated; }
};

/// A device of the cluster.
struct Place {
  int node = 0;
  Device device;
};

/// What a message between two places uses.
struct Route {
  std::vector<std::size_t> links;  ///< cluster link numbers
  Seconds latency;
  Seconds spine_latency;         ///< the part of it that is the fabric's spine
  BytesPerSecond rate_limit{0};  ///< of one connection; 0: none
  Seconds
      overhead;  ///< for which a message occupies the NICs beyond its bytes: the longer of the two
};

class Cluster {
 public:
  /// Throws InputError if the machines cannot talk to each other (EFA's rules) or there are none.
  Cluster(std::vector<std::shared_ptr<const Machine>> nodes, const FabricSpec& fabric,
          const ServerSpec& servers = {});

  /// Worker hosts first, then dedicated server hosts.
  int nodes() const { return static_cast<int>(kind_of_.size()); }
  int worker_nodes() const { return workers_; }
  const NodeGraph& node(int i) const { return *kinds_[kind_of_[static_cast<std::size_t>(i)]]; }
  bool homogeneous() const { return kinds_.size() == 1; }
  const FabricSpec& fabric() const { return fabric_; }
  const ServerSpec& servers() const { return servers_; }
  int gpus() const;
  /// The worker node with the least bandwidth to others, then inside: what all of them agree on, as
  /// NCCL's ranks do (init.cc), is what this one can do. The order of nodes does not count.
  const NodeGraph& weakest() const { return *kinds_[weakest_]; }

  DollarsPerHour price() const;  ///< of all instances; 0 if one has no price
  bool priced() const;

  std::size_t link_count() const { return first_uplink_ + 2 * static_cast<std::size_t>(leaves_); }
  /// "node3/gpu0>pcie0", "leaf1>spine".
  std::string link_name(std::size_t id) const;
  /// The same for every node: "gpu0>pcie0".
  std::string link_class(std::size_t id) const;
  BytesPerSecond link_bandwidth(std::size_t id) const;
  LinkKind link_kind(std::size_t id) const;

  /// Whether a link can ever be a bottleneck (NodeGraph::binding); an uplink always can.
  std::vector<bool> binding_links() const;

  void route(Place from, Place to, Route& into) const;

  /// The leaf switch of a node; 0 on one switch.
  int leaf_of(int node) const;
  int leaves() const { return leaves_; }
  /// What a node's NIC lets one connection to another node have; 0: no limit.
  BytesPerSecond flow_limit(int node) const;
  BytesPerSecond uplink_bandwidth(int leaf) const;
  /// The link from a leaf to the spine; the one from the spine is the next.
  std::size_t uplink(int leaf) const { return first_uplink_ + 2 * static_cast<std::size_t>(leaf); }

  /// All that its behaviour depends on, exactly: equal texts mean equal clusters.
  std::string text() const;

  /// The whole cluster for Graphviz, one box a node.
  std::string dot() const;

 private:
  std::vector<std::shared_ptr<const NodeGraph>> kinds_;
  std::vector<std::size_t> kind_of_, first_link_;
  std::size_t weakest_ = 0;  // of the kinds
  int workers_ = 0;
  FabricSpec fabric_;
  ServerSpec servers_;
  std::size_t first_uplink_ = 0;
  int leaves_ = 0;  // with uplinks; 0 on one switch
};

}  // namespace foreduce
