// What a dump of a machine says of it: NCCL's topology file, `nvidia-smi topo -m` or lspci.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "input/units.hpp"

namespace foreduce {

/// GPUs and NICs that reach each other without a processor: below one PCIe switch, or one alone.
struct DumpedGroup {
  int socket = 0;
  std::optional<BytesPerSecond> uplink;  ///< between the switch and its socket, if there is one
};

struct DumpedGpu {
  std::string id;      ///< PCI address, or "GPU0"
  std::string device;  ///< NVIDIA's PCI device id, "0x20b0"; empty: not said
  std::size_t group = 0;
  std::optional<BytesPerSecond> pcie;
  std::map<std::string, int> peers;  ///< NVLinks to other GPUs, by their id
  int switch_links = 0;              ///< NVLinks to switches
};

struct DumpedNic {
  std::string id;      ///< PCI address, or "NIC0"
  std::string device;  ///< vendor and device, "0x1d0f:0xefa0"; empty: not said
  std::size_t group = 0;
  std::optional<BytesPerSecond> pcie, bandwidth;
  std::optional<bool> gpudirect;
  std::string driver = {};  ///< what its driver calls it, "mlx5_0"; empty: not said
};

struct TopologyDump {
  std::string file;
  std::string kind;     ///< "NCCL's topology", "nvidia-smi topo -m", "lspci -vv", "lspci -tv"
  int sockets = 0;      ///< 0: not said, and neither are those of groups
  bool grouped = true;  ///< whether the groups are told; else all devices are in one
  std::string cpu;      ///< as its vendor numbers it; empty: not said
  std::vector<DumpedGroup> groups;
  std::vector<DumpedGpu> gpus;
  std::vector<DumpedNic> nics;
  std::vector<std::pair<std::string, std::size_t>> unknown;  ///< devices without a class: id, group
  /// Whether the dump was made on the machine, so that NVLinks it does not name do not exist.
  bool complete = false;
  std::vector<std::string> notes;  ///< what was simplified
};

/// A PCIe link as NCCL's topology names it: "16 GT/s" and lanes.
struct PcieLink {
  std::string speed;
  int width = 0;  ///< 0: no link of PCIe is meant
};
/// Its rate, one direction, as NCCL reckons (width x speed / 80 in topo.cc): 12 GB/s for 16 lanes
/// of 8 GT/s. None for a speed that PCIe does not have.
std::optional<BytesPerSecond> rate_of(const PcieLink& link);
/// The other way round, of 16, 8 or 4 lanes.
PcieLink pcie_link_of(BytesPerSecond rate);

/// Reads a dump of any kind. Throws InputError with file and line for what is neither, too large
/// or too deep, and for dumps of several hosts.
TopologyDump load_topology_dump(const std::filesystem::path& file);

/// The kind that the text looks like. `name` stands in messages.
TopologyDump parse_topology_dump(const std::string& name, const std::string& text);
/// One kind each.
TopologyDump parse_nccl_topology(const std::string& name, const std::string& text);
TopologyDump parse_smi_topology(const std::string& name, const std::string& text);
TopologyDump parse_lspci_topology(const std::string& name, const std::string& text);
/// Whether it begins like what lspci prints.
bool looks_like_lspci(const std::string& text);

}  // namespace foreduce
