#include "real/measure.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>

namespace foreduce {
namespace {

/// Small integers, whose sums over thousands of ranks are exact in every type that can hold them.
int contribution(int rank, std::size_t i) {
  return static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 13) % 5) - 2;
}

template <class T>
void fill(std::byte* to, std::size_t count, int rank) {
  for (std::size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(contribution(rank, i));
    std::memcpy(to + i * sizeof(T), &value, sizeof value);
  }
}

/// Bits of an integer |value| ≤ 2048 as f16, or ≤ 256 as bf16.
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
  return static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | (exponent + 15) << 10 |
                                    ((magnitude << 10 >> exponent) & 0x3ff));
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

/// How many messages one rank may send another in one all-reduce: a segment of every chunk, on
/// every channel.
std::size_t messages_to_one(const Layout& layout, const Plan& plan) {
  return static_cast<std::size_t>(layout.size()) * static_cast<std::size_t>(plan.segments) *
         static_cast<std::size_t>(plan.channels);
}

std::size_t count_wrong(const std::byte* data, std::size_t count, Type type, int workers) {
  // contribution() repeats every 5 elements.
  int sums[5] = {};
  for (std::size_t i = 0; i < 5; ++i)
    for (int r = 0; r < workers; ++r) sums[i] += contribution(r, i);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += element(data, i, type) != sums[i % 5];
  return wrong;
}

/// A rank's data: in host memory, or on its device with a copy in host memory that can be filled
/// and read.
class Data {
 public:
  Data(HostRank& rank, std::size_t bytes) : device_(rank.device()), on_host_(bytes) {
    if (device_) on_device_ = device_->allocate(bytes);
  }
  /// The host's copy: to be filled before push(), and to be read after pull().
  std::byte* on_host() { return on_host_.data(); }
  /// What verbs work on.
  std::byte* data() { return device_ ? on_device_.get() : on_host_.data(); }
  void push(std::size_t bytes) {
    if (!device_) return;
    device_->copy(on_device_.get(), on_host_.data(), bytes);
    device_->settle();
  }
  void pull(std::size_t bytes) {
    if (!device_) return;
    device_->copy(on_host_.data(), on_device_.get(), bytes);
    device_->settle();
  }
  /// On a device the copy is only started.
  void copy(Data& from, std::size_t bytes) {
    if (device_) device_->copy(on_device_.get(), from.on_device_.get(), bytes);
    else std::memcpy(on_host_.data(), from.on_host_.data(), bytes);
  }
  void clear(std::size_t bytes) {
    if (device_) device_->clear(on_device_.get(), bytes);
    else std::memset(on_host_.data(), 0, bytes);
  }
  void settle() {
    if (device_) device_->settle();
  }

 private:
  RankDevice* device_;
  std::vector<std::byte> on_host_;
  std::shared_ptr<std::byte> on_device_;
};

/// One rank in the loop. Servers take part in every step, so that all ranks agree on the round.
class Runner {
 public:
  Runner(HostRank& rank, const Session& session)
      : rank_(rank),
        workers_(session.workers()),
        everyone_(session.everyone()),
        equal_ranks_(Layout::uniform(everyone_.size())),
        is_worker_(rank.rank() < workers_.size()),
        combining_(*find_algorithm("recursive-doubling")) {}

  bool is_worker() const { return is_worker_; }
  double now() const { return transport(everyone_).now(); }

  /// Element-wise maximum or sum of few numbers over all ranks. Servers take part, since a server
  /// that is idle during the rows of other algorithms would time out.
  void combine(std::span<double> values, Op op) {
    Transport t = transport(equal_ranks_);
    combining_.run(t, {reinterpret_cast<std::byte*>(values.data()), 0, values.size(), Type::f64},
                   op, with_defaults(combining_, {0, 1, "ring"}, equal_ranks_, values.size_bytes()),
                   {});
    t.wait_all();
    rank_.next_round();
  }
  /// Sends the first rank's text to all ranks. It has at most Baseline::kInvitation bytes.
  std::string broadcast(const std::string& text) {
    std::vector<double> characters(Baseline::kInvitation + 1);
    if (rank_.rank() == 0) {
      characters[0] = static_cast<double>(text.size());
      for (std::size_t i = 0; i < text.size(); ++i)
        characters.at(i + 1) = static_cast<unsigned char>(text[i]);
    }
    combine(characters, Op::sum);
    std::string all;
    for (std::size_t i = 0; i < static_cast<std::size_t>(characters[0]); ++i)
      all += static_cast<char>(static_cast<unsigned char>(characters[i + 1]));
    return all;
  }
  std::unique_ptr<BaselineRank> join(Baseline& baseline, double timeout_s) {
    const std::string invitation = broadcast(rank_.rank() == 0 ? baseline.invitation() : "");
    if (!is_worker_) return nullptr;
    return baseline.join(
        {rank_.rank(), workers_.size(), rank_.device() ? rank_.device()->number() : -1, timeout_s},
        invitation);
  }
  /// Measures how far this rank's clock is ahead of rank 0's, from the quickest of some round trips
  /// (Cristian 1989). Must be repeated, because clocks drift.
  void compare_clocks() {
    constexpr int kTrips = 8;
    Transport t = transport(equal_ranks_);
    const auto buffer = [](double& value) {
      return Buffer{reinterpret_cast<std::byte*>(&value), 0, 1, Type::f64};
    };
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
  /// Returns at the same moment on all ranks. After a barrier alone they would start one after the
  /// other, and end later.
  void start_together() {
    const double before = now();
    double at = before - ahead_ + (quickest_barrier_ < INFINITY ? 3 * quickest_barrier_ : 0);
    combine({&at, 1}, Op::max);
    at += ahead_;
    quickest_barrier_ = std::min(quickest_barrier_, now() - before);
    constexpr double kWake = 100e-6;  // how late a sleeping thread may wake up
    if (const double left = at - now(); left > 2 * kWake)
      std::this_thread::sleep_for(std::chrono::duration<double>(left - kWake));
    while (now() < at) std::this_thread::yield();
  }
  /// Runs one all-reduce to its end.
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
  const Layout equal_ranks_;
  bool is_worker_;
  const Algorithm& combining_;
  double ahead_ = 0, quickest_barrier_ = INFINITY;  // seconds
};

}  // namespace

namespace {

/// One rank's measurement of all trials.
class Trials {
 public:
  Trials(HostRank& rank, Session& session, const MeasureOptions& options, std::size_t largest)
      : rank_(rank),
        session_(session),
        options_(options),
        runner_(rank, session),
        input_(rank, largest),
        output_(rank, largest) {
    attached_ = rank.attach({output_.data(), 0, largest / 2, Type::f16});
  }

  /// Both timings of a trial; the same on all ranks.
  std::pair<Timing, Timing> run(const Trial& trial) {
    if (trial.baseline && !joined_.contains(trial.baseline))
      joined_[trial.baseline] = runner_.join(*trial.baseline, options_.timeout_s);
    if (runner_.is_worker()) {
      fill(input_.on_host(), trial.count, rank_.rank(), trial.type);
      input_.push(trial.count * size_of(trial.type));
    }
    runner_.compare_clocks();
    Timing out_of_place = run(trial, false);
    return {std::move(out_of_place), run(trial, true)};
  }

 private:
  Timing run(const Trial& trial, bool in_place) {
    const std::size_t bytes = trial.count * size_of(trial.type);
    std::vector<double> samples(static_cast<std::size_t>(options_.iterations));
    double wrong = 0;
    for (int i = -options_.warmup; i < options_.iterations; ++i) {
      if (in_place && runner_.is_worker()) {
        output_.copy(input_, bytes);
        output_.settle();
      }
      runner_.start_together();
      const double start = runner_.now();
      run_once(trial, in_place);
      const double end = runner_.now();
      if (i < 0) continue;
      if (runner_.is_worker()) samples[static_cast<std::size_t>(i)] = end - start;
      if (!options_.check || !runner_.is_worker()) continue;
      output_.pull(bytes);
      wrong += static_cast<double>(
          count_wrong(output_.on_host(), trial.count, trial.type, session_.workers().size()));
    }
    runner_.combine(samples, Op::max);
    runner_.combine({&wrong, 1}, Op::sum);
    return {samples, options_.check ? wrong : -1};
  }

  void run_once(const Trial& trial, bool in_place) {
    if (trial.baseline) {
      if (runner_.is_worker())
        joined_[trial.baseline]->all_reduce(in_place ? output_.data() : input_.data(),
                                            output_.data(), trial.count, trial.type);
      return;
    }
    if (!in_place && runner_.is_worker()) output_.copy(input_, trial.count * size_of(trial.type));
    runner_.reduce(*trial.algorithm, trial.plan, {output_.data(), 0, trial.count, trial.type});
    output_.settle();  // a single rank waits for nothing else than its copy
  }

  HostRank& rank_;
  Session& session_;
  const MeasureOptions& options_;
  Runner runner_;
  Data input_, output_;
  HostRank::Attachment attached_;
  std::map<Baseline*, std::unique_ptr<BaselineRank>> joined_;
};

}  // namespace

std::vector<TrialResult> measure(Session& session, const std::vector<Trial>& trials,
                                 const MeasureOptions& options) {
  std::vector<TrialResult> all;
  for (const Trial& trial : trials) all.push_back({trial, {}, {}});
  std::size_t largest = 0, messages = 0;
  for (const Trial& trial : trials) {
    largest = std::max(largest, trial.count * size_of(trial.type));
    messages = std::max(messages, messages_to_one(session.everyone(), trial.plan));
  }
  const int first_worker =
      session.place().process * session.workers().size() / session.place().processes;
  session.run([&](HostRank& rank) {
    rank.expect(largest, messages);
    Trials here(rank, session, options, largest);
    for (TrialResult& row : all) {
      auto [out_of_place, in_place] = here.run(row.trial);
      if (rank.rank() != first_worker) continue;  // one rank of the process reports
      row.out_of_place = std::move(out_of_place);
      row.in_place = std::move(in_place);
    }
  });
  return all;
}

std::vector<double> replay(Session& session, const Replay& step, const MeasureOptions& options) {
  std::vector<double> result;
  std::size_t largest = 0;
  for (const std::size_t count : step.counts)
    largest = std::max(largest, count * size_of(step.type));
  std::size_t messages = 0;
  for (const Plan& plan : step.plans)
    messages = std::max(messages, messages_to_one(session.everyone(), plan));
  session.run([&](HostRank& rank) {
    rank.expect(largest, messages);
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
          for (std::size_t seen; (seen = ready.load(std::memory_order_acquire)) <= b;)
            ready.wait(seen);
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
