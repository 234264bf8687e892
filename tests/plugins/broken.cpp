// Algorithms that each break one rule: FOREDUCE_BROKEN says which.
#include <vector>

#include "algorithms/core/registry.hpp"

namespace {

using namespace foreduce;

/// Rank 0 gets everybody's data and sends the sum to all.
Event star(Transport& t, Buffer data, Op op, const Plan&, Event after) {
  const int n = t.layout().workers;
  if (t.rank() != 0) {
    t.send(0, {0, 0}, data, after);
    return t.recv(0, {1, 0}, data);
  }
  std::vector<Event> got{after};
  for (int r = 1; r < n; ++r) got.push_back(t.recv_reduce(r, {0, 0}, data, op));
  const Event sum = t.join(got);
  for (int r = 1; r < n; ++r) t.send(r, {1, 0}, data, sum);
  return sum;
}

/// The sum is sent before the last rank's data are in it.
Event hasty(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  if (t.rank() != 0 || t.layout().workers < 3) return star(t, data, op, plan, after);
  const int n = t.layout().workers;
  std::vector<Event> got{after};
  for (int r = 1; r < n - 1; ++r) got.push_back(t.recv_reduce(r, {0, 0}, data, op));
  const Event sum = t.join(got);
  for (int r = 1; r < n; ++r) t.send(r, {1, 0}, data, sum);
  return t.join(std::vector{sum, t.recv_reduce(n - 1, {0, 0}, data, op)});
}

/// Rank 1 never sends.
Event silent(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  if (t.rank() == 1) return t.recv(0, {1, 0}, data);
  return star(t, data, op, plan, after);
}

Event crashing(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  if (t.rank() == 1) __builtin_trap();
  return star(t, data, op, plan, after);
}

/// Rank 1 never comes back.
Event endless(Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
  volatile bool forever = t.rank() == 1;
  while (forever) continue;
  return star(t, data, op, plan, after);
}

std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan&) {
  return rank == 0 ? static_cast<std::size_t>(layout.workers - 1) * count : count;
}
std::size_t sends_less(const Layout&, int, std::size_t count, const Plan&) { return count; }

Algorithm make(const char* name) {
  Algorithm a;
  a.name = name;
  a.idea = a.cost = a.wins = a.source = "a test's";
  a.run = star;
  a.sends = sends;
  a.steps = [](int) { return 2; };
  return a;
}
Algorithm broken() {
  Algorithm a = make("broken");
#if FOREDUCE_BROKEN == 1
  a.run = hasty;
#elif FOREDUCE_BROKEN == 2
  a.sends = sends_less;
#elif FOREDUCE_BROKEN == 3
  a.run = silent;
#elif FOREDUCE_BROKEN == 4
  a.run = crashing;
#elif FOREDUCE_BROKEN == 5  // the star's middle is not like its points
  a.symmetry = [](const Plan&) { return Symmetry::translation; };
#elif FOREDUCE_BROKEN == 6  // far more steps than it has
  a.steps = [](int n) { return 100 * n; };
#elif FOREDUCE_BROKEN == 7
  a.name = "ring";
#elif FOREDUCE_BROKEN == 8
  a.sends = nullptr;
#elif FOREDUCE_BROKEN == 9
  a.name = "nccl";
#elif FOREDUCE_BROKEN == 12
  a.name = "My Ring";
#elif FOREDUCE_BROKEN == 13
  a.run = endless;
#endif
  return a;
}

#if FOREDUCE_BROKEN != 10  // which registers nothing
const Registered entry{broken()};
#endif
#if FOREDUCE_BROKEN == 11
const Registered again{broken()};
#endif

}  // namespace
