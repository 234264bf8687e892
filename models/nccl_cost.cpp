#include "models/nccl_cost.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "input/csv.hpp"
#include "input/holds.hpp"

namespace foreduce {
namespace {

using Row = NcclNumbers;
using enum NcclProtocol;
/// Of a row with a number for each protocol.
std::size_t column_of(NcclProtocol p) { return static_cast<std::size_t>(p); }
/// PAT: base, share of a network hop for each doubling, us a rank, share of the bandwidth.
enum { pat_base, pat_hop, pat_rank, pat_efficiency };

/// The channels and rates that NCCL's search finds. Between nodes they go with the NICs, up to what
/// NVLink carries; without NVLink a path has two channels and shares the narrower of PCIe and NIC.
NcclGraphs graphs_of(const NcclGeneration& g, const Machine& machine, const Layout& layout) {
  const int nodes = layout.nodes;
  const double nics = machine.nic.count * machine.nic.bandwidth.value / 1e9,
               pcie = machine.pcie ? machine.pcie->bandwidth.value / 1e9 : nics;
  // Few GPUs of a node do not reach all of its cards.
  const double network = std::min(nics, pcie * std::max(1, layout.per_node()));
  if (!machine.nvlink) {
    const double each = (nodes > 1 ? std::min(pcie, network) : pcie) / 2;
    return {{2, each, each}, {2, each, each}, {0, 0, 0}};
  }
  if (nodes <= 1) return g.one_node;
  NcclGraphs graphs = g.nodes;
  for (auto [row, inside] :
       {std::pair{&graphs.ring, &g.one_node.ring}, std::pair{&graphs.tree, &g.one_node.tree},
        std::pair{&graphs.nvls, &g.one_node.nvls}})
    for (const std::size_t rate : {1U, 2U}) {
      const double most = (*row)[0] > 0 ? (*inside)[0] * (*inside)[1] / (*row)[0] : 0;
      (*row)[rate] = std::min((*row)[rate] * network / g.network, std::max(most, (*row)[rate]));
    }
  return graphs;
}

/// A region of the plugin's tuner: a polygon of (log2 bytes, log2 ranks).
struct Region {
  std::string set, collective, algorithm;
  NcclProtocol protocol = simple;
  int per_node = 0;
  std::vector<std::array<double, 2>> corners;

  /// Inside or on the edge: even-odd rule, an edge counts as inside.
  bool contains(double x, double y) const {
    bool inside = false;
    for (std::size_t i = 0, j = corners.size() - 1; i < corners.size(); j = i++) {
      const auto [xi, yi] = corners[i];
      const auto [xj, yj] = corners[j];
      const double cross = (xj - xi) * (y - yi) - (yj - yi) * (x - xi);
      if (std::abs(cross) < 1e-9 && std::min(xi, xj) - 1e-9 <= x && x <= std::max(xi, xj) + 1e-9 &&
          std::min(yi, yj) - 1e-9 <= y && y <= std::max(yi, yj) + 1e-9)
        return true;
      if ((yi > y) != (yj > y) && x < (xj - xi) * (y - yi) / (yj - yi) + xi) inside = !inside;
    }
    return inside;
  }
};

const std::vector<Region>& regions() {
  static const std::vector<Region> all = [] {
    std::vector<Region> found;
    const Csv table = Csv::load(data_folder() / "models" / "ofi_tuner_regions.csv");
    const auto set = table.column("platform"), ppn = table.column("ppn"),
               what = table.column("collective"), algorithm = table.column("algorithm"),
               protocol = table.column("protocol"), corners = table.column("vertices_bytes@ranks");
    for (const Csv::Row& r : table.rows) {
      const auto named = nccl_protocol_forced(r.cells[protocol]);
      if (!named) table.fail(r, protocol, "NCCL has no such protocol");
      Region& region = found.emplace_back(Region{r.cells[set],
                                                 r.cells[what],
                                                 r.cells[algorithm],
                                                 *named,
                                                 static_cast<int>(table.number(r, ppn)),
                                                 {}});
      std::string path = r.cells[corners];
      std::erase(path, '*');  // a corner that the plugin extrapolates itself
      for (std::size_t at = 0; at < path.size();) {
        const std::size_t end = std::min(path.find(';', at), path.size()),
                          split = path.find('@', at);
        double bytes = 0, ranks = 0;
        std::string why;
        if (split >= end || !parse_number(path.substr(at, split - at), bytes, why))
          table.fail(r, corners, why.empty() ? "a corner is bytes@ranks" : why);
        std::string count = path.substr(split + 1, end - split - 1);
        std::erase(count, '+');  // 1.04858e+06
        if (!parse_number(count, ranks, why)) table.fail(r, corners, why);
        region.corners.push_back({std::log2(std::max(bytes, 1.0)), std::log2(ranks)});
        at = end + 1;
      }
    }
    return found;
  }();
  return all;
}

NcclAlgorithm ours(const std::string& theirs, int nodes) {
  return theirs == "TREE"   ? NcclAlgorithm::double_tree
         : theirs == "PAT"  ? NcclAlgorithm::pat
         : theirs == "RING" ? NcclAlgorithm::ring
         : nodes > 1        ? NcclAlgorithm::nvls_tree
                            : NcclAlgorithm::nvls;
}

/// As the tuner's table names it; empty where it has none.
std::string tuner_name(Collective collective) {
  return collective == Collective::all_reduce       ? "AllReduce"
         : collective == Collective::reduce_scatter ? "ReduceScatter"
         : collective == Collective::all_gather     ? "AllGather"
                                                    : "";
}

/// NCCL's model of one algorithm with one protocol, us; infinite if it may not be used. The numbers
/// in its formulas are literals of the same file of NCCL's (src/graph/tuning.cc, see nccl.yaml).
struct CostModel {
  const NcclConstants& c;
  const NcclGeneration& g;
  NcclGraphs graphs;
  double nodes, per_node, ranks, reported;
  bool nvlink, low_latency_128, switch_reduces, amd, x86;
  Collective collective;

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  double time(NcclAlgorithm algorithm, NcclProtocol p, double bytes) const {
    if (p == ll128 && (!low_latency_128 || (c.ll128_on_volta && g.name != "Volta"))) return kNever;
    switch (algorithm) {
      case NcclAlgorithm::nvls:
      case NcclAlgorithm::nvls_tree: return p == simple ? by_nvls(algorithm, bytes) : kNever;
      case NcclAlgorithm::pat: return p == simple ? by_pat(bytes) : kNever;
      case NcclAlgorithm::ring: return by_ring(p, bytes);
      case NcclAlgorithm::double_tree: return by_tree(p, bytes);
      case NcclAlgorithm::pairwise: break;
    }
    return kNever;
  }

 private:
  /// Of caps for {one node, two nodes, more}.
  std::size_t column() const { return nodes <= 1 ? 0 : nodes <= 2 ? 1 : 2; }
  double depth() const { return std::floor(std::log2(std::max(1.0, nodes))); }
  /// GB/s of a graph's channels together.
  double width(const Row& graph) const {
    const double all = graph[0] * (nodes <= 2 ? graph[1] : graph[2]);
    return g.most > 0 ? std::min(all, g.most) : all;
  }
  /// Between nodes the CPU tells which generation's limit of LL holds.
  double most_by_ll() const {
    return nodes > 1 ? c.generation(amd ? c.ll_max_amd : c.ll_max_others).ll_max[column()]
                     : g.ll_max[column()];
  }
  /// What NCCL takes of a tree's bandwidth, in so many steps of the table (getTime() in tuning.cc:
  /// 23 for trees, 24 for NVLS trees).
  double correction(NcclProtocol p, double bytes, double most_steps) const {
    const Row& steps = c.correction[column_of(p)];
    const double step = std::floor(std::log2(bytes / 64));
    return step >= 0 && step < most_steps ? steps[static_cast<std::size_t>(step)] : 1;
  }
  /// A hop inside a node.
  double inside(NcclProtocol p, const Row NcclHops::*of) const {
    const double own = ((nvlink ? c.hop_nvlink : c.hop_pcie).*of)[column_of(p)];
    return nodes > 1 && p == ll ? own * c.ll_inside : own;
  }
  /// A hop over the network.
  double across(NcclProtocol p, const Row NcclHops::*of) const {
    const double own = (c.hop_net.*of)[column_of(p)];
    if (c.reported_use == NcclReportedUse::added) return own + reported * (p == simple ? 2 : 1);
    return c.reported_use == NcclReportedUse::instead && reported > 0 ? reported : own;
  }

  double by_nvls(NcclAlgorithm algorithm, double bytes) const {
    // nvls.cc: not among one or two GPUs of a node.
    if (!switch_reduces || per_node <= 2 || (algorithm == NcclAlgorithm::nvls) != (nodes == 1) ||
        c.no_nvls || (nodes > 1 && c.no_nvls_tree) ||
        (collective != Collective::all_reduce && (c.nvls_sums_only || per_node > c.nvls_heads)))
      return kNever;
    const double channels = graphs.nvls[0];
    if (c.nvls_chain > 0 && nodes > 1) {
      const double chain =
          channels * graphs.nvls[nodes <= 2 ? 1 : 2] * c.nvls_chain * nodes / (2 * (nodes - 1));
      return c.nvls_tree_hop[0] + 2 * (nodes - 1) * c.nvls_tree_hop[1] + bytes / (1e3 * chain);
    }
    const double in_node = graphs.nvls[1] * g.nvls_efficiency * (channels - 1) / channels *
                           (collective == Collective::all_reduce ? 2 : (per_node - 1) / per_node);
    double each =
        nodes == 1
            ? in_node
            : std::min({in_node, graphs.nvls[2] * (nodes <= 2 ? 2 : 1), g.nvls_tree[column()]});
    if (c.nvls_by_graph)
      each = std::min(graphs.nvls[1], nodes == 1   ? graphs.nvls[1]
                                      : nodes <= 2 ? graphs.nvls[2]
                                                   : graphs.nvls[2] / 2);
    double rate = channels * each;
    if (c.nvls_by_graph) rate *= c.nvls_share;
    else if (collective == Collective::all_reduce) rate *= ranks / (2 * (ranks - 1));
    if (algorithm == NcclAlgorithm::nvls_tree && g.nvls_tree_corrected_on_x86 && x86)
      rate *= correction(simple, bytes, 24);
    const double latency =
        nodes == 1 ? c.nvls_hop[0]
                   : c.nvls_tree_hop[0] + 2 * depth() * (c.nvls_tree_hop[1] + 2 * reported);
    return latency + bytes / (1e3 * rate);
  }

  double by_pat(double bytes) const {
    if (per_node != 1 || nodes < 2 || c.no_pat) return kNever;
    return c.pat[pat_base] + depth() * c.pat[pat_hop] * across(simple, &NcclHops::tree) +
           ranks * c.pat[pat_rank] + bytes / (1e3 * width(graphs.tree) * c.pat[pat_efficiency]);
  }

  double by_ring(NcclProtocol p, double bytes) const {
    const bool both_ways = collective == Collective::all_reduce;
    const double steps = both_ways                             ? 2 * (ranks - 1)
                         : collective == Collective::broadcast ? ranks
                                                               : ranks - 1;
    double rate = width(graphs.ring);
    if (p == ll) rate = std::min(most_by_ll(), rate * c.ring_ll_share);
    const bool alone = per_node == 1;
    if (p == ll128)
      rate = std::min(
          rate * (alone && c.lone_as_ring ? 0.7 : 0.92),
          c.ll128_ring_most > 0 ? c.ll128_ring_most : graphs.ring[0] * g.ll128_ring[column()]);
    rate *= ranks / steps;
    double latency = c.base.ring[column_of(p)];
    if (collective == Collective::broadcast) {
      latency += nodes > 1 ? c.hop_net.ring[column_of(p)] : inside(p, &NcclHops::ring);
    } else {
      const double crossings = c.hop_more && both_ways && nodes > 1
                                   ? 2 * nodes
                                   : (both_ways ? 2 : 1) * (nodes - 1),
                   posting =
                       nodes > 1 && !c.no_post_overhead ? (amd ? 2 : 1) * (p == simple ? 3 : 1) : 0;
      const bool as_tree = alone && !c.lone_as_ring;
      const double crossing = across(p, as_tree ? &NcclHops::tree : &NcclHops::ring),
                   hop = std::max(inside(p, &NcclHops::ring), posting);
      latency += c.ring_hops_alike && nodes > 1 ? steps * crossing
                                                : (steps - crossings) * hop + crossings * crossing;
    }
    const double plateau_from =
        c.plateau_a_rank.value > 0 ? c.plateau_a_rank.value * ranks : 64 * graphs.ring[0] * ranks;
    if (both_ways && p == simple && nodes > 1 && bytes >= plateau_from) latency *= g.ring_plateau;
    return latency + bytes / (1e3 * rate);
  }

  double by_tree(NcclProtocol p, double bytes) const {
    const Row& most = p == ll128 && !g.ll128_tree_most.empty() ? g.ll128_tree_most : g.tree_most;
    double rate = std::min(width(graphs.tree) * c.tree_share,
                           most.empty() ? graphs.tree[0] * g.tree[column()] : most[column()]);
    if (p == ll) rate = std::min(rate * c.tree_ll_share, most_by_ll());
    if (p == ll128)
      rate = std::min(rate * (nodes == 1 ? 7.0 / 9 : c.tree_ll128_share),
                      graphs.tree[0] * g.ll128_tree[column()]);
    rate *= 0.5 * correction(p, bytes, 23);
    const double latency =
        c.base.tree[column_of(p)] +
        2 * ((per_node - 1) * inside(p, &NcclHops::tree) + depth() * across(p, &NcclHops::tree));
    return latency + bytes / (1e3 * rate);
  }
};

/// Bytes below which NCCL 2.4 takes trees (src/init.cc, ncclTreeThreshold; its times are in us, its
/// rates in bytes a us).
double tree_threshold(int nodes, int ranks, double channels, bool nvlink) {
  const double ring_rate = nvlink ? 5000 * channels : 5000,
               tree_rate = nvlink ? ring_rate * 3 / 4 * (nodes == 2 ? 2 : 1) : ring_rate * 2 / 3;
  const double ring_latency = 6 * (ranks - 1),
               tree_latency = 15 * std::floor(std::log2(std::max(1, nodes))) +
                              4 * (ranks / std::max(1, nodes) - 1);
  if (nodes < 2 || ring_latency <= tree_latency) return 0;
  return tree_rate > ring_rate
             ? std::numeric_limits<double>::infinity()
             : ring_rate * tree_rate / (ring_rate - tree_rate) * (ring_latency - tree_latency);
}

/// By size, as NCCL 2.4 does: a tree below its threshold, and LL below the limit of either.
NcclChoice by_size(const Machine& machine, const Layout& layout, const Profile& profile,
                   Bytes bytes, const NcclForced& forced, Collective collective,
                   const NcclConstants& c) {
  const double channels = value_or(profile.channels_over(layout.nodes), 1.0);
  const bool tree = collective == Collective::all_reduce &&
                    bytes.value < tree_threshold(layout.nodes, layout.workers, channels,
                                                 machine.nvlink.has_value());
  const NcclAlgorithm a =
      forced.algorithm.value_or(tree ? NcclAlgorithm::double_tree : NcclAlgorithm::ring);
  const bool ring = a == NcclAlgorithm::ring;
  if (forced.protocol) return NcclChoice{a, *forced.protocol, "forced"};
  const Bytes most =
      ring ? c.ll_up_to->ring * channels * layout.workers : c.ll_up_to->tree * channels;
  const Protocol* low = profile.protocol(to_text(ll));
  const bool low_latency = bytes <= most && low && !(layout.nodes > 1 && low->one_node);
  return NcclChoice{a, low_latency ? ll : simple, fmt::format("the limits of NCCL {}", c.release)};
}

/// By aws-ofi-nccl's tuner, on more than two nodes of an instance type that it knows.
std::optional<NcclChoice> by_tuner(const Machine& machine, const Layout& layout, Bytes bytes,
                                   Collective collective) {
  if (layout.nodes <= 2 || machine.nic.efa == 0) return std::nullopt;
  for (const NcclTuner& t : nccl_constants().tuner)
    if (holds(t.instances, machine.type()))
      for (const Region& r : regions())
        if (r.set == t.regions && r.collective == tuner_name(collective) &&
            r.per_node == layout.per_node() &&
            r.contains(std::log2(std::max(1.0, bytes.value)), std::log2(layout.workers)))
          return NcclChoice{ours(r.algorithm, layout.nodes), r.protocol, "aws-ofi-nccl's tuner"};
  return std::nullopt;
}

/// Whether a host's processor, as a machine file names it, is one of Arm's architecture.
bool is_arm(const std::string& cpu) {
  constexpr const char* kArm[] = {"Grace", "Graviton", "Neoverse", "Altra", "ARM", "Arm"};
  return std::any_of(std::begin(kArm), std::end(kArm),
                     [&](const char* name) { return cpu.find(name) != std::string::npos; });
}

void check_forced_protocol(const Profile& profile, NcclProtocol protocol) {
  if (profile.protocol(to_text(protocol))) return;
  std::vector<std::string> known;
  for (const Protocol& p : profile.protocols) known.push_back(p.name);
  throw input_error(fmt::format("profile {} has no protocol '{}'", profile.name, to_text(protocol)),
                    fmt::format("it has {}", fmt::join(known, ", ")));
}

void check_forced_algorithm(Collective collective, NcclAlgorithm algorithm) {
  const std::vector<NcclAlgorithm> known = nccl_algorithms_for(collective);
  if (holds(known, algorithm)) return;
  std::vector<std::string> names;
  for (const NcclAlgorithm a : known) names.push_back(to_text(a));
  throw input_error(fmt::format("NCCL has no {} by {}", title_of(collective), to_text(algorithm)),
                    fmt::format("it has {}", fmt::join(names, ", ")));
}

/// The latency that the network's plugin reports, us; 0, NCCL's own default, for a network that
/// says nothing.
double reported_latency(const NcclConstants& c, const Machine& machine, const NcclForced& forced) {
  double reported = 0;
  for (const NcclReported& r : c.reported)
    if (machine.nic.efa > 0 && (r.instances.empty() || holds(r.instances, machine.type())))
      reported = forced.reported.value_or(r.latency).value * 1e6;
  return reported;
}

/// By the cost model: of what is not forced and can run, what takes the least time.
NcclChoice by_cost(const CostModel& model, const Profile& profile, Bytes bytes,
                   const NcclForced& forced) {
  std::optional<NcclChoice> best;
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::string> able;
  for (const NcclAlgorithm a : nccl_algorithms_for(model.collective))
    for (const NcclProtocol p : {ll, ll128, simple}) {
      const Protocol* protocol = profile.protocol(to_text(p));
      if (!protocol || (model.nodes > 1 && protocol->one_node)) continue;
      const double time = model.time(a, p, std::max(1.0, bytes.value));
      if (time < CostModel::kNever)
        able.push_back(fmt::format("{} with {}", to_text(a), to_text(p)));
      if (forced.algorithm.value_or(a) != a || forced.protocol.value_or(p) != p) continue;
      if (time < least) {
        least = time;
        best = {a, p, fmt::format("the cost model of NCCL {}", model.c.release)};
      }
    }
  if (!best)
    throw input_error(fmt::format("NCCL{} cannot run {}{}{} here",
                                  forced.release.empty() ? "" : " " + forced.release,
                                  forced.algorithm ? to_text(*forced.algorithm) : "anything",
                                  forced.protocol ? " with " : "",
                                  forced.protocol ? to_text(*forced.protocol) : ""),
                      able.empty() ? "" : fmt::format("it can run {}", fmt::join(able, ", ")));
  return *best;
}

/// What goes to other GPUs of a node, not summed, goes by LL while there is little for each; what
/// crosses the network goes by Simple.
NcclProtocol protocol_to_peers(const NcclConstants& c, const Layout& layout, const Profile& profile,
                               Bytes bytes) {
  const Bytes each = bytes / std::max(1, layout.workers);
  if (layout.nodes == 1 && profile.protocol(to_text(ll)) && each <= c.p2p_ll) return ll;
  return value_named<NcclProtocol>(profile.protocols.back().name).value_or(simple);
}

NcclChoice choose(const Site& site, Bytes bytes, const NcclForced& forced, Collective collective) {
  const Layout& layout = site.layout;
  const Profile& profile = *site.profile;
  if (forced.protocol) check_forced_protocol(profile, *forced.protocol);
  const Machine& machine = site.cluster.weakest().machine();
  if (!machine.gpu) throw input_error("nccl needs GPUs");
  const NcclConstants& c = nccl_constants(profile, forced);
  const int nodes = layout.nodes, per_node = layout.per_node();
  if (forced.algorithm) check_forced_algorithm(collective, *forced.algorithm);
  if (collective == Collective::all_to_all && c.no_p2p)
    throw input_error(fmt::format("NCCL {} has no sends and receives", c.release),
                      "those since 2.7 have them");
  if (collective == Collective::all_to_all)
    return {NcclAlgorithm::pairwise,
            forced.protocol.value_or(protocol_to_peers(c, layout, profile, bytes)),
            "sends and receives"};
  if (c.ll_up_to) return by_size(machine, layout, profile, bytes, forced, collective, c);
  if (!forced.algorithm && !forced.protocol)
    if (auto choice = by_tuner(machine, layout, bytes, collective)) return *choice;

  const bool direct = nodes == 1 || machine.nic.gpudirect;
  const NcclGeneration& generation = c.generation_of(*machine.gpu);
  const CostModel model{
      c, generation, graphs_of(generation, machine, layout), static_cast<double>(nodes),
      static_cast<double>(per_node), static_cast<double>(layout.workers),
      reported_latency(c, machine, forced), machine.nvlink.has_value(),
      // A GPU alone reaches its own memory, which is as near as NVLink (graph/paths.cc).
      direct && (machine.nvlink.has_value() || per_node == 1), layout.switch_reduces,
      machine.host && machine.host->cpu.find("AMD") != std::string::npos,
      !machine.host || !is_arm(machine.host->cpu), collective};
  return by_cost(model, profile, bytes, forced);
}

}  // namespace

const NcclConstants& nccl_constants(const Profile& profile, const NcclForced& forced) {
  return nccl_constants(forced.release.empty() ? profile.nccl_release : forced.release);
}

NcclChoice nccl_choice(const Site& site, Bytes bytes, const NcclForced& forced,
                       Collective collective) {
  NcclChoice choice = choose(site, bytes, forced, collective);
  choice.collective = collective;
  return choice;
}

Bytes nccl_nvls_chunk(const Cluster& cluster, const Layout& layout) {
  const Row& limits = nccl_constants().nvls_chunk;
  const bool plugin = cluster.weakest().machine().nic.efa > 0;
  return Bytes{1024 * (plugin ? limits[1] : layout.nodes >= 4 ? 64 : limits[0])};
}

}  // namespace foreduce
