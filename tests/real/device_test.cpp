// Ranks whose data is on a simulated device, which does everything late.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "tests/real/device_support.hpp"
#include "tests/real/real_support.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// Runs an operation only at the fourth question whether it has finished. Who reads or writes too
/// early then gets wrong results.
class LateDevice final : public RankDevice {
 public:
  explicit LateDevice(int rank) : device_(rank % 2) {}
  ~LateDevice() override {
    EXPECT_EQ(set_aside_, 0);
    EXPECT_EQ(pinned_, 0);
  }

  int number() const override { return device_; }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    memory_.push_back(std::make_unique<std::vector<std::byte>>(bytes));
    return {memory_.back()->data(), [](std::byte*) {}};
  }
  std::shared_ptr<std::byte> allocate_with_reserve(std::size_t bytes) override {
    return allocate(bytes);
  }
  bool holds(const std::byte* data) const override {
    for (const auto& m : memory_)
      if (data >= m->data() && data <= m->data() + m->size()) return true;
    return false;
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    queue_.push_back({[=] { std::memcpy(to, from, bytes); }, false});
  }
  void clear(std::byte* to, std::size_t bytes) override {
    queue_.push_back({[=] { std::memset(to, 0, bytes); }, false});
  }
  void wait_for_copies() override { run_copies(); }
  bool copies_done() override {
    if (++asked_ % 3 == 0) run_copies();
    return std::all_of(queue_.begin(), queue_.end(), [](const Work& work) { return work.counts; });
  }
  bool can_sync_network_writes() const override { return true; }
  void sync_network_writes() override { synced_ = true; }
  void drain() override {}  // what has not run by now is never run
  DeviceBytes source(const std::byte* bytes) const override {
    run_copies();  // a real peer would wait for them on its device
    return {bytes, device_, nullptr};
  }
  std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) override {
    const auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    ++pinned_;
    return {memory->data(), [memory, this](std::byte*) {
              std::fill(memory->begin(), memory->end(),
                        std::byte{0xEE});  // if released too early: wrong sums
              --pinned_;
            }};
  }
  void pin(std::byte*, std::size_t) override {}
  void unpin() override {}
  void fetch(std::byte* to, const std::byte* from, std::size_t bytes) override {
    start([=] {
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
  }
  void put(const Buffer& into, std::optional<Op> op, const DeviceBytes& from) override {
    if (holds(from.bytes)) {  // it came by GPUDirect
      EXPECT_TRUE(std::exchange(synced_, false));
      if (op) {  // reduces take 16 bytes at once
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(from.bytes) % 16,
                  reinterpret_cast<std::uintptr_t>(into.data()) % 16);
      }
    }
    start([=] { apply(into, op, from.bytes); });
  }
  std::byte* set_aside(const Buffer& into, const DeviceBytes& from) override {
    auto* aside = new std::byte[into.bytes()];
    ++set_aside_;
    start([=] { std::memcpy(aside, from.bytes, into.bytes()); });
    return aside;
  }
  void put_aside(const Buffer& into, std::optional<Op> op, std::byte* aside) override {
    start([=, this] {
      apply(into, op, aside);
      delete[] aside;
      --set_aside_;
    });
  }
  bool finished() override {
    if (++asked_ % 4 != 0) return false;
    for (bool counted = false; !counted; queue_.pop_front()) {
      queue_.front().run();
      counted = queue_.front().counts;
    }
    return true;
  }

 private:
  struct Work {
    std::function<void()> todo;
    bool counts;  // in finished(): a verb's operation, not a copy
    void run() {
      if (todo) std::exchange(todo, nullptr)();
    }
  };
  /// Also runs the verbs' operations before them.
  void run_copies() const {
    for (Work& work : queue_) work.run();
    std::erase_if(queue_, [](const Work& work) { return !work.counts; });
  }
  void start(std::function<void()> todo) { queue_.push_back({std::move(todo), true}); }
  static void apply(const Buffer& into, std::optional<Op> op, const std::byte* from) {
    if (op) foreduce::reduce(*op, into.type, into.data(), from, into.count);
    else std::memcpy(into.data(), from, into.bytes());
  }

  int device_, set_aside_ = 0, pinned_ = 0;
  unsigned asked_ = 0;
  bool synced_ = false;  // the network's writes
  std::vector<std::unique_ptr<std::vector<std::byte>>> memory_;
  mutable std::deque<Work> queue_;
};

std::unique_ptr<RankDevice> late(int rank) { return std::make_unique<LateDevice>(rank); }

class ThreadsDevice : public testing::TestWithParam<const Algorithm*> {};
TEST_P(ThreadsDevice, GivesTheBitsOfHostMemory) {
  expect_same_as_threads(*GetParam(), late, {1, 5, 999, 1001});
}
INSTANTIATE_TEST_SUITE_P(late, ThreadsDevice, testing::ValuesIn(all_algorithms()),
                         [](const auto& algorithm_of) { return identifier(*algorithm_of.param); });

/// Every algorithm that can run there, between processes of workers with late devices.
void expect_exact_sums(int processes, int each, const OfiOptions& network) {
  // The last: several staged segments of several network segments. Six ranks wait for each other
  // on few cores, so they have less of it.
  const std::size_t many = processes * each > 2 ? 500'000 : 1'500'000;
  std::vector<DeviceTrial> trials;
  for (const Algorithm* algorithm : all_algorithms()) {
    const Layout layout = Layout::uniform(processes, each, algorithm->uses_servers ? 1 : 0);
    if (unsupported_reason(*algorithm, layout, {.segments = 2, .channels = 1, .inner = "ring"}))
      continue;
    for (const std::size_t count : {std::size_t{1}, std::size_t{1001}, many})
      trials.push_back({algorithm, count, count == 1001 ? Type::bf16 : Type::f32});
  }
  EXPECT_GT(trials.size(), 3u * 15);
  EXPECT_EQ(status_of(processes, each, trials, network, late), 0);
}
TEST(DeviceNet, SumsAreExactBetweenProcesses) {
  NEEDS_OFI();
  expect_exact_sums(2, 1, {});
}
TEST(DeviceNet, SumsAreExactBetweenProcessesOfTwoRanks) {
  NEEDS_OFI();
  expect_exact_sums(3, 2, {});
}
// As with GPUDirect RDMA: bytes are sent from and arrive in the devices' memory, apart from their
// headers.
TEST(DeviceNet, SumsAreExactWithGpuDirect) {
  NEEDS_OFI();
  expect_exact_sums(2, 1, {.address = {}, .devices = DeviceKind::system});
}
TEST(DeviceNet, SumsAreExactWithGpuDirectOnTwoRailsThatWantAllMemoryRegistered) {
  NEEDS_OFI();
  expect_exact_sums(3, 2,
                    {.address = {},
                     .rails = 2,
                     .devices = DeviceKind::system,
                     .register_always = true,
                     .posted_receives = 3});
}

// A libfabric without CUDA (Debian's) cannot do what FI_HMEM promises, so bytes go through host
// memory.
TEST(DeviceNetFallback, SumsAreExactIfTheLibraryHasNoCuda) {
  NEEDS_OFI();
  for (const char* provider : {"tcp", "shm"})
    EXPECT_EQ(status_of(2, 2, {{find_algorithm("ring"), 100'000}},
                        {.provider = provider, .address = {}, .devices = DeviceKind::cuda}, late),
              0)
        << provider;
}

/// Rank 0 sends a hundred ones to rank 1. Both have devices, and use them or host memory. Returns
/// the failure, or "(none)".
std::string sent_between(bool from_device, bool to_device) {
  std::vector<std::shared_ptr<std::byte>> memory;
  std::vector<float> here[2] = {std::vector<float>(100, 1.0f), std::vector<float>(100, 0.0f)};
  return failure_of([&] {
    std::vector<std::unique_ptr<LateDevice>> devices;
    std::byte* data[2];
    for (int r = 0; r < 2; ++r) {
      devices.push_back(std::make_unique<LateDevice>(r));
      data[r] = reinterpret_cast<std::byte*>(here[r].data());
      if (!(r == 0 ? from_device : to_device)) continue;
      memory.push_back(devices.back()->allocate(400));
      std::memcpy(memory.back().get(), data[r], 400);
      data[r] = memory.back().get();
    }
    run_on_threads(
        [&](Transport& t) {
          const Buffer mine{data[t.rank()], 0, 100, Type::f32};
          if (t.rank() == 0) t.send(1, {}, mine);
          else t.recv(0, {}, mine);
          t.wait_all();
          if (t.rank() == 1) std::memcpy(here[1].data(), mine.data(), 400);
        },
        Layout::uniform(2), {.timeout_s = 5, .record = false, .device = [&](int r) {
                               return std::move(devices[static_cast<std::size_t>(r)]);
                             }});
    EXPECT_EQ(here[1], here[0]);
  });
}
TEST(ThreadsDeviceBroken, RefusesDeviceMemoryForHostMemory) {
  EXPECT_SAYS(sent_between(true, false),
              "rank 1: device memory arrived from rank 0 for host memory");
  for (const auto& [from, to] : {std::pair{true, true}, {false, true}, {false, false}})
    EXPECT_EQ(sent_between(from, to), "(none)");
}

}  // namespace
}  // namespace foreduce
