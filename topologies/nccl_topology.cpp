// Reads what NCCL writes to NCCL_TOPO_DUMP_FILE and reads from NCCL_TOPO_FILE (NVIDIA/nccl:
// src/graph/xml.cc names the elements, topo.cc what their attributes mean).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <pugixml.hpp>
#include <set>

#include "input/files.hpp"
#include "input/problem.hpp"
#include "topologies/topology_dump.hpp"

namespace foreduce {
namespace {

/// What each lane of PCIe is worth at a transfer rate, in NCCL's units of 100 Mb/s (kvDictPciGen in
/// topo.cc).
constexpr std::pair<const char*, double> kLanes[] = {{"2.5 GT/s", 15}, {"5 GT/s", 30},
                                                     {"8 GT/s", 60},   {"16 GT/s", 120},
                                                     {"32 GT/s", 240}, {"64 GT/s", 480}};
double link_rate(int width, double lane) { return width * lane / 80 * 1e9; }

constexpr int kDeepestPci = 32;
constexpr std::size_t kMostDevices = 1024;

class NcclTopology {
 public:
  NcclTopology(const std::string& name, const std::string& text) : text_(text) {
    dump_.file = name;
    dump_.kind = "NCCL's topology";
  }

  TopologyDump read() {
    pugi::xml_document document;
    const auto parsed =
        document.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!parsed)
      fail(static_cast<std::size_t>(parsed.offset),
           fmt::format("not XML: {}", parsed.description()));
    const pugi::xml_node system = document.child("system");
    if (!system)
      fail(0, "there is no <system>, which NCCL's topology begins with",
           "a file of NCCL_TOPO_DUMP_FILE, or the text of nvidia-smi topo -m or of lspci -vv");
    std::set<std::string> hosts;
    for (const pugi::xml_node cpu : system.children("cpu"))
      if (cpu.attribute("host_hash")) hosts.insert(cpu.attribute("host_hash").value());
    if (hosts.size() > 1)
      fail(static_cast<std::size_t>(system.offset_debug()),
           fmt::format("this is of {} hosts; one machine is read at a time", hosts.size()));
    for (const pugi::xml_node cpu : system.children("cpu")) read_cpu(cpu);
    if (dump_.gpus.empty() && dump_.unknown.empty())
      fail(static_cast<std::size_t>(system.offset_debug()), "there are no GPUs in it");
    number();
    return std::move(dump_);
  }

 private:
  [[noreturn]] void fail(std::size_t offset, std::string message, std::string hint = {}) const {
    const std::size_t end = std::min(offset, text_.size());
    const auto newline = end == 0 ? std::string::npos : text_.rfind('\n', end - 1);
    const auto lines =
        std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
    const std::size_t column = end - (newline == std::string::npos ? 0 : newline + 1);
    throw InputError(Problem{dump_.file, static_cast<int>(lines) + 1, static_cast<int>(column) + 1,
                             "", std::move(message), std::move(hint), ""});
  }
  [[noreturn]] void fail(const pugi::xml_node& at, std::string message) const {
    fail(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, at.offset_debug())),
         std::move(message));
  }

  /// A whole number of an attribute; -1 if it is not there.
  int whole(const pugi::xml_node& node, const char* attribute) const {
    const pugi::xml_attribute a = node.attribute(attribute);
    if (!a) return -1;
    double value = 0;
    std::string why;
    if (!parse_number(a.value(), value, why) || value != std::floor(value) || std::abs(value) > 1e9)
      fail(node, fmt::format("{}=\"{}\" is not a whole number", attribute,
                             std::string(a.value()).substr(0, 40)));
    return static_cast<int>(value);
  }

  std::optional<BytesPerSecond> pcie(const pugi::xml_node& pci) const {
    if (!pci.attribute("link_speed") || !pci.attribute("link_width")) return std::nullopt;
    const int width = whole(pci, "link_width");
    // A width of 0 is what virtual machines report; NCCL takes 16 lanes then.
    return rate_of({pci.attribute("link_speed").value(), width == 0 ? 16 : width});
  }

  void read_cpu(const pugi::xml_node& cpu) {
    const int socket = dump_.sockets++;
    if (dump_.cpu.empty() && cpu.attribute("vendor"))
      dump_.cpu = fmt::format("{} family {} model {}", cpu.attribute("vendor").value(),
                              cpu.attribute("familyid").value(), cpu.attribute("modelid").value());
    for (const pugi::xml_node child : cpu.children()) {
      const std::string name = child.name();
      if (name != "pci" && name != "nic") continue;
      dump_.groups.push_back({socket, std::nullopt});
      const std::size_t group = dump_.groups.size() - 1;
      if (name == "nic") read_nic(child, "", "", std::nullopt, group);
      else read_pci(child, group, 0);
    }
  }

  void read_pci(const pugi::xml_node& pci, std::size_t group, int depth) {
    if (depth > kDeepestPci) fail(pci, fmt::format("more than {} switches deep", kDeepestPci));
    if (dump_.gpus.size() + dump_.nics.size() + dump_.unknown.size() > kMostDevices)
      fail(pci, fmt::format("more than {} devices", kMostDevices));
    const std::string id = pci.attribute("busid").value(), kind = pci.attribute("class").value(),
                      vendor = pci.attribute("vendor").value(),
                      device = pci.attribute("device").value();
    if (id.empty()) fail(pci, "a <pci> has no busid");
    if (pci.child("gpu") || kind.starts_with("0x03")) {
      read_gpu(pci, id, device, group);
    } else if (const pugi::xml_node nic = pci.child("nic"); nic) {
      read_nic(nic, id, vendor + ":" + device, pcie(pci), group);
    } else if (kind.starts_with("0x02")) {
      dump_.nics.push_back(
          {id, vendor + ":" + device, group, pcie(pci), std::nullopt, std::nullopt});
    } else if (pci.child("pci")) {
      if (depth == 0) dump_.groups[group].uplink = pcie(pci);
      else nested_ = true;
      for (const pugi::xml_node below : pci.children("pci")) read_pci(below, group, depth + 1);
    } else if (kind.empty()) {
      dump_.unknown.emplace_back(id, group);
    }  // else a switch that nothing hangs on, or a disk
  }

  void read_gpu(const pugi::xml_node& pci, const std::string& id, const std::string& device,
                std::size_t group) {
    DumpedGpu gpu{id, device, group, pcie(pci), {}, 0};
    const pugi::xml_node details = pci.child("gpu");
    gpu_order_.push_back(details ? whole(details, "dev") : -1);
    dump_.complete = dump_.complete || details;
    for (const pugi::xml_node link : details.children("nvlink")) {
      const int count = whole(link, "count");
      if (count < 1 || count > 64) fail(link, "count of an <nvlink> must be from 1 to 64");
      const std::string kind = link.attribute("tclass").value();
      if (kind.starts_with("0x0680")) gpu.switch_links += count;
      else gpu.peers[link.attribute("target").value()] += count;
    }
    dump_.gpus.push_back(std::move(gpu));
  }

  void read_nic(const pugi::xml_node& nic, const std::string& id, const std::string& device,
                std::optional<BytesPerSecond> link, std::size_t group) {
    for (const pugi::xml_node net : nic.children("net")) {
      if (whole(net, "coll") > 0) continue;  // the same card again, for in-network reduction
      const std::string name = net.attribute("name").value();
      DumpedNic card{id.empty() ? name : id, device, group, link, std::nullopt, std::nullopt, name};
      if (const int speed = whole(net, "speed"); speed > 0)
        card.bandwidth = BytesPerSecond{speed * 1e6 / 8};  // Mb/s
      if (const int gdr = whole(net, "gdr"); gdr >= 0) card.gpudirect = gdr > 0;
      dump_.nics.push_back(std::move(card));
    }
  }

  /// GPUs in the order of their numbers, where all have one.
  void number() {
    if (nested_)
      dump_.notes.emplace_back("PCIe switches below others are taken together with them.");
    std::vector<int> sorted = gpu_order_;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i)
      if (sorted[i] != static_cast<int>(i)) return;
    std::vector<DumpedGpu> gpus(dump_.gpus.size());
    for (std::size_t i = 0; i < gpus.size(); ++i)
      gpus[static_cast<std::size_t>(gpu_order_[i])] = dump_.gpus[i];
    dump_.gpus = std::move(gpus);
  }

  const std::string& text_;
  TopologyDump dump_;
  std::vector<int> gpu_order_;
  bool nested_ = false;
};

}  // namespace

std::optional<BytesPerSecond> rate_of(const PcieLink& link) {
  std::string speed = link.speed.substr(0, link.speed.find(" PCIe"));
  if (const auto zero = speed.find(".0 "); zero != std::string::npos) speed.erase(zero, 2);
  for (const auto& [name, lane] : kLanes)
    if (speed == name && link.width > 0 && link.width <= 64)
      return BytesPerSecond{link_rate(link.width, lane)};
  return std::nullopt;
}

PcieLink pcie_link_of(BytesPerSecond rate) {
  for (const int width : {16, 8, 4})
    for (const auto& [name, lane] : kLanes)
      if (link_rate(width, lane) == rate.value) return {name, width};
  return {};
}

TopologyDump parse_nccl_topology(const std::string& name, const std::string& text) {
  return NcclTopology(name, text).read();
}

TopologyDump load_topology_dump(const std::filesystem::path& file) {
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  const std::string text = read_text(file, kMostBytes);
  return parse_topology_dump(file.string(), text);
}

TopologyDump parse_topology_dump(const std::string& name, const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string::npos) throw file_error(name, "the file is empty");
  if (text[first] == '<') return parse_nccl_topology(name, text);
  return looks_like_lspci(text) ? parse_lspci_topology(name, text) : parse_smi_topology(name, text);
}

}  // namespace foreduce
