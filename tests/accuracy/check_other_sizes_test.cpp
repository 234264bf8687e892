// Clusters that nobody published: the model's interval is wide there, and says so; and what is not
// the cluster that was asked about.
#include <gtest/gtest.h>

#include "models/rank_layout.hpp"
#include "scenarios/report/check_words.hpp"
#include "scenarios/sweep/estimate.hpp"
#include "scenarios/validation/diagnosis.hpp"
#include "tests/support/checked_logs.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"
#include "tests/support/simulation.hpp"

namespace foreduce {
namespace {

using namespace test;

/// What such a cluster would print if all times from 1 MiB on were `factor` times as long as they
/// are predicted.
NcclLog printed(const char* instance, int nodes, double factor) {
  const auto cluster = std::make_shared<const Cluster>(cluster_of(ec2(instance), nodes));
  const auto profile =
      std::make_shared<const Profile>(Profiles().nearest_to(cluster->node(0).machine()));
  std::vector<CollectiveRequest> requests;
  for (double bytes = 1024; bytes <= 8.0 * (1 << 30); bytes *= 8)
    requests.push_back({cluster, profile, Bytes{bytes}, reported_method()});
  const auto estimates = estimate_collectives(requests, BatchOptions{});
  NcclLog log;
  log.file = "printed";
  NcclTable& table = log.tables.emplace_back();
  table.collective = "all_reduce";
  table.ranks = cluster->gpus();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const double bytes = requests[i].bytes.value,
                 time = estimates[i].time.value * (bytes >= 1 << 20 ? factor : 1);
    NcclRow& row = table.rows.emplace_back();
    row.line = static_cast<int>(i) + 1;
    row.bytes = bytes;
    row.type = "float";
    row.out_of_place.emplace();
    row.out_of_place->time = Seconds{time};
    row.out_of_place->algbw = bytes / time / 1e9;
    row.out_of_place->busbw = row.out_of_place->algbw * 2 * (table.ranks - 1) / table.ranks;
  }
  return log;
}

CheckedTable judged(const char* instance, int nodes, double factor) {
  return check(printed(instance, nodes, factor), {instance, nodes}, BatchOptions{}).at(0);
}

TEST(CheckWithoutPublishedTimes, CannotTellWhereLargeSizesAreFarBelowTheModel) {
  for (const auto& [instance, nodes] : {std::pair("p4d.24xlarge", 4), {"p5en.48xlarge", 8}}) {
    const CheckedTable sound = judged(instance, nodes, 1), slow = judged(instance, nodes, 1.5);
    EXPECT_TRUE(sound.normal) << instance;
    EXPECT_FALSE(sound.unsure) << instance;
    EXPECT_FALSE(slow.normal) << instance;
  }
  EXPECT_TRUE(judged("p4d.24xlarge", 4, 1.5).unsure);
  const CheckedTable three = judged("p4d.24xlarge", 8, 1.3);  // as with three of four NICs
  EXPECT_TRUE(three.unsure);
  EXPECT_SAYS(causes_of(three), "3 of 4 rails");
}

// Twice the time is within the interval of a cluster that nobody measured.
TEST(CheckWithoutPublishedTimes, CannotTellUnlessTheLogDoes) {
  NcclLog log = printed("g6e.48xlarge", 2, 2.2);
  const auto judge = [&] { return check(log, {"g6e.48xlarge", 2}, BatchOptions{}).at(0); };
  EXPECT_TRUE(judge().unsure);
  log.tables[0].facts.network = NcclNetwork::sockets;
  const CheckedTable told = judge();
  EXPECT_FALSE(told.unsure);
  EXPECT_FALSE(told.normal);
  EXPECT_SAYS(causes_of(told), "TCP");
}

// Of p5en on two nodes the largest size alone was published: the sizes before it have the model's
// wide interval, in which a plateau 12 % below the published one was normal.
TEST(CheckOfOnePublishedSize, IsEnoughForASlowPlateau) {
  NcclLog log = printed("p5en.48xlarge", 2, 1);
  log.tables[0].rows.back().bytes = 8.0 * (1 << 30);
  const CheckQuestion request{"p5en.48xlarge", 2};
  const CheckedRow last = check(log, request, BatchOptions{}).at(0).rows.back();
  ASSERT_EQ(last.from, HealthyFrom::published);
  const auto verdict_at = [&](double seconds) {
    log.tables[0].rows.back().out_of_place->time = Seconds{seconds};
    return check(log, request, BatchOptions{}).at(0).normal;
  };
  EXPECT_TRUE(verdict_at(last.expected.value));
  EXPECT_FALSE(verdict_at(1.03 * last.high.value));
}

// p4d and p4de differ in the GPUs' memory alone.
TEST(CheckOfAnotherType, SaysNothingWithTheSameLinks) {
  const CheckedTable t = judged("p4de.24xlarge", 2, 1.5);
  EXPECT_FALSE(t.normal);
  for (const Cause& c : t.causes) EXPECT_SAYS_NOT(what_words(c.finding), "p4d.24xlarge");
}

// The log's own words were dropped where times are shorter than what they say allows.
TEST(CheckOfFewNics, TellsThemAlsoWhereTimesBeatThem) {
  NcclLog log = printed("p4d.24xlarge", 2, 3);
  log.tables[0].facts.nics = 1;
  const CheckedTable t = check(log, {"p4d.24xlarge", 2}, BatchOptions{}).at(0);
  const bool told = std::any_of(t.causes.begin(), t.causes.end(),
                                [](const Cause& c) { return c.finding.evidence.has_value(); }) ||
                    std::any_of(t.remarks.begin(), t.remarks.end(), [](const Remark& r) {
                      return std::holds_alternative<remark::Unexplained>(r);
                    });
  EXPECT_TRUE(told);
}

TEST(CheckOfAnotherType, TellsItByWhatWasPublished) {
  const NcclLog log = load_nccl_log(source_folder() / "tests" / "logs" / "awsome_p4de_2n.txt");
  const CheckedTable t = check(log, {"p5.48xlarge", 2}, BatchOptions{}).at(0);
  EXPECT_FALSE(t.normal);
  ASSERT_FALSE(t.causes.empty());
  EXPECT_EQ(what_words(t.causes[0].finding), "these are p4de.24xlarge, not p5.48xlarge");
}

}  // namespace
}  // namespace foreduce
