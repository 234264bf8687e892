// When reductions end: devices and channels reduce what arrives, one message after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/message_costs.hpp"
#include "sim/message_log.hpp"

namespace foreduce {

/// A message that a rank has to reduce.
struct ToReduce {
  int slot = 0;            ///< of the rank
  int connection = 0;      ///< by which it came, see NetworkModel::connection_of()
  std::uint32_t& channel;  ///< the connection's channel here, from 1 on; 0: not known yet
  double bytes = 0;
  double first_byte = 0, readable = 0;  ///< see Arrival
  bool between_nodes = false;
  MessageLog::Number message = 0;  ///< of the log, if there is one
};

/// When a reduction ends, and its event in the log.
struct Reduced {
  double end = 0;
  MessageLog::EventId log_event = 0;
};

/// Fluid queues: a device reduces at its rate what arrives, in order of arrival; all but the last
/// segment of a message can be reduced while the rest is on its way. A channel's threads do so at
/// the channel's rate, one sender after the other: where a tree's node has two children, its
/// channel takes twice as long.
class ReduceQueues {
 public:
  ReduceQueues(double segment, const MessageCosts& costs)
      : segment_(segment),
        channel_rate_(costs.channel_rate),
        net_channel_rate_(costs.net_channel_rate) {}

  /// Adds a device that reduces so many bytes a second, and returns its number.
  std::size_t add_device(double rate);
  /// The rank of the next slot reduces on that device.
  void add_rank(std::size_t device) { device_of_.push_back(device); }
  /// Puts it behind what is there. `now`: it has arrived; `log`: null for none.
  Reduced reduce(const ToReduce& what, double now, MessageLog* log);

 private:
  struct Queue {
    double busy_until = 0;
    MessageLog::EventId log_event = 0;
  };
  struct Device {
    double rate = 0;
    Queue queue = {};
  };
  Queue& channel_of(const ToReduce& what);

  double segment_, channel_rate_, net_channel_rate_;
  std::vector<Device> devices_;
  std::vector<std::size_t> device_of_;  // each slot
  std::vector<Queue> channels_;
  std::unordered_map<std::size_t, std::uint32_t>
      numbers_;  // by slot and channel, with its tree of a double tree
};

}  // namespace foreduce
