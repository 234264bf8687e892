#include "scenarios/report/check_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "models/caller.hpp"
#include "scenarios/validation/log_cluster.hpp"

namespace foreduce {
namespace {

const char* plural(double count) { return count == 1 ? "" : "s"; }

/// "32 KiB to 1 MiB", or one size alone.
std::string range_words(Bytes from, Bytes to) {
  return from == to ? to_text(from) : fmt::format("{} to {}", to_text(from), to_text(to));
}

const char* name_of(NodeNetwork network) {
  return network == NodeNetwork::efa ? "EFA" : network == NodeNetwork::roce ? "RoCE" : "InfiniBand";
}

/// What is wrong.
struct What {
  NodeNetwork network;

  std::string operator()(std::monostate) const { return "nothing is wrong"; }
  std::string operator()(const cause::OtherInstance& c) const {
    return fmt::format("these are {}, not {}", c.is, c.asked);
  }
  std::string operator()(const cause::OtherGpu& c) const {
    return fmt::format("these are not {}, whose GPUs are {}", c.instance, c.instance_gpu);
  }
  std::string operator()(cause::NoNvls) const {
    return "NCCL does not use NVLS, the NVSwitches' own sums";
  }
  std::string operator()(cause::PcieForNvlink) const {
    return "the GPUs talk over PCIe instead of NVLink";
  }
  std::string operator()(cause::HalfNvlink) const {
    return "NVLink carries half of what it should";
  }
  std::string operator()(const cause::HeldChannels& c) const {
    return fmt::format("NCCL may use {} channel{} only", c.most, plural(c.most));
  }
  std::string operator()(cause::TwoChannels) const { return "only two channels are used"; }
  std::string operator()(const cause::FewNics& c) const {
    const bool fewer_rails = c.rails < c.of_rails, fewer_of_each = c.used_of_rail < c.of_rail;
    if (fewer_of_each && !fewer_rails)
      return fmt::format("{} of {} NICs are in use, {} of {} of each rail", c.used, c.of,
                         c.used_of_rail, c.of_rail);
    if (fewer_of_each)
      return fmt::format("{} of {} NICs carr{} everything", c.used, c.of,
                         c.used == 1 ? "ies" : "y");
    return fmt::format("{} of {} rails{} {} everything", c.rails, c.of_rails,
                       c.of_rail > 1 ? fmt::format(" ({} of {} NICs)", c.used, c.of) : "",
                       c.rails == 1 ? "carries" : "carry");
  }
  std::string operator()(cause::SlowPcieLink c) const {
    return fmt::format("a PCIe link of a GPU or a NIC carries {} of what it should",
                       c.share == 0.5 ? "half" : "a quarter");
  }
  std::string operator()(cause::TcpForRdma c) const {
    return fmt::format("TCP{} instead of {}", c.one_interface ? " over one interface" : "",
                       name_of(network));
  }
  std::string operator()(cause::HostBounce) const {
    return "every byte bounces through host memory instead of GPUDirect";
  }
  std::string operator()(cause::SlowMessages c) const {
    return fmt::format("a message between nodes takes {} times as long", c.times);
  }
  std::string operator()(cause::LatencyFloor c) const {
    return fmt::format("the latency floor is too high: every {} takes {} more, whatever its size",
                       title_of(c.collective), to_text(c.more));
  }
  std::string operator()(cause::RingForTree) const { return "a ring where a tree is faster"; }
  std::string operator()(cause::TreeForRing) const { return "a tree where a ring is faster"; }
  std::string operator()(const cause::OneProtocol& c) const {
    return "everything travels by " + c.protocol;
  }
  std::string operator()(cause::OtherChoices) const {
    return "NCCL chooses otherwise than is expected";
  }
};

/// What to do about it.
struct Remedy {
  NodeNetwork network;

  bool efa() const { return network == NodeNetwork::efa; }

  std::string operator()(std::monostate) const { return "nothing"; }
  std::string operator()(const cause::OtherInstance& c) const {
    return fmt::format("the console's instance type; check again with --instance {}", c.is);
  }
  std::string operator()(const cause::OtherGpu& c) const {
    return c.fitting.empty()
               ? "describe the machine in a file (docs/machine.md): --instance ./file.yaml"
               : fmt::format("check again with --instance {}", fmt::join(c.fitting, " or "));
  }
  std::string operator()(cause::NoNvls) const {
    return "NCCL_NVLS_ENABLE and NCCL_ALGO must be unset; nvidia-fabricmanager must run; "
           "NCCL_DEBUG=INFO must say `NVLS multicast support is available`";
  }
  std::string operator()(cause::PcieForNvlink) const {
    return "nvidia-smi topo -m; NCCL_P2P_DISABLE must be unset; look for `via SHM` or `via P2P` "
           "with NCCL_DEBUG=INFO";
  }
  std::string operator()(cause::HalfNvlink) const {
    return "nvidia-smi nvlink -s (links that are down or slow) and -e (errors); "
           "nvidia-fabricmanager's log";
  }
  std::string operator()(const cause::HeldChannels& c) const { return "unset " + c.setting; }
  std::string operator()(cause::TwoChannels) const {
    return "unset NCCL_MAX_NCHANNELS and NCCL_MAX_CTAS; NCCL_DEBUG=INFO says `N coll channels`";
  }
  std::string operator()(cause::FewNics) const {
    return efa() ? "count EFA interfaces (fi_info -p efa; `found N nics` with NCCL_DEBUG=INFO), "
                   "the launch template's network cards, NCCL_IB_HCA, pods' "
                   "vpc.amazonaws.com/efa"
                 : "count the cards that are up (ibstat, rdma link) and those that NCCL uses "
                   "(`NET/IB : Using` with NCCL_DEBUG=INFO, NCCL_IB_HCA), and those that a "
                   "container sees";
  }
  std::string operator()(cause::SlowPcieLink) const {
    return "lspci -vv on every node (LnkSta: Speed and Width, `downgraded`); nvidia-smi -q -d PCIE";
  }
  std::string operator()(cause::TcpForRdma) const {
    return efa() ? "install aws-ofi-nccl and libfabric's efa provider; the security group must "
                   "allow all traffic to itself; NCCL_DEBUG=INFO must not say `Using network "
                   "Socket`"
                 : "unset NCCL_IB_DISABLE and NCCL_NET; look at the cards (ibstat: Active, LinkUp) "
                   "and at /dev/infiniband in the container; NCCL_DEBUG=INFO must say `NET/IB : "
                   "Using`";
  }
  std::string operator()(cause::HostBounce) const {
    return efa() ? "kernel module (nv_peer_mem, dmabuf), FI_EFA_USE_DEVICE_RDMA=1 on old stacks, "
                   "ACS off; NCCL_DEBUG=INFO must say `GDRDMA`"
                 : "kernel module (nvidia_peermem, dmabuf), NCCL_NET_GDR_LEVEL, ACS off; "
                   "NCCL_DEBUG=INFO must say `GDRDMA`";
  }
  std::string operator()(cause::SlowMessages) const {
    return fmt::format(
        "{} C-states and CPU frequency; NCCL_DEBUG and profilers off; CPU affinity of the proxy "
        "threads",
        efa() ? "cluster placement group, same zone;"
              : "switches between the nodes, and their congestion;");
  }
  std::string operator()(cause::LatencyFloor) const {
    return "CPU affinity and frequency of the proxy threads, C-states; other work on the hosts; "
           "profilers, NCCL_DEBUG=TRACE; a Python loop that waits for each call (then check again "
           "with --timed-by torch)";
  }
  std::string operator()(cause::RingForTree c) const {
    return c.old_nccl ? "unset NCCL_ALGO (and NCCL_TREE_THRESHOLD=0 of old versions); or NCCL is "
                        "older than 2.4"
                      : "unset NCCL_ALGO; a tuner's file or plugin must not force it";
  }
  std::string operator()(cause::TreeForRing) const { return "unset NCCL_ALGO"; }
  std::string operator()(const cause::OneProtocol&) const { return "unset NCCL_PROTO"; }
  std::string operator()(cause::OtherChoices c) const {
    return fmt::format(
        "is aws-ofi-nccl's tuner loaded (NCCL_DEBUG=INFO says `TUNER/Plugin`)? {}",
        c.loses_nvls ? "does NCCL have NVLS (nvidia-fabricmanager, NCCL_NVLS_ENABLE)? compare the "
                       "versions of both"
                     : "compare NCCL's and the plugin's versions with those that others use");
  }
};

std::string choices_words(const Choices& choices) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> words;
  for (const Choice& c : choices.all) {
    if (words.size() == kMost) {
      words.push_back(fmt::format("and {} more", choices.all.size() - kMost));
      break;
    }
    words.push_back(fmt::format("{} {} {}, where {} is expected", c.chosen,
                                c.from == c.to ? "at" : "from", range_words(c.from, c.to),
                                c.expected));
  }
  return fmt::format("NCCL says that it chose {}", fmt::join(words, "; "));
}

/// What the log says.
struct Says {
  NodeNetwork network;

  std::string operator()(evidence::Line line) const {
    using evidence::Line;
    switch (line) {
      case Line::no_infiniband_card: return "the log says so: NCCL found no InfiniBand card";
      case Line::libfabric_tcp:
        return "the log says so: aws-ofi-nccl runs on libfabric's tcp provider; is there an EFA "
               "device (fi_info -p efa), and FI_PROVIDER unset?";
      case Line::sockets: return "the log says so: NCCL used its sockets";
      case Line::no_gpudirect: return "the log says so: connections between nodes without GDRDMA";
      case Line::shared_memory: return "the log says so: GPUs of a node talk via SHM";
      case Line::no_multicast: return "the log says so: NVLS multicast support is not available";
    }
    return "";
  }
  std::string operator()(const evidence::Gpu& e) const { return "the log says so: " + e.name; }
  std::string operator()(const evidence::Setting& e) const {
    return fmt::format("the log says so: {}={}", e.name, e.value);
  }
  std::string operator()(const evidence::Nics& e) const {
    return fmt::format(
        "the log says so: {} {} of {} NICs{}",
        network == NodeNetwork::efa ? "the plugin found" : "NCCL uses", e.found, e.of,
        e.host.empty() ? "" : fmt::format(" on {}, {} elsewhere", e.host, e.elsewhere));
  }
  std::string operator()(evidence::Channels e) const {
    return fmt::format("the log says so: {} channel{}", e.count, plural(e.count));
  }
  std::string operator()(const Choices& e) const { return choices_words(e); }
};

/// Remarks on the machine and on the run as a whole.
struct RunWords {
  std::string operator()(const remark::GuessedInstance& r) const {
    return fmt::format(
        "the log does not say on what machine it ran: {} has such GPUs; of another say --instance",
        r.instance);
  }
  std::string operator()(const remark::TimedBy& r) const { return words_on(r.caller); }
  std::string operator()(const remark::WideInterval& r) const {
    return "the interval of the model is wide here: " + r.why;
  }
  std::string operator()(remark::PredictionAlone r) const {
    return fmt::format(
        "{}s are judged by the prediction and its interval alone, not by published times",
        title_of(r.collective));
  }
  std::string operator()(const remark::Settings& r) const {
    std::vector<std::string> set;
    for (const auto& [name, value] : r.set) set.push_back(name + "=" + value);
    return fmt::format(
        "the log sets {}: measure again without, for NCCL's defaults are what is expected here",
        fmt::join(set, ", "));
  }
  std::string operator()(const remark::Harmless& r) const {
    return fmt::format("{}; {} (and yet the times are normal)", what_words(r.finding),
                       evidence_words(r.finding));
  }
  std::string operator()(const remark::Unexplained& r) const {
    return fmt::format("{}; {}, but that does not explain these times", what_words(r.finding),
                       evidence_words(r.finding));
  }
  std::string operator()(remark::StoppedSeeking r) const {
    return fmt::format("interrupted: {} of {} causes were tried", r.tried, r.of);
  }
  std::string operator()(remark::TooManyNodes r) const {
    return fmt::format(
        "causes are not sought on more than {} nodes, where simulating them takes minutes; measure "
        "a few of the nodes",
        r.most);
  }
  std::string operator()(remark::SingleSize) const {
    return "a single size cannot tell causes apart: measure a range of sizes (-b 8 -e 8G -f 2)";
  }
  std::string operator()(const Choices& r) const { return choices_words(r); }
  std::string operator()(const remark::OtherNodes& r) const {
    std::vector<std::string> fitting;
    for (const auto& [nodes, each] : r.fitting)
      fitting.push_back(fmt::format("--nodes {} ({} GPU{} each)", nodes, each, plural(each)));
    return fmt::format(
        "the log does not say on how many nodes it ran: check again with {}, where these times are "
        "normal",
        fmt::join(fitting, " or "));
  }
  std::string operator()(const remark::PassedOver& r) const {
    return fmt::format(
        "{} is passed over: {}",
        r.collective.empty() ? "a table of no known collective" : "a table of " + r.collective,
        r.one_gpu ? "it is of one GPU, where nothing is sent"
                  : "nothing says how long it should take");
  }
  std::string operator()(remark::LargestLeftOut r) const {
    return fmt::format("the row of {}, the largest size, holds no measurement", to_text(r.size));
  }
  std::string operator()(const remark::EndedEarly& r) const {
    std::string why = r.failure.empty()
                          ? "the table ends early"
                          : fmt::format("the run ended with an error (\"{}\")", r.failure);
    if (r.short_of_asked)
      why += fmt::format(": it stops at {} of {} that were asked for", to_text(r.last),
                         to_text(r.asked));
    return why;
  }
  std::string operator()(const remark::FailedLate& r) const {
    return fmt::format("after its results the log says \"{}\"", r.failure);
  }
  std::string operator()(const remark::TakenFor& r) const {
    return fmt::format("taken for {}, which has the {} NICs that the log speaks of", r.instance,
                       r.nics);
  }
  std::string operator()(const remark::OtherGpus& r) const {
    return fmt::format("the log's GPUs are {}, those of {} are {}", r.gpu, r.instance,
                       r.instance_gpu);
  }
  std::string operator()(const remark::MixedGpus& r) const {
    return fmt::format(
        "the ranks have different GPUs, {}; the slowest decides, and {} has one kind", r.gpus,
        r.instance);
  }
  std::string operator()(const remark::PcieCards& r) const {
    return fmt::format("the log's GPUs are {}, without NVLink, and those of {} have it", r.gpu,
                       r.instance);
  }
  std::string operator()(const remark::OutsideEc2& r) const {
    return fmt::format(
        "the log shows InfiniBand or RoCE, which is not EC2: judged as {}{}; --instance "
        "./file.yaml describes another machine",
        r.ships ? fmt::format("{}, with {} cards of {} a node", r.machine, r.cards,
                              to_text(r.card_rate))
                : r.machine + "'s GPUs and card rates over InfiniBand",
        r.cards == r.cards_counted ? ""
                                   : fmt::format(", although the log counts {}", r.cards_counted));
  }
  std::string operator()(remark::SideBySide r) const {
    return fmt::format(
        "rank 0 is listed {0} times, so these are {0} runs of {1} GPUs side by side, and nothing "
        "between them was measured; {2}",
        r.runs, r.gpus, kBuildWithMpi);
  }
  std::string operator()(const remark::GpusInUse& r) const {
    return fmt::format("{} of the {} GPUs of each {} {} in use", r.used, r.of, r.instance,
                       r.used == 1 ? "is" : "are");
  }
  std::string operator()(const remark::LogNote& r) const { return r.file + ", " + r.note; }
  std::string operator()(const remark::LeftOut& r) const {
    return fmt::format("{}: {} is left out: profiles are fitted to all-reduces", r.file,
                       r.collective.empty() ? "a table" : r.collective);
  }
};

/// Remarks on sizes and on sums.
struct RowWords {
  std::string operator()(remark::ColdStart r) const {
    return fmt::format(
        "the first size, {}, takes {:.1f} times as long as expected, and the next ones do not: "
        "connections are made then, so measure with more warm-up (-w 20)",
        to_text(r.size), r.times_expected);
  }
  std::string operator()(remark::FirstUse r) const {
    return fmt::format(
        "{} takes {} out of place, and {} in place, which is measured second: a first use, so "
        "measure with more warm-up (-w 20)",
        to_text(r.size), to_text(r.out_of_place), to_text(r.in_place));
  }
  std::string operator()(const remark::EarlyChange& r) const {
    return fmt::format(
        "from {} on it takes as long as if NCCL ran {}, which is expected from {} on: versions and "
        "settings change at different sizes",
        to_text(r.from), r.to, to_text(r.expected_from));
  }
  std::string operator()(const remark::Impossible& r) const {
    return fmt::format(
        "{} of {} sizes are faster than the links of {} x {} allow ({}: {}, {} at least): not that "
        "instance, not so many nodes, or not what the log says",
        r.count, r.of, r.nodes, r.instance, to_text(r.size), to_text(r.measured), to_text(r.least));
  }
  std::string operator()(remark::Scatter r) const {
    return fmt::format(
        "sizes scatter by {:.0f} % around their neighbours, so that no cause can be told: measure "
        "again with more iterations (-n 100 -w 20), and without other work on nodes and network",
        100 * r.share);
  }
  std::string operator()(remark::AboveNics r) const {
    return fmt::format(
        "busbw {:.1f} GB/s is above the NICs' {:.1f} GB/s, which is right: on two nodes a tree "
        "sends each byte once over the network, and busbw counts {:.3f} times",
        r.busbw, r.nics, r.counted);
  }
  std::string operator()(const remark::BesideEarlier& r) const {
    if (!r.below_1mib && !r.from_1mib)
      return fmt::format("{} has no size near any of these", r.file);
    std::string times;
    if (r.below_1mib) times += fmt::format("{:.2f} times as long below 1 MiB", *r.below_1mib);
    if (r.below_1mib && r.from_1mib) times += ", and ";
    if (r.from_1mib) times += fmt::format("{:.2f} times as long from 1 MiB on", *r.from_1mib);
    return fmt::format("beside {} it takes, in the mean of all sizes, {}", r.file, times);
  }
  std::string operator()(const remark::Plateau& r) const {
    constexpr double kManyTimes = 10;
    const auto rate = [](double gbps) {
      return gbps < 10 ? fmt::format("{:.2f}", gbps) : fmt::format("{:.1f}", gbps);
    };
    return fmt::format("at {} it reaches {} GB/s bus bandwidth, {} the {} GB/s of {}{}",
                       to_text(r.size), rate(r.busbw),
                       r.times_expected < kManyTimes
                           ? fmt::format("{:.0f} % less than", 100 * (1 - 1 / r.times_expected))
                           : fmt::format("1/{:.0f} of", r.times_expected),
                       rate(r.busbw * r.times_expected),
                       r.expected_from == HealthyFrom::published
                           ? "healthy clusters that were published"
                       : r.expected_from == HealthyFrom::log ? r.earlier_log
                                                             : "the prediction",
                       r.inside ? ", which is still inside the interval" : "");
  }
  std::string operator()(const remark::SlowRanges& r) const {
    constexpr std::size_t kMost = 6;
    if (r.ranges.empty()) return "none of the usual causes fits";
    std::vector<std::string> where;
    for (const auto& [from, to] : r.ranges) where.push_back(range_words(from, to));
    if (r.to_last && where.size() == 1) {
      const auto [from, to] = r.ranges[0];
      where[0] = r.from_first ? "every size"
                 : from == to ? to_text(from)
                              : to_text(from) + " and beyond";
    }
    if (where.size() > kMost) {
      where.resize(kMost);
      where.emplace_back("more");
    }
    return fmt::format(
        "slower than normal at {}{}; none of the usual causes fits. Next: {}",
        fmt::join(where, ", "),
        r.to_last
            ? fmt::format(", {:.1f} times the expected time at the largest size", r.times_expected)
            : "",
        r.several_nodes
            ? "measure pairs of nodes, of which a slow one shows; then each node alone; look at "
              "other traffic, and at the NICs' and GPUs' error counters"
            : "compare with another node; look at the GPUs' clocks (nvidia-smi -q -d "
              "CLOCK,PERFORMANCE), NVLink (nvidia-smi nvlink -s) and other processes");
  }
  std::string operator()(remark::SlowInPlace r) const {
    return fmt::format(
        "in place it is slower: {} takes {}, {:.1f} times as long as out of place, which the rows "
        "are of; training reduces in place",
        to_text(r.size), to_text(r.in_place), r.times_out_of_place);
  }
  std::string operator()(remark::LoneSlowSize r) const {
    return fmt::format(
        "{} takes {:.1f} times as long as the size{} beside it lead{} to expect: measure it again",
        to_text(r.size), r.times, r.last ? "" : "s", r.last ? "s" : "");
  }
  std::string operator()(remark::WrongElements r) const {
    return fmt::format("{:.0f} elements were wrong: whatever the speed, this run is broken",
                       r.count);
  }
  std::string operator()(remark::FailedChecks r) const {
    return fmt::format("{:.0f} check{} of results failed: whatever the speed, this run is broken",
                       r.count, plural(r.count));
  }
  std::string operator()(remark::LargeError r) const {
    return fmt::format(
        "the largest error of a sum is {} at {}: whatever the speed, this run is broken",
        std::isinf(r.error) ? "no number" : fmt::format("{:.2g}", r.error), to_text(r.size));
  }
};

struct RemarkWords : RunWords, RowWords {
  using RowWords::operator();
  using RunWords::operator();
};

}  // namespace

std::string what_words(const Finding& f) { return std::visit(What{f.network}, f.kind); }

std::string remedy_words(const Finding& f) { return std::visit(Remedy{f.network}, f.kind); }

std::string evidence_words(const Finding& f) {
  return f.evidence ? std::visit(Says{f.network}, *f.evidence) : "";
}

std::string remark_words(const Remark& remark) { return std::visit(RemarkWords{}, remark); }

}  // namespace foreduce
