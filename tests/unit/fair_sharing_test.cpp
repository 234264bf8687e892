// The solver of shared links against progressive filling from the textbook, which knows nothing of
// what was there before.
#include "sim/fair_sharing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace foreduce {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

struct Flow {
  std::vector<std::size_t> links;
  double limit = kUnlimited;
};
using Flows = std::map<FairSharing::Flow, Flow>;
using Rates = std::map<FairSharing::Flow, double>;

/// All rates rise together; whoever is at its limit or on a full link stops.
Rates textbook(const std::vector<double>& capacities, const Flows& flows) {
  Rates rates;
  std::vector<double> left = capacities;
  while (rates.size() < flows.size()) {
    std::vector<int> rising(left.size());
    double level = kUnlimited;
    for (const auto& [id, flow] : flows) {
      if (rates.contains(id)) continue;
      level = std::min(level, flow.limit);
      for (const std::size_t link : flow.links) ++rising[link];
    }
    for (std::size_t link = 0; link < left.size(); ++link)
      if (rising[link] > 0) level = std::min(level, left[link] / rising[link]);
    Rates stopped;
    for (const auto& [id, flow] : flows)
      if (!rates.contains(id) &&
          (flow.limit <= level || std::ranges::any_of(flow.links, [&](std::size_t link) {
             return left[link] / rising[link] <= level * (1 + 1e-15);
           })))
        stopped[id] = level;
    for (const auto& [id, rate] : stopped)
      for (const std::size_t link : flows.at(id).links) left[link] -= rate;
    rates.merge(stopped);
  }
  return rates;
}

/// A solver, and what it was told and has said.
class Shared {
 public:
  explicit Shared(std::vector<double> capacities)
      : capacities_(std::move(capacities)), solver_(capacities_) {}

  FairSharing::Flow add(const Flow& flow) {
    const FairSharing::Flow id = solver_.add(flow.links, flow.limit);
    flows_[id] = flow;
    said_.erase(id);
    return id;
  }
  void remove(FairSharing::Flow id) {
    solver_.remove(id);
    flows_.erase(id);
    said_.erase(id);
  }
  /// How many flows were said to have changed.
  std::size_t solve() {
    const auto changed = solver_.solve();
    for (const FairSharing::Flow id : changed) {
      EXPECT_TRUE(flows_.contains(id));
      said_[id] = solver_.rate(id);
    }
    return changed.size();
  }
  /// Expects the textbook's rates, to this part of each.
  void expect_fair(double relative) const {
    const Rates want = textbook(capacities_, flows_);
    ASSERT_EQ(said_.size(), want.size());
    for (const auto& [id, rate] : want) {
      ASSERT_NEAR(solver_.rate(id) / rate, 1, relative) << "flow " << id;
      ASSERT_EQ(said_.at(id), solver_.rate(id)) << "flow " << id;
    }
  }
  const Flows& flows() const { return flows_; }
  double rate(FairSharing::Flow id) const { return solver_.rate(id); }

 private:
  std::vector<double> capacities_;
  FairSharing solver_;
  Flows flows_;
  Rates said_;
};

TEST(FairSharing, SharesALinkEqually) {
  Shared shared({12.0});
  const auto a = shared.add({{0}}), b = shared.add({{0}}), c = shared.add({{0}});
  EXPECT_EQ(shared.solve(), 3u);
  for (const auto flow : {a, b, c}) EXPECT_EQ(shared.rate(flow), 4);
  shared.remove(b);
  EXPECT_EQ(shared.solve(), 2u);
  EXPECT_EQ(shared.rate(a), 6);
  EXPECT_EQ(shared.rate(c), 6);
}

/// The example of Bertsekas and Gallager: what one link leaves is for those on the next.
TEST(FairSharing, OthersGetWhatABottleneckLeaves) {
  Shared shared({1.0, 3.0});
  const auto both = shared.add({{0, 1}}), first = shared.add({{0}}), second = shared.add({{1}});
  shared.solve();
  EXPECT_EQ(shared.rate(both), 0.5);
  EXPECT_EQ(shared.rate(first), 0.5);
  EXPECT_EQ(shared.rate(second), 2.5);
}

TEST(FairSharing, LimitsBindOneFlowEach) {
  Shared shared({10.0});
  const auto slow = shared.add({{0}, 2}), fast = shared.add({{0}, 9}), none = shared.add({{}});
  const auto alone = shared.add({{}, 5});
  shared.solve();
  EXPECT_EQ(shared.rate(slow), 2);
  EXPECT_EQ(shared.rate(fast), 8);
  EXPECT_EQ(shared.rate(none), kUnlimited);
  EXPECT_EQ(shared.rate(alone), 5);
}

TEST(FairSharing, ALinkCrossedTwiceCountsTwice) {
  Shared shared({12.0});
  const auto twice = shared.add({{0, 0}});
  shared.solve();
  EXPECT_EQ(shared.rate(twice), 6);
  const auto once = shared.add({{0}});
  shared.solve();
  EXPECT_EQ(shared.rate(twice), 4);
  EXPECT_EQ(shared.rate(once), 4);
  shared.remove(twice);
  shared.solve();
  EXPECT_EQ(shared.rate(once), 12);
}

/// A connection's next message, and one that goes where the first could not see it.
TEST(FairSharing, OnlyWhatChangesIsReported) {
  Shared shared({4.0, 4.0, 8.0, 1.0});
  auto next = shared.add({{0, 2}});
  shared.add({{1, 2}});
  shared.add({{3}});
  EXPECT_EQ(shared.solve(), 3u);
  for (int message = 0; message < 10; ++message) {
    shared.remove(next);
    next = shared.add({{0, 2}});
    EXPECT_EQ(shared.solve(), 1u);
    shared.expect_fair(0);
  }
  EXPECT_EQ(shared.solve(), 0u);
}

/// Links of a few widths, as in a cluster, or of any; flows over one to six of them.
class RandomFlows {
 public:
  explicit RandomFlows(unsigned seed) : random_(seed) {
    ties_ = below(2) == 0;
    links_ = 1 + below(40);
    longest_ = 1 + below(6);
    most_ = 1 + below(below(4) == 0 ? 300 : 40);
  }
  std::vector<double> capacities() {
    std::vector<double> all;
    for (std::size_t id = 0; id < links_; ++id) all.push_back(quantity());
    return all;
  }
  Flow flow() {
    Flow made;
    for (std::size_t n = 1 + below(longest_); n > 0; --n) made.links.push_back(below(links_));
    if (below(3) == 0) made.limit = quantity() / 4;
    return made;
  }
  /// Removes and adds a few flows, at times as many as there are; sometimes the same again.
  void change(Shared& shared) {
    const std::size_t changes = below(10) == 0 ? most_ : 1 + below(3);
    for (std::size_t n = 0; n < changes; ++n) {
      const Flows& flows = shared.flows();
      if (flows.size() < 1 + below(most_)) {
        shared.add(flow());
        continue;
      }
      const auto [id, old] = *std::next(flows.begin(), static_cast<long>(below(flows.size())));
      shared.remove(id);
      if (below(2) == 0) shared.add(old);
    }
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  double quantity() {
    if (ties_) return 12.5e9 * static_cast<double>(1 + below(4));
    return std::exp(std::uniform_real_distribution(std::log(1e8), std::log(1e12))(random_));
  }

  std::mt19937 random_;
  bool ties_ = false;
  std::size_t links_ = 0, longest_ = 0, most_ = 0;
};

TEST(FairSharing, ChangesGiveWhatTheTextbookGives) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomFlows random(seed);
    Shared shared(random.capacities());
    for (int step = 0; step < 60; ++step) {
      random.change(shared);
      shared.solve();
      shared.expect_fair(1e-12);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

/// After a million changes nothing has drifted away.
TEST(FairSharing, RoundingDoesNotGather) {
  RandomFlows random(7);
  Shared shared(random.capacities());
  for (int step = 0; step < 300'000; ++step) {
    random.change(shared);
    shared.solve();
  }
  shared.expect_fair(1e-12);
}

}  // namespace
}  // namespace foreduce
