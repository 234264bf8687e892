// Profiles of a library and a GPU over any fabric.
#include <gtest/gtest.h>

#include "models/nccl_schedule.hpp"
#include "models/rank_layout.hpp"
#include "models/uncertainty.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/files.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/profiles.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

TEST(Fabric, IsWhatTheCardsSpeak) {
  EXPECT_EQ(ec2("p4d.24xlarge")->fabric(), Fabric::efa);
  EXPECT_EQ(ec2("p3dn.24xlarge")->fabric(), Fabric::efa_host);
  EXPECT_EQ(ec2("p3.16xlarge")->fabric(), Fabric::tcp);
  EXPECT_EQ(over_ena(*ec2("p5.48xlarge")).fabric(), Fabric::tcp);
  EXPECT_EQ(wide_machine(8, 8)->fabric(), Fabric::rdma);  // its cards read GPU memory
  EXPECT_EQ(elsewhere("bm.gpu4.8.yaml")->fabric(), Fabric::rdma);
}

TEST(Fabric, ReplacesEfaOfTheMachineThatAnotherIsLike) {
  const TemporaryFolder folder;
  const Machine m =
      load_machine(folder.write("ours.yaml", "like: p5.48xlarge\nnic: { fabric: infiniband }\n"));
  EXPECT_EQ(m.fabric(), Fabric::rdma);
  EXPECT_EQ(m.nic.efa, 0);
  EXPECT_EQ(m.nic.message_overhead.value, 0);
  EXPECT_EQ(m.nic.latency.value, 5e-6);  // not EFA's
  EXPECT_EQ(load_machine(folder.write("late.yaml",
                                      "like: p5.48xlarge\nnic: { fabric: roce, "
                                      "latency: 9 us }\n"))
                .nic.latency.value,
            9e-6);
  EXPECT_EQ(Profiles().nearest_to(m).name, "nccl-h100+rdma");
  EXPECT_SAYS(
      error_of([&] {
        load_machine(folder.write("bad.yaml", "like: p5.48xlarge\nnic: { fabric: infinband }\n"));
      }),
      "infiniband");
}

// A planner may ask for any of them, and gets more than the data sheet.
TEST(Fabric, EveryInstanceTypeWithGpusHasAProfileOfItsOwnFabric) {
  const Profiles profiles;
  const Catalogue catalogue;
  for (const std::string& name : catalogue.names()) {
    const Machine machine = catalogue.load(name);
    if (!machine.gpu) continue;
    const Profile profile = profiles.nearest_to(machine);
    EXPECT_EQ(profile.fabric, machine.fabric()) << name << " has " << profile.name;
    EXPECT_FALSE(profile.protocols.empty()) << name << " has " << profile.name;
  }
}

TEST(Fabric, SaysWhatAMessageCostsBetweenNodesAndNothingElse) {
  const Profiles profiles;
  const Profile gpu = profiles.load("nccl-h100"), fabric = profiles.load_fabric("tcp"),
                both = profiles.load("nccl-h100+tcp");
  EXPECT_EQ(both.name, "nccl-h100+tcp");
  EXPECT_EQ(both.launch->value.value, gpu.launch->value.value);
  EXPECT_EQ(both.channels->value, gpu.channels->value);
  EXPECT_EQ(both.of(PathClass::nvlink).latency->value.value,
            gpu.of(PathClass::nvlink).latency->value.value);
  EXPECT_EQ(both.of(PathClass::network).proxy_rate->value.value,
            fabric.of(PathClass::network).proxy_rate->value.value);
  EXPECT_FALSE(both.of(PathClass::network).latency);  // the machine's own
  ASSERT_EQ(both.protocols.size(), gpu.protocols.size());
  EXPECT_EQ(both.protocol("Simple")->net_hop->value.value,
            fabric.protocol("Simple")->net_hop->value.value);
  ASSERT_TRUE(gpu.protocol("Simple")->net_hop_whole_from);  // EFA's, not that of sockets
  EXPECT_FALSE(both.protocol("Simple")->net_hop_whole_from);
  EXPECT_EQ(both.protocol("Simple")->hop->value.value, gpu.protocol("Simple")->hop->value.value);
  EXPECT_EQ(both.protocol("LL128")->gap, std::nullopt);
  EXPECT_TRUE(both.protocol("LL128")->one_node);  // sockets have none
  EXPECT_FALSE(both.protocol("LL")->one_node);
}

TEST(Fabric, UnknownOnesNameTheNearest) {
  const Profiles profiles;
  EXPECT_SAYS(error_of([&] { profiles.load("nccl-h100+rmda"); }), "rdma");
  EXPECT_SAYS(error_of([&] { profiles.load("nccl-h10+rdma"); }), "nccl-h100");
}

/// What NCCL does with 64 MiB on four nodes.
NcclChoice choice_on(const std::shared_ptr<const Machine>& machine) {
  const Cluster cluster = cluster_of(machine, 4);
  return nccl_choice({cluster, rank_layout(cluster),
                      std::make_shared<const Profile>(Profiles().nearest_to(*machine))},
                     Bytes{64 << 20});
}

TEST(Fabric, AwsTunerChoosesOnlyOverEfa) {
  EXPECT_SAYS(choice_on(ec2("p5.48xlarge")).why, "tuner");
  EXPECT_SAYS(choice_on(elsewhere("hgx-h100-ib.yaml")).why, "cost model");
}

// Two nodes are fewer than any but one: what was compared on one node holds for all fabrics.
TEST(Fabric, IntervalsKnowWhichNodesTheirFabricWasComparedOn) {
  const Profile profile = Profiles().load("nccl-h100+rdma");
  const auto reasons = [&](int nodes) {
    return uncertainty(profile, "p5.48xlarge", nodes, 8, Bytes{64 << 20}, "H100").reasons;
  };
  EXPECT_TRUE(reasons(1).empty());
  EXPECT_TRUE(reasons(2).empty());
  EXPECT_FALSE(reasons(8).empty());  // on EFA eight were
  EXPECT_FALSE(reasons(64).empty());
  EXPECT_FALSE(
      uncertainty(Profiles().load("nccl-h100+tcp"), "p5.48xlarge", 2, 8, Bytes{64 << 20}, "H100")
          .reasons.empty());
}

TEST(Fabric, EachThatAMachineCanHaveIsThere) {
  const Profiles profiles;
  for (const char* name : {"efa", "efa-host", "rdma", "tcp"})
    EXPECT_EQ(profiles.load_fabric(name).fabric, value_named<Fabric>(name));
  Machine own = *ec2("g6e.12xlarge");
  own.nic.gpudirect = true;
  EXPECT_EQ(profiles.nearest_to(own).name, "nccl-pcie+efa");
}

// They had no profile, and NCCL was an error on them.
TEST(Fabric, AnUnknownGpuHasTheProfileOfTheNearest) {
  const Profiles profiles;
  const auto name_with = [&](const std::string& like, const char* model, double links) {
    Machine m = *ec2(like);
    m.name = "mine";
    m.gpu->model = model;
    if (m.nvlink) m.nvlink->bandwidth = m.nvlink->bandwidth * links;
    return profiles.nearest_to(m).name;
  };
  EXPECT_EQ(name_with("p6-b200.48xlarge", "R100-SXM", 1.1), "nccl-b200");
  EXPECT_EQ(name_with("p5.48xlarge", "GH200", 1), "nccl-h100");
  EXPECT_EQ(name_with("p4d.24xlarge", "A800", 0.67), "nccl-a100");
  EXPECT_EQ(name_with("p3dn.24xlarge", "P100", 0.5), "nccl-v100");
  EXPECT_EQ(name_with("g6e.12xlarge", "RTX-PRO-6000", 1), "nccl-pcie+efa-host");
  EXPECT_EQ(profiles.nearest_to(*flat_machine()).name, "ideal");  // the textbook's
  // One GPU has no NVLink to tell its kind by, but memory as fast as an H200's.
  const Machine one = machine_named("gh200-4-ndr200").with_gpus(1);
  EXPECT_EQ(profiles.nearest_to(one).name, "nccl-h100+rdma");
}

}  // namespace
}  // namespace foreduce
