#include "scenarios/report/compare_falls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "input/counted.hpp"

namespace foreduce {
namespace {

/// Whether the library does two points in other ways: by another choice, on other channels, or with
/// chunks of another length. A last chunk may be shorter, so the parts of two sizes do not tell.
bool done_otherwise(const Json& a, const Json& b, bool of_sizes) {
  const auto chunk = [](const Json& p) {
    const double bytes = number_or(p, "bytes", 0),
                 parts = std::max(1.0, number_or(p, "segments", 1));
    return std::pair(bytes / parts, bytes / std::max(0.5, parts - 1));
  };
  const auto [least_a, most_a] = chunk(a);
  const auto [least_b, most_b] = chunk(b);
  return text_or(a, "chosen") != text_or(b, "chosen") ||
         number_or(a, "nccl_channels", 0) != number_or(b, "nccl_channels", 0) || least_a > most_b ||
         least_b > most_a ||
         (!of_sizes && number_or(a, "segments", 0) != number_or(b, "segments", 0));
}

/// Two neighbours along `axis` ("bytes" or "nodes") of which the larger takes less time.
using Fall = std::pair<const Json*, const Json*>;
std::vector<Fall> falls_along(const char* axis, const Json& points) {
  constexpr double kFall = 0.98;  // what one would see in a measurement
  std::map<std::string, std::map<double, const Json*>> curves;
  for (const Json& p : points) {
    if (p.contains("error") || text_or(p, "chosen").empty()) continue;
    std::string others;
    for (const char* key :
         {"instance", "algorithm", "profile", "placement", "oversubscription", "bytes", "nodes"})
      if (std::string_view(key) != axis && p.contains(key)) others += p[key].dump() + " ";
    curves[others].try_emplace(number_or(p, axis, 0), &p);
  }
  std::vector<Fall> falls;
  for (const auto& [others, curve] : curves)
    for (auto at = curve.begin(); at != curve.end() && std::next(at) != curve.end(); ++at) {
      const Json &small = *at->second, &large = *std::next(at)->second;
      if (number_or(large, "time_us", 0) <= kFall * number_or(small, "time_us", 0))
        falls.emplace_back(&small, &large);
    }
  return falls;
}

/// "on 2 x p5.48xlarge 4 MiB 1.4 ms (ring LL), then 4.01 MiB 0.9 ms (ring Simple)".
std::string fall_words(const Fall& fall, bool of_sizes) {
  const auto& [small, large] = fall;
  const bool same = text_or(*small, "chosen") == text_or(*large, "chosen"),
             channels =
                 number_or(*small, "nccl_channels", 0) != number_or(*large, "nccl_channels", 0),
             parts = number_or(*small, "segments", 0) != number_or(*large, "segments", 0);
  const auto size = [](const Json& p) { return size_words(number_or(p, "bytes", 0)); };
  const auto done = [&](const Json& p) {
    std::string way = text_or(p, "chosen");
    if (same && channels) way += ", " + counted(p.value("nccl_channels", 0), "channel");
    else if (same && parts) way += ", in " + counted(p.value("segments", 0), "segment");
    return fmt::format("{} ({})", milliseconds(number_or(p, "time_us", 0) * 1e-6), way);
  };
  const std::string on = "on " + cluster_words(*small);
  if (of_sizes)
    return fmt::format("{} {} {}, then {} {}", on, size(*small), done(*small), size(*large),
                       done(*large));
  return fmt::format("{} {} {}, then on {} {}", size(*small), on, done(*small),
                     large->value("nodes", 0), done(*large));
}

}  // namespace

std::string falls_lines(const Json& points, const View& view) {
  constexpr std::size_t kMost = 3;
  std::string text;
  for (const char* axis : {"bytes", "nodes"}) {
    const bool of_sizes = std::string_view(axis) == "bytes";
    std::vector<std::string> chosen, modelled;
    for (const Fall& fall : falls_along(axis, points))
      (done_otherwise(*fall.first, *fall.second, of_sizes) ? chosen : modelled)
          .push_back(fall_words(fall, of_sizes));
    for (const auto* words : {&chosen, &modelled}) {
      if (words->empty()) continue;
      const std::size_t shown = view.explain ? words->size() : std::min(kMost, words->size());
      std::string line = fmt::format(
          "{} take less time where {}: ", of_sizes ? "Larger sizes" : "More nodes",
          words == &chosen ? "the library changes its choice"
          : of_sizes       ? "the library changes nothing, which is an inaccuracy of the model"
                           : "the library changes nothing but the length of its messages");
      for (std::size_t i = 0; i < shown; ++i) line += (i > 0 ? "; " : "") + (*words)[i];
      if (shown < words->size()) line += fmt::format("; and {} more", words->size() - shown);
      text += wrapped(line + ".", view, 2);
    }
  }
  return text;
}

}  // namespace foreduce
