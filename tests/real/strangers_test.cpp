// Programs that reach a rank's libfabric port and are not of its run.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>

#include "real/endpoint_names.hpp"
#include "tests/real/real_support.hpp"

namespace foreduce {
namespace {

using namespace test;

/// Keeps what arrives.
class Collector final : public PortUser {
 public:
  void sent(Event) override { ++sends; }
  void arrived(Segment&& segment) override {
    received.emplace_back(segment.data(), segment.data() + segment.header().bytes);
  }
  int sends = 0;
  std::vector<std::vector<std::byte>> received;
};

std::vector<std::byte> bytes(std::size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

/// Rank 0 of two, rank 1, and a program that knows rank 0's address but not the token.
class Strangers : public testing::Test {
 protected:
  void SetUp() override {
    NEEDS_OFI();
    OfiOptions options;
    options.address = "127.0.0.1";
    rank0 = open_ofi(options);
    rank1 = open_ofi(options);
    options.segment_bytes = 1024 * 1024;  // more than rank 0 has room for
    stranger = open_ofi(options);
    const std::vector<std::string> all{rank0->address(), rank1->address()};
    rank0->connect(all, {1, 2});
    rank1->connect(all, {1, 2});
    stranger->connect(all, {1, 3});
  }
  void send(OfiPort& from, const std::vector<std::byte>& data) {
    SegmentHeader header;
    header.from = 1;
    header.total = header.bytes = data.size();
    from.send(0, header, Event{1}, data.data());
  }
  /// All ports make progress until rank 0 has so many segments, or for some seconds.
  void progress(std::size_t segments, double seconds = 10) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    Collector others;
    while (at0.received.size() < segments && Clock::now() < end) {
      rank0->progress(at0);
      rank1->progress(others);
      try {
        stranger->progress(others);
      } catch (const TransportError&) {  // it may learn that its message was not taken
      }
    }
  }

  std::unique_ptr<OfiPort> rank0, rank1, stranger;
  Collector at0;
};

TEST_F(Strangers, HaveNoEffectWithoutTheToken) {
  const auto theirs = bytes(4096, 7), ours = bytes(4096, 1);
  for (int i = 0; i < 50; ++i) send(*stranger, theirs);
  progress(1, 1);
  EXPECT_EQ(at0.received.size(), 0u);
  EXPECT_EQ(rank0->foreign_messages(), 50u);
  send(*rank1, ours);
  progress(1);
  ASSERT_EQ(at0.received.size(), 1u);
  EXPECT_EQ(at0.received[0], ours);
}

TEST_F(Strangers, MayNotSendMoreThanThereIsRoom) {
  const auto theirs = bytes(900 * 1024, 7), ours = bytes(4096, 1);
  for (int i = 0; i < 40; ++i) send(*stranger, theirs);  // more than receives are posted
  progress(1, 1);
  EXPECT_EQ(at0.received.size(), 0u);
  EXPECT_GT(rank0->foreign_messages(), 0u);
  send(*rank1, ours);
  progress(1);
  ASSERT_EQ(at0.received.size(), 1u);
  EXPECT_EQ(at0.received[0], ours);
}

TEST_F(Strangers, ThoseOfOtherProtocolsHaveNoEffect) {
  const auto names = decode_endpoint_names(rank0->address());
  ASSERT_TRUE(names);
  sockaddr_in address{};
  ASSERT_EQ((*names)[0].size(), sizeof address);
  std::memcpy(&address, (*names)[0].data(), sizeof address);
  std::mt19937 random(1);
  std::vector<int> sockets;
  for (int i = 0; i < 20; ++i) {
    const int s = ::socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(::connect(s, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    std::vector<char> noise(1 + random() % 10000);
    for (char& c : noise) c = static_cast<char>(random());
    [[maybe_unused]] const auto sent = ::send(s, noise.data(), noise.size(), MSG_NOSIGNAL);
    if (i % 2 == 0) ::close(s);
    else sockets.push_back(s);
  }
  progress(1, 0.5);
  const auto ours = bytes(4096, 1);
  send(*rank1, ours);
  progress(1);
  ASSERT_EQ(at0.received.size(), 1u);
  EXPECT_EQ(at0.received[0], ours);
  for (const int s : sockets) ::close(s);
}

}  // namespace
}  // namespace foreduce
