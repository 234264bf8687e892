#include "topologies/imported_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "topologies/pci_ids.hpp"

namespace foreduce {
namespace {

/// The machine of the catalogue with the same GPUs, and as many of them and of NICs as can be.
std::string nearest_type(const TopologyDump& dump, const std::string& model) {
  const Catalogue catalogue;
  std::string best;
  std::size_t least = SIZE_MAX;
  for (const std::string& name : catalogue.names()) {
    const Machine m = catalogue.load(name);
    if (!m.gpu || m.gpu->model != model) continue;
    const auto apart = [](int a, std::size_t b) {
      const auto count = static_cast<std::size_t>(a);
      return count > b ? count - b : b - count;
    };
    // A dump of several GPUs may not tell their NVLinks.
    const std::size_t without = dump.gpus.size() > 1 && !m.nvlink ? 1000000 : 0;
    const std::size_t distance = without + 1000 * apart(m.gpu->count, dump.gpus.size()) +
                                 apart(m.nic.count, dump.nics.size());
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

class Importer {
 public:
  Importer(const TopologyDump& dump, const ImportChoices& choices)
      : dump_(dump), base_(find_base(choices)) {
    out_.base = base_.type();
    out_.notes = dump.notes;
    Machine& m = out_.machine;
    m = base_;
    m.name = choices.name.empty() ? std::filesystem::path(dump.file).stem().string() : choices.name;
    m.note = fmt::format("imported from {}", dump.kind);
    m.citations.clear();
  }

  ImportedMachine import() {
    place_unknown();
    import_gpus();
    import_nvlink();
    import_nics();
    import_pcie();
    import_host();
    name_differences();
    start_from_base();
    return std::move(out_);
  }

 private:
  Machine find_base(const ImportChoices& choices) const {
    if (!choices.like.empty()) {
      Machine like = machine_named(choices.like);
      if (!like.gpu)
        throw input_error(fmt::format("--like {}: it has no GPU", choices.like),
                          "an instance type that has the same GPUs, such as p4d.24xlarge");
      return like;
    }
    const auto fail = [&](const std::string& message) {
      return file_error(dump_.file, message,
                        "--like p4d.24xlarge: the instance type, or ./file.yaml, that has the same "
                        "GPUs");
    };
    if (dump_.gpus.empty() || dump_.gpus[0].device.empty())
      throw fail(fmt::format("{} does not tell what its GPUs are", dump_.kind));
    const std::string model = gpu_model_of(dump_.gpus[0].device);
    if (model.empty())
      throw fail(
          fmt::format("GPUs with the PCI device id {} are not known here", dump_.gpus[0].device));
    const std::string type = nearest_type(dump_, model);
    if (type.empty())
      throw fail(fmt::format("{}: no machine of the catalogue has this GPU", model));
    return Catalogue().load(type);
  }

  /// Devices without a class (AWS's file of g5) are taken as the base has them: GPUs first.
  void place_unknown() {
    if (dump_.unknown.empty()) return;
    const auto gpus = static_cast<std::size_t>(base_.gpus()),
               nics = static_cast<std::size_t>(base_.nic.count);
    if (!dump_.gpus.empty() || dump_.unknown.size() != gpus + nics)
      throw file_error(dump_.file,
                       fmt::format("{} devices have no class, and {} has {} GPUs and {} NICs",
                                   dump_.unknown.size(), base_.type(), gpus, nics));
    for (std::size_t i = 0; i < dump_.unknown.size(); ++i) {
      const auto& [id, group] = dump_.unknown[i];
      if (i < gpus) dump_.gpus.push_back({id, "", group, std::nullopt, {}, 0});
      else dump_.nics.push_back({id, "", group, std::nullopt, std::nullopt, std::nullopt});
    }
    out_.notes.push_back(fmt::format(
        "The devices have no class; the first {} are taken for GPUs, the others for NICs.", gpus));
  }

  void import_gpus() {
    Gpu& gpu = *out_.machine.gpu;
    gpu.count = static_cast<int>(dump_.gpus.size());
    tell("gpu.count", "GPUs in the dump");
    for (const DumpedGpu& g : dump_.gpus)
      if (g.device != dump_.gpus[0].device)
        throw file_error(dump_.file,
                         fmt::format("{} and {} are GPUs of two kinds ({}, {})", dump_.gpus[0].id,
                                     g.id, dump_.gpus[0].device, g.device));
    if (const std::string model = gpu_model_of(dump_.gpus[0].device); !model.empty()) {
      gpu.model = model;
      tell("gpu.model", "PCI device " + dump_.gpus[0].device);
    }
    for (std::size_t g = 0; g < dump_.gpus.size(); ++g)
      numbering_ += fmt::format("{}gpu{} {}", g == 0 ? "" : ", ", g, dump_.gpus[g].id);
  }

  void import_nvlink() {
    std::optional<NvLink>& nv = out_.machine.nvlink;
    int links = 0;
    std::vector<std::vector<int>> edges;
    for (std::size_t a = 0; a < dump_.gpus.size(); ++a) {
      int own = dump_.gpus[a].switch_links;
      for (const auto& [peer, count] : dump_.gpus[a].peers) {
        own += count;
        for (std::size_t b = a + 1; b < dump_.gpus.size(); ++b)
          if (dump_.gpus[b].id == peer)
            edges.push_back({static_cast<int>(a), static_cast<int>(b), count});
      }
      links = std::max(links, own);
    }
    if (links == 0) {
      if (nv && !dump_.complete)
        std::erase_if(nv->edges, [&](const std::vector<int>& edge) {
          return std::max(edge[0], edge[1]) >= out_.machine.gpu->count;
        });
      const bool empty = nv && nv->kind == NvLinkKind::mesh && nv->edges.empty();
      if (dump_.complete || empty) nv.reset();  // what NCCL did not find is not there
      return;
    }
    if (!nv)
      throw file_error(
          dump_.file, fmt::format("its GPUs have NVLinks, and those of {} have none", base_.type()),
          "--like another machine, whose NVLinks are as fast");
    std::sort(edges.begin(), edges.end(), [](const auto& a, const auto& b) {
      return std::tuple(-a[2], a[0], a[1]) < std::tuple(-b[2], b[0], b[1]);  // widest first
    });
    // Of a mesh of few GPUs not all links of a GPU lead anywhere.
    if (!edges.empty() && out_.machine.gpu->model == base_.gpu->model)
      links = std::max(links, nv->links);
    nv->kind = edges.empty() ? NvLinkKind::through_switch : NvLinkKind::mesh;
    nv->links = links;
    nv->edges = edges;
    if (!edges.empty()) nv->multicast = false;
    for (const char* key : {"nvlink.kind", "nvlink.links", "nvlink.edges"})
      tell(key, "NVLinks in the dump");
  }

  void import_nics() {
    if (dump_.nics.empty()) {
      out_.notes.push_back(
          fmt::format("The dump has no NIC; they are assumed as in {}.", base_.type()));
      return;
    }
    BytesPerSecond fastest{0};
    for (const DumpedNic& n : dump_.nics)
      if (n.bandwidth) fastest = std::max(fastest, *n.bandwidth);
    for (const DumpedNic& n : dump_.nics) {
      if (!n.bandwidth || *n.bandwidth == fastest) nics_.push_back(n);
      else
        out_.notes.push_back(fmt::format("The NIC {} is left out: {}, and others have {}.", n.id,
                                         to_text(*n.bandwidth), to_text(fastest)));
    }
    leave_out_distant_nics();
    Nic& nic = out_.machine.nic;
    nic.count = static_cast<int>(nics_.size());
    tell("nic.count", "NICs in the dump");
    if (fastest.value > 0) {
      nic.bandwidth = fastest;
      tell("nic.bandwidth", "speed of <net>");
    }
    if (nics_[0].gpudirect) {
      nic.gpudirect = *nics_[0].gpudirect;
      tell("nic.gpudirect", "gdr of <net>");
    }
    if (!nics_[0].device.empty() && nics_[0].device != ":") {
      nic.efa = 0;
      nic.efa_peers.clear();
    }
    constexpr const char* kEfa = "0x1d0f:0xefa";  // then 0 for the first generation (Linux's efa)
    if (const std::string& device = nics_[0].device;
        device.starts_with(kEfa) && device.size() == 13 && device[12] >= '0' && device[12] <= '8') {
      nic.efa = device[12] - '0' + 1;
      nic.efa_peers = base_.nic.efa_peers;
      tell("nic.efa", "PCI device " + device.substr(7));
    }
    const bool vendor = nics_[0].device.starts_with("0x15b3:");  // NVIDIA (Mellanox) ConnectX
    if (vendor || nics_[0].driver.starts_with("mlx5")) {
      out_.machine = over_rdma(std::move(out_.machine));
      out_.machine.price.reset();
      tell("nic.fabric", fmt::format("{}; RoCE is predicted alike",
                                     vendor ? "PCI vendor 0x15b3" : "driver mlx5"));
    }
    for (std::size_t n = 0; n < nics_.size(); ++n)
      numbering_ += fmt::format(", nic{} {}", n, nics_[n].id);
  }

  /// Where every GPU has a NIC at its PCIe switch, NCCL uses those; others are of storage or hosts.
  void leave_out_distant_nics() {
    if (!dump_.grouped) return;
    std::set<std::size_t> of_gpus, with_nics;
    for (const DumpedGpu& g : dump_.gpus) of_gpus.insert(g.group);
    for (const DumpedNic& n : nics_)
      if (of_gpus.contains(n.group)) with_nics.insert(n.group);
    if (with_nics.size() < of_gpus.size()) return;
    std::erase_if(nics_, [&](const DumpedNic& n) {
      const bool distant = !of_gpus.contains(n.group);
      if (distant)
        out_.notes.push_back(fmt::format(
            "The NIC {} is left out: it shares no PCIe switch with a GPU, and every GPU has one "
            "that does.",
            n.id));
      return distant;
    });
  }

  void import_pcie() {
    out_.notes.push_back("Devices: " + numbering_ + ".");
    if (!out_.machine.pcie)
      throw file_error(dump_.file,
                       fmt::format("{} has no PCIe to take latencies from", base_.type()),
                       "--like another machine");
    Pcie& pcie = *out_.machine.pcie;
    import_pcie_bandwidth(pcie);
    if (!dump_.grouped) return keep_switches();
    std::vector<int> switch_of(dump_.groups.size(), -1);
    pcie.switches.clear();
    const auto home = [&](std::size_t group) -> PcieSwitch& {
      if (switch_of[group] < 0) {
        switch_of[group] = static_cast<int>(pcie.switches.size());
        pcie.switches.push_back({dump_.groups[group].socket, {}, {}});
      }
      return pcie.switches[static_cast<std::size_t>(switch_of[group])];
    };
    for (std::size_t g = 0; g < dump_.gpus.size(); ++g)
      home(dump_.gpus[g].group).gpus.push_back(static_cast<int>(g));
    for (std::size_t n = 0; n < nics_.size(); ++n)
      home(nics_[n].group).nics.push_back(static_cast<int>(n));
    if (nics_.empty())
      for (int n = 0; n < out_.machine.nic.count; ++n)
        pcie.switches[static_cast<std::size_t>(n) % pcie.switches.size()].nics.push_back(n);
    tell("pcie.switches", "PCIe switches, and devices at a socket, in the dump");
    if (dump_.sockets == 0) assume_sockets(pcie);
  }

  /// Where the dump does not tell who shares a switch: as the base has it, if that fits.
  void keep_switches() {
    const Machine& m = out_.machine;
    if (m.gpu->count != base_.gpu->count || m.nic.count != base_.nic.count)
      throw file_error(
          dump_.file,
          fmt::format("all devices are on one bus, so {} does not tell who shares a PCIe switch, "
                      "and {} has {} GPUs and {} NICs in place of {} and {}",
                      dump_.kind, base_.type(), base_.gpu->count, base_.nic.count, m.gpu->count,
                      m.nic.count),
          "a file of NCCL_TOPO_DUMP_FILE tells more; or --like a machine with as many");
    out_.notes.push_back(fmt::format(
        "All devices are on one bus; who shares a PCIe switch is assumed as in {}.", base_.type()));
  }

  /// The dump's groups are in the order of addresses, in which each socket has its share.
  void assume_sockets(Pcie& pcie) {
    const std::size_t count = pcie.switches.size(),
                      sockets = static_cast<std::size_t>(
                          out_.machine.host ? std::max(1, out_.machine.host->sockets) : 1);
    for (std::size_t s = 0; s < count; ++s)
      pcie.switches[s].socket = static_cast<int>(s * sockets / count);
    out_.notes.emplace_back(
        "Which socket a PCIe switch is on is assumed: in the order of their addresses.");
  }

  void import_pcie_bandwidth(Pcie& pcie) {
    std::set<double> rates;
    for (const DumpedGpu& g : dump_.gpus)
      if (g.pcie) rates.insert(g.pcie->value);
    if (rates.empty()) return;
    pcie.bandwidth = BytesPerSecond{*rates.rbegin()};
    tell("pcie.bandwidth", "link_speed x link_width, as NCCL reckons");
    pcie.slow_links.clear();
    for (std::size_t n = 0; n < dump_.gpus.size(); ++n)
      if (const auto& own = dump_.gpus[n].pcie; own && *own < pcie.bandwidth)
        pcie.slow_links.push_back({fmt::format("gpu{}", n), std::max(0.01, *own / pcie.bandwidth)});
    if (!pcie.slow_links.empty()) {
      tell("pcie.slow_links", "link_speed x link_width of these GPUs");
      out_.notes.emplace_back(
          "Some GPUs' PCIe links are slower than the others' (slow_links); an idle GPU lowers its "
          "own.");
    }
    std::optional<BytesPerSecond> narrowest;
    for (const DumpedGpu& g : dump_.gpus)
      if (const auto& up = dump_.groups[g.group].uplink; up)
        narrowest = std::min(*up, narrowest.value_or(*up));
    if (!narrowest) return;
    const bool narrower = *narrowest < pcie.bandwidth;
    if (!narrower && base_.pcie->uplink.value == 0) return;
    pcie.uplink = std::min(*narrowest, pcie.bandwidth);
    tell("pcie.uplink", "link_speed x link_width of the switch");
  }

  void import_host() {
    if (!out_.machine.host) return;  // find_base() takes machines with PCIe only, which have one
    Host& host = *out_.machine.host;
    if (dump_.sockets > 0) {
      host.sockets = dump_.sockets;
      tell("host.sockets", "<cpu> elements, NUMA nodes, or what nvidia-smi calls SYS");
    }
    if (!dump_.cpu.empty()) {
      host.cpu = dump_.cpu;
      tell("host.cpu", "vendor, family and model");
    }
    if (host.sockets > 1 && host.interconnect.value == 0) {
      host.interconnect = BytesPerSecond{16e9};
      out_.notes.emplace_back(
          "host.interconnect is assumed to be 16 GB/s, which NCCL takes for processors that it "
          "does not know (src/graph/topo.h).");
    }
  }

  /// What the dump told and the base has otherwise, and parts that only one has.
  void name_differences() {
    const auto texts = [](const Machine& m) {
      std::map<std::string, std::string> all;
      for (const YamlLine& line : lines_of(m))
        if (!line.value.empty()) all[line.path] += (all[line.path].empty() ? "" : " ") + line.value;
      return all;
    };
    const auto here = texts(out_.machine), there = texts(base_);
    const auto text = [](const std::map<std::string, std::string>& all, const std::string& key) {
      const auto at = all.find(key);
      return at == all.end() ? std::string("none") : at->second;
    };
    std::set<std::string> keys;
    for (const auto& [key, value] : here) keys.insert(key);
    for (const auto& [key, value] : there) keys.insert(key);
    for (const std::string& key : keys) {
      if (key == "instance" || key == "note" || key == "like" || key.starts_with("price."))
        continue;
      if (text(here, key) != text(there, key))
        out_.differences.push_back(
            fmt::format("{}: {}; in {} {}", key, text(here, key), base_.type(), text(there, key)));
    }
  }

  /// `like:` makes the base's profile and published runs apply. A key that only the base has would
  /// come with it, so then there is none.
  void start_from_base() {
    std::set<std::string> keys;
    for (const YamlLine& line : lines_of(out_.machine)) keys.insert(line.path);
    std::string lost;
    for (const YamlLine& line : lines_of(base_))
      if (!keys.contains(line.path) && line.path != "note" && line.path != "like")
        lost += (lost.empty() ? "" : ", ") + line.path;
    if (lost.empty()) {
      out_.machine.like = base_.type();
      return;
    }
    out_.machine.like.clear();
    out_.machine.price.reset();
    out_.notes.push_back(
        fmt::format("Not written as like: {}, which has {} besides. Name a profile in scenarios.",
                    base_.type(), lost));
  }

  void tell(const std::string& key, const std::string& how) { out_.told[key] = how; }

  TopologyDump dump_;
  Machine base_;
  ImportedMachine out_;
  std::vector<DumpedNic> nics_;  ///< those that are taken
  std::string numbering_;
};

}  // namespace

ImportedMachine import_machine(const TopologyDump& dump, const ImportChoices& choices) {
  return Importer(dump, choices).import();
}

}  // namespace foreduce
