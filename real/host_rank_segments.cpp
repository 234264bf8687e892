// What a rank does with segments from other processes. Nothing that a peer says about its bytes is
// believed before it has been checked against the receive.
#include <fmt/format.h>

#include "real/host_rank_messages.hpp"

namespace foreduce {
namespace {

/// Memory of the bookkeeping for one early segment.
constexpr std::size_t kEarlySegment = 256;
/// Early segments up to this size are copied, so that they do not hold a whole slot of the port.
constexpr std::size_t kCopiedEarly = 64 * 1024;

/// The same segment in memory of its own.
Segment copy_of(const Segment& segment) {
  const auto copy = std::make_shared<std::vector<std::byte>>(
      segment.data(), segment.data() + segment.header().bytes);
  return Segment(segment.header(), copy->data(), [copy] {});
}

}  // namespace

void HostRank::expect(std::size_t bytes, std::size_t messages) {
  // A peer can be one all-reduce ahead, since the next but one needs this rank's data. It sends a
  // rank its data at most twice: on the way to the sum, and as the sum.
  early_limit_ = kEarlyBytes + 2 * (bytes + messages * kEarlySegment);
}

void HostRank::arrived(Segment&& segment) {
  const SegmentHeader& header = segment.header();
  const Key key{static_cast<int>(header.from), header.round, header.tag};
  if (header.from >= ranks_.by_rank.size() || peer_in_process(key.from))
    refuse(key, "comes through the network, though that rank is in this process");
  if (static_cast<std::int32_t>(header.round - round_) < 0)
    refuse(key, "belongs to an all-reduce that is over");
  Message& message = messages_[key];
  if (!message.segments_arrived.add(header.offset, header.bytes))
    refuse(key, fmt::format("came twice: {} bytes at offset {}", header.bytes, header.offset));
  message.arrived += header.bytes;
  if (message.recv.id != 0) {
    message.segments.push_back(std::move(segment));
    return use(key, message);
  }
  early_.resize(ranks_.by_rank.size());
  std::size_t& early = early_[header.from];
  message.early += header.bytes + kEarlySegment;
  early += header.bytes + kEarlySegment;
  if (early > early_limit_)
    refuse(key, fmt::format("is not asked for, and its sender is more than {} MiB ahead",
                            early_limit_ / (1024 * 1024)));
  const bool copies = !device_ && header.bytes <= kCopiedEarly;
  message.segments.push_back(copies ? copy_of(segment) : std::move(segment));
}

/// The receive of early segments is posted.
void HostRank::count_as_asked(const Key& key, Message& message) {
  if (message.early == 0) return;
  early_[static_cast<std::size_t>(key.from)] -= message.early;
  message.early = 0;
}

/// At the end of an all-reduce: what nobody asked for will never be used.
void HostRank::refuse_leftovers() const {
  for (const auto& [key, message] : messages_)
    if (message.early > 0 && key.round == round_) refuse(key, "was never asked for");
}

void HostRank::refuse(const Key& key, const std::string& why) const {
  throw BadSegment(fmt::format("rank {}: a segment from rank {} ({}) {}", rank(), key.from,
                               describe_tag(key.tag), why));
}

void HostRank::check_segment(const Key& key, const SegmentHeader& header, const Pending& p) const {
  if (const std::string why = misfit(header, p.buffer.bytes(), size_of(p.buffer.type));
      !why.empty())
    throw BadSegment(fmt::format("rank {}: {} ({})", rank(), why, describe_tag(key.tag)));
}

/// Returns whether the receive is complete. Segments that may not be used yet stay in the port's
/// memory.
bool HostRank::use_segments(const Key& key, Message& message) {
  const Pending& p = at(message.recv);
  for (const Segment& segment : message.segments) check_segment(key, segment.header(), p);
  if (p.blockers > 0) return false;
  const std::size_t element = size_of(p.buffer.type);
  for (const Segment& segment : message.segments) {
    if (segment.device() >= 0) refuse_device_memory(key);
    put(message.recv, segment.data(), segment.header().offset / element,
        segment.header().bytes / element);
    message.placed += segment.header().bytes;
  }
  message.segments.clear();
  return message.placed >= p.buffer.bytes();
}

}  // namespace foreduce
