// One thing that is otherwise than a scenario has it, to see what it would change.
#pragma once

#include <functional>

#include "models/profile.hpp"
#include "topologies/machine.hpp"

namespace foreduce {

/// What happens to each machine and profile after it was read, and to the speed of computing.
struct Change {
  std::function<void(Machine&)> machine;  ///< empty: nothing
  std::function<void(Profile&)> profile;  ///< empty: nothing
  double compute_speed = 1;               ///< forward and backward are so many times as fast
};

}  // namespace foreduce
