#include "sim/engine/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/child_process.hpp"

namespace foreduce {

namespace s4u = simgrid::s4u;

void NetworkModel::route(simgrid::kernel::routing::Route* into) {
  links_.add_simgrid_links(*starting_->route, *into);
}

void NetworkModel::meet(const Key& key, std::uint64_t tag, Endpoint endpoint, Side side) {
  const bool is_send = side == Side::send;
  Connection& connection = connections_[key];
  PairQueue::Pair other;
  const auto own = static_cast<std::uint64_t>(side);
  // A rank that posts ahead has only its own side there, thousands of times: nothing is sought
  // then.
  const bool none = connection.waiting.empty(),
             sought = !none && (connection.waits_both || connection.waits != side);
  if (!sought || !connection.waiting.take(tag, 1 - own, other)) {
    connection.waits_both = sought;
    connection.waits = side;
    connection.waiting.push({tag, endpoint.turn << 1 | own});
    if (is_send) ranks_[static_cast<std::size_t>(key.to)]->message_waiting();
    return;
  }
  if (!is_send) endpoint.rank->receive_posted();
  const std::uint64_t others = other.second >> 1;
  const PairQueue::Pair turns =
      is_send ? PairQueue::Pair{endpoint.turn, others} : PairQueue::Pair{others, endpoint.turn};
  if (connection.on_the_way >= costs_.slots) return connection.no_slot.push(turns);
  ++connection.on_the_way;
  take_slot(connection, turns, cause());
}

/// Messages that are ready at one moment start together, see process_events(). SimGrid reports the
/// end only of what its own main thread has started; a timer that is due at once gets us there.
void NetworkModel::take_slot(Connection& connection, const PairQueue::Pair& turns,
                             MessageLog::EventId log_event) {
  Message* message = nullptr;
  if (free_messages_.empty()) {
    message = &messages_in_flight_.emplace_back();
  } else {
    message = free_messages_.back();
    free_messages_.pop_back();
  }
  message->send = {rank_of(turns.first), turns.first};
  message->recv = {rank_of(turns.second), turns.second};
  message->connection = &connection;
  message->log_event = log_event;
  clock_.start_now(message, turns.first);
}

namespace {
/// Of what a message costs that is whole from so many bytes on and grows as their root up to there.
double counted_part(double bytes, double whole_from) {
  return bytes >= whole_from ? 1 : std::sqrt(bytes / whole_from);
}

/// How much of a rest counts that messages of `from` bytes on have, and of half as many have not.
/// Nobody measured between: a step there would make steps of training jump from one number of nodes
/// to the next.
double long_enough(double bytes, double from) {
  return from > 0 ? std::clamp(2 * bytes / from - 1, 0.0, 1.0) : 1;
}
}  // namespace

/// A connection has a route for what the switch passes on, and one for each of what else it does.
const ConnectionRoute& NetworkModel::route_of(const Message& message, const Pending& send) {
  const InSwitch asked = in_switch_of(send.tag);
  const ConnectionRoute*& routes = message.connection->routes;
  for (const ConnectionRoute* known = routes; known; known = known->other)
    if (known->asked == asked) return *known;
  ConnectionRoute& route = links_.add_route(message.send.rank->rank(), send.peer, send.tag);
  route.asked = asked;
  route.other = routes;
  routes = &route;
  return route;
}

/// The sender takes the message in hand.
void NetworkModel::start(Message* message) {
  const Pending& send = message->send.rank->pending(message->send.event());
  const ConnectionRoute& route = route_of(*message, send);
  ++messages_;
  message->route = &route;
  message->count = send.buffer.count;
  message->phantom = send.buffer.phantom();
  message->packed = is_packed(send.tag);
  double wire = bytes_of(send.buffer) * costs_.per_payload;
  // Small chunks wait for each other's flags, large ones for the switch: published bandwidths rise
  // from chunks of 64 KiB to 128 KiB and no more from there to 512 KiB.
  if (route.in_switch) wire = std::max(wire * costs_.in_switch, wire + route.switch_wire);
  const MessageCosts::Cost& cost = costs_.of(route.path_class);
  const bool rests = !message->packed && !route.in_switch && cost.gap > 0;
  message->gap =
      rests ? cost.gap * counted_part(wire, cost.gap_whole_from) * long_enough(wire, cost.gap_from)
            : 0;
  const double hop = wire < cost.hop_from ? 0 : cost.hop * counted_part(wire, cost.hop_whole_from);
  message->overhead = (message->packed ? 0 : cost.overhead) + wire * cost.per_byte;
  const double takes = message->overhead + wire * cost.check_per_byte;
  message->wire = message->packed ? wire : wire + route.more_wire;
  message->latency = (message->packed ? route.latency : route.latency + route.more_latency) + hop;
  links_.carry(route, message->wire);
  if (log_) log_start(message);
  message->has_connection = false;
  if (takes == 0) return overhead_paid(message);
  clock_.start_at({handle(message->send, message, takes), message->send.turn, message});
}

double NetworkModel::handle(const Endpoint& endpoint, Message* message, double takes) {
  Handler& handler = handler_of(endpoint);
  const double now = this->now();
  if (log_ && handler.until > now) message->log_event = handler.log_event;  // it waits for its turn
  handler.until = std::max(handler.until, now) + takes;
  note(message, handler.until, PathStepKind::overhead);
  handler.log_event = message->log_event;
  return handler.until;
}

void NetworkModel::log_start(Message* message) {
  const Pending& send = message->send.rank->pending(message->send.event());
  const double now = this->now();
  const ConnectionRoute& route = *message->route;
  MessageLog::Alone alone{.rate = route.rate_limit};
  for (const std::size_t link : route.links) {
    const double width = links_.alone(link);
    if (width < alone.rate) alone = {width, link};
  }
  alone.overhead = message->wire - bytes_of(send.buffer) * costs_.per_payload;
  message->logged = log_->open({.from = message->send.rank->rank(),
                                .to = send.peer,
                                .tag = send.tag,
                                .payload = bytes_of(send.buffer),
                                .wire = message->wire,
                                .posted = now},
                               {route.links.begin(), route.links.end()}, alone);
  note(message, now, PathStepKind::nothing);
}

void NetworkModel::overhead_paid(Message* message) {
  if (message->has_connection) return begin(message);
  if (message->connection->busy) return message->connection->queue.push(message);
  message->connection->busy = true;
  after_gap(message);
}

void NetworkModel::after_gap(Message* message) {
  if (message->packed || message->connection->gap_until <= now()) return begin(message);
  message->has_connection = true;
  if (log_) message->log_event = message->connection->last_left;
  note(message, message->connection->gap_until, PathStepKind::rest);
  clock_.start_at({message->connection->gap_until, message->send.turn, message});
}

/// The first byte leaves.
void NetworkModel::begin(Message* message) {
  const double now = this->now();
  message->send.rank->prefetch(message->send.event());  // for sent()
  message->first_byte = now + message->latency;
  message->gap_until = now + message->gap;
  if (log_) log_->leaves(message->logged, now);
  if (message->wire == 0) return sent(message);
  const ConnectionRoute& route = *message->route;
  // The rest counts from when the bytes could have left: whom others hold up has rested meanwhile.
  // A message that stands for several, on as many connections, rests when its own share has left.
  message->gap_until += message->wire / route.alone / options_.sending.messages_each;
  // SimGrid takes no flow without links.
  if (options_.solver == Solver::simgrid && !route.binding.empty())
    return begin_in_simgrid(message);
  message->flow = sharing_.add(route.binding, route.rate_limit);
  message->left = message->wire;
  message->left_at = now;
  message->rate = 0;
  message_of_.resize(std::max(message_of_.size(), message->flow + std::size_t{1}));
  message_of_[message->flow] = message;
}

void NetworkModel::begin_in_simgrid(Message* message) {
  starting_ = message;
  message->comm = s4u::Comm::sendto_init();
  message->comm->set_data(message);
  // The second end of a sized message starts it.
  message->comm->set_payload_size(
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(message->wire * kGrain))));
  message->comm->set_source(engine_.here())->set_destination(engine_.there());
}

/// The last byte has left: the sender may go on, the next message of the connection may follow, and
/// this one arrives a latency later.
void NetworkModel::sent(Message* message) {
  const s4u::CommPtr alive =
      std::move(message->comm);  // SimGrid may still be in its completion signal
  if (!alive && message->wire > 0) sharing_.remove(message->flow);
  if (!message->phantom) {
    const Buffer& buffer = message->send.rank->pending(message->send.event()).buffer;
    message->bytes = std::make_unique<std::byte[]>(buffer.bytes());
    std::copy_n(buffer.data(), buffer.bytes(), message->bytes.get());
  }
  Connection& connection = *message->connection;
  const double now = this->now();
  if (log_) log_->left(message->logged, now);
  note(message, now, PathStepKind::transfer);
  const MessageLog::EventId log_event = connection.last_left = message->log_event;
  if (message->packed) connection.gap_until = std::max(connection.gap_until, now);
  else if (message->gap > 0 && message->route->path_class != PathClass::network)
    connection.gap_until = now + message->gap;  // of all channels at a time
  else connection.gap_until = message->gap > 0 ? message->gap_until : now;
  if (connection.queue.empty()) {
    connection.busy = false;
  } else {
    Message* next = connection.queue.pop();
    next->log_event = log_event;
    after_gap(next);
  }
  clock_.happens_now({.at = now, .turn = message->send.turn, .log_event = log_event});
  note(message, now + message->latency, PathStepKind::latency);
  message->recv.rank->prefetch(message->recv.event());
  message->send.rank->prefetch_dependents(message->send.event());
  const TimedEvent arrival{now + message->latency, message->recv.turn, message};
  if (message->overhead > 0) clock_.arrive_at(arrival);
  else clock_.happens_at(arrival);
}

/// Brings the bytes of flows whose rates change up to date, and says when they end now.
void NetworkModel::share_links() {
  const double now = this->now();
  for (const FairSharing::Flow flow : sharing_.solve()) {
    Message* message = message_of_[flow];
    message->left = std::max(0.0, message->left - message->rate * (now - message->left_at));
    message->left_at = now;
    message->rate = sharing_.rate(flow);
    if (log_)
      log_->rate(message->logged, now, message->rate,
                 sharing_.bottleneck(flow).value_or(MessageLog::kNoLink));
    clock_.flow_ends_at(flow, now + message->left / message->rate);
  }
}

void NetworkModel::abandon() {
  abandoned_ = true;
  clock_.stop();
  for (auto& rank : ranks_) rank->abandon();
}

bool NetworkModel::end_pauses() {
  if (!clock_.has_resumed() && clock_.keeps_time())
    for (auto& rank : ranks_) rank->post_all();
  return clock_.has_resumed();
}

std::span<const TimedEvent> NetworkModel::in_turn(std::span<TimedEvent> events) const {
  // Lets memory send ahead the verbs of all of them, which happen one after the other.
  for (const TimedEvent& event : events)
    rank_of(event.turn)->prefetch({static_cast<std::uint32_t>(event.turn)});
  std::sort(events.begin(), events.end());
  return events;
}

void NetworkModel::process_events() {
  const double now = this->now();
  while (Message* message = clock_.take_start(now)) overhead_paid(message);
  for (const TimedEvent& event : in_turn(clock_.take_arrivals(now)))
    clock_.happens_at({handle(event.message->recv, event.message, event.message->overhead),
                       event.turn, event.message});
  // Flows that end together leave together, and are solved once.
  for (FairSharing::Flow flow = 0; clock_.take_flow(now, flow);) sent(message_of_[flow]);
  for (const TimedEvent& event : in_turn(clock_.take_reductions(now))) {
    set_cause(event.log_event);
    happen(event);
  }
  process_verbs(now);
  // By sender, and not by who made them ready.
  for (const TimedEvent& event : in_turn(clock_.take_ready())) start(event.message);
  share_links();
}

void NetworkModel::process_verbs(double now) {
  for (const TimedEvent& event : in_turn(clock_.take_verbs(now))) {
    set_cause(event.message ? event.message->log_event : event.log_event);
    if (!event.message) {
      happen(event);
      continue;
    }
    Connection& connection = *event.message->connection;
    if (connection.no_slot.empty()) --connection.on_the_way;
    else take_slot(connection, connection.no_slot.pop(), event.message->log_event);
    if (log_) log_->landed(event.message->logged, now);
    const Endpoint& recv = event.message->recv;
    recv.rank->arrive(recv.event(), *event.message);
    event.message->bytes.reset();
    free_messages_.push_back(event.message);
  }
}

void NetworkModel::run(const std::function<void(Transport&)>& rank_function) {
  double launch = 0;
  if (const Profile* profile = options_.sending.profile.get()) {
    launch = value_or(profile->launch, Seconds{}).value;
    if (const Protocol* protocol = profile->protocol(options_.sending.protocol))
      launch += value_or(protocol->launch, Seconds{}).value;
  }
  clock_.begin_at(launch);
  // SimGrid clears stacks that have no guard: of many ranks that takes memory, and longer.
  constexpr std::size_t kFewRanks = 32;
  engine_.set_stack_guard(ranks_.size() > kFewRanks ? StackGuard::page : options_.stack_guard);
  for (auto& rank : ranks_) {
    SimRank* me = rank.get();
    const auto life = [this, me, launch, &rank_function] {
      try {
        if (!clock_.keeps_time() && launch > 0) s4u::this_actor::sleep_for(launch);
        if (log_ && launch > 0) set_cause(log_->add_event(now(), 0, PathStepKind::launch));
        Transport transport(*me, layout_, me->rank());
        rank_function(transport);
        transport.wait_all();
        if (now() >= end_) last_event_ = cause();
        end_ = std::max(end_, now());
        rank_is_idle();
      } catch (const Abandoned&) {
      } catch (const std::exception& e) {  // must not unwind through SimGrid's stacks
        if (failure_.empty()) failure_ = reason_of(e);
      }
    };
    me->set_actor(s4u::Actor::create(fmt::format("r{}", me->rank()), engine_.here(), life));
  }
  engine_.run([this] { report_deadlock(); });
  if (!failure_.empty()) throw TransportError(failure_);
}

}  // namespace foreduce
