#include "sim/ring_laps.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/rank_layout.hpp"

namespace foreduce {
namespace {

/// A ring over so many nodes stands for larger ones. Of the laps that are left in each of its
/// phases, the last kSteadyLaps must take equal times.
constexpr int kNodes = 8, kSteadyLaps = 3;
/// Where nodes differ, rings with so many of the equal ones are simulated. The time that a further
/// node adds must be the same in the mean of eight and for each of the last two: equal means of
/// eight alone were 0.4 % off for LL in 21 segments on g4dn and p3.
constexpr int kLengths[] = {16, 24, 25, 26}, kLongest = 26;
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

/// Equal nodes that follow each other around the ring, where node 0 follows the last one.
struct Run {
  int first = 0, nodes = 0;
};

Run longest_run(const Cluster& cluster) {
  const int all = cluster.nodes();
  const auto kind = [&](int n) { return &cluster.node(n % all); };
  if (cluster.homogeneous()) return {0, all};
  int first = 1;  // where a run begins
  while (kind(first) == kind(first - 1)) ++first;
  Run longest;
  for (int n = first, end = first + all; n < end; ++n) {
    if (kind(n) != kind(first)) first = n;
    if (n - first >= longest.nodes) longest = {first % all, n - first + 1};
  }
  return longest;
}

/// The cluster when only so many nodes of a run are left. The machines outlive it.
Cluster with_run_of(const Cluster& cluster, const Run& run, int left) {
  const int all = cluster.nodes();
  std::vector<std::shared_ptr<const Machine>> machines;
  for (int n = 0; n < all; ++n) {
    const int at = (n - run.first + all) % all;
    if (at < left || at >= run.nodes)
      machines.emplace_back(std::shared_ptr<const Machine>(), &cluster.node(n).machine());
  }
  return {machines, cluster.fabric()};
}

/// The call on a cluster of fewer nodes, with chunks of the same bytes.
CollectiveCall on_fewer_nodes(const CollectiveCall& call, const Cluster& few) {
  CollectiveCall less{few, call.algorithm, call.plan, 0, call.type, call.op};
  less.elements = static_cast<double>(call.count) * few.gpus() / call.cluster.gpus();
  less.count = static_cast<std::size_t>(std::ceil(less.elements));
  return less;
}

/// The result when it takes so much longer; its loads have their bytes already.
CollectiveResult with_further(CollectiveResult result, Seconds laps) {
  result.time += laps;
  for (LinkLoad& load : result.loads)
    load.utilisation = load.bytes / (load.bandwidth.value * result.time.value);
  rank_loads(result);
  return result;
}

/// Where all nodes are equal: each of those left out takes one more lap.
std::optional<CollectiveResult> of_equal_nodes(const CollectiveCall& call, SimOptions options) {
  const int nodes = call.cluster.nodes();
  const Cluster few = with_run_of(call.cluster, {0, nodes}, kNodes);
  options.record = Recorded::messages;
  CollectiveResult result = simulate_here(on_fewer_nodes(call, few), options);
  const int together = call.plan.together > 0 ? call.plan.together : call.plan.segments,
            turns = (call.plan.segments + together - 1) / together, last = (turns - 1) * together;
  const auto lap = further_lap(std::move(result.record.messages),
                               phases_of(call.algorithm.collective), last, few.gpus(), kNodes);
  result.record = {};
  result.traffic.clear();
  if (!lap || !result.symmetric) return std::nullopt;
  // In every step each link carries as much as in any other.
  const double steps = static_cast<double>(call.cluster.gpus() - 1) / (few.gpus() - 1);
  for (LinkLoad& load : result.loads) load.bytes *= steps;
  return with_further(std::move(result),
                      Seconds{(lap->usual * (turns - 1) + lap->last) * (nodes - kNodes)});
}

/// Where some nodes differ, ranks behind a slow one begin at their own pace, and no lap of theirs
/// need be like the one before. So it counts what a further node adds to the time.
std::optional<CollectiveResult> of_run(const CollectiveCall& call, const SimOptions& options,
                                       const Run& run) {
  CollectiveResult result;
  std::map<std::string, double> bytes;  // by class of links, of the ring before
  Seconds each;                         // further node
  int before = 0;
  for (const int length : kLengths) {
    const Cluster few = with_run_of(call.cluster, run, length);
    CollectiveCall less = on_fewer_nodes(call, few);
    // Chunks are equal where the elements divide; simulate_here() lets these mean as many bytes.
    const Plan plan =
        with_defaults(call.algorithm, call.plan, rank_layout(few), less.count * size_of(call.type));
    const std::size_t unit =
        static_cast<std::size_t>(few.gpus() * std::max(1, plan.channels)) * plan.cut().parts();
    less.count = (less.count + unit - 1) / unit * unit;
    bytes.clear();
    for (const LinkLoad& load : result.loads) bytes[load.link] = load.bytes;
    CollectiveResult next = simulate_here(less, options);
    next.messages += result.messages;
    next.wall_seconds += result.wall_seconds;
    const Seconds added = (next.time - result.time) / (length - before);
    if (length > kLengths[1] && std::abs((added - each).value) > kLapRounding * added.value)
      return std::nullopt;
    result = std::move(next);
    each = added;
    before = length;
  }
  result.traffic.clear();
  const int further = run.nodes - kLongest;
  for (LinkLoad& load : result.loads) load.bytes += further * (load.bytes - bytes[load.link]);
  return with_further(std::move(result), further * each);
}

/// Whether data goes around all nodes, by all ranks or by one of each node.
bool goes_around(const Algorithm& algorithm, const Plan& plan) {
  return algorithm.in_ring || (algorithm.takes_inner && plan.inner == "ring");
}

}  // namespace

bool has_equal_laps(const CollectiveCall& call) {
  const Cluster& cluster = call.cluster;
  const bool possible = goes_around(call.algorithm, call.plan) && call.algorithm.symmetry &&
                        call.algorithm.symmetry(call.plan) == Symmetry::translation &&
                        call.groups.whole() && !call.beside && call.count > 0 &&
                        cluster.leaves() == 0 && cluster.nodes() == cluster.worker_nodes();
  if (!possible) return false;
  return cluster.homogeneous() ? call.algorithm.in_ring && cluster.nodes() > 2 * kNodes
                               : longest_run(cluster).nodes > 2 * kLongest;
}

std::optional<CollectiveResult> simulate_by_laps(const CollectiveCall& call,
                                                 const SimOptions& options) {
  return call.cluster.homogeneous() ? of_equal_nodes(call, options)
                                    : of_run(call, options, longest_run(call.cluster));
}

}  // namespace foreduce
