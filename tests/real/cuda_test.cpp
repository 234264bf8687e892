// Ranks whose data is on CUDA devices. Without a device most of these tests are skipped.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "real/baseline.hpp"
#include "real/cuda_device.hpp"
#include "real/transports.hpp"
#include "tests/real/device_support.hpp"
#include "tests/real/real_support.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

#define NEEDS_CUDA() \
  if (const std::string why = cuda_unavailable(); !why.empty()) GTEST_SKIP() << why

TEST(Cuda, RanksTakeTurnsOnTheDevices) {
  EXPECT_EQ(device_of(0, 1), 0);
  EXPECT_EQ(device_of(7, 1), 0);
  EXPECT_EQ(device_of(3, 4), 3);
  EXPECT_EQ(device_of(5, 4), 1);
}

TEST(Cuda, MessagesNameRankDeviceAndCall) {
  if (!built_with_cuda()) GTEST_SKIP() << "this build has no CUDA";
  EXPECT_EQ(why_no_cuda_device(35, 0, 13000), "no CUDA device: no NVIDIA driver is installed");
  EXPECT_EQ(why_no_cuda_device(35, 12040, 13000),
            "no CUDA device: the driver is for CUDA 12.4, and foreduce was built with 13.0");
  EXPECT_EQ(why_no_cuda_device(100, 13000, 13000),
            "no CUDA device: no CUDA-capable device is detected (cudaErrorNoDevice)");
  EXPECT_EQ(cuda_failure(3, 1, "NVIDIA A100", "cudaEventQuery", 700),
            "rank 3 on device 1 (NVIDIA A100): cudaEventQuery: an illegal memory access was "
            "encountered (cudaErrorIllegalAddress)");
}

TEST(Cuda, WithoutADeviceTheProgramReportsWhy) {
  const std::string why = cuda_unavailable();
  if (why.empty()) GTEST_SKIP() << "there is a CUDA device";
  EXPECT_TRUE(why.starts_with(built_with_cuda() ? "no CUDA device: " : "this build has no CUDA"))
      << why;
  EXPECT_EQ(failure_of([] { open_cuda(0, 0); }), why);
  const Result r = foreduce_says("run --transport cuda --ranks 2");
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "--transport cuda: " + why);
  EXPECT_SAYS(foreduce_says("list transports").out, built_with_cuda() ? why : "no CUDA compiler");
}

TEST(Cuda, RefusesMpiOnDevicesAndNcclOnHosts) {
  Result r = foreduce_says("run --transport cuda --ranks 2 --algorithm mpi");
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "--algorithm mpi works on host memory");
  r = foreduce_says("run --algorithm ring,nccl --ranks 2");
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "--algorithm nccl works on GPUs' memory");
  r = foreduce_says("calibrate --transport cuda");
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "--transport");
}

TEST(Cuda, KernelGivesTheBitsOfTheHostsReduce) {
  NEEDS_CUDA();
  const auto device = open_cuda(0, 0);
  const std::size_t most = 300007;
  const auto a = device->allocate((most + 8) * 8), b = device->allocate((most + 8) * 8);
  for (const Type type : kTypes)
    for (const Op op : kOps)
      for (const std::size_t into_at : {0u, 1u, 3u})
        for (const std::size_t from_at : {0u, 1u})
          for (const std::size_t count :
               {std::size_t{1}, std::size_t{7}, std::size_t{1000}, most}) {
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
            device->wait_for_copies();
            foreduce::reduce(op, type, mine.data(), theirs.data(), count);
            ASSERT_EQ(result, mine)
                << count << " elements of type " << static_cast<int>(type) << ", op "
                << static_cast<int>(op) << ", from " << from_at << " into " << into_at;
          }
}

TEST(Cuda, PeersReduceWaitsForTheSendersCopies) {
  NEEDS_CUDA();
  const auto sender = open_cuda(0, 0),
             receiver = open_cuda(1, 1);  // the same device if there is only one
  constexpr std::size_t count = 1 << 20;
  const auto ones = sender->allocate_pinned(4 * count), other = sender->allocate_pinned(4 * count);
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
  receiver->wait_for_copies();
  sender->wait_for_copies();
  EXPECT_EQ(result, std::vector<float>(count, 1.0f));
}

TEST(Cuda, RunHasExactSumsAndNamesTheDevices) {
  NEEDS_CUDA();
  const Result r = foreduce_says(
      "run --transport cuda --ranks 4 --algorithm ring,double-tree --sizes 4B,1MiB --iterations 3 "
      "--check --format json");
  ASSERT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, R"("wrong": 0.0)");
  EXPECT_SAYS_NOT(r.out, R"("wrong": null)");
  EXPECT_SAYS(r.out, cuda_here().devices.front());
}

// If libfabric has no CUDA, device data goes to the other process through pinned memory, as with
// --staged.
TEST(Cuda, SumsAreExactBetweenProcesses) {
  NEEDS_CUDA();
  NEEDS_OFI();
  for (const char* staged : {"", " --staged"}) {
    const Result r =
        foreduce_says(std::string("run --transport cuda --ranks 4 --per-process 2 --algorithm "
                                  "hierarchical,reduction-server --sizes 4B,3MiB "
                                  "--warmup 1 --iterations 3 --check --format json") +
                      staged);
    ASSERT_EQ(r.status, 0) << r.out;
    EXPECT_SAYS(r.out, R"("wrong": 0.0)");
    EXPECT_SAYS_NOT(r.out, R"("wrong": null)");
    EXPECT_SAYS(r.out, R"("to_network": ")");
  }
}

class CudaNccl : public testing::TestWithParam<Collective> {};
TEST_P(CudaNccl, IsInTheSameTable) {
  NEEDS_CUDA();
  if (!has_baseline("nccl")) GTEST_SKIP() << "this build has no NCCL";
  const Result r = foreduce_says(fmt::format(  // NCCL needs a GPU for each rank
      "run --transport cuda --ranks {} --collective {} --algorithm {},nccl --sizes 64B,1MiB "
      "--warmup 1 --iterations 3 --check --format json",
      cuda_here().devices.size(), name_of(GetParam()),
      GetParam() == Collective::all_to_all ? "pairwise" : "ring"));
  ASSERT_EQ(r.status, 0) << r.out;
  const auto report = nlohmann::json::parse(r.out);
  EXPECT_TRUE(report["environment"]["baselines"]["nccl"].get<std::string>().starts_with("NCCL 2."))
      << r.out;
  int rows = 0;
  for (const auto& row : report["rows"]) {
    const bool nccl = row["algorithm"] == "nccl";
    rows += nccl;
    EXPECT_EQ(row["out_of_place"]["wrong"], 0) << row;
    // As in nccl-tests, an alltoall of sends and receives has no result in place.
    if (nccl && GetParam() == Collective::all_to_all)
      EXPECT_TRUE(row["in_place"]["wrong"].is_null()) << row;
    else EXPECT_EQ(row["in_place"]["wrong"], 0) << row;
  }
  EXPECT_EQ(rows, 2);
}
INSTANTIATE_TEST_SUITE_P(Of, CudaNccl, testing::ValuesIn(kCollectives),
                         [](const auto& of) { return std::string(name_of(of.param)); });

TEST(Cuda, ReplaysATrainingStep) {
  NEEDS_CUDA();
  const Result r = foreduce_says(
      "run --transport cuda --ranks 2 --workload resnet50 --iterations 2 --format json");
  ASSERT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, R"("exposed_s")");
}

class CudaSums : public testing::TestWithParam<const Algorithm*> {};
TEST_P(CudaSums, AreTheBitsOfHostMemory) {
  NEEDS_CUDA();
  expect_same_as_threads(*GetParam(), [](int rank) { return open_cuda(rank, rank); },
                         {1, 1002, 40001});
}
INSTANTIATE_TEST_SUITE_P(devices, CudaSums, testing::ValuesIn(all_algorithms()),
                         [](const auto& algorithm_of) { return identifier(*algorithm_of.param); });

}  // namespace
}  // namespace foreduce
