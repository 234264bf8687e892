// A machine as a graph: GPUs, NVSwitch, PCIe switches, sockets, memory, NICs, and the way out.
// Routes, cuts and rings are found on it.
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topologies/machine.hpp"

namespace foreduce {

enum class VertexKind { gpu, nvswitch, pcie_switch, socket, memory, rail, fabric };
enum class LinkKind { nvlink, pcie, interconnect, memory, network, uplink };
const char* name_of(VertexKind kind);
const char* name_of(LinkKind kind);

struct Vertex {
  VertexKind kind = VertexKind::gpu;
  int index = 0;
  std::string name() const;
};
/// One direction of a physical link.
struct Link {
  BytesPerSecond bandwidth;  ///< infinite for an ideal connection, which is left out of routes
  Seconds latency;
  LinkKind kind = LinkKind::pcie;
  std::size_t id = 0;  ///< dense, in order of insertion
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Vertex, Link>;
using VertexId = Graph::vertex_descriptor;
using EdgeId = Graph::edge_descriptor;

/// A path through a machine: link ids in order, with their total latency.
struct Path {
  std::vector<std::size_t> links;
  Seconds latency;
  BytesPerSecond bottleneck;  ///< the narrowest link; infinite if there is none
};

/// Who can send and receive in a machine: GPUs, and server processes, one a rail.
struct Device {
  bool server = false;
  int index = 0;  ///< GPU number, or rail number of the server
};

/// Which devices of a machine send and receive.
enum class Devices : std::uint8_t { gpus, servers, both };

/// A machine's graph with what is derived from it once.
class NodeGraph {
 public:
  explicit NodeGraph(const Machine& machine);

  const Machine& machine() const { return machine_; }
  const Graph& graph() const { return graph_; }
  std::size_t link_count() const { return boost::num_edges(graph_); }
  /// "gpu0>pcie0": the name of a link, unique in the machine.
  const std::string& link_name(std::size_t id) const { return names_[id]; }
  const Link& link(std::size_t id) const { return links_[id]; }

  /// A rail is one NIC or the bundle of NICs below one PCIe switch, over which a message is
  /// striped.
  int rails() const { return static_cast<int>(rail_nics_.size()); }
  /// The rail that a GPU's traffic uses: on its own PCIe switch, else the nearest, taken in turn
  /// among equals.
  int rail_of(int gpu) const { return gpu_rail_[static_cast<std::size_t>(gpu)]; }
  BytesPerSecond rail_bandwidth(int rail) const;
  int socket_of_rail(int rail) const { return rail_socket_[static_cast<std::size_t>(rail)]; }

  /// The way from one device to another inside the machine: fewest hops, then the widest. GPUs do
  /// not forward.
  const Path& inside(Device from, Device to) const;
  /// From a device to the network and back, through its rail; by way of host memory where the NIC
  /// cannot read GPU memory.
  const Path& outward(Device from) const { return outward_[slot(from)]; }
  const Path& inward(Device to) const { return inward_[slot(to)]; }

  /// Which links can ever be a bottleneck, by id, when these devices (GPUs, or both) talk to each
  /// other and to the network along these routes. A link is left out if others that all its routes
  /// also cross are together no wider: they bind first, always, so no fair share depends on it.
  /// Exact; a simulator has less to solve without them.
  std::vector<bool> binding(Devices who) const;

  /// If every GPU took the place of the one `rails` rails further: the link whose place each link
  /// takes, by id. Empty if routes between GPUs, and to the network and back, would not be the same
  /// then. No route crosses two links that take each other's places.
  std::vector<std::size_t> rotated(int rails) const;

  /// Where a device's bytes may go: to others of its machine, or through the network too.
  enum class Range : std::uint8_t { machine, network };
  /// Bytes per second that can leave (enter) a device, all its links together. An ideal link to the
  /// cards, where no PCIe is described, is as wide as the cards.
  BytesPerSecond capacity_out(Device d, Range range) const;
  BytesPerSecond capacity_in(Device d, Range range) const;
  /// The most that can flow out of the machine (max flow) from its GPUs, its host memory (where
  /// servers run), or both together; and into them.
  BytesPerSecond cut_out(Devices from = Devices::gpus) const {
    return cuts_[0][static_cast<std::size_t>(from)];
  }
  BytesPerSecond cut_in(Devices to = Devices::gpus) const {
    return cuts_[1][static_cast<std::size_t>(to)];
  }

  /// Closed rings over all GPUs along NVLink, both directions of each: as many as the links allow,
  /// widest first. Empty if every pair is connected through a switch, or there are none.
  const std::vector<std::vector<int>>& rings() const { return rings_; }
  /// The same over some of its GPUs, by their numbers among these.
  std::vector<std::vector<int>> rings_among(std::span<const int> gpus) const;
  /// For each rail an order of all GPUs that enters and leaves by it, along the widest NVLinks.
  const std::vector<std::vector<int>>& chains() const { return chains_; }
  /// Whether any two GPUs reach each other through a switch at full port speed.
  bool switched() const {
    return machine_.nvlink && machine_.nvlink->kind == NvLinkKind::through_switch;
  }

  /// Graphviz: `dot -Tsvg`.
  std::string dot() const;

 private:
  VertexId add(VertexKind kind, int index);
  void join(VertexId a, VertexId b, BytesPerSecond bandwidth, Seconds latency, LinkKind kind);
  void build();
  void add_sockets(const Host& host);
  void add_nvlink(const NvLink& nv);
  void add_pcie(const Pcie& pcie);
  /// A textbook node: devices and NICs meet in one ideal point.
  void add_ideal_nics();
  int add_rail(std::vector<int> nics, int socket);
  void find_routes();
  void find_rings();
  void find_chains();
  /// The GPUs at a rail's NICs; where there are none, those whose traffic uses them.
  std::vector<int> at_rail(int rail) const;
  /// The GPU over which another's data reach the NICs of a rail; itself where it has these.
  int relay_of(int gpu, int rail) const;
  enum class Direction : std::uint8_t { outward, inward };
  BytesPerSecond useful_width(EdgeId edge, VertexId other, Range range) const;
  BytesPerSecond max_flow(Direction direction, Devices devices) const;
  std::size_t slot(Device d) const {
    return static_cast<std::size_t>(d.index + (d.server ? machine_.gpus() : 0));
  }
  std::size_t devices() const {
    return static_cast<std::size_t>(machine_.gpus() + (machine_.host ? rails() : 0));
  }
  VertexId vertex(Device d) const {
    return d.server
               ? memory_[static_cast<std::size_t>(rail_socket_[static_cast<std::size_t>(d.index)])]
               : gpu_[static_cast<std::size_t>(d.index)];
  }

  Machine machine_;
  Graph graph_;
  std::vector<Link> links_;
  std::vector<std::string> names_;
  std::vector<VertexId> gpu_, socket_, memory_, rail_;
  VertexId fabric_ = 0;
  std::vector<std::vector<int>> rail_nics_;
  std::vector<int> rail_socket_, gpu_rail_, gpu_socket_;
  std::vector<bool> gpu_at_rail_;  // its NICs are at its own PCIe switch
  std::vector<Path> inside_, outward_, inward_;
  BytesPerSecond cuts_[2][3];  // by Direction and Devices
  std::vector<std::vector<int>> rings_, chains_;
};

}  // namespace foreduce
