// What the profile and the protocol of a schedule make a message cost. Times in seconds, sizes in
// bytes on the wire, rates in bytes a second.
#pragma once

#include <array>
#include <limits>

#include "models/nccl_schedule.hpp"
#include "models/rank_layout.hpp"

namespace foreduce {

struct MessageCosts {
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  /// Of one path class.
  struct Cost {
    double latency = -1;  // instead of the path's own; negative: as the topology says
    double hop = 0, hop_whole_from = 0, hop_from = 0, overhead = 0, per_byte = 0,
           check_per_byte = 0, gap = 0, gap_whole_from = 0, gap_from = 0;
    bool replaces = false;  // the machine's own cost of a message
  };
  std::array<Cost, kPathClasses> of_class;
  double per_payload = 1;     // wire of a byte of payload
  double in_switch = 1;       // factor on the wire bytes that the switch reduces or copies
  double in_switch_sync = 0;  // for which a chunk is held up in the switch
  double channel_rate = kNoLimit, net_channel_rate = kNoLimit;  // payload, inside and between nodes
  double rate_limit = kNoLimit, net_rate_limit = kNoLimit;      // the same of wire
  double switch_rate_limit = kNoLimit;  // of wire that in_switch has made longer
  double slots = kNoLimit;        // each of the channels that a message stands for has its own
  bool separate_proxies = false;  // what enters a node, what leaves it, and either tree of a
                                  // double tree do so at GPUs of their own

  /// Without a profile: every link does what its data sheet says, a message costs its latency.
  MessageCosts() = default;
  /// Throws InputError if the profile has no such protocol.
  MessageCosts(const Sending& sending, const Layout& layout);

  const Cost& of(PathClass path_class) const {
    return of_class[static_cast<std::size_t>(path_class)];
  }

 private:
  void set_classes(const Sending& sending, const Protocol* protocol, const Layout& layout);
  void set_rates(const Sending& sending, const Protocol& protocol);
};

}  // namespace foreduce
