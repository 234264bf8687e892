#include "real/measure.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>

namespace foreduce {
namespace {

/// Whole numbers small enough that their sums over thousands of ranks are exact in every type that can hold them.
int contribution(int rank, std::size_t i) { return static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 13) % 5) - 2; }

template <class T>
void fill(std::byte* to, std::size_t count, int rank) {
  for (std::size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(contribution(rank, i));
    std::memcpy(to + i * sizeof(T), &value, sizeof value);
  }
}

/// Bits of a small whole number |value| ≤ 2048 as f16, or ≤ 256 as bf16.
std::uint16_t half_bits(int value, Type type) {
  if (type == Type::bf16) {
    const auto f = static_cast<float>(value);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &f, sizeof bits);
    return static_cast<std::uint16_t>(bits >> 16);
  }
  if (value == 0) return 0;
  const int magnitude = std::abs(value);
  const int exponent = std::ilogb(magnitude);
  return static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | (exponent + 15) << 10 | ((magnitude << 10 >> exponent) & 0x3ff));
}

void fill(std::byte* to, std::size_t count, int rank, Type type) {
  switch (type) {
    case Type::f32: return fill<float>(to, count, rank);
    case Type::f64: return fill<double>(to, count, rank);
    case Type::i32: return fill<std::int32_t>(to, count, rank);
    case Type::f16:
    case Type::bf16:
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint16_t bits = half_bits(contribution(rank, i), type);
        std::memcpy(to + 2 * i, &bits, sizeof bits);
      }
  }
}

double element(const std::byte* data, std::size_t i, Type type) {
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, data + i * sizeof value, sizeof value);
    return value;
  };
  switch (type) {
    case Type::f32: return static_cast<double>(as(float{}));
    case Type::f64: return as(double{});
    case Type::i32: return as(std::int32_t{});
    case Type::bf16: {
      const std::uint32_t bits = static_cast<std::uint32_t>(as(std::uint16_t{})) << 16;
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return static_cast<double>(value);
    }
    case Type::f16: break;
  }
  const auto bits = as(std::uint16_t{});
  const int exponent = bits >> 10 & 0x1f;
  const double value = exponent == 0    ? std::ldexp(bits & 0x3ff, -24)
                       : exponent == 31 ? INFINITY
                                        : std::ldexp(1024 + (bits & 0x3ff), exponent - 25);
  return bits & 0x8000 ? -value : value;
}

std::size_t count_wrong(const std::byte* data, std::size_t count, Type type, int workers) {
  // contribution() repeats every 5 elements
  int sums[5] = {};
  for (std::size_t i = 0; i < 5; ++i)
    for (int r = 0; r < workers; ++r) sums[i] += contribution(r, i);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += element(data, i, type) != sums[i % 5];
  return wrong;
}

/// What a rank reduces: in host memory, or on its device with a copy here to fill and to look at.
class Data {
 public:
  Data(HostRank& rank, std::size_t bytes) : device_(rank.device()), here_(bytes) {
    if (device_) there_ = device_->allocate(bytes);
  }
  /// To be filled before push(), and to be read after pull().
  std::byte* here() { return here_.data(); }
  /// What verbs work on.
  std::byte* data() { return device_ ? there_.get() : here_.data(); }
  void push(std::size_t bytes) {
    if (!device_) return;
    device_->copy(there_.get(), here_.data(), bytes);
    device_->settle();
  }
  void pull(std::size_t bytes) {
    if (!device_) return;
    device_->copy(here_.data(), there_.get(), bytes);
    device_->settle();
  }
  /// Only started, on a device.
  void copy(Data& from, std::size_t bytes) {
    if (device_) device_->copy(there_.get(), from.there_.get(), bytes);
    else std::memcpy(here_.data(), from.here_.data(), bytes);
  }
  void clear(std::size_t bytes) {
    if (device_) device_->clear(there_.get(), bytes);
    else std::memset(here_.data(), 0, bytes);
  }
  void settle() {
    if (device_) device_->settle();
  }

 private:
  RankDevice* device_;
  std::vector<std::byte> here_;
  std::shared_ptr<std::byte> there_;
};

/// One rank in the loop. Servers go through the same motions, so that all ranks agree on the round.
class Runner {
 public:
  Runner(HostRank& rank, const Session& session)
      : rank_(rank),
        workers_(session.workers()),
        everyone_(session.everyone()),
        all_alike_(Layout::uniform(everyone_.size())),
        is_worker_(rank.rank() < workers_.size()),
        small_(*find_algorithm("recursive-doubling")) {}

  bool is_worker() const { return is_worker_; }
  double now() const { return transport(everyone_).now(); }

  /// Element-wise maximum or sum over all ranks, of few numbers. Servers too: one that waited through other algorithms' rows would
  /// take the silence for a failure.
  void combine(std::span<double> values, Op op) {
    Transport t = transport(all_alike_);
    small_.run(t, {reinterpret_cast<std::byte*>(values.data()), 0, values.size(), Type::f64}, op,
               with_defaults(small_, {0, 1, "ring"}, all_alike_, values.size_bytes()), {});
    t.wait_all();
    rank_.next_round();
  }
  /// Text of the first rank, at most Baseline::kInvitation bytes.
  std::string tell_all(const std::string& text) {
    std::vector<double> letters(Baseline::kInvitation + 1);
    if (rank_.rank() == 0) {
      letters[0] = static_cast<double>(text.size());
      for (std::size_t i = 0; i < text.size(); ++i) letters.at(i + 1) = static_cast<unsigned char>(text[i]);
    }
    combine(letters, Op::sum);
    std::string all;
    for (std::size_t i = 0; i < static_cast<std::size_t>(letters[0]); ++i)
      all += static_cast<char>(static_cast<unsigned char>(letters[i + 1]));
    return all;
  }
  std::unique_ptr<BaselineRank> join(Baseline& baseline, double timeout_s) {
    const std::string invitation = tell_all(rank_.rank() == 0 ? baseline.invitation() : "");
    if (!is_worker_) return nullptr;
    return baseline.join({rank_.rank(), workers_.size(), rank_.device() ? rank_.device()->number() : -1, timeout_s}, invitation);
  }
  /// How far this rank's clock is ahead of rank 0's, from the quickest of some round trips (Cristian 1989). To be asked again now
  /// and then: clocks drift.
  void compare_clocks() {
    constexpr int kTrips = 8;
    Transport t = transport(all_alike_);
    const auto buffer = [](double& value) { return Buffer{reinterpret_cast<std::byte*>(&value), 0, 1, Type::f64}; };
    double quickest = INFINITY, theirs = 0;
    const auto trip = [&](int peer, int i) {
      double mine = 0;
      if (rank_.rank() == 0) {
        t.wait(t.recv(peer, {.step = 0, .segment = i}, buffer(mine)));
        mine = t.now();
        t.send(peer, {.step = 1, .segment = i}, buffer(mine));
      } else {
        const double sent = t.now();
        t.send(peer, {.step = 0, .segment = i}, buffer(mine));
        t.wait(t.recv(peer, {.step = 1, .segment = i}, buffer(theirs)));
        const double back = t.now();
        if (back - sent < quickest) {
          quickest = back - sent;
          ahead_ = (sent + back) / 2 - theirs;
        }
      }
      t.wait_all();
    };
    for (int peer = 1; peer < everyone_.size(); ++peer)
      for (int i = 0; i < kTrips; ++i)
        if (rank_.rank() == 0 || rank_.rank() == peer) trip(rank_.rank() == 0 ? peer : 0, i);
    rank_.next_round();
  }
  /// Returns at the same moment on all ranks: a barrier alone lets go of one after the other, and what begins askew ends later.
  void start_together() {
    const double before = now();
    double at = before - ahead_ + (quickest_barrier_ < INFINITY ? 3 * quickest_barrier_ : 0);
    combine({&at, 1}, Op::max);
    at += ahead_;
    quickest_barrier_ = std::min(quickest_barrier_, now() - before);
    constexpr double kWake = 100e-6;  // what a sleeper may be late
    if (const double left = at - now(); left > 2 * kWake) std::this_thread::sleep_for(std::chrono::duration<double>(left - kWake));
    while (now() < at) std::this_thread::yield();
  }
  /// The all-reduce itself, to its end.
  void reduce(const Algorithm& algorithm, const Plan& plan, Buffer data) {
    if (is_worker_ || algorithm.uses_servers) {
      Transport t = transport(algorithm.uses_servers ? everyone_ : workers_);
      algorithm.run(t, data, Op::sum, plan, {});
      t.wait_all();
    }
    rank_.next_round();
  }

 private:
  Transport transport(const Layout& layout) const { return Transport(rank_, layout, rank_.rank()); }

  HostRank& rank_;
  const Layout& workers_;
  const Layout& everyone_;
  const Layout all_alike_;
  bool is_worker_;
  const Algorithm& small_;
  double ahead_ = 0, quickest_barrier_ = INFINITY;  // seconds
};

}  // namespace

std::vector<TrialResult> measure(Session& session, const std::vector<Trial>& trials, const MeasureOptions& options) {
  std::vector<TrialResult> all;
  for (const Trial& trial : trials) all.push_back({trial, {}, {}});
  std::size_t largest = 0;
  for (const Trial& trial : trials) largest = std::max(largest, trial.count * size_of(trial.type));
  const auto iterations = static_cast<std::size_t>(options.iterations);
  session.run([&](HostRank& rank) {
    Runner runner(rank, session);
    const bool reports = rank.rank() == session.place().process * session.workers().size() /
                                            session.place().processes;  // the process's first worker
    Data input(rank, largest), output(rank, largest);
    const auto attached = rank.attach({output.data(), 0, largest / 2, Type::f16});
    std::map<Baseline*, std::unique_ptr<BaselineRank>> joined;
    for (TrialResult& row : all) {
      const Trial& trial = row.trial;
      if (trial.baseline && !joined.contains(trial.baseline))
        joined[trial.baseline] = runner.join(*trial.baseline, options.timeout_s);
      const std::size_t bytes = trial.count * size_of(trial.type);
      if (runner.is_worker()) {
        fill(input.here(), trial.count, rank.rank(), trial.type);
        input.push(bytes);
      }
      runner.compare_clocks();
      for (const bool in_place : {false, true}) {
        std::vector<double> samples(iterations);
        double wrong = 0;
        for (int i = -options.warmup; i < options.iterations; ++i) {
          if (in_place && runner.is_worker()) {
            output.copy(input, bytes);
            output.settle();
          }
          runner.start_together();
          const double start = runner.now();
          if (trial.baseline) {
            if (runner.is_worker())
              joined[trial.baseline]->all_reduce(in_place ? output.data() : input.data(), output.data(), trial.count, trial.type);
          } else {
            if (!in_place && runner.is_worker()) output.copy(input, bytes);
            runner.reduce(*trial.algorithm, trial.plan, {output.data(), 0, trial.count, trial.type});
            output.settle();  // a lone rank has nothing to wait for but its copy
          }
          const double end = runner.now();
          if (i < 0) continue;
          if (runner.is_worker()) samples[static_cast<std::size_t>(i)] = end - start;
          if (!options.check || !runner.is_worker()) continue;
          output.pull(bytes);
          wrong += static_cast<double>(count_wrong(output.here(), trial.count, trial.type, session.workers().size()));
        }
        runner.combine(samples, Op::max);
        runner.combine({&wrong, 1}, Op::sum);
        if (reports) (in_place ? row.in_place : row.out_of_place) = {samples, options.check ? wrong : -1};
      }
    }
  });
  return all;
}

std::vector<double> replay(Session& session, const Replay& step, const MeasureOptions& options) {
  std::vector<double> result;
  std::size_t largest = 0;
  for (const std::size_t count : step.counts) largest = std::max(largest, count * size_of(step.type));
  session.run([&](HostRank& rank) {
    Runner runner(rank, session);
    Data data(rank, largest);
    const auto attached = rank.attach({data.data(), 0, largest / 2, Type::f16});
    std::vector<double> samples(static_cast<std::size_t>(options.iterations));
    runner.compare_clocks();
    for (int i = -options.warmup; i < options.iterations; ++i) {
      runner.start_together();
      const double start = runner.now();
      std::atomic<std::size_t> ready{0};
      std::jthread backward;
      if (runner.is_worker())
        backward = std::jthread([&] {
          for (std::size_t b = 0; b <= step.counts.size(); ++b) {
            const double until = start + (b < step.counts.size() ? step.ready[b] : step.compute);
            while (runner.now() < until) {
            }
            ready.store(b + 1, std::memory_order_release);
            ready.notify_one();
          }
        });
      for (std::size_t b = 0; b < step.counts.size(); ++b) {
        if (runner.is_worker())
          for (std::size_t seen; (seen = ready.load(std::memory_order_acquire)) <= b;) ready.wait(seen);
        if (runner.is_worker()) data.clear(step.counts[b] * size_of(step.type));
        runner.reduce(*step.algorithm, step.plans[b], {data.data(), 0, step.counts[b], step.type});
      }
      if (backward.joinable()) backward.join();
      if (i >= 0 && runner.is_worker()) samples[static_cast<std::size_t>(i)] = runner.now() - start;
    }
    runner.combine(samples, Op::max);
    if (rank.rank() == 0) result = samples;
  });
  return result;
}

}  // namespace foreduce
