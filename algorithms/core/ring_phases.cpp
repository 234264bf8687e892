#include "algorithms/core/ring_phases.hpp"

namespace foreduce {

void ring_reduce_scatter(Transport& t, const Ring& ring, Op op, int first_step,
                         std::vector<Event>& ready) {
  const int segments = static_cast<int>(ready.size());
  for (int s = 0; s < ring.size() - 1; ++s)
    for (int k = 0; k < segments; ++k) {
      auto& event = ready[static_cast<std::size_t>(k)];
      const Tag tag{.step = first_step + s,
                    .segment = ring.first_segment + k,
                    .channel = ring.channel,
                    .packed = ring.packed};
      t.send(ring.neighbour(+1), tag, ring.chunk(ring.position - 1 - s, k), event);
      event = t.recv_reduce(ring.neighbour(-1), tag, ring.chunk(ring.position - 2 - s, k), op);
    }
}

Event ring_all_gather(Transport& t, const Ring& ring, int first_step,
                      std::span<const Event> ready) {
  const int segments = static_cast<int>(ready.size());
  std::vector<Event> here(ready.begin(), ready.end()), all = here;
  for (int s = 0; s < ring.size() - 1; ++s)
    for (int k = 0; k < segments; ++k) {
      auto& event = here[static_cast<std::size_t>(k)];
      const Tag tag{.step = first_step + s,
                    .segment = ring.first_segment + k,
                    .channel = ring.channel,
                    .packed = ring.packed};
      t.send(ring.neighbour(+1), tag, ring.chunk(ring.position - s, k), event);
      event = t.recv(ring.neighbour(-1), tag, ring.chunk(ring.position - 1 - s, k));
      all.push_back(event);
    }
  return t.join(all);
}

}  // namespace foreduce
