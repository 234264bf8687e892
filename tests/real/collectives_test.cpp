// Every algorithm of every collective on real ranks: threads, processes over libfabric, and both.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "real/measure.hpp"
#include "real/measured_rank.hpp"
#include "real/thread_backend.hpp"
#include "tests/real/real_support.hpp"
#include "tests/support/machines.hpp"

namespace foreduce {
namespace {

using namespace test;

/// So many processes, each a node, of so many threads.
struct Ranks {
  int processes, each;
};
void PrintTo(const Ranks& ranks, std::ostream* out) {
  *out << ranks.processes << " processes of " << ranks.each;
}

/// Each algorithm that can run there with each count. `left_out` gets the others.
std::vector<Trial> all_trials(const Session& session, const std::vector<std::size_t>& counts,
                              std::vector<std::string>& left_out) {
  std::vector<Trial> trials;
  for (const Algorithm* algorithm : all_algorithms()) {
    const Layout& layout = algorithm->uses_servers ? session.everyone() : session.workers();
    const std::string name = identifier(*algorithm);
    if (unsupported_reason(*algorithm, layout, {.segments = 2})) {
      left_out.push_back(name);
      continue;
    }
    for (const std::size_t count : counts)
      trials.push_back({.name = name,
                        .algorithm = algorithm,
                        .plan = {.segments = 2},
                        .count = count,
                        .type = count % 2 == 0 ? Type::f32 : Type::bf16});
  }
  return trials;
}

/// Runs them as one process; returns its status, and says what is wrong.
int status_on(ProcessPlace place, int each, const std::vector<std::size_t>& counts) {
  place.node = place.process;
  SessionOptions options;
  options.ranks_per_process = each;
  options.servers_per_process = 1;
  Session session(place, options);
  std::vector<std::string> left_out;
  int status = 0;
  for (const TrialResult& r : measure(session, all_trials(session, counts, left_out),
                                      {.warmup = 0, .iterations = 2, .check = true})) {
    if (r.out_of_place.wrong == 0 && r.in_place.wrong == 0) continue;
    std::fprintf(stderr, "%s of %zu elements: %g and %g are wrong\n", r.trial.name.c_str(),
                 r.trial.count, r.out_of_place.wrong, r.in_place.wrong);
    status = 3;
  }
  session.leave();
  // Only the switch of NVLS and what needs a power of two or one rank a node may be missing.
  for (const std::string& name : left_out)
    if (!name.starts_with("nvls") && !name.starts_with("recursive") &&
        !(name.starts_with("pat") && each > 1)) {
      std::fprintf(stderr, "%s did not run\n", name.c_str());
      status = 4;
    }
  const int ranks = place.processes * each;
  if ((ranks & (ranks - 1)) == 0)
    for (const std::string& name : left_out)
      if (name.starts_with("recursive")) status = 5;
  return status;
}

class RealCollectives : public testing::TestWithParam<Ranks> {};

TEST_P(RealCollectives, AreExactWithEveryAlgorithm) {
  const auto [processes, each] = GetParam();
  if (processes > 1) NEEDS_OFI();
  const bool many = processes > 8;  // for few cores: each step waits for all of them in turn
  const auto counts =
      many ? std::vector<std::size_t>{5003} : std::vector<std::size_t>{1, 0, 1002, 200'003};
  EXPECT_EQ(
      spawn(processes,
            [&, each = each](const ProcessPlace& place) { return status_on(place, each, counts); }),
      0);
  if (many) return;
  // Where no call has any element, nobody has memory for it.
  EXPECT_EQ(spawn(processes,
                  [each = each](const ProcessPlace& place) { return status_on(place, each, {0}); }),
            0);
}
INSTANTIATE_TEST_SUITE_P(
    On, RealCollectives,
    testing::Values(Ranks{1, 1}, Ranks{1, 3}, Ranks{1, 4}, Ranks{1, 7}, Ranks{2, 1}, Ranks{3, 1},
                    Ranks{4, 1}, Ranks{5, 1}, Ranks{6, 1}, Ranks{7, 1}, Ranks{8, 1}, Ranks{12, 1},
                    Ranks{16, 1}, Ranks{24, 1}, Ranks{32, 1}, Ranks{3, 2}, Ranks{2, 4}),
    [](const auto& of) {
      return std::to_string(of.param.processes) + "_processes_of_" + std::to_string(of.param.each);
    });

/// What every rank begins with: numbers whose sums depend on the order in which they are made.
std::vector<std::vector<float>> random_floats(const Layout& layout, std::size_t count) {
  std::vector<std::vector<float>> all;
  for (int r = 0; r < layout.size(); ++r) {
    std::mt19937 dice(static_cast<unsigned>(r));
    std::uniform_real_distribution<float> any(-1, 1);
    std::generate_n(std::back_inserter(all.emplace_back()), count, [&] { return any(dice); });
  }
  return all;
}
Buffer buffer_of(std::vector<float>& floats) {
  return {reinterpret_cast<std::byte*>(floats.data()), 0, floats.size(), Type::f32};
}

/// Runs it on this process's rank, a node of its own, and says what differs from `expected`.
std::string difference_on(HostRank& rank, const Session& session, const Algorithm& algorithm,
                          std::vector<float> mine, const std::vector<float>& expected,
                          const Plan& plan) {
  const Layout& layout = algorithm.uses_servers ? session.everyone() : session.workers();
  const std::size_t before = rank.traffic().elements_sent, count = mine.size();
  MeasuredRank(rank, session).run(algorithm, plan, buffer_of(mine));
  if (rank.rank() >= layout.size()) return "";
  const std::size_t sent = rank.traffic().elements_sent - before,
                    claimed = algorithm.sends(layout, rank.rank(), count, plan);
  if (sent != claimed)
    return "sends " + std::to_string(sent) + " and claims " + std::to_string(claimed);
  if (expected.empty() || layout.at(rank.rank()).server) return "";
  const Buffer result =
      result_of(algorithm.collective, {nullptr, 0, count}, layout.workers, rank.rank());
  const bool same =
      result.count == 0 || std::memcmp(mine.data() + result.offset, expected.data() + result.offset,
                                       result.count * sizeof(float)) == 0;
  return same ? "" : "has other bits than threads";
}

/// Bits and traffic of all algorithms in one of so many processes; its status.
int bits_status(ProcessPlace place, bool few) {
  place.node = place.process;
  SessionOptions options;
  options.servers_per_process = 1;
  Session session(place, options);
  int status = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    const Layout& layout = algorithm->uses_servers ? session.everyone() : session.workers();
    for (const std::size_t count : {7u, 2003u}) {
      const Plan plan = with_defaults(*algorithm, {.segments = 3, .inner = "ring"}, layout,
                                      count * sizeof(float));
      if (unsupported_reason(*algorithm, layout, plan)) continue;
      const auto given = random_floats(layout, count);
      auto on_threads = given;
      // As many threads in each of many processes would take minutes: the first and last do it.
      const bool compares = few || place.process == 0 || place.process == place.processes - 1;
      std::vector<Buffer> views;
      for (auto& floats : on_threads) views.push_back(buffer_of(floats));
      if (compares) run_on_threads(*algorithm, layout, views, Op::sum, plan);
      session.run([&](HostRank& rank) {
        const auto r = static_cast<std::size_t>(rank.rank());
        const bool takes_part = r < given.size();
        const std::string wrong =
            difference_on(rank, session, *algorithm, takes_part ? given[r] : std::vector<float>{},
                          takes_part && compares ? on_threads[r] : std::vector<float>{}, plan);
        if (wrong.empty()) return;
        std::fprintf(stderr, "%s of %zu elements: rank %zu %s\n", identifier(*algorithm).c_str(),
                     count, r, wrong.c_str());
        status = 3;
      });
    }
  }
  session.leave();
  return status;
}

class RealBits : public testing::TestWithParam<int> {};

TEST_P(RealBits, BetweenProcessesAreThoseOfThreadsAndTrafficIsAsClaimed) {
  NEEDS_OFI();
  const int processes = GetParam();
  EXPECT_EQ(
      spawn(processes,
            [processes](const ProcessPlace& place) { return bits_status(place, processes <= 8); }),
      0);
}
INSTANTIATE_TEST_SUITE_P(On, RealBits, testing::Values(2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32));

/// The algorithms of a collective that run on any number of ranks of one node.
std::string anywhere(Collective collective) {
  std::string names;
  for (const Algorithm* a : algorithms(collective))
    if (!a->name.starts_with("nvls") && !a->name.starts_with("recursive") && a->name != "pat")
      names += (names.empty() ? "" : ",") + std::string(a->name);
  return names;
}

class RealRun : public testing::TestWithParam<Collective> {
 protected:
  static std::string arguments() {
    return "--collective " + std::string(name_of(GetParam())) + " --algorithm " +
           anywhere(GetParam());
  }
};

TEST_P(RealRun, IsExactOnThreadsAndBetweenProcesses) {
  expect_exact(arguments() + " --ranks 4 --sizes '8 B,20 KiB,1 MiB'");
  NEEDS_OFI();
  expect_exact(
      arguments() +
      " --transport ofi --ranks 6 --per-process 2 --sizes '8 B,20 KiB,1 MiB' --segments 3");
}

TEST_P(RealRun, HasMpiInTheSameTable) {
  NEEDS_MPI();
  for (const char* type : {"f32", "f64", "i32"})
    expect_exact("--collective " + std::string(name_of(GetParam())) + " --algorithm " +
                 anywhere(GetParam()) + ",mpi --ranks 3 --sizes '8 B,64 KiB' --dtype " + type);
}

INSTANTIATE_TEST_SUITE_P(Of, RealRun, testing::ValuesIn(kCollectives),
                         [](const auto& of) { return std::string(name_of(of.param)); });

TEST(RealBaseline, MpiMovesHalfPrecision) {
  NEEDS_MPI();
  expect_exact("--collective all_gather --algorithm mpi --ranks 2 --sizes '64 KiB' --dtype bf16");
}

}  // namespace
}  // namespace foreduce
