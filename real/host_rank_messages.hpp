// Inside HostRank: messages that are under way to it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "real/host_rank.hpp"

namespace foreduce {

/// Says that the sender's bytes may be read or, if `released`, that the receiver has read them.
struct HostRank::MailboxMessage {
  Key key;
  Event send{};  // the sender's event, which goes back to it when the bytes have been read
  DeviceBytes source;
  std::size_t size = 0;  // bytes
  bool released = false;
};

/// A peer broke the rules. The rendezvous knows nothing more about that.
class BadSegment : public TransportError {
 public:
  using TransportError::TransportError;
};

/// A message seen from its receiver: its receive, once posted, and bytes that came before they
/// could be used.
struct HostRank::Message {
  Event recv{};                             // 0: not posted yet
  std::uint64_t arrived = 0;                // bytes that came through a port
  std::uint64_t placed = 0;                 // bytes that are in their place
  std::optional<MailboxMessage> from_peer;  // a rank of this process waits until its bytes are read
  std::vector<std::byte> aside;             // a copy of those bytes, after which the peer may go on
  std::byte* aside_on_device = nullptr;     // the same on the device
  std::vector<Segment> segments;            // from a port
  ArrivedBytes segments_arrived;            // also of those that are in their place
  std::size_t early = 0;                    // memory that segments without a receive hold
};

}  // namespace foreduce
