// Tags in 64 bits. A file of its own, because what moves bytes from a module of its own names tags
// too.
#include <fmt/format.h>

#include "algorithms/core/transport.hpp"

namespace foreduce {
namespace {
constexpr int kStepBits = 20, kPackedBits = 1, kSegmentBits = 20, kHalfBits = 1, kChannelBits = 8,
              kGroupBits = 12;
constexpr int kSegmentAt = kStepBits + kPackedBits,
              kChannelAt = kSegmentAt + kSegmentBits + kHalfBits;
constexpr std::uint64_t kIsPacked = std::uint64_t{1} << kStepBits,
                        kSecondHalf = std::uint64_t{1} << (kSegmentAt + kSegmentBits);

std::uint64_t field(int value, int bits, const char* name) {
  if (value < 0 || value >= (1 << bits))
    throw std::logic_error(fmt::format("tag: {} {} does not fit {} bits", name, value, bits));
  return static_cast<std::uint64_t>(value);
}
}  // namespace

std::uint64_t pack(const Tag& tag, int group) {
  std::uint64_t bits = static_cast<std::uint64_t>(tag.in_switch);
  bits = (bits << kGroupBits) | field(group, kGroupBits, "group");
  bits = (bits << kChannelBits) | field(tag.channel, kChannelBits, "channel");
  bits = (bits << kHalfBits) | static_cast<std::uint64_t>(tag.half);
  bits = (bits << kSegmentBits) | field(tag.segment, kSegmentBits, "segment");
  bits = (bits << kPackedBits) | static_cast<std::uint64_t>(tag.packed);
  return (bits << kStepBits) | field(tag.step, kStepBits, "step");
}

std::string describe_tag(std::uint64_t tag) {
  const auto take = [&tag](int bits) {
    const auto value = tag & ((std::uint64_t{1} << bits) - 1);
    tag >>= bits;
    return value;
  };
  const auto step = take(kStepBits);
  take(kPackedBits);
  const auto segment = take(kSegmentBits), half = take(kHalfBits), channel = take(kChannelBits);
  return fmt::format("step {}, segment {}{}, channel {}, group {}", step, segment,
                     half == 1 ? ", second tree" : "", channel, take(kGroupBits));
}

int channel_of(std::uint64_t tag) {
  return static_cast<int>((tag >> kChannelAt) & ((1u << kChannelBits) - 1));
}

std::uint64_t with_channel(std::uint64_t tag, int channel) {
  constexpr std::uint64_t all = ((std::uint64_t{1} << kChannelBits) - 1) << kChannelAt;
  return (tag & ~all) | field(channel, kChannelBits, "channel") << kChannelAt;
}

std::uint64_t with_other_half(std::uint64_t tag) { return tag ^ kSecondHalf; }
bool is_packed(std::uint64_t tag) { return (tag & kIsPacked) != 0; }
bool is_second_half(std::uint64_t tag) { return (tag & kSecondHalf) != 0; }

int group_of(std::uint64_t tag) {
  return static_cast<int>((tag >> (kChannelAt + kChannelBits)) & ((1u << kGroupBits) - 1));
}

InSwitch in_switch_of(std::uint64_t tag) {
  return static_cast<InSwitch>(tag >> (kChannelAt + kChannelBits + kGroupBits));
}

}  // namespace foreduce
