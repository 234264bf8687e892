#include "sim/rank.hpp"

#include <fmt/format.h>

#include "sim/network.hpp"

namespace foreduce {

double SimRank::do_now() const { return network_.now(); }

bool SimRank::satisfied() const {
  if (network_.abandoned()) return true;
  switch (until_) {
    case Until::one_done: return done(waiting_for_);
    case Until::all_done: return all_done();
    case Until::fewer_open: break;
  }
  return open_verbs() <= most_open_ / 2 || unreceived_ > 0;
}

void SimRank::wake() {
  if (!asleep_ || !satisfied()) return;
  asleep_ = false;
  woken_by_ = network_.cause();
  network_.resume(*actor_);
}

void SimRank::send_ready(Event send) { network_.offer_send(*this, send); }
void SimRank::recv_posted(Event recv) { network_.offer_recv(*this, recv); }

/// The elements are free: put the bytes there, now or when the device has reduced them.
void SimRank::write_arrived(Event recv, const std::byte* bytes, const Arrival& arrival) {
  const Pending& p = at(recv);
  put(recv, bytes);
  if (p.verb == Verb::recv || in_switch_of(p.tag) == InSwitch::reduce) return happen(recv);
  const auto reduced = network_.reduce_end(*this, p.tag, network_.bytes_of(p.buffer), arrival);
  if (reduced.end <= network_.now()) return happen(recv);
  prefetch_dependents(recv);
  network_.reduce_until(reduced, *this, recv, p.tag);
}

void SimRank::wait_until(Until until) {
  until_ = until;
  if (satisfied()) return;
  sleep();
  behind_ = false;  // it would have slept until now in any case
}

Event SimRank::do_send(int to, std::uint64_t tag, Buffer data, Event after) {
  const Event event = LedgerBackend::do_send(to, tag, data, after);
  if (behind_ && at(event).blockers == 0) {
    network_.abandon();
    throw Abandoned{};
  }
  pause_if_many_open();
  return event;
}
Event SimRank::do_recv(int from, std::uint64_t tag, Buffer into) {
  const Event event = LedgerBackend::do_recv(from, tag, into);
  pause_if_many_open();
  return event;
}
Event SimRank::do_recv_reduce(int from, std::uint64_t tag, Buffer into, Op op) {
  const Event event = LedgerBackend::do_recv_reduce(from, tag, into, op);
  pause_if_many_open();
  return event;
}

/// A pause changes no time as long as every send that follows it waits for something that is still
/// to happen; what another rank sends meanwhile ends it. A send that could have left during the
/// pause ends the simulation, which is done again without pauses.
void SimRank::pause_if_many_open() {
  if (open_verbs() < most_open_) return;
  until_ = Until::fewer_open;
  if (satisfied()) return;
  drop_untouched_cells();
  const double since = network_.now();
  sleep();
  behind_ = behind_ || network_.now() > since;
}

void SimRank::post_all() {
  most_open_ = kAllOpen;
  wake();
}

void SimRank::sleep() {
  while (!satisfied()) {
    asleep_ = true;
    network_.rank_is_idle();
    simgrid::s4u::this_actor::suspend();
    network_.set_cause(woken_by_);
  }
  if (network_.abandoned()) throw Abandoned{};
}

void SimRank::arrive(Event recv, Message& message) {
  Pending& p = at(recv);
  if (message.count != p.buffer.count)
    throw TransportError(
        fmt::format("rank {}: {} elements arrive from rank {} where {} are expected ({})", rank(),
                    message.count, p.peer, p.buffer.count, describe_tag(p.tag)));
  const Arrival arrival{message.first_byte,
                        message.between_nodes() ? network_.now() : message.first_byte,
                        message.between_nodes(), message.connection, message.logged};
  if (p.blockers == 0) return write_arrived(recv, message.bytes.get(), arrival);
  p.arrived = true;
  early_.emplace(recv.id, std::pair(arrival, std::move(message.bytes)));
}

void SimRank::may_write(Event recv) {
  const auto node = early_.extract(recv.id);
  write_arrived(recv, node.mapped().second.get(), node.mapped().first);
}

/// A fluid queue: a device reduces at its rate what arrives, in order of arrival; all but the last
/// segment of a message can be reduced while the rest is on its way. A channel's threads do so at
/// the channel's rate, one sender after the other: where a tree's node has two children, its
/// channel takes twice as long.
NetworkModel::Reduced NetworkModel::reduce_end(const SimRank& rank, std::uint64_t tag, double bytes,
                                               const Arrival& arrival) {
  ReduceUnit& unit = reduce_units_[reduce_unit_of_[static_cast<std::size_t>(rank.slot())]];
  const double now = this->now();
  const double segment = std::min(bytes, options_.reduce_segment.value);
  const double earliest = bytes > segment ? arrival.first_byte : now;
  reduce_next(unit.queue, earliest, bytes / unit.rate, arrival.message);
  Reduced reduced{unit.queue.busy_until, unit.queue.log_event};
  if (const double last = now + segment / unit.rate; last > reduced.end) {
    reduced.end = last;
    if (log_)
      reduced.log_event = log_->add_event(last, cause(), PathStepKind::reduction, arrival.message);
  }
  const double channel_rate = arrival.between_nodes ? costs_.net_channel_rate : costs_.channel_rate;
  if (channel_rate < kNever) {
    ReduceQueue& channel = channel_queue(rank, tag, *arrival.connection);
    reduce_next(channel, arrival.readable, bytes / channel_rate, arrival.message);
    if (channel.busy_until > reduced.end) reduced = {channel.busy_until, channel.log_event};
  }
  return reduced;
}

NetworkModel::ReduceQueue& NetworkModel::channel_queue(const SimRank& rank, std::uint64_t tag,
                                                       Connection& connection) {
  if (connection.reduced == 0) {
    std::uint32_t& known = channel_queue_of_[static_cast<std::size_t>(rank.slot()) << 16 |
                                             static_cast<std::size_t>(connection_of(tag))];
    if (known == 0) {
      channel_queues_.emplace_back();
      known = static_cast<std::uint32_t>(channel_queues_.size());
    }
    connection.reduced = known;
  }
  return channel_queues_[connection.reduced - 1];
}

void NetworkModel::reduce_next(ReduceQueue& queue, double earliest, double takes,
                               MessageLog::Number message) {
  const double now = this->now(), before = queue.busy_until;
  queue.busy_until = std::max(before, earliest) + takes;
  if (log_ && queue.busy_until > now)  // whoever comes before it may still be reduced
    queue.log_event = log_->add_event(queue.busy_until, before > now ? queue.log_event : cause(),
                                      PathStepKind::reduction, message);
}

}  // namespace foreduce
