// How messages of one connection follow each other: host threads that copy, rests, slots.
#include <gtest/gtest.h>

#include "tests/support/profiles.hpp"
#include "tests/support/sizes.hpp"

namespace foreduce {
namespace {

using namespace test;

constexpr double kMessage = kMiB / 12.5e9;  // seconds that 1 MiB takes on the wire

Plan in_segments(int segments) {
  Plan plan;
  plan.segments = segments;
  return plan;
}

/// Seconds of a ring of two over 2 MiB, in so many segments.
double ring_of_two(const SimOptions& options, int segments) {
  return simulated_seconds("ring", switched(2), 2 * kMiB, options, in_segments(segments));
}

TEST(HostThread, ProxyRateIsPaidAtBothEnds) {
  const SimOptions options = sent_by(profile_with(network_with(number("proxy_rate", "5 GB/s"))));
  EXPECT_NEAR(ring_of_two(options, 1), 2 * (kMessage + 5e-6 + 2 * kMiB / 5e9), 1e-9);
}

// In pieces, what one end copies, the cable carries and the other end copies overlap, and the
// copies of 2 MiB out and 2 MiB in bind.
TEST(HostThread, ProxyCopiesOverlapWithTheTransfer) {
  const SimOptions options = sent_by(profile_with(network_with(number("proxy_rate", "5 GB/s"))));
  const double t = ring_of_two(options, 64);
  const double copies = 4 * kMiB / 5e9;
  EXPECT_GE(t, copies);
  EXPECT_LT(t, 1.1 * copies);
}

// A protocol's host thread checks what leaves; nothing is checked of what arrives.
TEST(HostThread, ChecksAProtocolsBytesAtTheSender) {
  const SimOptions options = sent_by(profile_with(protocol_with(number("proxy_rate", "5 GB/s"))));
  EXPECT_NEAR(ring_of_two(options, 1), 2 * (kMessage + 5e-6 + kMiB / 5e9), 1e-9);
  const double t = ring_of_two(options, 64), checks = 2 * kMiB / 5e9;
  EXPECT_GE(t, checks);
  EXPECT_LT(t, 1.1 * checks);
}

/// Seconds of a ring over 2 MiB on two nodes of so many GPUs, of so many of the library's channels.
double ring_of_nodes(const Profile& profile, int gpus, double channels) {
  SimOptions options = sent_by(profile);
  options.sending.channels_each = channels;
  return simulated_seconds("ring", cluster_of(wide_machine(gpus, 1), 2), 2 * kMiB, options,
                           in_segments(64));
}

// The threads of all GPUs of a node check what leaves it, one for a channel.
TEST(HostThread, ChecksAtAGpuOfItsOwnForEachChannel) {
  const Profile profile = profile_with(protocol_with(number("proxy_rate", "2 GB/s")));
  const double all = 2 * kMiB / 2e9;
  EXPECT_NEAR(ring_of_nodes(profile, 1, 1), all, 0.1 * all);
  EXPECT_NEAR(ring_of_nodes(profile, 1, 4), all, 0.1 * all);
  EXPECT_NEAR(ring_of_nodes(profile, 2, 2), 1.5 / 2 * all, 0.1 * all);
  EXPECT_NEAR(ring_of_nodes(profile, 4, 2), 1.75 / 2 * all, 0.1 * all);
}

// What enters a node and what leaves it takes one thread with a GPU a node and two with more; both
// directions carry 2 MiB, or 2(n-1)/n of it with more GPUs a node.
TEST(HostThread, IsOneADirectionWhereANodeHasGpusEnough) {
  const Profile profile = profile_with(network_with(number("proxy_rate", "2 GB/s")));
  const double both = 4 * kMiB / 2e9;
  EXPECT_NEAR(ring_of_nodes(profile, 1, 1), both, 0.1 * both);
  EXPECT_NEAR(ring_of_nodes(profile, 4, 1), 1.75 / 2 * both, 0.1 * both);
  EXPECT_NEAR(ring_of_nodes(profile, 4, 2), 1.75 / 4 * both, 0.1 * both);
  // Two GPUs are two threads, however many channels there are.
  EXPECT_NEAR(ring_of_nodes(profile, 2, 2), ring_of_nodes(profile, 2, 1), 1e-9);
}

// 16 pieces in either step, all on one connection: 32 pieces and 31 rests, for the second step's
// are there long before their turn.
TEST(Rest, FollowsEveryMessageOfAConnection) {
  const SimOptions options = sent_by(profile_with(protocol_with(number("gap", "20 us"))));
  EXPECT_NEAR(ring_of_two(options, 16), 2 * kMessage + 31 * 20e-6 + 5e-6, 1e-8);
}

/// Seconds in pieces of 64 KiB, of which there are 32, that rest from a length on.
double with_rests_from(const char* length, double messages_each = 1) {
  SimOptions options = sent_by(
      profile_with(protocol_with(number("gap", "20 us") + ", " + number("gap_from", length))));
  options.sending.messages_each = messages_each;
  return ring_of_two(options, 16);
}

TEST(Rest, FollowsLongMessagesOnlyIfSoSet) {
  EXPECT_NEAR(with_rests_from("64 KiB"), 2 * kMessage + 31 * 20e-6 + 5e-6, 1e-8);
  EXPECT_NEAR(with_rests_from("132 KiB"), 2 * kMessage + 5e-6, 1e-8);
}

// A message of 64 KiB is in the middle between one of 85.4 KiB, which rests, and half of that.
TEST(Rest, GrowsToWhereMessagesAreLong) {
  EXPECT_NEAR(with_rests_from("87468 B"), 2 * kMessage + 31 * 10e-6 + 5e-6, 1e-7);
}

// Pieces of 64 KiB are a quarter of what rests whole, so they rest for half of the time.
TEST(Rest, GrowsWithTheRootOfTheBytes) {
  const SimOptions options = sent_by(profile_with(
      protocol_with(number("gap", "20 us") + ", " + number("gap_whole_from", "256 KiB"))));
  EXPECT_NEAR(ring_of_two(options, 16), 2 * kMessage + 31 * 10e-6 + 5e-6, 1e-8);
}

// Of two connections' messages in one, each is half as long, and rests while the other's half is
// leaving.
TEST(Rest, OverlapsTheOtherConnectionsMessage) {
  const double piece = 2 * kMessage / 32;
  EXPECT_NEAR(with_rests_from("32 KiB", 2), 2 * kMessage + 31 * (20e-6 - piece / 2) + 5e-6, 1e-8);
  EXPECT_NEAR(with_rests_from("132 KiB", 2), 2 * kMessage + 5e-6, 1e-8);
}

// Each port sends to two: a piece takes 10.5 us beside the other's, longer than 5.2 alone and 4 of
// rest.
TEST(Rest, CostsNothingWhereOthersHoldTheMessageUp) {
  const SimOptions options = sent_by(profile_with(protocol_with(number("gap", "4 us"))));
  const double t = simulated_seconds("direct", switched(3), 3 * kMiB, options, in_segments(16));
  const double bytes = 4 * kMessage;
  EXPECT_GE(t, bytes);
  EXPECT_LT(t, bytes + 4 * (5e-6 + 4e-6));
}

// 16 segments of 64 KiB: with one slot each waits for the one before it to land.
TEST(Slots, LimitMessagesInFlight) {
  const auto seconds = [](double slots) {
    SimOptions options = sent_by(profile_with(protocol_with("")));
    options.sending.slots = slots;
    return simulated_seconds("ring", switched(2, 50e-6), 2 * kMiB, options, in_segments(16));
  };
  const double piece = 65536 / 12.5e9;
  EXPECT_NEAR(seconds(1), 2 * 16 * (piece + 50e-6), 1e-8);
  EXPECT_LT(seconds(8), seconds(1) / 4);
}

}  // namespace
}  // namespace foreduce
