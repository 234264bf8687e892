// A PCIe link that came up narrower than it should: what it costs, and whether check suspects it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"
#include "topologies/machine.hpp"

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

// A machine with fewer devices than the one that it is like was refused for links that it lacks.
TEST(SlowLink, IsLeftOutWithItsDevice) {
  const TemporaryFolder folder;
  folder.write("slow.yaml", R"(instance: slow
like: p4d.24xlarge
pcie: { slow_links: [{ device: gpu7, share: 50 % }, { device: gpu1, share: 50 % },
                     { device: nic3, share: 50 % }] }
)");
  folder.write("half.yaml",
               "instance: half\nlike: ./slow.yaml\ngpu: { count: 4 }\nnic: { count: 2 }\n");
  const Machine half = machine_named((folder.path() / "half.yaml").string());
  ASSERT_EQ(half.pcie->slow_links.size(), 1u);
  EXPECT_EQ(half.pcie->slow_links[0].device, "gpu1");
  // One NIC of each switch stays, and they are numbered anew.
  folder.write("few.yaml", R"(instance: few
like: p5.48xlarge
pcie: { slow_links: [{ device: nic4, share: 50 % }] }
)");
  const Machine one_each = machine_named((folder.path() / "few.yaml").string()).with_nics(8);
  ASSERT_EQ(one_each.pcie->slow_links.size(), 1u);
  EXPECT_EQ(one_each.pcie->slow_links[0].device, "nic1");
}

// A GPU's four NICs share its bytes evenly, so the slowest decides; half a PCIe link still carries
// all that a NIC of p5 has. It had no effect at any share.
TEST(SlowLink, HoldsUpAGpuWithFourNics) {
  const TemporaryFolder folder;
  const auto time = [&](const std::string& share) {
    return json_of("compare " + folder
                                    .write("s.yaml", fmt::format(R"(
cluster:
  mixed: [{{ instance: p5.48xlarge, nodes: 1 }},
          {{ instance: p5.48xlarge, nodes: 1, slow_links: [{{ device: nic0, share: {} }}] }}]
allreduce: {{ algorithm: ring }}
messages: {{ sizes: 1 GiB }}
)",
                                                                 share))
                                    .string())["points"][0]["time_us"]
        .get<double>();
  };
  EXPECT_NEAR(time("50 %") / time("100 %"), 1, 0.01);
  EXPECT_GT(time("10 %") / time("100 %"), 1.5);
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
