#include "scenarios/sweep/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "scenarios/sweep/cases.hpp"

namespace foreduce {
namespace {

/// What NCCL_ALGO may be for a collective; one way needs no tuning.
std::vector<std::string> ways_of(Collective collective) {
  if (collective == Collective::all_to_all)
    throw input_error(fmt::format("NCCL has one way to do an {}: there is nothing to choose",
                                  title_of(collective)),
                      "collectives with several: all_reduce, reduce_scatter, all_gather, "
                      "broadcast");
  std::vector<std::string> words;
  for (const NcclAlgorithm a : nccl_algorithms_for(collective))
    words.emplace_back(nccl_names_of(to_text(a))->variable);
  return words;
}

/// What NCCL ran, as it chose or was forced to.
NcclAlgoProto choice_of(const Comparison& c) {
  return {value_named<NcclAlgorithm>(c.chosen.algorithm).value(), c.chosen.protocol};
}

using SizeKey = std::tuple<std::string, int, std::size_t>;
SizeKey key_of(const Comparison& c) { return {c.instance, c.nodes, c.bytes}; }

}  // namespace

Tuning tune(const Scenario& asked, const SweepOptions& options) {
  Tuning tuning;
  tuning.collective = asked.messages->collective;
  Scenario scenario = asked;
  scenario.allreduce.algorithm.values = {"nccl"};
  const Sweep<Comparison> own = compare(scenario, options);
  scenario.allreduce.nccl.algo.values = ways_of(tuning.collective);
  scenario.allreduce.nccl.proto.values = {NcclProtocol::ll, NcclProtocol::ll128,
                                          NcclProtocol::simple};
  SweepOptions every = options;
  every.all_failed = AllFailed::is_answer;  // some cannot run anywhere
  const Sweep<Comparison> forced = compare(scenario, every);
  std::map<SizeKey, TunedSize> sizes;
  for (const Comparison& c : own.points)
    if (c.error.empty())
      sizes[key_of(c)] = {c.instance,   c.nodes, c.ranks, c.bytes,           choice_of(c),
                          choice_of(c), c.time,  c.time,  c.interval.widened};
    else if (c.error != kInterrupted)
      throw input_error(
          fmt::format("{}: {}", cluster_words(std::to_string(c.nodes), c.instance), c.error));
  for (const Comparison& c : forced.points) {
    const auto at = sizes.find(key_of(c));
    if (at == sizes.end() || !c.error.empty() || c.time >= at->second.fastest_time) continue;
    at->second.fastest = choice_of(c);
    at->second.fastest_time = c.time;
  }
  for (auto& [key, size] : sizes) tuning.sizes.push_back(std::move(size));
  return tuning;
}

}  // namespace foreduce
