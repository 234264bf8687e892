#include "topologies/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace foreduce {
namespace {

/// `serving`: whether one of them has dedicated servers.
void check_efa(const Machine& a, const Machine& b, bool serving) {
  for (const auto& [x, y] : {std::pair(&a, &b), std::pair(&b, &a)})
    if (a.type() != b.type() && x->nic.efa > 0 && !x->nic.efa_peers.empty() &&
        std::find(x->nic.efa_peers.begin(), x->nic.efa_peers.end(), y->type()) ==
            x->nic.efa_peers.end())
      throw input_error(fmt::format("{} cannot talk EFA to {}: EFA traffic between it and other "
                                    "instance types is not supported",
                                    x->name, y->name),
                        fmt::format("it can talk to {}{}", fmt::join(x->nic.efa_peers, ", "),
                                    serving ? "; or use co-located servers" : ""));
  if ((a.nic.efa > 0) != (b.nic.efa > 0))
    throw input_error(fmt::format("{} and {} cannot be mixed: one has EFA, and the other has not",
                                  a.name, b.name));
}

}  // namespace

Cluster::Cluster(std::vector<std::shared_ptr<const Machine>> nodes, const FabricSpec& fabric,
                 const ServerSpec& servers)
    : workers_(static_cast<int>(nodes.size())), fabric_(fabric), servers_(servers) {
  if (nodes.empty()) throw input_error("a cluster needs at least one node");
  for (const auto& m : nodes)
    if (m->cpu_only())
      throw input_error(fmt::format("{} has no GPU: it can serve, not train", m->name));
  if (servers.dedicated)
    nodes.insert(nodes.end(), static_cast<std::size_t>(servers.dedicated_count), servers.dedicated);
  std::vector<const Machine*> seen;
  for (const auto& m : nodes) {
    auto at = static_cast<std::size_t>(std::find(seen.begin(), seen.end(), m.get()) - seen.begin());
    if (at == seen.size()) {
      for (const Machine* other : seen) check_efa(*other, *m, servers.dedicated != nullptr);
      seen.push_back(m.get());
      kinds_.push_back(std::make_shared<NodeGraph>(*m));
    }
    kind_of_.push_back(at);
    first_link_.push_back(first_uplink_);
    first_uplink_ += kinds_[at]->link_count();
  }
  const auto strength = [this](std::size_t kind) {
    const Machine& m = kinds_[kind]->machine();
    return std::tuple(m.nic.bandwidth * m.nic.count,
                      m.nvlink ? m.nvlink->bandwidth * m.nvlink->links : BytesPerSecond{0}, m.name);
  };
  for (int n = 0; n < workers_; ++n)
    if (const std::size_t kind = kind_of_[static_cast<std::size_t>(n)];
        strength(kind) < strength(weakest_))
      weakest_ = kind;
  if (servers.co_located)
    for (int i = 0; i < workers_; ++i)
      if (!node(i).machine().host)
        throw input_error(
            fmt::format("{} has no host section: no server can run there", node(i).machine().name));
  if (servers.dedicated && !servers.dedicated->host)
    throw input_error(
        fmt::format("{} has no host section: no server can run there", servers.dedicated->name));
  const int per_leaf = fabric.nodes_per_leaf;
  if (per_leaf > 0 && this->nodes() > per_leaf) leaves_ = (this->nodes() + per_leaf - 1) / per_leaf;
}

int Cluster::gpus() const {
  int sum = 0;
  for (int i = 0; i < workers_; ++i) sum += node(i).machine().gpus();
  return sum;
}

bool Cluster::priced() const {
  return std::all_of(kinds_.begin(), kinds_.end(),
                     [](const auto& k) { return k->machine().price.has_value(); });
}

DollarsPerHour Cluster::price() const {
  DollarsPerHour sum;
  if (priced())
    for (int i = 0; i < nodes(); ++i) sum += node(i).machine().price->on_demand;
  return sum;
}

int Cluster::leaf_of(int n) const {
  if (leaves_ == 0) return 0;
  return fabric_.placement == Placement::spread ? n % leaves_ : n / fabric_.nodes_per_leaf;
}

BytesPerSecond Cluster::uplink_bandwidth(int leaf) const {
  // What the leaf's ports could send, full or not: a half-empty leaf has the same uplinks.
  BytesPerSecond below;
  int count = 0;
  for (int n = 0; n < nodes(); ++n)
    if (leaf_of(n) == leaf) {
      ++count;
      for (int r = 0; r < node(n).rails(); ++r) below += node(n).rail_bandwidth(r);
    }
  return below * (static_cast<double>(fabric_.nodes_per_leaf) / count) / fabric_.oversubscription;
}

std::string Cluster::link_class(std::size_t id) const {
  if (id >= first_uplink_) return (id - first_uplink_) % 2 == 0 ? "leaf>spine" : "spine>leaf";
  const auto n =
      static_cast<std::size_t>(std::upper_bound(first_link_.begin(), first_link_.end(), id) -
                               first_link_.begin()) -
      1;
  return kinds_[kind_of_[n]]->link_name(id - first_link_[n]);
}

std::string Cluster::text() const {
  std::string text;
  for (const auto& kind : kinds_) text += text_of(kind->machine()) + "|";
  for (const std::size_t kind : kind_of_) text += fmt::format("{},", kind);
  const FabricSpec& f = fabric_;
  text += fmt::format("|{} {} {:a} {:a} {} {}", workers_, f.nodes_per_leaf, f.oversubscription,
                      f.spine_latency.value, to_text(f.placement), f.placement_group);
  const ServerSpec& s = servers_;
  return text + fmt::format("|{} {} {}", s.co_located, s.dedicated_count,
                            s.dedicated ? text_of(*s.dedicated) : "");
}

std::string Cluster::link_name(std::size_t id) const {
  if (id >= first_uplink_) {
    const auto leaf = (id - first_uplink_) / 2;
    return (id - first_uplink_) % 2 == 0 ? fmt::format("leaf{}>spine", leaf)
                                         : fmt::format("spine>leaf{}", leaf);
  }
  const auto n =
      std::upper_bound(first_link_.begin(), first_link_.end(), id) - first_link_.begin() - 1;
  return fmt::format("node{}/{}", n, link_class(id));
}

BytesPerSecond Cluster::link_bandwidth(std::size_t id) const {
  if (id >= first_uplink_) return uplink_bandwidth(static_cast<int>((id - first_uplink_) / 2));
  const auto n =
      static_cast<std::size_t>(std::upper_bound(first_link_.begin(), first_link_.end(), id) -
                               first_link_.begin()) -
      1;
  return kinds_[kind_of_[n]]->link(id - first_link_[n]).bandwidth;
}

LinkKind Cluster::link_kind(std::size_t id) const {
  if (id >= first_uplink_) return LinkKind::uplink;
  const auto n =
      static_cast<std::size_t>(std::upper_bound(first_link_.begin(), first_link_.end(), id) -
                               first_link_.begin()) -
      1;
  return kinds_[kind_of_[n]]->link(id - first_link_[n]).kind;
}

std::vector<bool> Cluster::binding_links() const {
  std::vector<bool> serves(kinds_.size(), servers_.co_located);
  for (int n = workers_; n < nodes(); ++n) serves[kind_of_[static_cast<std::size_t>(n)]] = true;
  std::vector<std::vector<bool>> of_kind;
  for (std::size_t k = 0; k < kinds_.size(); ++k)
    of_kind.push_back(kinds_[k]->binding(serves[k] ? Devices::both : Devices::gpus));
  std::vector<bool> all;
  all.reserve(link_count());
  for (const std::size_t kind : kind_of_)
    all.insert(all.end(), of_kind[kind].begin(), of_kind[kind].end());
  all.resize(link_count(), true);
  return all;
}

void Cluster::route(Place from, Place to, Route& into) const {
  into.links.clear();
  into.rate_limit = BytesPerSecond{0};
  into.overhead = into.spine_latency = Seconds{0};
  const auto append = [&](int n, const Path& path) {
    const std::size_t first = first_link_[static_cast<std::size_t>(n)];
    for (const std::size_t id : path.links) into.links.push_back(first + id);
    into.latency += path.latency;
  };
  into.latency = Seconds{0};
  const NodeGraph& source = node(from.node);
  if (from.node == to.node) {
    append(from.node, source.inside(from.device, to.device));
    return;
  }
  append(from.node, source.outward(from.device));
  if (const int a = leaf_of(from.node), b = leaf_of(to.node); a != b) {
    into.links.push_back(uplink(a));
    into.links.push_back(uplink(b) + 1);
    into.latency += fabric_.spine_latency;
    into.spine_latency = fabric_.spine_latency;
  }
  append(to.node, node(to.node).inward(to.device));

  const Nic& a = source.machine().nic;
  const Nic& b = node(to.node).machine().nic;
  for (const BytesPerSecond l : {flow_limit(from.node), flow_limit(to.node)})
    if (l.value > 0 && (into.rate_limit.value == 0 || l < into.rate_limit)) into.rate_limit = l;
  into.overhead = std::max(a.message_overhead, b.message_overhead);
}

BytesPerSecond Cluster::flow_limit(int n) const {
  const Nic& nic = node(n).machine().nic;
  const bool lower = !fabric_.placement_group && nic.flow_limit_spread.value > 0;
  return nic.efa > 0 ? BytesPerSecond{0}
                     : (lower ? nic.flow_limit_spread : nic.flow_limit) * nic.flows;
}

}  // namespace foreduce
