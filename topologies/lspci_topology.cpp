// Reads what lspci prints: `lspci -vv`, which tells bridges, links and NUMA nodes, or `lspci -tv`,
// which tells the tree alone (pciutils: lspci.c, ls-tree.c, ls-caps.c).
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <set>

#include "input/problem.hpp"
#include "input/text_stream.hpp"
#include "topologies/pci_ids.hpp"
#include "topologies/topology_dump.hpp"

namespace foreduce {
namespace {

constexpr int kDeepestBridge = 32;
constexpr std::size_t kMostFunctions = 8192;
constexpr std::size_t kNone = SIZE_MAX;

/// A device or bridge.
struct PciDevice {
  std::string address;        ///< "0000:10:1c.0"
  std::string kind, name;     ///< "3D controller", "NVIDIA Corporation GA100 [A100 SXM4 40GB]"
  std::size_t above = kNone;  ///< the bridge that its bus hangs on; none: a root bus
  std::string below;          ///< a bridge's bus: "0000:17"
  PcieLink can, has;          ///< LnkCap and LnkSta
  bool lowered = false;       ///< LnkSta is at the lowest rate, as of an idle GPU
  std::optional<int> numa;

  std::string bus() const { return address.substr(0, address.rfind(':')); }
  bool says(const char* word) const { return name.find(word) != std::string::npos; }
  bool is_nvswitch() const { return says("NVSwitch"); }
  bool is_gpu() const {
    if (!says("NVIDIA") || is_nvswitch() || !below.empty()) return false;
    if (!kind.empty()) return kind == "3D controller" || kind.starts_with("VGA compatible");
    for (const char* other : {"Audio", "USB", "UCSI", "Bridge", "BlueField"})
      if (says(other)) return false;
    return true;
  }
  bool is_efa() const { return says("Elastic Fabric Adapter") || says("[1d0f:efa"); }
  bool is_infiniband() const {  // lspci -tv names no kinds
    return kind == "Infiniband controller" || (kind.empty() && says("ConnectX"));
  }
  bool is_card() const {
    if (says("Virtual Function")) return false;
    if (is_efa() || is_infiniband()) return true;
    if (!kind.empty()) return kind == "Ethernet controller";
    for (const char* word : {"ConnectX", "Ethernet", "Elastic Network Adapter", "Omni-Path"})
      if (says(word)) return true;
    return false;
  }
};

/// The "10de:20b0" that lspci puts behind a name with -nn; empty: it is not there.
std::string numbers_in(const std::string& name) {
  static const std::regex form(R"(\[([0-9a-f]{4}:[0-9a-f]{4})\])");
  std::smatch found;
  return std::regex_search(name, found, form) ? std::string(found[1]) : "";
}

class LspciTopology {
 public:
  LspciTopology(const std::string& name, const std::string& text) : text_(text) {
    dump_.file = name;
  }

  TopologyDump read() {
    TextStream in(text_);
    std::string line;
    while (std::getline(in, line)) {
      ++line_;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      constexpr std::size_t kLongest = 1000;
      line.resize(std::min(line.size(), kLongest));
      if (line.find_first_not_of(" \t") == std::string::npos) continue;
      if (is_tree_line(line)) read_tree_line(line);
      else if (line[0] == ' ' || line[0] == '\t') read_detail(line);
      else read_heading(line);
      if (devices_.size() > kMostFunctions)
        fail(fmt::format("more than {} devices", kMostFunctions));
    }
    dump_.kind = tree_ ? "lspci -tv" : "lspci -vv";
    if (!tree_) find_bridges();
    choose_cards();
    add_groups();
    return std::move(dump_);
  }

 private:
  [[noreturn]] void fail(std::string message, std::string hint = {}) const {
    throw InputError(
        Problem{dump_.file, line_, line_ > 0 ? 1 : 0, "", std::move(message), std::move(hint), ""});
  }

  void add(PciDevice device) {
    if (!addresses_.emplace(device.address, devices_.size()).second)
      fail(fmt::format("{} stands twice: one machine is read at a time", device.address));
    devices_.push_back(std::move(device));
  }

  // ------------------------------------------------------------------ lspci -vv

  void read_heading(const std::string& line) {
    static const std::regex form(
        R"(^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([^:]+): (.*)$)");
    std::smatch found;
    if (tree_ || !std::regex_match(line, found, form))
      fail(fmt::format("'{}' is no line of lspci's", line.substr(0, 40)),
           "the text of lspci -vv (as root), or of lspci -tv");
    PciDevice device;
    device.address = found[1];
    if (std::count(device.address.begin(), device.address.end(), ':') == 1)
      device.address = "0000:" + device.address;
    device.kind = std::string(found[2]);
    device.kind = device.kind.substr(0, device.kind.find(" ["));  // the number of -nn
    device.name = found[3];
    add(std::move(device));
  }

  /// The number after `key`, such as "NUMA node: 1".
  static std::optional<std::string> value_of(const std::string& line, const char* key) {
    const auto at = line.find(key);
    if (at == std::string::npos) return std::nullopt;
    const auto begin = line.find_first_not_of(" \t", at + std::string(key).size());
    if (begin == std::string::npos) return std::nullopt;
    return line.substr(begin, line.find_first_of(", \t(", begin) - begin);
  }

  void read_detail(const std::string& line) {
    if (devices_.empty() || tree_)
      fail(fmt::format("'{}' belongs to no device", line.substr(0, 40)));
    PciDevice& device = devices_.back();
    if (const auto bus = value_of(line, "secondary=")) {
      if (bus->size() != 2) fail(fmt::format("secondary={} is no bus", bus->substr(0, 40)));
      device.below = device.address.substr(0, device.address.find(':') + 1) + *bus;
    }
    if (const auto node = value_of(line, "NUMA node:")) {
      static const std::regex number("[0-9]{1,3}");
      if (!std::regex_match(*node, number))
        fail(fmt::format("NUMA node: {} is not a number", node->substr(0, 40)));
      device.numa = std::stoi(*node);
    }
    if (line.find("LnkCap:") != std::string::npos) device.can = link_in(line);
    if (line.find("LnkSta:") != std::string::npos) {
      device.has = link_in(line);
      device.lowered = device.has.speed == "2.5 GT/s" && device.can.speed != device.has.speed;
    }
  }

  /// "Speed 16GT/s (downgraded), Width x8".
  static PcieLink link_in(const std::string& line) {
    static const std::regex form(R"(Speed ([0-9.]+)GT/s.*Width x([0-9]{1,2})\b)");
    std::smatch found;
    if (!std::regex_search(line, found, form)) return {};
    return {std::string(found[1]) + " GT/s", std::stoi(found[2])};
  }

  void find_bridges() {
    std::map<std::string, std::size_t> bridges;
    for (std::size_t d = 0; d < devices_.size(); ++d)
      if (!devices_[d].below.empty()) bridges.emplace(devices_[d].below, d);
    for (PciDevice& device : devices_)
      if (const auto above = bridges.find(device.bus()); above != bridges.end())
        device.above = above->second;
  }

  // ------------------------------------------------------------------ lspci -tv

  static bool is_tree_line(const std::string& line) {
    static const std::regex form(R"(^(-\+-|-)\[|^[ |]*[+\\]-)");
    return std::regex_search(line, form);
  }

  /// A bus of the tree, and the column in which the lines of its devices begin.
  struct Branch {
    std::size_t column = 0;
    std::string bus;  ///< empty: of the root, whose children are buses
    std::size_t bridge = kNone;
  };

  void read_tree_line(const std::string& line) {
    if (!devices_.empty() && !tree_) fail("a tree of lspci -tv below another listing");
    tree_ = true;
    std::size_t at = line.find_first_of("+\\-[");
    Branch now;
    if (line[0] == '-') {
      at = 0;
    } else {
      while (!branches_.empty() && branches_.back().column > at) branches_.pop_back();
      if (branches_.empty() || branches_.back().column != at)
        fail("this branch of the tree begins below none");
      now = branches_.back();
      if (line[at] == '\\') branches_.pop_back();
      ++at;
    }
    while (at < line.size()) {
      if (line[at] == '-') {
        ++at;
      } else if (line[at] == '+' || line[at] == '\\') {
        branches_.push_back({at, now.bus, now.bridge});
        if (branches_.size() > kDeepestBridge)
          fail(fmt::format("more than {} switches deep", kDeepestBridge));
        ++at;
      } else if (line[at] == '[') {
        at = read_bus(line, at, now);
      } else if (is_device(line, at) && !now.bus.empty()) {
        PciDevice device;
        device.address = fmt::format("{}:{}", now.bus, line.substr(at, 4));
        device.above = now.bridge;
        at += 4;
        if (at < line.size() && line[at] == ' ') {
          device.name = line.substr(std::min(line.size(), at + 2));
          at = line.size();
        } else if (at < line.size() && line[at] == '-') {
          device.kind = "PCI bridge";
          now.bridge = devices_.size();
        }
        add(std::move(device));
      } else {
        fail(fmt::format("'{}' is no part of a tree of lspci -tv", line.substr(at, 20)));
      }
    }
  }

  /// "1c.0".
  static bool is_device(const std::string& line, std::size_t at) {
    const auto hex = [&](std::size_t i) {
      return std::isxdigit(static_cast<unsigned char>(line[i])) != 0;
    };
    return at + 4 <= line.size() && hex(at) && hex(at + 1) && line[at + 2] == '.' && hex(at + 3);
  }

  /// "[0000:10]" of a root, "[17-1b]" or "[17]" below a bridge; returns what follows.
  std::size_t read_bus(const std::string& line, std::size_t at, Branch& now) {
    static const std::regex root(R"(^\[([0-9a-f]{4,8}:[0-9a-f]{2})(-[0-9a-f]{2})?\])"),
        below(R"(^\[([0-9a-f]{2})(-[0-9a-f]{2})?\])");
    const std::string text = line.substr(at, 24);
    std::smatch found;
    const bool bridged = now.bridge != kNone && now.bridge + 1 == devices_.size();
    if (now.bus.empty() && std::regex_search(text, found, root)) {
      now.bus = found[1];
      now.bridge = kNone;
    } else if (bridged && std::regex_search(text, found, below)) {
      now.bus = now.bus.substr(0, now.bus.find(':') + 1) + std::string(found[1]);
      devices_.back().below = now.bus;
    } else {
      fail(fmt::format("'{}' is no bus of lspci -tv", text));
    }
    return at + static_cast<std::size_t>(found.length(0));
  }

  // ------------------------------------------------------------------ both

  /// EFA before InfiniBand before Ethernet: what else there is serves other ends.
  void choose_cards() {
    const auto keep = [&](auto matches) {
      std::vector<std::size_t> kept;
      for (std::size_t d = 0; d < devices_.size(); ++d)
        if (devices_[d].is_card() && matches(devices_[d])) kept.push_back(d);
      return kept;
    };
    cards_ = keep([](const PciDevice& d) { return d.is_efa(); });
    if (cards_.empty()) cards_ = keep([](const PciDevice& d) { return d.is_infiniband(); });
    const auto all = keep([](const PciDevice&) { return true; });
    if (cards_.empty()) cards_ = all;
    if (cards_.size() == all.size()) return;
    std::string out;
    for (const std::size_t d : all)
      if (std::find(cards_.begin(), cards_.end(), d) == cards_.end())
        out += (out.empty() ? "" : ", ") + devices_[d].address;
    dump_.notes.push_back(
        fmt::format("Left out beside {}: {}.",
                    devices_[cards_[0]].is_efa() ? "the EFA cards" : "the InfiniBand cards", out));
  }

  /// The bridge on the root bus above a device, or none.
  std::size_t root_port_of(std::size_t device) const {
    std::size_t at = kNone;
    for (int depth = 0; devices_[device].above != kNone; ++depth) {
      if (depth > kDeepestBridge) throw too_deep();
      device = at = devices_[device].above;
    }
    return at;
  }
  InputError too_deep() const {
    return file_error(dump_.file, fmt::format("more than {} switches deep", kDeepestBridge));
  }

  /// Below one root port, or on a root bus of their own: what virtual machines show of a switch.
  std::size_t group_of(std::size_t device) {
    const std::size_t port = root_port_of(device);
    const std::string key = port == kNone ? devices_[device].bus() : devices_[port].address;
    const auto [at, fresh] = groups_.try_emplace(key, dump_.groups.size());
    if (fresh) {
      dump_.groups.push_back({0, std::nullopt});
      numa_.push_back(devices_[device].numa);
      switched_.push_back(port != kNone && devices_[device].above != port);
      if (switched_.back()) dump_.groups.back().uplink = rate(port);
    }
    if (!numa_[at->second]) numa_[at->second] = devices_[device].numa;
    return at->second;
  }

  /// What a link carries: its width, at the speed that it has, or that both ends can have where it
  /// is lowered for now.
  std::optional<BytesPerSecond> rate(std::size_t device) const {
    const PciDevice& d = devices_[device];
    if (!d.lowered) return rate_of(d.has);
    if (d.above == kNone) return std::nullopt;
    const auto here = rate_of({d.can.speed, d.has.width}),
               there = rate_of({devices_[d.above].can.speed, d.has.width});
    return here && there ? std::optional(std::min(*here, *there)) : std::nullopt;
  }

  static std::string nvidia_device(const PciDevice& d) {
    if (const std::string numbers = numbers_in(d.name); numbers.starts_with("10de:"))
      return "0x" + numbers.substr(5);
    static const std::regex unnamed(R"(Device ([0-9a-f]{4})\b)");
    std::smatch found;
    if (std::regex_search(d.name, found, unnamed)) return "0x" + std::string(found[1]);
    return pci_device_named(d.name);
  }
  /// "0x1d0f:0xefa0" and the like; empty: not said, but for being EFA or not.
  static std::string card_device(const PciDevice& d) {
    const std::string numbers = numbers_in(d.name);
    if (!numbers.empty()) return "0x" + numbers.substr(0, 4) + ":0x" + numbers.substr(5);
    return d.is_efa() ? "" : "another";
  }

  void add_groups() {
    bool lowered = false;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (!devices_[d].is_gpu()) continue;
      lowered = lowered || (devices_[d].lowered && !rate(d));
      dump_.gpus.push_back(
          {devices_[d].address, nvidia_device(devices_[d]), group_of(d), rate(d), {}, 0});
    }
    if (dump_.gpus.empty()) {
      line_ = 0;
      fail("there are no GPUs of NVIDIA in it", "the text of lspci -vv (as root), or of lspci -tv");
    }
    for (const std::size_t d : cards_)
      dump_.nics.push_back({devices_[d].address, card_device(devices_[d]), group_of(d), rate(d),
                            std::nullopt, std::nullopt});
    dump_.grouped = dump_.groups.size() > 1 || switched_[0];
    place_sockets();
    if (lowered)
      dump_.notes.emplace_back(
          "GPUs' links are at 2.5 GT/s, as of idle GPUs; their rate is assumed.");
    else if (!dump_.gpus[0].pcie)
      dump_.notes.emplace_back(tree_ ? "lspci -tv tells no rates; lspci -vv as root does."
                                     : "LnkSta is missing: lspci -vv tells it to root.");
    const auto switches = std::count_if(devices_.begin(), devices_.end(),
                                        [](const PciDevice& d) { return d.is_nvswitch(); });
    dump_.notes.push_back(
        fmt::format("lspci tells neither NVLinks nor what NICs carry. It lists {} NVSwitch{}.",
                    switches == 0 ? "no" : std::to_string(switches), switches > 1 ? "es" : ""));
  }

  /// NUMA nodes in the order of their numbers, where all groups have one.
  void place_sockets() {
    std::set<int> nodes;
    for (const auto& numa : numa_) {
      if (!numa) return;
      nodes.insert(*numa);
    }
    dump_.sockets = static_cast<int>(nodes.size());
    for (std::size_t g = 0; g < numa_.size(); ++g)
      dump_.groups[g].socket =
          static_cast<int>(std::distance(nodes.begin(), nodes.find(*numa_[g])));
  }

  const std::string& text_;
  TopologyDump dump_;
  int line_ = 0;
  bool tree_ = false;
  std::vector<PciDevice> devices_;
  std::map<std::string, std::size_t> addresses_;
  std::vector<Branch> branches_;
  std::vector<std::size_t> cards_;
  std::map<std::string, std::size_t> groups_;
  std::vector<std::optional<int>> numa_;  // of groups
  std::vector<bool> switched_;
};

}  // namespace

bool looks_like_lspci(const std::string& text) {
  static const std::regex form(
      R"(^\s*(-\+-\[|-\[|(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] ))");
  return std::regex_search(text.substr(0, 200), form);
}

TopologyDump parse_lspci_topology(const std::string& name, const std::string& text) {
  return LspciTopology(name, text).read();
}

}  // namespace foreduce
