// libFuzzer: any bytes are segments of one message that are placed once and inside, or refused.
// Build with the preset dev, run build/dev/tests/fuzz_segment -max_total_time=60 CORPUS
// tests/fuzz/segments
#include <cstdlib>
#include <cstring>
#include <vector>

#include "real/segment_header.hpp"

namespace {

constexpr std::size_t kMessage = 4096, kElement = 4;

void expect(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreduce;
  const SegmentRules rules{{1, 2}, 4, 1024 * 1024};
  ArrivedBytes arrived;
  std::vector<bool> placed(kMessage);
  std::vector<std::byte> message;
  // Each round takes a header and the number of bytes after it.
  constexpr std::size_t kTaken = sizeof(SegmentHeader) + 2;
  for (; size >= kTaken; data += kTaken, size -= kTaken) {
    std::uint16_t with_it = 0;
    std::memcpy(&with_it, data + sizeof(SegmentHeader), sizeof with_it);
    message.assign(sizeof(SegmentHeader) + with_it, std::byte{});
    std::memcpy(message.data(), data, sizeof(SegmentHeader));
    SegmentHeader header;
    if (decode_segment(message, rules, header) != SegmentKind::segment) continue;
    expect(header.token == rules.token && header.from < rules.ranks);
    if (!misfit(header, kMessage, kElement).empty()) continue;
    expect(header.offset <= kMessage && header.bytes <= kMessage - header.offset);
    bool fresh = true;
    for (std::size_t i = 0; i < header.bytes; ++i) fresh = fresh && !placed[header.offset + i];
    expect(arrived.add(header.offset, header.bytes) == fresh);
    for (std::size_t i = 0; fresh && i < header.bytes; ++i) placed[header.offset + i] = true;
  }
  SegmentHeader header;
  expect(size >= sizeof header || decode_segment(std::as_bytes(std::span(data, size)), rules,
                                                 header) == SegmentKind::foreign);
  return 0;
}
