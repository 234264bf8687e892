#include "sim/ring_laps.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

namespace foreduce {
namespace {

/// A ring over so many nodes stands for larger ones. Of the laps that are left in each of its
/// phases, the last kSteadyLaps must take equal times.
constexpr int kNodes = 8, kSteadyLaps = 3;
/// Relative to a lap: the most by which rounding lets equal laps differ.
constexpr double kLapRounding = 1e-9;

int phases_of(Collective collective) { return collective == Collective::all_reduce ? 2 : 1; }

/// From the `time` of all messages of one sender, channel and segment in one phase, step by step:
/// how long a lap takes, of `each` steps. Negative: laps differ.
double lap_of(std::span<const MessageRecord> messages, double MessageRecord::*time,
              std::size_t each) {
  const std::size_t steps = messages.size();
  const double lap = messages[steps - 1].*time - messages[steps - 1 - each].*time;
  for (std::size_t s = steps - kSteadyLaps * each; s < steps; ++s)
    if (std::abs(messages[s].*time - messages[s - each].*time - lap) > kLapRounding * lap)
      return -1;
  return lap;
}

/// How long one more lap takes in all phases together, of the segments that travel together and of
/// those that do so last, which are shorter.
struct Lap {
  double usual = 0, last = 0;
};

/// Nothing unless all times of all messages repeat from lap to lap. `last`: the first segment of
/// those that travel last.
std::optional<Lap> further_lap(std::vector<MessageRecord> messages, int phases, int last, int ranks,
                               int nodes) {
  // The segments of a sender's channel, each step by step.
  std::sort(messages.begin(), messages.end(), [](const MessageRecord& a, const MessageRecord& b) {
    return a.from != b.from ? a.from < b.from : a.tag < b.tag;
  });
  const auto steps = static_cast<std::size_t>(ranks - 1),
             each = static_cast<std::size_t>(ranks / nodes);
  if (messages.empty() || messages.size() % (steps * static_cast<std::size_t>(phases)) != 0)
    return std::nullopt;
  std::vector<double> usual(static_cast<std::size_t>(phases), -1), shorter = usual;
  for (std::size_t at = 0; at < messages.size(); at += steps) {
    std::vector<double>& laps = segment_of(messages[at].tag) < last ? usual : shorter;
    double& lap = laps[at / steps % laps.size()];
    for (const auto time : {&MessageRecord::posted, &MessageRecord::leaves, &MessageRecord::left,
                            &MessageRecord::landed}) {
      const double found = lap_of(std::span(messages).subspan(at, steps), time, each);
      if (found < 0 || (lap >= 0 && std::abs(found - lap) > kLapRounding * lap))
        return std::nullopt;
      if (lap < 0) lap = found;
    }
  }
  Lap sum;
  for (std::size_t i = 0; i < usual.size(); ++i) {
    sum.usual += std::max(0.0, usual[i]);  // none, where all travel together
    sum.last += shorter[i];
  }
  return sum;
}

}  // namespace

bool has_equal_laps(const CollectiveCall& call) {
  const Cluster& cluster = call.cluster;
  return call.algorithm.in_ring && call.algorithm.symmetry &&
         call.algorithm.symmetry(call.plan) == Symmetry::translation && call.groups.whole() &&
         !call.beside && call.count > 0 && cluster.homogeneous() && cluster.leaves() == 0 &&
         cluster.nodes() == cluster.worker_nodes() && cluster.nodes() > 2 * kNodes;
}

std::optional<CollectiveResult> simulate_by_laps(const CollectiveCall& call,
                                                 const SimOptions& options) {
  const int nodes = call.cluster.nodes(), each = call.cluster.gpus() / nodes;
  // The machine outlives the few nodes' cluster.
  const std::vector<std::shared_ptr<const Machine>> machines(
      kNodes, {std::shared_ptr<const Machine>(), &call.cluster.node(0).machine()});
  const Cluster few(machines, call.cluster.fabric());
  CollectiveCall less{few, call.algorithm, call.plan, 0, call.type, call.op};
  less.elements = static_cast<double>(call.count) * kNodes / nodes;
  less.count = static_cast<std::size_t>(std::ceil(less.elements));
  SimOptions recording = options;
  recording.record = Recorded::messages;
  CollectiveResult result = simulate_here(less, recording);
  const int together = call.plan.together > 0 ? call.plan.together : call.plan.segments,
            turns = (call.plan.segments + together - 1) / together, last = (turns - 1) * together;
  const auto lap = further_lap(std::move(result.record.messages),
                               phases_of(call.algorithm.collective), last, few.gpus(), kNodes);
  result.record = {};
  result.traffic.clear();
  if (!lap || !result.symmetric) return std::nullopt;
  result.time += Seconds{(lap->usual * (turns - 1) + lap->last) * (nodes - kNodes)};
  // In every step each link carries as much as in any other.
  const double steps = static_cast<double>(nodes * each - 1) / (kNodes * each - 1);
  for (LinkLoad& load : result.loads) {
    load.bytes *= steps;
    load.utilisation = load.bytes / (load.bandwidth.value * result.time.value);
  }
  rank_loads(result);
  return result;
}

}  // namespace foreduce
