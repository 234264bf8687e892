#include "models/bounds.hpp"

#include <algorithm>
#include <limits>

namespace foreduce {
namespace {

/// What every group must send and receive, and all groups with data together, of the bytes.
struct Needs {
  double out = 0, in = 0, total = 0;
};

/// Of a group with `share` of the GPUs; `root`: with the first of them.
Needs needs_of(Collective collective, double share, bool root) {
  switch (collective) {
    case Collective::reduce_scatter: return {1 - share, share, 1};
    case Collective::all_gather: return {share, 1 - share, 1};
    case Collective::broadcast: return {root ? 1.0 : 0.0, root ? 0.0 : 1.0, 1};
    case Collective::all_to_all: break;
    case Collective::all_reduce: return {1, 1, 2};
  }
  return {1 - share, 1 - share, 0};
}

/// Groups of one cut: what each of those with data takes, and the capacities of all.
class Cut {
 public:
  Cut(std::string name, Collective collective, int gpus)
      : name_(std::move(name)), collective_(collective), gpus_(gpus) {}

  double latency = 0;

  /// So many equal groups, each of so many GPUs.
  void add(int groups, BytesPerSecond out, BytesPerSecond in, int gpus) {
    add(groups, out, in, out, in, gpus);
  }
  /// `all_out` and `all_in` with what servers on the group's hosts can move besides.
  void add(int groups, BytesPerSecond out, BytesPerSecond in, BytesPerSecond all_out,
           BytesPerSecond all_in, int gpus) {
    total_out_ += groups * all_out.value;
    total_in_ += groups * all_in.value;
    if (gpus == 0) return;
    if (groups_ == 0) need(true, out, in, gpus);
    if (groups_ > 0 || groups > 1) need(false, out, in, gpus);
    groups_ += groups;
  }
  void offer(Bytes bytes, LowerBound& best, SummedBy by) const {
    if (groups_ < 2) return;
    const double across = by == SummedBy::switches ? 0 : together_ * (groups_ - 1);
    for (const auto& [time, way] :
         {std::pair(worst_out_, " egress"), std::pair(worst_in_, " ingress"),
          std::pair(across / total_out_, " egress"), std::pair(across / total_in_, " ingress")})
      if (latency + bytes.value * time > best.time.value)
        best = {Seconds{latency + bytes.value * time}, name_ + way, Seconds{latency}};
  }

 private:
  /// What one group with data takes; `root`: the first.
  void need(bool root, BytesPerSecond out, BytesPerSecond in, int gpus) {
    const Needs needs = needs_of(collective_, static_cast<double>(gpus) / gpus_, root);
    const double each = collective_ == Collective::all_to_all ? gpus : 1;
    worst_out_ = std::max(worst_out_, each * needs.out / out.value);
    worst_in_ = std::max(worst_in_, each * needs.in / in.value);
    together_ = needs.total;
  }

  std::string name_;
  Collective collective_;
  int gpus_, groups_ = 0;
  double worst_out_ = 0, worst_in_ = 0, total_out_ = 0, total_in_ = 0, together_ = 0;
};

/// The least that a message takes between two of these nodes: out of one, and into one.
double latency_between(const std::vector<const NodeGraph*>& nodes, const ServerSpec& servers) {
  double out = std::numeric_limits<double>::infinity(), in = out;
  for (const NodeGraph* node : nodes) {
    const int devices =
        node->machine().host && (servers.co_located || servers.dedicated) ? node->rails() : 0;
    for (int g = 0; g < node->machine().gpus(); ++g) {
      out = std::min(out, node->outward({false, g}).latency.value);
      in = std::min(in, node->inward({false, g}).latency.value);
    }
    for (int r = 0; r < devices; ++r) {
      out = std::min(out, node->outward({true, r}).latency.value);
      in = std::min(in, node->inward({true, r}).latency.value);
    }
  }
  return out + in;
}

}  // namespace

LowerBound collective_bound(const Cluster& cluster, Collective collective, Bytes bytes,
                            SummedBy by) {
  LowerBound best{Seconds{0}, "one rank", Seconds{0}};
  const ServerSpec& servers = cluster.servers();
  const int all = cluster.gpus();
  const auto range = cluster.nodes() > 1 ? NodeGraph::Range::network : NodeGraph::Range::machine;
  Cut gpus("GPU", collective, all), nodes("node", collective, all), leaves("leaf", collective, all);
  double inside = std::numeric_limits<double>::infinity();
  std::vector<const NodeGraph*> seen;
  for (int n = 0, alike = 1; n < cluster.nodes(); n += alike, alike = 1) {
    const NodeGraph& node = cluster.node(n);
    const bool data = n < cluster.worker_nodes();
    const int end = data ? cluster.worker_nodes() : cluster.nodes();
    while (n + alike < end && &cluster.node(n + alike) == &node) ++alike;
    for (int g = 0; data && g < node.machine().gpus(); ++g)
      gpus.add(alike, node.capacity_out({false, g}, range), node.capacity_in({false, g}, range), 1);
    const bool serves = data ? servers.co_located : true;
    for (int r = 0; serves && node.machine().host && r < node.rails(); ++r)
      gpus.add(alike, node.capacity_out({true, r}, range), node.capacity_in({true, r}, range), 0);
    if (data) {
      nodes.add(alike, node.cut_out(Devices::gpus), node.cut_in(Devices::gpus),
                node.cut_out(servers.co_located ? Devices::both : Devices::gpus),
                node.cut_in(servers.co_located ? Devices::both : Devices::gpus),
                node.machine().gpus());
    } else {
      nodes.add(alike, node.cut_out(Devices::servers), node.cut_in(Devices::servers), 0);
    }
    if (std::find(seen.begin(), seen.end(), &node) != seen.end()) continue;
    seen.push_back(&node);
    const int workers = data ? node.machine().gpus() : 0;
    for (int a = 0; a < workers; ++a) {
      for (int b = 0; b < workers; ++b)
        if (a != b) inside = std::min(inside, node.inside({false, a}, {false, b}).latency.value);
      for (int r = 0; servers.co_located && r < node.rails(); ++r)
        inside = std::min(inside, node.inside({false, a}, {true, r}).latency.value);
    }
  }
  const double between = latency_between(seen, servers);
  gpus.latency = cluster.nodes() > 1 ? std::min(inside, between) : inside;
  nodes.latency = between;
  for (int l = 0; l < cluster.leaves(); ++l) {
    int data = 0;
    for (int n = 0; n < cluster.worker_nodes(); ++n)
      if (cluster.leaf_of(n) == l) data += cluster.node(n).machine().gpus();
    leaves.add(1, cluster.uplink_bandwidth(l), cluster.uplink_bandwidth(l), data);
  }
  leaves.latency = between + cluster.fabric().spine_latency.value;
  for (const Cut* cut : {&gpus, &nodes, &leaves})
    cut->offer(bytes, best, cut == &gpus ? by : SummedBy::gpus);
  return best;
}

SummedBy summed_at_best(const Cluster& cluster) {
  const auto& nvlink = cluster.weakest().machine().nvlink;
  return nvlink && nvlink->multicast ? SummedBy::switches : SummedBy::gpus;
}

}  // namespace foreduce
