#include "scenarios/sweep/global_batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "scenarios/sweep/strategies.hpp"

namespace foreduce {

bool split_global_batch(Prediction& p, std::int64_t samples, Asked asked) {
  const std::int64_t each =
      std::max<std::int64_t>(1, std::int64_t{p.batch_per_gpu} * p.sharding.data_parallel());
  const std::int64_t fewer = samples / each * each,
                     nearest = fewer > 0 && 2 * (samples - fewer) <= each ? fewer : fewer + each;
  p.accumulation = static_cast<int>(std::max<std::int64_t>(1, samples / each));
  if (!p.error.empty() || fewer == samples) return true;
  constexpr int kTenth = 10;
  if (asked == Asked::plan && std::abs(nearest - samples) * kTenth <= samples) {
    p.accumulation = static_cast<int>(nearest / each);
    p.asked_global_batch = samples;
    return true;
  }
  p.error =
      fmt::format("a step of {} samples cannot be cut into micro-batches of {} on {}; {}{} can",
                  samples, p.batch_per_gpu, copies_words(p.sharding),
                  fewer > 0 ? fmt::format("{} and ", fewer) : "", fewer + each);
  return false;
}

}  // namespace foreduce
