// What every algorithm must keep, checked on threads and in the simulator: exact results, the same
// bits, the traffic and the times that it claims, and its symmetry. The tests of the algorithms
// that are built in ask the same functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/core/registry.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

enum class AlgorithmCheck : std::uint8_t {
  result,   ///< every rank has exactly what the collective gives, of whole numbers
  traffic,  ///< every rank sends as many elements as `sends` says, on threads and in the simulator
  bits,     ///< of numbers whose sums depend on the order, threads and the simulator have the same
  time,     ///< the simulated time lies between the bounds that follow from `sends` and `steps`
  symmetry  ///< a simulation that uses the claimed symmetry has the result of a full one
};
inline constexpr std::array kAlgorithmChecks = {AlgorithmCheck::result, AlgorithmCheck::traffic,
                                                AlgorithmCheck::bits, AlgorithmCheck::time,
                                                AlgorithmCheck::symmetry};
std::string_view name_of(AlgorithmCheck check);

/// What an algorithm does not keep, and where.
struct BrokenRule {
  AlgorithmCheck check = AlgorithmCheck::result;
  std::string what;
};

/// So many floats in one schedule. 0 segments or channels in `plan`: the algorithm's defaults.
struct SumsCase {
  std::size_t elements = 0;
  Plan plan;
};
/// The first of several cases that does not keep its rules.
struct BrokenCase {
  std::size_t number = 0;
  BrokenRule rule;
};

/// Result, traffic and bits of each case on the cluster, in turn. A run that makes no progress for
/// `timeout_s` is broken. Works in a child process, so that a crash is an answer as well; the
/// calling process must be single-threaded. `waiting` is called now and then meanwhile, with the
/// number of cases that are done.
std::optional<BrokenCase> check_sums(const Algorithm& algorithm, const Cluster& cluster,
                                     const std::vector<SumsCase>& cases, double timeout_s = 20,
                                     const std::function<void(std::size_t done)>& waiting = {});

/// The time of `elements` floats on a flat network of one rank a node, with nothing reduced before
/// all of a message has arrived. On such a network no time is below collective_bound() either.
std::optional<BrokenRule> check_time(const Algorithm& algorithm, int ranks, std::size_t elements,
                                     Plan plan);

/// Whether simulations use a symmetry of the algorithm there, and what differs if they do.
struct SymmetryCheck {
  bool used = false;
  std::optional<BrokenRule> broken;
};
/// About `elements` floats, in a number of which each rank, channel and segment gets the same.
SymmetryCheck check_symmetry(const Algorithm& algorithm, const Cluster& cluster,
                             std::size_t elements, Plan plan);

}  // namespace foreduce
