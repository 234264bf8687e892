#include "sim/reduce_queues.hpp"

#include <algorithm>

namespace foreduce {
namespace {

/// Something begins to be reduced at `earliest`, or when what is before it is.
template <class Queue>
void reduce_next(Queue& queue, double earliest, double takes, double now, MessageLog* log,
                 MessageLog::Number message) {
  const double before = queue.busy_until;
  queue.busy_until = std::max(before, earliest) + takes;
  if (log && queue.busy_until > now)  // whoever comes before it may still be reduced
    queue.log_event =
        log->add_event(queue.busy_until, before > now ? queue.log_event : log->cause(),
                       PathStepKind::reduction, message);
}

}  // namespace

std::size_t ReduceQueues::add_device(double rate) {
  devices_.push_back({rate});
  return devices_.size() - 1;
}

Reduced ReduceQueues::reduce(const ToReduce& what, double now, MessageLog* log) {
  Device& device = devices_[device_of_[static_cast<std::size_t>(what.slot)]];
  const double segment = std::min(what.bytes, segment_);
  const double earliest = what.bytes > segment ? what.first_byte : now;
  reduce_next(device.queue, earliest, what.bytes / device.rate, now, log, what.message);
  Reduced reduced{device.queue.busy_until, device.queue.log_event};
  if (const double last = now + segment / device.rate; last > reduced.end) {
    reduced.end = last;
    if (log)
      reduced.log_event = log->add_event(last, log->cause(), PathStepKind::reduction, what.message);
  }
  const double rate = what.between_nodes ? net_channel_rate_ : channel_rate_;
  if (rate < MessageCosts::kNoLimit) {
    Queue& channel = channel_of(what);
    reduce_next(channel, what.readable, what.bytes / rate, now, log, what.message);
    if (channel.busy_until > reduced.end) reduced = {channel.busy_until, channel.log_event};
  }
  return reduced;
}

ReduceQueues::Queue& ReduceQueues::channel_of(const ToReduce& what) {
  if (what.channel == 0) {
    std::uint32_t& known = numbers_[static_cast<std::size_t>(what.slot) << 16 |
                                    static_cast<std::size_t>(what.connection)];
    if (known == 0) {
      channels_.emplace_back();
      known = static_cast<std::uint32_t>(channels_.size());
    }
    what.channel = known;
  }
  return channels_[what.channel - 1];
}

}  // namespace foreduce
