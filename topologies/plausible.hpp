// Values of a machine that no hardware has: a slip of a unit, or a what-if.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/machine.hpp"

namespace foreduce {

/// What a value is of, by which it is known what is usual.
enum class ValueOf : std::uint8_t { nic_bandwidth, nvlink_bandwidth, pcie_bandwidth, latency };

/// The most that hardware has in 2026, one direction: of a card's port (ConnectX-9), of all
/// NVLinks of a GPU (Rubin's sixth generation has 1.8 TB/s), and of 16 lanes (PCIe 6.0).
inline constexpr BytesPerSecond kFastestPort{200e9}, kFastestNvLinks{2e12}, kFastestPcie{126e9};
/// Between which latencies of links and networks lie.
inline constexpr Seconds kLeastLatency{10e-9}, kMostLatency{1e-3};

/// A value that is beyond what is usual.
struct ImplausibleValue {
  std::string key;  ///< "nic.bandwidth"
  ValueOf of = ValueOf::latency;
  double value = 0;  ///< bytes a second of a card, a GPU or a link; or seconds
};

/// Those of a machine. A latency of 0 leaves latency out on purpose, and is none.
std::vector<ImplausibleValue> implausible_values(const Machine& machine);

}  // namespace foreduce
