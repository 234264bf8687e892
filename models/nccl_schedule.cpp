#include "models/nccl_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/nccl_cost.hpp"

namespace foreduce {
namespace {

/// Whether NVSwitches reduce and multicast.
bool in_the_switch(const NcclChoice& choice) {
  return choice.algorithm == NcclAlgorithm::nvls || choice.algorithm == NcclAlgorithm::nvls_tree;
}

/// Into which NCCL divides a buffer (device.h: NCCL_STEPS).
constexpr double kSteps = 8;

/// Of a collective. Where the profile does not say, NCCL's search finds a ring a rail, and doubles
/// them (connect.cc).
double channels_of(const Profile& profile, const Layout& layout) {
  return value_or(profile.channels_over(layout.nodes),
                  2 * static_cast<double>(std::max<std::size_t>(1, layout.channels.size())));
}

/// Of the channels that all GPUs of a node have together, what so many of a group have. Between
/// nodes they go by the cards that these are near; below one NVSwitch each GPU has all of its
/// links.
double channel_share(const Machine& machine, int gpus, int nodes) {
  const bool by_switch = machine.nvlink && machine.nvlink->kind == NvLinkKind::through_switch;
  if (gpus <= 0 || gpus >= machine.gpus() || (nodes == 1 && by_switch)) return 1;
  return static_cast<double>(gpus) / machine.gpus();
}

/// What a channel or owner has of the data, in loops of so many chunks. The last loop takes what is
/// left, as in NCCL: data that fills two loops and a little takes hardly longer than two loops.
/// What is left is rounded down, because a chunk that is a little short could travel otherwise.
void cut_into(NcclCut& cut, double each, int loop) {
  const double loops = each / (loop * cut.chunk.value), whole = std::floor(loops),
               left = std::floor((loops - whole) * Segments::kFull);
  if (whole < 1) {
    cut.chunks = std::max(1.0, std::ceil(each / cut.chunk.value));
  } else {
    cut.chunks = loop * (left > 0 ? whole + 1 : whole);
    if (left > 0) cut.last = left;
  }
}

/// Chunks that are summed in the switch: smaller ones for smaller sizes (enqueue.cc).
void cut_for_switch(NcclCut& cut, const Layout& layout, Bytes most, Bytes bytes) {
  cut.chunk = std::min(cut.chunk, most);
  // NCCL has 32 heads a channel at most (NcclConstants::nvls_heads). Racks of 64 and 72 GB200 take
  // longer than is predicted; with the longer chunks of 32 heads they would be 2 to 4 % farther
  // off.
  const double heads = cut.channels * layout.per_node();
  const auto shrink = [&](std::initializer_list<std::array<double, 2>> steps) {
    for (const auto& [factor, to] : steps)
      if (bytes.value < factor * heads * cut.chunk.value)
        cut.chunk = std::min(cut.chunk, Bytes{to * 1024});
  };
  if (layout.nodes == 1) shrink({{64, 64}, {8, 32}, {2, 16}});
  else shrink({{32, 256}, {16, 128}, {4, 64}, {1, 32}});
  cut_into(cut, bytes.value / heads, 1);
}

/// A ring's chunks by Simple, of four steps each (device.h): they go out in two slices, so that a
/// rank can hand on the first while the second arrives. Of little data these are its halves, but
/// the first is a 32nd of two steps at least (prims_simple.h). In NCCL 2.4 it is two steps
/// (primitives.h), and where nothing is left for the second it is sent all the same (net.cc), as
/// p3dn's times show; those of two p4d with NCCL 2.9 do not.
void cut_into_slices(NcclCut& cut, double each, bool whole) {
  const double most = 2 * cut.chunk.value,
               slice = whole ? most : std::clamp(each / 2, most / 32, most);
  cut.slots /= 2;
  cut.chunk = Bytes{std::min(slice, each)};
  if (each >= 2 * slice || (each <= slice && !whole)) {
    cut_into(cut, each, 2);
  } else {
    cut.chunks = 2;
    cut.last = std::max(1.0, std::floor((each / cut.chunk.value - 1) * Segments::kFull));
  }
}

/// Shorter chunks while the pipeline of a tree would not be full (enqueue.cc). `each`: bytes of a
/// channel; `shorter`: by Simple, too.
void shorten_tree_chunks(NcclCut& cut, NcclProtocol protocol, const Layout& layout, double each,
                         bool shorter) {
  const auto halve = [&](double fewest, double floor) {
    while (each / cut.chunk.value < fewest && cut.chunk.value > floor) cut.chunk = cut.chunk / 2;
  };
  const double up = std::floor(std::log2(std::max(1, layout.nodes))),
               per_node = std::max(1, layout.per_node());
  if (protocol == NcclProtocol::simple && shorter) {
    const double depth = up + per_node - 1;
    halve(8 * depth, 131072);
    halve(4 * depth, 65536);
    halve(depth, 32768);
  } else if (protocol == NcclProtocol::ll128) {
    const double steps = 1 + up + 0.1 * per_node;
    halve(64 * steps / per_node, 131072);
    halve(16 * steps / per_node, 32768);
  }
}

}  // namespace

NcclCut nccl_cut(const Site& site, const NcclChoice& choice, Bytes bytes,
                 const NcclForced& forced) {
  const Layout& layout = site.layout;
  const Profile& profile = *site.profile;
  const NcclConstants& c = nccl_constants(profile, forced);
  const Protocol* protocol = profile.protocol(to_text(choice.protocol));
  if (!protocol)
    throw input_error(
        fmt::format("profile {} has no protocol '{}'", profile.name, to_text(choice.protocol)));
  // Each rank has a chunk of its own on every channel.
  const bool shared_out =
      choice.collective != Collective::broadcast &&
      (choice.algorithm == NcclAlgorithm::ring || choice.algorithm == NcclAlgorithm::pat ||
       choice.algorithm == NcclAlgorithm::pairwise);
  const double owners = shared_out ? layout.workers : 1;
  NcclCut cut;
  cut.channels = channels_of(profile, layout);
  cut.channels = std::max(1.0, cut.channels * channel_share(site.cluster.weakest().machine(),
                                                            layout.per_node(), layout.nodes));
  if (forced.channels > 0) cut.channels = forced.channels;
  cut.chunk = value_or(protocol->chunk, Bytes{1 << 20});
  if (forced.buffer.value > 0 && choice.protocol == NcclProtocol::simple)
    cut.chunk = forced.buffer / kSteps;
  cut.slots = value_or(protocol->slots, 0.0);
  if (in_the_switch(choice)) {
    if (forced.channels == 0)
      cut.channels = value_or(profile.channels_over(layout.nodes, SummedBy::switches), 16.0);
    cut_for_switch(cut, layout, nccl_nvls_chunk(site.cluster, layout), bytes);
    return cut;
  }
  // enqueue.cc: fewer channels for sizes that would leave a channel's 512 (LL128: 640) threads
  // without work.
  const double least =
      choice.protocol == NcclProtocol::ll
          ? 512.0 * 8 * (choice.algorithm == NcclAlgorithm::ring ? layout.workers : 1)
      : choice.protocol == NcclProtocol::ll128 ? 640.0 * 8
                                               : 512.0 * 64;
  cut.channels = std::clamp(std::floor(bytes.value / least), 1.0, cut.channels);
  const double each = bytes.value / cut.channels / owners;
  if (choice.algorithm == NcclAlgorithm::double_tree)
    shorten_tree_chunks(cut, choice.protocol, layout, each, c.shorter_tree_chunks);
  if (choice.algorithm == NcclAlgorithm::ring && choice.protocol == NcclProtocol::simple &&
      choice.collective != Collective::broadcast) {  // whose chunks are a step (collectives.h)
    cut_into_slices(cut, each, c.whole_slices);
    return cut;
  }
  cut_into(cut, each, 1);
  return cut;
}

Schedule nccl_schedule(const Site& site, Bytes bytes, const NcclForced& forced,
                       Collective collective) {
  const Layout& layout = site.layout;
  const std::shared_ptr<const Profile>& profile = site.profile;
  if (profile->protocols.empty())
    throw input_error(
        fmt::format("what NCCL would do on {} takes a profile with its protocols; '{}' has none",
                    site.cluster.weakest().machine().name, profile->name),
        "foreduce list profiles says which there are; where none is asked for it is the machine's, "
        "or with gpu.memory_bandwidth in the machine's file the nearest GPU's");
  const NcclChoice choice = nccl_choice(site, bytes, forced, collective);
  const NcclCut cut = nccl_cut(site, choice, bytes, forced);
  // Along a ring or straight, rather than up and down two trees.
  const bool ring = !in_the_switch(choice) && choice.algorithm != NcclAlgorithm::double_tree,
             in_switch = in_the_switch(choice);
  // A double tree's two halves and NVLS's heads share a channel of ours.
  const double ours = in_switch ? 1 : static_cast<double>(layout.channels.size());
  // Sends and receives of all peers go through the channels together.
  const double peers = choice.algorithm == NcclAlgorithm::pairwise && forced.channels > 0
                           ? std::max(1.0, layout.workers - 1.0)
                           : 1;
  const double each = cut.channels / (ring ? ours * peers : 2 * ours);
  // What goes up a tree and what comes down share a channel's threads, so each has half of its
  // rate; a ring's channel does one thing. On one node or two no rank has two children: there
  // LL128's threads, which are split between both directions, keep up with either (two p5, 4 to 16
  // MiB).
  const bool halved =
      !ring && !in_switch && !(choice.protocol == NcclProtocol::ll128 && layout.nodes <= 2);
  // LL hands every line on as it comes; the trees of NCCL 2.4 do not.
  const bool by_lines = choice.protocol == NcclProtocol::ll &&
                        choice.algorithm == NcclAlgorithm::double_tree &&
                        !nccl_constants(*profile, forced).no_tree_lines;
  constexpr double kMostChunks = 1 << 30;  // as many as an int counts
  if (cut.chunks > kMostChunks)
    throw input_error(fmt::format("{} by NCCL are {:.3g} chunks of {} a channel, which is too many",
                                  to_text(bytes), cut.chunks, to_text(cut.chunk)),
                      "less data, larger buffers or more channels");
  Schedule schedule;
  schedule.algorithm = find_algorithm(to_text(choice.algorithm), collective);
  schedule.plan.segments = static_cast<int>(cut.chunks);
  schedule.plan.last = static_cast<int>(cut.last);
  if (choice.algorithm == NcclAlgorithm::ring && collective != Collective::broadcast) {
    const int slices = choice.protocol == NcclProtocol::simple ? 2 : 1;
    // Of one chunk the second slice alone may be shorter; else all slices of the last chunk are.
    schedule.plan.together = schedule.plan.segments > slices ? slices : 0;
  }
  schedule.plan.channels = in_switch ? 1 : static_cast<int>(layout.channels.size());
  Sending& sending = schedule.sending;
  sending.profile = profile;
  sending.protocol = to_text(choice.protocol);
  sending.channels_each = halved ? each / 2 : each;
  sending.messages_each = std::max(1.0, each);
  sending.slots = cut.slots;
  sending.separate_halves = !ring;
  sending.many_peers = schedule.algorithm->many_peers;
  sending.ring = choice.algorithm == NcclAlgorithm::ring;
  const auto& usual = profile->channels_over(layout.nodes, SummedBy::switches);
  if (in_switch && forced.channels > 0 && usual)
    sending.switch_share = std::min(1.0, forced.channels / usual->value);
  if (by_lines) sending.chain = std::max(1, layout.per_node());
  schedule.nccl = choice.protocol;
  schedule.nccl_channels = static_cast<int>(cut.channels);
  schedule.why = choice.why;
  return schedule;
}

namespace {

/// What a protocol would make of an algorithm, in seconds.
struct RoughTime {
  double chain = 0;   ///< the longest chain of messages, at the latency of each
  double moving = 0;  ///< launch, and what each sends at the rate of a node's cards, or of a GPU's
                      ///< links on one node
  double total() const { return chain + moving; }
};
/// What an algorithm asks of the links.
struct Demand {
  double between = 0, inside = 0;  ///< nodes: messages of the longest chain
  double sent = 0;                 ///< bytes that each node or GPU sends at least
};

RoughTime rough_time(const Protocol& p, const Profile& profile, const Machine& machine,
                     const Demand& of) {
  const double efficiency = value_or(p.efficiency, 1.0),
               launch = value_or(p.launch, Seconds{}).value;
  const bool nvlink = machine.nvlink.has_value();
  const LinkClass& link = profile.of(nvlink ? PathClass::nvlink : PathClass::pcie);
  const double hop = (value_or(link.latency, Seconds{}) + value_or(p.hop, Seconds{})).value;
  if (of.between > 0) {
    const Nic& nic = machine.nic;
    const LinkClass& network = profile.of(PathClass::network);
    double rate = nic.count * nic.bandwidth.value * value_or(network.efficiency, 1.0);
    if (p.proxy_rate)
      rate = std::min(rate, p.proxy_rate->value.value * value_or(profile.channels, 1.0));
    const Seconds each = value_or(network.latency, nic.latency) + value_or(p.net_hop, Seconds{}) +
                         value_or(p.gap, Seconds{});
    return {of.between * each.value + of.inside * hop, launch + of.sent / (rate * efficiency)};
  }
  const double rate = nvlink         ? machine.nvlink->links * machine.nvlink->bandwidth.value
                      : machine.pcie ? machine.pcie->bandwidth.value
                                     : machine.nic.bandwidth.value,
               channels = value_or(profile.channels_one_node, 1.0);
  double most = rate * value_or(link.efficiency, 1.0) * efficiency;
  if (p.channel_rate) most = std::min(most, p.channel_rate->value.value * channels);
  return {of.inside * hop, launch + of.sent / most};
}

/// Of an algorithm on such a layout. A ring's messages pass all ranks, the others' rather nodes.
Demand demand_of(const Algorithm& algorithm, const Layout& layout, Bytes bytes) {
  const int ranks = std::max(2, layout.workers), among = layout.nodes < 2 ? ranks : layout.nodes;
  const double all = algorithm.steps(ranks),
               sent =
                   bytes.value * (algorithm.summed_by == SummedBy::gpus && !algorithm.uses_servers
                                      ? bus_factor(algorithm.collective, among)
                                      : 1);
  if (layout.nodes < 2) return {0, all, sent};
  const double between = algorithm.steps(layout.nodes);
  return {between, algorithm.in_ring ? all - between : 0, sent};
}

/// A protocol by which an algorithm may be fastest.
struct LikelyProtocol {
  const Protocol* protocol = nullptr;
  Seconds least;  ///< it hardly takes less
};

/// Those by which it may be fastest, likeliest first. What a chain of messages takes is
/// known to a factor of two: messages overlap, and gaps grow with them. Of 900 cases (ring, trees,
/// hierarchical and others on 1 to 128 nodes of p3dn, p4d, p5, p6-b200 and hgx-h100-ib, 16 KiB to
/// 1 GiB) 8 take more than 5 % longer than by the best of all protocols, and one 13 %.
std::vector<LikelyProtocol> likely_protocols(const Algorithm& algorithm, const Layout& layout,
                                             const Profile& profile, const Machine& machine,
                                             Bytes bytes) {
  constexpr double kWithin = 2;
  const Demand demand = demand_of(algorithm, layout, bytes);
  std::vector<std::pair<RoughTime, const Protocol*>> all;
  double most = HUGE_VAL;  // that the fastest takes
  for (const Protocol& p : profile.protocols) {
    if (p.one_node && layout.nodes > 1) continue;
    const RoughTime time = rough_time(p, profile, machine, demand);
    all.emplace_back(time, &p);
    most = std::min(most, kWithin * time.chain + time.moving);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first.total() < b.first.total(); });
  std::vector<LikelyProtocol> likely;
  for (const auto& [time, p] : all)
    if (const double least = time.chain / kWithin + time.moving; likely.empty() || least < most)
      likely.push_back({p, Seconds{least}});
  if (likely.empty()) likely.push_back({&profile.protocols.back(), {}});
  return likely;
}

/// How an own algorithm sends; its protocol is the caller's.
Sending own_sending(const Algorithm& algorithm, const Site& site) {
  Sending sending;
  if (site.profile->ideal()) return sending;
  sending.profile = site.profile;
  if (site.profile->protocols.empty()) return sending;
  const auto rails = static_cast<double>(std::max<std::size_t>(1, site.layout.channels.size()));
  sending.channels_each =
      channels_of(*site.profile, site.layout) / (algorithm.uses_channels ? rails : 1);
  if (const double share = channel_share(site.cluster.weakest().machine(), site.layout.per_node(),
                                         site.layout.nodes);
      share < 1)
    sending.channels_each = std::max(1.0, sending.channels_each * share);
  sending.many_peers = algorithm.many_peers;
  sending.ring = algorithm.in_ring;
  return sending;
}

}  // namespace

Schedule own_schedule(const Algorithm& algorithm, const Plan& wanted, const Site& site, Bytes bytes,
                      const std::string& protocol, std::size_t place) {
  Schedule schedule;
  schedule.algorithm = &algorithm;
  schedule.plan =
      with_defaults(algorithm, wanted, site.layout, static_cast<std::size_t>(bytes.value));
  schedule.sending = own_sending(algorithm, site);
  schedule.sending.protocol = protocol;
  if (!protocol.empty() || !schedule.sending.profile || site.profile->protocols.empty())
    return schedule;
  const auto likely = likely_protocols(algorithm, site.layout, *site.profile,
                                       site.cluster.weakest().machine(), bytes);
  const LikelyProtocol& one = likely[place < likely.size() ? place : 0];
  schedule.sending.protocol = one.protocol->name;
  schedule.least = one.least;
  return schedule;
}

std::string protocol_unsupported(const Profile& profile, const Layout& layout,
                                 const std::string& protocol) {
  if (protocol.empty()) return "";
  const Protocol* p = profile.protocol(protocol);
  if (!p) return fmt::format("profile {} has no protocol {}", profile.name, protocol);
  if (p->one_node && layout.nodes > 1)
    return fmt::format("{} works within one node only, by profile {}", protocol, profile.name);
  return "";
}

}  // namespace foreduce
