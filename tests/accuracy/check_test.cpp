// Is this bandwidth normal: published logs are, and what is broken on purpose is found.
#include <gtest/gtest.h>

#include <chrono>

#include "scenarios/report/check_words.hpp"
#include "scenarios/validation/diagnosis.hpp"
#include "tests/support/checked.hpp"
#include "tests/support/checked_logs.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"
#include "tests/support/sizes.hpp"

namespace foreduce {
namespace {

using namespace test;

struct NormalLog {
  const char *file, *instance;
  int nodes = 0;
};
void PrintTo(const NormalLog& log, std::ostream* out) { *out << log.file; }

class CheckNormalLog : public testing::TestWithParam<NormalLog> {};

// Half a second alone; the machine may be busy.
TEST_P(CheckNormalLog, IsFoundNormalWithinSeconds) {
  const auto begin = std::chrono::steady_clock::now();
  const NcclLog log = load_nccl_log(kLogs / (std::string(GetParam().file) + ".txt"));
  const CheckedTable t = checked(log, GetParam().instance, GetParam().nodes);
  EXPECT_TRUE(t.normal);
  EXPECT_EQ(causes_of(t), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

INSTANTIATE_TEST_SUITE_P(logs, CheckNormalLog,
                         testing::Values(NormalLog{"dlami_p4d_2n", "p4d.24xlarge"},
                                         NormalLog{"skypilot_p4d_2n", "p4d.24xlarge"},
                                         NormalLog{"awsome_p4de_2n", "p4de.24xlarge"},
                                         NormalLog{"awsome_p5_2n", "p5.48xlarge"},
                                         NormalLog{"awsome_p5_1n_batch", "p5.48xlarge"},
                                         NormalLog{"eksefa_p3dn_2n_1gpu", "p3dn.24xlarge", 2},
                                         NormalLog{"stas00_p5en_1n_torch", "p5en.48xlarge"}),
                         [](const auto& log) { return std::string(log.param.file); });

// Without what torch adds, its loop is a latency floor that is too high.
TEST(Check, AddsWhatTorchAddsToEachCall) {
  const NcclLog log = load_nccl_log(kLogs / "stas00_p5en_1n_torch.txt");
  CheckQuestion question{"p5en.48xlarge", 0, HealthyFrom::model};
  const CheckedTable torch = check(log, question, {}).at(0);
  EXPECT_EQ(torch.timed_by, "torch");
  EXPECT_TRUE(torch.normal);
  EXPECT_SAYS(remarks_of(torch), "called from torch, which adds 19.5");
  question.timed_by = "nccl-tests";
  const CheckedTable other = check(log, question, {}).at(0);
  EXPECT_FALSE(other.normal);
  EXPECT_SAYS(causes_of(other), "the latency floor is too high");
  EXPECT_NEAR((torch.rows[0].expected - other.rows[0].expected).value, 19.5e-6, 1e-9);
}

// Each of these was called normal while the interval pooled all conditions.
TEST(Check, FindsAThirdOfTheBandwidthMissing) {
  const CheckedTable two = checked(slower("awsome_p5_2n", 1.5), "p5.48xlarge");
  EXPECT_FALSE(two.normal);
  EXPECT_SAYS(remarks_of(two), "33 % less than the");
  EXPECT_FALSE(checked(slower("awsome_p5_1n_batch", 1.6), "p5.48xlarge").normal);
  EXPECT_FALSE(checked(slower("awsome_p4de_2n", 1.4), "p4de.24xlarge").normal);
}

// Judged by what two other sites published of 2 x p4d.
TEST(Check, FindsAPlateauThatIsTenPerCentLow) {
  const auto judge = [](const NcclLog& log) {
    return checked(log, "p4d.24xlarge", 2, "aws-dlami-p4d");
  };
  EXPECT_TRUE(judge(p4d_log()).normal);
  const CheckedTable t = judge(slower("dlami_p4d_2n", 1 / 0.9, 128 << 20));
  EXPECT_FALSE(t.normal);
  EXPECT_EQ(t.sites,
            (std::vector<std::string>{"awsome-dt-p4de", "skypilot-p4d-k8s", "skypilot-p4d-vm"}));
}

// Where published sizes end on the plateau, twice the time was normal beyond.
TEST(Check, KnowsThePlateauBeyondPublishedSizes) {
  NcclLog log = p4d_log();
  NcclTable& table = log.tables[0];
  NcclRow last = table.rows.back();
  table.rows.clear();
  for (const double times : {2.0, 4.0}) {
    NcclRow row = last;
    row.bytes = last.bytes * times;
    row.out_of_place->time = last.out_of_place->time * times;
    table.rows.push_back(row);
  }
  EXPECT_TRUE(checked(log).normal);
  for (NcclRow& row : table.rows) row.out_of_place->time = row.out_of_place->time * 1.5;
  EXPECT_FALSE(checked(log).normal);
}

// The same NICs, NVLink and choices of NCCL: p4d's own times were a false alarm as p4de's.
TEST(Check, TakesTimesOfP4dForNormalOnP4de) {
  EXPECT_TRUE(checked(p4d_log(), "p4de.24xlarge", 2).normal);
}

TEST(Check, DoesNotCallAFastRunBroken) {
  const CheckedTable t = checked(slower("awsome_p5_2n", 0.7), "p5.48xlarge");
  EXPECT_TRUE(t.normal);
  EXPECT_GT(std::count_if(t.rows.begin(), t.rows.end(),
                          [](const CheckedRow& r) { return r.verdict == Verdict::fast; }),
            3);
}

// 56 GB/s are more than two NICs of 12.5 GB/s can carry, which was the first cause named.
TEST(Check, NamesNoCauseThatCouldNotBeSoFast) {
  const CheckedTable t = checked(slower("awsome_p4de_2n", 1.4), "p4de.24xlarge");
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS_NOT(causes_of(t), "2 of 4 rails");
  EXPECT_SAYS_NOT(causes_of(t), "1 of 4 rails");
}

// Messages of Simple cost small sizes only: it was named for half as much again at every size.
TEST(Check, NamesNoProtocolWhereTheLargestSizesAreAsSlow) {
  const CheckedTable t = checked(slower("awsome_p5_2n", 1.5, 0), "p5.48xlarge");
  EXPECT_FALSE(t.normal);
  EXPECT_FALSE(t.causes.empty());
  EXPECT_SAYS_NOT(causes_of(t), "Simple");
}

// A small size alone may be the first of something, so it is told and not held against the run.
TEST(Check, NotesASmallSizeOfThreeTimesItsNeighbours) {
  NcclLog log = slower("awsome_p5_2n", 1);
  auto& rows = log.tables[0].rows;
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [](const NcclRow& r) { return r.bytes == 256 * 1024; });
  ASSERT_NE(row, rows.end());
  row->out_of_place->time = row->out_of_place->time * 3;
  const CheckedTable t = checked(log, "p5.48xlarge");
  const auto told = std::find_if(t.remarks.begin(), t.remarks.end(), [](const Remark& r) {
    return std::holds_alternative<remark::LoneSlowSize>(r);
  });
  ASSERT_NE(told, t.remarks.end());
  EXPECT_EQ(std::get<remark::LoneSlowSize>(*told).size.value, 256 * 1024);
}

// NCCL by LL reaches 8 GB/s there.
TEST(Check, ASettingThatWouldBeFarSlowerIsNotToBeMendedFirst) {
  NcclLog log = slower("awsome_p5_2n", 1.3, 0);
  log.tables[0].facts.settings["NCCL_PROTO"] = "LL";
  const CheckedTable t = checked(log, "p5.48xlarge");
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS_NOT(causes_of(t), "travels by LL");
  EXPECT_TRUE(std::any_of(t.remarks.begin(), t.remarks.end(), [](const Remark& r) {
    return std::holds_alternative<remark::Unexplained>(r);
  })) << causes_of(t);
}

// A sixth slower is inside the wide interval of a cluster that nobody published, and normal; nearly
// a third slower is too, but then the log says why.
TEST(Check, NamesTheLogsFaultWhenTimesAreWithinTheInterval) {
  NcclLog log = p4d_log();
  log.tables[0].hosts = 4;
  log.tables[0].ranks = 32;
  const CheckedTable as_it_should = checked(log, "p4de.24xlarge", 4);
  const auto slower_by = [&](double factor) {
    for (std::size_t i = 0; i < log.tables[0].rows.size(); ++i) {
      const bool large = log.tables[0].rows[i].bytes >= 1 << 22;
      log.tables[0].rows[i].out_of_place->time =
          as_it_should.rows[i].expected * (large ? factor : 1.0);
    }
    return checked(log, "p4de.24xlarge", 4);
  };
  const CheckedTable sixth = slower_by(1.17);
  EXPECT_TRUE(sixth.normal);
  EXPECT_SAYS(remarks_of(sixth), "which is still inside the interval");
  EXPECT_TRUE(slower_by(1.3).unsure);
  log.tables[0].facts.nics = log.tables[0].facts.most_nics = 3;
  const CheckedTable t = slower_by(1.3);
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS(causes_of(t),
              "3 of 4 rails carry everything [the log says so: the plugin found 3 of 4");
}

// At 4 and 8 MiB NCCL's versions differ by more than that.
TEST(Check, ThreeSlowSizesOfFiveAreNotNormal) {
  NcclLog log = slower("awsome_p4de_2n", 1.0);
  for (NcclRow& r : log.tables.at(0).rows)
    if (r.bytes >= 1 << 20 && r.bytes <= 16 << 20) r.out_of_place->time = 2 * r.out_of_place->time;
  const CheckedTable t = checked(log, "p4de.24xlarge");
  EXPECT_EQ(std::count_if(t.rows.begin(), t.rows.end(),
                          [](const CheckedRow& r) { return r.verdict == Verdict::slow; }),
            3);
  EXPECT_FALSE(t.normal);
}

TEST(Check, NamesTheWrongInstanceFirst) {
  NcclLog log = slower("dlami_p4d_2n", 1.0);
  log.tables[0].gpu = "NVIDIA A100-SXM4-40GB";
  const CheckedTable t = checked(log, "p5.48xlarge", 2);
  EXPECT_FALSE(t.normal);
  ASSERT_EQ(t.causes.size(), 1u);
  EXPECT_SAYS(causes_of(t), "these are not p5.48xlarge");
  EXPECT_SAYS(remedy_words(t.causes[0].finding), "--instance p4d.24xlarge");
}

// One node has channels of its own in the profile, which the suspect left as they were.
TEST(Check, BlamesForcedChannelsOnOneNode) {
  NcclLog log = load_nccl_log(kLogs / "awsome_p5_1n_batch.txt");
  NcclTable& table = log.tables[0];
  for (const NcclRow& row : table.rows) ASSERT_TRUE(row.out_of_place);
  table.gpu = "NVIDIA A100-SXM4-40GB";
  table.hosts = 1;
  table.ranks = 8;
  const CheckedTable healthy = checked(log, "p4d.24xlarge");
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const double share = table.rows[i].bytes / (table.rows[i].bytes + 4e6);
    table.rows[i].out_of_place->time = healthy.rows[i].expected * (1 + 4 * share);
  }
  table.facts.settings["NCCL_MAX_NCHANNELS"] = "2";
  EXPECT_SAYS(causes_of(checked(log, "p4d.24xlarge")),
              "NCCL may use 2 channels only [the log says so: NCCL_MAX_NCHANNELS=2]");
  // A limit of many channels is no sign of few.
  table.facts.settings["NCCL_MAX_NCHANNELS"] = "32";
  EXPECT_SAYS_NOT(causes_of(checked(log, "p4d.24xlarge")), "NCCL_MAX_NCHANNELS");
}

TEST(Check, FindsNvlinkAtHalfItsBandwidth) {
  NcclLog log = load_nccl_log(kLogs / "awsome_p5_1n_batch.txt");
  const CheckedTable healthy = checked(log, "p5.48xlarge");
  for (std::size_t i = 0; i < log.tables[0].rows.size(); ++i) {
    NcclRow& row = log.tables[0].rows[i];
    const double share = row.bytes / (row.bytes + 4e6);
    row.out_of_place->time = row.out_of_place->time * (1 + share);
  }
  const CheckedTable t = checked(log, "p5.48xlarge");
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS(causes_of(t), "NVLink carries half of what it should");
}

TEST(Check, SaysThatRowsScatter) {
  NcclLog log = load_nccl_log(kLogs / "awsome_p5_2n.txt");
  unsigned seed = 7;
  for (NcclRow& r : log.tables[0].rows) {
    seed = seed * 1664525u + 1013904223u;
    r.out_of_place->time = r.out_of_place->time * (1 + (seed >> 8) / double(1 << 24));
  }
  const CheckedTable t = checked(log, "p5.48xlarge");
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS(remarks_of(t), "scatter by");
  EXPECT_EQ(causes_of(t), "");
}

TEST(Check, RefusesUnevenlyPlacedRanks) {
  NcclLog log = p4d_log();
  log.tables[0].uneven = "10 on a, 6 on b";
  EXPECT_SAYS(error_of([&] { checked(log); }), "hosts have different numbers of ranks: 10 on a");
}

TEST(Check, FindsOneSizeThatTakesThreeTimesAsLong) {
  NcclLog log = p4d_log();
  NcclRow& row = log.tables[0].rows[20];
  row.out_of_place->time = row.out_of_place->time * 3;
  const CheckedTable t = checked(log);
  EXPECT_FALSE(t.normal);
  EXPECT_EQ(t.rows[20].verdict, Verdict::slow);
}

// Of machines outside of EC2 somebody published times, too: a fifth less was normal.
TEST(Check, JudgesOtherCloudsByWhatWasPublishedOfThem) {
  const NcclLog log = slower("nebius_h100_ib_2n", 1.2);
  const CheckedTable t = checked(log, "hgx-h100-ib", 0, "dstack-nebius-h100");
  EXPECT_NE(std::find(t.sites.begin(), t.sites.end(), "oci-hpc-h100"), t.sites.end());
  EXPECT_FALSE(t.normal);
  EXPECT_TRUE(
      checked(slower("nebius_h100_ib_2n", 1), "hgx-h100-ib", 0, "dstack-nebius-h100").normal);
}

// Among sizes that follow each other smoothly half as much again is no scatter.
TEST(Check, FindsOneSizeThatTakesHalfAsMuchAgain) {
  for (const double bytes : {64.0 * kMiB, 512.0 * kMiB}) {
    const CheckedTable t = checked(
        changed([&](double b, double time, double) { return b == bytes ? 1.5 * time : time; }));
    EXPECT_FALSE(t.normal) << bytes;
    EXPECT_SAYS(remarks_of(t), "times as long as the sizes beside it lead to expect");
  }
}

// A verdict in seconds is worth more than causes in an hour.
// Nothing else is wrong: no cause is made up from what other sizes have of scatter.
TEST(Check, SeeksNoCauseOfOneSize) {
  for (const double bytes : {64.0 * kMiB, 1024.0 * kMiB}) {  // in the middle, and the largest
    const CheckedTable t = checked(
        changed([&](double b, double time, double) { return b == bytes ? 3 * time : time; }));
    EXPECT_FALSE(t.normal) << bytes;
    EXPECT_EQ(causes_of(t), "");
    EXPECT_SAYS(remarks_of(t), "beside it lead");
  }
}

// Connections are made at the first size: that says nothing of the cluster.
TEST(Check, IgnoresASlowFirstSize) {
  const CheckedTable t = checked(
      changed([](double, double time, double floor) { return time == floor ? 9 * time : time; }));
  EXPECT_TRUE(t.normal);
  EXPECT_SAYS(remarks_of(t), "the first size, 8 B, takes");
}

// A message's latency costs nothing at 1 GiB.
TEST(Check, BlamesNoLatencyForBandwidth) {
  const CheckedTable t = checked(
      changed([](double b, double time, double) { return b >= 32 * kMiB ? 1.25 * time : time; }));
  EXPECT_FALSE(t.normal);
  EXPECT_EQ(causes_of(t).find("a message between nodes"), std::string::npos) << causes_of(t);
}

// It has to be mended whatever else is wrong, and costs more than is missing.
TEST(Check, NamesFirstWhatTheLogSaysOfTheHardware) {
  NcclLog log = slower("awsome_p5_2n", 1.4, 32 * kMiB);
  EXPECT_EQ(causes_of(checked(log, "p5.48xlarge")).find("bounces"), std::string::npos);
  log.tables[0].facts.gpudirect = false;
  const CheckedTable t = checked(log, "p5.48xlarge");
  ASSERT_FALSE(t.causes.empty());
  EXPECT_SAYS(what_words(t.causes[0].finding), "bytes bounce through host memory");
}

// The GPU's name alone does not say that it is EC2's machine.
TEST(Check, CannotTellWhereAnUnknownMachineIsFaster) {
  NcclLog log = changed([](double, double time, double) { return time / 16; });
  log.tables[0].facts = {};
  log.tables[0].gpu = "NVIDIA A100-SXM4-40GB";
  const CheckedTable guessed = checked(log, "");
  EXPECT_TRUE(guessed.unsure);
  EXPECT_FALSE(guessed.normal);
  EXPECT_FALSE(checked(log).unsure);
}

// 8 GB/s where 76 are normal: which of the two it is, times do not tell.
TEST(Check, FindsTcpOnP4dFromTheCurve) {
  const CheckedTable t =
      checked(changed([](double b, double time, double) { return time + b / 4.5e9; }));
  EXPECT_SAYS(causes_of(t), "TCP over one interface instead of EFA");
}

TEST(Check, SeeksNoCausesOnLargeClusters) {
  NcclLog log = p4d_log();
  NcclTable& table = log.tables[0];
  table.ranks = 257 * 8;
  table.rows.resize(3);
  for (NcclRow& r : table.rows) r.out_of_place->time = Seconds{1};
  const CheckedTable t = checked(log, "p4d.24xlarge", 257);
  EXPECT_FALSE(t.normal);
  EXPECT_TRUE(t.causes.empty());
  EXPECT_SAYS(remarks_of(t), "causes are not sought on more than 256 nodes");
}

// Training reduces in place: that half counts too.
TEST(Check, JudgesBothHalvesOfARow) {
  NcclLog wrong = p4d_log();
  for (NcclRow& r : wrong.tables[0].rows) r.in_place->wrong = 5;
  EXPECT_FALSE(checked(wrong).normal);
  EXPECT_SAYS(remark_words(checked(wrong).broken.value()), "elements were wrong");
  NcclLog slow = p4d_log();
  for (NcclRow& r : slow.tables[0].rows)
    if (r.bytes >= 1 << 20) r.in_place->time = r.out_of_place->time * 1.5;
  EXPECT_FALSE(checked(slow).normal);
  EXPECT_SAYS(remark_words(checked(slow).broken.value()), "in place it is slower");
}

TEST(Check, TakesNoCutRunForNormal) {
  NcclLog log = p4d_log();
  NcclTable& table = log.tables[0];
  table.asked_bytes = 4 * table.rows.back().bytes;
  table.ended = true;  // nccl-tests asks for less where memory is short
  EXPECT_TRUE(checked(log).normal);
  table.ended = false;
  EXPECT_FALSE(checked(log).normal);
  EXPECT_SAYS(remark_words(checked(log).broken.value()),
              "the table ends early: it stops at 1 GiB of 4 GiB");
  table.asked_bytes = 0;
  table.failure = "Test NCCL failure";
  EXPECT_SAYS(remark_words(checked(log).broken.value()), "the run ended with an error");
}

TEST(Check, CallsWrongElementsNotNormal) {
  NcclLog log = p4d_log();
  log.tables[0].rows[3].out_of_place->wrong = 7;
  EXPECT_FALSE(checked(log).normal);
}

TEST(Check, ExplainsBusbwAboveTheNics) {
  EXPECT_SAYS(remarks_of(checked(p4d_log())),
              "which a tree can reach: on two nodes it sends each byte once");
}

TEST(Check, TakesTheClusterFromTheLog) {
  NcclLog log = p4d_log();
  log.tables[0].gpu = "NVIDIA A100-SXM4-40GB";
  log.tables[0].hosts = 2;
  EXPECT_EQ(checked(log, "").instance, "p4d.24xlarge");
}

TEST(Check, RefusesLogsWithoutClusterOrCollective) {
  NcclLog log = p4d_log();
  const auto error = [&](const std::string& instance, int nodes) {
    return error_of([&] { checked(log, instance, nodes); });
  };
  EXPECT_SAYS(error("", 0), "the log does not name the GPU");
  EXPECT_SAYS(error("p4d.24xlarge", 1), "16 ranks do not fit on 1 x p4d.24xlarge");
  log.tables[0].hosts = 2;
  log.tables[0].gpu = "NVIDIA H200";
  EXPECT_SAYS(error("", 0), "p5e.48xlarge, p5en.48xlarge");
  log.tables[0].gpu = "GeForce";
  EXPECT_SAYS(error("", 0), "no instance type has 8 x GeForce");
  log.tables[0].gpu = "AMD Instinct MI300X";
  EXPECT_SAYS(error("hgx-h200-ib", 2), "AMD Instinct MI300X run RCCL");
  log.tables[0].gpu = "NVIDIA A100-SXM4-40GB";
  log.tables[0].collective = "sendrecv";
  EXPECT_SAYS(error("p4d.24xlarge", 2),
              "this is a table of sendrecv (busbw is 1.875 of algbw), which is not judged\n"
              "  judged are all_reduce, reduce_scatter, all_gather, broadcast, alltoall");
  log.tables[0].collective = "all_gather or alltoall";
  EXPECT_SAYS(error("p4d.24xlarge", 2), "say with --collective which it is");
}

}  // namespace
}  // namespace foreduce
