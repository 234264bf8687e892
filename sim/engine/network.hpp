// The simulated network: connections, and the messages in flight on them. FairSharing, or SimGrid
// if asked to, shares the links; SimGrid's engine runs the ranks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/rank_layout.hpp"
#include "sim/arena.hpp"
#include "sim/collective.hpp"
#include "sim/flat_table.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/event_clock.hpp"
#include "sim/fair_sharing.hpp"
#include "sim/message_costs.hpp"
#include "sim/engine/network_links.hpp"
#include "sim/pair_queue.hpp"
#include "sim/engine/rank.hpp"
#include "sim/reduce_queues.hpp"
#include "sim/simulator.hpp"
#include "sim/symmetry.hpp"

namespace foreduce {

/// Connections between two ranks that one collective may use: 2^8 channels with two halves.
inline constexpr int kConnectionsEach = 512;

struct Key {
  int to = 0, from = 0, symmetry_index = 0;  // slots, and the renumbering between them
  int channel = 0;
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  std::size_t operator()(const Key& k) const {
    std::uint64_t h = static_cast<std::uint64_t>(k.channel) * 0x9E3779B97F4A7C15u;
    h ^= (static_cast<std::uint64_t>(static_cast<std::uint32_t>(k.to)) << 32 |
          static_cast<std::uint32_t>(k.from)) +
         (h >> 29);
    h *= 0xBF58476D1CE4E5B9u;
    h ^= static_cast<std::uint64_t>(k.symmetry_index) + (h >> 32);
    return static_cast<std::size_t>(h * 0x94D049BB133111EBu >> 7);
  }
};

/// One side of a message: the side that was posted first waits for the other.
struct Endpoint {
  SimRank* rank = nullptr;
  std::uint64_t turn = 0;  // see NetworkModel::turn_of; ends in the event's number

  Event event() const { return {static_cast<std::uint32_t>(turn)}; }
};

enum class Side : std::uint8_t { send, recv };

struct Connection;

/// A message on its way. In LogGP's terms `overhead` is o and `gap` is g: the time for which a
/// message occupies either end, and the time for which its connection rests after it.
struct Message {
  Endpoint send, recv;
  Connection* connection = nullptr;
  const ConnectionRoute* route = nullptr;
  Message* behind = nullptr;  // in its connection's queue
  double wire = 0;            // bytes that the links carry
  double latency = 0;
  double left = 0, left_at = 0, rate = 0;  // bytes and moment of its last change of rate
  double gap_until = 0;  // when its connection may begin the next one, if this has left by then
  std::size_t count = 0;
  FairSharing::Flow flow = 0;          // its bytes, while they leave
  bool packed = false;                 // part of the transfer before it, see Tag
  bool phantom = true;                 // has a size and no bytes
  bool has_connection = false;         // has its connection and waits for the end of its rest
  double first_byte = 0;               // when its front arrives
  double overhead = 0;                 // for which it occupies either end
  double gap = 0;                      // for which its connection rests then
  std::unique_ptr<std::byte[]> bytes;  // what it carries: taken when the last byte has left, for
                                       // then the sender may write again
  simgrid::s4u::CommPtr comm;          // instead of the flow, where SimGrid shares
  MessageLog::Number logged = 0;       // if there is a log
  MessageLog::EventId log_event = 0;   // the last thing that happened to it, for the log

  bool between_nodes() const { return route->path_class == PathClass::network; }
};

/// Messages in the order they came.
class MessageQueue {
 public:
  bool empty() const { return !first_; }
  void push(Message* message) {
    message->behind = nullptr;
    (first_ ? last_->behind : first_) = message;
    last_ = message;
  }
  Message* pop() {
    Message* message = first_;
    first_ = message->behind;
    return message;
  }

 private:
  Message *first_ = nullptr, *last_ = nullptr;
};

/// What one rank sends another on one channel travels in order, one message's bytes after the
/// other's, as on a queue pair. Max-min sharing alone would let all segments of a pipeline crawl
/// along together, and none would arrive early.
struct alignas(64) Connection {  // two cache lines
  // Sides whose other side is still to come, in the order they came: tag, and turn with the side
  // in its lowest bit.
  PairQueue waiting;
  double gap_until = 0;                     // after the last message
  const ConnectionRoute* routes = nullptr;  // of its messages, as far as they are known
  std::uint32_t on_the_way = 0;             // have a slot, not yet landed
  bool busy = false;                        // bytes are leaving
  Side waits = Side::send;                  // the side that waits, the last one if both do
  bool waits_both = false;                  // for other messages each

  PairQueue no_slot;          // turns of messages that wait until an earlier one has landed
  MessageQueue queue;         // their overhead is paid; behind the one whose bytes are leaving
  std::uint32_t reduced = 0;  // see ToReduce::channel
  MessageLog::EventId last_left = 0;
};

static_assert(sizeof(Connection) == 128);

class NetworkModel final : public FlowRoutes, private EventClock::Owner {
 public:
  explicit NetworkModel(const SimulatedNetwork& on)
      : cluster_(on.cluster),
        layout_(on.layout),
        symmetry_(on.symmetry),
        element_bytes_(on.element_bytes),
        channel_order_(on.channel_order),
        options_(on.options),
        costs_(options_.sending.profile ? MessageCosts(options_.sending, layout_) : MessageCosts()),
        engine_of_links_(options_.solver == Solver::simgrid ? std::make_unique<Engine>(*this)
                                                            : nullptr),
        engine_(engine_of_links_ ? *engine_of_links_ : Engine::of_ranks()),
        clock_(engine_of_links_ ? Timekeeper::simgrid : Timekeeper::own, *this),
        links_(cluster_, layout_, symmetry_, costs_, options_, memory_),
        sharing_(links_.widths()) {
    if (options_.record != Recorded::nothing) log_.emplace(options_.record);
    build_ranks();
    if (engine_of_links_) let_simgrid_share();
    build_reduce_queues();
  }
  NetworkModel(const NetworkModel&) = delete;
  NetworkModel& operator=(const NetworkModel&) = delete;

  void run(const std::function<void(Transport&)>& rank_function);
  CollectiveResult result() const;
  /// Simulated seconds.
  double now() const { return clock_.now(); }
  /// What the rank waits for has happened.
  void resume(simgrid::s4u::Actor& actor) {
    clock_.rank_resumed();
    actor.resume();
  }

  // Both sides identify a message by its two representatives, by what lies between them, and by the
  // tag that it has for the simulated sender.
  void offer_send(SimRank& rank, Event send) {
    const Pending& p = rank.pending(send);
    meet({symmetry_.slot(p.peer), rank.slot(), symmetry_.index(p.peer), connection_of(p.tag)},
         p.tag, endpoint_of(rank, send, p.tag), Side::send);
  }
  void offer_recv(SimRank& rank, Event recv) {
    const Pending& p = rank.pending(recv);
    const int symmetry_index = symmetry_.inverse(symmetry_.index(p.peer));
    const std::uint64_t tag = symmetry_.tag(p.tag, symmetry_index);
    meet({rank.slot(), symmetry_.slot(p.peer), symmetry_index, connection_of(tag)}, tag,
         endpoint_of(rank, recv, p.tag), Side::recv);
  }
  /// Which of the connections between two ranks a message takes.
  int connection_of(std::uint64_t tag) const {
    return (group_of(tag) >= kSecondCollective) * kConnectionsEach + channel_of(tag) * 2 +
           (options_.sending.separate_halves && is_second_half(tag));
  }
  /// The links of the flow that SimGrid is just starting.
  void route(simgrid::kernel::routing::Route* into) override;
  /// The rank reduces what has arrived.
  Reduced reduce(const SimRank& rank, std::uint64_t tag, double bytes, const Arrival& arrival) {
    return reduce_queues_.reduce(
        {rank.slot(), connection_of(tag), arrival.connection->reduced, bytes, arrival.first_byte,
         arrival.readable, arrival.between_nodes, arrival.message},
        now(), log_ ? &*log_ : nullptr);
  }
  void reduce_until(const Reduced& reduced, const SimRank& rank, Event recv, std::uint64_t tag) {
    clock_.reduced_at(
        {.at = reduced.end, .turn = turn_of(rank, recv, tag), .log_event = reduced.log_event});
  }
  /// A rank has posted what it can: the time goes on when all have.
  void rank_is_idle() { clock_.wake_at(now()); }
  /// A send was posted after a pause during which it could have left: times would not be exact.
  void abandon();
  bool abandoned() const { return abandoned_; }
  /// The event that causes whatever happens now; 0 without a log.
  MessageLog::EventId cause() const { return log_ ? log_->cause() : 0; }
  void set_cause(MessageLog::EventId log_event) {
    if (log_) log_->set_cause(log_event);
  }
  double bytes_of(const Buffer& b) const { return static_cast<double>(b.count) * element_bytes_; }

 private:
  void build_ranks();
  void let_simgrid_share();
  void build_reduce_queues();
  void report_deadlock();
  void meet(const Key& key, std::uint64_t tag, Endpoint endpoint, Side side);
  /// A message of these turns, its sender's and its receiver's, may start.
  void take_slot(Connection& connection, const PairQueue::Pair& turns,
                 MessageLog::EventId log_event);
  void start(Message* message);
  /// The route of its connection, which is found if this is the first message that takes it.
  const ConnectionRoute& route_of(const Message& message, const Pending& send);
  void log_start(Message* message);
  void record_into(CollectiveRecord& record, const std::map<std::string, LinkLoad>& classes,
                   const std::map<std::string, std::size_t>& busiest) const;
  void overhead_paid(Message* message);
  void after_gap(Message* message);
  /// Whoever handles a side of messages, one after the other, is busy until then.
  struct Handler {
    double until = 0;
    MessageLog::EventId log_event = 0;
  };
  Handler& handler_of(const Endpoint& endpoint) {
    const Pending& p = endpoint.rank->pending(endpoint.event());
    const int proxy = costs_.separate_proxies
                          ? 2 * (options_.sending.separate_halves && is_second_half(p.tag)) +
                                (p.verb == Verb::send)
                          : 0;
    return handlers_[static_cast<std::size_t>(endpoint.rank->slot() * 4 + proxy)];
  }
  /// When this side of the message is handled, after the ones before it.
  double handle(const Endpoint& endpoint, Message* message, double takes);
  /// Notes that something happened to a message, because of what happened to it before.
  void note(Message* message, double at, PathStepKind kind) {
    if (log_) message->log_event = log_->add_event(at, message->log_event, kind, message->logged);
  }
  void begin(Message* message);
  void begin_in_simgrid(Message* message);
  void sent(Message* message);
  void share_links();

  /// In which order ranks take their turns with what happens at one moment: by slot, then the
  /// channel, then as the rank posted it.
  std::uint64_t turn_of(const SimRank& rank, Event event, std::uint64_t tag) const {
    const auto slot = static_cast<std::uint64_t>(rank.slot());
    const std::uint64_t channel =
        (static_cast<std::uint64_t>(channel_of(tag)) + channels_ - first_channel_[slot]) %
        channels_;
    return slot << 40 | channel << 32 | event.id;
  }
  Endpoint endpoint_of(SimRank& rank, Event event, std::uint64_t tag) const {
    return {&rank, turn_of(rank, event, tag)};
  }
  SimRank* rank_of(std::uint64_t turn) const { return ranks_[turn >> 40].get(); }
  /// The verb of the event has happened.
  void happen(const TimedEvent& event) {
    rank_of(event.turn)->happen({static_cast<std::uint32_t>(event.turn)});
  }
  /// Simultaneous events in an order that symmetry preserves.
  std::span<const TimedEvent> in_turn(std::span<TimedEvent> events) const;
  void process_events() override;
  void process_verbs(double now);
  bool end_pauses() override;

  const Cluster& cluster_;
  const Layout& layout_;
  const SymmetryReduction& symmetry_;
  double element_bytes_;
  ChannelOrder channel_order_;
  const std::uint64_t channels_ = std::max<std::size_t>(1, layout_.channels.size());  // in turn
  SimOptions options_;
  const MessageCosts costs_;

  std::unique_ptr<Engine> engine_of_links_;  // where SimGrid shares them
  Engine& engine_;
  EventClock clock_;
  Arena memory_;  // of the ranks
  std::vector<std::unique_ptr<SimRank>> ranks_;
  std::vector<std::uint64_t> first_channel_;  // of each of them, see turn_of()
  const Message* starting_ = nullptr;
  NetworkLinks links_;
  FairSharing sharing_;
  std::vector<Message*> message_of_;  // by flow

  ReduceQueues reduce_queues_{options_.reduce_segment.value, costs_};

  std::vector<Handler> handlers_;  // of each rank: it handles one message after the other

  FlatTable<Key, Connection, KeyHash> connections_;
  std::deque<Message> messages_in_flight_;
  std::vector<Message*> free_messages_;
  bool abandoned_ = false;
  std::uint64_t messages_ = 0;
  std::optional<MessageLog> log_;  // if asked for
  double end_ = 0;
  MessageLog::EventId last_event_ = 0;
  std::string failure_;
};

}  // namespace foreduce
