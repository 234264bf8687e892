// Messages and link rates as the simulated network had them, for traces.
#pragma once

#include <cstdint>
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

/// All that a collective did on the network.
struct CollectiveRecord {
  std::vector<MessageRecord> messages;
  std::vector<LinkRecord> links;
};

/// Takes notes while a network is simulated.
class MessageLog {
 public:
  using Number = std::size_t;
  /// A message is posted; it will cross `links`, which are named as often as it does.
  Number open(const MessageRecord& message, std::vector<std::size_t> links);
  void leaves(Number message, double now) { messages_[message].leaves = now; }
  void rate(Number message, double now, double bytes_per_s) {
    pieces_[message].push_back({now, bytes_per_s});
  }
  void left(Number message, double now) { messages_[message].left = now; }
  void landed(Number message, double now) { messages_[message].landed = now; }

  const std::vector<MessageRecord>& messages() const { return messages_; }
  /// What the link carried over time, `flows` times as much as was simulated.
  std::vector<LinkRate> rates_on(std::size_t link, double flows) const;

 private:
  /// A message's rates, scaled so that they add up to its bytes; the last is zero.
  std::vector<LinkRate> rates_of(Number message) const;

  std::vector<MessageRecord> messages_;
  std::vector<std::vector<std::size_t>> links_;
  std::vector<std::vector<LinkRate>> pieces_;
};

}  // namespace foreduce
