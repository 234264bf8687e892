#include "real/probe.hpp"

#include <algorithm>
#include <chrono>

#include "algorithms/core/registry.hpp"

namespace foreduce {
namespace {

constexpr int kBurst = 64, kExchanges = 8;

/// Every rank goes through every experiment, the idle ones only through the barriers.
class Prober {
 public:
  Prober(HostRank& rank, const Session& session, std::vector<float>& data)
      : rank_(rank),
        t_(rank, session.workers(), rank.rank()),
        data_(data),
        barrier_(*find_algorithm("recursive-doubling")),
        layout_(session.workers()) {}

  int me() const { return t_.rank(); }

  void barrier() {
    float token = 0;
    barrier_.run(t_, {reinterpret_cast<std::byte*>(&token), 0, 1, Type::f32}, Op::max,
                 with_defaults(barrier_, {0, 1, "ring"}, layout_, 4), {});
    t_.wait_all();
    rank_.next_round();
  }

  /// Half of the time there and back with `peer`. `first` speaks first.
  double ping_pong(std::size_t bytes, int peer, bool first) {
    const double start = t_.now();
    Event seen;
    if (first) t_.send(peer, {.step = 0}, buffer(bytes));
    seen = t_.recv(peer, {.step = first ? 1 : 0}, buffer(bytes));
    t_.wait(seen);
    if (!first) t_.send(peer, {.step = 1}, buffer(bytes));
    t_.wait_all();
    const double time = t_.now() - start;
    rank_.next_round();
    return time / 2;
  }

  /// One of kExchanges in a row: a step of most algorithms, with both directions busy and no pause for a shaper to save up credit.
  double exchange(std::size_t bytes, int peer) {
    const double start = t_.now();
    for (int i = 0; i < kExchanges; ++i) {
      t_.send(peer, {.step = i}, buffer(bytes));
      t_.wait(t_.recv(peer, {.step = i}, {reinterpret_cast<std::byte*>(data_.data()), data_.size() / 2, bytes / 4, Type::f32}));
    }
    t_.wait_all();
    const double time = t_.now() - start;
    rank_.next_round();
    return time / kExchanges;
  }

  /// From `from` to all others, until the last of them has said so.
  double one_to_many(std::size_t bytes, int from, const std::vector<int>& to) {
    const double start = t_.now();
    if (me() == from) {
      for (const int peer : to) {
        t_.send(peer, {.step = 0}, buffer(bytes));
        t_.recv(peer, {.step = 1}, {reinterpret_cast<std::byte*>(data_.data()), data_.size() - 1, 1, Type::f32});
      }
    } else {
      t_.wait(t_.recv(from, {.step = 0}, buffer(bytes)));
      t_.send(from, {.step = 1}, buffer(4));
    }
    t_.wait_all();
    const double time = t_.now() - start;
    rank_.next_round();
    return time;
  }

  /// One of kBurst messages that are under way together.
  double burst(std::size_t bytes, int peer, bool first) {
    const double start = t_.now();
    for (int i = 0; i < kBurst; ++i) {
      if (first) t_.send(peer, {.step = 0, .segment = i}, buffer(bytes));
      else t_.recv(peer, {.step = 0, .segment = i}, buffer(bytes));
    }
    if (first) t_.recv(peer, {.step = 1}, buffer(4));
    t_.wait_all();
    if (!first) {
      t_.send(peer, {.step = 1}, buffer(4));
      t_.wait_all();
    }
    const double time = t_.now() - start;
    rank_.next_round();
    return time / kBurst;
  }

  void idle() { rank_.next_round(); }

  double reduce_once(std::size_t bytes, std::vector<float>& other) {
    const double start = t_.now();
    reduce(Op::sum, Type::f32, reinterpret_cast<std::byte*>(data_.data()), reinterpret_cast<const std::byte*>(other.data()),
         bytes / 4);
    return t_.now() - start;
  }

 private:
  Buffer buffer(std::size_t bytes) { return {reinterpret_cast<std::byte*>(data_.data()), 0, bytes / 4, Type::f32}; }

  HostRank& rank_;
  Transport t_;
  std::vector<float>& data_;
  const Algorithm& barrier_;
  const Layout& layout_;
};

}  // namespace

std::vector<ProbePoint> probe(Session& session, const ProbeOptions& options) {
  std::vector<ProbePoint> points;
  const int n = session.workers().size(), each = n / session.place().processes;
  const std::size_t largest = *std::max_element(options.sizes.begin(), options.sizes.end());
  session.run([&](HostRank& rank) {
    if (rank.rank() >= n) return;  // a server has no part in this
    std::vector<float> data(2 * (largest / 4 + 1)), other(largest / 4 + 1, 1.0f);
    const auto attached = rank.attach({reinterpret_cast<std::byte*>(data.data()), 0, data.size(), Type::f32});
    Prober p(rank, session, data);
    const auto repeat = [&](const char* kind, const char* way, std::size_t bytes, int fan, const std::function<double()>& once) {
      std::vector<double> samples;
      for (int i = -options.warmup; i < options.iterations; ++i) {
        p.barrier();
        const double time = once();
        if (i >= 0) samples.push_back(time);
      }
      if (p.me() == 0) points.push_back({kind, way, bytes, fan, samples});
    };
    const auto between = [&](int a, int b, const auto& experiment) {
      return [&p, a, b, experiment] {
        if (p.me() == a) return experiment(b, true);
        if (p.me() == b) return experiment(a, false);
        p.idle();
        return 0.0;
      };
    };
    const int remote = each;  // the first rank of the second process
    for (const std::size_t bytes : options.sizes) {
      const auto ping = [&p, bytes](int peer, bool first) { return p.ping_pong(bytes, peer, first); };
      const auto swap = [&p, bytes](int peer, bool) { return p.exchange(bytes, peer); };
      if (remote < n) {
        repeat("ping-pong", "network", bytes, 1, between(0, remote, ping));
        repeat("exchange", "network", bytes, 1, between(0, remote, swap));
        if (bytes <= 16 * 1024)  // larger ones only tell the bandwidth again
          repeat("burst", "network", bytes, 1,
                 between(0, remote, [&p, bytes](int peer, bool first) { return p.burst(bytes, peer, first); }));
        std::vector<int> others;
        for (int r = remote; r < n; r += each) others.push_back(r);
        repeat("one-to-many", "network", bytes, static_cast<int>(others.size()), [&] {
          if (p.me() % each == 0) return p.one_to_many(bytes, 0, others);
          p.idle();
          return 0.0;
        });
        const int pairs = session.place().processes / 2;
        if (pairs > 1)
          repeat("pairs", "network", bytes, pairs, [&] {
            const int process = p.me() / each, other_process = process ^ 1;
            if (p.me() % each == 0 && other_process < session.place().processes)
              return p.ping_pong(bytes, other_process * each, process < other_process);
            p.idle();
            return 0.0;
          });
      }
      if (each > 1) {
        repeat("ping-pong", "memory", bytes, 1, between(0, 1, ping));
        repeat("exchange", "memory", bytes, 1, between(0, 1, swap));
      }
      repeat("reduce", "memory", bytes, 1, [&] { return p.me() == 0 ? p.reduce_once(bytes, other) : 0.0; });
    }
  });
  return points;
}

}  // namespace foreduce
