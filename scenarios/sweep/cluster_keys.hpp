// What a scenario may say of its cluster; see scenarios/sweep/scenario.cpp for the rest.
#pragma once

#include <fmt/format.h>

#include "scenarios/sweep/money_keys.hpp"
#include "scenarios/sweep/workload_keys.hpp"
#include "topologies/slow_link_fields.hpp"

namespace foreduce {

template <class Fields>
void describe(Fields& f, SwitchSpec& s) {
  f.required("ranks", s.ranks, "Ports of the switch, with one GPU each.",
             Limits::between(1, 65536));
  f.required("bandwidth", s.bandwidth, "Bandwidth of a port in one direction.");
  f.required("latency", s.latency, "Latency of one message.", Limits::zero_or_more());
  f.optional("reduce_bandwidth", s.reduce_bandwidth,
             "Bytes of arriving data that one rank reduces per second.");
}

template <class Fields>
void describe(Fields& f, MixedSpec& m) {
  f.required("instance", m.instance, "A machine of foreduce list instances, or ./file.yaml.",
             instance_choice());
  f.required("nodes", m.nodes, "How many of this instance type.", Limits::between(1, 65536));
  f.optional("gpus", m.gpus, "How many GPUs the job has of each. Default: all.",
             Limits::between(1, kMostGpusANode));
  f.optional("nic_share", m.nic_share,
             "Share of their NICs' bandwidth that these nodes have, to ask what a degraded node "
             "costs, e.g. 50 %. Default: 1.",
             Limits::between(0.01, 1));
  f.optional("slow_links", m.slow_links,
             "PCIe links of these nodes' GPUs and NICs that are slower than they should be, to ask "
             "what a x16 link that came up as x8 costs.");
  f.optional("gpu_speed", m.gpu_speed,
             "Speed of these nodes' GPUs, where they are throttled, as a share of what is usual. "
             "Default: 1.",
             Limits::between(0.01, 1));
}

template <class Fields>
void describe(Fields& f, ClusterChoice& c) {
  f.required("instance", c.instance, "A machine of foreduce list instances, or ./file.yaml.",
             instance_choice());
  f.required("nodes", c.nodes, "How many instances.", Limits::between(1, 65536));
}

template <class Fields>
void describe(Fields& f, FabricFields& x) {
  f.optional(
      "nodes_per_leaf", x.nodes_per_leaf,
      "Nodes on one leaf switch. Without it, one switch that never blocks connects all nodes.",
      Limits::between(1, 65536));
  f.optional("oversubscription", x.oversubscription,
             "Bandwidth below a leaf divided by its bandwidth to the spine.",
             Limits::between(1, 1000).or_ratio());
  f.optional("spine_latency", x.spine_latency, "Latency that crossing the spine adds.",
             Limits::zero_or_more());
  f.optional("placement", x.placement,
             "How nodes are placed: packed fills leaf after leaf, spread assigns them to the "
             "leaves in turn.",
             one_of<Placement>("placement"));
  f.optional(
      "placement_group", x.placement_group,
      "Whether the nodes are in a cluster placement group, which decides ENA's limit per flow.");
  f.verify([&](FieldReader& r) {
    if (r.has("oversubscription") && !r.has("nodes_per_leaf"))
      r.problem("oversubscription",
                "without nodes_per_leaf there is one switch, and nothing to oversubscribe");
  });
}

template <class Fields>
void describe(Fields& f, ClusterSpec& c) {
  f.optional("instance", c.instance, "A machine of foreduce list instances, or ./file.yaml.",
             instance_choice());
  f.optional("nodes", c.nodes, "How many instances.", Limits::between(1, 65536));
  f.optional("choices", c.choices,
             "In place of instance and nodes: several instance types, each with its own numbers of "
             "nodes.");
  f.optional("gpus_per_node", c.gpus_per_node,
             "How many GPUs of each instance the job has, the first ones. The price is of whole "
             "instances. Default: all.",
             Limits::between(1, kMostGpusANode));
  f.optional("switch", c.flat,
             "A flat switch instead of instances: the network of textbooks, for compare.");
  f.optional("mixed", c.mixed, "Several instance types in one cluster.");
  f.optional("prices", c.prices,
             "What instances cost you, in place of the on-demand price that ships.");
  f.optional("fabric", c.fabric,
             "The network between the nodes. Default: one switch that never blocks.");
  f.verify([&](FieldReader& r) {
    r.hint({"instance_type", "type", "machine"}, "did you mean 'instance'?");
    r.hint({"node_count", "num_nodes", "nnodes", "n_nodes", "count"}, "did you mean 'nodes'?");
    r.hint({"gpus", "num_gpus", "n_gpus", "world_size"},
           "a cluster has so many nodes of an instance type: two nodes of 8 GPUs are 16");
    r.hint({"spot", "spot_price", "region", "price", "reserved", "savings_plan"},
           "did you mean 'prices'? on-demand prices of one region ship, and prices: [{ instance: "
           "p5.48xlarge, price: 30 USD/h }] takes others");
    if (r.has("instance") && !r.has("nodes"))
      r.problem("nodes", "this key is missing here: how many instances?");
    if (!r.has("instance") && r.has("nodes")) r.problem("nodes", "nodes belongs to instance");
    if (r.has("gpus_per_node") && !r.has("instance") && !r.has("choices"))
      r.problem("gpus_per_node", "gpus_per_node belongs to instance or choices",
                r.has("mixed") ? "each entry of mixed has gpus" : "");
    if (r.has("choices") && c.choices.empty())
      r.problem("choices", "the list is empty; give at least one { instance, nodes }");
  });
}

}  // namespace foreduce
