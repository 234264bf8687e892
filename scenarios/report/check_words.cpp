#include "scenarios/report/check_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "models/caller.hpp"
#include "scenarios/report/words.hpp"
#include "scenarios/validation/log_cluster.hpp"

namespace foreduce {

namespace {

struct Known {
  const char *message, *remedy;
};
// What helps against several of these messages.
constexpr const char* kLocked =
    "memory cannot be registered: lift the limit of locked memory (ulimit -l unlimited; of "
    "containers --ulimit memlock=-1)";
constexpr const char* kShared =
    "give the container more shared memory: --shm-size=8g, or in Kubernetes an emptyDir of "
    "medium Memory on /dev/shm";
constexpr const char* kInterface =
    "name an interface that all hosts have: NCCL_SOCKET_IFNAME=eth0, or ^lo,docker0";
constexpr const char* kNoEfa =
    "libfabric finds no EFA: fi_info -p efa must list it; a container needs the devices of "
    "/dev/infiniband";
constexpr const char* kUnregistered =
    "EFA cannot register the GPU's memory: a newer EFA installer, nvidia_peermem or dmabuf, or "
    "FI_EFA_SET_CUDA_SYNC_MEMOPS=0";
constexpr const char* kXid =
    "the driver reports a fault of that GPU: drain its node, look the number up in NVIDIA's list "
    "of Xid errors (79: it fell off the bus; 48, 94, 95: memory), run dcgmi diag -r 3";
constexpr const char* kHostMemory =
    "the host's or the pod's memory ran out: give it more, or let fewer processes share it";
// NCCL's misc/ibvwrap.cc, include/shm.h, init.cc, misc/socket.cc, bootstrap.cc, net_ib.cc; CUDA's
// error strings; aws-ofi-nccl's nccl_ofi_net.cpp.
constexpr Known kKnown[] = {
    {"ibv_reg_mr", kLocked},
    {"ibv_create_cq", kLocked},
    {"shared memory segment", kShared},
    {"/dev/shm", kShared},
    {"Duplicate GPU detected",
     "give each rank a GPU of its own: as many ranks a host as GPUs, "
     "and CUDA_VISIBLE_DEVICES of all of them"},
    {"No route to host",
     "the hosts do not reach each other: on EC2 the security group must allow "
     "all traffic to and from itself; NCCL_SOCKET_IFNAME names the interface"},
    {"Connection refused",
     "the hosts do not reach each other: on EC2 the security group must "
     "allow all traffic to and from itself; NCCL_SOCKET_IFNAME names the "
     "interface"},
    {"Connection timed out",
     "the hosts do not reach each other: on EC2 the security group must "
     "allow all traffic to and from itself; of InfiniBand check cables "
     "and subnet, of RoCE NCCL_IB_GID_INDEX"},
    {"no socket interface found", kInterface},
    {"no interface found", kInterface},
    {"Only EFA provider is supported", kNoEfa},
    {"No eligible providers", kNoEfa},
    {"Unresponsive receiver",
     "the hosts do not reach each other by EFA: the security group must allow all traffic to and "
     "from itself, outbound rules too, and all instances must be in one subnet"},
    {"Unable to register memory", kUnregistered},
    {"fi_mr_reg", kUnregistered},
    {"status=12",
     "a card's peer does not answer: check cables and switches; of RoCE "
     "NCCL_IB_GID_INDEX and the same VLAN or MTU on all hosts"},
    {"Xid (", kXid},
    {"NVRM: Xid", kXid},
    {"illegal memory access",
     "a GPU or its driver is at fault, or libraries of two versions are mixed: look for Xid in "
     "dmesg, run dcgmi diag -r 3, and test each node alone"},
    {"Watchdog caught collective operation timeout",
     "a rank stopped or never came: look for the first rank that failed, and for hosts without a "
     "line; NCCL_DEBUG=INFO shows where each stands"},
    {"Test timeout",
     "a rank stopped or never came: look for hosts without a line; NCCL_DEBUG=INFO shows where "
     "each stands"},
    {"OOMKilled", kHostMemory},
    {"oom-kill", kHostMemory},
    {"Out of memory: Killed", kHostMemory},
    {"libnvidia-ml.so",
     "the container lacks the driver's libraries: start it by NVIDIA's container toolkit (--gpus "
     "all)"},
    {"system not yet initialized", "start nvidia-fabricmanager, of the driver's own version"},
    {"driver version is insufficient",
     "the container's CUDA is newer than the host's driver: "
     "update the driver, or take an older image"},
    {"out of memory",
     "something else uses the GPUs' memory (nvidia-smi), or -e asks for more "
     "than there is: two buffers of that size"},
    {"nvls.cc",
     "NVLS cannot be set up: is nvidia-fabricmanager running? NCCL_NVLS_ENABLE=0 does "
     "without it"}};

}  // namespace

std::string remedy_of_failure(const std::string& failure, const std::string& warning) {
  for (const std::string* text : {&warning, &failure})
    for (const Known& known : kKnown)
      if (text->find(known.message) != std::string::npos) return known.remedy;
  return "the lines around it say why; with NCCL_DEBUG=INFO NCCL says most";
}

std::string remedy_of_broken(const Remark& why) {
  if (const auto* ended = std::get_if<remark::EndedEarly>(&why))
    return ended->failure.empty() ? "" : remedy_of_failure(ended->failure, ended->warning);
  if (const auto* late = std::get_if<remark::FailedLate>(&why))
    return remedy_of_failure(late->failure, "");
  return "";
}

const char* plural(double count) { return count == 1 ? "" : "s"; }

std::string range_words(Bytes from, Bytes to) {
  return from == to ? to_text(from) : fmt::format("{} to {}", to_text(from), to_text(to));
}

std::string choices_words(const Choices& choices) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> words;
  // Bandwidth is what counts, so the largest sizes are named.
  for (auto at = choices.all.rbegin(); at != choices.all.rend(); ++at) {
    const Choice& c = *at;
    if (words.size() == kMost) {
      words.push_back(fmt::format("and {} more", choices.all.size() - kMost));
      break;
    }
    words.push_back(fmt::format("{} {} {}, where {} is expected", schedule_words(c.chosen),
                                c.from == c.to ? "at" : "from", range_words(c.from, c.to),
                                schedule_words(c.expected)));
  }
  return fmt::format("NCCL says that it chose {}", fmt::join(words, "; "));
}

namespace {

const char* network_name(NodeNetwork network) {
  return network == NodeNetwork::efa ? "EFA" : network == NodeNetwork::roce ? "RoCE" : "InfiniBand";
}

/// "200 Gbps" of a card.
std::string gbps(BytesPerSecond rate) { return fmt::format("{:.4g} Gbps", rate.value / 125e6); }

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
    return fmt::format("NCCL {} {} channel{} only", c.setting.empty() ? "uses" : "may use", c.most,
                       plural(c.most));
  }
  std::string operator()(cause::SmallBuffer c) const {
    return fmt::format("NCCL's buffers are cut to {}", to_text(c.bytes));
  }
  std::string operator()(cause::TwoChannels) const { return "only two channels are used"; }
  std::string operator()(const cause::FewNics& c) const {
    if (c.used_of_rail == 0) return fmt::format("{} of {} NICs are in use", c.used, c.of);
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
  std::string operator()(const cause::OtherCards& c) const {
    return fmt::format(
        "the machine, which the log does not name, has slower cards than {}: {} "
        "each, where {} of {} are taken for granted",
        c.instance, gbps(c.rate), c.count, gbps(c.of));
  }
  std::string operator()(cause::SlowCards c) const {
    return fmt::format("network cards run at {} of {}", gbps(c.rate), gbps(c.of));
  }
  std::string operator()(cause::SlowPcieLink c) const {
    return fmt::format("a PCIe link of a GPU or a NIC carries {} of what it should",
                       c.share == 0.5 ? "half" : "a quarter");
  }
  std::string operator()(cause::TcpForRdma c) const {
    return fmt::format("TCP{} instead of {}", c.one_interface ? " over one interface" : "",
                       network_name(network));
  }
  std::string operator()(cause::HostBounce) const {
    return "bytes bounce through host memory instead of GPUDirect";
  }
  std::string operator()(cause::SlowMessages c) const {
    return fmt::format("a message between nodes takes {} times as long", c.times);
  }
  std::string operator()(cause::LatencyFloor c) const {
    return fmt::format("the latency floor is too high: every {} takes {} more, whatever its size",
                       title_of(c.collective), to_text(c.more));
  }
  std::string operator()(cause::RingForTree c) const {
    return fmt::format("a ring where {} faster", c.nvls ? "NVLS is" : "a tree is");
  }
  std::string operator()(cause::TreeForRing c) const {
    return fmt::format("a tree where {} faster", c.nvls ? "NVLS is" : "a ring is");
  }
  std::string operator()(const cause::OneProtocol& c) const {
    return "everything travels by " + to_text(c.protocol);
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
  std::string operator()(const cause::HeldChannels& c) const {
    if (!c.setting.empty()) return "unset " + c.setting;
    // PCIe traffic that is sent through the root complex looks alike: nccl issue 2409.
    return (*this)(cause::TwoChannels{}) +
           "; if it says as many as on healthy nodes, look at PCIe: ACS and the IOMMU's "
           "translation off (lspci -vvv: ACSCtl; iommu=pt)";
  }
  std::string operator()(cause::SmallBuffer) const { return "unset NCCL_BUFFSIZE"; }
  std::string operator()(cause::TwoChannels) const {
    return "unset NCCL_MAX_NCHANNELS and NCCL_MAX_CTAS; NCCL_DEBUG=INFO says `N coll channels`";
  }
  std::string operator()(cause::FewNics) const {
    return efa() ? "count EFA interfaces (fi_info -p efa; `found N nics` with NCCL_DEBUG=INFO), "
                   "the launch template's network cards, NCCL_IB_HCA, pods' "
                   "vpc.amazonaws.com/efa"
                 : "count the cards that are up at their full rate (ibstat, rdma link) and those "
                   "that NCCL uses "
                   "(`NET/IB : Using` with NCCL_DEBUG=INFO, NCCL_IB_HCA), and those that a "
                   "container sees";
  }
  std::string operator()(const cause::OtherCards&) const {
    return "say which machine it is: --instance, a name or ./file.yaml (docs/machine.md; foreduce "
           "topology import makes one of what nvidia-smi topo -m prints)";
  }
  std::string operator()(cause::SlowCards) const {
    return "ibstat (Rate) and ethtool on every node, and the switches' ports; cables and optics; "
           "the "
           "instance's or virtual machine's own limit";
  }
  std::string operator()(cause::SlowPcieLink) const {
    return "lspci -vv on every node (LnkSta: Speed and Width, `downgraded`); nvidia-smi -q -d "
           "PCIE; "
           "ACS and the IOMMU's translation off (ACSCtl; iommu=pt)";
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
        efa() ? "cluster placement group, same zone; GDRCopy (the module gdrdrv);"
              : "switches between the nodes, and their congestion;");
  }
  std::string operator()(cause::LatencyFloor c) const {
    if (!c.several_nodes)
      return "the hosts' CPUs: affinity, frequency, C-states and other work; one process for all "
             "GPUs (-g); profilers, NCCL_DEBUG=TRACE; a Python loop that waits for each call (then "
             "check again with --timed-by torch)";
    return fmt::format(
        "{}CPU affinity and frequency of the proxy threads, C-states; other work on the hosts; "
        "profilers, NCCL_DEBUG=TRACE; a Python loop that waits for each call (then check again "
        "with --timed-by torch)",
        efa() ? "GDRCopy (the module gdrdrv), without which small messages wait; " : "");
  }
  std::string operator()(cause::RingForTree c) const {
    return c.old_nccl ? "unset NCCL_ALGO, and NCCL_TREE_THRESHOLD=0 of releases before 2.5; before "
                        "2.4 there are no trees"
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

/// What the log says.
struct Says {
  NodeNetwork network;

  std::string operator()(evidence::Line line) const {
    using evidence::Line;
    switch (line) {
      case Line::no_infiniband_card: return "the log says so: NCCL found no InfiniBand card";
      case Line::libfabric_tcp:
        return "the log says so: aws-ofi-nccl runs on TCP by libfabric; is there an EFA "
               "device (fi_info -p efa), and FI_PROVIDER unset?";
      case Line::sockets: return "the log says so: NCCL used its sockets";
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
  std::string operator()(const evidence::NoGpudirect& e) const {
    return fmt::format(
        "the log says so: connections {} without GDRDMA{}",
        e.hosts.empty() ? "between nodes" : fmt::format("of {}, and of no other host,", e.hosts),
        e.too_far.empty() ? ""
                          : fmt::format("; NCCL says that {} are too far apart: look at PCIe and "
                                        "NUMA (nvidia-smi topo -m), at the topology file of a "
                                        "virtual machine, and at NCCL_NET_GDR_LEVEL",
                                        e.too_far));
  }
  std::string operator()(evidence::CardRate e) const {
    return fmt::format("the log says so: NCCL's graph has cards of {}", gbps(e.rate));
  }
  std::string operator()(evidence::Channels e) const {
    return fmt::format("the log says so: {} channel{}", e.count, plural(e.count));
  }
  std::string operator()(const Choices& e) const { return choices_words(e); }
};

}  // namespace

std::string what_words(const Finding& f) { return std::visit(What{f.network}, f.kind); }

std::string remedy_words(const Finding& f) { return std::visit(Remedy{f.network}, f.kind); }

std::string evidence_words(const Finding& f) {
  return f.evidence ? std::visit(Says{f.network}, *f.evidence) : "";
}

}  // namespace foreduce
