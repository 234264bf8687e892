#include "sim/message_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace foreduce {
namespace {

/// From so many bytes of our message on, those of a library reach `from`. Where data does not
/// divide, ours are some elements too short.
double threshold(const std::optional<Estimated<Bytes>>& from, const Sending& sending) {
  constexpr double kShort = 0.999;
  return value_or(from, Bytes{}).value * sending.messages_each * kShort;
}

/// A node of more GPUs is a rack of hosts, whose switch what was measured of one says nothing of.
constexpr int kGpusOfAHost = 16;

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

MessageCosts::MessageCosts(const Sending& sending, const Layout& layout) {
  const Profile& profile = *sending.profile;
  const Protocol* protocol =
      sending.protocol.empty() ? nullptr : profile.protocol(sending.protocol);
  if (!sending.protocol.empty() && !protocol)
    throw input_error(
        fmt::format("profile {} has no protocol '{}'", profile.name, sending.protocol));
  set_classes(sending, protocol, layout);
  const bool one_host = layout.nodes == 1 && layout.workers <= kGpusOfAHost;
  const auto& reaches =
      one_host && profile.in_switch_one_node ? profile.in_switch_one_node : profile.in_switch;
  if (reaches)
    in_switch = value_or(profile.of(PathClass::nvlink).efficiency, 1.0) /
                (reaches->value * sending.switch_share);
  const auto& sync = one_host && profile.in_switch_sync_one_node ? profile.in_switch_sync_one_node
                                                                 : profile.in_switch_sync;
  in_switch_sync = value_or(sync, Seconds{}).value;
  if (protocol) set_rates(sending, *protocol);
}

void MessageCosts::set_classes(const Sending& sending, const Protocol* protocol,
                               const Layout& layout) {
  const Profile& profile = *sending.profile;
  // What enters a node, what leaves it, either tree of a double tree, and each of the library's
  // channels that one message here stands for, do so at GPUs of their own, if there are enough;
  // else those there are share it all. Flags are checked of what leaves only.
  const double channels = std::max({1.0, sending.channels_each, sending.messages_each}),
               ways_out = sending.separate_halves ? 2 : 1, gpus = smallest_node(layout);
  const auto& checked = protocol ? protocol->proxy_rate : std::nullopt;
  const bool copied = profile.of(PathClass::network).proxy_rate.has_value();
  const double ways = copied ? 2 * ways_out : ways_out;
  separate_proxies = (copied || checked) && gpus >= ways;
  const double proxies = separate_proxies ? std::min(channels, std::floor(gpus / ways)) : gpus;
  for (std::size_t k = 0; k < kPathClasses; ++k) {
    const LinkClass& links = profile.links[k];
    Cost& cost = of_class[k];
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
      cost.hop_from = threshold(protocol->net_hop_from, sending);
      cost.gap = value_or(protocol->gap, Seconds{}).value;
      cost.gap_whole_from =
          value_or(protocol->gap_whole_from, Bytes{}).value * sending.messages_each;
      cost.gap_from = threshold(protocol->gap_from, sending);
    } else if (protocol && layout.nodes == 1) {
      cost.gap = value_or(protocol->gap_one_node, Seconds{}).value;
    }
    if (protocol) {
      const auto& inside = sending.ring && protocol->ring_hop ? protocol->ring_hop : protocol->hop;
      cost.hop = value_or(network ? protocol->net_hop : inside, Seconds{}).value;
      if (network && sending.ring && profile.fabric == Fabric::rdma && protocol->rdma_ring_hop) {
        // It was told by nodes of eight GPUs; rings of ten nodes with two GPUs each have less of
        // it.
        constexpr double kTold = 8;
        cost.hop += (protocol->rdma_ring_hop->value.value - cost.hop) * std::min(1.0, gpus / kTold);
        cost.hop_whole_from =
            protocol->rdma_ring_hop_whole_from->value.value * sending.messages_each;
      }
    }
  }
}

void MessageCosts::set_rates(const Sending& sending, const Protocol& protocol) {
  per_payload = 1 / value_or(protocol.efficiency, 1.0);
  if (protocol.channel_rate) {
    channel_rate = protocol.channel_rate->value.value * sending.channels_each * sending.chain;
    rate_limit = channel_rate * per_payload;
    // Fewer channels make a chunk longer on the wire; they shall not slow that wire as well.
    switch_rate_limit = rate_limit / sending.switch_share;
  }
  net_channel_rate = channel_rate;
  if (protocol.net_channel_rate)
    net_channel_rate =
        std::min(channel_rate, protocol.net_channel_rate->value.value * sending.channels_each);
  net_rate_limit = net_channel_rate * per_payload;
  if (sending.slots > 0) slots = sending.slots;
}

}  // namespace foreduce
