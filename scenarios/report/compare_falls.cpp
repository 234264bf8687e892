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

/// Two neighbours along `axis` ("bytes" or "nodes"), the smaller one first.
using Neighbours = std::pair<const Json*, const Json*>;
std::vector<Neighbours> neighbours_along(const char* axis, const Json& points) {
  std::map<std::string, std::map<double, const Json*>> curves;
  for (const Json& p : points) {
    if (p.contains("error") || text_or(p, "chosen").empty()) continue;
    std::string others;
    for (const char* key :
         {"instance", "algorithm", "profile", "placement", "oversubscription", "bytes", "nodes"})
      if (std::string_view(key) != axis && p.contains(key)) others += p[key].dump() + " ";
    curves[others].try_emplace(number_or(p, axis, 0), &p);
  }
  std::vector<Neighbours> all;
  for (const auto& [others, curve] : curves)
    for (auto at = curve.begin(); at != curve.end() && std::next(at) != curve.end(); ++at)
      all.emplace_back(at->second, std::next(at)->second);
  return all;
}

/// How many times as much the larger of two has.
double times_as_much(const char* key, const Neighbours& two) {
  return number_or(*two.second, key, 0) / std::max(1e-300, number_or(*two.first, key, 0));
}

/// Those of which the larger takes less time.
std::vector<Neighbours> falls_along(const char* axis, const Json& points) {
  constexpr double kFall = 0.98;  // what one would see in a measurement
  std::vector<Neighbours> falls = neighbours_along(axis, points);
  std::erase_if(falls, [](const Neighbours& two) { return times_as_much("time_us", two) > kFall; });
  return falls;
}

/// Those of which the larger has half of the bandwidth or less, for it is done in another way.
std::vector<Neighbours> cliffs(const Json& points) {
  constexpr double kCliff = 2;
  std::vector<Neighbours> all = neighbours_along("bytes", points);
  std::erase_if(all, [](const Neighbours& two) {
    return text_or(*two.first, "chosen") == text_or(*two.second, "chosen") ||
           times_as_much("time_us", two) < kCliff * times_as_much("bytes", two);
  });
  return all;
}

/// "on 2 x p5.48xlarge 4 MiB 1.4 ms (ring LL), then 4.01 MiB 0.9 ms (ring Simple)".
std::string fall_words(const Neighbours& fall, bool of_sizes) {
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

/// What is so, and where: all places if `view` asks to explain, else a few.
std::string list_line(const std::string& what, const std::vector<std::string>& where,
                      const View& view) {
  constexpr std::size_t kMost = 3;
  const std::size_t shown = view.explain ? where.size() : std::min(kMost, where.size());
  std::string line = what + ": ";
  for (std::size_t i = 0; i < shown; ++i) line += (i > 0 ? "; " : "") + where[i];
  if (shown < where.size()) line += fmt::format("; and {} more", where.size() - shown);
  return wrapped(line + ".", view, 2);
}

}  // namespace

void mark_falls(Json& points) {
  constexpr std::pair<const char*, const char*> kAxes[] = {{"bytes", "faster_at_bytes"},
                                                           {"nodes", "faster_on_nodes"}};
  for (const auto& [axis, key] : kAxes) {
    std::map<const Json*, Json> faster;
    for (const auto& [small, large] : falls_along(axis, points))
      faster[small] = large->value(axis, Json());
    for (Json& p : points)
      if (!p.contains("error")) p[key] = faster[&p];
  }
}

std::string falls_lines(const Json& points, const View& view) {
  std::string text;
  for (const char* axis : {"bytes", "nodes"}) {
    const bool of_sizes = std::string_view(axis) == "bytes";
    std::vector<std::string> chosen, modelled;
    for (const Neighbours& fall : falls_along(axis, points))
      (done_otherwise(*fall.first, *fall.second, of_sizes) ? chosen : modelled)
          .push_back(fall_words(fall, of_sizes));
    for (const auto* words : {&chosen, &modelled}) {
      if (words->empty()) continue;
      const std::string what = of_sizes ? "Larger sizes" : "More nodes";
      text += list_line(
          what + " take less time where " +
              (words == &chosen ? "the library changes its choice"
               : of_sizes       ? "the library changes nothing, which is an inaccuracy of the model"
                                : "the library changes nothing but the length of its messages"),
          *words, view);
    }
  }
  std::vector<std::string> steep;
  for (const Neighbours& two : cliffs(points)) steep.push_back(fall_words(two, true));
  if (!steep.empty())
    text += list_line("Bandwidth falls to a half or less where the library changes its choice",
                      steep, view);
  return text;
}

}  // namespace foreduce
