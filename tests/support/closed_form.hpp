// What an algorithm costs on a flat network by its own claims: the oracle of closed_form_test.
#pragma once

#include <algorithm>

#include "algorithms/core/registry.hpp"
#include "input/units.hpp"

namespace foreduce::test {

/// α-β-γ of a flat network: one rank a node, one full-duplex port each.
struct FlatNetwork {
  Seconds latency;
  BytesPerSecond bandwidth;
  BytesPerSecond reduce_bandwidth;
};

/// Two-sided closed form on n ranks, made from what the algorithm claims in the registry. At least: the busiest rank's bytes over
/// its port and one latency, or one latency a step. At most: a latency a step, the busiest rank never sending while it
/// receives, every reduce in the open, and one segment a step to fill the pipeline.
struct ClosedForm {
  Seconds least, most;
};
inline ClosedForm closed_form(const Algorithm& algorithm, const Layout& layout, std::size_t count, std::size_t element_size,
                       const Plan& plan, const FlatNetwork& network) {
  if (layout.workers < 2) return {};
  double sent = 0;
  for (int r = 0; r < layout.size(); ++r)
    sent = std::max(sent, static_cast<double>(algorithm.sends(layout, r, count, plan) * element_size));
  const int steps = algorithm.steps(layout.workers);
  const Seconds wire = Bytes{sent} / network.bandwidth;
  const Seconds latency = static_cast<double>(steps) * network.latency;
  const double fill = static_cast<double>(steps) / plan.segments;
  const Seconds reduces = Bytes{sent} / network.reduce_bandwidth;
  return {std::max(wire + network.latency, latency), latency + (2 + fill) * (wire + reduces)};
}

}  // namespace foreduce::test
