// The small experiments on a cluster from which a profile is fitted: what measures them and what
// fits to them know no more of each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace foreduce {

enum class Experiment : std::uint8_t {
  exchange,     ///< both send at once and wait for the other's message, many times in a row
  ping_pong,    ///< a message and its answer; the time is half of that
  pairs,        ///< ping-pong between disjoint pairs of processes at once
  one_to_many,  ///< one rank sends to all others at once, until the last one has received
  burst,        ///< one of many messages that are under way at once
  reduce        ///< reducing without communication
};
/// What an experiment's messages cross.
enum class ExperimentPath : std::uint8_t {
  network,
  memory  ///< between threads of one process
};

inline constexpr std::array<std::string_view, 6> kExperimentNames = {
    "exchange", "ping-pong", "pairs", "one-to-many", "burst", "reduce"};
inline constexpr std::array<std::string_view, 2> kExperimentPathNames = {"network", "memory"};

/// As files and reports have it: "ping-pong".
constexpr std::string_view name_of(Experiment experiment) {
  return kExperimentNames[static_cast<std::size_t>(experiment)];
}
constexpr std::string_view name_of(ExperimentPath path) {
  return kExperimentPathNames[static_cast<std::size_t>(path)];
}

/// The one of that name_of(), or nothing.
constexpr std::optional<Experiment> experiment_named(std::string_view name) {
  for (std::size_t i = 0; i < kExperimentNames.size(); ++i)
    if (kExperimentNames[i] == name) return static_cast<Experiment>(i);
  return std::nullopt;
}
constexpr std::optional<ExperimentPath> experiment_path_named(std::string_view name) {
  for (std::size_t i = 0; i < kExperimentPathNames.size(); ++i)
    if (kExperimentPathNames[i] == name) return static_cast<ExperimentPath>(i);
  return std::nullopt;
}

}  // namespace foreduce
