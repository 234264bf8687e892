#include "algorithms/core/transport.hpp"

#include <fmt/format.h>

namespace foreduce {

struct Transport::Subset {
  Layout layout;
  std::vector<int> world_rank;  // of each member
};

namespace {
constexpr int kStepBits = 22, kSegmentBits = 20, kChannelBits = 8, kGroupBits = 12;

std::uint64_t field(int value, int bits, const char* name) {
  if (value < 0 || value >= (1 << bits))
    throw std::logic_error(fmt::format("tag: {} {} does not fit {} bits", name, value, bits));
  return static_cast<std::uint64_t>(value);
}
}  // namespace

std::string describe_tag(std::uint64_t tag) {
  const auto take = [&tag](int bits) {
    const auto value = tag & ((std::uint64_t{1} << bits) - 1);
    tag >>= bits;
    return value;
  };
  const auto step = take(kStepBits), segment = take(kSegmentBits), channel = take(kChannelBits);
  return fmt::format("step {}, segment {}, channel {}, group {}", step, segment, channel, take(kGroupBits));
}

int channel_of(std::uint64_t tag) {
  return static_cast<int>((tag >> (kStepBits + kSegmentBits)) & ((1u << kChannelBits) - 1));
}

std::uint64_t with_channel(std::uint64_t tag, int channel) {
  constexpr std::uint64_t all = ((std::uint64_t{1} << kChannelBits) - 1) << (kStepBits + kSegmentBits);
  return (tag & ~all) | field(channel, kChannelBits, "channel") << (kStepBits + kSegmentBits);
}

std::uint64_t with_other_half(std::uint64_t tag) { return tag ^ 2; }
bool is_other_half(std::uint64_t tag) { return (tag & 2) != 0; }

InSwitch in_switch_of(std::uint64_t tag) { return static_cast<InSwitch>(tag >> (kStepBits + kSegmentBits + kChannelBits + kGroupBits)); }

Transport::Transport(Backend& backend, const Layout& layout, int rank)
    : backend_(&backend), layout_(&layout), rank_(rank) {}

int Transport::checked_peer(int peer) const {
  if (peer < 0 || peer >= size() || peer == rank_)
    throw std::logic_error(fmt::format("rank {} of {}: no peer {}", rank_, size(), peer));
  return subset_ ? subset_->world_rank[static_cast<std::size_t>(peer)] : peer;
}

std::uint64_t Transport::packed(Tag tag) const {
  std::uint64_t bits = static_cast<std::uint64_t>(tag.in_switch);
  bits = (bits << kGroupBits) | field(group_, kGroupBits, "group");
  bits = (bits << kChannelBits) | field(tag.channel, kChannelBits, "channel");
  bits = (bits << kSegmentBits) | field(tag.segment, kSegmentBits, "segment");
  return (bits << kStepBits) | field(tag.step, kStepBits, "step");
}

Event Transport::send(int to, Tag tag, Buffer data, Event after) {
  backend_->traffic_.messages_sent += 1;
  backend_->traffic_.elements_sent += data.count;
  return backend_->do_send(checked_peer(to), packed(tag), data, after);
}

Event Transport::recv(int from, Tag tag, Buffer into) {
  return backend_->do_recv(checked_peer(from), packed(tag), into);
}

Event Transport::recv_reduce(int from, Tag tag, Buffer into, Op op) {
  return backend_->do_recv_reduce(checked_peer(from), packed(tag), into, op);
}

Event Transport::join(std::span<const Event> events) { return backend_->do_join(events); }
void Transport::wait(Event event) { backend_->do_wait(event); }
void Transport::wait_all() { backend_->do_wait_all(); }
double Transport::now() const { return backend_->do_now(); }

Transport Transport::subset(std::span<const int> ranks, int group) const {
  auto members = std::make_shared<Subset>();
  members->layout = layout_->subset(ranks);
  Transport part;
  part.backend_ = backend_;
  part.rank_ = -1;
  part.group_ = group;
  for (const int r : ranks) {
    if (r == rank_) part.rank_ = static_cast<int>(members->world_rank.size());
    members->world_rank.push_back(subset_ ? subset_->world_rank[static_cast<std::size_t>(r)] : r);
  }
  if (part.rank_ < 0) throw std::logic_error(fmt::format("rank {} is not in its own subset", rank_));
  part.layout_ = &members->layout;
  part.subset_ = std::move(members);
  return part;
}

}  // namespace foreduce
