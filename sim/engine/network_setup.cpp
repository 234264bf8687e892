// How a network begins: its ranks, and the devices that reduce.
#include <fmt/format.h>

#include <map>

#include "sim/engine/network.hpp"

namespace foreduce {

namespace s4u = simgrid::s4u;

void NetworkModel::build_ranks() {
  std::vector<int> simulated;
  for (int r = 0; r < layout_.size(); ++r)
    if (symmetry_.simulates(r)) simulated.push_back(r);
  // A record says when a verb was posted.
  const bool at_once =
      options_.most_open == kAllOpen || options_.record_timeline || log_ || !clock_.keeps_time();
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

void NetworkModel::let_simgrid_share() {
  links_.build_in(engine_);
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
