// Tasks on streams, played as a fluid: each queue runs its tasks one after another, and those of
// different queues run at the same time and slow each other.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <vector>

#include "input/units.hpp"

namespace foreduce {

/// What a GPU does at once.
enum class Stream : std::uint8_t {
  compute,
  all_gather,         ///< of parameters, inside a sharding group
  reduce_scatter,     ///< of gradients, inside a sharding group
  all_reduce,         ///< of gradients, between sharding groups or among all
  tensor,             ///< of activations, inside a tensor-parallel group: computing waits for it
  pipeline,           ///< activations and their gradients between stages: computing waits for them
  exchange,           ///< of tokens and their gradients, among GPUs that share a block's experts:
                      ///< computing waits for it
  expert_all_gather,  ///< as all_gather, of experts, among GPUs that have the same ones
  expert_reduce_scatter,  ///< as reduce_scatter, likewise
  expert_all_reduce,      ///< as all_reduce, likewise
  context_all_gather,     ///< of attention's keys and values, among GPUs that share sequences:
                          ///< computing waits for it
  context_reduce_scatter  ///< of their gradients, likewise
};
inline constexpr std::size_t kStreams = 12;
using StreamSet = std::bitset<kStreams>;

struct Task {
  Stream stream = Stream::compute;
  Seconds alone;                   ///< what it takes while nothing else runs; 0 is a mere mark
  std::vector<std::size_t> after;  ///< earlier tasks that must have ended
  std::size_t elements = 0;        ///< of a collective's whole buffer, as in CollectiveUse
  /// In whose order it runs: that of its own stream, or of another one whose communicator it uses.
  Stream queue = stream;
};

/// One number for each stream.
using PerStream = std::array<double, kStreams>;
constexpr PerStream for_all_streams(double value) {
  PerStream all{};
  all.fill(value);
  return all;
}

/// Speeds while several streams run, relative to running alone.
struct StreamSpeeds {
  /// Of computing while a collective of that stream runs; while several run, the least of theirs.
  PerStream compute = for_all_streams(1);
  /// Of a stream's collective while those of `running`, which has itself, run; empty: always 1.
  std::function<double(Stream stream, StreamSet running)> collective;
};

/// What became of the tasks.
struct Timeline {
  Seconds total;
  std::vector<Seconds> start, end;  ///< of each task
  std::array<Seconds, kStreams>
      delayed;  ///< by how much longer than its tasks computing took because of each stream: while
                ///< computing waits or is slowed, whatever runs shares that time equally. Together
                ///< total less all computing.
};

/// Plays the tasks, each queue's in their order. A task may be after earlier ones only.
Timeline play(const std::vector<Task>& tasks, const StreamSpeeds& speeds);

/// Timeline::delayed of tasks that were measured: the time in which nothing was computed, shared
/// equally by the streams whose collectives ran then. What passes while nothing runs at all is
/// nobody's.
std::array<Seconds, kStreams> delays(const std::vector<Task>& tasks,
                                     const std::vector<Seconds>& start,
                                     const std::vector<Seconds>& end);

}  // namespace foreduce
