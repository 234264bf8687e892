// What a log says for a suspect, and against it.
#include <algorithm>
#include <set>

#include "scenarios/validation/check_limits.hpp"
#include "scenarios/validation/nccl_words.hpp"
#include "scenarios/validation/suspects.hpp"
#include "topologies/graph.hpp"

namespace foreduce {
namespace {

/// Whether NCCL_NET_GDR_LEVEL leaves no card near enough: LOC, or 0 of old. Of PIX to SYS the
/// topology decides (NCCL's docs, env.html).
bool forbids_gpudirect(const std::string& level) {
  return nccl_words::lower(level) == "loc" || level == "0";
}

/// Cards on the rails that its GPUs use: of fewer GPUs than cards, not all.
int cards_of_gpus(const Machine& machine) {
  const NodeGraph graph(machine);
  std::set<int> rails;
  for (int g = 0; g < machine.gpus(); ++g) rails.insert(graph.rail_of(g));
  return machine.nic.count * static_cast<int>(rails.size()) / std::max(1, graph.rails());
}

/// Whether connections of every host go by so many cards.
bool all_cards_in_use(const NcclFacts& log, int cards) {
  return !log.cards_in_use.empty() &&
         std::all_of(log.cards_in_use.begin(), log.cards_in_use.end(), [cards](const auto& host) {
           return static_cast<int>(host.second.size()) >= cards;
         });
}

/// Whether NCCL_ALGO rules NVLS out: "Ring,Tree" does, "^Ring" and a list with NVLS do not.
bool forbids_nvls(const std::string& algorithms) {
  const std::string list = nccl_words::lower(algorithms);
  const bool named = list.find("nvls") != std::string::npos;
  return !list.empty() && list.starts_with('^') == named;
}

}  // namespace

std::optional<Evidence> evidence_for(const NcclFacts& log, const Setup& s, const Machine& healthy) {
  const auto set = [&](const char* name) -> std::optional<Evidence> {
    std::string value = log.setting(name);
    if (value.empty()) return std::nullopt;
    return evidence::Setting{name, std::move(value)};
  };
  switch (s.fault()) {
    case Fault::sockets:
      if (log.no_infiniband && healthy.nic.efa == 0) return evidence::Line::no_infiniband_card;
      if (log.plugin_over_tcp) return evidence::Line::libfabric_tcp;
      if (log.network == NcclNetwork::sockets) return evidence::Line::sockets;
      if (nccl_words::lower(log.setting("NCCL_NET")) == "socket") return set("NCCL_NET");
      if (log.setting("NCCL_IB_DISABLE") == "1" && healthy.nic.efa == 0)
        return set("NCCL_IB_DISABLE");
      return std::nullopt;
    case Fault::rails:
      if (const auto listed = log.cards_listed();  // which EFA's plugin does not read
          !log.nics && listed && healthy.nic.efa == 0 && listed->least == s.machine.nic.count)
        return set("NCCL_IB_HCA");
      if (!log.nics || *log.nics >= cards_of_gpus(healthy)) return std::nullopt;
      return evidence::Nics{*log.nics, cards_of_gpus(healthy),
                            log.most_nics == log.nics ? "" : log.nics_host,
                            log.most_nics.value_or(*log.nics)};
    case Fault::cards:
      if (std::holds_alternative<cause::OtherCards>(s.kind)) return std::nullopt;
      return evidence::CardRate{s.machine.nic.bandwidth};
    case Fault::bounce:
      if (log.gpudirect && !*log.gpudirect)
        return evidence::NoGpudirect{log.hosts_without_gpudirect(), log.too_far};
      return forbids_gpudirect(log.setting("NCCL_NET_GDR_LEVEL")) ? set("NCCL_NET_GDR_LEVEL")
                                                                  : std::nullopt;
    case Fault::channels: {
      // Half of the usual number is another release's choice.
      const double usual = s.profile.channels ? s.profile.channels->value : 0;
      // A GPU alone on its node has as few as its card takes.
      if (log.channels && healthy.gpus() > 1 && (*log.channels <= 2 || 4 * *log.channels <= usual))
        return evidence::Channels{*log.channels};
      // A limit says nothing of fewer channels than it leaves.
      const int held = s.channels > 0 ? s.channels : 2;
      for (const char* name : kMostChannelsSettings)
        if (const auto most = nccl_words::small(log.setting(name)); most && *most <= held)
          return set(name);
      return std::nullopt;
    }
    case Fault::algorithm:  // a list leaves NCCL a choice
      if (algorithm_forced_by(log, Collective::all_reduce) != s.algorithm) return std::nullopt;
      return set("NCCL_ALGO");
    case Fault::protocol: return set("NCCL_PROTO");
    case Fault::buffer: return set("NCCL_BUFFSIZE");
    case Fault::pcie:
      if (log.setting("NCCL_P2P_DISABLE") == "1") return set("NCCL_P2P_DISABLE");
      if (log.over_shm) return evidence::Line::shared_memory;
      return std::nullopt;
    case Fault::no_nvls:
      if (log.setting("NCCL_NVLS_ENABLE") == "0") return set("NCCL_NVLS_ENABLE");
      if (log.nvls && !*log.nvls) return evidence::Line::no_multicast;
      // A list may lack it; one algorithm is a suspect of its own.
      return algorithm_forced_by(log, Collective::all_reduce) ||
                     !forbids_nvls(log.setting("NCCL_ALGO"))
                 ? std::nullopt
                 : set("NCCL_ALGO");
    default: return std::nullopt;
  }
}

bool contradicted(const NcclFacts& log, const Setup& s, const Machine& healthy) {
  const bool sockets = log.network == NcclNetwork::sockets;
  switch (s.fault()) {
    case Fault::sockets:
      // A plugin that found its cards may fail later, and NCCL goes on over sockets.
      return log.network == NcclNetwork::efa || log.network == NcclNetwork::infiniband ||
             (log.nics.has_value() && !log.no_infiniband && !sockets);
    case Fault::bounce: return sockets || (log.gpudirect && *log.gpudirect);
    case Fault::channels:
      return sockets || (s.channels == 0 && log.channels && *log.channels > 2) ||
             log.least_channels > std::max(2, s.channels);
    case Fault::rails:
      return sockets || (healthy.nic.count > 1 && all_cards_in_use(log, cards_of_gpus(healthy)));
    case Fault::cards:
    case Fault::link: return sockets;
    case Fault::no_nvls:
      return log.nvls && *log.nvls && log.setting("NCCL_NVLS_ENABLE") != "0" &&
             !forbids_nvls(log.setting("NCCL_ALGO"));
    case Fault::latency:
    case Fault::floor: return sockets;  // both are of a cluster that talks over EFA
    default: return false;
  }
}

}  // namespace foreduce
