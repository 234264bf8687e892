#include "real/probe.hpp"

#include <algorithm>
#include <chrono>

#include "algorithms/core/registry.hpp"

namespace foreduce {
namespace {

constexpr int kBurst = 64, kExchanges = 8;

/// One rank's part in the experiments. Every rank takes part in all barriers, also those of
/// experiments in which it is idle.
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
                 with_defaults(barrier_, {0, 1}, layout_, 4), {});
    t_.wait_all();
    rank_.next_round();
  }

  /// Half of the time of a message to `peer` and its answer. One of the two ranks is `first` and
  /// begins.
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

  /// The time of one of kExchanges in a row. Most algorithms' steps are exchanges. Both directions
  /// are busy, without a pause in which a traffic shaper could save up credit.
  double exchange(std::size_t bytes, int peer) {
    const double start = t_.now();
    for (int i = 0; i < kExchanges; ++i) {
      t_.send(peer, {.step = i}, buffer(bytes));
      t_.wait(t_.recv(
          peer, {.step = i},
          {reinterpret_cast<std::byte*>(data_.data()), data_.size() / 2, bytes / 4, Type::f32}));
    }
    t_.wait_all();
    const double time = t_.now() - start;
    rank_.next_round();
    return time / kExchanges;
  }

  /// The time of messages from `from` to all others, until the last of them has answered.
  double one_to_many(std::size_t bytes, int from, const std::vector<int>& to) {
    const double start = t_.now();
    if (me() == from) {
      for (const int peer : to) {
        t_.send(peer, {.step = 0}, buffer(bytes));
        t_.recv(peer, {.step = 1},
                {reinterpret_cast<std::byte*>(data_.data()), data_.size() - 1, 1, Type::f32});
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

  /// The time of one of kBurst messages that are under way together.
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
    reduce(Op::sum, Type::f32, reinterpret_cast<std::byte*>(data_.data()),
           reinterpret_cast<const std::byte*>(other.data()), bytes / 4);
    return t_.now() - start;
  }

 private:
  Buffer buffer(std::size_t bytes) {
    return {reinterpret_cast<std::byte*>(data_.data()), 0, bytes / 4, Type::f32};
  }

  HostRank& rank_;
  Transport t_;
  std::vector<float>& data_;
  const Algorithm& barrier_;
  const Layout& layout_;
};

}  // namespace

namespace {

/// One rank's run of all experiments.
class Experiments {
 public:
  Experiments(HostRank& rank, const Session& session, const ProbeOptions& options,
              std::size_t largest)
      : options_(options),
        ranks_(session.workers().size()),
        processes_(session.place().processes),
        each_(ranks_ / processes_),
        data_(2 * (largest / 4 + 1)),
        other_(largest / 4 + 1, 1.0f),
        attached_(
            rank.attach({reinterpret_cast<std::byte*>(data_.data()), 0, data_.size(), Type::f32})),
        prober_(rank, session, data_) {}

  /// The points, if this is rank 0.
  std::vector<ProbePoint> run() {
    for (const std::size_t bytes : options_.sizes) {
      if (processes_ > 1) over_network(bytes);
      if (each_ > 1) over_memory(bytes);
      repeat(Experiment::reduce, ExperimentPath::memory, bytes, 1,
             [&] { return prober_.me() == 0 ? prober_.reduce_once(bytes, other_) : 0.0; });
    }
    return std::move(points_);
  }

 private:
  void over_network(std::size_t bytes) {
    const int remote = each_;  // the first rank of the second process
    repeat(Experiment::ping_pong, ExperimentPath::network, bytes, 1,
           [&] { return ping_pong(remote, bytes); });
    repeat(Experiment::exchange, ExperimentPath::network, bytes, 1,
           [&] { return exchange(remote, bytes); });
    if (bytes <= 16 * 1024)  // larger messages only show the bandwidth again
      repeat(Experiment::burst, ExperimentPath::network, bytes, 1, [&] {
        return with_rank_0(remote,
                           [&](int peer, bool first) { return prober_.burst(bytes, peer, first); });
      });
    std::vector<int> others;
    for (int r = remote; r < ranks_; r += each_) others.push_back(r);
    repeat(Experiment::one_to_many, ExperimentPath::network, bytes, static_cast<int>(others.size()),
           [&] {
             if (prober_.me() % each_ == 0) return prober_.one_to_many(bytes, 0, others);
             prober_.idle();
             return 0.0;
           });
    if (processes_ / 2 > 1)
      repeat(Experiment::pairs, ExperimentPath::network, bytes, processes_ / 2, [&] {
        const int process = prober_.me() / each_, other_process = process ^ 1;
        if (prober_.me() % each_ == 0 && other_process < processes_)
          return prober_.ping_pong(bytes, other_process * each_, process < other_process);
        prober_.idle();
        return 0.0;
      });
  }

  void over_memory(std::size_t bytes) {
    repeat(Experiment::ping_pong, ExperimentPath::memory, bytes, 1,
           [&] { return ping_pong(1, bytes); });
    repeat(Experiment::exchange, ExperimentPath::memory, bytes, 1,
           [&] { return exchange(1, bytes); });
  }

  double ping_pong(int rank, std::size_t bytes) {
    return with_rank_0(rank,
                       [&](int peer, bool first) { return prober_.ping_pong(bytes, peer, first); });
  }
  double exchange(int rank, std::size_t bytes) {
    return with_rank_0(rank, [&](int peer, bool) { return prober_.exchange(bytes, peer); });
  }

  /// Runs `experiment` between rank 0 and `rank`; the other ranks are idle.
  template <class Once>
  double with_rank_0(int rank, Once once) {
    if (prober_.me() == 0) return once(rank, true);
    if (prober_.me() == rank) return once(0, false);
    prober_.idle();
    return 0.0;
  }

  template <class Once>
  void repeat(Experiment experiment, ExperimentPath path, std::size_t bytes, int fan, Once once) {
    std::vector<double> samples;
    for (int i = -options_.warmup; i < options_.iterations; ++i) {
      prober_.barrier();
      const double time = once();
      if (i >= 0) samples.push_back(time);
    }
    if (prober_.me() == 0) points_.push_back({experiment, path, bytes, fan, samples});
  }

  const ProbeOptions& options_;
  int ranks_, processes_, each_;  // each: ranks of a process
  std::vector<float> data_, other_;
  HostRank::Attachment attached_;
  Prober prober_;
  std::vector<ProbePoint> points_;
};

}  // namespace

std::vector<ProbePoint> probe(Session& session, const ProbeOptions& options) {
  std::vector<ProbePoint> points;
  const std::size_t largest = *std::max_element(options.sizes.begin(), options.sizes.end());
  session.run([&](HostRank& rank) {
    if (rank.rank() >= session.workers().size()) return;  // servers take no part
    rank.expect(largest, kBurst);
    Experiments here(rank, session, options, largest);
    auto found = here.run();
    if (rank.rank() == 0) points = std::move(found);
  });
  return points;
}

}  // namespace foreduce
