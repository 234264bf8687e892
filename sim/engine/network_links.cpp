#include "sim/engine/network_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "models/rank_layout.hpp"

namespace foreduce {

PathClass path_class_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::network:
    case LinkKind::uplink: return PathClass::network;
    case LinkKind::nvlink: return PathClass::nvlink;
    case LinkKind::pcie:
    case LinkKind::interconnect: return PathClass::pcie;
    case LinkKind::memory: break;
  }
  return PathClass::host_memory;
}

NetworkLinks::NetworkLinks(const Cluster& cluster, const Layout& layout,
                           const SymmetryReduction& symmetry, const MessageCosts& costs,
                           const SimOptions& options, std::pmr::memory_resource& memory)
    : cluster_(cluster), layout_(layout), symmetry_(symmetry), costs_(costs), memory_(memory) {
  const int each = std::max(1, layout.per_node());
  for (std::size_t i = 0; i < node_groups_.size(); ++i) {
    const RankGroups& groups = options.groups[i];
    const int stride = groups.whole() ? 1 : groups.stride, there = std::max(1, each / stride);
    NodeGroup& group = node_groups_[i];
    group = {stride, groups.whole() ? there : std::min(groups.size, there)};
    // A GPU's link carries a chunk's message for each other GPU of its node, and the chunk is held
    // up once.
    group.sync = costs.in_switch_sync / std::max(1, group.members - 1);
  }
  build(options);
}

void NetworkLinks::build(const SimOptions& options) {
  links_.resize(symmetry_.links());
  bytes_on_.resize(symmetry_.links());
  // What binds was found with the links' full width.
  const Profile* profile = options.sending.profile.get();
  const bool skip = options.skip_implied_links && (!profile || profile->ideal());
  const auto efficiency = [&](std::size_t id) {
    return profile ? value_or(profile->of(path_class_of(cluster_.link_kind(id))).efficiency, 1.0)
                   : 1.0;
  };
  const std::vector<bool> binding =
      skip ? cluster_.binding_links() : std::vector<bool>(cluster_.link_count(), true);
  for (std::size_t id = 0; id < links_.size(); ++id) {
    LinkState& link = links_[symmetry_.link(id)];
    const double alone = cluster_.link_bandwidth(id).value * efficiency(id),
                 width = alone / symmetry_.flows(id);
    link.path_class = path_class_of(cluster_.link_kind(id));
    if (link.binds || !std::isfinite(width)) continue;
    link.width = width;
    link.alone = alone;
    link.binds = binding[id];
  }
}

std::vector<double> NetworkLinks::widths() const {
  std::vector<double> widths;
  for (const LinkState& link : links_) widths.push_back(link.width);
  return widths;
}

void NetworkLinks::build_in(Engine& engine) {
  for (std::size_t id = 0; id < links_.size(); ++id)
    if (links_[id].binds)
      links_[id].shared = engine.add_link(fmt::format("l{}", id), links_[id].width * kGrain);
  // What one flow may have at most is a link that none of those that cross it shares: SimGrid 3.32
  // forgets set_rate() of a communication between hosts. One beside each link where a flow may
  // begin, so that flows that share nothing else need not be solved together.
  std::set<double> limits{costs_.rate_limit, costs_.net_rate_limit, costs_.switch_rate_limit};
  for (int n = 0; n < cluster_.nodes(); ++n)
    if (const double l = cluster_.flow_limit(n).value; l > 0)
      for (const double limit :
           {costs_.rate_limit, costs_.net_rate_limit, costs_.switch_rate_limit})
        limits.insert(std::min(l, limit));
  for (const double limit : limits) {
    if (limit == kNever) continue;
    auto& beside = limits_[limit];
    for (std::size_t id = 0; id < links_.size(); ++id)
      beside.push_back(
          links_[id].shared
              ? engine.add_flow_limit(fmt::format("limit{}-{}", limits_.size(), id), limit * kGrain)
              : nullptr);
  }
  engine.seal();
}

void NetworkLinks::add_simgrid_links(const ConnectionRoute& route,
                                     simgrid::kernel::routing::Route& into) const {
  for (const std::size_t id : route.binding)
    into.link_list_.push_back(links_[id].shared->get_impl());
  if (route.rate_limit < kNever)
    into.link_list_.push_back(limits_.at(route.rate_limit)[route.binding.front()]->get_impl());
}

ConnectionRoute& NetworkLinks::add_route(int from, int to, std::uint64_t tag) {
  Place target = place_of(layout_, to);
  if (symmetry_.one_node())
    target.node = std::min(
        target.node, 1);  // any other node: they are all alike, and its links are node 0's own
  cluster_.route(place_of(layout_, from), target, scratch_);
  std::vector<std::size_t>& links = scratch_.links;
  ConnectionRoute& route = routes_.emplace_back(memory_);
  double inside_limit = costs_.rate_limit;
  if (const InSwitch in_switch = in_switch_of(tag);
      in_switch != InSwitch::no && links.size() == 2) {
    // The sum, or the one that is copied, is accounted to the message between neighbours; the
    // others use one link only.
    const NodeGroup& group = node_groups_[group_of(tag) >= kSecondCollective];
    const int here = group.place(layout_.at(from).local), there = group.place(layout_.at(to).local);
    route.in_switch = true;
    route.switch_wire = group.sync * links_[links.front()].width;
    if ((here + 1) % group.members != there)
      links.erase(links.begin() + (in_switch == InSwitch::reduce));
    inside_limit = costs_.switch_rate_limit;
  }
  for (std::size_t& id : links) {
    id = symmetry_.link(id);
    route.path_class = std::min(route.path_class, links_[id].path_class);
  }
  route.rate_limit =
      std::min(scratch_.rate_limit.value > 0 ? scratch_.rate_limit.value : kNever,
               route.path_class == PathClass::network ? costs_.net_rate_limit : inside_limit);
  const MessageCosts::Cost& cost = costs_.of(route.path_class);
  route.latency =
      cost.latency >= 0 ? cost.latency + scratch_.spine_latency.value : scratch_.latency.value;
  if (const double overhead = scratch_.overhead.value; !cost.replaces && overhead > 0) {
    double rate = route.rate_limit;
    for (const std::size_t id : links) rate = std::min(rate, links_[id].alone);
    if (rate < kNever) route.more_wire = overhead * rate;
    else if (cost.latency < 0) route.more_latency = overhead;
  }
  const auto binds = [this](std::size_t id) { return links_[id].binds; };
  const std::size_t all = links.size();
  const bool all_bind = std::ranges::all_of(links, binds);
  route.crossed.assign(links.begin(), links.end());
  if (!all_bind) std::ranges::copy_if(links, std::back_inserter(route.crossed), binds);
  route.links = std::span(route.crossed).first(all);
  route.binding = all_bind ? route.links : std::span(route.crossed).subspan(all);
  route.alone = route.rate_limit;
  for (const std::size_t id : route.binding) route.alone = std::min(route.alone, links_[id].alone);
  return route;
}

}  // namespace foreduce
