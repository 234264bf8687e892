#include "real/replay.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "real/measured_rank.hpp"

namespace foreduce {
namespace {

/// What the streams of one worker tell each other: which tasks of which step have ended.
class Progress {
 public:
  explicit Progress(std::size_t tasks) : start(tasks), end(tasks), step_of_(tasks) {}

  void ended(std::size_t task, int step, double from, double to) {
    {
      const std::lock_guard lock(mutex_);
      step_of_[task] = step;
      start[task] = from;
      end[task] = to;
    }
    changed_.notify_all();
  }
  /// Blocks until all of the tasks have ended. Returns when the last one did, or 0 for none. Throws
  /// TransportError once another stream has failed.
  double wait(const std::vector<std::size_t>& tasks, int step) {
    std::unique_lock lock(mutex_);
    double last = 0;
    for (const std::size_t t : tasks) {
      changed_.wait(lock, [&] { return step_of_[t] >= step || !failure_.empty(); });
      if (!failure_.empty()) throw TransportError(failure_);
      last = std::max(last, end[t]);
    }
    return last;
  }
  /// Ends the waits of all other streams.
  void fail(const std::string& why) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_.empty()) failure_ = why;
    }
    changed_.notify_all();
  }

  std::vector<double> start, end;  ///< of each task; to be read after all have ended

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> step_of_;  // the last step in which a task has ended
  std::string failure_;
};

void sleep_until(const MeasuredRank& rank, double at) {
  constexpr double kWake = 100e-6;  // how late a sleeping thread may wake up
  if (const double left = at - rank.now(); left > 2 * kWake)
    std::this_thread::sleep_for(std::chrono::duration<double>(left - kWake));
  while (rank.now() < at) std::this_thread::yield();
}

/// One communication stream of a worker, or of a server.
class StreamRank {
 public:
  StreamRank(HostRank& rank, const Session& session, const Replay& replay, Progress* progress)
      : rank_(rank),
        session_(session),
        replay_(replay),
        measured_(rank, session),
        worker_(rank.rank() / replay.streams),
        stream_(rank.rank() % replay.streams + 1),
        progress_(progress),
        data_(rank, largest(replay)) {
    attached_ = rank.attach({data_.data(), 0, largest(replay) / 2, Type::f16});
    data_.clear(largest(replay));  // sums of zeros stay zeros, and no sum is slow
    data_.wait_for_copies();
    std::vector<int> collectives(static_cast<std::size_t>(replay.streams + 1));
    for (std::size_t t = 0; t < replay.tasks.size(); ++t) {
      all_.push_back(t);
      ++collectives[static_cast<std::size_t>(replay.tasks[t].stream)];
    }
    idle_rounds_ = *std::max_element(collectives.begin() + 1, collectives.end()) -
                   collectives[static_cast<std::size_t>(stream_)];
  }

  static std::size_t largest(const Replay& replay) {
    std::size_t bytes = 0;
    for (const ReplayTask& t : replay.tasks) bytes = std::max(bytes, t.count * size_of(t.type));
    return bytes;
  }

  /// All steps. Returns those that are timed.
  std::vector<ReplayedStep> run(const MeasureOptions& options) {
    std::vector<ReplayedStep> steps(static_cast<std::size_t>(options.iterations));
    std::vector<double> seconds(steps.size());
    measured_.compare_clocks();
    for (int i = -options.warmup; i < options.iterations; ++i) {
      const int number = i + options.warmup + 1;
      measured_.start_together();
      const double start = measured_.now();
      {
        std::jthread computing;
        if (leads()) computing = std::jthread([&] { compute(number, start); });
        try {
          communicate(number);
          if (progress_) progress_->wait(all_, number);
        } catch (const std::exception& e) {
          if (progress_) progress_->fail(e.what());  // or computing would wait for ever
          throw;
        }
      }
      if (options.progress && rank_.rank() == 0)
        options.progress(static_cast<std::size_t>(number),
                         static_cast<std::size_t>(options.warmup + options.iterations));
      if (i < 0 || !leads()) continue;
      ReplayedStep& step = steps[static_cast<std::size_t>(i)];
      for (const std::size_t t : all_) {
        step.start.push_back(progress_->start[t] - start);
        step.end.push_back(progress_->end[t] - start);
        step.seconds = std::max(step.seconds, step.end.back());
      }
      seconds[static_cast<std::size_t>(i)] = step.seconds;
    }
    measured_.combine(seconds, Op::max);
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i].seconds = seconds[i];
    return steps;
  }

 private:
  /// Whether this is the stream that computes and keeps the times.
  bool leads() const { return progress_ && stream_ == 1; }

  /// A GPU's stream begins a task as soon as it may, whenever the CPU notices.
  void compute(int number, double start) {
    try {
      double now = start;
      for (const std::size_t t : all_) {
        const ReplayTask& task = replay_.tasks[t];
        if (task.stream != 0) continue;
        const double from = std::max(now, progress_->wait(task.after, number));
        now = from + task.seconds;
        sleep_until(measured_, now);
        progress_->ended(t, number, from, now);
      }
    } catch (const TransportError&) {
      // Another stream has failed; it says why.
    }
  }

  void communicate(int number) {
    for (const std::size_t t : all_) {
      const ReplayTask& task = replay_.tasks[t];
      if (task.stream != stream_) continue;
      if (progress_) progress_->wait(task.after, number);
      const double from = measured_.now();
      const Buffer data{data_.data(), 0, task.count, task.type};
      if (progress_ || task.algorithm->uses_servers) {
        Transport ranks = transport_of(task);
        rank_.stop_all_on_failure([&] {
          task.algorithm->run(ranks, data, Op::sum, task.plan, {});
          ranks.wait_all();
        });
      }
      rank_.next_round();
      if (progress_) progress_->ended(t, number, from, measured_.now());
    }
    for (int i = 0; i < idle_rounds_; ++i) rank_.next_round();  // as many as other streams have
  }

  /// The workers of this stream, or of its group.
  Transport transport_of(const ReplayTask& task) const {
    const Transport all = measured_.transport_for(*task.algorithm);
    if (replay_.streams == 1 && task.groups.whole()) return all;
    std::vector<int> ranks;
    const int workers = session_.workers().size() / replay_.streams;
    if (task.groups.whole())
      for (int w = 0; w < workers; ++w) ranks.push_back(w);
    else ranks = task.groups.of(worker_);
    for (int& rank : ranks) rank = rank * replay_.streams + stream_ - 1;
    return all.subset(ranks, 1);
  }

  HostRank& rank_;
  const Session& session_;
  const Replay& replay_;
  MeasuredRank measured_;
  int worker_, stream_;
  Progress* progress_;  // of the worker; null for a server, which knows of no computing
  RankData data_;
  HostRank::Attachment attached_;
  std::vector<std::size_t> all_;
  int idle_rounds_ = 0;
};

}  // namespace

std::vector<ReplayedStep> replay(Session& session, const Replay& step,
                                 const MeasureOptions& options) {
  const int workers = session.workers().size() / step.streams;
  const int here = workers / session.place().processes, first = session.place().process * here;
  std::vector<std::unique_ptr<Progress>> progress;
  for (int w = 0; w < here; ++w) progress.push_back(std::make_unique<Progress>(step.tasks.size()));
  std::size_t messages = 0;
  for (const ReplayTask& task : step.tasks)
    messages = std::max(messages, messages_to_one(session.everyone(), task.plan));
  std::vector<ReplayedStep> result;
  session.run([&](HostRank& rank) {
    rank.expect(StreamRank::largest(step), messages);
    const bool is_worker = rank.rank() < session.workers().size();
    Progress* mine =
        is_worker ? progress[static_cast<std::size_t>(rank.rank() / step.streams - first)].get()
                  : nullptr;
    try {
      StreamRank stream(rank, session, step, mine);
      auto steps = stream.run(options);
      if (rank.rank() == first * step.streams) result = std::move(steps);
    } catch (const std::exception& e) {
      if (mine) mine->fail(e.what());
      throw;
    }
  });
  return result;
}

}  // namespace foreduce
