// What a receiver's checks of the network cost: the run's token, the header of every segment and
// which bytes of its message came. A counter compares them with the least that the bytes need
// otherwise, one copy, in the same run; sockets, the scheduler and the wire come on top of that.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include "real/segment_header.hpp"

namespace foreduce {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A message of `bytes` as the segments in which it travels.
std::vector<std::vector<std::byte>> segments_of(std::uint64_t bytes, std::uint64_t most,
                                                const RunToken& token) {
  std::vector<std::vector<std::byte>> segments;
  for (std::uint64_t offset = 0; offset < bytes; offset += most) {
    const std::uint64_t length = std::min(most, bytes - offset);
    SegmentHeader header;
    header.from = 1;
    header.total = bytes;
    header.offset = offset;
    header.bytes = length;
    header.token = token;
    segments.emplace_back(sizeof header + length);
    std::memcpy(segments.back().data(), &header, sizeof header);
  }
  return segments;
}

/// Arguments: bytes of the message, bytes of a segment.
void segment_checks(benchmark::State& state) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  const RunToken token{37, 41};
  const SegmentRules rules{token, 2, 0};
  const auto segments = segments_of(bytes, static_cast<std::uint64_t>(state.range(1)), token);
  std::vector<std::byte> into(bytes);
  double checks = 0, copies = 0;
  for (auto _ : state) {
    auto start = Clock::now();
    ArrivedBytes arrived;
    for (const auto& segment : segments) {
      SegmentHeader header;
      const bool sound = decode_segment(segment, rules, header) == SegmentKind::segment &&
                         misfit(header, bytes, sizeof(float)).empty() &&
                         arrived.add(header.offset, header.bytes);
      if (!sound) state.SkipWithError("a sound segment was refused");
    }
    checks += seconds_since(start);
    start = Clock::now();
    std::uint64_t offset = 0;
    for (const auto& segment : segments) {
      const std::uint64_t length = segment.size() - sizeof(SegmentHeader);
      std::memcpy(into.data() + offset, segment.data() + sizeof(SegmentHeader), length);
      offset += length;
    }
    benchmark::ClobberMemory();
    copies += seconds_since(start);
  }
  const auto times = static_cast<double>(state.iterations());
  state.counters["checks_ns"] = checks / times * 1e9;
  state.counters["copy_ns"] = copies / times * 1e9;
}
BENCHMARK(segment_checks)
    ->ArgNames({"bytes", "segment"})
    ->Args({8, 262144})
    ->Args({16 << 20, 262144});

}  // namespace
}  // namespace foreduce
