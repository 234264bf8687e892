#include "scenarios/report/machine_words.hpp"

#include <fmt/format.h>

#include "input/units.hpp"

namespace foreduce {
namespace {

constexpr double kBitsOfByte = 8;

/// As cards are sold: "3.2 Tb/s".
std::string bits_words(BytesPerSecond rate) {
  const double gigabits = rate.value * kBitsOfByte / 1e9;
  return gigabits < 1000 ? fmt::format("{:.4g} Gb/s", gigabits)
                         : fmt::format("{:.4g} Tb/s", gigabits / 1000);
}

}  // namespace

std::string implausible_words(const ImplausibleValue& v) {
  const BytesPerSecond rate{v.value};
  switch (v.of) {
    case ValueOf::nic_bandwidth: {
      const BytesPerSecond in_bits{v.value / kBitsOfByte};  // the number, with bits for bytes
      return fmt::format(
          "{}: {} is {} a card; cards have up to {}{}", v.key, to_text(rate), bits_words(rate),
          bits_words(kFastestPort),
          in_bits <= kFastestPort ? fmt::format("; did you mean {}?", bits_words(in_bits)) : "");
    }
    case ValueOf::nvlink_bandwidth:
      return fmt::format(
          "{}: all links of a GPU together are {}; GPUs have up to {} in one direction; this key "
          "is of one link",
          v.key, to_text(rate), to_text(kFastestNvLinks));
    case ValueOf::pcie_bandwidth:
      return fmt::format(
          "{}: {} is more than 16 lanes of PCIe 6.0 have, {}; of PCIe 5.0 and 4.0 it is 63 and "
          "31.5 GB/s",
          v.key, to_text(rate), to_text(kFastestPcie));
    case ValueOf::latency: break;
  }
  return fmt::format("{}: {} is {} than any link or network takes, {} to {}", v.key,
                     to_text(Seconds{v.value}), Seconds{v.value} < kLeastLatency ? "less" : "more",
                     to_text(kLeastLatency), to_text(kMostLatency));
}

}  // namespace foreduce
