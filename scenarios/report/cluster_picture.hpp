// The cluster of a report's fastest point as a picture: its machines, and how busy each link is.
#pragma once

#include <string>

#include "scenarios/report/report.hpp"

namespace foreduce {

/// Puts the cluster of a point into a report, with the load of each link, if the point has that. Of
/// at most kMostDetailedNodes nodes each is there, those that are alike once; of more one of each
/// kind, with the load of the busiest like it.
void put_cluster(Json& report, const Prediction& point);
void put_cluster(Json& report, const Comparison& point);

/// The figure that a page has of that: inline SVG, a node each, with a legend and a table; empty
/// where the report has no cluster. It is well-formed XML.
std::string cluster_figure(const Json& report);

}  // namespace foreduce
