#include "sim/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/child_process.hpp"

namespace foreduce {

namespace s4u = simgrid::s4u;

void NetworkModel::route(simgrid::kernel::routing::Route* into) {
  const ConnectionRoute& route = *starting_->route;
  for (const std::size_t id : route.binding)
    into->link_list_.push_back(links_[id].shared->get_impl());
  if (route.rate_limit < kNever)
    into->link_list_.push_back(limits_.at(route.rate_limit)[route.binding.front()]->get_impl());
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

/// Messages that are ready at one moment start together, see start_ready(). SimGrid reports the end
/// only of what its own main thread has started; a timer that is due at once gets us there.
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
  ready_.push_back(message);
  if (!processing_) wake_at(now());
}

namespace {
/// Of what a message costs that is whole from so many bytes on and grows as their root up to there.
double counted_part(double bytes, double whole_from) {
  return bytes >= whole_from ? 1 : std::sqrt(bytes / whole_from);
}
}  // namespace

/// In an order that symmetry preserves: by sender, and not by who made them ready.
void NetworkModel::start_ready() {
  starting_now_.clear();
  for (Message* message : ready_) starting_now_.push_back({now(), message->send.turn, message});
  ready_.clear();
  std::sort(starting_now_.begin(), starting_now_.end());
  for (const TimedEvent& event : starting_now_) start(event.message);
}

ConnectionRoute& NetworkModel::find_route(const SimRank& from, const Pending& send) {
  Place target = place_of(layout_, send.peer);
  if (symmetry_.one_node())
    target.node = std::min(
        target.node, 1);  // any other node: they are all alike, and its links are node 0's own
  cluster_.route(place_of(layout_, from.rank()), target, scratch_);
  std::vector<std::size_t>& links = scratch_.links;
  ConnectionRoute& route = routes_.emplace_back(memory_);
  double inside_limit = costs_.rate_limit;
  if (const InSwitch in_switch = in_switch_of(send.tag);
      in_switch != InSwitch::no && links.size() == 2) {
    // The sum, or the one that is copied, is accounted to the message between neighbours; the
    // others use one link only.
    const NodeGroup& group = node_groups_[group_of(send.tag) >= kSecondCollective];
    const int here = group.place(layout_.at(from.rank()).local),
              there = group.place(layout_.at(send.peer).local);
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

/// A connection has a route for what the switch passes on, and one for each of what else it does.
const ConnectionRoute& NetworkModel::route_of(const Message& message, const Pending& send) {
  const InSwitch asked = in_switch_of(send.tag);
  const ConnectionRoute*& routes = message.connection->routes;
  for (const ConnectionRoute* known = routes; known; known = known->other)
    if (known->asked == asked) return *known;
  ConnectionRoute& route = find_route(*message.send.rank, send);
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
  const bool rests = !message->packed && !route.in_switch && wire >= cost.gap_from;
  message->gap = rests ? cost.gap * counted_part(wire, cost.gap_whole_from) : 0;
  const double hop = wire < cost.hop_from ? 0 : cost.hop * counted_part(wire, cost.hop_whole_from);
  message->overhead = (message->packed ? 0 : cost.overhead) + wire * cost.per_byte;
  const double takes = message->overhead + wire * cost.check_per_byte;
  message->wire = message->packed ? wire : wire + route.more_wire;
  message->latency = (message->packed ? route.latency : route.latency + route.more_latency) + hop;
  for (const std::size_t id : route.links) bytes_on_[id] += message->wire;
  if (log_) log_start(message);
  message->has_connection = false;
  if (takes == 0) return overhead_paid(message);
  schedule(starts_, {handle(message->send, message, takes), message->send.turn, message});
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
    const double width = links_[link].alone;
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
  schedule(starts_, {message->connection->gap_until, message->send.turn, message});
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

// Simultaneous events happen in an order that does not depend on who reports them; otherwise
// equivalent ranks would take turns differently, and one could not represent the others: a rank's
// own rail first, then the next ones; on a channel as the rank posted it. The window is longer than
// the rounding difference of one time computed in two ways.
static double end_of_window(double begin) { return begin + 1e-14 * std::max(1.0, begin); }

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
  due_.push_back({.at = now, .turn = message->send.turn, .log_event = log_event});
  if (!processing_) wake_at(end_of_window(now));
  note(message, now + message->latency, PathStepKind::latency);
  message->recv.rank->prefetch(message->recv.event());
  message->send.rank->prefetch_dependents(message->send.event());
  schedule(message->overhead > 0 ? arrivals_ : events_,
           {now + message->latency, message->recv.turn, message});
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
    ends_.set(flow, now + message->left / message->rate);
  }
}

void NetworkModel::schedule(EventQueue& queue, const TimedEvent& event) {
  queue.push(event);
  if (!processing_) wake_at(&queue == &events_ ? end_of_window(event.at) : event.at);
}

/// One timer for all: SimGrid's own queue costs an allocation and a turn of its main loop each.
void NetworkModel::wake_at(double when) {
  if (abandoned_) return;
  if (keeps_time()) when = s4u::Engine::get_clock();
  if (when >= wake_) return;
  if (timer_) timer_->remove();
  wake_ = when;
  timer_ = simgrid::kernel::timer::Timer::set(when, [this] {
    timer_ = nullptr;
    wake_ = kNever;
    go_on();
  });
}

/// SimGrid need not know of the moments at which no rank goes on: its clock stands still meanwhile.
void NetworkModel::go_on() {
  if (abandoned_) return;
  now_ = now();
  resumed_ = false;
  for (;;) {
    process_events();
    const double next = next_event_time();
    if (next == kNever && !end_pauses()) return;
    if (!keeps_time()) return wake_at(next);
    if (resumed_) return;  // they call when they sleep again; a timer would come before them
    now_ = std::max(now_, next);
  }
}

void NetworkModel::abandon() {
  abandoned_ = true;
  for (auto& rank : ranks_) rank->abandon();
}

/// Whether any rank pauses, which now posts on.
bool NetworkModel::end_pauses() {
  if (!resumed_ && keeps_time())
    for (auto& rank : ranks_) rank->post_all();
  return resumed_;
}

double NetworkModel::next_event_time() const {
  double next = kNever;
  const auto at = [&next](double when) { next = std::min(next, when); };
  if (!ready_.empty()) at(now_);
  if (!starts_.empty()) at(starts_.top().at);
  if (!arrivals_.empty()) at(arrivals_.top().at);
  if (!ends_.empty()) at(ends_.next_at());
  if (!reductions_.empty()) at(reductions_.top().at);
  if (!events_.empty()) at(end_of_window(events_.top().at));
  if (!due_.empty()) at(end_of_window(due_.front().at));
  return next;
}

/// Takes the events until then out of a queue, in an order that symmetry preserves. Valid until the
/// next call.
std::span<const NetworkModel::TimedEvent> NetworkModel::take_simultaneous(EventQueue& queue,
                                                                          double until) {
  taken_.clear();
  if (queue.empty() || queue.top().at > until) return taken_;
  for (; !queue.empty() && queue.top().at <= until; queue.pop()) taken_.push_back(queue.top());
  prefetch(taken_);
  std::sort(taken_.begin(), taken_.end());
  return taken_;
}

/// Lets memory send ahead the verbs of all of them, which happen one after the other.
void NetworkModel::prefetch(std::span<const TimedEvent> events) const {
  for (const TimedEvent& event : events)
    rank_of(event.turn)->prefetch({static_cast<std::uint32_t>(event.turn)});
}

/// Everything that is due now.
void NetworkModel::process_events() {
  processing_ = true;
  const double now = this->now();
  while (!starts_.empty() && starts_.top().at <= now) {
    Message* message = starts_.top().message;
    starts_.pop();
    overhead_paid(message);
  }
  for (const TimedEvent& event : take_simultaneous(arrivals_, now))
    schedule(events_, {handle(event.message->recv, event.message, event.message->overhead),
                       event.turn, event.message});
  // Flows that end together leave together, and are solved once.
  while (!ends_.empty() && ends_.next_at() <= end_of_window(now)) {
    Message* message = message_of_[ends_.next()];
    ends_.pop();
    sent(message);
  }
  for (const TimedEvent& event : take_simultaneous(reductions_, end_of_window(now))) {
    set_cause(event.log_event);
    happen(event);
  }
  if ((!due_.empty() && end_of_window(due_.front().at) <= now) ||
      (!events_.empty() && end_of_window(events_.top().at) <= now))
    process_simultaneous(now);
  start_ready();
  share_links();
  processing_ = false;
}

/// The window of the first of these events is over.
void NetworkModel::process_simultaneous(double now) {
  simultaneous_.clear();
  simultaneous_.swap(due_);
  for (; !events_.empty() && events_.top().at <= now; events_.pop())
    simultaneous_.push_back(events_.top());
  prefetch(simultaneous_);
  std::sort(simultaneous_.begin(), simultaneous_.end());
  for (const TimedEvent& event : simultaneous_) {
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
  if (keeps_time()) now_ = launch;
  for (auto& rank : ranks_) {
    SimRank* me = rank.get();
    const auto life = [this, me, launch, &rank_function] {
      try {
        if (!keeps_time() && launch > 0) s4u::this_actor::sleep_for(launch);
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
