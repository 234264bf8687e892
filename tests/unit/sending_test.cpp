// What each number of a profile does to a simulated message.
#include <gtest/gtest.h>

#include "models/rank_layout.hpp"
#include "tests/support/profiles.hpp"
#include "tests/support/says.hpp"
#include "tests/support/sizes.hpp"

namespace foreduce {
namespace {

using namespace test;

constexpr double kMessage = kMiB / 12.5e9;  // seconds that 1 MiB takes on the wire

/// Seconds of a ring of two over 2 MiB: each rank sends half of them twice, one after the other.
double ring_of_two(const std::string& body) {
  return simulated_seconds("ring", switched(2), 2 * kMiB, sent_by(profile_with(body)));
}

TEST(Sending, IdealProfileIsTheDataSheet) {
  EXPECT_NEAR(ring_of_two(""), 2 * (kMessage + 5e-6), 1e-9);
}

TEST(Sending, LatencyTakesTheMachinesPlace) {
  EXPECT_NEAR(ring_of_two(network_with(number("latency", "40 us"))), 2 * (kMessage + 40e-6), 1e-9);
}

TEST(Sending, EfficiencyNarrowsTheLink) {
  EXPECT_NEAR(ring_of_two(network_with(number("efficiency", "0.5"))), 2 * (2 * kMessage + 5e-6),
              1e-9);
}

TEST(Sending, LaunchIsPaidOncePerCollective) {
  EXPECT_NEAR(ring_of_two(number("launch", "7 us") + "\n"), 7e-6 + 2 * (kMessage + 5e-6), 1e-9);
}

TEST(Sending, LaunchOfTheProtocolComesOnceOnTopOfTheProfiles) {
  EXPECT_NEAR(
      ring_of_two(number("launch", "7 us") + "\n" + protocol_with(number("launch", "4 us"))),
      11e-6 + 2 * (kMessage + 5e-6), 1e-9);
}

// Each of the two steps: 3 us at the sender, the bytes, the latency, 3 us at the receiver.
TEST(Sending, OverheadOccupiesSenderAndReceiver) {
  EXPECT_NEAR(ring_of_two(network_with(number("overhead", "3 us"))), 2 * (kMessage + 5e-6 + 6e-6),
              1e-9);
}

// Direct among four: three sends and three receives a rank share its engine, in both phases. With
// no bytes to speak of the third message leaves after 3 o and is handled as the third that arrives,
// no earlier than 3 o + latency + o.
TEST(Sending, OverheadsOfARankComeOneAfterTheOther) {
  const double o = 10e-6;
  const SimOptions options = sent_by(profile_with(network_with(number("overhead", "10 us"))));
  EXPECT_GE(simulated_seconds("direct", switched(4), 64, options), 2 * (3 * o + 5e-6 + o) - 1e-9);
}

// Two nodes of four: in either phase a rank sends to four beyond its node and receives from four,
// all on the one engine.
TEST(Sending, OverheadsOfARankComeOneAfterTheOtherAlsoWithManyGpusANode) {
  const SimOptions options = sent_by(profile_with(network_with(number("overhead", "50 us"))));
  const double t = simulated_seconds("direct", cluster_of(wide_machine(4, 4), 2), 256, options);
  EXPECT_GE(t, 2 * 8 * 50e-6 - 1e-9);
  EXPECT_LT(t, 2 * 9.5 * 50e-6);
}

TEST(Sending, ProtocolInflatesBytesAndAddsToHops) {
  const auto with = [](const char* key, const char* value) {
    return ring_of_two(protocol_with(number(key, value)));
  };
  EXPECT_NEAR(with("efficiency", "0.5"), 2 * (2 * kMessage + 5e-6), 1e-9);
  EXPECT_NEAR(with("net_hop", "11 us"), 2 * (kMessage + 16e-6), 1e-9);
  EXPECT_NEAR(with("overhead", "3 us"), 2 * (kMessage + 5e-6 + 6e-6), 1e-9);
  EXPECT_NEAR(with("hop", "11 us"), 2 * (kMessage + 5e-6), 1e-9);  // within a node only
}

// A megabyte is a quarter of what pays the whole, so it pays half.
TEST(Sending, HopsBetweenNodesGrowWithTheRootOfTheBytes) {
  const auto with = [](const char* whole_from) {
    return ring_of_two(protocol_with(number("net_hop", "12 us") + ", " +
                                     number("net_hop_whole_from", whole_from)));
  };
  EXPECT_NEAR(with("4 MiB"), 2 * (kMessage + 5e-6 + 6e-6), 1e-9);
  EXPECT_NEAR(with("1 MiB"), 2 * (kMessage + 5e-6 + 12e-6), 1e-9);
  EXPECT_NEAR(with("1 KiB"), 2 * (kMessage + 5e-6 + 12e-6), 1e-9);
}

TEST(Sending, HopsBetweenNodesBeginAtASize) {
  const auto with = [](const char* from) {
    return ring_of_two(
        protocol_with(number("net_hop", "12 us") + ", " + number("net_hop_from", from)));
  };
  EXPECT_NEAR(with("1 MiB"), 2 * (kMessage + 5e-6 + 12e-6), 1e-9);
  EXPECT_NEAR(with("2 MiB"), 2 * (kMessage + 5e-6), 1e-9);
}

// What is folded is read by the channel's threads when the network has brought it.
TEST(Sending, ChannelsLimitTheRate) {
  SimOptions options = sent_by(profile_with(protocol_with(number("channel_rate", "2 GB/s"))));
  options.sending.channels_each = 3;
  EXPECT_NEAR(simulated_seconds("ring", switched(2), 2 * kMiB, options),
              2 * (kMiB / 6e9 + 5e-6) + kMiB / 6e9, 1e-9);
}

// Of four in-order nodes one has two children, of three none has: its channel reads both, one after
// the other. On the way down both messages leave at once, each at the channel's rate, which the
// cable has room for: SimGrid does not forget the limit where flows share a link.
TEST(Sending, ChannelReadsOneSenderAfterTheOther) {
  const auto seconds = [](int ranks, const std::string& body) {
    return simulated_seconds("tree", switched(ranks), kMiB, sent_by(profile_with(body)));
  };
  const std::string limited = protocol_with(number("channel_rate", "2 GB/s"));
  EXPECT_NEAR(seconds(4, limited) - seconds(3, limited), kMiB / 2e9, 1e-9);
  // Without: the cable's second message, up and down.
  EXPECT_NEAR(seconds(4, "") - seconds(3, ""), 2 * kMessage, 1e-8);
}

/// A NIC of this rate, and whether a protocol narrows its channel.
struct OverheadCase {
  double nic;
  bool limited;
};

class MessageOverhead : public testing::TestWithParam<OverheadCase> {};

/// Seconds of a ring of two over 8 bytes, which passes each NIC twice.
double tiny_ring(const Machine& machine, const std::string& body) {
  const Cluster cluster = cluster_of(std::make_shared<const Machine>(machine), 2);
  return simulated_seconds("ring", cluster, 8, sent_by(profile_with(body)));
}

// What a message costs a NIC is a time, however narrow the channel or the PCIe link that it passes.
TEST_P(MessageOverhead, IsTheSameTimeOnEveryPath) {
  const std::string body =
      GetParam().limited ? protocol_with(number("channel_rate", "0.5 GB/s")) : "";
  Machine machine = *wide_machine(1, 1, GetParam().nic);
  machine.nic.latency = Seconds{5e-6};
  machine.nic.message_overhead = Seconds{1e-6};
  Machine without = machine;
  without.nic.message_overhead = Seconds{0};
  EXPECT_NEAR(tiny_ring(machine, body) - tiny_ring(without, body), 2 * 1e-6, 1e-9);
  // A profile that knows what a message costs knows it instead.
  const std::string own = network_with(number("overhead", "3 us")) + body;
  EXPECT_DOUBLE_EQ(tiny_ring(machine, own), tiny_ring(without, own));
}

INSTANTIATE_TEST_SUITE_P(paths, MessageOverhead,
                         testing::Values(OverheadCase{1e9, false}, OverheadCase{1e9, true},
                                         OverheadCase{100e9, false}, OverheadCase{100e9, true}),
                         [](const auto& path) {
                           return std::string(path.param.nic > 50e9 ? "WideNic" : "NarrowNic") +
                                  (path.param.limited ? "NarrowChannel" : "");
                         });

// As OverheadsOfARankComeOneAfterTheOther, where messages to many cost and others do not.
TEST(Sending, PeerOverheadIsOfRanksThatSendToMany) {
  const Profile profile = profile_with(network_with(number("peer_overhead", "10 us")));
  EXPECT_FALSE(profile.ideal());
  SimOptions options = sent_by(profile);
  const double alone = simulated_seconds("direct", switched(4), 64, options);
  EXPECT_NEAR(alone, 2 * 5e-6, 1e-7);
  options.sending.many_peers = true;
  EXPECT_GE(simulated_seconds("direct", switched(4), 64, options),
            2 * (3 * 10e-6 + 5e-6 + 10e-6) - 1e-9);
  const Cluster two = cluster_of(ec2("p4d.24xlarge"), 2);
  const auto of = [&](Collective collective) {
    return nccl_schedule({two, rank_layout(two),
                          std::make_shared<const Profile>(Profiles().made_for("p4d.24xlarge"))},
                         Bytes{kMiB}, {}, collective)
        .sending.many_peers;
  };
  EXPECT_TRUE(of(Collective::all_to_all));
  EXPECT_FALSE(of(Collective::all_gather));
}

// Eight GPUs: 14 steps, each of which pays the hop once.
TEST(Sending, RingHopReplacesHopInRings) {
  SimOptions options = sent_by(
      profile_with(protocol_with(number("hop", "1 us") + ", " + number("ring_hop", "3 us"))));
  const auto seconds = [&] {
    return simulated_seconds("ring", cluster_of(ec2("p5.48xlarge"), 1), 8 * 64, options);
  };
  const double as_tree = seconds();
  options.sending.ring = true;
  EXPECT_NEAR(seconds() - as_tree, 14 * 2e-6, 1e-9);
}

// Two ranks: two steps of 32 bytes. Messages of a quarter of the whole pay half of it, and one GPU
// of a node has an eighth of what is more.
TEST(Sending, RdmaRingHopReplacesNetHopInRingsOverRdmaAlone) {
  Profile profile = profile_with(protocol_with(number("net_hop", "1 us") + ", " +
                                               number("rdma_ring_hop", "10 us") + ", " +
                                               number("rdma_ring_hop_whole_from", "128 B")));
  const auto seconds = [&](Fabric fabric, bool ring) {
    profile.fabric = fabric;
    SimOptions options = sent_by(profile);
    options.sending.ring = ring;
    return simulated_seconds("ring", switched(2), 64, options);
  };
  EXPECT_NEAR(seconds(Fabric::rdma, true) - seconds(Fabric::rdma, false),
              2 * ((1 + 9.0 / 8) / 2 - 1) * 1e-6, 1e-9);
  EXPECT_EQ(seconds(Fabric::efa, true), seconds(Fabric::efa, false));
}

// Eight GPUs: each connection carries 14 messages and rests between them for longer than a message
// is on its way. Between nodes, and where switches sum, nothing rests.
TEST(Sending, GapOneNodeHoldsUpMessagesOfOneNode) {
  constexpr double kGap = 50e-6;
  const Profile with = profile_with(protocol_with(number("gap_one_node", "50 us")));
  const Profile without = profile_with(protocol_with(number("hop", "0 us")));
  const auto seconds = [](const Profile& profile, const char* algorithm, int nodes) {
    return simulated_seconds(algorithm, cluster_of(ec2("p5.48xlarge"), nodes), 16 * 64,
                             sent_by(profile));
  };
  const double step = seconds(without, "ring", 1) / 14;
  EXPECT_NEAR(seconds(with, "ring", 1), step + 13 * kGap, 1e-7);
  EXPECT_EQ(seconds(with, "ring", 2), seconds(without, "ring", 2));
  EXPECT_EQ(seconds(with, "nvls", 1), seconds(without, "nvls", 1));
}

TEST(Sending, AChainThatPassesLinesOnTakesAChannelsTimeOnce) {
  SimOptions options = sent_by(profile_with(protocol_with(number("channel_rate", "1 GB/s"))));
  const auto seconds = [&] { return simulated_seconds("ring", switched(2), 2 * kMiB, options); };
  EXPECT_NEAR(seconds(), 2 * (kMiB / 1e9 + 5e-6) + kMiB / 1e9, 1e-8);
  options.sending.chain = 8;
  EXPECT_NEAR(seconds(), 2 * (kMiB / 8e9 + 5e-6) + kMiB / 8e9, 1e-8);
}

// LL's lines, but not those of NCCL 2.4, which p3dn's profile with its limits is of.
TEST(Sending, ChainsAreOfTreesByLl) {
  const auto chain = [](const char* type, const char* algorithm, const char* protocol) {
    const Cluster two = cluster_of(ec2(type), 2);
    return nccl_schedule(
               {two, rank_layout(two), std::make_shared<const Profile>(Profiles().made_for(type))},
               Bytes{1024},
               {value_named<NcclAlgorithm>(algorithm), value_named<NcclProtocol>(protocol)})
        .sending.chain;
  };
  EXPECT_EQ(chain("p5.48xlarge", "double-tree", "LL"), 8);
  EXPECT_EQ(chain("p5.48xlarge", "double-tree", "LL128"), 1);
  EXPECT_EQ(chain("p5.48xlarge", "ring", "LL"), 1);
  EXPECT_EQ(chain("p3dn.24xlarge", "double-tree", "LL"), 1);
}

TEST(Sending, SpineIsPaidBesideAProfilesLatency) {
  FabricSpec fabric;
  fabric.nodes_per_leaf = 1;
  const auto seconds = [&](double spine) {
    fabric.spine_latency = Seconds{spine};
    return simulated_seconds("ring", cluster_of(flat_machine({12.5e9, 5e-6, 1e15}), 2, {}, fabric),
                             8, sent_by(profile_with(network_with(number("latency", "20 us")))));
  };
  EXPECT_NEAR(seconds(1e-3) - seconds(0), 2e-3, 1e-9);
}

// Small data by the protocol with the shorter latency, large data by the one with more payload.
TEST(Sending, OwnAlgorithmsTravelByTheProtocolThatSuits) {
  const auto sending = [](const std::string& body, double bytes) {
    return own_schedule(*find_algorithm("ring"), {},
                        {cluster_of(flat_machine(), 2), Layout::uniform(2),
                         std::make_shared<const Profile>(profile_with(body))},
                        Bytes{bytes})
        .sending;
  };
  const std::string half = number("efficiency", "0.5"), late = number("net_hop", "20 us"),
                    two = "protocols:\n  - { name: A, " + half + " }\n  - { name: B, " + late +
                          " }\n";
  EXPECT_FALSE(profile_with(two).ideal());
  EXPECT_EQ(sending(two, 1024).protocol, "A");
  EXPECT_EQ(sending(two, 1024 * kMiB).protocol, "B");
  const std::string inside =
      "protocols:\n  - { name: A, one_node: yes }\n  - { name: B, " + late + " }\n";
  EXPECT_EQ(sending(inside, 1024).protocol, "B");
  EXPECT_EQ(sending("", 1024).profile, nullptr);
}

TEST(Sending, OwnAlgorithmsTravelByTheProtocolThatIsAskedFor) {
  const Profile profile =
      profile_with("protocols:\n  - { name: A, one_node: yes }\n  - { name: B }\n");
  const auto sending = own_schedule(*find_algorithm("ring"), {},
                                    {cluster_of(flat_machine(), 2), Layout::uniform(2),
                                     std::make_shared<const Profile>(profile)},
                                    Bytes{1024}, "A")
                           .sending;
  EXPECT_EQ(sending.protocol, "A");
  const Layout one_node = Layout::uniform(1, 8), two_nodes = Layout::uniform(2, 8);
  EXPECT_EQ(protocol_unsupported(profile, one_node, "A"), "");
  EXPECT_EQ(protocol_unsupported(profile, two_nodes, ""), "");
  EXPECT_SAYS(protocol_unsupported(profile, two_nodes, "A"), "A works within one node only");
  EXPECT_SAYS(protocol_unsupported(profile, two_nodes, "C"), "has no protocol C");
}

}  // namespace
}  // namespace foreduce
