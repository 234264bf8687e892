// What every sweep has in common: which points are asked for, where they came from, and in which
// order they are answered.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/step.hpp"
#include "scenarios/sweep/change.hpp"
#include "scenarios/sweep/scenario.hpp"
#include "sim/batch.hpp"

namespace foreduce {

/// Part of a sweep: every count-th point from the index-th on, counted from 1.
struct Shard {
  int index = 1, count = 1;
  std::string
      from;  ///< where it came from ("--shard", "SLURM_ARRAY_TASK_ID"); empty: the whole sweep
  std::optional<std::size_t> only = {};  ///< this point alone, in place of the above
  bool contains(std::size_t point) const {
    if (only) return point == *only;
    return point % static_cast<std::size_t>(count) == static_cast<std::size_t>(index - 1);
  }
};

/// What an answer was made from.
struct Provenance {
  std::string name;  ///< of the scenario
  std::string file;  ///< where the scenario was read; empty: made from a command line
  std::string hash;  ///< SHA-1 of the scenario's text and of every file that it reads
  std::vector<std::string>
      unused_keys;  ///< keys of the scenario that had no effect on what was asked
  std::vector<std::string> left_out = {};  ///< algorithms that nobody asked for by name, and why
                                           ///< they were not tried
  /// Points that are another's over again, because their GPUs are divided alike.
  std::size_t repeated = 0;
  std::string text = {};      ///< the scenario's, with what --set put in its place; empty: from a
                              ///< command line
  std::string timed_by = {};  ///< of message sizes, see models/caller.hpp
  bool sums_checked = false;  ///< whether every schedule summed small buffers exactly first
};

/// Whether a sweep all of whose points fail is an error of the scenario, or an ordinary answer.
enum class AllFailed : std::uint8_t { is_error, is_answer };

/// Whether a sweep of more than kMostPoints is refused.
enum class Many : std::uint8_t { refuse, accept };
inline constexpr double kMostPoints = 1e6;

/// Points that keep their ClusterLoads.
enum class LoadsOf : std::uint8_t { fastest, all };

struct SweepOptions {
  BatchOptions batch;
  Shard shard;
  AllFailed all_failed = AllFailed::is_error;
  /// Whether a sweep of more than kMostPoints is answered, where not all of it is asked for.
  Many many = Many::refuse;
  /// Whose loads a sweep keeps.
  LoadsOf loads_of = LoadsOf::fastest;
  /// Of the one point that is asked for; and what, where it is a collective.
  Recording recording = Recording::off;
  Recorded record = Recorded::all;
  /// What records: it stands in messages.
  const char* recorder = "--trace";
  /// A change of machines and profiles, to ask a what-if question.
  Change change = {};
};

/// How busy a collective makes the links of a cluster.
struct ClusterLoads {
  std::shared_ptr<const Cluster> cluster;
  ScheduleName schedule;             ///< what it runs
  Bytes bytes;                       ///< of its buffer
  std::vector<LinkLoad> loads;       ///< as CollectiveResult has them
  std::vector<double> utilisations;  ///< the same
};

/// Throws InputError for a point that a sweep of so many does not have, and where several would be
/// recorded.
void check_points_asked(const SweepOptions& options, std::size_t points);

/// Simulates a question of so many messages once more, whole, and records it. Throws InputError for
/// more messages than can be looked at.
std::shared_ptr<const CollectiveResult> recorded(const Question& question, std::uint64_t messages,
                                                 Recorded what);

/// The error of a point that was not reached before the user stopped the sweep.
inline constexpr const char* kInterrupted = "interrupted";

/// Thrown where the user stopped the work before anything was known.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error(kInterrupted) {}
};

/// What became of a sweep: `all` points there are, of which the shard's are answered, in order.
template <class Point>
struct Sweep {
  Provenance provenance;
  std::size_t all = 0;
  std::vector<Point> points;
  LoadsOf loads_of = LoadsOf::fastest;
  std::size_t fastest = 0;  ///< of the points
};

/// Drops the loads of the last point, or those of the one that was fastest before it, unless all
/// are kept. Points have `loads` and a `rate`.
template <class Point>
void keep_loads_of_fastest(Sweep<Point>& sweep) {
  if (sweep.loads_of == LoadsOf::all) return;
  Point& last = sweep.points.back();
  Point& before = sweep.points[sweep.fastest];
  if (&last == &before || !last.loads) return;
  if (before.loads && before.rate() >= last.rate()) return last.loads.reset();
  before.loads.reset();
  sweep.fastest = sweep.points.size() - 1;
}

/// Called with each point as soon as it and all before it are known.
template <class Point>
using OnPoint = std::function<void(const Point&)>;

/// If no point can be answered for what was asked, that is the user's error, not a row: told at
/// `key` of the scenario, which the first point's error is about; empty: at no key. A job has a
/// `point` with an `error`.
template <class Job>
void refuse_if_all_failed(const Scenario& scenario, const std::string& key,
                          const std::vector<Job>& jobs) {
  for (const Job& job : jobs)
    if (job.point.error.empty()) return;
  if (!jobs.empty()) throw wrong(scenario, key, jobs.front().point.error);
}

/// Runs the batch, and answers each job in order as soon as all its `questions` are known. `answer`
/// completes a job's point.
template <class Job, class Answer, class Point>
void answer_in_order(std::vector<Job>& jobs, Batch& batch, const BatchOptions& options,
                     Answer answer, const OnPoint<Point>& on_point, Sweep<Point>& sweep) {
  const auto emit = [&](auto ready) {
    while (sweep.points.size() < jobs.size()) {
      Job& job = jobs[sweep.points.size()];
      if (!ready(job)) return;
      answer(job);
      sweep.points.push_back(std::move(job.point));
      keep_loads_of_fastest(sweep);
      if (on_point && sweep.points.back().error != kInterrupted) on_point(sweep.points.back());
    }
  };
  batch.run(options, [&] { emit([&](const Job& job) { return batch.all_known(job.questions); }); });
  emit([](const Job&) { return true; });
}

}  // namespace foreduce
