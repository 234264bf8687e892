#include "real/host_rank.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <thread>

namespace foreduce {

using Clock = std::chrono::steady_clock;

namespace {
/// Sent while the next is copied from the device: long enough for the copy to run at its rate, short beside what a network sends
/// meanwhile.
constexpr std::size_t kStagedPart = 1024 * 1024;

/// Says so while it lives.
class Reading {
 public:
  explicit Reading(std::atomic<int>& places) : places_(places) { ++places_; }
  Reading(const Reading&) = delete;
  ~Reading() { --places_; }

 private:
  std::atomic<int>& places_;
};

}  // namespace

/// "My bytes are ready for you", or, released, "I have read yours".
struct HostRank::Letter {
  Key key;
  Event send{};  // the sender's event, named back when the bytes have been read
  DeviceBytes source;
  std::size_t size = 0;  // bytes
  bool released = false;
};

/// A message seen from its receiver: a receive (once posted) and bytes that came before they could be used.
struct HostRank::Message {
  Event recv{};                          // 0: not posted yet
  std::uint64_t here = 0;                // bytes that came through a port
  std::uint64_t used = 0;                // bytes that are where they belong
  std::optional<Letter> letter;          // a peer of this process waits with its bytes
  std::vector<std::byte> aside;          // a copy of them, the peer let go
  std::byte* aside_on_device = nullptr;  // likewise
  std::vector<Piece> pieces;             // from a port
};

HostRanks::~HostRanks() {
  for (const auto& rank : ranks) {
    if (!rank || !rank->device()) continue;
    try {
      rank->device()->drain();
    } catch (const std::exception&) {  // that device has nothing under way any more
    }
  }
}

void HostRanks::break_up(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (broken_) return;
    reason_ = why;
    broken_ = true;
  }
  for (const auto& rank : ranks)
    if (rank) rank->wake();
}

std::string HostRanks::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

std::size_t HostRank::KeyHash::operator()(const Key& k) const {
  return static_cast<std::size_t>((k.tag + (static_cast<std::uint64_t>(k.from) << 32 ^ k.round) * 0x9E3779B97F4A7C15u) *
                                  0xD6E8FEB86659FD93u);
}

HostRank::HostRank(HostRanks& world, int rank, std::unique_ptr<Port> port, std::unique_ptr<RankDevice> device)
    : LedgerBackend(rank),
      world_(world),
      port_(std::move(port)),
      device_(std::move(device)),
      bell_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (bell_ < 0) throw TransportError(fmt::format("rank {}: no eventfd: {}", rank, std::strerror(errno)));
  if (!port_ || !device_) return;
  try {
    port_->on_memory([this](std::byte* base, std::size_t bytes) { device_->pin(base, bytes); });
    past_host_ = device_->sees_network() &&
                 port_->use_device(device_->number(), [this](std::size_t bytes) { return device_->allocate(bytes); });
  } catch (...) {
    let_go();
    ::close(bell_);
    throw;
  }
}

HostRank::~HostRank() {
  let_go();
  ::close(bell_);
}

void HostRank::let_go() {
  messages_.clear();  // pieces go back to the port first,
  jobs_.clear();
  staged_.clear();
  if (device_) device_->unpin();
  port_.reset();  // and the network lets go of the device's memory before that goes
}

HostRank::Attachment HostRank::attach(Buffer data) {
  if (!port_ || data.phantom() || data.count == 0) return {};
  const bool on_device = device_ && device_->holds(data.data());
  const bool attached = on_device ? port_->attach_device(data.data(), data.bytes()) : port_->attach(data.data(), data.bytes());
  return Attachment(data.data(), Detach{attached ? port_.get() : nullptr});
}

void HostRank::next_round() {
  if (reading_peers_ != 0) throw std::logic_error(fmt::format("rank {} lost count of whose memory it reads", rank()));
  forget();
  ++round_;
}

void HostRank::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(bell_, &one, sizeof one);  // full means: rung already
}

void HostRank::deliver(Letter&& letter) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(letter);
  }
  mail_ = true;
  if (asleep_) wake();
}

void HostRank::send_ready(Event send) {
  or_give_up([&] {
    const Pending& p = at(send);
    HostRank* peer = world_.ranks[static_cast<std::size_t>(p.peer)].get();
    const std::byte* bytes = p.buffer.data();
    const bool on_device = device_ && device_->holds(bytes);
    if (on_device && !peer && port_->sends_from(bytes, p.buffer.bytes())) return send_past_host(send);
    if (on_device && !(peer && peer->device_)) return stage(send);
    if (peer)
      peer->deliver({{rank(), round_, p.tag},
                     send,
                     on_device ? device_->source(bytes) : DeviceBytes{bytes, -1, nullptr},
                     p.buffer.bytes(),
                     false});
    else
      port_->send(p.peer, {static_cast<std::uint32_t>(rank()), round_, p.tag, p.buffer.bytes(), 0, p.buffer.bytes()}, send, bytes);
  });
}

/// From the device to the network: as soon as the rank's copies there are done. What verbs did is, or the ledger would not send it.
void HostRank::send_past_host(Event send) {
  const Pending& p = at(send);
  Job job{.key = {rank(), round_, p.tag}, .send = send, .past_host = true, .bytes = p.buffer.bytes()};
  if (device_->settled()) return forward(job);
  device_->fetch(nullptr, nullptr, 0);
  jobs_.push_back(std::move(job));
}

/// From the device to who cannot read it: through memory of this process, and over a port in parts.
void HostRank::stage(Event send) {
  const Pending& p = at(send);
  const std::size_t bytes = p.buffer.bytes(),
                    part = world_.ranks[static_cast<std::size_t>(p.peer)] ? std::max<std::size_t>(bytes, 1) : kStagedPart;
  Staged& staged = staged_[send.id] = {device_->allocate_here(bytes), std::max<std::size_t>(1, (bytes + part - 1) / part)};
  if (port_ && bytes > 0) port_->attach(staged.memory.get(), bytes);
  if (!world_.ranks[static_cast<std::size_t>(p.peer)]) staged_to_network_ = true;
  for (std::size_t i = 0; i < staged.parts; ++i) {
    Job job{.key = {rank(), round_, p.tag}, .send = send, .offset = i * part, .bytes = std::min(part, bytes - i * part)};
    device_->fetch(staged.memory.get() + job.offset, p.buffer.data() + job.offset, job.bytes);
    jobs_.push_back(std::move(job));
  }
}

/// A part has left the device, or may now.
void HostRank::forward(const Job& job) {
  const Pending& p = at(job.send);
  const std::byte* bytes = job.past_host ? p.buffer.data() : staged_.at(job.send.id).memory.get() + job.offset;
  if (HostRank* peer = world_.ranks[static_cast<std::size_t>(p.peer)].get())
    peer->deliver({job.key, job.send, {bytes, -1, nullptr}, job.bytes, false});
  else
    port_->send(p.peer, {static_cast<std::uint32_t>(rank()), job.key.round, p.tag, p.buffer.bytes(), job.offset, job.bytes},
                job.send, bytes);
}

void HostRank::part_sent(Event send) {
  if (const auto staged = staged_.find(send.id); staged != staged_.end()) {
    if (--staged->second.parts > 0) return;
    staged_.erase(staged);
  }
  finish(send);
}

void HostRank::recv_posted(Event recv) {
  const Key key{at(recv).peer, round_, at(recv).tag};
  Message& message = messages_[key];
  if (message.recv.id != 0)
    throw std::logic_error(fmt::format("rank {}: {} from rank {} is posted twice", rank(), describe_tag(key.tag), key.from));
  message.recv = recv;
  if (message.letter || !message.pieces.empty()) or_give_up([&] { use(key, message); });
}

void HostRank::may_write(Event recv) {
  const Key key{at(recv).peer, round_, at(recv).tag};
  use(key, messages_.at(key));
}

void HostRank::check_size(const Key& key, std::uint64_t bytes, const Pending& p) const {
  if (bytes != p.buffer.bytes())
    throw TransportError(fmt::format("rank {}: {} bytes arrived from rank {} where {} were expected ({})", rank(), bytes, key.from,
                                     p.buffer.bytes(), describe_tag(key.tag)));
}

void HostRank::refuse_device_memory(const Key& key) const {
  throw TransportError(
      fmt::format("rank {}: device memory arrived from rank {} for host memory ({})", rank(), key.from, describe_tag(key.tag)));
}

void HostRank::end_if_broken() const {
  if (world_.broken())
    throw TransportError(fmt::format("rank {}: {}; it waited for:\n{}", rank(), world_.reason(), describe_pending(1)));
}

/// Bytes are here and the receive is posted: puts them where they belong, if that is free, else sets a peer free by a copy.
void HostRank::use(const Key& key, Message& message) {
  const Event recv = message.recv;
  Pending& p = at(recv);
  p.here = message.here;
  if (device_ && device_->holds(p.buffer.data())) return use_device(key, message);
  const bool free = p.blockers == 0;
  if (!free) p.arrived = true;
  if (message.letter) {
    const Letter letter = *message.letter;
    check_size(key, letter.size, p);
    if (letter.source.device >= 0) refuse_device_memory(key);
    const std::byte* bytes = letter.source.bytes;
    // The peer's memory is there as long as the world is whole, or for as long as somebody reads it: see or_give_up().
    {
      const Reading reading(reading_peers_);
      if (world_.broken()) {
      } else if (free) {
        put(recv, bytes);
      } else if (bytes) {
        if (!spare_.empty()) {
          message.aside = std::move(spare_.back());
          spare_.pop_back();
        }
        message.aside.assign(bytes, bytes + letter.size);
      }
    }
    end_if_broken();
    message.letter.reset();
    world_.ranks[static_cast<std::size_t>(key.from)]->deliver({key, letter.send, {}, 0, true});
    if (!free) return;
  } else if (!message.pieces.empty()) {
    check_size(key, message.pieces.front().head().total, p);
    if (!free) return;
    const std::size_t element = size_of(p.buffer.type);
    for (const Piece& piece : message.pieces) {
      if (piece.device() >= 0) refuse_device_memory(key);
      put(recv, piece.data(), piece.head().offset / element, piece.head().bytes / element);
      message.used += piece.head().bytes;
    }
    message.pieces.clear();
    if (message.used < p.buffer.bytes()) return;  // more is on the way
  } else if (!message.aside.empty()) {
    put(recv, message.aside.data());
    spare_.push_back(std::move(message.aside));
  }
  messages_.erase(key);
  finish(recv);
}

/// The same where the elements are on the device: starts what collect_jobs() will see finished.
void HostRank::use_device(const Key& key, Message& message) {
  Pending& p = at(message.recv);
  const bool free = p.blockers == 0;
  const std::optional<Op> op = p.verb == Verb::recv_reduce ? std::optional(p.op) : std::nullopt;
  const std::size_t all = p.buffer.bytes();
  p.arrived = true;
  if (message.letter) {
    const Letter letter = *message.letter;
    check_size(key, letter.size, p);
    // As in use(), but the device reads on its own: until collect_jobs() sees it finished, or or_give_up() has waited.
    const bool reads_peer = letter.source.device < 0;
    if (reads_peer) ++reading_peers_;
    end_if_broken();
    if (free) device_->put(p.buffer, op, letter.source);
    else message.aside_on_device = device_->set_aside(p.buffer, letter.source);
    message.letter.reset();
    jobs_.push_back({.key = key, .release = letter.send, .reads_peer = reads_peer, .puts = free ? all : 0, .completes = free});
  } else if (message.aside_on_device) {
    device_->put_aside(p.buffer, op, message.aside_on_device);
    jobs_.push_back({.key = key, .puts = all, .completes = true});
  } else {
    check_size(key, message.pieces.front().head().total, p);
    if (!free) return;
    const std::size_t element = size_of(p.buffer.type);
    for (Piece& piece : message.pieces) {
      const PieceHead& head = piece.head();
      const Buffer into{p.buffer.base, p.buffer.offset + head.offset / element, head.bytes / element, p.buffer.type};
      if (piece.device() >= 0) device_->see_network();
      device_->put(into, op, {piece.data(), piece.device(), nullptr});
      jobs_.push_back({.key = key, .puts = head.bytes, .completes = true, .piece = std::make_shared<Piece>(std::move(piece))});
    }
    message.pieces.clear();
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
    if (job.release.id != 0) world_.ranks[static_cast<std::size_t>(job.key.from)]->deliver({job.key, job.release, {}, 0, true});
    if (!job.completes) continue;
    const auto found = messages_.find(job.key);
    Message& message = found->second;
    message.used += job.puts;
    const Event recv = message.recv;
    if (message.used < at(recv).buffer.bytes()) continue;
    messages_.erase(found);
    finish(recv);
  }
  return any;
}

void HostRank::sent(Event send) { part_sent(send); }

void HostRank::arrived(Piece&& piece) {
  const PieceHead& head = piece.head();
  const Key key{static_cast<int>(head.from), head.round, head.tag};
  Message& message = messages_[key];
  message.here += head.bytes;
  message.pieces.push_back(std::move(piece));
  if (message.recv.id != 0) use(key, message);
}

bool HostRank::open_letters() {
  if (!mail_.exchange(false)) return false;
  {
    const std::lock_guard lock(mutex_);
    reading_.swap(inbox_);
  }
  for (const Letter& letter : reading_) {
    if (letter.released) {
      part_sent(letter.send);
      continue;
    }
    Message& message = messages_[letter.key];
    message.letter = letter;
    if (message.recv.id != 0) use(letter.key, message);
  }
  const bool any = !reading_.empty();
  reading_.clear();
  return any;
}

bool HostRank::progress() {
  const bool letters = open_letters();
  const bool jobs = collect_jobs();
  const bool pieces = port_ && port_->progress(*this);
  return letters || jobs || pieces;
}

/// Until mail, the network, a broken world, or `seconds` have passed.
void HostRank::sleep(double seconds) {
  std::vector<pollfd> wait_for{{bell_, POLLIN, 0}};
  asleep_ = true;
  if (!mail_ && !world_.broken()) {
    const int longest_ms = static_cast<int>(std::min(seconds * 1e3 + 1, 1e9));
    const int port_ms = port_ ? port_->may_sleep(wait_for) : -1;
    ::poll(wait_for.data(), wait_for.size(), port_ms < 0 ? longest_ms : std::min(port_ms, longest_ms));
    std::uint64_t rung = 0;
    [[maybe_unused]] const auto got = ::read(bell_, &rung, sizeof rung);
  }
  asleep_ = false;
}

/// A rank that gives up takes its memory with it. So nobody may begin to read that any more, and whoever does already is waited
/// for.
template <class Work>
void HostRank::or_give_up(Work work) {
  try {
    work();
  } catch (const std::exception& e) {
    world_.break_up(std::string("another rank failed: ") + e.what());
    if (device_) {
      try {
        device_->drain();
      } catch (const std::exception&) {  // it reads nothing any more
      }
      reading_peers_ = 0;
    }
    for (const auto& peer : world_.ranks)
      while (peer && peer.get() != this && peer->reading_peers_ > 0) std::this_thread::yield();
    throw;
  }
}

template <class Finished>
void HostRank::progress_until(Finished finished) {
  or_give_up([&] { look_until(finished); });
}

template <class Finished>
void HostRank::look_until(Finished finished) {
  auto idle_since = Clock::time_point::max();  // the clock is read only once there is nothing to do
  while (!finished()) {
    try {
      if (progress()) {
        idle_since = Clock::time_point::max();
        continue;
      }
    } catch (const TransportError& e) {
      if (!port_) throw;
      // A broken connection is often the first sign of a dead peer; the rendezvous says a moment later who it was.
      for (int i = 0; i < 50 && !world_.broken(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      throw TransportError(fmt::format("rank {}: {}{}; it waited for:\n{}", rank(), e.what(),
                                       world_.broken() ? "; " + world_.reason() : "", describe_pending(1)));
    }
    end_if_broken();
    const auto now = Clock::now();
    if (idle_since == Clock::time_point::max()) idle_since = now;
    if (now - idle_since < world_.spin) {
      if (world_.crowded) std::this_thread::yield();
      continue;
    }
    const double left = world_.timeout_s - std::chrono::duration<double>(now - idle_since).count();
    if (left <= 0)
      throw TransportError(
          fmt::format("rank {} made no progress for {} s and waits for:\n{}", rank(), world_.timeout_s, describe_pending()));
    if (jobs_.empty()) sleep(left);
    else std::this_thread::yield();  // a device rings no bell
  }
}

void HostRank::do_wait(Event event) {
  progress_until([&] { return done(event); });
}
void HostRank::do_wait_all() {
  progress_until([&] { return all_done(); });
}
double HostRank::do_now() const { return std::chrono::duration<double>(Clock::now() - world_.start).count(); }

}  // namespace foreduce
