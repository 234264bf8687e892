#include "topologies/export_simgrid.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreduce {
namespace {

constexpr double kNoLimit = 1e18;  // bytes/s; SimGrid's numbers are finite

std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) text += c == '>' ? std::string("&gt;") : std::string(1, c);
  return text;
}

std::string link(const std::string& name, BytesPerSecond bandwidth, Seconds latency) {
  return fmt::format("<link id=\"{}\" bandwidth=\"{}Bps\" latency=\"{}s\"/>\n", escaped(name),
                     std::min(bandwidth.value, kNoLimit), latency.value);
}

template <class Names>
std::string route(const char* kind, const std::string& ends, const Names& links) {
  std::string text = fmt::format("<{} {} symmetrical=\"NO\">", kind, ends);
  for (const std::string& name : links) text += fmt::format("<link_ctn id=\"{}\"/>", escaped(name));
  return text + fmt::format("</{}>\n", kind);
}

std::string zone(const NodeGraph& node, int n) {
  std::string text = fmt::format("  <zone id=\"node{}\" routing=\"Full\">\n", n);
  const auto& gpu = *node.machine().gpu;
  const auto host = [&](int g) { return fmt::format("node{}/gpu{}", n, g); };
  for (int g = 0; g < gpu.count; ++g)
    text += fmt::format("    <host id=\"{}\" speed=\"{}f\"/>\n", host(g), gpu.fp16.value);
  text += fmt::format("    <router id=\"node{}/out\"/>\n", n);
  const auto name = [&](std::size_t id) { return fmt::format("node{}/{}", n, node.link_name(id)); };
  for (std::size_t id = 0; id < node.link_count(); ++id)
    if (node.link(id).bandwidth.value < kNoLimit)
      text += "    " + link(name(id), node.link(id).bandwidth, node.link(id).latency);
  const auto names = [&](const Path& path) {
    std::vector<std::string> all;
    for (const std::size_t id : path.links) all.push_back(name(id));
    return all;
  };
  for (int a = 0; a < gpu.count; ++a) {
    for (int b = 0; b < gpu.count; ++b)
      if (a != b)
        text += "    " + route("route", fmt::format("src=\"{}\" dst=\"{}\"", host(a), host(b)),
                               names(node.inside({false, a}, {false, b})));
    text += "    " + route("route", fmt::format("src=\"{}\" dst=\"node{}/out\"", host(a), n),
                           names(node.outward({false, a})));
    text += "    " + route("route", fmt::format("src=\"node{}/out\" dst=\"{}\"", n, host(a)),
                           names(node.inward({false, a})));
  }
  return text + "  </zone>\n";
}

}  // namespace

std::string to_simgrid(const Cluster& cluster) {
  std::string text =
      "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
      "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n"
      "<zone id=\"cluster\" routing=\"Full\">\n";
  const int nodes = cluster.worker_nodes();
  for (int n = 0; n < nodes; ++n) text += zone(cluster.node(n), n);
  text +=
      "  <link id=\"switch\" bandwidth=\"1e18Bps\" latency=\"0s\" sharing_policy=\"FATPIPE\"/>\n";
  const auto up = [](int leaf) { return fmt::format("leaf{}>spine", leaf); };
  const auto down = [](int leaf) { return fmt::format("spine>leaf{}", leaf); };
  for (int leaf = 0; leaf < cluster.leaves(); ++leaf) {
    text += "  " + link(up(leaf), cluster.uplink_bandwidth(leaf), cluster.fabric().spine_latency);
    text += "  " + link(down(leaf), cluster.uplink_bandwidth(leaf), Seconds{0});
  }
  for (int a = 0; a < nodes; ++a)
    for (int b = 0; b < nodes; ++b) {
      if (a == b) continue;
      std::vector<std::string> links{"switch"};
      if (cluster.leaf_of(a) != cluster.leaf_of(b))
        links = {up(cluster.leaf_of(a)), down(cluster.leaf_of(b))};
      text +=
          "  " +
          route("zoneRoute",
                fmt::format(
                    "src=\"node{0}\" dst=\"node{1}\" gw_src=\"node{0}/out\" gw_dst=\"node{1}/out\"",
                    a, b),
                links);
    }
  return text + "</zone>\n</platform>\n";
}

}  // namespace foreduce
