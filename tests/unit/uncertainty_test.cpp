// How wide prediction intervals are, and why.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/uncertainty.hpp"
#include "tests/support/profiles.hpp"
#include "tests/support/says.hpp"
#include "tests/support/simulation.hpp"
#include "tests/support/sizes.hpp"

namespace foreduce {
namespace {

using namespace test;

using Reasons = std::vector<std::string>;

/// Compared on p4d at two ranges of sizes, and on one p4de at the larger.
Profile compared_profile() {
  return profile_with(R"(
instances: [p4d.24xlarge]
accuracy:
  - least: 8 B
    most: 512 KiB
    compared: [{ instance: p4d.24xlarge, nodes: [2] }]
    spread: 1.2
    points: 9
    source: s
  - least: 1 MiB
    most: 1 GiB
    compared:
      - { instance: p4d.24xlarge, nodes: [1, 2] }
      - { instance: p4de.24xlarge, nodes: [1] }
    spread: 1.5
    points: 9
    source: s
)");
}

/// What is asked about: an all-reduce on a cluster.
struct Condition {
  double bytes;
  int nodes = 2, per_node = 8;
  const char* instance = "p4d.24xlarge";
};

Uncertainty of(const Condition& asked) {
  return uncertainty(compared_profile(), asked.instance, asked.nodes, asked.per_node,
                     Bytes{asked.bytes});
}

TEST(Uncertainty, IsTheSpreadOfTheRangeInside) {
  EXPECT_EQ(of({1024}).spread, 1.2);
  EXPECT_EQ(of({64 * kMiB}).spread, 1.5);
  EXPECT_EQ(of({0.75 * kMiB}).reasons, Reasons{});  // between two ranges
  EXPECT_EQ(of({64 * kMiB, 1, 8, "p4de.24xlarge"}).reasons, Reasons{});
}

/// A profile that is compared with few points may look better than two sites agree.
TEST(Uncertainty, IsAtLeastWhatTwoSitesDifferBy) {
  Profile exact = compared_profile();
  for (Accuracy& range : exact.accuracy) range.spread = 1.01;
  EXPECT_EQ(uncertainty(exact, "p4d.24xlarge", 2, 8, Bytes{1024}).spread, 1.07);
}

TEST(Uncertainty, GrowsWhereANodeHasFarMoreGpusThanWereMeasured) {
  const Uncertainty u = of({64 * kMiB, 2, 72, "a-rack"});
  EXPECT_GE(u.spread, 1.75);
  EXPECT_EQ(of({2 * kMiB, 2, 72, "a-rack"}).spread, 3);
  EXPECT_SAYS(fmt::format("{}", fmt::join(u.reasons, "; ")), "measured with at most 8 GPUs a node");
  EXPECT_SAYS_NOT(fmt::format("{}", fmt::join(of({64 * kMiB, 2, 16, "a-board"}).reasons, "; ")),
                  "at most 8 GPUs");
}

struct Outside {
  Condition asked;
  const char* why;
};

class UncertaintyOutside : public testing::TestWithParam<Outside> {};

TEST_P(UncertaintyOutside, IsWiderAndSaysWhy) {
  const Uncertainty u = of(GetParam().asked);
  EXPECT_EQ(u.reasons, Reasons{GetParam().why});
  EXPECT_DOUBLE_EQ(u.spread, 1.5 * 1.5);
}

INSTANTIATE_TEST_SUITE_P(
    edges, UncertaintyOutside,
    testing::Values(
        Outside{{4096 * kMiB}, "measured from 8 B to 1 GiB only"},
        Outside{{64 * kMiB, 4}, "measured at this size on 1 and 2 nodes only"},
        Outside{{64 * kMiB, 2, 1}, "measured with 8 GPUs a node only"},
        Outside{{64 * kMiB, 2, 8, "p4de.24xlarge"}, "measured at this size on 1 node only"},
        Outside{{64 * kMiB, 2, 8, "p5.48xlarge"}, "no measurements of p5.48xlarge at this size"}));

TEST(Uncertainty, DoesNotReachFromOneSizeToAnother) {
  EXPECT_EQ(of({1024, 1}).reasons, Reasons{"measured at this size on 2 nodes only"});
}

TEST(Uncertainty, NamesEveryReason) {
  EXPECT_EQ(of({4096 * kMiB, 4, 4}).reasons,
            (Reasons{"measured at this size on 1 and 2 nodes only",
                     "measured with 8 GPUs a node only", "measured from 8 B to 1 GiB only"}));
}

/// Compared on p4d with 2 and 8 nodes, and by fits that lacked a number of nodes.
double spread_on(int nodes) {
  const Profile profile = profile_with(R"(
instances: [p4d.24xlarge]
accuracy:
  - least: 8 B
    most: 1 GiB
    compared: [{ instance: p4d.24xlarge, nodes: [2, 8] }]
    spread: 1.1
    spread_other_nodes: 1.3
    points: 9
    source: s
)");
  return uncertainty(profile, "p4d.24xlarge", nodes, 8, Bytes{kMiB}).spread;
}

// Numbers of nodes between those compared are as uncertain as those that a fit lacked; far beyond,
// errors of so many doublings add up as independent ones do.
TEST(Uncertainty, GrowsWithTheDoublingsOfNodes) {
  EXPECT_EQ(spread_on(2), 1.1);
  EXPECT_EQ(spread_on(8), 1.1);
  for (const int nodes : {4, 16, 32}) EXPECT_DOUBLE_EQ(spread_on(nodes), 1.3) << nodes;
  EXPECT_GT(spread_on(1), 1.3) << "several nodes say little of one, which has no network";
  EXPECT_NEAR(std::log(spread_on(2048)) / std::log(1.3), std::sqrt(8 / 2.0), 1e-9);
  EXPECT_LT(spread_on(128), spread_on(256));
}

// A second reason may not hide behind a narrower first one: no measurement of an algorithm is as
// uncertain on a number of nodes that nobody measured as on one that somebody did.
TEST(Uncertainty, IsNoNarrowerForTwoReasonsThanForEither) {
  const Profile profile = Profiles().made_for("p5.48xlarge");
  for (double bytes = 8; bytes <= 8192 * kMiB; bytes *= 8) {
    const auto spread = [&](int nodes, RunBy by, Collective c = Collective::all_reduce) {
      return uncertainty(profile, cluster_of(ec2("p5.48xlarge"), nodes), Bytes{bytes}, by, c)
          .spread;
    };
    EXPECT_GE(spread(16, RunBy::own_algorithm), spread(8, RunBy::own_algorithm)) << bytes;
    EXPECT_GE(spread(16, RunBy::own_algorithm), spread(16, RunBy::library)) << bytes;
    EXPECT_GE(spread(16, RunBy::library, Collective::all_gather),
              spread(8, RunBy::library, Collective::all_gather))
        << bytes;
  }
}

// What a fit leaves of the points that it has seen says little.
TEST(Uncertainty, IsWideAfterOneSourceAlone) {
  const Profile one = profile_with(R"(
instances: [p4d.24xlarge]
accuracy:
  - least: 8 B
    most: 1 GiB
    compared: [{ instance: p4d.24xlarge, nodes: [1] }]
    spread: 1.05
    points: 9
    seen: yes
    source: s
)");
  const Uncertainty u = uncertainty(one, "p4d.24xlarge", 1, 8, Bytes{1024});
  EXPECT_GT(u.spread, 1.3);
  EXPECT_EQ(u.reasons.size(), 1u);
}

// Of 451 points of GPUs that were left out, 90 % are within 1.75 to 2.4 by size.
TEST(Uncertainty, IsThatOfGpusLeftOutWhereNoneLikeItWasMeasured) {
  const Profile profile = Profiles().load("nccl-b200+rdma");
  const auto of_family = [&](const char* family, double bytes) {
    return uncertainty(profile, "./mine.yaml", 1, 8, Bytes{bytes}, family);
  };
  for (const double bytes : {1024.0, 2 * kMiB, 1024 * kMiB})
    EXPECT_GE(of_family("R100", bytes).spread, 1.75);
  EXPECT_GT(of_family("R100", 1024).spread, of_family("R100", 1024 * kMiB).spread);
  EXPECT_EQ(of_family("R100", 1024 * kMiB).reasons.front(),
            "no measurements of R100: as B200, B300, GB200");
  EXPECT_LT(of_family("B200", 1024 * kMiB).spread, of_family("R100", 1024 * kMiB).spread);
}

TEST(Uncertainty, SaysDataSheetOnlyWithoutComparison) {
  EXPECT_EQ(uncertainty(profile_with(""), "p4d.24xlarge", 2, 8, Bytes{1}).reasons,
            Reasons{"no measurements: links at the rates of their data sheets"});
}

TEST(Uncertainty, IsWiderForOwnAlgorithmsByNcclsTransport) {
  const Cluster cluster = cluster_of(ec2("p4d.24xlarge"), 2);
  const Profile profile = Profiles().made_for("p4d.24xlarge");
  const Uncertainty library = uncertainty(profile, cluster, Bytes{64 * kMiB}, RunBy::library);
  const Uncertainty own = uncertainty(profile, cluster, Bytes{64 * kMiB}, RunBy::own_algorithm);
  EXPECT_EQ(library.reasons, Reasons{});
  EXPECT_EQ(own.reasons, Reasons{"only NCCL's algorithms were measured, not this one"});
  EXPECT_GT(own.spread, library.spread);
}

// Nobody published algorithms that no library runs.
TEST(Uncertainty, PublishedIntervalsAreNoNarrowerThanHealthyOnes) {
  const Cluster cluster = cluster_of(ec2("p4d.24xlarge"), 2);
  const Profile profile = Profiles().made_for("p4d.24xlarge");
  for (const double bytes : {1024.0, 512.0 * 1024, 16 * kMiB, 256 * kMiB}) {
    const Uncertainty u = uncertainty(profile, cluster, Bytes{bytes}, RunBy::library);
    EXPECT_GT(u.published.value(), u.spread) << bytes;
    EXPECT_LT(*u.published, u.spread * u.spread) << bytes;
  }
  const auto of = [&](RunBy by, Collective collective) {
    return uncertainty(profile, cluster, Bytes{1024}, by, collective);
  };
  EXPECT_FALSE(of(RunBy::own_algorithm, Collective::all_reduce).published);
  const Uncertainty gather = of(RunBy::library, Collective::all_gather);
  EXPECT_EQ(gather.published, gather.spread);
}

TEST(Uncertainty, IsWideForSmallAllToAllsInANode) {
  const Profile profile = Profiles().made_for("p5.48xlarge");
  const auto spread = [&](int nodes, double bytes, Collective collective) {
    return uncertainty(profile, cluster_of(ec2("p5.48xlarge"), nodes), Bytes{bytes}, RunBy::library,
                       collective)
        .spread;
  };
  EXPECT_GE(spread(1, 65536, Collective::all_to_all), 2);
  EXPECT_LT(spread(2, 65536, Collective::all_to_all), 2);
  EXPECT_LT(spread(1, 65536, Collective::all_gather), 2);
  EXPECT_LT(spread(1, 64 * kMiB, Collective::all_to_all), 2);
}

TEST(Uncertainty, NeverGoesBelowWhatTheLinksTake) {
  const Cluster cluster = cluster_of(ec2("g5.48xlarge"), 2);
  const Bytes bytes{1024 * kMiB};
  const Uncertainty u = uncertainty(Profiles().load("ideal"), cluster, bytes, RunBy::own_algorithm);
  EXPECT_NEAR(u.least / (bytes / cluster.node(0).cut_out()), 1, 1e-3);
  EXPECT_EQ(u.low(1.1 * u.least).value, u.least.value);
  EXPECT_EQ(u.low(100 * u.least).value, (100 * u.least / u.spread).value);
  EXPECT_EQ(u.low(0.5 * u.least).value, (0.5 * u.least).value);  // never beyond what is predicted
}

// A machine that is like an instance type, but for its cards, was not measured.
TEST(Uncertainty, IsWiderWhereAMachineIsUnlikeItsType) {
  const Profile profile = Profiles().made_for("p5.48xlarge");
  const auto on = [&](const Machine& machine) {
    return uncertainty(profile, cluster_of(std::make_shared<const Machine>(machine), 2),
                       Bytes{1 << 30}, RunBy::library, Collective::all_reduce);
  };
  Machine machine = *ec2("p5.48xlarge");
  const Uncertainty usual = on(machine);
  machine.like = "p5.48xlarge";
  EXPECT_EQ(on(machine).reasons, usual.reasons);
  machine.nic.bandwidth = machine.nic.bandwidth / 2;
  EXPECT_GT(on(machine).spread, usual.spread);
  EXPECT_SAYS(fmt::format("{}", fmt::join(on(machine).reasons, "; ")),
              "measured on p5.48xlarge with other NICs");
}

// One node has no network, and an H200 has an H100's links.
TEST(Uncertainty, IsThatOfAnyMachineWithSuchGpusOnOneNode) {
  const auto on = [](const char* name, int nodes, double bytes) {
    const auto machine = std::make_shared<const Machine>(machine_named(name));
    return uncertainty(Profiles().nearest_to(*machine), cluster_of(machine, nodes), Bytes{bytes},
                       RunBy::library);
  };
  const double large = 1024 * kMiB;
  for (const auto& [machine, measured] :
       {std::pair("dgx-a100", "p4d.24xlarge"), std::pair("hgx-h200-ib", "p5.48xlarge")})
    EXPECT_DOUBLE_EQ(on(machine, 1, large).spread, on(measured, 1, large).spread) << machine;
  EXPECT_DOUBLE_EQ(on("hgx-h200-ib", 2, large).spread, on("hgx-h100-ib", 2, large).spread);
  EXPECT_EQ(on("hgx-h200-ib", 2, large).reasons, Reasons{});
}

// A profile of one's own may name an instance type without a GPU.
TEST(Uncertainty, TakesNoInstanceWithoutGpusForAlike) {
  const Profile profile = profile_with(R"(
instances: [p4d.24xlarge]
accuracy:
  - least: 8 B
    most: 1 GiB
    compared: [{ instance: c6in.32xlarge, nodes: [1] }]
    spread: 1.05
    points: 9
    source: s
)");
  EXPECT_GE(uncertainty(profile, "p4d.24xlarge", 1, 8, Bytes{kMiB}, "A100").spread, 1.35);
}

// As published ones were off by, which no fit had seen.
TEST(Uncertainty, GoesBySizeForOtherCollectives) {
  const Cluster cluster = cluster_of(ec2("p5.48xlarge"), 2);
  const Profile profile = Profiles().made_for("p5.48xlarge");
  const auto spread = [&](double bytes) {
    return uncertainty(profile, cluster, Bytes{bytes}, RunBy::library, Collective::all_gather)
        .spread;
  };
  EXPECT_LT(spread(1024), 1.9);
  EXPECT_DOUBLE_EQ(spread(16 * kMiB), 1.9);
  EXPECT_DOUBLE_EQ(spread(128 * kMiB), 1.55);
  EXPECT_DOUBLE_EQ(spread(1024 * kMiB), 1.22);
}

// Two nodes of it were published, and are 41 % off: RoCE's factor held a third of them.
TEST(Uncertainty, TakesL40SOverRoceForAGpuThatNobodyMeasured) {
  const auto machine = std::make_shared<const Machine>(machine_named("l40s-roce"));
  for (const double bytes : {8.0, 128.0 * 1024})
    EXPECT_GE(uncertainty(Profiles().nearest_to(*machine), cluster_of(machine, 2), Bytes{bytes},
                          RunBy::library)
                  .spread,
              2.2)
        << bytes;
}

// Half of a DGX A100's cards: over InfiniBand nobody measured that.
TEST(Uncertainty, IsWiderBehindOtherCardsThanThoseMeasured) {
  Machine machine = machine_named("dgx-a100");
  const auto on = [](const Machine& m) {
    return uncertainty(Profiles().nearest_to(m), cluster_of(std::make_shared<const Machine>(m), 2),
                       Bytes{1024 * kMiB}, RunBy::library);
  };
  const Uncertainty usual = on(machine);
  machine.nic.bandwidth = machine.nic.bandwidth / 2;
  EXPECT_GT(on(machine).spread, usual.spread);
  EXPECT_EQ(on(machine).reasons, Reasons{"measured with other NICs"});
}

// A profile of InfiniBand said nothing of being used over EFA.
TEST(Uncertainty, GrowsOverAnotherFabric) {
  const auto spread = [](const char* profile, int nodes) {
    return uncertainty(Profiles().load(profile), cluster_of(ec2("p5.48xlarge"), nodes), Bytes{kMiB},
                       RunBy::library)
        .spread;
  };
  EXPECT_GT(spread("nccl-h100+rdma", 2), 1.5 * spread("nccl-h100", 2));
  EXPECT_EQ(spread("nccl-h100+rdma", 1), spread("nccl-h100", 1));
}

// Such a profile names a machine that no instance type is like.
TEST(Uncertainty, TakesProfilesOfMachinesOfOnesOwn) {
  Profile own = Profiles().load("nccl-pcie+rdma");
  own.instances = {"my-box"};
  const auto machine = std::make_shared<const Machine>(machine_named("l40s-roce"));
  EXPECT_GT(uncertainty(own, cluster_of(machine, 2), Bytes{kMiB}, RunBy::library).spread, 1);
}

}  // namespace
}  // namespace foreduce
