// What is said of a machine's values that no hardware has.
#pragma once

#include <string>

#include "topologies/plausible.hpp"

namespace foreduce {

/// "nic.bandwidth: 400 GB/s is 3.2 Tb/s a card; cards have up to 1.6 Tb/s; did you mean 400 Gb/s?"
std::string implausible_words(const ImplausibleValue& value);

}  // namespace foreduce
