// Every algorithm of every collective on real ranks: threads, processes over libfabric, and both.
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "real/measure.hpp"
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
