#include "sim/expected_cost.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/rank_layout.hpp"
#include "sim/symmetry.hpp"

namespace foreduce {
namespace {

/// Below so many GPUs a simulation of at most kCountedSegments is known to be small, and takes at
/// most kSmall.
constexpr int kLeastGpus = 256;
constexpr Bytes kSmall{1024.0 * 1024 * 1024};
/// Messages of longer pipelines are in proportion.
constexpr int kCountedSegments = 1024;
/// Each rank's stack takes two of the 65,530 mappings that Linux gives a process.
constexpr int kMostRanks = 30'000;

/// Takes every verb and does nothing.
class Counter final : public Backend {
 private:
  Event do_send(int, std::uint64_t, Buffer, Event) override { return next(); }
  Event do_recv(int, std::uint64_t, Buffer) override { return next(); }
  Event do_recv_reduce(int, std::uint64_t, Buffer, Op) override { return next(); }
  Event do_join(std::span<const Event>) override { return next(); }
  void do_wait(Event) override {}
  void do_wait_all() override {}
  double do_now() const override { return 0; }
  Event next() { return {++events_}; }

  std::uint32_t events_ = 0;
};

/// Somebody who waits so long wants to know why.
constexpr Seconds kLong{20};

/// Rings, trees and hierarchical on 128 to 512 GPUs of mixed clusters took 230 to 260 B and 3 to 18
/// us a message (tests/bench/mixed.yaml), a ring of 16384 segments on 16 GPUs 170 B.
void set_messages(ExpectedCost& cost, double messages) {
  cost.messages = messages;
  cost.memory = Bytes{20e6 + 280 * messages};
  cost.time = Seconds{6e-6 * messages};
}

}  // namespace

ExpectedCost expected_cost(const CollectiveCall& asked) {
  const Layout layout = rank_layout(asked.cluster);
  const Plan plan = with_defaults(asked.algorithm, asked.plan, layout_of(asked),
                                  asked.count * size_of(asked.type));
  constexpr std::size_t kSamples = 16;  // ranks of a tree differ; of a ring they do not
  return expected_cost(asked, plan, layout, symmetry_of(asked, plan, layout), kSamples);
}

ExpectedCost expected_cost(const CollectiveCall& asked, const Plan& plan, const Layout& layout,
                           const SymmetryReduction& symmetry, std::size_t most_samples) {
  std::vector<int> simulated;
  for (int r = 0; r < layout.size(); ++r)
    if (symmetry.simulates(r) && (asked.groups.whole() || !layout.at(r).server))
      simulated.push_back(r);
  // Schedules of too many ranks are long, and nobody needs their number.
  const std::size_t samples =
      simulated.size() > kMostRanks ? 0 : std::min(most_samples, simulated.size());
  std::uint64_t sent = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    Counter counter;
    Transport transport(counter, layout, simulated[i * simulated.size() / samples]);
    if (!asked.groups.whole()) transport = transport.subset(asked.groups.of(transport.rank()), 1);
    asked.algorithm.run(transport, Buffer{nullptr, 0, asked.count, asked.type}, asked.op,
                        plan_on(transport.layout(), plan), {});
    sent += counter.traffic().messages_sent;
  }
  ExpectedCost cost;
  cost.symmetric = symmetry.any();
  cost.ranks = static_cast<int>(simulated.size());
  set_messages(cost, samples == 0
                         ? 0
                         : static_cast<double>(sent) * static_cast<double>(simulated.size()) /
                               static_cast<double>(samples));
  return cost;
}

SizeNotice size_notice(const CollectiveCall& asked, Bytes most_memory) {
  const int segments = asked.plan.segments, counted = std::min(segments, kCountedSegments);
  if (asked.cluster.gpus() < kLeastGpus && segments == counted && most_memory >= kSmall) return {};
  CollectiveCall shorter = asked;
  shorter.plan.segments = counted;
  ExpectedCost cost = expected_cost(shorter);
  if (segments > counted) set_messages(cost, cost.messages * segments / counted);
  const std::string because = cost.symmetric
                                  ? std::string("most ranks are represented by others already")
                                  : fmt::format(
                                        "no symmetry of {} holds on this cluster, so every rank is "
                                        "simulated",
                                        asked.algorithm.name);
  if (cost.ranks > kMostRanks)
    return {fmt::format("{} ranks would be simulated, and at most {} can be: {}", cost.ranks,
                        kMostRanks, because),
            {}};
  const std::string messages = cost.messages < 1e6
                                   ? fmt::format("{:.0f}", cost.messages)
                                   : fmt::format("{:.3g} million", cost.messages / 1e6);
  const std::string takes = fmt::format("a simulation of {} messages takes about", messages);
  if (cost.memory > most_memory)
    return {fmt::format("{} {} and {}, more than --max-memory {}: {}", takes, to_text(cost.memory),
                        to_text(cost.time), to_text(most_memory), because),
            {}};
  return {{},
          cost.time > kLong ? fmt::format("{} {}: {}", takes, to_text(cost.time), because) : ""};
}

}  // namespace foreduce
