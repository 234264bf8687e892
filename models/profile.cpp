#include "models/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "input/holds.hpp"
#include "topologies/graph.hpp"

namespace foreduce {

const char* name_of(PathClass kind) {
  static constexpr const char* names[] = {"network", "nvlink", "pcie", "host_memory"};
  return names[static_cast<std::size_t>(kind)];
}

const Protocol* Profile::protocol(const std::string& wanted) const {
  const auto at = std::find_if(protocols.begin(), protocols.end(),
                               [&](const Protocol& p) { return p.name == wanted; });
  return at == protocols.end() ? nullptr : &*at;
}

bool Profile::ideal() const {
  return !launch && !reduce_bandwidth && !in_switch && !in_switch_sync && protocols.empty() &&
         std::all_of(links.begin(), links.end(), [](const LinkClass& c) {
           return !c.latency && !c.efficiency && !c.overhead && !c.peer_overhead && !c.proxy_rate;
         });
}

Profile over_fabric(Profile gpu, const Profile& fabric) {
  // Its release is that of the machine it was measured on; on others the newest is the default.
  if (gpu.fabric && gpu.fabric != fabric.fabric) gpu.nccl_release.clear();
  gpu.name += "+" + fabric.name;
  gpu.fabric = fabric.fabric;
  gpu.needs_fabric = fabric.needs_fabric;
  gpu.of(PathClass::network) = fabric.of(PathClass::network);
  for (Protocol& p : gpu.protocols) {
    const Protocol* between = fabric.protocol(p.name);
    p.one_node = !between;
    p.net_hop.reset();
    p.net_hop_whole_from.reset();
    p.net_hop_from.reset();
    p.overhead.reset();
    p.proxy_rate.reset();
    p.gap.reset();
    p.gap_whole_from.reset();
    p.gap_from.reset();
    p.net_channel_rate.reset();
    if (!between) continue;
    p.net_hop = between->net_hop;
    p.net_hop_whole_from = between->net_hop_whole_from;
    p.net_hop_from = between->net_hop_from;
    p.overhead = between->overhead;
    p.proxy_rate = between->proxy_rate;
    p.gap = between->gap;
    p.gap_whole_from = between->gap_whole_from;
    p.gap_from = between->gap_from;
    p.net_channel_rate = between->net_channel_rate;
    if (between->chunk) p.chunk = between->chunk;
  }
  // What was compared on one node has no fabric.
  for (Accuracy& a : gpu.accuracy) {
    std::erase_if(a.compared, [](const Compared& c) { return c.nodes.front() > 1; });
    for (Compared& c : a.compared) c.nodes = {1};
    a.spread_other_nodes.reset();
  }
  std::erase_if(gpu.accuracy, [](const Accuracy& a) { return a.compared.empty(); });
  gpu.accuracy.insert(gpu.accuracy.begin(), fabric.accuracy.begin(), fabric.accuracy.end());
  return gpu;
}

namespace {

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  if (names.empty()) throw input_error(fmt::format("{} holds no profiles", folder.string()));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Profile with_latencies_of(Profile profile, const Machine& machine) {
  const Catalogue catalogue;
  if (machine.gpus() == 0 || !holds(catalogue.names(), machine.like)) return profile;
  const Machine base = catalogue.load(machine.like);
  const NodeGraph ours(machine), theirs(base);
  const auto shift = [](LinkClass& links, Seconds ours_takes, Seconds theirs_takes) {
    // Paths add up the same numbers in the same order: equal ones have equal sums.
    if (!links.latency || ours_takes == theirs_takes) return;
    links.latency->value = std::max(Seconds{0}, links.latency->value + ours_takes - theirs_takes);
    links.latency->origin = NumberOrigin::assumed;
  };
  constexpr Device kFirst{false, 0}, kSecond{false, 1};
  if (machine.fabric() == base.fabric())
    shift(profile.of(PathClass::network),
          ours.outward(kFirst).latency + ours.inward(kFirst).latency,
          theirs.outward(kFirst).latency + theirs.inward(kFirst).latency);
  if (machine.gpus() > 1 && base.gpus() > 1 &&
      machine.nvlink.has_value() == base.nvlink.has_value())
    shift(profile.of(machine.nvlink ? PathClass::nvlink : PathClass::pcie),
          ours.inside(kFirst, kSecond).latency, theirs.inside(kFirst, kSecond).latency);
  return profile;
}

Profiles::Profiles(std::filesystem::path folder)
    : folder_(std::move(folder)),
      names_(files_in(folder_ / "profiles")),
      fabrics_(files_in(folder_ / "fabrics")) {}

Profile Profiles::load(const std::string& name) const {
  if (names_file(name)) return load_profile(name);
  if (const auto plus = name.find('+'); plus != std::string::npos)
    return over_fabric(load(name.substr(0, plus)), load_fabric(name.substr(plus + 1)));
  if (!holds(names_, name))
    throw input_error(fmt::format("there is no profile called '{}'", name), suggest(name, names_));
  return load_profile(folder_ / "profiles" / (name + ".yaml"));
}

Profile Profiles::load_fabric(const std::string& name) const {
  if (!holds(fabrics_, name))
    throw input_error(fmt::format("there is no fabric called '{}'", name), suggest(name, fabrics_));
  return load_profile(folder_ / "fabrics" / (name + ".yaml"));
}

Profile Profiles::made_for(const std::string& instance, const std::string& library) const {
  for (const std::string& name : names_) {
    Profile profile = load(name);
    if (profile.library.starts_with(library) && holds(profile.instances, instance)) return profile;
  }
  return load("ideal");
}

Profile Profiles::nearest_to(const Machine& machine) const {
  Profile nearest = made_for(machine.type());
  if (!machine.gpu) return nearest;
  // A machine of one's own may have an instance type's name and other GPUs.
  const auto is_for = [&](const Profile& p) {
    return holds(p.nearest_for, family_of(*machine.gpu));
  };
  if (!nearest.nearest_for.empty() && !is_for(nearest)) nearest = load("ideal");
  for (const std::string& name : names_) {
    if (nearest.name != "ideal") break;
    Profile profile = load(name);
    if (is_for(profile)) nearest = std::move(profile);
  }
  if (nearest.name == "ideal") nearest = nearest_by_bandwidth(machine);
  if (!nearest.holds_over(machine.fabric()))
    nearest = over_fabric(std::move(nearest), load_fabric(to_text(machine.fabric())));
  return with_latencies_of(std::move(nearest), machine);
}

Profile Profiles::nearest_by_bandwidth(const Machine& machine, const std::string& except) const {
  Profile nearest = load("ideal");
  if (!machine.gpu || machine.gpu->memory_bandwidth.value <= 0) return nearest;
  const auto nvlink_of = [](const Machine& m) {
    return m.nvlink ? m.nvlink->bandwidth * m.nvlink->links : BytesPerSecond{0};
  };
  const auto apart = [](BytesPerSecond a, BytesPerSecond b) { return std::abs(std::log(a / b)); };
  // Of one GPU nothing tells whether its kind has NVLink: its memory tells kinds apart.
  const bool one = !machine.nvlink && machine.gpus() == 1;
  const auto memory_apart = [&](const Machine& theirs) {
    return apart(theirs.gpu->memory_bandwidth, machine.gpu->memory_bandwidth);
  };
  double least = INFINITY;
  for (const std::string& name : names_) {
    Profile profile = load(name);
    if (name == except || !profile.library.starts_with("NCCL") || profile.nearest_for.empty())
      continue;
    double off = machine.nvlink ? INFINITY : 0;
    if (!profile.instances.empty()) {  // GPUs without NVLink share a profile that names none
      const Machine theirs = Catalogue().load(profile.instances.front());
      off = machine.nvlink ? apart(nvlink_of(theirs), nvlink_of(machine)) + memory_apart(theirs)
            : one          ? memory_apart(theirs)
                           : INFINITY;
    } else if (one) {
      off = INFINITY;
      const Catalogue catalogue;
      for (const std::string& instance : catalogue.names())
        if (const Machine theirs = catalogue.load(instance);
            theirs.gpu && holds(profile.nearest_for, family_of(*theirs.gpu)))
          off = std::min(off, memory_apart(theirs));
    }
    if (off >= least) continue;
    least = off;
    nearest = std::move(profile);
  }
  return nearest;
}

}  // namespace foreduce
