// Pairwise all-to-all: in step d every rank sends its block for the rank d behind it, and receives
// one from the rank d before it, a few at a time. Cost α + (n-1)/n·Sβ: the n-1 messages overlap,
// and every byte goes straight to where it belongs. What NCCL and most MPI libraries do for large
// S. Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, §4.4; NCCL's documentation of
// ncclSend and ncclRecv.
#include "algorithms/core/registry.hpp"
#include "algorithms/core/window.hpp"

namespace foreduce {
namespace {

/// In place: all sends are posted before the receives, which therefore wait for them. Segment by
/// segment, so that the few on the way go to different ranks.
Event pairwise(Transport& t, Buffer data, Op, const Plan& plan, Event after) {
  const int n = t.layout().workers, me = t.rank();
  if (t.layout().at(me).server) return {};
  const auto block = [&](int i, int k) { return equal_block(data, n, i).segment(plan.cut(), k); };
  std::vector<Event> done{after};
  Window sending;
  for (int k = 0; k < plan.segments; ++k)
    for (int d = 1; d < n; ++d)
      sending.send(t, (me + d) % n, {0, k}, block((me + d) % n, k), after);
  for (int k = 0; k < plan.segments; ++k)
    for (int d = 1; d < n; ++d) {
      const int from = (me - d + n) % n;
      done.push_back(t.recv(from, {0, k}, block(from, k)));
    }
  return t.join(done);
}

std::size_t sends(const Layout& layout, int rank, std::size_t count, const Plan&) {
  if (layout.at(rank).server) return 0;
  const auto n = static_cast<std::size_t>(layout.workers);
  return (n - 1) * (count / n);
}

const Registered entry{{.name = "pairwise",
                        .collective = Collective::all_to_all,
                        .idea = "every block straight to where it belongs, the next rank first",
                        .cost = "α + (n-1)/n·Sβ, with n-1 messages at once",
                        .wins = "medium and large messages",
                        .source = "Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005",
                        .symmetry = [](const Plan&) { return Symmetry::translation; },
                        .many_peers = true,
                        .usual = true,
                        .compared_up_to = 64,  // n² messages
                        .run = pairwise,
                        .sends = sends,
                        .steps = [](int n) { return n > 1 ? 1 : 0; }}};

}  // namespace
}  // namespace foreduce
