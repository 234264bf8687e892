#include "real/measure.hpp"

#include <map>

#include "real/measured_rank.hpp"
#include "real/test_pattern.hpp"

namespace foreduce {
namespace {

/// One rank's measurement of all trials.
class Trials {
 public:
  Trials(HostRank& rank, Session& session, const MeasureOptions& options, std::size_t largest,
         std::size_t trials)
      : rank_(rank),
        session_(session),
        options_(options),
        iterations_(2 * trials * static_cast<std::size_t>(options.warmup + options.iterations)),
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
    output_.wait_for_copies();
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
      ++done_;
      if (options_.progress && rank_.rank() == 0) options_.progress(done_, iterations_);
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
    output_.wait_for_copies();  // a single rank waits for nothing else than its copy
  }

  HostRank& rank_;
  Session& session_;
  const MeasureOptions& options_;
  std::size_t iterations_, done_ = 0;  // of all trials
  MeasuredRank runner_;
  RankData input_, output_;
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
    Trials here(rank, session, options, largest, trials.size());
    for (TrialResult& row : all) {
      auto [out_of_place, in_place] = here.run(row.trial);
      if (rank.rank() != first_worker) continue;  // one rank of the process reports
      row.out_of_place = std::move(out_of_place);
      row.in_place = std::move(in_place);
    }
  });
  return all;
}

}  // namespace foreduce
