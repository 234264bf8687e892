// What check says of tables of which rows cannot be read, and of machines that it does not know.
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

TEST(CheckRows, UnreadOnesLeaveNothingKnownBeyondTheOthers) {
  const TemporaryFolder folder;
  const std::string as = " --instance p5.48xlarge --nodes 2 --against model";
  const std::string heading = "size,time,algbw,busbw\n", row = "8388608,204.8,40.96,76.80\n";
  const Result sound = foreduce_says("check " + folder.write("a.csv", heading + row).string() + as);
  EXPECT_EQ(sound.status, 0) << sound.out;
  EXPECT_SAYS(sound.out, "Normal: 1 of 1");
  const Result unread = foreduce_says(
      "check " + folder.write("b.csv", heading + row + "16777216,x,y,z\n").string() + as);
  EXPECT_EQ(unread.status, 1);
  EXPECT_SAYS(unread.out,
              "Cannot tell: 1 row cannot be read, so that nothing is known beyond 8 MiB");
}

TEST(CheckRows, AnUnknownMachineStillGetsWhatTheLogSays) {
  const TemporaryFolder folder;
  const std::string log =
      "#  Rank  0 Group  0 Pid 41 on a device  0 [0x53] NVIDIA A100-PCIE-40GB\n"
      "#  Rank  1 Group  0 Pid 42 on a device  1 [0x64] NVIDIA A100-PCIE-40GB\n"
      "a:41:41 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n"
      "a:41:41 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
      "    16777216       4194304     float     sum      -1    150.0  111.85  111.85      0    "
      "149.0"
      "  112.60  112.60      0\n";
  const Result r = foreduce_says("check " + folder.write("l.txt", log).string());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "the log says: GPUs of a host exchange through its memory (SHM)");
  EXPECT_SAYS(r.out, "NCCL_P2P_DISABLE=1");
}

}  // namespace
}  // namespace foreduce
