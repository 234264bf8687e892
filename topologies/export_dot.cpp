// Machines and clusters as Graphviz draws them: `dot -Tsvg`.
#include <fmt/format.h>

#include <cmath>

#include "topologies/cluster.hpp"

namespace foreduce {

std::string NodeGraph::dot() const {
  std::string text = fmt::format(
      "graph \"{}\" {{\n  layout=neato; overlap=false; splines=true;\n  node [shape=box, "
      "style=filled, fontname=Helvetica];\n",
      machine_.name);
  const auto colour = [](VertexKind kind) {
    switch (kind) {
      case VertexKind::gpu: return "palegreen";
      case VertexKind::nvswitch: return "gold";
      case VertexKind::pcie_switch: return "lightblue";
      case VertexKind::socket: return "lightgrey";
      case VertexKind::memory: return "white";
      case VertexKind::rail: return "salmon";
      case VertexKind::fabric: break;
    }
    return "orange";
  };
  for (const VertexId v : boost::make_iterator_range(boost::vertices(graph_)))
    text += fmt::format("  {} [fillcolor={}];\n", graph_[v].name(), colour(graph_[v].kind));
  for (const auto& e : boost::make_iterator_range(boost::edges(graph_))) {
    const Link& link = graph_[e];
    if (link.id % 2 == 1) continue;  // the other direction of the link before
    const bool nvlink = link.kind == LinkKind::nvlink;
    text += fmt::format(
        "  {} -- {} [label=\"{}\", fontsize=9, fontname=Helvetica, color={}, fontcolor={}, "
        "penwidth={:.2g}];\n",
        graph_[boost::source(e, graph_)].name(), graph_[boost::target(e, graph_)].name(),
        std::isfinite(link.bandwidth.value) ? to_text(link.bandwidth) : "",
        nvlink ? "forestgreen" : "black", nvlink ? "forestgreen" : "black",
        nvlink ? 1 + link.bandwidth / machine_.nvlink->bandwidth : 1.0);
  }
  return text + "}\n";
}

std::string Cluster::dot() const {
  std::string text =
      "graph cluster {\n  rankdir=BT;\n  node [shape=box, style=filled, fillcolor=palegreen, "
      "fontname=Helvetica];\n";
  if (leaves_ == 0) text += "  switch [fillcolor=orange];\n";
  for (int l = 0; l < leaves_; ++l)
    text += fmt::format("  leaf{0} [fillcolor=orange];\n  leaf{0} -- spine [label=\"{1}\"];\n", l,
                        to_text(uplink_bandwidth(l)));
  for (int n = 0; n < nodes(); ++n)
    text += fmt::format("  node{0} [label=\"{1} {0}\"];\n  node{0} -- {2} [label=\"{3}\"];\n", n,
                        node(n).machine().name,
                        leaves_ == 0 ? "switch" : fmt::format("leaf{}", leaf_of(n)),
                        to_text(node(n).cut_out()));
  return text + "}\n";
}

}  // namespace foreduce
