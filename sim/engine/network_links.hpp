// The links of a simulated network, and the ways of messages over them.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory_resource>
#include <span>
#include <vector>

#include "algorithms/core/transport.hpp"
#include "sim/collective.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/event_clock.hpp"
#include "sim/message_costs.hpp"
#include "sim/symmetry.hpp"

namespace foreduce {

/// SimGrid counts whole units of payload; ours are 2^-20 of a byte, for averaged chunks need not
/// be whole bytes.
inline constexpr double kGrain = 1 << 20;

/// The path class of a link. A path has the class of that of its links which comes first in
/// PathClass.
PathClass path_class_of(LinkKind kind);

/// What all messages of a connection have in common. It is found for the first of them.
struct ConnectionRoute {
  explicit ConnectionRoute(std::pmr::memory_resource& memory) : crossed(&memory) {}
  ConnectionRoute(const ConnectionRoute&) = delete;
  ConnectionRoute& operator=(const ConnectionRoute&) = delete;

  std::pmr::vector<std::size_t> crossed;        // links; again those that bind, if not all do
  std::span<const std::size_t> links, binding;  // simulated ones; those that can bind a message
  double rate_limit = 0;                        // infinite: none
  double alone = 0;                             // what a message has if no other crosses its links
  double latency = 0;
  // What a message costs the NICs beyond its bytes, as bytes that would pass meanwhile; as a time
  // where nothing limits them. Not of a message that is part of the one before it.
  double more_wire = 0, more_latency = 0;
  double switch_wire = 0;  // for which an NVSwitch holds up a message that it reduces or copies
  PathClass path_class = PathClass::host_memory;
  InSwitch asked = InSwitch::no;           // of the switch, by the messages that take this route
  bool in_switch = false;                  // and there is one
  const ConnectionRoute* other = nullptr;  // of the same connection
};

/// The simulated links of a cluster: how wide they are, which routes cross them, and what they have
/// carried.
class NetworkLinks {
 public:
  /// All outlive it. Routes take their memory from `memory`.
  NetworkLinks(const Cluster& cluster, const Layout& layout, const SymmetryReduction& symmetry,
               const MessageCosts& costs, const SimOptions& options,
               std::pmr::memory_resource& memory);

  /// Gives SimGrid the links that can bind.
  void build_in(Engine& engine);
  /// Adds a route's links, as SimGrid knows them.
  void add_simgrid_links(const ConnectionRoute& route, simgrid::kernel::routing::Route& into) const;

  /// The way of a message with this tag between two ranks, a new one.
  ConnectionRoute& add_route(int from, int to, std::uint64_t tag);

  std::size_t size() const { return links_.size(); }
  /// Bytes a second that simulated flows share, of each link; infinite where it never binds.
  std::vector<double> widths() const;
  /// Bytes a second that one flow may have: the whole link's.
  double alone(std::size_t link) const { return links_[link].alone; }
  /// Counts bytes that a message brings to all links of its route.
  void carry(const ConnectionRoute& route, double bytes) {
    for (const std::size_t link : route.links) bytes_on_[link] += bytes;
  }
  /// What a link of the cluster has carried, those that it represents likewise. Where one node
  /// stands for all, `link` is one of its.
  double carried(std::size_t link) const {
    return bytes_on_[symmetry_.link(link)] * symmetry_.flows(link);
  }

 private:
  void build(const SimOptions& options);

  struct LinkState {
    double width = kNever;
    double alone = kNever;
    bool binds = false;
    PathClass path_class = PathClass::host_memory;
    simgrid::s4u::Link* shared = nullptr;  // if it binds and SimGrid shares
  };
  /// The GPUs of a node that run a collective together in their switch.
  struct NodeGroup {
    int stride = 1, members = 1;
    double sync = 0;  // of each message of a chunk
    int place(int local) const { return local / stride % members; }
  };

  const Cluster& cluster_;
  const Layout& layout_;
  const SymmetryReduction& symmetry_;
  const MessageCosts& costs_;
  std::pmr::memory_resource& memory_;
  std::vector<LinkState> links_;
  std::vector<double> bytes_on_;  // each of them, of simulated flows
  std::map<double, std::vector<simgrid::s4u::Link*>>
      limits_;  // by bytes a second, beside each link, where SimGrid shares
  std::array<NodeGroup, 2> node_groups_;  // of the collective, and of the one beside it
  Route scratch_;
  std::deque<ConnectionRoute> routes_;
};

}  // namespace foreduce
