#include "real/measure.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>

#include "real/test_pattern.hpp"

namespace foreduce {
namespace {

/// How many messages one rank may send another in one collective: a segment of every chunk, on
/// every channel.
std::size_t messages_to_one(const Layout& layout, const Plan& plan) {
  return static_cast<std::size_t>(layout.size()) * static_cast<std::size_t>(plan.segments) *
         static_cast<std::size_t>(plan.channels);
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
    if (!device_ || bytes == 0) return;
    device_->copy(on_device_.get(), on_host_.data(), bytes);
    device_->settle();
  }
  void pull(std::size_t bytes) {
    if (!device_ || bytes == 0) return;
    device_->copy(on_host_.data(), on_device_.get(), bytes);
    device_->settle();
  }
  /// The elements of `range`, whose base does not count. On a device the copy is only started.
  void copy(Data& from, const Buffer& range) {
    if (range.count == 0) return;
    const std::size_t at = range.offset * size_of(range.type);
    if (device_) device_->copy(on_device_.get() + at, from.on_device_.get() + at, range.bytes());
    else std::memcpy(on_host_.data() + at, from.on_host_.data() + at, range.bytes());
  }
  void clear(std::size_t bytes) {
    if (bytes == 0) return;
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
  /// Runs one collective to its end.
  void run(const Algorithm& algorithm, const Plan& plan, Buffer data) {
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
      fill(whole(trial, input_.on_host()), trial.collective(), rank_.rank());
      input_.push(trial.count * size_of(trial.type));
    }
    runner_.compare_clocks();
    Timing out_of_place = run(trial, false);
    return {std::move(out_of_place), run(trial, true)};
  }

 private:
  static Buffer whole(const Trial& trial, std::byte* base) {
    return {base, 0, trial.count, trial.type};
  }
  /// What a worker gives to the trial's collective.
  Buffer given(const Trial& trial) const {
    return input_of(trial.collective(), whole(trial, nullptr), session_.workers().size(),
                    rank_.rank());
  }

  /// A collective leaves its result in its buffers. So they are filled again before each iteration
  /// in place, and right elements of the last one are cleared before each that is checked.
  void prepare(const Trial& trial, bool in_place, bool checked) {
    if (in_place) output_.copy(input_, whole(trial, nullptr));
    else if (checked) output_.clear(trial.count * size_of(trial.type));
    output_.settle();
  }

  Timing run(const Trial& trial, bool in_place) {
    const std::size_t bytes = trial.count * size_of(trial.type);
    const bool checked =
        options_.check && !(in_place && trial.baseline && runner_.is_worker() &&
                            !joined_[trial.baseline]->works_in_place(trial.collective()));
    std::vector<double> samples(static_cast<std::size_t>(options_.iterations));
    double wrong = 0;
    for (int i = -options_.warmup; i < options_.iterations; ++i) {
      if (runner_.is_worker()) prepare(trial, in_place, checked);
      runner_.start_together();
      const double start = runner_.now();
      run_once(trial, in_place);
      const double end = runner_.now();
      if (i < 0) continue;
      if (runner_.is_worker()) samples[static_cast<std::size_t>(i)] = end - start;
      if (!checked || !runner_.is_worker()) continue;
      output_.pull(bytes);
      wrong += static_cast<double>(count_wrong(whole(trial, output_.on_host()), trial.collective(),
                                               session_.workers().size(), rank_.rank()));
    }
    runner_.combine(samples, Op::max);
    runner_.combine({&wrong, 1}, Op::sum);
    return {samples, checked ? wrong : -1};
  }

  void run_once(const Trial& trial, bool in_place) {
    const Buffer result = whole(trial, output_.data());
    if (trial.baseline) {
      if (runner_.is_worker())
        joined_[trial.baseline]->run(trial.collective(),
                                     in_place ? result : whole(trial, input_.data()), result);
      return;
    }
    if (!in_place && runner_.is_worker()) output_.copy(input_, given(trial));
    runner_.run(*trial.algorithm, trial.plan, result);
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
        runner.run(*step.algorithm, step.plans[b], {data.data(), 0, step.counts[b], step.type});
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
