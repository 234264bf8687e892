#include "topologies/max_flow.hpp"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <vector>

namespace foreduce {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using Flow = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS,
    boost::property<boost::vertex_index_t, std::size_t,
                    boost::property<boost::vertex_color_t, boost::default_color_type,
                                    boost::property<boost::vertex_distance_t, double,
                                                    boost::property<boost::vertex_predecessor_t,
                                                                    Traits::edge_descriptor>>>>,
    boost::property<
        boost::edge_capacity_t, double,
        boost::property<boost::edge_residual_capacity_t, double,
                        boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;

}  // namespace

struct MaxFlow::Network {
  Flow graph;
  std::vector<Traits::edge_descriptor> links;
};

MaxFlow::MaxFlow(std::size_t vertices)
    : network_(std::make_unique<Network>(Network{Flow(vertices), {}})) {}
MaxFlow::~MaxFlow() = default;
MaxFlow::MaxFlow(MaxFlow&&) noexcept = default;
MaxFlow& MaxFlow::operator=(MaxFlow&&) noexcept = default;

std::size_t MaxFlow::connect(std::size_t a, std::size_t b, double width) {
  Flow& graph = network_->graph;
  const auto there = boost::add_edge(a, b, graph).first, back = boost::add_edge(b, a, graph).first;
  const auto capacity = boost::get(boost::edge_capacity, graph);
  const auto reverse = boost::get(boost::edge_reverse, graph);
  capacity[there] = width;
  capacity[back] = 0;
  reverse[there] = back;
  reverse[back] = there;
  network_->links.push_back(there);
  return network_->links.size() - 1;
}

void MaxFlow::set_width(std::size_t link, double width) {
  boost::get(boost::edge_capacity, network_->graph)[network_->links[link]] = width;
}

double MaxFlow::between(std::size_t source, std::size_t sink) {
  return boost::boykov_kolmogorov_max_flow(network_->graph, source, sink);
}

bool MaxFlow::beside_source(std::size_t vertex) const {
  return boost::get(boost::vertex_color, network_->graph)[vertex] == boost::black_color;
}

}  // namespace foreduce
