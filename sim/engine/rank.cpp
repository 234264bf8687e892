#include "sim/engine/rank.hpp"

#include <fmt/format.h>

#include "sim/engine/network.hpp"

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
  const Reduced reduced = network_.reduce(*this, p.tag, network_.bytes_of(p.buffer), arrival);
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

}  // namespace foreduce
