// How a network begins: its ranks, its links, the devices that reduce, and what the profile makes a
// message cost.
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
    node_groups_[i] = {stride, groups.whole() ? there : std::min(groups.size, there)};
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
  std::set<double> limits{rate_limit_, net_rate_limit_, switch_rate_limit_};
  for (int n = 0; n < cluster_.nodes(); ++n)
    if (const double l = cluster_.flow_limit(n).value; l > 0)
      for (const double limit : {rate_limit_, net_rate_limit_, switch_rate_limit_})
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
void NetworkModel::build_reduce_units() {
  const Profile* profile = options_.sending.profile.get();
  std::map<std::pair<int, int>, std::size_t> sockets;
  for (const auto& rank : ranks_) {
    const Place place = place_of(layout_, rank->rank());
    const NodeGraph& node = cluster_.node(place.node);
    if (!place.device.server) {
      reduce_unit_of_.push_back(reduce_units_.size());
      const auto own = node.machine().gpu->reduce_bandwidth;
      reduce_units_.push_back({(profile ? value_or(profile->reduce_bandwidth, own) : own).value});
      continue;
    }
    const auto [at, fresh] = sockets.try_emplace(
        {place.node, node.socket_of_rail(place.device.index)}, reduce_units_.size());
    if (fresh) reduce_units_.push_back({node.machine().host->reduce_bandwidth.value});
    reduce_unit_of_.push_back(at->second);
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

namespace {

/// Workers of the node that has fewest.
int smallest_node(const Layout& layout) {
  if (const int each = layout.per_node(); each > 0) return each;
  std::map<int, int> workers;
  for (int r = 0; r < layout.workers; ++r) ++workers[layout.at(r).node];
  return std::min_element(workers.begin(), workers.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->second;
}

}  // namespace

void NetworkModel::set_costs(const Sending& sending) {
  const Profile& profile = *sending.profile;
  const Protocol* protocol =
      sending.protocol.empty() ? nullptr : profile.protocol(sending.protocol);
  if (!sending.protocol.empty() && !protocol)
    throw input_error(
        fmt::format("profile {} has no protocol '{}'", profile.name, sending.protocol));
  // What enters a node, what leaves it, either tree of a double tree, and each of the library's
  // channels that one message here stands for, do so at GPUs of their own, if there are enough;
  // else those there are share it all. Flags are checked of what leaves only.
  const double channels = std::max({1.0, sending.channels_each, sending.messages_each}),
               ways_out = sending.separate_halves ? 2 : 1, gpus = smallest_node(layout_);
  const auto& checked = protocol ? protocol->proxy_rate : std::nullopt;
  const bool copied = profile.of(PathClass::network).proxy_rate.has_value();
  const double ways = copied ? 2 * ways_out : ways_out;
  separate_proxies_ = (copied || checked) && gpus >= ways;
  const double proxies = separate_proxies_ ? std::min(channels, std::floor(gpus / ways)) : gpus;
  for (std::size_t k = 0; k < kPathClasses; ++k) {
    const LinkClass& links = profile.links[k];
    Cost& cost = costs_[k];
    if (links.latency) cost.latency = links.latency->value.value;
    const bool network = k == static_cast<std::size_t>(PathClass::network);
    const bool to_many = sending.many_peers && links.peer_overhead;
    Seconds overhead = value_or(to_many ? links.peer_overhead : links.overhead, Seconds{});
    if (protocol && network) overhead += value_or(protocol->overhead, Seconds{});
    cost.overhead = overhead.value * sending.messages_each;
    cost.replaces = links.overhead || to_many;
    if (links.proxy_rate) cost.per_byte = 1 / (links.proxy_rate->value.value * proxies);
    if (protocol && network) {
      if (checked) cost.check_per_byte = 1 / (checked->value.value * proxies);
      cost.hop_whole_from =
          value_or(protocol->net_hop_whole_from, Bytes{}).value * sending.messages_each;
      cost.hop_from = value_or(protocol->net_hop_from, Bytes{}).value * sending.messages_each;
      cost.gap = value_or(protocol->gap, Seconds{}).value;
      cost.gap_whole_from =
          value_or(protocol->gap_whole_from, Bytes{}).value * sending.messages_each;
      cost.gap_from = value_or(protocol->gap_from, Bytes{}).value * sending.messages_each;
    }
    if (protocol) {
      const auto& inside = sending.ring && protocol->ring_hop ? protocol->ring_hop : protocol->hop;
      cost.hop = value_or(network ? protocol->net_hop : inside, Seconds{}).value;
    }
  }
  if (profile.in_switch)
    in_switch_cost_ = value_or(profile.of(PathClass::nvlink).efficiency, 1.0) /
                      (profile.in_switch->value * sending.switch_share);
  // A GPU's link carries a chunk's message for each other GPU of its node, and the chunk is held up
  // once.
  if (profile.in_switch_sync)
    for (NodeGroup& group : node_groups_)
      group.sync = profile.in_switch_sync->value.value / std::max(1, group.members - 1);
  if (!protocol) return;
  per_payload_ = 1 / value_or(protocol->efficiency, 1.0);
  if (protocol->channel_rate) {
    channel_rate_ = protocol->channel_rate->value.value * sending.channels_each * sending.chain;
    rate_limit_ = channel_rate_ * per_payload_;
    // Fewer channels make a chunk longer on the wire; they shall not slow that wire as well.
    switch_rate_limit_ = rate_limit_ / sending.switch_share;
  }
  net_channel_rate_ = channel_rate_;
  if (protocol->net_channel_rate)
    net_channel_rate_ =
        std::min(channel_rate_, protocol->net_channel_rate->value.value * sending.channels_each);
  net_rate_limit_ = net_channel_rate_ * per_payload_;
  if (sending.slots > 0)
    slots_ = sending.slots;  // each of the channels that a message stands for has its own
}

}  // namespace foreduce
