// Recursive doubling: in step i exchange everything with the rank whose number differs in bit i.
// Cost L(α + Sβ + Sγ), L = log2 n: the fewest steps, the most bytes.
// Wins for tiny S, below about α/β. Any n: the ranks beyond the largest power of two reduce into a
// partner first and are told the result last (2α + 2Sβ more). Source: Thakur, Rabenseifner & Gropp,
// IJHPCA 19(1), 2005.
#include <algorithm>
#include <utility>
#include <vector>

#include "algorithms/core/power_of_two.hpp"
#include "algorithms/core/registry.hpp"

namespace foreduce {
namespace {

Event recursive_doubling(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  if (t.layout().at(t.rank()).server) return {};
  const PowerOfTwo group(t.layout().workers, t.rank());
  std::vector<Event> done;
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer segment = data.segment(plan.cut(), k);
    Event ready = group.reduce_extra(t, segment, op, k, after);
    if (group.inside())
      for (int i = 0; i < group.steps(); ++i) {
        const int partner = group.rank_of(group.number() ^ (1 << i));
        const Tag tag{1 + i, k};
        t.send(partner, tag, segment, ready);
        ready = t.recv_reduce(partner, tag, segment, op);
      }
    done.push_back(group.return_extra(t, segment, 1 + group.steps(), k, ready));
  }
  return t.join(done);
}

std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan&) {
  if (layout.at(rank).server) return 0;
  const PowerOfTwo group(layout.workers, rank);
  if (!group.inside()) return count;
  return count * static_cast<std::size_t>(group.steps() + (group.has_extra() ? 1 : 0));
}

/// A partner of an extra rank begins a message later than the others. Where it meets one of them,
/// that one's data wait for it already, so that the delay of few extra ranks is caught up with.
int steps(int n) {
  const PowerOfTwo group(n, 0);
  const int extra = n - group.size();
  std::vector<int> before(static_cast<std::size_t>(group.size())), after(before.size());
  std::fill_n(before.begin(), extra, 1);
  for (std::size_t bit = 1; bit < before.size(); bit *= 2) {
    for (std::size_t i = 0; i < before.size(); ++i)
      after[i] = std::max(before[i], before[i ^ bit] + 1);
    std::swap(before, after);
  }
  for (int i = 0; i < extra; ++i) ++before[static_cast<std::size_t>(i)];
  return *std::max_element(before.begin(), before.end());
}

const Registered entry{
    {.name = "recursive-doubling",
     .idea = "exchange everything with partners 1, 2, 4 … away",
     .cost = "L(α + Sβ + Sγ), L = log2 n; + 2α + 2Sβ or more if n is no power of two",
     .wins = "tiny messages: latency is the limit",
     .source = "Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005",
     .symmetry = [](const Plan&) { return Symmetry::exclusive_or; },
     .run = recursive_doubling,
     .sends = sends,
     .steps = steps}};

}  // namespace
}  // namespace foreduce
