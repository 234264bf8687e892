// The header in front of every segment on the network: its layout, and what is checked before
// anything in it is believed. Everything here is a pure function of bytes, and a fuzzer's target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "real/run_token.hpp"

namespace foreduce {

/// In the byte order of the hosts, which must be the same everywhere.
struct SegmentHeader {
  std::uint32_t from = 0;   ///< rank
  std::uint32_t round = 0;  ///< how many all-reduces this rank had finished
  std::uint64_t tag = 0;
  std::uint64_t total = 0;   ///< bytes of the whole message
  std::uint64_t offset = 0;  ///< of this segment within the message, in bytes
  std::uint64_t bytes = 0;   ///< of this segment
  /// If not 0, the bytes come from a device. They then travel in a message of their own with this
  /// number.
  std::uint32_t data_number = 0;
  /// Address of those bytes modulo kAlignment. The receiver places them with the same offset,
  /// because reduces take 16 bytes at once.
  std::uint32_t alignment_offset = 0;
  RunToken token = {};  ///< of the run; the port sets it
  static constexpr std::size_t kAlignment = 16;
};
static_assert(sizeof(SegmentHeader) == 64);

/// What a port knows about the segments of its run.
struct SegmentRules {
  RunToken token;
  std::size_t ranks = 0;         ///< of the run
  std::size_t device_bytes = 0;  ///< of the largest segment that comes from a device
};

/// What a message is that should begin with a header.
enum class SegmentKind : std::uint8_t {
  segment,   ///< the header is consistent in itself
  foreign,   ///< too short, or without the run's token: not from this run
  malformed  ///< from this run, and contradicts itself
};

/// Reads the header at the beginning of `message`, which is everything that arrived together.
/// `header` is set unless the message is too short for one.
SegmentKind decode_segment(std::span<const std::byte> message, const SegmentRules& rules,
                           SegmentHeader& header);

/// Why a segment does not belong into a receive of `total` bytes, whose elements have
/// `element_bytes` each; empty if it does.
std::string misfit(const SegmentHeader& header, std::uint64_t total, std::size_t element_bytes);

/// Which bytes of a message have arrived.
class ArrivedBytes {
 public:
  /// Adds a segment. Returns false and adds nothing if a part of it had arrived already.
  bool add(std::uint64_t offset, std::uint64_t bytes);

 private:
  std::uint64_t first_ = 0;     // all before this have arrived
  bool empty_arrived_ = false;  // the only segment of an empty message
  /// Begin and end of what arrived beyond them, ascending; empty while segments come in order.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> later_;
};

}  // namespace foreduce
