// Inside the libfabric module: how segments are sent and received on one endpoint.
#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "real/ofi_rail.hpp"

namespace foreduce::ofi {
namespace {

void* descriptor(fid_mr* region) { return region ? fi_mr_desc(region) : nullptr; }

}  // namespace

OutgoingMessage* OutgoingMessages::add(Event send, std::size_t parts) {
  OutgoingMessage* message = nullptr;
  if (free_.empty()) {
    message = &all_.emplace_back();
  } else {
    message = free_.back();
    free_.pop_back();
  }
  *message = {send, parts};
  return message;
}

void OutgoingMessages::part_sent(OutgoingMessage* message, PortUser& user) {
  if (--message->parts_left > 0) return;
  const Event send = message->send;
  free_.push_back(message);
  user.sent(send);
}

void Rail::receive(std::byte* into, std::size_t bytes, fid_mr* region, std::uint64_t tag,
                   Operation& operation) {
  long code = -FI_EAGAIN;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while ((code = fi_trecv(endpoint_.get(), into, bytes, descriptor(region), FI_ADDR_UNSPEC, tag, 0,
                          &operation.provider_space)) == -FI_EAGAIN &&
         std::chrono::steady_clock::now() < until)
    fi_cq_read(completions_.get(), nullptr, 0);
  check(code, "posting a receive");  // -FI_EAGAIN: the provider had no room for so long
}

void Rail::post_receive() {
  Slot* slot = new_slot();
  receive(slot->memory, slot_bytes(), slot->region, kHeaderTag, *slot);
}

/// Posts receives for data that was announced, as many as options allow.
void Rail::post_bounce_receives() {
  for (; !announced_.empty() && bounce_receives_ < posted_receives_;
       announced_.pop_front(), ++bounce_receives_) {
    BounceBuffer* buffer = new_bounce_buffer();
    buffer->header = announced_.front();
    const SegmentHeader& header = buffer->header;
    receive(buffer->memory + header.alignment_offset, header.bytes, buffer->region,
            data_tag(header), *buffer);
  }
}

std::uint32_t Rail::next_data_number() {
  if (++data_number_ == 0) ++data_number_;  // 0 means that the data comes with its header
  return data_number_;
}

void Rail::start(int to, const SegmentHeader& header, const std::byte* data,
                 OutgoingMessage* message, Part part) {
  OutgoingSegment* segment = new_outgoing();
  segment->header = header;
  segment->header.token = token_;
  segment->part = part;
  segment->data = data;
  segment->message = message;
  segment->to = to;
  segment->region = nullptr;
  const bool with_data = header.bytes > 0 && part != Part::header_only;
  if (with_data && (part == Part::data_only || registers_)) {
    if (const Region* known = region_of(data, header.bytes)) {
      segment->region = known->region.get();
    } else if (part == Part::data_only) {
      throw TransportError(
          fmt::format("rank {}: memory that is being sent to rank {} was detached ({})",
                      header.from, to, describe_tag(header.tag)));
    } else {
      segment->copied = new_slot();
      std::memcpy(segment->copied->memory, &segment->header, sizeof segment->header);
      std::memcpy(segment->copied->memory + sizeof segment->header, data, header.bytes);
    }
  }
  if (backlog_.contains(to) || !try_send(*segment)) backlog_[to].push_back(segment);
}

/// Returns false if the provider is full for now.
bool Rail::try_send(OutgoingSegment& segment) {
  SegmentHeader& header = segment.header;
  const fi_addr_t peer = peers_[static_cast<std::size_t>(segment.to)];
  void* const context = &segment.provider_space;
  long code = 0;
  if (segment.part == Part::data_only) {
    code = fi_tsend(endpoint_.get(), segment.data, header.bytes, fi_mr_desc(segment.region), peer,
                    data_tag(header), context);
  } else if (segment.copied) {
    code = fi_tsend(endpoint_.get(), segment.copied->memory, sizeof header + header.bytes,
                    fi_mr_desc(segment.copied->region), peer, kHeaderTag, context);
  } else {
    const iovec parts[2] = {{&header, sizeof header},
                            {const_cast<std::byte*>(segment.data), header.bytes}};
    void* descriptors[2] = {descriptor(segment.own_region), descriptor(segment.region)};
    const std::size_t count = header.bytes == 0 || segment.part == Part::header_only ? 1 : 2;
    code = fi_tsendv(endpoint_.get(), parts, descriptors, count, peer, kHeaderTag, context);
  }
  if (code == -FI_EAGAIN) return false;
  if (code != 0)
    fail(fmt::format("rank {}: sending {} bytes to rank {} ({})", header.from, header.bytes,
                     segment.to, describe_tag(header.tag)),
         code);
  ++sends_posted_;
  return true;
}

bool Rail::send_backlog() {
  bool any = false;
  for (auto peer = backlog_.begin(); peer != backlog_.end();) {
    auto& waiting = peer->second;
    for (; !waiting.empty() && try_send(*waiting.front()); any = true) waiting.pop_front();
    peer = waiting.empty() ? backlog_.erase(peer) : std::next(peer);
  }
  return any;
}

bool Rail::complete(PortUser& user, OutgoingMessages& messages) {
  fi_cq_tagged_entry entries[16];
  const auto count = fi_cq_read(completions_.get(), entries, 16);
  if (count == -FI_EAGAIN || count == 0) return false;
  if (count == -FI_EAVAIL) {
    handle_error();
    return false;
  }
  if (count < 0) fail("reading the completion queue", count);
  bool any = false;  // foreign messages are no progress: they must not hide that the run is stuck
  for (long i = 0; i < count; ++i) {
    auto* operation = reinterpret_cast<Operation*>(entries[i].op_context);
    switch (operation->kind) {
      case Operation::Kind::send:
        finish_send(static_cast<OutgoingSegment*>(operation), user, messages);
        any = true;
        break;
      case Operation::Kind::bounce:
        finish_bounce(static_cast<BounceBuffer*>(operation), entries[i].len, user);
        any = true;
        break;
      case Operation::Kind::receive:
        any |= finish_receive(static_cast<Slot*>(operation), entries[i].len, user);
        break;
    }
  }
  post_bounce_receives();
  return any;
}

void Rail::finish_send(OutgoingSegment* segment, PortUser& user, OutgoingMessages& messages) {
  --sends_posted_;
  if (segment->copied) free_slots_.push_back(segment->copied);
  segment->copied = nullptr;
  OutgoingMessage* message = segment->message;
  free_outgoing_.push_back(segment);
  messages.part_sent(message, user);
}

void Rail::finish_bounce(BounceBuffer* buffer, std::size_t bytes, PortUser& user) {
  --bounce_receives_;
  const SegmentHeader header = buffer->header;
  if (bytes != header.bytes)
    throw TransportError(
        fmt::format("libfabric: rank {} announced {} bytes from its device and sent {} ({})",
                    header.from, header.bytes, bytes, describe_tag(header.tag)));
  user.arrived(Segment(
      header, buffer->memory + header.alignment_offset,
      [this, buffer] { free_bounce_buffers_.push_back(buffer); }, buffer->device));
}

/// Returns whether the message is from this run.
bool Rail::finish_receive(Slot* slot, std::size_t bytes, PortUser& user) {
  post_receive();  // before anything else, so that senders find a receive
  SegmentHeader header;
  const SegmentRules rules{token_, peers_.size(), kDeviceSegmentBytes};
  const SegmentKind kind = decode_segment({slot->memory, bytes}, rules, header);
  if (kind == SegmentKind::foreign) {
    drop(slot);
    return false;
  }
  if (kind == SegmentKind::segment && header.data_number == 0) {
    user.arrived(Segment(header, slot->memory + sizeof header,
                         [this, slot] { free_slots_.push_back(slot); }));
    return true;
  }
  free_slots_.push_back(slot);
  if (kind == SegmentKind::malformed)
    throw TransportError(
        fmt::format("the header of a segment from rank {} contradicts itself", header.from));
  if (announced_.size() >= kAnnouncedAtMost)
    throw TransportError(
        fmt::format("{} segments were announced from devices and did not come", announced_.size()));
  announced_.push_back(header);
  return true;
}

/// Forgets a message that is not from this run.
void Rail::drop(Slot* slot) {
  free_slots_.push_back(slot);
  ++foreign_messages_;
  static std::atomic_flag said;
  if (!said.test_and_set())
    fmt::print(stderr,
               "foreduce: a message without the run's token was dropped: another program can reach "
               "a rank's port (said once)\n");
}

/// Throws the error that the completion queue holds. No rank of the run sends more than a slot
/// holds, so what is longer is dropped.
void Rail::handle_error() {
  fi_cq_err_entry error{};
  if (fi_cq_readerr(completions_.get(), &error, 0) < 0)
    fail("reading the completion queue's error", FI_EOTHER);
  std::string doing = "receiving";
  auto* operation = reinterpret_cast<Operation*>(error.op_context);
  if (operation && operation->kind == Operation::Kind::receive && error.err == FI_ETRUNC) {
    post_receive();
    return drop(static_cast<Slot*>(operation));
  }
  if (operation && operation->kind == Operation::Kind::send) {
    const auto* segment = static_cast<const OutgoingSegment*>(operation);
    const SegmentHeader& header = segment->header;
    doing = fmt::format("rank {}: send to rank {} ({}), {} bytes", header.from, segment->to,
                        describe_tag(header.tag), header.bytes);
  }
  char text[256] = "";
  const char* why =
      fi_cq_strerror(completions_.get(), error.prov_errno, error.err_data, text, sizeof text);
  throw TransportError(
      fmt::format("libfabric: {}: {} ({})", doing, fi_strerror(error.err), why ? why : ""));
}

}  // namespace foreduce::ofi
