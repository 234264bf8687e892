// A PCIe link that came up narrower than it should: what it costs, and whether check suspects it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// Nodes of which the last has such a link; "" for none.
std::string scenario(const std::string& instance, int nodes, const std::string& device) {
  return fmt::format(
      R"(name: x
messages: {{ sizes: '256KiB:4GiB:x4' }}
allreduce: {{ algorithm: nccl }}
cluster:
  mixed:
    - {{ instance: {0}, nodes: {1} }}
    - {{ instance: {0}, nodes: 1{2} }}
)",
      instance, nodes - 1,
      device.empty() ? "" : fmt::format(", slow_links: [{{ device: {}, share: 50 % }}]", device));
}

// Channels carry equal parts of a ring's data, so the slowest link decides; with half of its
// bandwidth it takes twice as long, whoever's link it is: nearly, for the slowest of a healthy one
// is the network, which is 1 % slower than PCIe.
TEST(SlowLink, HalvesARingsBandwidth) {
  const TemporaryFolder folder;
  const auto largest = [&](const std::string& device) {
    const auto file = folder.write("s.yaml", scenario("p4d.24xlarge", 4, device));
    const nlohmann::json points = json_of("compare " + file.string())["points"];
    return points.back();
  };
  const nlohmann::json healthy = largest("");
  for (const char* device : {"gpu0", "gpu3", "nic2"}) {
    const nlohmann::json slow = largest(device);
    EXPECT_EQ(slow["chosen"], "ring Simple");
    EXPECT_NEAR(slow["time_us"].get<double>() / healthy["time_us"].get<double>(), 2, 0.02);
    EXPECT_SAYS(slow["bottleneck_link"].get<std::string>(), device);
  }
}

TEST(SlowLink, ThatNoMachineHasIsAnError) {
  const TemporaryFolder folder;
  const auto file = folder.write("s.yaml", scenario("p4d.24xlarge", 2, "gpu8"));
  const Result r = foreduce_says("compare " + file.string());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "error: cluster.mixed: p4d.24xlarge: there is no device 'gpu8': GPUs are");
  EXPECT_SAYS(r.out, "s.yaml:");
  folder.write("m.yaml",
               R"(machine: mine
like: p4d.24xlarge
pcie: { slow_links: [{ device: nic4, share: 0.5 }] }
)");
  const Result machine =
      foreduce_says("compare --instance " + (folder.path() / "m.yaml").string() + " --nodes 2");
  EXPECT_EQ(machine.status, 2);
  EXPECT_SAYS(machine.out, "m.yaml:3:");
  EXPECT_SAYS(machine.out, "there is no device 'nic4'");
}

// All NICs are there, so it is no missing rail.
TEST(SlowLink, IsSuspectedWhereTheLogShowsAllNics) {
  const TemporaryFolder folder;
  const auto file = folder.write("s.yaml", scenario("p5.48xlarge", 4, "gpu5"));
  const auto log = folder.write(
      "x.log", "a:1:1 [0] NCCL INFO NET/OFI Selected Provider is efa (found 32 nics)\n" +
                   foreduce_says("compare " + file.string() + " --format nccl-tests").out);
  const Result r = foreduce_says("check " + log.string() + " --instance p5.48xlarge --nodes 4");
  EXPECT_EQ(r.status, 1);
  EXPECT_SAYS(r.out, "Looks like: a PCIe link of a GPU or a NIC carries half of what it should");
  EXPECT_SAYS(r.out, "LnkSta");
}

}  // namespace
}  // namespace foreduce
