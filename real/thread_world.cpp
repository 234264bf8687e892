#include "real/thread_world.hpp"

#include <fmt/format.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace foreduce {
namespace {

using Clock = std::chrono::steady_clock;

/// What one thread tells another: "my bytes are ready for you" or "I have read yours".
struct Letter {
  int from = 0;
  std::uint64_t tag = 0;
  Event send{};                      // the sender's event, named back when the bytes have been read
  const std::byte* bytes = nullptr;
  std::size_t count = 0;             // elements
  bool released = false;
};

struct Key {
  int from;
  std::uint64_t tag;
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  std::size_t operator()(const Key& k) const {
    return static_cast<std::size_t>((k.tag + static_cast<std::uint64_t>(k.from) * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u);
  }
};

class Rank;

struct World {
  std::vector<std::unique_ptr<Rank>> ranks;
  double timeout_s = 30;
  std::atomic<bool> broken{false};
  Clock::time_point start = Clock::now();

  void break_up();
};

class Rank final : public LedgerBackend {
 public:
  Rank(World& world, int rank) : LedgerBackend(rank), world_(world) {}

  void deliver(const Letter& letter) {
    {
      const std::lock_guard lock(mutex_);
      inbox_.push_back(letter);
    }
    signal_.notify_one();
  }
  void wake() {
    { const std::lock_guard lock(mutex_); }
    signal_.notify_one();
  }

 private:
  void send_ready(Event send) override {
    const Pending& p = at(send);
    peer(p.peer).deliver({rank(), p.tag, send, p.buffer.data(), p.buffer.count, false});
  }

  void recv_posted(Event recv) override {
    const Key key{at(recv).peer, at(recv).tag};
    if (const auto early = early_.find(key); early != early_.end()) {
      const Letter letter = early->second;
      early_.erase(early);
      take(recv, letter);
    } else if (!posted_.emplace(key, recv).second) {
      throw std::logic_error(fmt::format("rank {}: {} from rank {} is posted twice", rank(), describe_tag(key.tag), key.from));
    }
  }

  void may_write(Event recv) override {
    const auto aside = aside_.find(recv.id);
    put(recv, aside->second.data());
    aside_.erase(aside);
    finish(recv);
  }

  /// The bytes for `recv` are there: use them at once if its elements are free, else set them aside.
  void take(Event recv, const Letter& letter) {
    Pending& p = at(recv);
    if (letter.count != p.buffer.count)
      throw TransportError(fmt::format("rank {}: {} elements arrived from rank {} where {} were expected ({})", rank(),
                                       letter.count, letter.from, p.buffer.count, describe_tag(p.tag)));
    const bool now = p.blockers == 0;
    if (now) {
      put(recv, letter.bytes);
    } else {
      p.arrived = true;
      aside_.emplace(recv.id, letter.bytes ? std::vector<std::byte>(letter.bytes, letter.bytes + p.buffer.bytes())
                                           : std::vector<std::byte>());
    }
    peer(letter.from).deliver({rank(), p.tag, letter.send, nullptr, 0, true});
    if (now) finish(recv);
  }

  void open_letters(std::vector<Letter>& letters) {
    for (const Letter& letter : letters) {
      if (letter.released) {
        finish(letter.send);
        continue;
      }
      const Key key{letter.from, letter.tag};
      if (const auto waiting = posted_.find(key); waiting != posted_.end()) {
        const Event recv = waiting->second;
        posted_.erase(waiting);
        take(recv, letter);
      } else {
        early_.emplace(key, letter);
      }
    }
    letters.clear();
  }

  template <class Finished>
  void progress_until(Finished finished) {
    std::vector<Letter> letters;
    while (!finished()) {
      {
        std::unique_lock lock(mutex_);
        const auto limit = std::chrono::duration<double>(world_.timeout_s);
        const bool woken = signal_.wait_for(lock, limit, [&] { return !inbox_.empty() || world_.broken; });
        letters.swap(inbox_);
        if (world_.broken) throw TransportError(fmt::format("rank {}: another rank failed\n{}", rank(), describe_pending()));
        if (!woken) {
          lock.unlock();
          throw TransportError(
              fmt::format("rank {} made no progress for {} s and waits for:\n{}", rank(), world_.timeout_s, describe_pending()));
        }
      }
      open_letters(letters);
    }
  }

  void do_wait(Event event) override {
    progress_until([&] { return done(event); });
  }
  void do_wait_all() override {
    progress_until([&] { return all_done(); });
  }
  double do_now() const override { return std::chrono::duration<double>(Clock::now() - world_.start).count(); }

  Rank& peer(int other) { return *world_.ranks[static_cast<std::size_t>(other)]; }

  World& world_;
  std::mutex mutex_;
  std::condition_variable signal_;
  std::vector<Letter> inbox_;                            // guarded by mutex_; all else belongs to the rank's thread
  std::unordered_map<Key, Event, KeyHash> posted_;       // receives that nothing has arrived for
  std::unordered_map<Key, Letter, KeyHash> early_;       // letters that nobody has asked for yet
  std::unordered_map<std::uint32_t, std::vector<std::byte>> aside_;
};

void World::break_up() {
  broken = true;
  for (const auto& rank : ranks) rank->wake();
}

}  // namespace

ThreadRun run_on_threads(const std::function<void(Transport&)>& rank_function, const Layout& layout,
                         const ThreadOptions& options) {
  World world;
  world.timeout_s = options.timeout_s;
  const int n = layout.size();
  for (int r = 0; r < n; ++r) {
    world.ranks.push_back(std::make_unique<Rank>(world, r));
    if (options.record) world.ranks.back()->record_timeline();
  }
  std::barrier start(n);
  std::mutex failing;
  std::exception_ptr failure;
  std::vector<double> begun(static_cast<std::size_t>(n)), ended(static_cast<std::size_t>(n));
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < n; ++r)
      threads.emplace_back([&, r] {
        Transport transport(*world.ranks[static_cast<std::size_t>(r)], layout, r);
        start.arrive_and_wait();
        begun[static_cast<std::size_t>(r)] = transport.now();
        try {
          rank_function(transport);
          transport.wait_all();
        } catch (...) {
          const std::lock_guard lock(failing);
          if (!failure) failure = std::current_exception();  // the first tells why; the others only follow
          world.break_up();
        }
        ended[static_cast<std::size_t>(r)] = transport.now();
      });
  }
  if (failure) std::rethrow_exception(failure);
  ThreadRun run;
  run.seconds = *std::max_element(ended.begin(), ended.end()) - *std::min_element(begun.begin(), begun.end());
  for (const auto& rank : world.ranks) {
    run.traffic.push_back(rank->traffic());
    run.timeline.insert(run.timeline.end(), rank->timeline().begin(), rank->timeline().end());
  }
  return run;
}

ThreadRun run_on_threads(const Algorithm& algorithm, const Layout& layout, std::span<const Buffer> data, Op op,
                         const Plan& plan, const ThreadOptions& options) {
  return run_on_threads(
      [&](Transport& t) { algorithm.run(t, data[static_cast<std::size_t>(t.rank())], op, plan, {}); }, layout, options);
}

}  // namespace foreduce
