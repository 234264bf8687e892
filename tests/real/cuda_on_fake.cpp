// What a real GPU does not do on command: illegal accesses and full memory, on the CUDA of
// tests/fake_cuda.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "real/cuda_device.hpp"
#include "tests/real/device_support.hpp"
#include "tests/real/real_support.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

std::unique_ptr<RankDevice> cuda_of(int rank) { return open_cuda(rank, rank); }

TEST(CudaBroken, IllegalAccessEndsAllRanksAndIsNamed) {
  for (const char* how : {"--ranks 4", "--ranks 4 --per-process 2"}) {
    const Result r =
        shell(fmt::format("FOREDUCE_FAKE_CUDA_LAUNCHES=40 timeout 60 {} run --transport cuda {} "
                          "--algorithm ring --sizes "
                          "1MiB --timeout 20",
                          FOREDUCE_PROGRAM, how));
    EXPECT_EQ(r.status, 1) << r.out;
    EXPECT_SAYS(r.out, "(a stand-in for a GPU): ");
    EXPECT_SAYS(r.out, "an illegal memory access was encountered (cudaErrorIllegalAddress)");
    EXPECT_LT(r.seconds, 15) << r.out;
  }
}

// Bytes are on the path between devices and network here. Every process ends by itself (status 4),
// none by a signal. TCP cannot send from a real GPU's memory.
TEST(CudaBroken, IllegalAccessEndsProcessesWithGpuDirect) {
  NEEDS_OFI();
  ::setenv("FOREDUCE_FAKE_CUDA_LAUNCHES", "12", 1);
  OfiOptions network;
  network.devices = DeviceKind::system;
  for (const bool registers : {false, true}) {
    network.register_always = registers;
    EXPECT_EQ(status_of(3, 1, {{find_algorithm("ring"), 6'000'000}}, network, cuda_of), 4);
  }
}

/// Runs three processes of two ranks with GPUDirect. Device memory is limited to `memory` bytes
/// for each process.
int status_with_gpudirect(const std::vector<const char*>& algorithms, OfiOptions network,
                          std::size_t count, const char* memory, const char* path = "FI_HMEM") {
  ::setenv("FOREDUCE_FAKE_CUDA_MEMORY", memory, 1);
  network.devices = DeviceKind::system;
  network.register_always = true;
  std::vector<DeviceTrial> trials;
  for (const char* name : algorithms) trials.push_back({find_algorithm(name), count});
  return status_of(3, 2, trials, network, cuda_of, path);
}

TEST(CudaNet, SumsAreExactWithGpuDirectAlsoIfDevicesAreFull) {
  NEEDS_OFI();
  EXPECT_EQ(status_with_gpudirect({"ring", "direct", "hierarchical", "reduction-server"},
                                  {.address = {}}, 1'500'000, "1000000000"),
            0);
  const std::vector<const char*> two{"ring", "reduction-server"};
  // Only one of the process's two ranks has room for 16 MiB of bounce buffers and a reserve.
  EXPECT_EQ(status_with_gpudirect(two, {.address = {}}, 300'000, "40000000", "FI_HMEM in part"), 0);
  // Both have room, but so many segments at a time need more, which comes from host memory.
  OfiOptions many;
  many.segment_bytes = 16 * 1024;
  many.posted_receives = 64;
  EXPECT_EQ(status_with_gpudirect(two, many, 1'500'000, "1000000000"), 0);
  EXPECT_EQ(status_with_gpudirect(two, many, 1'500'000, "64000000"), 0);
}

}  // namespace
}  // namespace foreduce
