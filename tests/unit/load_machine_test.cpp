// Machine files: what they need, what they may start from, and one clear error for each mistake.
#include <gtest/gtest.h>

#include <filesystem>

#include "input/files.hpp"
#include "models/compute.hpp"
#include "models/profile.hpp"
#include "models/workload.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/files.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;

std::string machine_error(const std::string& text) {
  const TemporaryFolder folder;
  return error_of([&] { load_machine(folder.write("machine.yaml", text)); });
}

const std::string kOneGpu = R"(instance: mine
gpu: { model: X, count: 1, reduce_bandwidth: 300 GB/s }
nic: { count: 1, bandwidth: 100 Gbps, latency: 5 us }
)";
const std::string kTwoGpus = R"(instance: mine
gpu: { model: X, count: 2, reduce_bandwidth: 300 GB/s }
nic: { count: 1, bandwidth: 100 Gbps, latency: 5 us }
)";

TEST(LoadMachine, ChecksKeys) {
  EXPECT_EQ(machine_error(kOneGpu), "(accepted)");
  EXPECT_SAYS(machine_error(kOneGpu + "color: red\n"), "color: there is no such key here");
}

TEST(LoadMachine, NeedsADevice) {
  EXPECT_SAYS(machine_error(R"(instance: x
nic: { count: 1, bandwidth: 1 Gbps, latency: 5 us }
)"),
              "has GPUs (gpu), or a CPU");
}

TEST(LoadMachine, ChecksNvLinkEdges) {
  const auto edges_error = [](const std::string& edges) {
    return machine_error(
        kTwoGpus + "nvlink: { kind: mesh, links: 2, bandwidth: 25 GB/s, latency: 1 us, edges: " +
        edges + " }\n");
  };
  EXPECT_SAYS(machine_error(kTwoGpus), "how are they connected?");
  EXPECT_EQ(edges_error("[[0, 1, 2]]"), "(accepted)");
  EXPECT_SAYS(edges_error("[[0, 1, 3]]"), "has more than 2 links");
  EXPECT_SAYS(edges_error("[[0, 2, 1]]"), "two different GPUs below 2");
  EXPECT_SAYS(edges_error("[[0, 1, 1], [1, 0, 1]]"), "is given twice");
}

TEST(LoadMachine, ChecksHostsOfAnNvLinkDomain) {
  const auto hosts_error = [](const std::string& hosts) {
    return machine_error(
        kTwoGpus + "nvlink: { kind: switch, links: 2, bandwidth: 25 GB/s, latency: 1 us, hosts: " +
        hosts + " }\n");
  };
  EXPECT_EQ(hosts_error("2"), "(accepted)");
  EXPECT_SAYS(hosts_error("3"), "3 hosts cannot have as many GPUs each");
  EXPECT_SAYS(hosts_error("[[0, 1, 2]]"), "hosts: expected");  // found by a fuzzer: a division by 0
}

TEST(LoadMachine, StartsFromAnother) {
  const TemporaryFolder folder;
  const auto mine = folder.write("mine.yaml", "like: p4d.24xlarge\nnic: { bandwidth: 200 Gbps }\n");
  const Machine m = load_machine(mine), p4d = Catalogue().load("p4d.24xlarge");
  EXPECT_EQ(m.name, "mine");
  EXPECT_EQ(m.type(), "p4d.24xlarge");
  EXPECT_EQ(m.nic.bandwidth.value, 2 * p4d.nic.bandwidth.value);
  EXPECT_EQ(m.nic.count, p4d.nic.count);
  EXPECT_EQ(m.pcie->switches.size(), p4d.pcie->switches.size());
  EXPECT_EQ(m.price->on_demand, p4d.price->on_demand);
  EXPECT_EQ(Profiles().nearest_to(m).name, "nccl-a100");
  // A copy that is not said to be like it has neither its profile nor its peers.
  EXPECT_EQ(error_of([&] {
              Cluster({std::make_shared<Machine>(m), std::make_shared<Machine>(p4d)}, {});
            }),
            "(accepted)");

  const auto grandchild = folder.write("more.yaml", "like: ./mine.yaml\ninstance: ours\n");
  EXPECT_EQ(load_machine(grandchild).type(), "p4d.24xlarge");
  EXPECT_EQ(load_machine(grandchild).name, "ours");
  EXPECT_EQ(load_machine(grandchild).bases.size(), 2u);
  // What the other's note says may be otherwise here.
  const auto noted = folder.write("noted.yaml", "like: p4d.24xlarge\nnote: cards of 5 us\n");
  for (const char* name : {"faster.yaml", "fastest.yaml"})
    EXPECT_EQ(load_machine(folder.write(name, name == std::string("faster.yaml")
                                                  ? "like: ./noted.yaml\n"
                                                  : "like: ./faster.yaml\n"))
                  .note,
              "of p4d.24xlarge: cards of 5 us");
  EXPECT_EQ(load_machine(noted).note, "cards of 5 us");

  const auto error = [&](const std::string& text) {
    return error_of([&] { load_machine(folder.write("bad.yaml", text)); });
  };
  EXPECT_SAYS(error("like: p4d.24xlarg\n"), "did you mean 'p4d.24xlarge'");
  EXPECT_SAYS(error("like: ./bad.yaml\n"), "this machine is like itself");
  EXPECT_SAYS(error("like: p3.16xlarge\nnic: { bandwith: 1 Gbps }\n"), "nic.bandwith");
  // A section that the base does not have must be whole.
  EXPECT_SAYS(error("like: c5n.18xlarge\ngpu: { model: mine }\n"),
              "gpu.count: this key is missing");
}

// "What if it had fewer?" is one line: the switches need not be written again.
TEST(LoadMachine, KeepsAsManyDevicesOfEachSwitchWhereItHasFewer) {
  const TemporaryFolder folder;
  const auto load = [&](const std::string& text) {
    return load_machine(folder.write("mine.yaml", "like: p5.48xlarge\n" + text));
  };
  const Machine eight = load("nic: { count: 8 }\n");
  for (std::size_t s = 0; s < 8; ++s)
    EXPECT_EQ(eight.pcie->switches[s].nics, std::vector{static_cast<int>(s)});
  const Machine eleven = load("nic: { count: 11 }\n");
  EXPECT_EQ(eleven.pcie->switches[0].nics, (std::vector{0, 1}));
  EXPECT_EQ(eleven.pcie->switches[7].nics, std::vector{10});
  const Machine four = load("gpu: { count: 4 }\n");
  EXPECT_EQ(four.gpus(), 4);
  EXPECT_TRUE(four.pcie->switches[7].gpus.empty());
  EXPECT_TRUE(eight.price.has_value());
  EXPECT_FALSE(four.price.has_value());  // which is that of eight
  try {
    load("nic: { count: 64 }\n");
    FAIL() << "no one says which switch 32 of them are below";
  } catch (const InputError& e) {
    EXPECT_SAYS(e.what(), "mine.yaml:2:15: error: nic.count: p5.48xlarge has 32");
    EXPECT_SAYS(e.what(), "pcie: { switches:");
  }
}

// A rate that an H100 was measured to have is none of a machine file's slower one.
TEST(LoadMachine, TakesAnotherPeakForAnotherGpu) {
  const TemporaryFolder folder;
  const auto gpu = [&](const std::string& text) {
    return *load_machine(folder.write("mine.yaml", "like: p5.48xlarge\n" + text)).gpu;
  };
  const Workload vgg = Workloads().load("vgg16"), llama = Workloads().load("llama3-8b");
  const auto time = [](const Workload& w, const Gpu& g) {
    return compute_time({w, g, Precision::fp16, w.variants.front().sample, 128});
  };
  const Gpu whole = gpu("nic: { bandwidth: 50 Gbps }\n"), half = gpu("gpu: { fp16: 400 TFLOPS }\n");
  EXPECT_TRUE(time(vgg, whole).measured);
  EXPECT_FALSE(time(vgg, half).measured);
  for (const Workload* w : {&vgg, &llama}) {
    EXPECT_GT(time(*w, half).forward_backward, 1.2 * time(*w, whole).forward_backward);
    EXPECT_LT(time(*w, half).forward_backward, 989.0 / 400 * time(*w, whole).forward_backward);
  }
  EXPECT_TRUE(time(vgg, gpu("gpu: { fp16: 989 TFLOPS, memory: 96 GiB }\n")).measured);
}

TEST(LoadMachine, TakesAPriceWithoutAMap) {
  const TemporaryFolder folder;
  const auto load = [&](const std::string& price) {
    return load_machine(
        folder.write("mine.yaml", "like: p5.48xlarge\ninstance: mine\n" + price + "\n"));
  };
  EXPECT_EQ(load("price: 10 USD/h").price->on_demand.value, 10);
  EXPECT_EQ(load("price: 10 USD/h").price->date, "") << "the date is of EC2's price";
  EXPECT_EQ(load("price: { on_demand: 10 USD/h }").price->on_demand.value, 10);
  EXPECT_SAYS(error_of([&] { load("price: 10"); }),
              "mine.yaml:3:8: error: price: '10' has no unit");
}

TEST(LoadMachine, PointsToTheWrongSwitch) {
  const std::string p4d = read_text(data_folder() / "topologies" / "ec2" / "p4d.24xlarge.yaml");
  const TemporaryFolder folder;
  const auto error = [&](const std::string& what, const std::string& instead) {
    std::string text = p4d;
    const auto at = text.find(what);
    text.replace(at, what.size(), instead);
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    const std::string said = error_of([&] { load_machine(folder.write("bad.yaml", text)); });
    EXPECT_SAYS(said, "bad.yaml:" + std::to_string(line) + ":");
    return said;
  };
  EXPECT_SAYS(error("socket: 1", "socket: 7"), "pcie.switches[2].socket: there is no socket 7");
  EXPECT_SAYS(error("socket: 1", "socket: 7"), "there are 0 to 1");
  EXPECT_SAYS(error("gpus: [2, 3]", "gpus: [2, 9]"), "pcie.switches[1].gpus[1]: there is no GPU 9");
  EXPECT_SAYS(error("gpus: [2, 3]", "gpus: [2, 0]"),
              "pcie.switches[1].gpus[1]: GPU 0 is below two");
}

// Each corrupted the heap.
TEST(LoadMachine, RefusesNegativeNumbersOfDevices) {
  const std::string p4d = read_text(data_folder() / "topologies" / "ec2" / "p4d.24xlarge.yaml");
  const TemporaryFolder folder;
  const auto error = [&](const std::string& what, const std::string& instead) {
    std::string text = p4d;
    text.replace(text.find(what), what.size(), instead);
    return error_of([&] { load_machine(folder.write("bad.yaml", text)); });
  };
  EXPECT_SAYS(error("nics: [0]", "nics: [-1]"), "'-1' is not accepted");
  EXPECT_SAYS(error("gpus: [0, 1]", "gpus: [0, -2000000000]"), "is not accepted");
  EXPECT_SAYS(error("kind: switch", "kind: mesh\n  edges: [[-5, 1, 2]]"), "is not accepted");
  EXPECT_SAYS(error("socket: 0", "socket: -7"), "is not accepted");
}

TEST(LoadMachine, CatalogueMustCiteSources) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("uncited.yaml", R"(instance: x
gpu: { model: X, count: 1, reduce_bandwidth: 300 GB/s }
nic: { count: 1, bandwidth: 100 Gbps @S2, latency: 5 us @S2 }
)");
  EXPECT_THROW(load_machine(file, Citing::required), InputError);
  EXPECT_NO_THROW(load_machine(file));
}

}  // namespace
}  // namespace foreduce
