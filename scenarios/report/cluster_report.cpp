// What a report says of a cluster's links.
#include <cmath>
#include <map>

#include "scenarios/report/cluster_picture.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

Json graph_report(const NodeGraph& node) {
  Json j = {{"instance", node.machine().name}, {"nodes", Json::array()}};
  for (VertexId v = 0; v < boost::num_vertices(node.graph()); ++v)
    j["vertices"].push_back(node.graph()[v].name());
  return j;
}

/// [from, to, kind, GB/s or null where it never binds, share of the time that it is busy].
template <class Load>
Json links_report(const NodeGraph& node, const Load& load) {
  std::map<std::size_t, std::pair<VertexId, VertexId>> ends;
  for (const auto& edge : boost::make_iterator_range(boost::edges(node.graph())))
    ends[node.graph()[edge].id] = {boost::source(edge, node.graph()),
                                   boost::target(edge, node.graph())};
  Json links = Json::array();
  for (std::size_t id = 0; id < node.link_count(); ++id) {
    const double rate = node.link(id).bandwidth.value;
    links.push_back({ends.at(id).first, ends.at(id).second, name_of(node.link(id).kind),
                     std::isfinite(rate) ? Json(rate * 1e-9) : Json(), load(id)});
  }
  return links;
}

/// Every node, those that are alike once.
Json whole_cluster(const ClusterLoads& c) {
  Json drawn = Json::array();
  std::size_t first = 0;
  for (int n = 0; n < c.cluster->nodes(); ++n) {
    const NodeGraph& node = c.cluster->node(n);
    Json one = graph_report(node);
    one["links"] = links_report(node, [&](std::size_t id) { return c.utilisations[first + id]; });
    first += node.link_count();
    const bool same = !drawn.empty() && drawn.back().at("links") == one.at("links") &&
                      drawn.back().at("vertices") == one.at("vertices");
    if (!same) drawn.push_back(std::move(one));
    drawn.back()["nodes"].push_back(n);
  }
  return drawn;
}

/// A node of each kind, with the load of the busiest like it.
Json kinds_of_nodes(const ClusterLoads& c) {
  std::map<std::string, double> loads;
  for (const LinkLoad& l : c.loads) loads[l.link] = l.utilisation;
  std::map<const NodeGraph*, Json> drawn;
  std::vector<const NodeGraph*> order;
  for (int n = 0; n < c.cluster->nodes(); ++n) {
    const NodeGraph& node = c.cluster->node(n);
    Json& one = drawn[&node];
    if (one.is_null()) {
      one = graph_report(node);
      one["links"] = links_report(node, [&](std::size_t id) {
        const auto at = loads.find(node.link_name(id));
        return at == loads.end() ? 0.0 : at->second;
      });
      order.push_back(&node);
    }
    one["nodes"].push_back(n);
  }
  Json all = Json::array();
  for (const NodeGraph* node : order) all.push_back(std::move(drawn[node]));
  return all;
}

void put(Json& report, std::size_t point, const ClusterLoads& c) {
  const bool whole = !c.utilisations.empty();
  Json j = {{"point", point},         {"algorithm", schedule_words(c.schedule)},
            {"bytes", c.bytes.value}, {"nodes", c.cluster->nodes()},
            {"whole", whole},         {"drawn", whole ? whole_cluster(c) : kinds_of_nodes(c)}};
  double busiest = 0;
  for (const LinkLoad& l : c.loads)
    if (l.kind == LinkKind::uplink) busiest = std::max(busiest, l.utilisation);
  if (c.cluster->leaves() > 0)
    j["uplinks"] = {{"leaves", c.cluster->leaves()},
                    {"GBps", c.cluster->uplink_bandwidth(0).value * 1e-9},
                    {"utilisation", busiest}};
  report["cluster"] = std::move(j);
}

}  // namespace

void put_cluster(Json& report, const Prediction& p) {
  if (p.loads) put(report, p.number, *p.loads);
}
void put_cluster(Json& report, const Comparison& p) {
  if (p.loads) put(report, p.number, *p.loads);
}

}  // namespace foreduce
