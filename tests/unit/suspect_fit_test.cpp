// What check simulates of suspects before it leaves them: none that could have been a cause.
#include "scenarios/validation/suspect_fit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>

namespace foreduce {
namespace {

/// Times of five sizes on two hundred suspects and a cluster, at random.
struct Case {
  explicit Case(unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> factor(-0.6, 0.9);
    few.sizes = {8, 1024, 131072, 32 << 20, 8e9};
    for (std::size_t k = 0; k < few.sizes.size(); ++k) {
      few.measured.push_back(std::exp(std::max(0.0, factor(random))));
      few.correction.push_back(std::exp(0.1 * factor(random)));
      few.healthy.push_back({1, 0.8, 1.25, 0.1});
    }
    for (std::size_t s = 0; s < 200; ++s) {
      all.push_back({s % 7 == 0   ? CauseKind(cause::OtherInstance{"", "", true})
                     : s % 5 == 0 ? CauseKind(cause::TcpForRdma{})
                                  : CauseKind(cause::FewNics{}),
                     Machine{}, Profile{}});
      all.back().profile.name = std::to_string(s);
      for (std::size_t k = 0; k < few.sizes.size(); ++k)
        times[all.back().profile.name].push_back(few.measured[k] / few.correction[k] *
                                                 std::exp(0.7 * factor(random)));
    }
  }

  std::vector<Expectations> predict(const std::vector<Setup>& setups,
                                    const std::vector<double>& sizes) {
    std::vector<Expectations> answer;
    for (const Setup& s : setups) {
      answer.emplace_back().emplace();
      for (const double size : sizes) {
        const auto at = std::find(few.sizes.begin(), few.sizes.end(), size) - few.sizes.begin();
        const double t = times.at(s.profile.name)[static_cast<std::size_t>(at)];
        answer.back()->push_back({t, 0.8 * t, 1.25 * t, 0.1 * t});
        ++predicted;
      }
    }
    return answer;
  }

  Sample few;
  std::vector<Setup> all;
  std::map<std::string, std::vector<double>> times;
  std::size_t predicted = 0;
};

/// Which are predicted whatever they miss. (In a test, Setup is a name of its own.)
bool is_spared(const Setup& s) { return s.profile.name == "11"; }

TEST(SuspectFit, NoSuspectThatMayFitIsLeftBeforeItsEnd) {
  std::size_t fitted = 0, predicted = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    Case c(seed);
    const auto predict = [&](const auto& setups, const auto& sizes) {
      return c.predict(setups, sizes);
    };
    const double base = misfit_of(c.few.healthy, c.few.measured);
    std::vector<Expectations> whole = predict(c.all, c.few.sizes);
    c.predicted = 0;
    const auto found = predict_suspects(c.all, c.few, base, is_spared, predict);
    predicted += c.predicted;
    ASSERT_EQ(found.size(), c.all.size());
    for (std::size_t s = 0; s < c.all.size(); ++s) {
      ASSERT_TRUE(found[s]);
      std::vector<Expectation> scaled = *whole[s];
      for (std::size_t k = 0; k < scaled.size(); ++k) scaled[k].scale(c.few.correction[k]);
      const double most = c.all[s].fault() == Fault::sockets ? most_misfit(base)
                                                             : poorest_fit(c.all[s].fault(), base);
      const bool fits = misfit_of(scaled, c.few.measured) < most;
      fitted += fits;
      if (!fits && !is_spared(c.all[s]) && found[s]->empty()) continue;
      ASSERT_EQ(found[s]->size(), c.few.sizes.size()) << s;
      for (std::size_t k = 0; k < c.few.sizes.size(); ++k)
        EXPECT_EQ((*found[s])[k].time, (*whole[s])[k].time);
    }
  }
  EXPECT_GT(fitted, 200u);                         // some do
  EXPECT_LT(predicted, 40u * 200u * 5u * 9 / 10);  // and a tenth at least is not simulated
}

TEST(SuspectFit, AnInterruptLeavesSuspectsUntried) {
  Case c(1);
  int calls = 0;
  const auto found =
      predict_suspects(c.all, c.few, 1e9, is_spared, [&](const auto& setups, const auto& sizes) {
        std::vector<Expectations> answer = c.predict(setups, sizes);
        if (++calls == 2) answer.back().reset();
        return answer;
      });
  EXPECT_FALSE(found.back());
  EXPECT_EQ(std::count_if(found.begin(), found.end(), [](const auto& f) { return !f; }), 1);
}

// Latency counts up to 16 MiB: below, only a whole table's last sizes can show what is slow.
TEST(SuspectFit, CrawlingIsOfSizesWhereBandwidthCounts) {
  const auto crawls = [](const std::vector<double>& sizes, const std::vector<double>& times) {
    return crawls_throughout(sizes, times, std::vector<Expectation>(sizes.size(), {1, 0.8, 1.2}));
  };
  constexpr double kMiB = 1 << 20;
  EXPECT_TRUE(crawls({8, kMiB, 16 * kMiB, 32 * kMiB}, {1, 1, 9, 9}));
  EXPECT_FALSE(crawls({8, kMiB, 16 * kMiB, 32 * kMiB}, {9, 9, 2, 9}));
  EXPECT_TRUE(crawls({8, 1024, kMiB, 4 * kMiB}, {1, 1, 9, 9}));
  EXPECT_FALSE(crawls({8, 1024, kMiB, 4 * kMiB}, {9, 9, 2, 9}));
  EXPECT_FALSE(crawls({8, 256, 1024}, {9, 9, 9}));
  EXPECT_FALSE(crawls({}, {}));
}

Cause cause_of(const CauseKind& kind, double misfit, std::optional<Evidence> evidence = {}) {
  return {{kind, NodeNetwork::efa, std::move(evidence)}, misfit, false, false};
}

TEST(SuspectFit, TheLogsWordLeadsOnlyWhereItExplainsTheTimes) {
  const evidence::Setting ring{"NCCL_ALGO", "Ring"};
  const auto leads = [&](double told, double other) {
    std::vector<Cause> causes = {cause_of(cause::FewNics{}, other),
                                 cause_of(cause::RingForTree{}, told, ring)};
    rank_causes(causes, 1.24);
    EXPECT_EQ(causes.size(), 2u);
    return causes.at(0).finding.evidence.has_value();
  };
  EXPECT_FALSE(leads(0.40, 0.18));
  EXPECT_TRUE(leads(0.30, 0.18));
  EXPECT_TRUE(leads(0.40, 0.36));
}

// Times that crawl are TCP's as a rule, and a single NIC of many is as slow as one of its rates.
TEST(SuspectFit, TcpLeadsASingleNicWhereEverySizeCrawls) {
  const auto leads = [&](double tcp, double nic) {
    std::vector<Cause> causes = {cause_of(cause::FewNics{1, 32}, nic),
                                 cause_of(cause::TcpForRdma{true}, tcp)};
    causes.back().crawls = true;
    rank_causes(causes, 3);
    EXPECT_EQ(causes.size(), 2u);
    return fault_of(causes.at(0).finding.kind) == Fault::sockets;
  };
  EXPECT_TRUE(leads(0.47, 0.29));
  EXPECT_FALSE(leads(0.60, 0.29));
}

}  // namespace
}  // namespace foreduce
