#include "real/host_rank.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "real/host_rank_messages.hpp"

namespace foreduce {

using Clock = std::chrono::steady_clock;

namespace {
/// Bytes of a staged segment, which is sent while the next one is copied from the device. The copy
/// runs at full rate from this size on, and its time is short compared with the network's.
constexpr std::size_t kStagedSegment = 1024 * 1024;

/// Counts one read of a peer's memory while it lives.
class Reading {
 public:
  explicit Reading(std::atomic<int>& reads) : reads_(reads) { ++reads_; }
  Reading(const Reading&) = delete;
  ~Reading() { --reads_; }

 private:
  std::atomic<int>& reads_;
};

}  // namespace

HostRanks::~HostRanks() {
  for (const auto& rank : by_rank) {
    if (!rank || !rank->device()) continue;
    try {
      rank->device()->drain();
    } catch (const std::exception&) {  // a device that failed runs nothing any more
    }
  }
}

void HostRanks::stop(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    reason_ = why;
    stopped_ = true;
  }
  for (const auto& rank : by_rank)
    if (rank) rank->wake();
}

std::string HostRanks::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

std::size_t HostRank::KeyHash::operator()(const Key& k) const {
  return static_cast<std::size_t>(
      (k.tag + (static_cast<std::uint64_t>(k.from) << 32 ^ k.round) * 0x9E3779B97F4A7C15u) *
      0xD6E8FEB86659FD93u);
}

HostRank::HostRank(HostRanks& ranks, int rank, std::unique_ptr<Port> port,
                   std::unique_ptr<RankDevice> device)
    : LedgerBackend(rank),
      ranks_(ranks),
      port_(std::move(port)),
      device_(std::move(device)),
      wake_up_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (wake_up_fd_ < 0)
    throw TransportError(fmt::format("rank {}: no eventfd: {}", rank, std::strerror(errno)));
  if (!port_ || !device_) return;
  try {
    port_->on_memory([this](std::byte* base, std::size_t bytes) { device_->pin(base, bytes); });
    gpudirect_ = device_->can_sync_network_writes() &&
                 port_->use_device(device_->number(), [this](std::size_t bytes) {
                   return device_->allocate_with_reserve(bytes);
                 });
  } catch (...) {
    release_resources();
    ::close(wake_up_fd_);
    throw;
  }
}

HostRank::~HostRank() {
  release_resources();
  ::close(wake_up_fd_);
}

void HostRank::release_resources() {
  messages_.clear();  // segments must go back to the port first
  jobs_.clear();
  staged_.clear();
  if (device_) device_->unpin();
  port_.reset();  // unregisters the device's memory, so it must end before the device
}

HostRank::Attachment HostRank::attach(Buffer data) {
  if (!port_ || data.phantom() || data.count == 0) return {};
  const bool on_device = device_ && device_->holds(data.data());
  if (on_device && !gpudirect_) return {};  // its bytes go through host memory
  const bool attached = on_device ? port_->attach_device(data.data(), data.bytes())
                                  : port_->attach(data.data(), data.bytes());
  return Attachment(data.data(), Detach{attached ? port_.get() : nullptr});
}

void HostRank::next_round() {
  if (reading_peers_ != 0)
    throw std::logic_error(
        fmt::format("rank {} still counts reads of other ranks' memory", rank()));
  forget();
  if (std::any_of(early_.begin(), early_.end(), [](std::size_t bytes) { return bytes > 0; }))
    stop_all_on_failure([&] { refuse_leftovers(); });
  ++round_;
}

void HostRank::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written =
      ::write(wake_up_fd_, &one, sizeof one);  // full: it was woken already
}

void HostRank::deliver(MailboxMessage&& message) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(message);
  }
  inbox_filled_ = true;
  if (asleep_) wake();
}

void HostRank::send_ready(Event send) {
  stop_all_on_failure([&] {
    const Pending& p = at(send);
    HostRank* peer = peer_in_process(p.peer);
    const std::byte* bytes = p.buffer.data();
    const bool on_device = device_ && device_->holds(bytes);
    if (on_device && gpudirect_ && !peer && port_->sends_from(bytes, p.buffer.bytes()))
      return send_gpudirect(send);
    if (on_device && !(peer && peer->device_)) return stage(send);
    if (peer)
      peer->deliver({{rank(), round_, p.tag},
                     send,
                     on_device ? device_->source(bytes) : DeviceBytes{bytes, -1, nullptr},
                     p.buffer.bytes(),
                     false});
    else
      port_->send(p.peer,
                  {static_cast<std::uint32_t>(rank()), round_, p.tag, p.buffer.bytes(), 0,
                   p.buffer.bytes()},
                  send, bytes);
  });
}

/// From the device to the network, as soon as the rank's copies there are done. The verbs before it
/// are, or the ledger would not send yet.
void HostRank::send_gpudirect(Event send) {
  const Pending& p = at(send);
  Job job{
      .key = {rank(), round_, p.tag}, .send = send, .gpudirect = true, .bytes = p.buffer.bytes()};
  if (device_->copies_done()) return forward(job);
  device_->fetch(nullptr, nullptr, 0);
  jobs_.push_back(std::move(job));
}

/// From the device through host memory: at once to a rank of this process, in segments to a port.
void HostRank::stage(Event send) {
  const Pending& p = at(send);
  const bool to_network = !peer_in_process(p.peer);
  const std::size_t bytes = p.buffer.bytes(),
                    segment = to_network ? kStagedSegment : std::max<std::size_t>(bytes, 1);
  Staged& staged = staged_[send.id] = {device_->allocate_pinned(bytes),
                                       std::max<std::size_t>(1, (bytes + segment - 1) / segment)};
  if (port_ && bytes > 0) port_->attach(staged.memory.get(), bytes);
  if (to_network) staged_to_network_ = true;
  for (std::size_t i = 0; i < staged.segments; ++i) {
    Job job{.key = {rank(), round_, p.tag},
            .send = send,
            .offset = i * segment,
            .bytes = std::min(segment, bytes - i * segment)};
    device_->fetch(staged.memory.get() + job.offset, p.buffer.data() + job.offset, job.bytes);
    jobs_.push_back(std::move(job));
  }
}

/// Sends on what has left the device, or what may leave it now.
void HostRank::forward(const Job& job) {
  const Pending& p = at(job.send);
  const std::byte* bytes =
      job.gpudirect ? p.buffer.data() : staged_.at(job.send.id).memory.get() + job.offset;
  if (HostRank* peer = peer_in_process(p.peer))
    peer->deliver({job.key, job.send, {bytes, -1, nullptr}, job.bytes, false});
  else
    port_->send(p.peer,
                {static_cast<std::uint32_t>(rank()), job.key.round, p.tag, p.buffer.bytes(),
                 job.offset, job.bytes},
                job.send, bytes);
}

void HostRank::segment_sent(Event send) {
  if (const auto staged = staged_.find(send.id); staged != staged_.end()) {
    if (--staged->second.segments > 0) return;
    staged_.erase(staged);
  }
  finish(send);
}

void HostRank::recv_posted(Event recv) {
  const Key key{at(recv).peer, round_, at(recv).tag};
  Message& message = messages_[key];
  if (message.recv.id != 0)
    throw std::logic_error(fmt::format("rank {}: {} from rank {} is posted twice", rank(),
                                       describe_tag(key.tag), key.from));
  message.recv = recv;
  count_as_asked(key, message);
  if (message.from_peer || !message.segments.empty())
    stop_all_on_failure([&] { use(key, message); });
}

void HostRank::may_write(Event recv) {
  const Key key{at(recv).peer, round_, at(recv).tag};
  use(key, messages_.at(key));
}

void HostRank::check_size(const Key& key, std::uint64_t bytes, const Pending& p) const {
  if (bytes != p.buffer.bytes())
    throw TransportError(
        fmt::format("rank {}: {} bytes arrived from rank {} where {} were expected ({})", rank(),
                    bytes, key.from, p.buffer.bytes(), describe_tag(key.tag)));
}

void HostRank::refuse_device_memory(const Key& key) const {
  throw TransportError(
      fmt::format("rank {}: device memory arrived from rank {} for host memory ({})", rank(),
                  key.from, describe_tag(key.tag)));
}

void HostRank::throw_if_stopped() const {
  if (ranks_.stopped())
    throw TransportError(fmt::format("rank {}: {}; it waited for:\n{}", rank(), ranks_.reason(),
                                     describe_pending(1)));
}

std::size_t HostRank::arrived_bytes(Event recv) const {
  const auto message = messages_.find({at(recv).peer, round_, at(recv).tag});
  return message == messages_.end() ? 0 : message->second.arrived;
}

/// Called when bytes have arrived and the receive is posted. Puts them in their place if no earlier
/// verb still needs the elements there; if one does, copies a peer's bytes so that the peer may go
/// on.
void HostRank::use(const Key& key, Message& message) {
  const Event recv = message.recv;
  Pending& p = at(recv);
  if (device_ && device_->holds(p.buffer.data())) return use_device(key, message);
  if (p.blockers > 0) p.arrived = true;
  if (message.from_peer) {
    if (!use_from_peer(key, message)) return;
  } else if (!message.segments.empty()) {
    if (!use_segments(key, message)) return;
  } else if (!message.aside.empty()) {
    put(recv, message.aside.data());
    spare_.push_back(std::move(message.aside));
  }
  messages_.erase(key);
  finish(recv);
}

/// Returns whether the receive is complete; if not, the bytes are set aside.
bool HostRank::use_from_peer(const Key& key, Message& message) {
  const MailboxMessage from_peer = *message.from_peer;
  const Pending& p = at(message.recv);
  const bool free = p.blockers == 0;
  check_size(key, from_peer.size, p);
  if (from_peer.source.device >= 0) refuse_device_memory(key);
  const std::byte* bytes = from_peer.source.bytes;
  // The peer's memory stays until the ranks are stopped and, after that, until nobody reads it: see
  // stop_all_on_failure().
  {
    const Reading reading(reading_peers_);
    if (ranks_.stopped()) {
    } else if (free) {
      put(message.recv, bytes);
    } else if (bytes) {
      if (!spare_.empty()) {
        message.aside = std::move(spare_.back());
        spare_.pop_back();
      }
      message.aside.assign(bytes, bytes + from_peer.size);
    }
  }
  throw_if_stopped();
  message.from_peer.reset();
  peer_in_process(key.from)->deliver({key, from_peer.send, {}, 0, true});
  return free;
}

/// The same for elements on the device: starts operations whose end collect_jobs() will see.
void HostRank::use_device(const Key& key, Message& message) {
  Pending& p = at(message.recv);
  const bool free = p.blockers == 0;
  const std::optional<Op> op = p.verb == Verb::recv_reduce ? std::optional(p.op) : std::nullopt;
  const std::size_t all = p.buffer.bytes();
  p.arrived = true;
  if (message.from_peer) {
    const MailboxMessage from_peer = *message.from_peer;
    check_size(key, from_peer.size, p);
    // As in use_from_peer(), but the device reads on its own until collect_jobs() sees it finished,
    // or stop_all_on_failure() waits.
    const bool reads_peer = from_peer.source.device < 0;
    if (reads_peer) ++reading_peers_;
    throw_if_stopped();
    if (free) device_->put(p.buffer, op, from_peer.source);
    else message.aside_on_device = device_->set_aside(p.buffer, from_peer.source);
    message.from_peer.reset();
    jobs_.push_back({.key = key,
                     .release = from_peer.send,
                     .reads_peer = reads_peer,
                     .places = free ? all : 0,
                     .completes = free});
  } else if (message.aside_on_device) {
    device_->put_aside(p.buffer, op, message.aside_on_device);
    jobs_.push_back({.key = key, .places = all, .completes = true});
  } else {
    for (const Segment& segment : message.segments) check_segment(key, segment.header(), p);
    if (!free) return;
    const std::size_t element = size_of(p.buffer.type);
    for (Segment& segment : message.segments) {
      const SegmentHeader& header = segment.header();
      const Buffer into{p.buffer.base, p.buffer.offset + header.offset / element,
                        header.bytes / element, p.buffer.type};
      if (segment.device() >= 0) device_->sync_network_writes();
      device_->put(into, op, {segment.data(), segment.device(), nullptr});
      jobs_.push_back({.key = key,
                       .places = header.bytes,
                       .completes = true,
                       .segment = std::make_shared<Segment>(std::move(segment))});
    }
    message.segments.clear();
  }
}

bool HostRank::collect_jobs() {
  bool any = false;
  for (; !jobs_.empty() && device_->finished(); any = true) {
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    if (job.send.id != 0) {
      forward(job);
      continue;
    }
    if (job.reads_peer) --reading_peers_;
    if (job.release.id != 0)
      peer_in_process(job.key.from)->deliver({job.key, job.release, {}, 0, true});
    if (!job.completes) continue;
    const auto found = messages_.find(job.key);
    Message& message = found->second;
    message.placed += job.places;
    const Event recv = message.recv;
    if (message.placed < at(recv).buffer.bytes()) continue;
    messages_.erase(found);
    finish(recv);
  }
  return any;
}

void HostRank::sent(Event send) { segment_sent(send); }

bool HostRank::read_inbox() {
  if (!inbox_filled_.exchange(false)) return false;
  {
    const std::lock_guard lock(mutex_);
    being_read_.swap(inbox_);
  }
  for (const MailboxMessage& one : being_read_) {
    if (one.released) {
      segment_sent(one.send);
      continue;
    }
    Message& message = messages_[one.key];
    message.from_peer = one;
    if (message.recv.id != 0) use(one.key, message);
  }
  const bool any = !being_read_.empty();
  being_read_.clear();
  return any;
}

bool HostRank::progress() {
  const bool messages = read_inbox();
  const bool jobs = collect_jobs();
  const bool segments = port_ && port_->progress(*this);
  return messages || jobs || segments;
}

}  // namespace foreduce
