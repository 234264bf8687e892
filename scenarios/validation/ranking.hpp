// Which algorithm is faster from which size on: measured against predicted.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace foreduce {

/// One algorithm at one size, in seconds.
struct Timed {
  std::string algorithm;
  double bytes = 0, measured = 0, predicted = 0;
};

/// Of all pairs of algorithms at one size whose measured times differ by more than a tenth: how
/// many are predicted in the measured order, less how many are not, over all of them (Kendall
/// 1938). Nothing: no such pair.
std::optional<double> kendall(const std::vector<Timed>& rows);

/// Where two algorithms change places, in bytes: between two sizes geometrically; nothing if they
/// never do.
struct Crossing {
  std::pair<std::string, std::string> algorithms;
  std::optional<double> measured, predicted;
};
/// All pairs of algorithms that change places in either; for good, where they do so several times.
/// Of several rows of an algorithm at one size (other segments) the fastest counts.
std::vector<Crossing> crossings(const std::vector<Timed>& rows);

}  // namespace foreduce
