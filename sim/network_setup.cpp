// How a network begins: its ranks, its links, and the devices that reduce.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/network.hpp"

namespace foreduce {

namespace s4u = simgrid::s4u;

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

void NetworkModel::set_groups() {
  const int each = std::max(1, layout_.per_node());
  for (std::size_t i = 0; i < node_groups_.size(); ++i) {
    const RankGroups& groups = options_.groups[i];
    const int stride = groups.whole() ? 1 : groups.stride, there = std::max(1, each / stride);
    NodeGroup& group = node_groups_[i];
    group = {stride, groups.whole() ? there : std::min(groups.size, there)};
    // A GPU's link carries a chunk's message for each other GPU of its node, and the chunk is held
    // up once.
    group.sync = costs_.in_switch_sync / std::max(1, group.members - 1);
  }
}

void NetworkModel::build_ranks() {
  std::vector<int> simulated;
  for (int r = 0; r < layout_.size(); ++r)
    if (symmetry_.simulates(r)) simulated.push_back(r);
  // A record says when a verb was posted.
  const bool at_once =
      options_.most_open == kAllOpen || options_.record_timeline || log_ || !keeps_time();
  const std::size_t most_open = at_once ? kAllOpen : options_.most_open / simulated.size();
  for (const int r : simulated) {
    const int slot = static_cast<int>(ranks_.size());
    ranks_.push_back(std::make_unique<SimRank>(*this, r, slot, most_open, memory_));
    if (options_.record_timeline) ranks_.back()->record_timeline();
    const auto rail = static_cast<std::uint64_t>(layout_.at(r).rail);
    first_channel_.push_back(channel_order_ == ChannelOrder::from_own_rail ? rail % channels_ : 0);
    if (slot != symmetry_.slot(r))
      throw std::logic_error(
          fmt::format("rank {} has slot {}, not {}", r, symmetry_.slot(r), slot));
  }
  handlers_.resize(4 * ranks_.size());
}

void NetworkModel::build_links() {
  links_.resize(symmetry_.links());
  bytes_on_.resize(symmetry_.links());
  // What binds was found with the links' full width.
  const Profile* profile = options_.sending.profile.get();
  const bool skip = options_.skip_implied_links && (!profile || profile->ideal());
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
  std::vector<double> widths;
  for (const LinkState& link : links_) widths.push_back(link.width);
  sharing_ = FairSharing(widths);
}

void NetworkModel::build_simgrid_links() {
  for (std::size_t id = 0; id < links_.size(); ++id)
    if (links_[id].binds)
      links_[id].shared = engine_.add_link(fmt::format("l{}", id), links_[id].width * kGrain);
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
      beside.push_back(links_[id].shared
                           ? engine_.add_flow_limit(fmt::format("limit{}-{}", limits_.size(), id),
                                                    limit * kGrain)
                           : nullptr);
  }
  engine_.seal();
  s4u::Activity::on_completion_cb([this](const s4u::Activity& activity) {
    if (auto* message = activity.get_data<Message>()) sent(message);
  });
}

/// One unit that reduces a GPU; the servers of a socket share its cores and memory.
void NetworkModel::build_reduce_queues() {
  const Profile* profile = options_.sending.profile.get();
  std::map<std::pair<int, int>, std::size_t> sockets;
  for (const auto& rank : ranks_) {
    const Place place = place_of(layout_, rank->rank());
    const NodeGraph& node = cluster_.node(place.node);
    if (!place.device.server) {
      const auto own = node.machine().gpu->reduce_bandwidth;
      reduce_queues_.add_rank(reduce_queues_.add_device(
          (profile ? value_or(profile->reduce_bandwidth, own) : own).value));
      continue;
    }
    const auto [at, fresh] =
        sockets.try_emplace({place.node, node.socket_of_rail(place.device.index)}, std::size_t{0});
    if (fresh) at->second = reduce_queues_.add_device(node.machine().host->reduce_bandwidth.value);
    reduce_queues_.add_rank(at->second);
  }
}

void NetworkModel::report_deadlock() {
  if (!failure_.empty())
    throw TransportError(failure_);  // a rank failed, and the others wait for it
  failure_ = "deadlock: no rank can go on\n";
  int shown = 0;
  for (const auto& rank : ranks_)
    if (!rank->all_done() && shown++ < 16) failure_ += rank->describe_pending(4);
  if (shown > 16) failure_ += fmt::format("  … and {} ranks more\n", shown - 16);
  throw TransportError(failure_);
}

}  // namespace foreduce
