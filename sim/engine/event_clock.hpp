// What is going to happen in a simulated network, and when. The time goes from event to event here;
// SimGrid's engine runs the ranks, and where it shares the links, its clock is the time.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <simgrid/kernel/Timer.hpp>
#include <span>
#include <vector>

#include "sim/end_queue.hpp"
#include "sim/message_log.hpp"

namespace foreduce {

struct Message;

inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// Something that happens at a moment, in seconds. Heaps move these, so they are small.
struct TimedEvent {
  double at = 0;
  std::uint64_t turn = 0;  ///< whose verb it is; of simultaneous events the lowest comes first
  Message* message = nullptr;
  MessageLog::EventId log_event = 0;  ///< why, if there is a log and no message

  friend bool operator<(const TimedEvent& x, const TimedEvent& y) { return x.turn < y.turn; }
};

/// Events of one kind, the earliest first.
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  /// The first moment; kNever if there is none.
  double next_at() const { return heap_.empty() ? kNever : heap_.top().at; }
  void push(const TimedEvent& event) { heap_.push(event); }
  TimedEvent pop() {
    const TimedEvent first = heap_.top();
    heap_.pop();
    return first;
  }
  /// Moves the events until then behind `into`, the earliest first.
  void take(double until, std::vector<TimedEvent>& into) {
    for (; !heap_.empty() && heap_.top().at <= until; heap_.pop()) into.push_back(heap_.top());
  }

 private:
  struct Later {
    bool operator()(const TimedEvent& x, const TimedEvent& y) const {
      return x.at != y.at ? x.at > y.at : y < x;
    }
  };
  std::priority_queue<TimedEvent, std::vector<TimedEvent>, Later> heap_;
};

/// Simultaneous events happen in an order that does not depend on who reports them; otherwise
/// equivalent ranks would take turns differently, and one could not represent the others: a rank's
/// own rail first, then the next ones; on a channel as the rank posted it. The window is longer
/// than the rounding difference of one time computed in two ways.
inline double end_of_window(double begin) { return begin + 1e-14 * (begin > 1 ? begin : 1); }

/// Whose clock is the time.
enum class Timekeeper : std::uint8_t {
  own,     ///< SimGrid's clock stands still where no rank goes on
  simgrid  ///< it shares the links, so its flows end by its own clock
};

/// Goes from one moment at which something happens to the next.
class EventClock {
 public:
  /// Whoever makes the events happen.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Everything that is due now.
    virtual void process_events() = 0;
    /// Nothing is going to happen: whether any rank pauses, which now posts on.
    virtual bool end_pauses() = 0;
  };

  EventClock(Timekeeper keeper, Owner& owner) : keeper_(keeper), owner_(owner) {}
  ~EventClock() {
    if (timer_) timer_->remove();
  }
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  bool keeps_time() const { return keeper_ == Timekeeper::own; }
  /// Simulated seconds.
  double now() const;
  /// Where the clock keeps the time, it begins then.
  void begin_at(double when) {
    if (keeps_time()) now_ = when;
  }
  /// Goes on at that moment, which is now where the clock keeps the time: SimGrid's has stood
  /// still.
  void wake_at(double when);
  /// A rank goes on, which may post something at this moment.
  void rank_resumed() { resumed_ = true; }
  bool has_resumed() const { return resumed_; }
  /// Nothing happens any more.
  void stop() { stopped_ = true; }

  /// A message starts with this moment.
  void start_now(Message* message, std::uint64_t turn);
  /// Its sender has taken it in hand, or its connection has rested.
  void start_at(const TimedEvent& event) { schedule(starts_, event, event.at); }
  /// It has come to a receiver that takes it in hand.
  void arrive_at(const TimedEvent& event) { schedule(arrivals_, event, event.at); }
  /// A reduction is over: exactly then, whatever else happens in this window.
  void reduced_at(const TimedEvent& event) { schedule(reductions_, event, event.at); }
  /// A verb has happened with the end of this moment's window: a message has landed.
  void happens_at(const TimedEvent& event) { schedule(verbs_, event, end_of_window(event.at)); }
  /// The same of this moment: a send is over.
  void happens_now(const TimedEvent& event);
  void flow_ends_at(EndQueue::Flow flow, double when) { ends_.set(flow, when); }

  // What is due, in no order but of starts and flows; to be asked within Owner::process_events
  // alone. Spans are valid until the next question.
  Message* take_start(double now) {
    return starts_.next_at() <= now ? starts_.pop().message : nullptr;
  }
  std::span<TimedEvent> take_arrivals(double now) { return take(arrivals_, now); }
  /// Takes the next flow that has ended by `now`; false where there is none.
  bool take_flow(double now, EndQueue::Flow& flow);
  std::span<TimedEvent> take_reductions(double now) {
    return take(reductions_, end_of_window(now));
  }
  /// Those of the window that is over.
  std::span<TimedEvent> take_verbs(double now);
  /// Messages that start with this moment.
  std::span<TimedEvent> take_ready();

 private:
  void schedule(EventQueue& queue, const TimedEvent& event, double wake) {
    queue.push(event);
    if (!processing_) wake_at(wake);
  }
  std::span<TimedEvent> take(EventQueue& queue, double until) {
    taken_.clear();
    queue.take(until, taken_);
    return taken_;
  }
  double next_event() const;
  void go_on();

  const Timekeeper keeper_;
  Owner& owner_;
  EventQueue starts_, arrivals_, reductions_, verbs_;
  EndQueue ends_;                        // of flows
  std::vector<TimedEvent> due_, ready_;  // with this moment: verbs, and messages that start
  std::vector<TimedEvent> taken_;
  simgrid::kernel::timer::Timer* timer_ = nullptr;
  double wake_ = kNever, now_ = 0;
  bool resumed_ = false;  // a rank since go_on() began
  bool stopped_ = false;
  bool processing_ = false;
};

}  // namespace foreduce
