#include "sim/rank.hpp"

#include <fmt/format.h>

#include "sim/network.hpp"

namespace foreduce {

double SimRank::do_now() const { return network_.now(); }

void SimRank::wake() {
  if (!asleep_ || !satisfied()) return;
  asleep_ = false;
  network_.resume(*actor_);
}

void SimRank::send_ready(Event send) { network_.offer_send(*this, send); }
void SimRank::recv_posted(Event recv) { network_.offer_recv(*this, recv); }

/// The elements are free: put the bytes there, now or when the device has reduced them.
void SimRank::settle(Event recv, const std::byte* bytes, const Arrival& arrival) {
  const Pending& p = at(recv);
  put(recv, bytes);
  if (p.verb == Verb::recv || in_switch_of(p.tag) == InSwitch::reduce) return happen(recv);
  const double end = network_.reduce_end(*this, p.tag, network_.bytes_of(p.buffer), arrival);
  if (end <= network_.now()) return happen(recv);
  network_.reduce_until(end, {this, recv});
}

void SimRank::arrive(Event recv, const Message& message) {
  Pending& p = at(recv);
  if (message.count != p.buffer.count)
    throw TransportError(
        fmt::format("rank {}: {} elements arrive from rank {} where {} are expected ({})", rank(),
                    message.count, p.peer, p.buffer.count, describe_tag(p.tag)));
  const Arrival arrival{message.first_byte,
                        message.between_nodes ? network_.now() : message.first_byte};
  if (p.blockers == 0) return settle(recv, message.bytes.data(), arrival);
  p.arrived = true;
  early_.emplace(recv.id, std::pair(arrival, message.bytes));
}

void SimRank::may_write(Event recv) {
  const auto node = early_.extract(recv.id);
  settle(recv, node.mapped().second.data(), node.mapped().first);
}

/// A fluid queue: a device reduces at its rate what arrives, in order of arrival; all but the last
/// segment of a message can be reduced while the rest is on its way. A channel's threads do so at
/// the channel's rate, one sender after the other: where a tree's node has two children, its
/// channel takes twice as long.
double NetworkModel::reduce_end(const SimRank& rank, std::uint64_t tag, double bytes,
                                const Arrival& arrival) {
  ReduceUnit& unit = reduce_units_[reduce_unit_of_[static_cast<std::size_t>(rank.slot())]];
  const double now = this->now();
  const double segment = std::min(bytes, options_.reduce_segment.value);
  const double earliest = bytes > segment ? arrival.first_byte : now;
  unit.busy_until = std::max(unit.busy_until, earliest) + bytes / unit.rate;
  double end = std::max(now + segment / unit.rate, unit.busy_until);
  if (channel_rate_ < kNever) {
    double& busy = channel_busy_until_[static_cast<std::size_t>(rank.slot()) << 16 |
                                       static_cast<std::size_t>(connection_of(tag))];
    busy = std::max(busy, arrival.readable) + bytes / channel_rate_;
    end = std::max(end, busy);
  }
  return end;
}

}  // namespace foreduce
