// Collectives other than all-reduce are judged by the prediction alone.
#include <gtest/gtest.h>

#include "scenarios/report/check_words.hpp"
#include "scenarios/sweep/estimate.hpp"
#include "scenarios/validation/diagnosis.hpp"
#include "tests/support/checked.hpp"
#include "tests/support/checked_logs.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// What a program of nccl-tests would print on so many p5 where every time is `factor` times the
/// predicted one.
NcclLog log_of(Collective collective, int nodes, double factor) {
  const auto machine = std::make_shared<const Machine>(machine_named("p5.48xlarge"));
  const auto cluster = std::make_shared<const Cluster>(
      std::vector(static_cast<std::size_t>(nodes), machine), FabricSpec{});
  const auto profile = std::make_shared<const Profile>(Profiles().made_for(machine->name));
  std::vector<CollectiveRequest> requests;
  for (double bytes = 1 << 20; bytes <= 1 << 30; bytes *= 4)
    requests.push_back({cluster, profile, Bytes{bytes}, reported_method(std::nullopt, collective)});
  const auto answers = estimate_collectives(requests, {});
  NcclLog log;
  log.file = "made.txt";
  log.tables.emplace_back();
  NcclTable& table = log.tables[0];
  table.collective = name_of(collective);
  table.ranks = 8 * nodes;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].error, "");
    NcclRow row;
    row.bytes = requests[i].bytes.value;
    row.count = row.bytes / 4 / counted_blocks(collective, table.ranks);
    row.type = "float";
    row.redop = reduces(collective) ? "sum" : "none";
    row.out_of_place = NcclTiming{answers[i].time * factor, 0, 0, 0.0};
    table.rows.push_back(row);
  }
  return log;
}

class CheckCollective : public testing::TestWithParam<Collective> {};

TEST_P(CheckCollective, IsJudgedByThePredictionOfItsOwn) {
  const Collective collective = GetParam();
  const CheckedTable healthy = checked(log_of(collective, 2, 1), "p5.48xlarge");
  EXPECT_EQ(healthy.collective, collective);
  EXPECT_TRUE(healthy.normal) << remarks_of(healthy);
  EXPECT_EQ(healthy.sites, std::vector<std::string>{});
  EXPECT_LT(healthy.misfit, 1e-9);
  EXPECT_SAYS(remarks_of(healthy), std::string(title_of(collective)) +
                                       "s are judged by the prediction and its interval alone");
  const CheckedTable slow = checked(log_of(collective, 2, 20), "p5.48xlarge");
  EXPECT_FALSE(slow.normal);
  EXPECT_SAYS_NOT(causes_of(slow), "tree");
  const CheckedTable fast = checked(log_of(collective, 2, 0.05), "p5.48xlarge");
  EXPECT_FALSE(fast.normal);
  EXPECT_SAYS(remarks_of(fast), "faster than the links of 2 x p5.48xlarge allow");
}

INSTANTIATE_TEST_SUITE_P(Other, CheckCollective,
                         testing::Values(Collective::reduce_scatter, Collective::all_gather,
                                         Collective::broadcast, Collective::all_to_all),
                         [](const auto& of) { return std::string(name_of(of.param)); });

TEST(Check, FindsTheSlowRailsOfAnAllGather) {
  NcclLog log = log_of(Collective::all_gather, 2, 1);
  for (NcclRow& r : log.tables[0].rows) r.out_of_place->time = r.out_of_place->time * 8;
  log.tables.at(0).facts.network = NcclNetwork::efa;
  log.tables.at(0).facts.nics = 4;
  EXPECT_SAYS(causes_of(checked(log, "p5.48xlarge")), "the plugin found 4 of 32 NICs");
}

// An all-to-all cannot run in place: old tests print an error of 1 there, and report none.
TEST(Check, PassesOverErrorsOfAnAllToAllInPlace) {
  NcclLog log = log_of(Collective::all_to_all, 2, 1);
  for (NcclRow& r : log.tables[0].rows) {
    r.in_place = r.out_of_place;
    r.in_place->error = 1;
  }
  EXPECT_FALSE(checked(log, "p5.48xlarge").broken);
  for (NcclRow& r : log.tables[0].rows) r.out_of_place->error = 1;
  EXPECT_TRUE(checked(log, "p5.48xlarge").broken);
}

TEST(Check, JudgesTheCollectiveThatIsAskedFor) {
  NcclLog log = log_of(Collective::all_gather, 2, 1);
  CheckQuestion question{"p5.48xlarge", 2, HealthyFrom::published};
  question.causes = Causes::not_sought;
  question.collective = Collective::all_to_all;
  EXPECT_SAYS(error_of([&] { check(log, question, {}); }),
              "it has no table of alltoall; it has one of all_gather");
  log.tables[0].collective = "all_gather or alltoall";
  EXPECT_EQ(check(log, question, {}).at(0).collective, Collective::all_to_all);
  question.collective = Collective::broadcast;
  EXPECT_SAYS(error_of([&] { check(log, question, {}); }), "it has no table of broadcast");
}

}  // namespace
}  // namespace foreduce
