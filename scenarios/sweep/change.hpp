// A what-if: one change of the machines, profiles or compute speed of a scenario.
#pragma once

#include <functional>

#include "models/profile.hpp"
#include "topologies/machine.hpp"

namespace foreduce {

/// Functions that change each machine and profile after it was read, and a factor on the compute
/// speed.
struct Change {
  std::function<void(Machine&)> machine;  ///< empty: nothing
  std::function<void(Profile&)> profile;  ///< empty: nothing
  double compute_speed = 1;               ///< forward and backward are so many times as fast
};

}  // namespace foreduce
