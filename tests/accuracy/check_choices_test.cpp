// Slow sizes that no link explains: algorithm, protocol and tuner, and tables of one size.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "scenarios/report/check_words.hpp"
#include "scenarios/validation/diagnosis.hpp"
#include "scenarios/validation/suspect_fit.hpp"
#include "tests/support/checked.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

NcclLog log_of(const char* file) {
  return load_nccl_log(std::filesystem::path(FOREDUCE_SOURCE_FOLDER) / "tests" / "logs" / file);
}

CheckedTable slowed(NcclLog log, const char* instance,
                    const std::function<double(double bytes)>& times) {
  for (NcclRow& r : log.tables[0].rows)
    for (auto* half : {&r.out_of_place, &r.in_place})
      if (*half) (*half)->time = (*half)->time * times(r.bytes);
  return check(log, {instance, 2, HealthyFrom::published, ""}, BatchOptions{}).at(0);
}

double slow_in_the_middle(double bytes) {
  return bytes >= (1 << 19) && bytes <= (128 << 20) ? 2 : 1;
}

// What is right from 256 MiB on has sound links, so nobody is sent to error counters.
TEST(CheckChoices, ASlowMiddleIsNoLinks) {
  const std::string said =
      remarks_of(slowed(log_of("awsome_p5_2n.txt"), "p5.48xlarge", slow_in_the_middle));
  EXPECT_SAYS(said, "the largest size is as it should be, so the links are");
  EXPECT_SAYS(said, "is aws-ofi-nccl's tuner loaded");
  EXPECT_EQ(said.find("error counters"), std::string::npos) << said;
}

// Where bandwidth falls at one size and stays low, something else begins there.
TEST(CheckChoices, ASuddenFallIsTold) {
  const auto at = [](double from) {
    return [from](double bytes) { return bytes >= from ? 4.0 : 1; };
  };
  EXPECT_SAYS(remarks_of(slowed(log_of("awsome_p5_2n.txt"), "p5.48xlarge", at(64 << 20))),
              "from 64 MiB on it is slower than below: 64 MiB takes");
  EXPECT_SAYS_NOT(remarks_of(slowed(log_of("awsome_p5_2n.txt"), "p5.48xlarge", at(0))),
                  "on it is slower than below");
}

TEST(CheckChoices, TheLogNamesAMissingTuner) {
  NcclLog log = log_of("awsome_p5_2n.txt");
  take_info(log.tables[0].facts,
            "a:1:1 [0] NCCL INFO TUNER/Plugin: Could not find: libnccl-tuner.so. Using internal "
            "tuner plugin.");
  EXPECT_SAYS(remarks_of(slowed(log, "p5.48xlarge", slow_in_the_middle)),
              "load aws-ofi-nccl's tuner (NCCL_TUNER_PLUGIN), for the log says that NCCL found "
              "none");
}

// p4d's profile has no LL, for its plugin asks for Simple: a user's LL cannot be predicted, but it
// halves what a link carries and is the first thing to unset.
TEST(CheckChoices, AProtocolWithoutAProfileComesFirst) {
  NcclLog log = log_of("dlami_p4d_2n.txt");
  log.tables[0].facts.settings["NCCL_PROTO"] = "LL";
  const CheckedTable t =
      slowed(log, "p4d.24xlarge", [](double bytes) { return bytes >= (1 << 20) ? 2.3 : 1; });
  ASSERT_FALSE(t.causes.empty());
  const Cause& first = t.causes.front();
  EXPECT_TRUE(std::holds_alternative<cause::OneProtocol>(first.finding.kind));
  EXPECT_SAYS(remedy_words(first.finding), "unset NCCL_PROTO");
  EXPECT_SAYS(evidence_words(first.finding), "NCCL_PROTO=LL");
}

// What a log of NCCL_DEBUG=INFO would say is asked for where causes are guessed, and not else.
TEST(CheckChoices, AsksForNcclsOwnWordsWhereThereAreNone) {
  const auto half = [](double bytes) { return bytes >= (8 << 20) ? 2 : 1; };
  NcclLog log = log_of("dlami_p4d_2n.txt");
  log.tables[0].facts = {};
  const CheckedTable without = slowed(log, "p4d.24xlarge", half);
  ASSERT_FALSE(without.causes.empty());
  EXPECT_SAYS(remarks_of(without), "run it with NCCL_DEBUG=INFO too");
  log.tables[0].facts.network = NcclNetwork::efa;
  EXPECT_SAYS_NOT(remarks_of(slowed(log, "p4d.24xlarge", half)), "run it with NCCL_DEBUG=INFO too");
}

// Rows of one size that grow are no curve: what was measured, and that it drifts.
TEST(CheckChoices, SaysThatOneSizeDrifts) {
  NcclLog log = log_of("awsome_p5_2n.txt");
  auto& rows = log.tables[0].rows;
  const NcclRow one = rows.back();
  rows.assign(6, one);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (auto* half : {&rows[i].out_of_place, &rows[i].in_place})
      if (*half) (*half)->time = (*half)->time * (1 + 0.2 * static_cast<double>(i));
  const CheckedTable t =
      check(log, {"p5.48xlarge", 2, HealthyFrom::published, ""}, BatchOptions{}).at(0);
  EXPECT_FALSE(t.normal);
  EXPECT_SAYS(remarks_of(t), "it was measured 6 times, from ");
  EXPECT_SAYS(remarks_of(t), "a single size cannot tell causes apart");
}

// Nobody forces an algorithm without a setting: where NICs fit nearly as well, they come first.
TEST(CheckChoices, AnAlgorithmThatNothingTellsOfIsBehindWhatFitsAlike) {
  const auto cause = [](CauseKind kind, double misfit, std::optional<Evidence> evidence = {}) {
    return Cause{{std::move(kind), NodeNetwork::efa, std::move(evidence)}, misfit, false, false};
  };
  std::vector<Cause> all{cause(cause::TreeForRing{}, 0.25), cause(cause::FewNics{8, 16}, 0.26)};
  rank_causes(all, 0.68);
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(std::holds_alternative<cause::FewNics>(all.front().finding.kind));
  all = {cause(cause::TreeForRing{}, 0.1), cause(cause::FewNics{8, 16}, 0.26)};
  rank_causes(all, 0.68);
  EXPECT_TRUE(std::holds_alternative<cause::TreeForRing>(all.front().finding.kind));
  all = {cause(cause::TreeForRing{}, 0.25, evidence::Setting{"NCCL_ALGO", "Tree"}),
         cause(cause::FewNics{8, 16}, 0.26)};
  rank_causes(all, 0.68);
  EXPECT_TRUE(std::holds_alternative<cause::TreeForRing>(all.front().finding.kind));
}

}  // namespace
}  // namespace foreduce
