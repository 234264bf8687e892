// Halving-doubling (Rabenseifner): exchange halves, then quarters … until each rank owns one chunk;
// then the same steps backwards to gather. Cost 2Lα + 2(n-1)/n·Sβ + (n-1)/n·Sγ, L = log2 n: the
// ring's bytes in a tree's steps. Wins for medium and large S on a fabric without contention.
// Partners are nearest first with the largest blocks, so the big messages stay inside a node. Any
// n: see power_of_two.hpp (+ 2α + 2Sβ). Source: Rabenseifner, ICCS 2004; Thakur, Rabenseifner &
// Gropp, IJHPCA 19(1), 2005.
#include "algorithms/core/power_of_two.hpp"
#include "algorithms/core/registry.hpp"

namespace foreduce {
namespace {

/// Chunks [first, first + length) of the n' chunks, as one view.
Buffer range(Buffer segment, int chunks, int first, int length) {
  Buffer view = segment.chunk(chunks, first);
  view.count = 0;
  for (int i = 0; i < length; ++i) view.count += segment.chunk(chunks, first + i).count;
  return view;
}

Event halving_doubling(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  if (t.layout().at(t.rank()).server) return {};
  const PowerOfTwo group(t.layout().workers, t.rank());
  const int n = group.size(), steps = group.steps(), me = group.number();
  std::vector<Event> done;
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer segment = data.segment(plan.cut(), k);
    Event ready = group.reduce_extra(t, segment, op, k, after);
    std::vector<Event> here;
    if (group.inside()) {
      int first = 0, length = n;  // the chunks this rank still reduces
      for (int i = 0; i < steps; ++i) {
        const int partner = me ^ (1 << i), half = length / 2;
        const int keep = (me >> i) & 1 ? first + half : first;
        const int give = (me >> i) & 1 ? first : first + half;
        const Tag tag{1 + i, k};
        t.send(group.rank_of(partner), tag, range(segment, n, give, half), ready);
        ready = t.recv_reduce(group.rank_of(partner), tag, range(segment, n, keep, half), op);
        first = keep;
        length = half;
      }
      for (int i = steps - 1; i >= 0; --i) {
        const int partner = me ^ (1 << i);
        const int theirs = (me >> i) & 1 ? first - length : first + length;
        const Tag tag{1 + steps + i, k};
        t.send(group.rank_of(partner), tag, range(segment, n, first, length), ready);
        here.assign(
            {ready, t.recv(group.rank_of(partner), tag, range(segment, n, theirs, length))});
        ready = t.join(here);
        first = std::min(first, theirs);
        length *= 2;
      }
    }
    done.push_back(group.return_extra(t, segment, 1 + 2 * steps, k, ready));
  }
  return t.join(done);
}

/// Halving gives away all chunks but the own one, by halves; doubling sends what is here, by
/// halves.
std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan& plan) {
  if (layout.at(rank).server) return 0;
  const PowerOfTwo group(layout.workers, rank);
  if (!group.inside()) return count;
  std::size_t total = group.has_extra() ? count : 0;
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer segment = Buffer{nullptr, 0, count}.segment(plan.cut(), k);
    int first = 0, length = group.size();
    for (int i = 0; i < group.steps(); ++i) {
      length /= 2;
      const bool upper = (group.number() >> i) & 1;
      total +=
          range(segment, group.size(), upper ? first : first + length, length).count;  // given away
      if (upper) first += length;
      total += range(segment, group.size(), first, length).count;  // sent back when doubling
    }
  }
  return total;
}

const Registered entry{
    {.name = "halving-doubling",
     .idea = "exchange halves, quarters … to reduce; the same backwards to gather",
     .cost =
         "2Lα + 2(n-1)/n·Sβ + (n-1)/n·Sγ, L = log2 n; + 2α + 2Sβ or more if n is no power of two",
     .wins = "medium and large messages on a fabric without contention",
     .source = "Rabenseifner, ICCS 2004",
     .symmetry = [](const Plan&) { return Symmetry::exclusive_or; },
     .run = halving_doubling,
     .sends = sends,
     .steps =
         [](int n) {
           const PowerOfTwo group(n, 0);
           return 2 * group.steps() + (group.has_extra() ? 2 : 0);
         }}};

}  // namespace
}  // namespace foreduce
