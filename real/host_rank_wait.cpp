// How a rank waits: it makes progress, then spins, then sleeps, and it stops all ranks when it
// fails.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <thread>

#include "real/host_rank_messages.hpp"

namespace foreduce {

using Clock = std::chrono::steady_clock;

/// Until a message comes, the network has something, the ranks are stopped, or `seconds` have
/// passed.
void HostRank::sleep(double seconds) {
  std::vector<pollfd> wait_for{{wake_up_fd_, POLLIN, 0}};
  asleep_ = true;
  if (!inbox_filled_ && !ranks_.stopped()) {
    const int longest_ms = static_cast<int>(std::min(seconds * 1e3 + 1, 1e9));
    const int port_ms = port_ ? port_->may_sleep(wait_for) : -1;
    ::poll(wait_for.data(), wait_for.size(),
           port_ms < 0 ? longest_ms : std::min(port_ms, longest_ms));
    std::uint64_t wake_ups = 0;
    [[maybe_unused]] const auto got = ::read(wake_up_fd_, &wake_ups, sizeof wake_ups);
  }
  asleep_ = false;
}

/// A rank that fails frees its memory. So it first stops all ranks, after which nobody begins to
/// read that memory, and then waits for those who are reading it.
void HostRank::stop_all(const std::exception& why) {
  ranks_.stop(std::string("another rank failed: ") + why.what());
  if (device_) {
    try {
      device_->drain();
    } catch (const std::exception&) {  // a device that failed reads nothing any more
    }
    reading_peers_ = 0;
  }
  for (const auto& peer : ranks_.by_rank)
    while (peer && peer.get() != this && peer->reading_peers_ > 0) std::this_thread::yield();
}

template <class Finished>
void HostRank::progress_until(Finished finished) {
  stop_all_on_failure([&] { poll_until(finished); });
}

template <class Finished>
void HostRank::poll_until(Finished finished) {
  auto idle_since = Clock::time_point::max();  // the clock is read only when there is nothing to do
  while (!finished()) {
    try {
      if (progress()) {
        idle_since = Clock::time_point::max();
        continue;
      }
    } catch (const TransportError& e) {
      if (!port_) throw;
      // A broken connection is often the first sign of a dead peer. The rendezvous reports a moment
      // later which process it was.
      const bool broken = dynamic_cast<const BadSegment*>(&e) == nullptr;
      for (int i = 0; i < 50 && broken && !ranks_.stopped(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const std::string what = e.what(), me = fmt::format("rank {}: ", rank());
      throw TransportError(fmt::format("{}{}{}; it waited for:\n{}", what.starts_with(me) ? "" : me,
                                       what, ranks_.stopped() ? "; " + ranks_.reason() : "",
                                       describe_pending(1)));
    }
    throw_if_stopped();
    const auto now = Clock::now();
    if (idle_since == Clock::time_point::max()) idle_since = now;
    if (now - idle_since < ranks_.spin) {
      if (ranks_.oversubscribed) std::this_thread::yield();
      continue;
    }
    const double left = ranks_.timeout_s - std::chrono::duration<double>(now - idle_since).count();
    if (left <= 0 && limited_)
      throw TransportError(fmt::format("rank {} made no progress for {} s and waits for:\n{}",
                                       rank(), ranks_.timeout_s, describe_pending()));
    if (jobs_.empty()) sleep(limited_ ? left : ranks_.timeout_s);
    else std::this_thread::yield();  // a device has no descriptor to sleep on
  }
}

void HostRank::do_wait(Event event) {
  progress_until([&] { return done(event); });
}
void HostRank::do_wait_all() {
  progress_until([&] { return all_done(); });
}
double HostRank::do_now() const {
  return std::chrono::duration<double>(Clock::now() - ranks_.start).count();
}

}  // namespace foreduce
