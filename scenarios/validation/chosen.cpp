#include "scenarios/validation/chosen.hpp"

#include <algorithm>
#include <map>

namespace foreduce {
namespace {

/// What NCCL says that it chose for so many bytes where something else is expected; else nothing.
std::optional<NcclAlgoProto> otherwise(const NcclFacts& facts, double bytes,
                                       const Expectation& expected) {
  const auto said = facts.chosen.find(bytes);
  if (said == facts.chosen.end() || said->second == expected.by) return std::nullopt;
  return said->second;
}

}  // namespace

std::optional<Choices> other_choices(Collective collective, const NcclFacts& facts,
                                     const std::vector<double>& sizes,
                                     const std::vector<Expectation>& expected) {
  if (collective != Collective::all_reduce) return std::nullopt;
  Choices found;
  for (std::size_t i = 0; i < sizes.size();) {
    const auto chosen = otherwise(facts, sizes[i], expected[i]);
    std::size_t end = i + 1;
    while (end < sizes.size() && expected[end].by == expected[i].by &&
           otherwise(facts, sizes[end], expected[end]) == chosen)
      ++end;
    if (chosen)
      found.all.push_back({*chosen, expected[i].by, Bytes{sizes[i]}, Bytes{sizes[end - 1]}});
    i = end;
  }
  return found.all.empty() ? std::nullopt : std::optional(std::move(found));
}

std::optional<Cause> cause_by_choice(const NcclFacts& facts, const Setup& healthy,
                                     const std::optional<Choices>& choices, const Sample& few,
                                     const PredictSetups& predict) {
  if (!choices || !facts.setting("NCCL_ALGO").empty() || !facts.setting("NCCL_PROTO").empty())
    return std::nullopt;
  std::map<NcclAlgoProto, std::vector<std::size_t>> rows;
  for (std::size_t k = 0; k < few.sizes.size(); ++k)
    if (const auto c = otherwise(facts, few.sizes[k], few.healthy[k])) rows[*c].push_back(k);
  std::vector<Expectation> times = few.healthy;
  for (const auto& [chosen, at] : rows) {
    Setup setup = healthy;
    setup.algorithm = chosen.algorithm;
    setup.protocol = chosen.protocol;
    std::vector<double> sizes;
    for (const std::size_t k : at) sizes.push_back(few.sizes[k]);
    setup.kind = cause::OtherChoices{};  // one that cannot be simulated is left out
    const Expectations predicted = predict({setup}, sizes)[0];
    if (!predicted || predicted->empty()) return std::nullopt;
    for (std::size_t i = 0; i < at.size(); ++i) {
      times[at[i]] = (*predicted)[i];
      times[at[i]].scale(few.correction[at[i]]);
    }
  }
  const bool loses_nvls =
      std::any_of(choices->all.begin(), choices->all.end(), [](const Choice& c) {
        return c.expected.algorithm == NcclAlgorithm::nvls ||
               c.expected.algorithm == NcclAlgorithm::nvls_tree;
      });
  return Cause{{cause::OtherChoices{loses_nvls}, {}, *choices}, misfit_of(times, few.measured)};
}

bool loses_bandwidth(const Choices& choices, Bytes largest) {
  return std::any_of(choices.all.begin(), choices.all.end(), [&](const Choice& c) {
    return c.to >= largest && c.expected.protocol == NcclProtocol::simple &&
           c.chosen.protocol != NcclProtocol::simple;
  });
}

}  // namespace foreduce
