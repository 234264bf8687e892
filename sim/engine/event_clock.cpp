#include "sim/engine/event_clock.hpp"

#include <algorithm>
#include <simgrid/s4u.hpp>
#include <utility>

namespace foreduce {

double EventClock::now() const { return keeps_time() ? now_ : simgrid::s4u::Engine::get_clock(); }

void EventClock::start_now(Message* message, std::uint64_t turn) {
  ready_.push_back({.at = 0, .turn = turn, .message = message});
  if (!processing_) wake_at(now());
}

void EventClock::happens_now(const TimedEvent& event) {
  due_.push_back(event);
  if (!processing_) wake_at(end_of_window(event.at));
}

bool EventClock::take_flow(double now, EndQueue::Flow& flow) {
  if (ends_.empty() || ends_.next_at() > end_of_window(now)) return false;
  flow = ends_.next();
  ends_.pop();
  return true;
}

std::span<TimedEvent> EventClock::take_verbs(double now) {
  taken_.clear();
  if ((due_.empty() || end_of_window(due_.front().at) > now) &&
      end_of_window(verbs_.next_at()) > now)
    return {};
  taken_.swap(due_);
  verbs_.take(now, taken_);
  return taken_;
}

std::span<TimedEvent> EventClock::take_ready() {
  taken_.clear();
  taken_.swap(ready_);
  return taken_;
}

/// One timer for all: SimGrid's own queue costs an allocation and a turn of its main loop each.
void EventClock::wake_at(double when) {
  if (stopped_) return;
  if (keeps_time()) when = simgrid::s4u::Engine::get_clock();
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
void EventClock::go_on() {
  if (stopped_) return;
  now_ = now();
  resumed_ = false;
  for (;;) {
    processing_ = true;
    owner_.process_events();
    processing_ = false;
    const double next = next_event();
    if (next == kNever && !owner_.end_pauses()) return;
    if (!keeps_time()) return wake_at(next);
    if (resumed_) return;  // they call when they sleep again; a timer would come before them
    now_ = std::max(now_, next);
  }
}

double EventClock::next_event() const {
  double next = ready_.empty() ? kNever : now_;
  for (const EventQueue* queue : {&starts_, &arrivals_, &reductions_})
    next = std::min(next, queue->next_at());
  next = std::min(next, end_of_window(verbs_.next_at()));
  if (!ends_.empty()) next = std::min(next, ends_.next_at());
  if (!due_.empty()) next = std::min(next, end_of_window(due_.front().at));
  return next;
}

}  // namespace foreduce
