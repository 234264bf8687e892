#include "scenarios/validation/chosen.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace foreduce {
namespace {

/// What NCCL says that it chose for so many bytes where something else is expected; else "".
std::string otherwise(const NcclFacts& facts, double bytes, const Expectation& expected) {
  const auto said = facts.chosen.find(bytes);
  return said == facts.chosen.end() || said->second == expected.by ? "" : said->second;
}

}  // namespace

std::optional<std::string> choice_words(Collective collective, const NcclFacts& facts,
                                        const std::vector<double>& sizes,
                                        const std::vector<Expectation>& expected) {
  constexpr std::size_t kMost = 3;
  if (collective != Collective::all_reduce) return std::nullopt;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < sizes.size();) {
    const std::string chosen = otherwise(facts, sizes[i], expected[i]);
    std::size_t end = i + 1;
    while (end < sizes.size() && expected[end].by == expected[i].by &&
           otherwise(facts, sizes[end], expected[end]) == chosen)
      ++end;
    if (!chosen.empty())
      words.push_back(fmt::format(
          "{} {}{}, where {} is expected", chosen, end - i == 1 ? "at " : "from ",
          end - i == 1
              ? to_text(Bytes{sizes[i]})
              : fmt::format("{} to {}", to_text(Bytes{sizes[i]}), to_text(Bytes{sizes[end - 1]})),
          expected[i].by));
    i = end;
  }
  if (words.empty()) return std::nullopt;
  if (words.size() > kMost) {
    const std::size_t more = words.size() - kMost;
    words.resize(kMost);
    words.push_back(fmt::format("and {} more", more));
  }
  return fmt::format("NCCL says that it chose {}", fmt::join(words, "; "));
}

std::optional<Cause> cause_by_choice(
    const NcclFacts& facts, const Setup& healthy, const std::optional<std::string>& words,
    const Sample& few,
    const std::function<std::vector<Expectations>(const std::vector<Setup>&,
                                                  const std::vector<double>&)>& predict) {
  if (!words || !facts.setting("NCCL_ALGO").empty() || !facts.setting("NCCL_PROTO").empty())
    return std::nullopt;
  std::map<std::string, std::vector<std::size_t>> rows;
  for (std::size_t k = 0; k < few.sizes.size(); ++k)
    if (const auto c = otherwise(facts, few.sizes[k], few.healthy[k]); !c.empty())
      rows[c].push_back(k);
  std::vector<Expectation> times = few.healthy;
  for (const auto& [chosen, at] : rows) {
    Setup setup = healthy;
    setup.method = chosen.substr(0, chosen.find(' '));
    setup.protocol = chosen.substr(chosen.find(' ') + 1);
    std::vector<double> sizes;
    for (const std::size_t k : at) sizes.push_back(few.sizes[k]);
    setup.fault = Fault::algorithm;  // one that cannot be simulated is left out
    const Expectations predicted = predict({setup}, sizes)[0];
    if (!predicted || predicted->empty()) return std::nullopt;
    for (std::size_t i = 0; i < at.size(); ++i) {
      times[at[i]] = (*predicted)[i];
      times[at[i]].scale(few.correction[at[i]]);
    }
  }
  const bool loses_nvls = words->find("where nvls") != std::string::npos;
  return Cause{
      "NCCL chooses otherwise than is expected",
      loses_nvls
          ? "is aws-ofi-nccl's tuner loaded (NCCL_DEBUG=INFO says `TUNER/Plugin`)? does NCCL "
            "have NVLS (nvidia-fabricmanager, NCCL_NVLS_ENABLE)? compare the versions of both"
          : "is aws-ofi-nccl's tuner loaded (NCCL_DEBUG=INFO says `TUNER/Plugin`)? compare "
            "NCCL's and the plugin's versions with those that others use",
      *words, misfit_of(times, few.measured)};
}

}  // namespace foreduce
