// Bounds on the simulated time of an algorithm on a flat network, from what it claims in the
// registry (Algorithm::sends and steps).
#pragma once

#include <algorithm>

#include "algorithms/core/registry.hpp"
#include "input/units.hpp"

namespace foreduce {

/// α-β-γ of a flat network: one rank per node, one full-duplex port each.
struct FlatNetwork {
  Seconds latency;
  BytesPerSecond bandwidth;
  BytesPerSecond reduce_bandwidth;
};

/// Bounds on the time of an all-reduce of `count` elements.
struct ClosedForm {
  Seconds least, most;
};

/// The bounds that follow from what the algorithm claims in the registry.
/// `least`: the busiest rank's bytes over its port and one latency, or one latency per step.
/// `most`: one latency per step; the busiest rank never sends while it receives; no reduction is
/// hidden behind a transfer; and every step takes one segment more to fill the pipeline.
inline ClosedForm closed_form(const Algorithm& algorithm, const Layout& layout, std::size_t count,
                              std::size_t element_size, const Plan& plan,
                              const FlatNetwork& network) {
  if (layout.workers < 2) return {};
  double sent = 0;
  for (int r = 0; r < layout.size(); ++r)
    sent =
        std::max(sent, static_cast<double>(algorithm.sends(layout, r, count, plan) * element_size));
  // One that runs another between the nodes takes the other's, if it may run it.
  const Algorithm* inner =
      algorithm.takes_inner ? find_algorithm(plan.inner, algorithm.collective) : nullptr;
  const int steps = (inner ? *inner : algorithm).steps(layout.workers);
  const Seconds wire = Bytes{sent} / network.bandwidth;
  const Seconds latency = static_cast<double>(steps) * network.latency;
  const double fill = static_cast<double>(steps) / plan.segments;
  const Seconds reductions = Bytes{sent} / network.reduce_bandwidth;
  return {std::max(wire + network.latency, latency), latency + (2 + fill) * (wire + reductions)};
}

}  // namespace foreduce
