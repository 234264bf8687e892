#include "scenarios/report/predict_shortages.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "input/counted.hpp"
#include "scenarios/report/axes.hpp"
#include "scenarios/report/predict_table.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {

std::string predict_shortage_lines(const Json& points, const View& view) {
  struct Group {
    std::string instance, what, why;
    std::set<int> nodes;
    int of_nodes = 0;     // whose numbers are in `why`
    bool differ = false;  // reasons of other numbers of nodes
    int alike = 0;        // other settings with that reason
  };
  std::vector<Group> groups;
  std::map<std::pair<std::string, std::string>, std::size_t> places;  // in `groups`
  const TrainingWords training(points);
  const bool models = varies(points, "model");
  for (const Json* p : answered(points)) {
    const std::string why = text_or(*p, "memory_shortage");
    if (why.empty()) continue;
    const std::string instance = text_or(*p, "instance"),
                      what = (models ? ", " + text_or(*p, "model") : "") + training(*p);
    const auto [at, is_new] = places.try_emplace({instance, what}, groups.size());
    if (is_new) groups.push_back({instance, what, why, {}, 0, false, 0});
    Group& g = groups[at->second];
    g.differ = g.differ || g.why != why;
    g.why = why;
    g.of_nodes = p->value("nodes", 0);
    g.nodes.insert(g.of_nodes);
  }
  std::vector<Group> shown;
  for (const Group& g : groups) {
    const auto same = std::find_if(shown.begin(), shown.end(), [&](const Group& other) {
      return std::tie(other.instance, other.why, other.nodes) ==
             std::tie(g.instance, g.why, g.nodes);
    });
    if (same != shown.end() && !view.explain) ++same->alike;
    else shown.push_back(g);
  }
  constexpr std::size_t kMost = 6;
  const std::size_t most = view.explain ? shown.size() : std::min(kMost, shown.size());
  std::string text;
  for (std::size_t i = 0; i < most; ++i) {
    const Group& g = shown[i];
    const std::string alike = g.alike == 0 ? "" : " and " + counted(g.alike, "other setting");
    text += wrapped(
        fmt::format("{}{}{}: {}{}",
                    cluster_words(fmt::format("{}", fmt::join(g.nodes, ", ")), g.instance), g.what,
                    alike, g.why,
                    g.differ ? fmt::format(" (as on {})", counted(g.of_nodes, "node")) : ""),
        view, 2);
  }
  if (most < shown.size())
    text +=
        wrapped(fmt::format("{} more {} memory, too: the table says how much, and --explain why.",
                            shown.size() - most, shown.size() - most == 1 ? "lacks" : "lack"),
                view, 2);
  return text;
}

}  // namespace foreduce
