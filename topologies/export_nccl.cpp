#include "topologies/export_nccl.hpp"

#include <fmt/format.h>

#include <pugixml.hpp>
#include <sstream>

#include "topologies/pci_ids.hpp"
#include "topologies/topology_dump.hpp"

namespace foreduce {
namespace {

constexpr const char* kSwitchClass = "0x060400";
constexpr const char* kGpuClass = "0x030200";
constexpr const char* kNetworkClass = "0x020000";
constexpr const char* kNvSwitchClass = "0x068000";

/// An address of the right form: its bus is the PCIe switch, its device the place below it.
std::string address(std::size_t of_switch, std::size_t place) {
  return fmt::format("0000:{:02x}:{:02x}.0", 0x10 + of_switch, place);
}

class NcclFile {
 public:
  explicit NcclFile(const Machine& machine) : machine_(machine) {
    gpu_ids_.resize(static_cast<std::size_t>(machine.gpus()));
    for (std::size_t s = 0; s < machine.pcie->switches.size(); ++s)
      for (std::size_t i = 0; i < machine.pcie->switches[s].gpus.size(); ++i)
        gpu_ids_[static_cast<std::size_t>(machine.pcie->switches[s].gpus[i])] = address(s, i);
  }

  std::string text() {
    pugi::xml_node system = document_.append_child("system");
    system.append_attribute("version") = "1";
    for (int socket = 0; socket < machine_.host->sockets; ++socket) {
      pugi::xml_node cpu = system.append_child("cpu");
      cpu.append_attribute("numaid") = socket;
      for (std::size_t s = 0; s < machine_.pcie->switches.size(); ++s)
        if (machine_.pcie->switches[s].socket == socket) add_switch(cpu, s);
    }
    std::ostringstream out;
    out.exceptions(std::ios::badbit);  // else it swallows that memory ended
    document_.save(out, "  ", pugi::format_default, pugi::encoding_utf8);
    return out.str();
  }

 private:
  static pugi::xml_node add_pci(pugi::xml_node& parent, const std::string& id, const char* kind,
                                BytesPerSecond rate) {
    pugi::xml_node pci = parent.append_child("pci");
    pci.append_attribute("busid") = id.c_str();
    pci.append_attribute("class") = kind;
    if (const PcieLink link = pcie_link_of(rate); link.width > 0) {
      pci.append_attribute("link_speed") = link.speed.c_str();
      pci.append_attribute("link_width") = link.width;
    }
    return pci;
  }
  static void add_device(pugi::xml_node& pci, const std::string& vendor,
                         const std::string& device) {
    if (device.empty()) return;
    pci.append_attribute("vendor") = vendor.c_str();
    pci.append_attribute("device") = device.c_str();
  }

  void add_switch(pugi::xml_node& cpu, std::size_t s) {
    const Pcie& pcie = *machine_.pcie;
    const PcieSwitch& devices = pcie.switches[s];
    pugi::xml_node pci = add_pci(cpu, fmt::format("ffff:ff:{:02x}.0", s + 1), kSwitchClass,
                                 pcie.uplink.value > 0 ? pcie.uplink : pcie.bandwidth);
    for (std::size_t i = 0; i < devices.gpus.size(); ++i)
      add_gpu(pci, address(s, i), devices.gpus[i]);
    for (std::size_t i = 0; i < devices.nics.size(); ++i)
      add_nic(pci, address(s, devices.gpus.size() + i), devices.nics[i]);
  }

  void add_gpu(pugi::xml_node& parent, const std::string& id, int number) {
    pugi::xml_node pci = add_pci(parent, id, kGpuClass, machine_.pcie->link_of("gpu", number));
    add_device(pci, "0x10de", pci_device_of(machine_.gpu->model));
    pugi::xml_node gpu = pci.append_child("gpu");
    gpu.append_attribute("dev") = number;
    gpu.append_attribute("rank") = number;
    gpu.append_attribute("gdr") = machine_.nic.gpudirect ? 1 : 0;
    if (!machine_.nvlink) return;
    const auto add = [&gpu](const std::string& target, int count, const char* kind) {
      pugi::xml_node link = gpu.append_child("nvlink");
      link.append_attribute("target") = target.c_str();
      link.append_attribute("count") = count;
      link.append_attribute("tclass") = kind;
    };
    if (machine_.nvlink->edges.empty()) add("ffff:fe:00.0", machine_.nvlink->links, kNvSwitchClass);
    for (const auto& e : machine_.nvlink->edges)
      if (e[0] == number || e[1] == number)
        add(gpu_ids_[static_cast<std::size_t>(e[0] == number ? e[1] : e[0])], e[2], kGpuClass);
  }

  void add_nic(pugi::xml_node& parent, const std::string& id, int number) {
    pugi::xml_node pci = add_pci(parent, id, kNetworkClass, machine_.pcie->link_of("nic", number));
    add_device(pci, "0x1d0f",  // Amazon's; 0xec20: ENA (Linux: ena_pci_id_tbl.h, efa_main.c)
               machine_.nic.efa > 0 ? fmt::format("0xefa{}", machine_.nic.efa - 1) : "0xec20");
    pugi::xml_node net = pci.append_child("nic").append_child("net");
    net.append_attribute("name") = fmt::format("nic{}", number).c_str();
    net.append_attribute("dev") = number;
    net.append_attribute("speed") =
        fmt::format("{:.0f}", machine_.nic.bandwidth.value * 8 / 1e6).c_str();
    net.append_attribute("port") = 1;
    net.append_attribute("gdr") = machine_.nic.gpudirect ? 1 : 0;
  }

  const Machine& machine_;
  pugi::xml_document document_;
  std::vector<std::string> gpu_ids_;
};

}  // namespace

std::string to_nccl_topology(const Machine& machine) {
  if (machine.cpu_only() || !machine.pcie || !machine.host)
    throw input_error(
        fmt::format("{} has no GPUs on a PCIe tree, which NCCL's topology is of", machine.name));
  return NcclFile(machine).text();
}

}  // namespace foreduce
