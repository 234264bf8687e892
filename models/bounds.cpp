#include "models/bounds.hpp"

#include <algorithm>
#include <limits>

namespace foreduce {
namespace {

/// Groups of one cut: capacities of those with data and of those without.
struct Cut {
  std::string name;
  double least_out = std::numeric_limits<double>::infinity(), least_in = least_out;
  double total_out = 0, total_in = 0;
  int groups = 0;
  double latency = 0;

  void add(BytesPerSecond out, BytesPerSecond in, bool data) { add(out, in, out, in, data); }
  /// `all_out` and `all_in` with what servers on the group's hosts can move besides.
  void add(BytesPerSecond out, BytesPerSecond in, BytesPerSecond all_out, BytesPerSecond all_in,
           bool data) {
    total_out += all_out.value;
    total_in += all_in.value;
    if (!data) return;
    ++groups;
    least_out = std::min(least_out, out.value);
    least_in = std::min(least_in, in.value);
  }
  void offer(Bytes bytes, LowerBound& best, SummedBy by) const {
    if (groups < 2) return;
    const double across = by == SummedBy::switches ? 0 : 2.0 * (groups - 1) * bytes.value;
    for (const auto& [time, way] :
         {std::pair(bytes.value / least_out, " egress"),
          std::pair(bytes.value / least_in, " ingress"), std::pair(across / total_out, " egress"),
          std::pair(across / total_in, " ingress")})
      if (latency + time > best.time.value)
        best = {Seconds{latency + time}, name + way, Seconds{latency}};
  }
};

}  // namespace

LowerBound all_reduce_bound(const Cluster& cluster, Bytes bytes, SummedBy by) {
  LowerBound best{Seconds{0}, "one rank", Seconds{0}};
  const ServerSpec& servers = cluster.servers();
  Cut gpus{.name = "GPU"}, nodes{.name = "node"}, leaves{.name = "leaf"};
  double inside = std::numeric_limits<double>::infinity(), between = inside;
  std::vector<const NodeGraph*> seen;
  for (int n = 0; n < cluster.nodes(); ++n) {
    const NodeGraph& node = cluster.node(n);
    const bool data = n < cluster.worker_nodes();
    for (int g = 0; data && g < node.machine().gpus(); ++g)
      gpus.add(node.capacity_out({false, g}), node.capacity_in({false, g}), true);
    const bool serves = data ? servers.co_located : true;
    for (int r = 0; serves && node.machine().host && r < node.rails(); ++r)
      gpus.add(node.capacity_out({true, r}), node.capacity_in({true, r}), false);
    if (data) {
      nodes.add(node.cut_out(Devices::gpus), node.cut_in(Devices::gpus),
                node.cut_out(servers.co_located ? Devices::both : Devices::gpus),
                node.cut_in(servers.co_located ? Devices::both : Devices::gpus), true);
    } else {
      nodes.add(node.cut_out(Devices::servers), node.cut_in(Devices::servers), false);
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
  double out = std::numeric_limits<double>::infinity(), in = out;
  for (const NodeGraph* node : seen) {
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
  between = out + in;
  gpus.latency = cluster.nodes() > 1 ? std::min(inside, between) : inside;
  nodes.latency = between;
  for (int l = 0; l < cluster.leaves(); ++l) {
    bool data = false;
    for (int n = 0; n < cluster.worker_nodes(); ++n) data = data || cluster.leaf_of(n) == l;
    leaves.add(cluster.uplink_bandwidth(l), cluster.uplink_bandwidth(l), data);
  }
  leaves.latency = between + cluster.fabric().spine_latency.value;
  for (const Cut* cut : {&gpus, &nodes, &leaves})
    cut->offer(bytes, best, cut == &gpus ? by : SummedBy::gpus);
  return best;
}

}  // namespace foreduce
