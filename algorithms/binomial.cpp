// Binomial broadcast: whoever has the data sends it to the rank that is half the remaining distance
// away, so the number of ranks that have it doubles in each step. Rank r gets it from r without its
// lowest bit, so ways between nodes come first. Cost L(α + Sβ), L = ⌈log2 n⌉. Wins for small S.
// Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, §4.3.
#include <bit>

#include "algorithms/core/registry.hpp"

namespace foreduce {
namespace {

/// Children of a rank are r + bit for the bits below this one.
int lowest_bit(int rank, int n) {
  return rank > 0 ? rank & -rank : static_cast<int>(std::bit_ceil(static_cast<unsigned>(n)));
}

Event binomial(Transport& t, Buffer data, Op, const Plan& plan, Event after) {
  const int n = t.layout().workers, me = t.rank();
  if (t.layout().at(me).server) return {};
  std::vector<Event> done{after};
  Event sent = after;  // one message after the other, for the first receiver hands it on at once
  const int mine = lowest_bit(me, n);
  for (int k = 0; k < plan.segments; ++k) {
    const Buffer segment = data.segment(plan.cut(), k);
    const Event here = me > 0 ? t.recv(me - mine, {0, k}, segment) : after;
    done.push_back(here);
    for (int bit = mine / 2; bit > 0; bit /= 2)
      if (me + bit < n) {
        const Event both[] = {here, sent};
        sent = t.send(me + bit, {0, k}, segment, t.join(both));
      }
  }
  return t.join(done);
}

std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan&) {
  if (layout.at(rank).server) return 0;
  std::size_t children = 0;
  for (int bit = lowest_bit(rank, layout.workers) / 2; bit > 0; bit /= 2)
    children += rank + bit < layout.workers;
  return children * count;
}

/// The longest way to a rank has as many messages as the rank's number has bits: in a tree that is
/// not full, fewer than there are rounds.
int longest_way(int n) {
  return n < 2 ? 0 : static_cast<int>(std::bit_width(static_cast<unsigned>(n))) - 1;
}

const Registered entry{{.name = "binomial",
                        .collective = Collective::broadcast,
                        .idea = "whoever has the data sends it half the remaining distance on",
                        .cost = "L(α + Sβ), L = ⌈log2 n⌉",
                        .wins = "small messages: latency is the limit",
                        .source = "Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005",
                        .run = binomial,
                        .sends = sends,
                        .steps = longest_way}};

}  // namespace
}  // namespace foreduce
