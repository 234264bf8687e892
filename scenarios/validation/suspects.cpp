#include "scenarios/validation/suspects.hpp"

#include <algorithm>
#include <cmath>

#include "algorithms/core/registry.hpp"
#include "scenarios/validation/check_limits.hpp"
#include "scenarios/validation/log_cluster.hpp"
#include "scenarios/validation/nccl_words.hpp"

namespace foreduce {
namespace {

/// Where a number of a suspect's profile comes from.
constexpr const char* kSuspicion = "suspected";

/// The PCIe switches that have NICs.
int rails_of(const Machine& m) {
  if (!m.pcie) return 1;
  return static_cast<int>(std::count_if(m.pcie->switches.begin(), m.pcie->switches.end(),
                                        [](const PcieSwitch& s) { return !s.nics.empty(); }));
}
Machine with_rails(Machine m, int count) {
  int rail = 0, nic = 0;
  for (PcieSwitch& s : m.pcie->switches) {
    if (s.nics.empty()) continue;
    if (rail++ >= count) s.nics.clear();
    for (int& n : s.nics) n = nic++;
  }
  m.nic.count = nic;
  return m;
}

/// NCCL finds a ring a rail, and doubles it: of fewer rails, or slower ones, it makes fewer
/// channels (two p5en with half of their cards reach 257 GB/s, as half of the channels do).
void fewer_channels(Profile& profile, int left, int of) {
  if (profile.channels)
    profile.channels =
        Estimated<double>{std::max(2.0, std::floor(profile.channels->value * left / of)),
                          NumberOrigin::derived,
                          {},
                          kSuspicion};
}

/// The same with at most so many NICs at each PCIe switch.
Machine with_nics_a_switch(Machine m, std::size_t most) {
  int nic = 0;
  for (PcieSwitch& s : m.pcie->switches) {
    s.nics.resize(std::min(s.nics.size(), most));
    for (int& n : s.nics) n = nic++;
  }
  m.nic.count = nic;
  return m;
}
/// How many NICs a PCIe switch that has any has; 0 where they differ.
std::size_t nics_a_switch(const Machine& m) {
  std::size_t each = 0;
  if (!m.pcie) return 0;
  for (const PcieSwitch& s : m.pcie->switches) {
    if (s.nics.empty()) continue;
    if (each != 0 && s.nics.size() != each) return 0;
    each = s.nics.size();
  }
  return each;
}

/// The GPUs' family and how many a node uses may be another instance type's as well; where the log
/// does not name the GPU, so may every other with as many.
void add_other_instances(std::vector<Setup>& all, const NcclTable& table, const Machine& healthy,
                         bool gpu_is_known) {
  const auto family = [](const Machine& m) {
    return m.gpu ? m.gpu->model.substr(0, m.gpu->model.find_first_of(" -")) : std::string();
  };
  if (healthy.fabric() == Fabric::rdma) return;  // EC2 has none
  const Catalogue catalogue;
  const Profiles profiles;
  for (const std::string& name : catalogue.names()) {
    const Machine other = catalogue.load(name);
    const bool alike = (other.gpus() >= healthy.gpus() && family(other) == family(healthy)) ||
                       (!gpu_is_known && other.gpus() == healthy.gpus() &&
                        (other.nic.efa > 0) == (healthy.nic.efa > 0));
    if (!alike) continue;
    const Machine used = other.with_gpus(healthy.gpus());
    if (same_links(used, healthy)) continue;
    if (!table.gpu.empty() && !is_gpu_named(table.gpu, other.gpu->model)) continue;
    all.push_back({cause::OtherInstance{name, healthy.name, family(other) != family(healthy)}, used,
                   profiles.nearest_to(other)});
  }
}

/// Switches that do not reduce: what NCCL chooses without them.
void add_no_nvls(std::vector<Setup>& all, const Machine& healthy, const Profile& profile) {
  if (!healthy.nvlink || !healthy.nvlink->multicast) return;
  all.push_back({cause::NoNvls{}, healthy, profile});
  all.back().machine.nvlink->multicast = false;
}

void add_inside_node(std::vector<Setup>& all, const Machine& healthy, const Profile& profile) {
  Setup pcie{cause::PcieForNvlink{}, healthy, profile};
  if (!healthy.nvlink || !healthy.pcie) return;
  pcie.machine.nvlink.reset();
  for (const int part : {1, 2, 4, 8}) {  // through host memory, which the GPUs share, it is less
    all.push_back(pcie);
    all.back().machine.pcie->bandwidth = healthy.pcie->bandwidth / part;
  }
}

/// Of a node alone: each GPU has half of its NVLinks.
void add_half_nvlink(std::vector<Setup>& all, const Machine& healthy, const Profile& profile) {
  if (!healthy.nvlink) return;
  all.push_back({cause::HalfNvlink{}, healthy, profile});
  NvLink& nvlink = *all.back().machine.nvlink;
  nvlink.bandwidth = nvlink.bandwidth / 2;
}

void add_forced_channels(std::vector<Setup>& all, const NcclFacts& log, const Machine& healthy,
                         const Profile& profile, int nodes) {
  const auto used = nodes > 1 ? &Profile::channels : &Profile::channels_one_node;
  for (const char* name : kMostChannelsSettings) {
    const auto most = nccl_words::small(log.setting(name));
    const auto& usual = profile.*used;
    if (!most || *most < 1 || !usual || usual->value <= *most) continue;
    all.push_back({cause::HeldChannels{*most, name}, healthy, profile});
    all.back().channels = *most;
    return;
  }
}

/// Half of the channels, a quarter and so on down to two, which a tuner's file, too few threads or
/// a setting that the log does not name may leave.
void add_few_channels(std::vector<Setup>& all, const NcclFacts& log, const Machine& healthy,
                      const Profile& profile) {
  if (!profile.channels) return;
  const int usual = static_cast<int>(profile.channels->value);
  std::vector<int> left;
  for (int k = usual / 2; k >= 2; k /= 2) left.push_back(k);
  if (log.channels) left = {*log.channels};
  for (const int k : left) {
    if (k < 1 || 2 * k > usual) continue;
    all.push_back({cause::HeldChannels{k, ""}, healthy, profile});
    all.back().channels = k;
  }
}

/// A buffer of another size than NCCL's own, which the log names.
void add_buffer(std::vector<Setup>& all, const NcclFacts& log, const Machine& healthy,
                const Profile& profile) {
  const auto bytes = nccl_words::whole(log.setting("NCCL_BUFFSIZE"));
  const Protocol* const simple = profile.protocol(to_text(NcclProtocol::simple));
  if (!bytes || !simple || !simple->chunk || *bytes < 8 || *bytes >= 8 * simple->chunk->value.value)
    return;
  all.push_back({cause::SmallBuffer{Bytes{*bytes}}, healthy, profile});
  all.back().buffer = Bytes{*bytes};
}

/// Everything by Simple, which guides for EFA's first plugins asked for and which stays set, or by
/// LL, which somebody tried for small sizes.
void add_left_over_protocol(std::vector<Setup>& all, const Machine& healthy, const Profile& profile,
                            int nodes) {
  for (const NcclProtocol left : {NcclProtocol::simple, NcclProtocol::ll})
    if (const Protocol* p = profile.protocol(to_text(left));
        p && profile.protocols.size() > 1 && !(p->one_node && nodes > 1))
      all.push_back({cause::OneProtocol{left}, healthy, profile, std::nullopt, left});
}

/// Without so many of the NICs: of one PCIe switch after another, each of which keeps one.
Machine without_nics(Machine m, int missing) {
  int nic = 0;
  for (PcieSwitch& s : m.pcie->switches) {
    for (; missing > 0 && s.nics.size() > 1; --missing) s.nics.pop_back();
    for (int& n : s.nics) n = nic++;
  }
  m.nic.count = nic;
  return m;
}

/// Fewer rails, or fewer channels.
void add_fewer(std::vector<Setup>& all, const NcclFacts& log, const Machine& healthy,
               const Profile& profile, int nodes) {
  const int rails = rails_of(healthy);
  const std::size_t each = nics_a_switch(healthy);
  const auto fewer_nics = [&](const Machine& fewer, int rails_left, std::size_t of_rail) {
    return cause::FewNics{fewer.nic.count, healthy.nic.count,         rails_left,
                          rails,           static_cast<int>(of_rail), static_cast<int>(each)};
  };
  std::vector<std::size_t> kept{1, each / 2, each - 1};
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  for (const std::size_t k : kept) {
    if (k < 1 || k >= each) continue;
    const Machine fewer = with_nics_a_switch(healthy, k);
    if (log.nics && *log.nics != fewer.nic.count) continue;
    all.push_back({fewer_nics(fewer, rails, k), fewer, profile});
    fewer_channels(all.back().profile, static_cast<int>(k), static_cast<int>(each));
  }
  if (each > 1 && rails > 1) {  // a pod that asked for one interface
    const auto few = static_cast<std::size_t>(log.nics.value_or(1));
    if (few >= 1 && few < each) {
      const Machine fewer = with_nics_a_switch(with_rails(healthy, 1), few);
      all.push_back({fewer_nics(fewer, 1, few), fewer, profile});
      fewer_channels(all.back().profile, static_cast<int>(few), rails * static_cast<int>(each));
    }
  }
  const auto as_said = [&](const Setup& s) { return s.machine.nic.count == log.nics; };
  const int found = log.nics.value_or(0), of_each = static_cast<int>(each);
  const bool uneven = of_each > 1 && found > rails && found < healthy.nic.count &&
                      found % of_each != 0 && std::none_of(all.begin(), all.end(), as_said);
  if (uneven) {
    const Machine fewer = without_nics(healthy, healthy.nic.count - found);
    all.push_back({fewer_nics(fewer, rails, 0), fewer, profile});
  }
  std::vector<int> left{1, rails / 4, rails / 2, rails * 3 / 4};
  if (uneven || (log.nics && found < of_each)) left.clear();
  else if (log.nics) left = {(*log.nics * rails + healthy.nic.count - 1) / healthy.nic.count};
  for (const int k : left) {
    if (k < 1 || k >= rails || std::any_of(all.begin(), all.end(), [&](const Setup& s) {
          return s.fault() == Fault::rails && rails_of(s.machine) == k;
        }))
      continue;
    const Machine fewer = with_rails(healthy, k);
    all.push_back({fewer_nics(fewer, k, each), fewer, profile});
    if (2 * k > rails)  // or NCCL keeps its channels, which share the rails that are left
      all.push_back(all.back());
    fewer_channels(all.back().profile, k, rails);
  }
  const bool forced = std::any_of(all.begin(), all.end(),
                                  [](const Setup& s) { return s.fault() == Fault::channels; });
  const bool other_count = log.channels && *log.channels != 2;
  if (rails > 2 && !forced && !other_count) {  // A channel enters and leaves a node over one NIC.
    all.push_back({cause::TwoChannels{}, with_rails(healthy, 2), profile});
    all.back().profile.channels = Estimated<double>{2, NumberOrigin::assumed, {}, kSuspicion};
  }
  if (!forced && (log.channels || nodes <= CheckLimits::few_nodes))
    add_few_channels(all, log, healthy, profile);
}

/// A PCIe link that came up narrower, or a generation lower. Channels carry equal parts, so the
/// slowest decides, whether it is a GPU's or a NIC's and on how many nodes.
void add_slow_link(std::vector<Setup>& all, const Machine& healthy, const Profile& profile,
                   int nodes) {
  if (rails_of(healthy) < 2 || nics_a_switch(healthy) == 0) return;
  for (const double share : {0.5, 0.25}) {
    if (share < 0.5 && nodes > CheckLimits::few_nodes) break;  // the rarer one
    all.push_back(
        {cause::SlowPcieLink{share}, healthy.with_slow_links({{"gpu0", share}}), profile});
  }
}

/// The slowest of as many of the fastest cards as the machine has: others are the storage's.
/// Nothing where NCCL's graph has fewer.
std::optional<BytesPerSecond> slowest_card(const NcclFacts& log, const Machine& healthy) {
  std::vector<BytesPerSecond> rates;
  for (const auto& [card, rate] : log.card_rates) rates.push_back(rate);
  const auto count = static_cast<std::size_t>(healthy.nic.count);
  if (count < 1 || rates.size() < count) return std::nullopt;
  std::sort(rates.begin(), rates.end(), [](auto a, auto b) { return a > b; });
  return rates[count - 1];
}

/// Cards that came up at a lower rate, where NCCL's graph has it. aws-ofi-nccl joins cards.
void add_slow_cards(std::vector<Setup>& all, const NcclFacts& log, const Machine& healthy,
                    const Profile& profile) {
  const auto rate = slowest_card(log, healthy);
  if (!rate || healthy.nic.efa > 0 || *rate >= CheckLimits::card_rate * healthy.nic.bandwidth)
    return;
  all.push_back({cause::SlowCards{*rate, healthy.nic.bandwidth}, healthy, profile});
  all.back().machine.nic.bandwidth = *rate;
}

/// Half or a quarter of the rate of the cards that a machine with such GPUs usually has: its
/// builder chose them.
void add_other_cards(std::vector<Setup>& all, const NcclFacts& log, const Machine& healthy,
                     const Profile& profile) {
  if (healthy.fabric() != Fabric::rdma || !log.card_rates.empty()) return;
  for (const double share : {0.5, 0.25}) {
    const BytesPerSecond rate = share * healthy.nic.bandwidth;
    all.push_back({cause::OtherCards{healthy.name, rate, healthy.nic.bandwidth, healthy.nic.count},
                   healthy, profile});
    all.back().machine.nic.bandwidth = rate;
  }
}

/// Other ways between the nodes: TCP, and copies through host memory.
void add_detours(std::vector<Setup>& all, const Machine& healthy, const Profile& profile) {
  const int rails = rails_of(healthy);
  if (healthy.fabric() != Fabric::tcp) {
    const bool efa = healthy.fabric() != Fabric::rdma;
    Setup tcp{cause::TcpForRdma{true}, over_ena(rails > 1 ? with_rails(healthy, 1) : healthy),
              profile};
    if (rails > 1) fewer_channels(tcp.profile, 1, rails);
    Nic& nic = tcp.machine.nic;
    const Seconds ena = nic.latency;
    nic.gpudirect = false;
    nic.latency = std::max(healthy.nic.latency, ena);
    if (auto& latency = tcp.profile.of(PathClass::network).latency)
      latency->value = std::max(latency->value, ena);
    // How much of a card TCP fills depends on flows and cores.
    if (nics_a_switch(healthy) > 1) {
      all.push_back(tcp);
      all.back().kind = cause::TcpForRdma{false};
      tcp.machine = with_nics_a_switch(std::move(tcp.machine), 1);
    }
    // Sockets of one process rarely fill more than a card of 100 Gb/s. Assumed.
    if (!efa) nic.bandwidth = std::min(nic.bandwidth, BytesPerSecond{12.5e9});
    for (const int part : efa ? std::vector{1, 2, 4, 16} : std::vector{1, 4, 16, 40}) {
      all.push_back(tcp);
      all.back().machine.nic.bandwidth = tcp.machine.nic.bandwidth / part;
    }
  }
  if (healthy.nic.gpudirect && healthy.host) {
    all.push_back({cause::HostBounce{}, healthy, profile});
    all.back().machine.nic.gpudirect = false;
  }
}

void add_slow_messages(std::vector<Setup>& all, const Machine& healthy, const Profile& profile) {
  for (const int k : {2, 4, 8}) {
    all.push_back({cause::SlowMessages{k}, healthy, profile});
    all.back().machine.nic.latency = k * healthy.nic.latency;
    if (auto& latency = all.back().profile.of(PathClass::network).latency)
      latency->value = k * latency->value;
    for (Protocol& protocol : all.back().profile.protocols)
      if (protocol.net_hop) protocol.net_hop->value = k * protocol.net_hop->value;
  }
}

/// What NCCL_ALGO holds NCCL to, or, on several nodes, may hold it to; only all-reduces have trees.
void add_forced_algorithm(std::vector<Setup>& all, const NcclFacts& log, Collective collective,
                          const Machine& healthy, const Profile& profile, int nodes) {
  if (collective != Collective::all_reduce) return;
  constexpr NcclAlgorithm kRing = NcclAlgorithm::ring, kTree = NcclAlgorithm::double_tree;
  const auto forced = algorithm_forced_by(log, collective);
  // NCCL before 2.4 ran on V100 and earlier.
  const bool of_old = healthy.gpu && !healthy.gpu->bf16;
  // nvls.cc: not among one or two GPUs of a node.
  const bool nvls = healthy.nvlink && healthy.nvlink->multicast && healthy.gpus() > 2;
  const bool possible = !forced && nodes > 1;
  if (possible || forced == kRing)
    all.push_back({cause::RingForTree{of_old, nvls}, healthy, profile, kRing});
  if (possible || forced == kTree)
    all.push_back({cause::TreeForRing{nvls}, healthy, profile, kTree});
}

/// Whether sizes are small enough for what NCCL chooses to show in how times grow: large ones alone
/// are slower by a factor, which any cause would explain.
bool tells_choices(const NcclTable& table) {
  return std::any_of(table.rows.begin(), table.rows.end(),
                     [](const NcclRow& r) { return r.bytes < CheckLimits::one_protocol_from; });
}

}  // namespace

std::vector<Setup> suspects(const NcclTable& table, Collective collective, const Machine& healthy,
                            const Profile& profile, int nodes, MachineBy known_by) {
  NcclFacts log = table.facts;
  if (const auto listed = log.cards_listed();
      !log.nics && listed && listed->exact && healthy.nic.efa == 0)
    log.nics = listed->least;
  std::vector<Setup> all;
  add_other_instances(all, table, healthy, !table.gpu.empty() || nodes > CheckLimits::few_nodes);
  if (nodes == 1 || log.setting("NCCL_P2P_DISABLE") == "1" || log.over_shm)
    add_inside_node(all, healthy, profile);
  const bool says_no_nvls = log.setting("NCCL_NVLS_ENABLE") == "0" || !log.nvls.value_or(true);
  // One algorithm that is forced is a suspect of its own, and may be why there is no NVLS.
  if (collective == Collective::all_reduce && !algorithm_forced_by(log, collective) &&
      (nodes <= CheckLimits::few_nodes || says_no_nvls))
    add_no_nvls(all, healthy, profile);
  if (nodes == 1) add_half_nvlink(all, healthy, profile);
  add_forced_channels(all, log, healthy, profile, nodes);
  if (const auto forced = nccl_protocol_forced(log.setting("NCCL_PROTO")))
    all.push_back({cause::OneProtocol{*forced}, healthy, profile, std::nullopt, *forced});
  add_buffer(all, log, healthy, profile);
  if (nodes > 1) {
    if (log.setting("NCCL_PROTO").empty() && nodes <= CheckLimits::few_nodes &&
        tells_choices(table))
      add_left_over_protocol(all, healthy, profile, nodes);
    if (known_by == MachineBy::gpu_name) add_other_cards(all, log, healthy, profile);
    add_fewer(all, log, healthy, profile, nodes);
    add_slow_link(all, healthy, profile, nodes);
    add_slow_cards(all, log, healthy, profile);
    add_detours(all, healthy, profile);
    add_slow_messages(all, healthy, profile);
  }
  for (Setup& s : all) s.algorithm = algorithm_forced_by(log, collective);
  if (tells_choices(table) || algorithm_forced_by(log, collective))
    add_forced_algorithm(all, log, collective, healthy, profile, nodes);
  return all;
}

std::optional<NcclAlgorithm> algorithm_forced_by(const NcclFacts& facts, Collective collective) {
  const auto forced = nccl_algorithm_forced(facts.setting("NCCL_ALGO"));
  return forced && find_algorithm(to_text(*forced), collective) ? forced : std::nullopt;
}

Setup latency_floor(cause::LatencyFloor floor, const Machine& healthy, const Profile& profile) {
  Setup setup{floor, healthy, profile};
  setup.profile.launch = Estimated<Seconds>{
      value_or(profile.launch, Seconds{}) + floor.more, NumberOrigin::assumed, {}, kSuspicion};
  return setup;
}

Fault fault_of(const CauseKind& kind) {
  struct {
    Fault operator()(std::monostate) const { return Fault::none; }
    Fault operator()(const cause::OtherInstance& c) const {
      return c.other_gpu ? Fault::gpu : Fault::instance;
    }
    Fault operator()(const cause::OtherGpu&) const { return Fault::instance; }
    Fault operator()(cause::NoNvls) const { return Fault::no_nvls; }
    Fault operator()(cause::PcieForNvlink) const { return Fault::pcie; }
    Fault operator()(cause::HalfNvlink) const { return Fault::nvlink; }
    Fault operator()(const cause::HeldChannels&) const { return Fault::channels; }
    Fault operator()(cause::TwoChannels) const { return Fault::channels; }
    Fault operator()(cause::SmallBuffer) const { return Fault::buffer; }
    Fault operator()(cause::FewNics) const { return Fault::rails; }
    Fault operator()(cause::SlowPcieLink) const { return Fault::link; }
    Fault operator()(cause::SlowCards) const { return Fault::cards; }
    Fault operator()(const cause::OtherCards&) const { return Fault::cards; }
    Fault operator()(cause::TcpForRdma) const { return Fault::sockets; }
    Fault operator()(cause::HostBounce) const { return Fault::bounce; }
    Fault operator()(cause::SlowMessages) const { return Fault::latency; }
    Fault operator()(cause::LatencyFloor) const { return Fault::floor; }
    Fault operator()(cause::RingForTree) const { return Fault::algorithm; }
    Fault operator()(cause::TreeForRing) const { return Fault::algorithm; }
    Fault operator()(const cause::OneProtocol&) const { return Fault::protocol; }
    Fault operator()(cause::OtherChoices) const { return Fault::algorithm; }
  } to_fault;
  return std::visit(to_fault, kind);
}

bool have_one_remedy(const CauseKind& a, const CauseKind& b) {
  const auto of_untold_channels = [](const CauseKind& kind) {
    const auto* const held = std::get_if<cause::HeldChannels>(&kind);
    return held ? held->setting.empty() : std::holds_alternative<cause::TwoChannels>(kind);
  };
  if (of_untold_channels(a) && of_untold_channels(b)) return true;
  if (a.index() != b.index()) return false;
  const auto* const other = std::get_if<cause::OtherInstance>(&a);
  if (!other) return true;
  const auto& another = std::get<cause::OtherInstance>(b);
  const Catalogue catalogue;  // of two with the same links the better one is named alone
  return *other == another || same_links(catalogue.load(other->is), catalogue.load(another.is));
}

}  // namespace foreduce
