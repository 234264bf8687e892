// Simulations as several tests ask for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "models/rank_layout.hpp"
#include "sim/child_process.hpp"
#include "sim/collective.hpp"
#include "tests/support/machines.hpp"

namespace foreduce::test {

/// A reduce segment larger than any message: nothing is reduced before all of a message has
/// arrived.
inline constexpr double kNoOverlap = 1e18;

/// Every rank is simulated, symmetry or not.
inline SimOptions in_full(double reduce_segment = SimOptions{}.reduce_segment.value) {
  SimOptions options;
  options.reduce_segment = Bytes{reduce_segment};
  options.use_symmetry = false;
  return options;
}

/// One rank represents all that are symmetric to it.
inline SimOptions by_symmetry(double reduce_segment = SimOptions{}.reduce_segment.value) {
  SimOptions options = in_full(reduce_segment);
  options.use_symmetry = true;
  return options;
}

inline std::size_t floats_in(double bytes) { return static_cast<std::size_t>(bytes / 4); }

/// Simulated seconds of an all-reduce of `bytes` of floats.
inline double simulated_seconds(const std::string& algorithm, const Cluster& cluster, double bytes,
                                const SimOptions& options, const Plan& plan = {}) {
  return simulate({cluster, *find_algorithm(algorithm), plan, floats_in(bytes)}, options)
      .time.value;
}

/// Whether two times differ by at most this part of the second.
inline testing::AssertionResult close(double got, double want, double relative) {
  if (std::abs(got / want - 1) <= relative) return testing::AssertionSuccess();
  return testing::AssertionFailure() << got << " s where " << want << " s are expected";
}

/// Expects the same time, and on every class of links the same bytes and utilisation.
inline void expect_same_result(const CollectiveResult& got, const CollectiveResult& want,
                               double relative) {
  EXPECT_NEAR(got.time / want.time, 1, relative);
  ASSERT_EQ(got.loads.size(), want.loads.size());
  for (const LinkLoad& load : got.loads) {
    const auto same = std::find_if(want.loads.begin(), want.loads.end(),
                                   [&](const LinkLoad& other) { return other.link == load.link; });
    ASSERT_NE(same, want.loads.end()) << load.link;
    EXPECT_NEAR(load.bytes / same->bytes, 1, relative) << load.link;
    EXPECT_NEAR(load.utilisation / same->utilisation, 1, relative) << load.link;
  }
}

/// What each rank posts in run_script().
using Script = Event (*)(Transport&, Buffer, Op, const Plan&, Event);

/// Simulated seconds of a run in which ranks do what `script` says. Throws TransportError if it
/// fails.
inline double run_script(const Cluster& cluster, Script script, double bytes) {
  Algorithm algorithm;
  algorithm.name = "script";
  algorithm.run = script;
  const ChildResult child = run_in_child([&]() -> nlohmann::json {
    return simulate_here({cluster, algorithm, {}, floats_in(bytes)}, in_full(kNoOverlap))
        .time.value;
  });
  if (!child.ok) throw TransportError(child.error);
  return child.value.get<double>();
}

}  // namespace foreduce::test
