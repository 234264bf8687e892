// Messages and link rates as the simulated network had them, and what caused what: for traces and
// explanations.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace foreduce {

/// A message as the network carried it. Times are seconds on the simulation's clock.
struct MessageRecord {
  int from = 0, to = 0;   ///< ranks
  std::uint64_t tag = 0;  ///< the sender's
  double payload = 0;     ///< bytes
  double wire = 0;        ///< bytes that each of its links carried, with what messages cost on top
  double posted = 0;      ///< both sides were ready, and the sender took it in hand
  double leaves = 0, left = 0;  ///< its first and its last byte
  double landed = 0;            ///< its last byte is there, and the receiver has handled it
};

/// From `at` on a link carries so many bytes a second.
struct LinkRate {
  double at = 0, rate = 0;
};

/// The busiest link of a class.
struct LinkRecord {
  std::string link;  ///< the class
  double bytes = 0;  ///< the integral of its rates
  std::vector<LinkRate> rates;
};

/// What the time between two events of a collective is spent on.
enum class PathStepKind : std::uint8_t {
  nothing,    ///< no time: the second event follows at once
  launch,     ///< of the kernels, before the first message
  overhead,   ///< a sender or a receiver handles a message, or its NIC does
  rest,       ///< a connection rests after a message
  latency,    ///< of the path
  transfer,   ///< bytes leave at the rate that the path gives one message alone
  sharing,    ///< the additional time because other messages share the link
  reduction,  ///< a receiver reduces
};

/// Why a message on the critical path could not be sent earlier.
enum class WaitReason : std::uint8_t {
  by_data,        ///< its data was not ready; or it is the first message
  by_connection,  ///< the previous message on its connection was still leaving
  by_handler      ///< its sender or receiver was busy with another message or a reduction
};

/// A piece of the critical path. Times are seconds on the simulation's clock.
struct PathStep {
  static constexpr std::size_t kNone = SIZE_MAX;
  PathStepKind kind = PathStepKind::nothing;
  WaitReason wait_reason = WaitReason::by_data;  ///< the message, before this step
  double start = 0, end = 0;                     ///< the end of one is the start of the next
  std::size_t message = kNone;                   ///< of CollectiveRecord::messages
  std::size_t link = kNone;  ///< of CollectiveRecord::links: what limits the rate
};

/// All that a collective did on the network.
struct CollectiveRecord {
  std::vector<MessageRecord> messages;
  std::vector<LinkRecord> links;
  /// From the start to the last event: each step begins because the one before it ended.
  std::vector<PathStep> path;
};

/// What a collective's record has.
enum class Recorded : std::uint8_t {
  nothing,
  messages,  ///< every message, without links and path
  path,      ///< the critical path with its messages, and the classes of links without their rates
  all        ///< every message besides, and the rates of links
};

/// Records messages, link rates and causes while a network is simulated.
class MessageLog {
 public:
  using Number = std::size_t;
  /// Number of a recorded event; 0 is the start.
  using EventId = std::uint32_t;
  static constexpr std::size_t kNoLink = SIZE_MAX;

  /// With Recorded::messages neither rates nor events are recorded.
  explicit MessageLog(Recorded what = Recorded::all) : messages_only_(what == Recorded::messages) {}

  /// What a message could do alone.
  struct Alone {
    double rate = std::numeric_limits<double>::infinity();  ///< bytes a second
    std::size_t link = kNoLink;  ///< which sets it; none: a limit of the connection, or nothing
    double overhead = 0;         ///< of the wire's bytes those that stand for a time that NICs take
  };
  /// A message is posted; it will cross `links`, which are named as often as it does.
  Number open(const MessageRecord& message, std::vector<std::size_t> links, const Alone& alone);
  Number open(const MessageRecord& message, std::vector<std::size_t> links) {
    return open(message, std::move(links), {});
  }
  void leaves(Number message, double now) { messages_[message].leaves = now; }
  /// From now on it has this rate, because of that link; kNoLink: it has what it would have alone.
  void rate(Number message, double now, double bytes_per_s, std::size_t limiting = kNoLink) {
    if (messages_only_) return;
    pieces_[message].push_back({now, bytes_per_s});
    limiting_[message].push_back(limiting);
  }
  void left(Number message, double now) { messages_[message].left = now; }
  void landed(Number message, double now) { messages_[message].landed = now; }

  /// Records an event at `at` that `cause` led to, and what the time between them was spent on.
  EventId add_event(double at, EventId cause, PathStepKind kind, Number message = kNoMessage) {
    if (messages_only_) return 0;
    events_.push_back({at, cause, kind, message});
    return static_cast<EventId>(events_.size() - 1);
  }
  /// The event that causes whatever happens now.
  EventId cause() const { return cause_; }
  void set_cause(EventId event) { cause_ = event; }
  /// The chain of causes from the start to `event`. PathStep::link is the network's link number.
  std::vector<PathStep> path_to(EventId event) const;

  const std::vector<MessageRecord>& messages() const { return messages_; }
  /// What the link carried over time, `flows` times as much as was simulated.
  std::vector<LinkRate> rates_on(std::size_t link, double flows) const;

 private:
  static constexpr Number kNoMessage = SIZE_MAX;
  struct LoggedEvent {
    double at = 0;
    EventId cause = 0;
    PathStepKind kind = PathStepKind::nothing;
    Number message = kNoMessage;
  };
  void add_transfer(const LoggedEvent& left, double start, WaitReason wait_reason,
                    std::vector<PathStep>& path) const;
  /// A message's rates, scaled so that they add up to its bytes; the last is zero.
  std::vector<LinkRate> rates_of(Number message) const;

  bool messages_only_;
  std::vector<MessageRecord> messages_;
  std::vector<std::vector<std::size_t>> links_;
  std::vector<std::vector<LinkRate>> pieces_;
  std::vector<std::vector<std::size_t>> limiting_;  // of each of them
  std::vector<Alone> alone_;
  std::vector<LoggedEvent> events_{{}};
  EventId cause_ = 0;
};

}  // namespace foreduce
