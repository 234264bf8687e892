// Rings and chains over a machine's GPUs along its NVLinks: what NCCL calls its graph search.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "topologies/graph.hpp"

namespace foreduce {
namespace {

using Widths = std::vector<std::vector<int>>;  // links between each pair of GPUs

/// All closed rings over GPUs 0 … n-1, each once (it starts at 0, and its second GPU is below its
/// last).
void closed_rings(const Widths& links, std::vector<int>& path, std::vector<bool>& used,
                  std::vector<std::vector<int>>& found, int& budget) {
  if (--budget < 0) return;
  const auto n = links.size();
  const auto last = static_cast<std::size_t>(path.back());
  if (path.size() == n) {
    if (links[last][0] > 0 && (n <= 2 || path[1] < path.back())) found.push_back(path);
    return;
  }
  for (std::size_t next = 1; next < n; ++next)
    if (!used[next] && links[last][next] > 0) {
      used[next] = true;
      path.push_back(static_cast<int>(next));
      closed_rings(links, path, used, found, budget);
      path.pop_back();
      used[next] = false;
    }
}

/// The largest set of rings (with repetition) that the links carry, of as many as are tried within
/// the budget: each trial costs one.
void pack(const std::vector<std::vector<int>>& rings, std::size_t from, Widths& free,
          std::vector<std::size_t>& chosen, std::vector<std::size_t>& best, std::size_t most,
          int& budget) {
  if (chosen.size() > best.size()) best = chosen;
  if (best.size() == most) return;
  for (std::size_t r = from; r < rings.size() && best.size() < most; ++r) {
    if (--budget < 0) return;
    const auto each_edge = [&](int change) {
      bool fits = true;
      for (std::size_t i = 0; i < rings[r].size(); ++i) {
        const auto a = static_cast<std::size_t>(rings[r][i]),
                   b = static_cast<std::size_t>(rings[r][(i + 1) % rings[r].size()]);
        free[a][b] += change;
        free[b][a] += change;
        if (free[a][b] < 0) fits = false;
      }
      return fits;
    };
    if (each_edge(-1)) {
      chosen.push_back(r);
      pack(rings, r, free, chosen, best, most, budget);
      chosen.pop_back();
    }
    each_edge(+1);
  }
}

int narrowest(const Widths& links, const std::vector<int>& ring) {
  int least = std::numeric_limits<int>::max();
  for (std::size_t i = 0; i < ring.size(); ++i)
    least = std::min(least, links[static_cast<std::size_t>(ring[i])]
                                 [static_cast<std::size_t>(ring[(i + 1) % ring.size()])]);
  return least;
}

Widths link_table(const Machine& m) {
  Widths links(static_cast<std::size_t>(m.gpus()),
               std::vector<int>(static_cast<std::size_t>(m.gpus())));
  if (m.nvlink)
    for (const auto& e : m.nvlink->edges)
      links[static_cast<std::size_t>(e[0])][static_cast<std::size_t>(e[1])] =
          links[static_cast<std::size_t>(e[1])][static_cast<std::size_t>(e[0])] = e[2];
  return links;
}

}  // namespace

std::vector<std::vector<int>> NodeGraph::rings_among(std::span<const int> gpus) const {
  const std::size_t n = gpus.size();
  // The search is exhaustive on every mesh that was built; on larger ones it keeps the best it has
  // found in its budget.
  if (n < 2 || n > 12 || !machine_.nvlink || machine_.nvlink->kind != NvLinkKind::mesh) return {};
  const Widths all_links = link_table(machine_);
  Widths links(n, std::vector<int>(n));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      links[i][j] = all_links[static_cast<std::size_t>(gpus[i])][static_cast<std::size_t>(gpus[j])];
  std::vector<std::vector<int>> all;
  std::vector<int> path{0};
  std::vector<bool> used(n);
  used[0] = true;
  int budget = 300'000;
  closed_rings(links, path, used, all, budget);
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return narrowest(links, a) > narrowest(links, b);
  });
  Widths free = links;
  std::vector<std::size_t> chosen, best;
  std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const auto& row : links)
    most = std::min(most, static_cast<std::size_t>(std::accumulate(row.begin(), row.end(), 0)) / 2);
  budget = 3'000'000;
  pack(all, 0, free, chosen, best, most, budget);
  std::vector<std::vector<int>> rings;
  for (const std::size_t r : best) {
    rings.push_back(all[r]);
    rings.emplace_back(all[r].rbegin(), all[r].rend());
  }
  return rings;
}

void NodeGraph::find_rings() {
  std::vector<int> all(static_cast<std::size_t>(machine_.gpus()));
  std::iota(all.begin(), all.end(), 0);
  rings_ = rings_among(all);
}

std::vector<int> NodeGraph::at_rail(int rail) const {
  std::vector<int> own, all;
  for (int g = 0; g < machine_.gpus(); ++g) {
    if (rail_of(g) != rail) continue;
    all.push_back(g);
    if (gpu_at_rail_[static_cast<std::size_t>(g)]) own.push_back(g);
  }
  return own.empty() ? all : own;
}

void NodeGraph::find_chains() {
  const int n = machine_.gpus();
  if (n == 0) return;
  for (int rail = 0; rail < rails(); ++rail) {
    std::vector<int> order;
    if (!rings_.empty()) {
      // The widest ring that two GPUs of this rail are neighbours on, opened between them; else (a
      // rail has but one) the widest, from there on.
      const auto here = [&](int g) { return rail_of(g) == rail; };
      for (const auto& ring : rings_)
        for (std::size_t i = 0; order.empty() && i < ring.size(); ++i)
          if (here(ring[i]) && here(ring[(i + ring.size() - 1) % ring.size()])) {
            order = ring;
            std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(i), order.end());
          }
      if (order.empty()) {
        order = rings_[0];
        const auto start = std::find_if(order.begin(), order.end(), here);
        if (start == order.end()) continue;
        std::rotate(order.begin(), start, order.end());
      }
    } else {
      const std::vector<int> here = at_rail(rail);
      if (here.empty()) continue;
      // Enter by the first GPU of the rail, leave by the last; if it has but one, leave by that of
      // the rail before.
      const std::vector<int> before = at_rail((rail + rails() - 1) % rails());
      const int last = here.size() > 1 ? here.back() : before.empty() ? -1 : before.back();
      for (int i = 0; i < n; ++i)
        if (const int g = (here.front() + i) % n; g != last || g == here.front())
          order.push_back(g);
      if (last >= 0 && last != here.front()) order.push_back(last);
    }
    chains_.push_back(order);
  }
}

}  // namespace foreduce
