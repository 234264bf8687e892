// Tags in 64 bits. A file of its own, because what moves bytes from a module of its own names tags
// too.
#include <fmt/format.h>

#include "algorithms/core/transport.hpp"

namespace foreduce {
namespace {
std::uint64_t field(int value, int bits, const char* name) {
  if (value < 0 || value >= (1 << bits))
    throw std::logic_error(fmt::format("tag: {} {} does not fit {} bits", name, value, bits));
  return static_cast<std::uint64_t>(value);
}
}  // namespace

std::uint64_t pack(const Tag& tag, int group) {
  std::uint64_t bits = static_cast<std::uint64_t>(tag.in_switch);
  bits = (bits << TagBits::group) | field(group, TagBits::group, "group");
  bits = (bits << TagBits::channel) | field(tag.channel, TagBits::channel, "channel");
  bits = (bits << TagBits::half) | static_cast<std::uint64_t>(tag.half);
  bits = (bits << TagBits::segment) | field(tag.segment, TagBits::segment, "segment");
  bits = (bits << TagBits::packed) | static_cast<std::uint64_t>(tag.packed);
  return (bits << TagBits::step) | field(tag.step, TagBits::step, "step");
}

std::string describe_tag(std::uint64_t tag) {
  const auto take = [&tag](int bits) {
    const auto value = tag & ((std::uint64_t{1} << bits) - 1);
    tag >>= bits;
    return value;
  };
  const auto step = take(TagBits::step);
  take(TagBits::packed);
  const auto segment = take(TagBits::segment), half = take(TagBits::half),
             channel = take(TagBits::channel);
  return fmt::format("step {}, segment {}{}, channel {}, group {}", step, segment,
                     half == 1 ? ", second tree" : "", channel, take(TagBits::group));
}

std::uint64_t with_channel(std::uint64_t tag, int channel) {
  constexpr std::uint64_t all = ((std::uint64_t{1} << TagBits::channel) - 1) << TagBits::channel_at;
  return (tag & ~all) | field(channel, TagBits::channel, "channel") << TagBits::channel_at;
}

std::uint64_t with_other_half(std::uint64_t tag) {
  return tag ^ std::uint64_t{1} << TagBits::half_at;
}

}  // namespace foreduce
