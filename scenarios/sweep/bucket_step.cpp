#include "scenarios/sweep/bucket_step.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace foreduce {

StepInput input_of(StepInput step, const StepQuestions& of, const std::vector<std::size_t>& picks) {
  step.slowest = of.slowest;
  for (std::size_t i = 0; i < picks.size(); ++i)
    step.compute_share =
        i == 0 ? of.shares[i][picks[i]] : std::min(step.compute_share, of.shares[i][picks[i]]);
  return step;
}

AllReduceTime times_of(const StepInput& step, const StepQuestions& of, const Batch& batch,
                       const std::vector<std::size_t>& picks, const std::vector<double>& stretch) {
  std::map<std::size_t, Seconds> times;
  for (std::size_t i = 0; i < picks.size(); ++i)
    times[step.buckets[i].elements] =
        batch[of.numbers[i][picks[i]]].result.time * (stretch.empty() ? 1 : stretch[i]);
  return [times = std::move(times)](std::size_t elements) { return times.at(elements); };
}

std::vector<std::size_t> fastest_picks(const StepInput& step, const StepQuestions& of,
                                       const Batch& batch) {
  const auto total = [&](const std::vector<std::size_t>& picks) {
    return play_step(input_of(step, of, picks), times_of(step, of, batch, picks, {})).total;
  };
  std::vector<std::size_t> best;
  for (const auto& numbers : of.numbers) best.push_back(batch.fastest(numbers));
  const std::size_t candidates = of.numbers.empty() ? 0 : of.numbers[0].size();
  for (std::size_t c = 0; candidates > 1 && c < candidates; ++c) {
    bool all_ok = true;
    std::vector<std::size_t> one;
    for (const auto& numbers : of.numbers) {
      const std::size_t answered = batch.in_place_of(numbers[c]);
      all_ok = all_ok && batch[answered].ok;
      const auto at = std::find(numbers.begin(), numbers.end(), answered);
      one.push_back(static_cast<std::size_t>(at - numbers.begin()));
    }
    if (all_ok && total(one) < total(best)) best = one;
  }
  return best;
}

}  // namespace foreduce
