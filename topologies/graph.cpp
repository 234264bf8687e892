#include "topologies/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "topologies/max_flow.hpp"

namespace foreduce {
namespace {
constexpr BytesPerSecond kIdeal{std::numeric_limits<double>::infinity()};
}

const char* name_of(VertexKind kind) {
  switch (kind) {
    case VertexKind::gpu: return "gpu";
    case VertexKind::nvswitch: return "nvswitch";
    case VertexKind::pcie_switch: return "pcie";
    case VertexKind::socket: return "socket";
    case VertexKind::memory: return "memory";
    case VertexKind::rail: return "nic";
    case VertexKind::fabric: break;
  }
  return "network";
}

const char* name_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink: return "NVLink";
    case LinkKind::pcie: return "PCIe";
    case LinkKind::interconnect: return "socket interconnect";
    case LinkKind::memory: return "host memory";
    case LinkKind::network: return "network";
    case LinkKind::uplink: break;
  }
  return "fabric uplink";
}

std::string Vertex::name() const {
  const bool single = kind == VertexKind::nvswitch || kind == VertexKind::fabric;
  return single ? name_of(kind) : fmt::format("{}{}", name_of(kind), index);
}

NodeGraph::NodeGraph(const Machine& machine) : machine_(machine) {
  build();
  find_routes();
  find_rings();
  find_chains();
  for (const Devices devices : {Devices::gpus, Devices::servers, Devices::both})
    for (const Direction direction : {Direction::outward, Direction::inward})
      cuts_[static_cast<std::size_t>(direction)][static_cast<std::size_t>(devices)] =
          max_flow(direction, devices);
}

VertexId NodeGraph::add(VertexKind kind, int index) {
  return boost::add_vertex(Vertex{kind, index}, graph_);
}

void NodeGraph::join(VertexId a, VertexId b, BytesPerSecond bandwidth, Seconds latency,
                     LinkKind kind) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    const Link link{bandwidth, latency, kind, links_.size()};
    boost::add_edge(from, to, link, graph_);
    links_.push_back(link);
    names_.push_back(graph_[from].name() + ">" + graph_[to].name());
  }
}

void NodeGraph::build() {
  const int gpus = machine_.gpus();
  for (int i = 0; i < gpus; ++i) gpu_.push_back(add(VertexKind::gpu, i));
  fabric_ = add(VertexKind::fabric, 0);
  gpu_rail_.assign(static_cast<std::size_t>(gpus), -1);
  gpu_socket_.assign(static_cast<std::size_t>(gpus), 0);
  if (machine_.host) add_sockets(*machine_.host);
  if (machine_.nvlink) add_nvlink(*machine_.nvlink);
  if (machine_.pcie) add_pcie(*machine_.pcie);
  else add_ideal_nics();
}

void NodeGraph::add_sockets(const Host& host) {
  for (int s = 0; s < host.sockets; ++s) {
    socket_.push_back(add(VertexKind::socket, s));
    memory_.push_back(add(VertexKind::memory, s));
    // One bus serves reads and writes; data that cross memory are written once and read once,
    // hence half for each.
    const BytesPerSecond half =
        host.memory_bandwidth.value > 0 ? host.memory_bandwidth / 2 : kIdeal;
    join(socket_.back(), memory_.back(), half, Seconds{0}, LinkKind::memory);
    for (int other = 0; other < s; ++other)
      join(socket_[static_cast<std::size_t>(other)], socket_.back(), host.interconnect, Seconds{0},
           LinkKind::interconnect);
  }
}

void NodeGraph::add_nvlink(const NvLink& nv) {
  if (nv.kind == NvLinkKind::through_switch) {
    const VertexId hub = add(VertexKind::nvswitch, 0);
    for (const VertexId gpu : gpu_)
      join(gpu, hub, nv.bandwidth * nv.links, nv.latency / 2, LinkKind::nvlink);
  }
  for (const auto& e : nv.edges)
    join(gpu_[static_cast<std::size_t>(e[0])], gpu_[static_cast<std::size_t>(e[1])],
         nv.bandwidth * e[2], nv.latency, LinkKind::nvlink);
}

int NodeGraph::add_rail(std::vector<int> nics, int socket) {
  const int index = rails();
  rail_.push_back(add(VertexKind::rail, index));
  rail_nics_.push_back(std::move(nics));
  rail_socket_.push_back(socket);
  join(rail_.back(), fabric_, rail_bandwidth(index), machine_.nic.latency / 2, LinkKind::network);
  return index;
}

void NodeGraph::add_ideal_nics() {
  std::vector<int> nics(static_cast<std::size_t>(machine_.nic.count));
  std::iota(nics.begin(), nics.end(), 0);
  const int rail = add_rail(std::move(nics), 0);
  for (int g = 0; g < machine_.gpus(); ++g) {
    join(gpu_[static_cast<std::size_t>(g)], rail_[0], kIdeal, Seconds{0}, LinkKind::pcie);
    gpu_rail_[static_cast<std::size_t>(g)] = rail;
  }
  for (const VertexId socket : socket_) join(socket, rail_[0], kIdeal, Seconds{0}, LinkKind::pcie);
}

void NodeGraph::add_pcie(const Pcie& pcie) {
  for (std::size_t i = 0; i < pcie.switches.size(); ++i) {
    const PcieSwitch& s = pcie.switches[i];
    const VertexId hub = add(VertexKind::pcie_switch, static_cast<int>(i));
    const BytesPerSecond uplink = pcie.uplink.value > 0 ? pcie.uplink : pcie.bandwidth;
    join(hub, socket_[static_cast<std::size_t>(s.socket)], uplink, pcie.latency, LinkKind::pcie);
    for (const int g : s.gpus) {
      join(gpu_[static_cast<std::size_t>(g)], hub, pcie.link_of("gpu", g), pcie.latency,
           LinkKind::pcie);
      gpu_socket_[static_cast<std::size_t>(g)] = s.socket;
    }
    if (s.nics.empty()) continue;
    // NICs that can be dealt out evenly are: each GPU has a rail of its own, as aws-ofi-nccl groups
    // them on p5en (src/platform-aws.cpp).
    const std::size_t rails =
                          !s.gpus.empty() && s.nics.size() % s.gpus.size() == 0 ? s.gpus.size() : 1,
                      each = s.nics.size() / rails;
    for (std::size_t r = 0; r < rails; ++r) {
      const auto first = s.nics.begin() + static_cast<std::ptrdiff_t>(r * each);
      const int rail = add_rail({first, first + static_cast<std::ptrdiff_t>(each)}, s.socket);
      // Bytes go out evenly over a rail's NICs, so that a slow link holds up all of them.
      BytesPerSecond slowest = kIdeal;
      for (std::size_t n = 0; n < each; ++n)
        slowest = std::min(slowest, pcie.link_of("nic", s.nics[r * each + n]));
      join(hub, rail_.back(), slowest * static_cast<double>(each), Seconds{0}, LinkKind::pcie);
      for (std::size_t g = 0; g < s.gpus.size(); ++g)
        if (rails == 1 || g == r) gpu_rail_[static_cast<std::size_t>(s.gpus[g])] = rail;
    }
  }
}

BytesPerSecond NodeGraph::rail_bandwidth(int rail) const {
  return machine_.nic.bandwidth *
         static_cast<double>(rail_nics_[static_cast<std::size_t>(rail)].size());
}

namespace {
/// Fewer hops first; of equally long ways the one whose slowest links are faster.
struct Cost {
  int hops = 0;
  double slowness = 0;  // sum of 1/bandwidth
  bool operator<(const Cost& o) const {
    return std::pair(hops, slowness) < std::pair(o.hops, o.slowness);
  }
};

/// The shortest ways between vertices. Those from one vertex to all others are found at once, so a
/// machine of many GPUs does not search once a pair.
class ShortestWays {
 public:
  ShortestWays(const Graph& graph, const std::string& machine) : graph_(graph), machine_(machine) {
    for (const auto& e : boost::make_iterator_range(boost::edges(graph_)))
      weights_[e] = {1, 1 / graph_[e].bandwidth.value};
  }

  /// Throws InputError where there is none.
  Path between(VertexId from, VertexId to) {
    const bool gpus = graph_[from].kind == VertexKind::gpu && graph_[to].kind == VertexKind::gpu;
    const auto [found, fresh] = before_.try_emplace({from, gpus});
    if (fresh) found->second = search(from, gpus ? Between::gpus : Between::others);
    const std::vector<VertexId>& before = found->second;
    if (before[to] == to)
      throw input_error(fmt::format("{}: there is no way from {} to {}", machine_,
                                    graph_[from].name(), graph_[to].name()));
    Path path{{}, Seconds{0}, kIdeal};
    for (VertexId at = to; at != from; at = before[at]) {
      const Link& link = graph_[boost::edge(before[at], at, graph_).first];
      path.latency += link.latency;
      path.bottleneck = std::min(path.bottleneck, link.bandwidth);
      if (link.bandwidth < kIdeal) path.links.insert(path.links.begin(), link.id);
    }
    return path;
  }

 private:
  enum class Between : std::uint8_t { gpus, others };

  /// For every vertex the one before it on the way; itself where there is no way.
  std::vector<VertexId> search(VertexId from, Between kind) const {
    // GPUs, memory and the network are ends, never on the way; nor does a NIC connect two GPUs of
    // a machine.
    const auto may_use = [&](const Graph::edge_descriptor& e) {
      const VertexId start = boost::source(e, graph_);
      const VertexKind at = graph_[start].kind;
      if (at == VertexKind::rail && kind == Between::gpus) return false;
      return start == from ||
             (at != VertexKind::gpu && at != VertexKind::memory && at != VertexKind::fabric);
    };
    const boost::filtered_graph<Graph, std::function<bool(const Graph::edge_descriptor&)>> usable(
        graph_, may_use);
    const std::size_t n = boost::num_vertices(graph_);
    std::vector<VertexId> before(n);
    std::vector<Cost> cost(n);
    const auto index = boost::get(boost::vertex_index, graph_);
    boost::dijkstra_shortest_paths(
        usable, from,
        boost::predecessor_map(boost::make_iterator_property_map(before.begin(), index))
            .distance_map(boost::make_iterator_property_map(cost.begin(), index))
            .weight_map(boost::make_assoc_property_map(weights_))
            .distance_compare(std::less<Cost>())
            .distance_combine([](const Cost& a, const Cost& b) {
              return Cost{a.hops + b.hops, a.slowness + b.slowness};
            })
            .distance_inf(Cost{std::numeric_limits<int>::max() / 2, 0})
            .distance_zero(Cost{}));
    return before;
  }

  const Graph& graph_;
  const std::string& machine_;
  std::map<Graph::edge_descriptor, Cost> weights_;
  std::map<std::pair<VertexId, bool>, std::vector<VertexId>> before_;
};

/// The rail at the fewest links from a GPU; of several as near, GPUs take turns.
int nearest_rail(ShortestWays& ways, VertexId gpu, const std::vector<VertexId>& rails, int turn) {
  std::map<std::size_t, std::vector<int>> by_distance;
  for (std::size_t r = 0; r < rails.size(); ++r)
    by_distance[ways.between(gpu, rails[r]).links.size()].push_back(static_cast<int>(r));
  const auto& near = by_distance.begin()->second;
  return near[static_cast<std::size_t>(turn) % near.size()];
}

}  // namespace

void NodeGraph::find_routes() {
  ShortestWays ways(graph_, machine_.name);
  const auto chain = [](Path a, const Path& b) {
    a.links.insert(a.links.end(), b.links.begin(), b.links.end());
    a.latency += b.latency;
    a.bottleneck = std::min(a.bottleneck, b.bottleneck);
    return a;
  };
  for (int g = 0; g < machine_.gpus(); ++g) {
    int& rail = gpu_rail_[static_cast<std::size_t>(g)];
    gpu_at_rail_.push_back(rail >= 0);
    if (rail < 0) rail = nearest_rail(ways, gpu_[static_cast<std::size_t>(g)], rail_, g);
  }
  // A GPU without NICs of its own hands its data over NVSwitch to one at whose PCIe switch they are
  // (PXN, since NCCL 2.12: graph/paths.cc).
  const auto rail_way = [&](int gpu, int rail, Direction direction) {
    const auto hop = [&](VertexId near, VertexId far) {
      return direction == Direction::outward ? ways.between(near, far) : ways.between(far, near);
    };
    const VertexId own = gpu_[static_cast<std::size_t>(gpu)],
                   nics = rail_[static_cast<std::size_t>(rail)];
    const int relay = relay_of(gpu, rail);
    if (relay == gpu) return hop(own, nics);
    const VertexId by = gpu_[static_cast<std::size_t>(relay)];
    return direction == Direction::outward ? chain(hop(own, by), hop(by, nics))
                                           : chain(hop(by, nics), hop(own, by));
  };
  const std::size_t n = devices();
  const auto device = [&](std::size_t i) {
    const int gpus = machine_.gpus();
    return static_cast<int>(i) < gpus ? Device{false, static_cast<int>(i)}
                                      : Device{true, static_cast<int>(i) - gpus};
  };
  inside_.resize(n * n);
  for (std::size_t a = 0; a < n; ++a) {
    const Device d = device(a);
    for (std::size_t b = 0; b < n; ++b)
      inside_[a * n + b] = vertex(d) == vertex(device(b))
                               ? Path{{}, Seconds{0}, kIdeal}
                               : ways.between(vertex(d), vertex(device(b)));
    const auto rail = static_cast<std::size_t>(d.server ? d.index : rail_of(d.index));
    const bool bounce = !d.server && !machine_.nic.gpudirect && machine_.host.has_value();
    const VertexId stop =
        bounce ? memory_[static_cast<std::size_t>(gpu_socket_[static_cast<std::size_t>(d.index)])]
               : vertex(d);
    const bool direct = !d.server && !bounce;
    const auto at = static_cast<int>(rail);
    const Path out =
        chain(direct ? rail_way(d.index, at, Direction::outward) : ways.between(stop, rail_[rail]),
              ways.between(rail_[rail], fabric_));
    const Path in =
        chain(ways.between(fabric_, rail_[rail]),
              direct ? rail_way(d.index, at, Direction::inward) : ways.between(rail_[rail], stop));
    outward_.push_back(bounce ? chain(ways.between(vertex(d), stop), out) : out);
    inward_.push_back(bounce ? chain(in, ways.between(stop, vertex(d))) : in);
  }
}

int NodeGraph::relay_of(int gpu, int rail) const {
  if (gpu_at_rail_[static_cast<std::size_t>(gpu)] || !switched()) return gpu;
  for (int g = 0; g < machine_.gpus(); ++g)
    if (gpu_at_rail_[static_cast<std::size_t>(g)] && rail_of(g) == rail) return g;
  return gpu;
}

const Path& NodeGraph::inside(Device from, Device to) const {
  return inside_[slot(from) * devices() + slot(to)];
}

std::vector<bool> NodeGraph::binding(Devices who) const {
  std::vector<const Path*> routes;
  const std::size_t n =
      who == Devices::both ? devices() : static_cast<std::size_t>(machine_.gpus());
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b)
      if (a != b) routes.push_back(&inside_[a * devices() + b]);
    routes.push_back(&outward_[a]);
    routes.push_back(&inward_[a]);
  }
  std::vector<std::vector<std::size_t>> crossing(links_.size());  // routes over each link
  for (std::size_t r = 0; r < routes.size(); ++r)
    for (const std::size_t id : routes[r]->links) crossing[id].push_back(r);

  std::vector<bool> keep(links_.size());
  std::vector<std::size_t> order;
  for (std::size_t id = 0; id < links_.size(); ++id)
    if (!crossing[id].empty()) {
      keep[id] = true;
      order.push_back(id);
    }
  // The widest first: they are the likeliest to be implied. Each removal leaves the set of possible
  // rates as it was.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return links_[a].bandwidth > links_[b].bandwidth;
  });
  for (const std::size_t id : order) {
    std::set<std::size_t> open(crossing[id].begin(), crossing[id].end());
    double width = 0;
    while (!open.empty() && width <= links_[id].bandwidth.value) {
      std::map<std::size_t, int> covered;  // routes that are open, by the other links they cross
      for (const std::size_t r : open)
        for (const std::size_t other : routes[r]->links) ++covered[other];
      std::size_t best = id;
      double best_price = 0;  // capacity per route covered
      for (const std::size_t r : open)
        for (const std::size_t other : routes[r]->links) {
          if (other == id || !keep[other]) continue;
          const double price = links_[other].bandwidth.value / covered.at(other);
          if (best == id || price < best_price) {
            best = other;
            best_price = price;
          }
        }
      if (best == id) break;
      width += links_[best].bandwidth.value;
      for (const std::size_t r : crossing[best]) open.erase(r);
    }
    if (open.empty() && width <= links_[id].bandwidth.value) keep[id] = false;
  }
  return keep;
}

BytesPerSecond NodeGraph::useful_width(EdgeId edge, VertexId other, Range range) const {
  const BytesPerSecond width = graph_[edge].bandwidth;
  const auto rail = std::find(rail_.begin(), rail_.end(), other);
  if (width < kIdeal || rail == rail_.end()) return width;
  return range == Range::machine ? BytesPerSecond{0}
                                 : rail_bandwidth(static_cast<int>(rail - rail_.begin()));
}
BytesPerSecond NodeGraph::capacity_out(Device d, Range range) const {
  BytesPerSecond sum;
  for (const auto& e : boost::make_iterator_range(boost::out_edges(vertex(d), graph_)))
    sum += useful_width(e, boost::target(e, graph_), range);
  return sum;
}
BytesPerSecond NodeGraph::capacity_in(Device d, Range range) const {
  BytesPerSecond sum;
  for (const auto& e : boost::make_iterator_range(boost::in_edges(vertex(d), graph_)))
    sum += useful_width(e, boost::source(e, graph_), range);
  return sum;
}

BytesPerSecond NodeGraph::max_flow(Direction direction, Devices devices) const {
  const bool outwards = direction == Direction::outward, gpus = devices != Devices::servers,
             servers = devices != Devices::gpus;
  // An ideal link gets more than all real ones together.
  const std::size_t n = boost::num_vertices(graph_);
  double total = 1;
  for (const Link& l : links_)
    if (l.bandwidth < kIdeal) total += l.bandwidth.value;
  MaxFlow flow(n + 1);
  for (const auto& e : boost::make_iterator_range(boost::edges(graph_))) {
    const double width = std::min(graph_[e].bandwidth.value, total);
    std::size_t a = boost::source(e, graph_), b = boost::target(e, graph_);
    if (!outwards) std::swap(a, b);
    flow.connect(a, b, width);
  }
  if (gpus)
    for (const VertexId v : gpu_) flow.connect(n, v, total);
  if (servers)
    for (const VertexId v : memory_) flow.connect(n, v, total);
  const double most = flow.between(n, fabric_);
  return most >= total ? kIdeal : BytesPerSecond{most};
}

std::vector<std::size_t> NodeGraph::rotated(int rails) const {
  const int gpus = machine_.gpus(), all = this->rails();
  if (all == 0 || gpus % all != 0) return {};
  const auto there = [&](int gpu) { return (gpu + gpus / all * rails) % gpus; };
  constexpr std::size_t kNone = SIZE_MAX;
  std::vector<std::size_t> image(links_.size(), kNone), origin = image;
  const auto same = [&](const Path& here, const Path& rotated) {
    if (here.links.size() != rotated.links.size() || here.latency != rotated.latency) return false;
    for (std::size_t i = 0; i < here.links.size(); ++i) {
      const std::size_t from = here.links[i], to = rotated.links[i];
      if (image[from] == kNone && origin[to] == kNone) {
        image[from] = to;
        origin[to] = from;
      }
      if (image[from] != to || links_[from].bandwidth != links_[to].bandwidth) return false;
    }
    return true;
  };
  std::vector<std::vector<std::size_t>> ways;
  for (int a = 0; a < gpus; ++a) {
    const Device here{false, a}, rotated{false, there(a)};
    if (rail_of(there(a)) != (rail_of(a) + rails) % all ||
        rail_bandwidth(rail_of(a)) != rail_bandwidth(rail_of(there(a))))
      return {};
    if (!same(outward(here), outward(rotated)) || !same(inward(here), inward(rotated))) return {};
    for (int b = 0; b < gpus; ++b) {
      if (a == b) continue;
      if (!same(inside(here, {false, b}), inside(rotated, {false, there(b)}))) return {};
      ways.push_back(inside(here, {false, b}).links);
      ways.push_back(outward(here).links);
      const auto& in = inward({false, b}).links;
      ways.back().insert(ways.back().end(), in.begin(), in.end());
    }
  }
  for (std::size_t id = 0; id < image.size(); ++id)
    if (image[id] == kNone) image[id] = id;  // on no route
  for (std::vector<std::size_t>& way : ways) {
    for (std::size_t& id : way) {  // the lowest of those whose places it takes in turn
      const std::size_t first = id;
      for (std::size_t at = image[first]; at != first; at = image[at]) id = std::min(id, at);
    }
    std::sort(way.begin(), way.end());
    if (std::adjacent_find(way.begin(), way.end()) != way.end()) return {};
  }
  return image;
}

// ------------------------------------------------------------------ rings and chains

}  // namespace foreduce
