// Machines and clusters that several tests use.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "algorithms/core/registry.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {
/// How GoogleTest shows an algorithm.
inline void PrintTo(const Algorithm* algorithm, std::ostream* out) { *out << algorithm->name; }
}  // namespace foreduce

namespace foreduce::test {

/// A flat network in base units: one GPU per node, one port each.
struct Flat {
  double bandwidth = 12.5e9, latency = 5e-6, reduce_bandwidth = 300e9;
};

inline std::shared_ptr<const Machine> flat_machine(const Flat& f = {}) {
  return std::make_shared<Machine>(Machine::flat(BytesPerSecond{f.bandwidth}, Seconds{f.latency},
                                                 BytesPerSecond{f.reduce_bandwidth}));
}

/// A node with `gpus` GPUs around an NVSwitch and `nics` NICs on as many PCIe switches.
inline std::shared_ptr<const Machine> wide_machine(int gpus, int nics,
                                                   double nic_bandwidth = 12.5e9) {
  Machine m;
  m.name = "wide";
  m.gpu.emplace();
  m.gpu->model = "g";
  m.gpu->count = gpus;
  m.gpu->reduce_bandwidth = BytesPerSecond{300e9};
  m.nvlink.emplace();
  m.nvlink->links = 1;
  m.nvlink->bandwidth = BytesPerSecond{100e9};
  m.nvlink->latency = Seconds{2e-6};
  m.nvlink->multicast = true;
  m.host.emplace();
  m.host->memory_bandwidth = BytesPerSecond{100e9};
  m.host->reduce_bandwidth = BytesPerSecond{40e9};
  m.pcie.emplace();
  m.pcie->bandwidth = BytesPerSecond{24e9};
  m.pcie->latency = Seconds{1e-6};
  for (int n = 0; n < nics; ++n) {
    PcieSwitch s;
    for (int g = n * gpus / nics; g < (n + 1) * gpus / nics; ++g) s.gpus.push_back(g);
    s.nics = {n};
    m.pcie->switches.push_back(s);
  }
  m.nic.count = nics;
  m.nic.bandwidth = BytesPerSecond{nic_bandwidth};
  m.nic.latency = Seconds{10e-6};
  m.nic.gpudirect = true;
  return std::make_shared<Machine>(m);
}

/// An instance type of the EC2 catalogue.
inline std::shared_ptr<const Machine> ec2(const std::string& name) {
  return std::make_shared<Machine>(Catalogue().load(name));
}

/// A machine that ships with the project but is not in the catalogue.
inline std::shared_ptr<const Machine> elsewhere(const std::string& file) {
  return std::make_shared<Machine>(load_machine(data_folder() / "topologies" / "elsewhere" / file));
}

/// The servers that `algorithm` needs: on the workers' hosts, or none.
inline ServerSpec servers_for(const Algorithm& algorithm) {
  ServerSpec servers;
  servers.co_located = algorithm.uses_servers;
  return servers;
}

inline Cluster cluster_of(std::shared_ptr<const Machine> machine, int nodes,
                          const ServerSpec& servers = {}, const FabricSpec& fabric = {}) {
  const std::vector<std::shared_ptr<const Machine>> machines(static_cast<std::size_t>(nodes),
                                                             std::move(machine));
  return Cluster(machines, fabric, servers);
}

/// "halving-doubling" as part of a test's name.
inline std::string identifier(std::string_view name) {
  std::string text(name);
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}
/// The same of an algorithm, with its collective where that is no all-reduce.
inline std::string identifier(const Algorithm& algorithm) {
  const std::string name = identifier(algorithm.name);
  return algorithm.collective == Collective::all_reduce
             ? name
             : name + "_" + std::string(name_of(algorithm.collective));
}

}  // namespace foreduce::test
