// Ranks whose data is on devices: on a pretended one, which is late with everything, and on CUDA's where there is any.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <random>
#include <utility>

#include "real/baseline.hpp"
#include "real/cuda_device.hpp"
#include "real/measure.hpp"
#include "real/thread_backend.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/shell.hpp"

namespace foreduce {
namespace {

using namespace test;

constexpr Type kTypes[] = {Type::f32, Type::f64, Type::f16, Type::bf16, Type::i32};
constexpr Op kOps[] = {Op::sum, Op::min, Op::max};

/// Does what it was asked only when it is asked for the fourth time whether it has: whoever reads or writes too early is found out.
class LateDevice final : public RankDevice {
 public:
  explicit LateDevice(int rank) : device_(rank % 2) {}
  ~LateDevice() override {
    EXPECT_EQ(asides_, 0);
    EXPECT_EQ(staged_, 0);
  }

  int number() const override { return device_; }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    memory_.push_back(std::make_unique<std::vector<std::byte>>(bytes));
    return {memory_.back()->data(), [](std::byte*) {}};
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
  void settle() override { run_copies(); }
  bool settled() override {
    if (++asked_ % 3 == 0) run_copies();
    return std::all_of(queue_.begin(), queue_.end(), [](const Work& work) { return work.counts; });
  }
  bool sees_network() const override { return true; }
  void see_network() override { sees_ = true; }
  void drain() override {}  // what has not run by now never will
  DeviceBytes source(const std::byte* bytes) const override {
    run_copies();  // a peer would wait for them on its device
    return {bytes, device_, nullptr};
  }
  std::shared_ptr<std::byte> allocate_here(std::size_t bytes) override {
    const auto here = std::make_shared<std::vector<std::byte>>(bytes);
    ++staged_;
    return {here->data(), [here, this](std::byte*) {
              std::fill(here->begin(), here->end(), std::byte{0xEE});  // let go too early: wrong sums
              --staged_;
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
    if (holds(from.bytes)) {  // only a network writes here
      EXPECT_TRUE(std::exchange(sees_, false));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(from.bytes) % 16, reinterpret_cast<std::uintptr_t>(into.data()) % 16);
    }
    start([=] { apply(into, op, from.bytes); });
  }
  std::byte* set_aside(const Buffer& into, const DeviceBytes& from) override {
    auto* aside = new std::byte[into.bytes()];
    ++asides_;
    start([=] { std::memcpy(aside, from.bytes, into.bytes()); });
    return aside;
  }
  void put_aside(const Buffer& into, std::optional<Op> op, std::byte* aside) override {
    start([=, this] {
      apply(into, op, aside);
      delete[] aside;
      --asides_;
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
    bool counts;  // in finished(): a verb's, no copy's
    void run() {
      if (todo) std::exchange(todo, nullptr)();
    }
  };
  /// With all verbs' work before them.
  void run_copies() const {
    for (Work& work : queue_) work.run();
    std::erase_if(queue_, [](const Work& work) { return !work.counts; });
  }
  void start(std::function<void()> todo) { queue_.push_back({std::move(todo), true}); }
  static void apply(const Buffer& into, std::optional<Op> op, const std::byte* from) {
    if (op) fold(*op, into.type, into.data(), from, into.count);
    else std::memcpy(into.data(), from, into.bytes());
  }

  int device_, asides_ = 0, staged_ = 0;
  unsigned asked_ = 0;
  bool sees_ = false;  // what the network wrote
  std::vector<std::unique_ptr<std::vector<std::byte>>> memory_;
  mutable std::deque<Work> queue_;
};

std::unique_ptr<RankDevice> late(int rank) { return std::make_unique<LateDevice>(rank); }

/// Numbers whose sum depends on the order of adding.
std::vector<std::byte> numbers(std::size_t count, Type type, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> data(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    const double value = std::normal_distribution<double>(0, 100)(random);
    const auto f = static_cast<float>(value);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &f, sizeof bits);
    std::byte* to = data.data() + i * size_of(type);
    if (type == Type::f64) std::memcpy(to, &value, 8);
    if (type == Type::f32) std::memcpy(to, &f, 4);
    if (type == Type::i32) std::memcpy(to, &bits, 4);
    const auto half =
        static_cast<std::uint16_t>(type == Type::bf16 ? bits >> 16 : random() % 0x7c00 | (random() & 0x8000));  // any finite f16
    if (size_of(type) == 2) std::memcpy(to, &half, 2);
  }
  return data;
}

using Bits = std::vector<std::vector<std::byte>>;

Bits reduced(const Algorithm& algorithm, const Layout& layout, std::size_t count, Type type, Op op,
             std::function<std::unique_ptr<RankDevice>(int)> device) {
  Bits data;
  std::vector<Buffer> views;
  for (int r = 0; r < layout.size(); ++r) data.push_back(numbers(count, type, static_cast<unsigned>(r)));
  for (auto& d : data) views.push_back({d.data(), 0, count, type});
  const Plan plan = with_defaults(algorithm, {.segments = 3, .channels = 1, .inner = "ring"}, layout, count * size_of(type));
  run_on_threads(algorithm, layout, views, op, plan, {.timeout_s = 60, .record = false, .device = std::move(device)});
  data.resize(static_cast<std::size_t>(layout.workers));  // a server's workspace is nobody's result
  return data;
}

void expect_same_as_threads(const Algorithm& algorithm, const std::function<std::unique_ptr<RankDevice>(int)>& device,
                            const std::vector<std::size_t>& counts) {
  int ran = 0;
  for (const int ranks : {2, 4, 8})
    for (const int per_node : {1, ranks / 2, ranks}) {
      Layout layout = Layout::uniform(ranks / per_node, per_node, algorithm.uses_servers ? 1 : 0);
      layout.switch_reduces = true;
      if (unsupported_reason(algorithm, layout, {.segments = 3, .channels = 1, .inner = "ring"})) continue;
      ++ran;
      for (const std::size_t count : counts)
        for (const Type type : kTypes) {
          const Op op = kOps[count % 3];
          ASSERT_EQ(reduced(algorithm, layout, count, type, op, device), reduced(algorithm, layout, count, type, op, nullptr))
              << ranks << " ranks, " << per_node << " a node, " << count << " elements of type " << static_cast<int>(type)
              << ", op " << static_cast<int>(op);
        }
    }
  EXPECT_GT(ran, 0);
}

class ThreadsDevice : public testing::TestWithParam<const Algorithm*> {};
TEST_P(ThreadsDevice, GivesTheBitsOfHostMemoryHoweverLateItIs) { expect_same_as_threads(*GetParam(), late, {1, 5, 999, 1001}); }
INSTANTIATE_TEST_SUITE_P(late, ThreadsDevice, testing::ValuesIn(algorithms()),
                         [](const auto& algorithm_of) { return identifier(algorithm_of.param->name); });

std::string failure_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "(none)";
}

using DeviceOf = std::unique_ptr<RankDevice> (*)(int rank);

/// One process's share of a run over loopback TCP, its workers' data on devices: elements that were summed wrongly.
double wrong_here(const ProcessPlace& place, int each, const Algorithm& algorithm, std::size_t count, Type type,
                  const OfiOptions& network, DeviceOf device, const std::string& way) {
  SessionOptions options;
  options.network = network;
  options.ranks_per_process = each;
  options.servers_per_process = algorithm.uses_servers ? 1 : 0;
  std::vector<int> numbers, due;
  options.device = [&](int rank, int nth) {
    numbers.push_back(nth);
    return device(rank);
  };
  Session session(place, options);
  for (int i = 0; i < each; ++i) due.push_back(place.process * each + i);
  EXPECT_EQ(numbers, due);  // all processes share this machine's devices
  const Layout& layout = algorithm.uses_servers ? session.everyone() : session.workers();
  const Trial trial{.name = "",
                    .algorithm = &algorithm,
                    .plan = with_defaults(algorithm, {.segments = 2, .channels = 1, .inner = "ring"}, layout, count * size_of(type)),
                    .count = count,
                    .type = type};
  const TrialResult result = measure(session, {trial}, {.warmup = 1, .iterations = 2, .check = true})[0];
  EXPECT_EQ(session.to_network(), network.devices != DeviceKind::system ? "through the host" : way);
  session.leave();
  return result.in_place.wrong + result.out_of_place.wrong;
}

/// Status of the worst of so many processes: 0 if all sums were right and no device was left with anything aside.
int status_of(int processes, int each, const Algorithm& algorithm, std::size_t count, Type type, const OfiOptions& network,
              DeviceOf device = late, const std::string& way = "FI_HMEM") {
  return spawn(processes, [&](const ProcessPlace& place) {
    try {
      const double wrong = wrong_here(place, each, algorithm, count, type, network, device, way);
      if (wrong > 0) std::fprintf(stderr, "%g elements are wrong\n", wrong);
      return wrong == 0 && !testing::Test::HasFailure() ? 0 : 3;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      return 4;
    }
  });
}

class DeviceNet : public testing::TestWithParam<const Algorithm*> {
 protected:
  void expect_exact_sums(int processes, int each, const OfiOptions& network) const {
    if (!has_ofi()) GTEST_SKIP() << "this build has no libfabric: nothing between processes is tested";
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{1001}, std::size_t{1'500'000}})  // the last: several parts of several pieces
      EXPECT_EQ(status_of(processes, each, *GetParam(), count, count == 1001 ? Type::bf16 : Type::f32, network), 0)
          << processes << " processes of " << each << ", " << count << " elements";
  }
};
TEST_P(DeviceNet, SumsAreExactBetweenProcesses) {
  expect_exact_sums(2, 1, {});
  expect_exact_sums(3, 2, {});
}
// As with GPUDirect RDMA: bytes leave and land in the devices' memory, heads come by themselves; then on two rails that want all
// memory registered.
TEST_P(DeviceNet, SumsAreExactPastTheHost) {
  expect_exact_sums(2, 1, {.address = {}, .devices = DeviceKind::system});
  expect_exact_sums(3, 2, {.address = {}, .rails = 2, .devices = DeviceKind::system, .register_always = true, .posted_pieces = 3});
}
INSTANTIATE_TEST_SUITE_P(late, DeviceNet, testing::ValuesIn([] {
                           std::vector<const Algorithm*> all;
                           for (const Algorithm* a : algorithms())
                             if (!a->name.starts_with("nvls")) all.push_back(a);  // those need a switch that adds
                           return all;
                         }()),
                         [](const auto& algorithm_of) { return identifier(algorithm_of.param->name); });

// What FI_HMEM promises and the library below cannot do (Debian's knows no CUDA) goes through the processes' memory.
TEST(DeviceNetFallback, SumsAreExactWhereTheLibraryKnowsNoGpus) {
  if (!has_ofi()) GTEST_SKIP() << "this build has no libfabric: nothing between processes is tested";
  for (const char* provider : {"tcp", "shm"})
    EXPECT_EQ(status_of(2, 2, *find_algorithm("ring"), 100'000, Type::f32,
                        {.provider = provider, .address = {}, .devices = DeviceKind::cuda}),
              0)
        << provider;
}

/// Rank 0 sends a hundred ones to rank 1; both have devices, and use them or not. What rank 1 has then, or why not.
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
        Layout::uniform(2),
        {.timeout_s = 5, .record = false, .device = [&](int r) { return std::move(devices[static_cast<std::size_t>(r)]); }});
    EXPECT_EQ(here[1], here[0]);
  });
}
TEST(ThreadsDeviceBroken, ARankWithADeviceIsNotSentItsMemoryForTheHosts) {
  EXPECT_NE(sent_between(true, false).find("rank 1: device memory arrived from rank 0 for host memory"), std::string::npos);
  for (const auto& [from, to] : {std::pair{true, true}, {false, true}, {false, false}}) EXPECT_EQ(sent_between(from, to), "(none)");
}

#ifdef FOREDUCE_WITH_CUDA

/// Empty where there is a device.
std::string why_not() {
  try {
    cuda_here();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

TEST(Cuda, RanksGoRoundTheDevices) {
  EXPECT_EQ(device_of(0, 1), 0);
  EXPECT_EQ(device_of(7, 1), 0);
  EXPECT_EQ(device_of(3, 4), 3);
  EXPECT_EQ(device_of(5, 4), 1);
}

TEST(Cuda, MessagesSayWhoWhereAndWhat) {
  EXPECT_EQ(why_no_cuda_device(35, 0, 13000), "no CUDA device: no NVIDIA driver is installed");
  EXPECT_EQ(why_no_cuda_device(35, 12040, 13000), "no CUDA device: the driver is for CUDA 12.4, and foreduce was built with 13.0");
  EXPECT_EQ(why_no_cuda_device(100, 13000, 13000), "no CUDA device: no CUDA-capable device is detected (cudaErrorNoDevice)");
  EXPECT_EQ(cuda_failure(3, 1, "NVIDIA A100", "cudaEventQuery", 700),
            "rank 3 on device 1 (NVIDIA A100): cudaEventQuery: an illegal memory access was encountered (cudaErrorIllegalAddress)");
}

TEST(Cuda, WithoutADeviceTheProgramSaysSo) {
  const std::string why = why_not();
  if (why.empty()) GTEST_SKIP() << "there is a CUDA device";
  EXPECT_EQ(why.find("no CUDA device: "), 0u) << why;
  EXPECT_EQ(failure_of([] { open_cuda(0, 0); }), why);
  const Result r = foreduce_says("run --transport cuda --ranks 2");
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.out.find("--transport cuda: " + why), std::string::npos) << r.out;
  EXPECT_NE(foreduce_says("list transports").out.find(why), std::string::npos);
}

TEST(Cuda, HasNoMpiRowsAndHostsHaveNoNccl) {
  Result r = foreduce_says("run --transport cuda --ranks 2 --algorithm mpi");
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.out.find("--algorithm mpi reduces host memory"), std::string::npos) << r.out;
  r = foreduce_says("run --algorithm ring,nccl --ranks 2");
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.out.find("--algorithm nccl reduces GPUs' memory"), std::string::npos) << r.out;
  r = foreduce_says("calibrate --transport cuda");
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.out.find("--transport"), std::string::npos) << r.out;
}

TEST(Cuda, TheKernelGivesTheBitsOfTheHostsFold) {
  if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  const auto device = open_cuda(0, 0);
  const std::size_t most = 300007;
  const auto a = device->allocate((most + 8) * 8), b = device->allocate((most + 8) * 8);
  for (const Type type : kTypes)
    for (const Op op : kOps)
      for (const std::size_t into_at : {0u, 1u, 3u})
        for (const std::size_t from_at : {0u, 1u})
          for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, most}) {
            auto mine = numbers(count, type, 1);
            const auto theirs = numbers(count, type, 2);
            const Buffer into{a.get(), into_at, count, type}, from{b.get(), from_at, count, type};
            device->copy(into.data(), mine.data(), mine.size());
            device->copy(from.data(), theirs.data(), theirs.size());
            device->put(into, op, device->source(from.data()));
            while (!device->finished()) {
            }
            std::vector<std::byte> result(mine.size());
            device->copy(result.data(), into.data(), result.size());
            device->settle();
            fold(op, type, mine.data(), theirs.data(), count);
            ASSERT_EQ(result, mine) << count << " elements of type " << static_cast<int>(type) << ", op " << static_cast<int>(op)
                                    << ", from " << from_at << " into " << into_at;
          }
}

TEST(Cuda, APeersFoldWaitsForTheSendersCopies) {
  if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  const auto sender = open_cuda(0, 0), receiver = open_cuda(1, 1);  // one device twice, where there is one
  constexpr std::size_t count = 1 << 20;
  const auto ones = sender->allocate_here(4 * count), other = sender->allocate_here(4 * count);
  std::fill_n(reinterpret_cast<float*>(ones.get()), count, 1.0f);
  const auto sent = sender->allocate(4 * count), sum = receiver->allocate(4 * count);
  receiver->clear(sum.get(), 4 * count);
  for (int i = 0; i < 50; ++i) sender->copy(sent.get(), other.get(), 4 * count);
  sender->copy(sent.get(), ones.get(), 4 * count);
  receiver->put({sum.get(), 0, count, Type::f32}, Op::sum, sender->source(sent.get()));
  while (!receiver->finished()) {
  }
  std::vector<float> result(count);
  receiver->copy(reinterpret_cast<std::byte*>(result.data()), sum.get(), 4 * count);
  receiver->settle();
  sender->settle();
  EXPECT_EQ(result, std::vector<float>(count, 1.0f));
}

TEST(Cuda, RunChecksItsSumsAndNamesTheDevices) {
  if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  const Result r = foreduce_says(
      "run --transport cuda --ranks 4 --algorithm ring,double-tree --sizes 4B,1MiB --iterations 3 --check --format json");
  ASSERT_EQ(r.status, 0) << r.out;
  EXPECT_NE(r.out.find("\"wrong\": 0.0"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find("\"wrong\": null"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find(cuda_here().devices.front()), std::string::npos) << r.out;
}

// Two processes: what leaves a device goes to the other through pinned memory, since no libfabric here reaches this device.
TEST(Cuda, ChecksItsSumsBetweenProcesses) {
  if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  if (!has_ofi()) GTEST_SKIP() << "this build has no libfabric: nothing between processes is tested";
  for (const char* staged : {"", " --staged"}) {
    const Result r = foreduce_says(
        std::string("run --transport cuda --ranks 4 --per-process 2 --algorithm hierarchical,reduction-server --sizes 4B,3MiB "
                    "--warmup 1 --iterations 3 --check --format json") +
        staged);
    ASSERT_EQ(r.status, 0) << r.out;
    EXPECT_NE(r.out.find("\"wrong\": 0.0"), std::string::npos) << r.out;
    EXPECT_EQ(r.out.find("\"wrong\": null"), std::string::npos) << r.out;
    EXPECT_NE(r.out.find("\"to_network\": \""), std::string::npos) << r.out;
  }
}

TEST(Cuda, NcclStandsInTheSameTable) {
  if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  if (!has_baseline("nccl")) GTEST_SKIP() << "this build has no NCCL";
  const Result r = foreduce_says(fmt::format(  // NCCL wants a GPU a rank
      "run --transport cuda --ranks {} --algorithm ring,nccl --sizes 4B,1MiB --warmup 1 --iterations 3 --check --format json",
      cuda_here().devices.size()));
  ASSERT_EQ(r.status, 0) << r.out;
  const auto report = nlohmann::json::parse(r.out);
  EXPECT_TRUE(report["environment"]["baselines"]["nccl"].get<std::string>().starts_with("NCCL 2.")) << r.out;
  int rows = 0;
  for (const auto& row : report["rows"]) {
    rows += row["algorithm"] == "nccl";
    EXPECT_EQ(row["in_place"]["wrong"], 0) << row;
    EXPECT_EQ(row["out_of_place"]["wrong"], 0) << row;
  }
  EXPECT_EQ(rows, 2);
}

#ifdef FOREDUCE_FAKE_CUDA
TEST(CudaBroken, AnIllegalAccessEndsAllRanksAndIsNamed) {
  for (const char* how : {"--ranks 4", "--ranks 4 --per-process 2"}) {
    const Result r =
        shell(fmt::format("FOREDUCE_FAKE_CUDA_LAUNCHES=40 timeout 60 {} run --transport cuda {} --algorithm ring --sizes "
                          "1MiB --timeout 20",
                          FOREDUCE_PROGRAM, how));
    EXPECT_EQ(r.status, 1) << r.out;
    EXPECT_NE(r.out.find("(a stand-in for a GPU): "), std::string::npos) << r.out;
    EXPECT_NE(r.out.find("an illegal memory access was encountered (cudaErrorIllegalAddress)"), std::string::npos) << r.out;
    EXPECT_LT(r.seconds, 15) << r.out;
  }
}

// Over a real GPU's memory TCP would stumble.
// With bytes on their way from and to devices: every process ends by itself (4), none by a signal.
TEST(CudaBroken, AnIllegalAccessEndsProcessesPastTheHost) {
  if (!has_ofi()) GTEST_SKIP() << "this build has no libfabric: nothing between processes is tested";
  ::setenv("FOREDUCE_FAKE_CUDA_LAUNCHES", "12", 1);
  OfiOptions network;
  network.devices = DeviceKind::system;
  for (const bool registers : {false, true}) {
    network.register_always = registers;
    EXPECT_EQ(
        status_of(3, 1, *find_algorithm("ring"), 6'000'000, Type::f32, network, [](int rank) { return open_cuda(rank, rank); }), 4);
  }
}

class CudaNet : public testing::TestWithParam<const char*> {
 protected:
  /// Of three processes with two ranks each, their devices' memory limited to so many bytes a process.
  static int status_past_host(OfiOptions network, std::size_t count, const char* memory, const char* way) {
    ::setenv("FOREDUCE_FAKE_CUDA_MEMORY", memory, 1);
    network.devices = DeviceKind::system;
    network.register_always = true;
    return status_of(
        3, 2, *find_algorithm(GetParam()), count, Type::f32, network, [](int rank) { return open_cuda(rank, rank); }, way);
  }
};
TEST_P(CudaNet, SumsAreExactPastTheHostAlsoWhereDevicesAreFull) {
  if (!has_ofi()) GTEST_SKIP() << "this build has no libfabric: nothing between processes is tested";
  EXPECT_EQ(status_past_host({.address = {}}, 1'500'000, "1000000000", "FI_HMEM"), 0);
  // One of the process's ranks has room for 16 MiB from the network.
  EXPECT_EQ(status_past_host({.address = {}}, 300'000, "30000000", "FI_HMEM in part"), 0);
  // Both have, but so many pieces at a time want more.
  OfiOptions many;
  many.piece_bytes = 16 * 1024;
  many.posted_pieces = 64;
  EXPECT_EQ(status_past_host(many, 1'500'000, "1000000000", "FI_HMEM"), 0);
  EXPECT_EQ(status_past_host(many, 1'500'000, "64000000", "FI_HMEM"), 0);
}
INSTANTIATE_TEST_SUITE_P(devices, CudaNet, testing::Values("ring", "direct", "hierarchical", "reduction-server"),
                         [](const auto& name_of) { return identifier(name_of.param); });
#endif

TEST(Cuda, ReplaysAStep) {
  if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  const Result r = foreduce_says("run --transport cuda --ranks 2 --workload resnet50 --iterations 2 --format json");
  ASSERT_EQ(r.status, 0) << r.out;
  EXPECT_NE(r.out.find("\"exposed_s\""), std::string::npos) << r.out;
}

class CudaSums : public testing::TestWithParam<const Algorithm*> {};
TEST_P(CudaSums, AreTheBitsOfHostMemory) {
  if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  expect_same_as_threads(*GetParam(), [](int rank) { return open_cuda(rank, rank); }, {1, 1001, 200000});
}
INSTANTIATE_TEST_SUITE_P(devices, CudaSums, testing::ValuesIn(algorithms()),
                         [](const auto& algorithm_of) { return identifier(algorithm_of.param->name); });

#else

TEST(Cuda, IsLeftOutOfThisBuild) { GTEST_SKIP() << "no CUDA compiler was found when foreduce was configured"; }

#endif

}  // namespace
}  // namespace foreduce
