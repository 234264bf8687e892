#include "real/segment_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace foreduce {
namespace {

bool inside(const SegmentHeader& header) {
  return header.offset <= header.total && header.bytes <= header.total - header.offset;
}

}  // namespace

SegmentKind decode_segment(std::span<const std::byte> message, const SegmentRules& rules,
                           SegmentHeader& header) {
  if (message.size() < sizeof header) return SegmentKind::foreign;
  std::memcpy(&header, message.data(), sizeof header);
  if (header.token != rules.token) return SegmentKind::foreign;
  const std::size_t with_it = message.size() - sizeof header;
  // An empty segment of a message that is not empty would bring it no nearer to its end.
  if (header.from >= rules.ranks || !inside(header) || (header.bytes == 0) != (header.total == 0))
    return SegmentKind::malformed;
  const bool sound = header.data_number == 0
                         ? with_it == header.bytes
                         : with_it == 0 && header.bytes <= rules.device_bytes &&
                               header.alignment_offset < SegmentHeader::kAlignment;
  return sound ? SegmentKind::segment : SegmentKind::malformed;
}

std::string misfit(const SegmentHeader& header, std::uint64_t total, std::size_t element_bytes) {
  if (header.total != total)
    return fmt::format("{} bytes arrived from rank {} where {} were expected", header.total,
                       header.from, total);
  if (!inside(header))
    return fmt::format("rank {} sent {} bytes at offset {} of a message of {}", header.from,
                       header.bytes, header.offset, total);
  if (header.offset % element_bytes != 0 || header.bytes % element_bytes != 0)
    return fmt::format("rank {} sent {} bytes at offset {}, which are not whole elements of {}",
                       header.from, header.bytes, header.offset, element_bytes);
  return {};
}

bool ArrivedBytes::add(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return !std::exchange(empty_arrived_, true);
  const std::uint64_t end = offset + bytes;
  if (offset < first_) return false;
  const auto next = std::lower_bound(later_.begin(), later_.end(), std::pair{offset, end});
  if (next != later_.end() && next->first < end) return false;
  if (next != later_.begin() && std::prev(next)->second > offset) return false;
  if (offset != first_) {
    later_.insert(next, {offset, end});
    return true;
  }
  first_ = end;
  auto joined = later_.begin();
  for (; joined != later_.end() && joined->first == first_; ++joined) first_ = joined->second;
  later_.erase(later_.begin(), joined);
  return true;
}

}  // namespace foreduce
