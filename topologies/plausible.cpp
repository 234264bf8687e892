#include "topologies/plausible.hpp"

namespace foreduce {

std::vector<ImplausibleValue> implausible_values(const Machine& m) {
  std::vector<ImplausibleValue> all;
  const auto rate = [&](const char* key, ValueOf of, BytesPerSecond value, BytesPerSecond most) {
    if (value > most) all.push_back({key, of, value.value});
  };
  const auto latency = [&](const char* key, Seconds value) {
    if (value > kMostLatency || (value.value > 0 && value < kLeastLatency))
      all.push_back({key, ValueOf::latency, value.value});
  };
  rate("nic.bandwidth", ValueOf::nic_bandwidth, m.nic.bandwidth, kFastestPort);
  latency("nic.latency", m.nic.latency);
  if (m.nvlink) {
    rate("nvlink.bandwidth", ValueOf::nvlink_bandwidth, m.nvlink->bandwidth * m.nvlink->links,
         kFastestNvLinks);
    latency("nvlink.latency", m.nvlink->latency);
  }
  if (m.pcie) {
    rate("pcie.bandwidth", ValueOf::pcie_bandwidth, m.pcie->bandwidth, kFastestPcie);
    latency("pcie.latency", m.pcie->latency);
  }
  return all;
}

}  // namespace foreduce
