// What a rank does with segments from the network that are not what they should be.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "real/host_rank.hpp"
#include "tests/support/buffers.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// A port on which arrives what the test says.
class ScriptedPort final : public Port {
 public:
  struct Arrival {
    SegmentHeader header;
    std::vector<std::byte> bytes;
  };
  explicit ScriptedPort(std::vector<Arrival> arrivals, int& lent)
      : arrivals_(std::move(arrivals)), lent_(lent) {}
  bool attach(std::byte*, std::size_t) override { return false; }
  void detach(std::byte*) override {}
  bool use_device(int, AllocateOnDevice) override { return false; }
  bool attach_device(std::byte*, std::size_t) override { return false; }
  bool sends_from(const std::byte*, std::size_t) const override { return false; }
  void on_memory(std::function<void(std::byte*, std::size_t)>) override {}
  void send(int, const SegmentHeader&, Event send, const std::byte*) override {
    sent_.push_back(send);
  }
  bool progress(PortUser& user) override {
    for (const Event send : std::exchange(sent_, {})) user.sent(send);
    if (next_ == arrivals_.size()) return false;
    const Arrival& arrival = arrivals_[next_++];
    ++lent_;
    user.arrived(Segment(arrival.header, arrival.bytes.data(), [this] { --lent_; }));
    return true;
  }
  int may_sleep(std::vector<pollfd>&) override { return 1; }

 private:
  std::vector<Arrival> arrivals_;
  std::vector<Event> sent_;
  std::size_t next_ = 0;
  int& lent_;
};

/// Floats `first`, `first + 1`, … as a segment of a message of `total` bytes from rank 1.
ScriptedPort::Arrival segment(std::uint64_t total, std::uint64_t offset, std::uint64_t bytes,
                              float first = 0, std::uint64_t tag = 0) {
  ScriptedPort::Arrival a{{1, 0, tag, total, offset, bytes}, std::vector<std::byte>(bytes)};
  std::vector<float> values(bytes / 4 + 1);
  std::iota(values.begin(), values.end(), first);
  std::memcpy(a.bytes.data(), values.data(), bytes);
  return a;
}

/// Rank 0 of two, whose peer is a scripted port.
struct Receiver {
  explicit Receiver(std::vector<ScriptedPort::Arrival> arrivals) {
    ranks.timeout_s = 0.3;
    ranks.by_rank.resize(2);
    ranks.by_rank[0] = std::make_unique<HostRank>(
        ranks, 0, std::make_unique<ScriptedPort>(std::move(arrivals), lent));
  }
  HostRank& rank() { return *ranks.by_rank[0]; }
  Transport transport() { return Transport(rank(), layout, 0); }

  int lent = 0;  ///< segments that the rank keeps in the port's memory
  const Layout layout = Layout::uniform(2);
  HostRanks ranks;
};

/// When the receive is posted: before the segments arrive, or after all of them.
enum class Posted { first, last };

/// What rank 0 says when these segments arrive for a receive of four floats. What lies behind the
/// floats must stay as it is.
std::string failure_of(std::vector<ScriptedPort::Arrival> arrivals, Posted posted = Posted::first) {
  arrivals.push_back(segment(4, 0, 4, -1, 1));
  Receiver receiver(std::move(arrivals));
  std::vector<float> data(64, -1);
  const std::string why = error_of<TransportError>([&] {
    Transport t = receiver.transport();
    if (posted == Posted::first) t.recv(1, {}, view(data.data() + 20, 4));
    t.wait(t.recv(1, {.step = 1}, view(data.data(), 1)));
    if (posted == Posted::last) t.recv(1, {}, view(data.data() + 20, 4));
    t.wait_all();
  });
  for (std::size_t i = 24; i < data.size(); ++i) EXPECT_EQ(data[i], -1) << "element " << i;
  return why;
}

TEST(Segments, AnyOrderGivesTheMessage) {
  Receiver receiver({segment(16, 8, 8, 2), segment(16, 4, 4, 1), segment(16, 0, 4, 0)});
  std::vector<float> data(4, 10);
  Transport t = receiver.transport();
  t.recv_reduce(1, {}, view(data), Op::sum);
  t.wait_all();
  EXPECT_EQ(data, (std::vector<float>{10, 11, 12, 13}));
  receiver.rank().next_round();
}

TEST(Segments, OutsideTheReceiveEndsTheRun) {
  for (const Posted posted : {Posted::first, Posted::last}) {
    EXPECT_SAYS(failure_of({segment(16, 16, 4)}, posted), "offset 16 of a message of 16");
    EXPECT_SAYS(failure_of({segment(16, 12, 8)}, posted), "8 bytes at offset 12");
    EXPECT_SAYS(failure_of({segment(16, ~0ull - 15, 8)}, posted), "of a message of 16");
    // Only the first segment tells the truth about the message.
    EXPECT_SAYS(failure_of({segment(16, 0, 4), segment(4096, 64, 32)}, posted),
                "4096 bytes arrived from rank 1 where 16 were expected");
  }
}

TEST(Segments, PartsOfElementsEndTheRun) {
  for (const Posted posted : {Posted::first, Posted::last}) {
    EXPECT_SAYS(failure_of({segment(16, 2, 4)}, posted), "not whole elements of 4");
    EXPECT_SAYS(failure_of({segment(16, 0, 3)}, posted), "not whole elements of 4");
  }
}

TEST(Segments, TwiceEndsTheRun) {
  for (const Posted posted : {Posted::first, Posted::last}) {
    EXPECT_SAYS(failure_of({segment(16, 0, 8), segment(16, 0, 8)}, posted), "came twice");
    EXPECT_SAYS(failure_of({segment(16, 0, 8), segment(16, 4, 8)}, posted), "8 bytes at offset 4");
    EXPECT_SAYS(failure_of({segment(16, 8, 8), segment(16, 4, 8)}, posted), "came twice");
  }
  EXPECT_SAYS(failure_of({segment(16, 0, 16), segment(16, 0, 16)}, Posted::last), "came twice");
}

TEST(Segments, FromUnknownRanksOrOldRoundsEndTheRun) {
  auto ours = segment(16, 0, 16), nobodys = ours, old = ours;
  ours.header.from = 0;
  nobodys.header.from = 7;
  old.header.round = ~0u;
  EXPECT_SAYS(failure_of({ours}), "that rank is in this process");
  EXPECT_SAYS(failure_of({nobodys}), "a segment from rank 7");
  EXPECT_SAYS(failure_of({old}), "an all-reduce that is over");
}

TEST(Segments, EarlyOnesHaveALimit) {
  std::vector<ScriptedPort::Arrival> flood;
  for (std::uint64_t i = 0; i < 300; ++i)
    flood.push_back(segment(1 << 20, 0, 1 << 20, 0, 1000 + i));
  const std::string why = failure_of(flood);
  EXPECT_SAYS(why, "from rank 1");
  EXPECT_SAYS(why, "not asked for, and its sender is more than 64 MiB ahead");
  // Many small ones too: each costs memory beside its bytes.
  flood.clear();
  for (std::uint64_t i = 0; i < 300'000; ++i) flood.push_back(segment(4, 0, 4, 0, 1000 + i));
  EXPECT_SAYS(failure_of(flood), "more than 64 MiB ahead");
}

TEST(Segments, EarlyOnesOfLargeDataAreFine) {
  std::vector<ScriptedPort::Arrival> early;
  constexpr std::uint64_t kPart = 1 << 20, kParts = 150;
  for (std::uint64_t i = 0; i < kParts; ++i)
    early.push_back(segment(kParts * kPart, i * kPart, kPart));
  early.push_back(segment(4, 0, 4, 0, 1));
  Receiver receiver(std::move(early));
  receiver.rank().expect(kParts * kPart, 1);
  std::vector<float> data(kParts * kPart / 4 + 1, -1);
  Transport t = receiver.transport();
  t.wait(t.recv(1, {.step = 1}, view(data.data() + data.size() - 1, 1)));
  EXPECT_EQ(receiver.lent, kParts);
  t.recv(1, {}, view(data.data(), data.size() - 1));
  t.wait_all();
  EXPECT_EQ(data[0], 0);
  EXPECT_EQ(data[data.size() - 2], kPart / 4 - 1);
  EXPECT_EQ(receiver.lent, 0);
  receiver.rank().next_round();
}

TEST(Segments, SmallEarlyOnesHoldNoMemoryOfThePort) {
  Receiver receiver({segment(16, 0, 16, 5), segment(4, 0, 4, 0, 1)});
  std::vector<float> data(5);
  Transport t = receiver.transport();
  t.wait(t.recv(1, {.step = 1}, view(data.data() + 4, 1)));
  EXPECT_EQ(receiver.lent, 0);
  t.recv(1, {}, view(data.data(), 4));
  t.wait_all();
  EXPECT_EQ(data, (std::vector<float>{5, 6, 7, 8, 0}));
}

TEST(Segments, ThatNobodyAskedForAreKnownAtTheEnd) {
  Receiver receiver({segment(16, 0, 16, 0, 3), segment(4, 0, 4)});
  std::vector<float> data(1);
  Transport t = receiver.transport();
  t.recv(1, {}, view(data));
  t.wait_all();
  EXPECT_SAYS(error_of<TransportError>([&] { receiver.rank().next_round(); }),
              "(step 3, segment 0, channel 0, group 0) was never asked for");
}

// ------------------------------------------------------------------ the header alone

SegmentKind kind_of(SegmentHeader header, std::size_t bytes_with_it,
                    const RunToken& token = {5, 6}) {
  header.token = token;
  std::vector<std::byte> message(sizeof header + bytes_with_it);
  std::memcpy(message.data(), &header, sizeof header);
  SegmentHeader decoded;
  return decode_segment(message, {.token = {5, 6}, .ranks = 4, .device_bytes = 1024}, decoded);
}

TEST(SegmentHeaders, ContradictionsAreKnown) {
  EXPECT_EQ(kind_of({3, 0, 0, 64, 32, 32}, 32), SegmentKind::segment);
  EXPECT_EQ(kind_of({3, 0, 0, 0, 0, 0}, 0), SegmentKind::segment);
  EXPECT_EQ(kind_of({3, 0, 0, 64, 32, 32, 1, 15}, 0), SegmentKind::segment);
  for (const SegmentHeader& header :
       std::vector<SegmentHeader>{{4, 0, 0, 64, 32, 32},          // no such rank
                                  {3, 0, 0, 64, 33, 32},          // beyond the message's end
                                  {3, 0, 0, 64, ~0ull - 15, 32},  // the same, past 2^64
                                  {3, 0, 0, 64, 0, 64},           // more than came
                                  {3, 0, 0, 64, 32, 0},           // nothing
                                  {3, 0, 0, 64, 32, 32, 1}})      // data here, and announced
    EXPECT_EQ(kind_of(header, 32), SegmentKind::malformed);
  EXPECT_EQ(kind_of({3, 0, 0, 64, 32, 32, 1, 16}, 0), SegmentKind::malformed) << "alignment";
  EXPECT_EQ(kind_of({3, 0, 0, 4096, 0, 2048, 1}, 0), SegmentKind::malformed) << "too long";
  SegmentHeader header;
  const std::vector<std::byte> message(sizeof header - 1);
  EXPECT_EQ(decode_segment(message, {.token = {}, .ranks = 4}, header), SegmentKind::foreign);
  for (const RunToken& other : {RunToken{}, RunToken{5, 7}, RunToken{4, 6}})
    EXPECT_EQ(kind_of({3, 0, 0, 64, 32, 32}, 32, other), SegmentKind::foreign);
}

TEST(ArrivedBytes, AgreesWithAListOfBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    ArrivedBytes arrived;
    std::vector<bool> bytes(40);
    for (int i = 0; i < 60; ++i) {
      const std::size_t offset = random() % 40,
                        length = 1 + random() % std::min<std::size_t>(5, 40 - offset);
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(offset),
                 end = begin + static_cast<std::ptrdiff_t>(length);
      const bool fresh = std::none_of(begin, end, [](bool b) { return b; });
      ASSERT_EQ(arrived.add(offset, length), fresh) << offset << " " << length;
      if (fresh) std::fill(begin, end, true);
    }
  }
  ArrivedBytes empty;
  EXPECT_TRUE(empty.add(0, 0));
  EXPECT_FALSE(empty.add(0, 0));
}

}  // namespace
}  // namespace foreduce
