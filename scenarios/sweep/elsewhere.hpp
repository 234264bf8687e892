// Where a key belongs that stands in the wrong place.
#pragma once

#include "input/problem.hpp"

namespace foreduce {

/// The same problems, and of each key that exists, but elsewhere in a scenario, where that is:
/// "did you mean cluster.fabric.oversubscription?".
InputError with_places_of_keys(const InputError& error);

}  // namespace foreduce
