// Pictures as SVG, without a library: log-log curves of bus bandwidth over message size.
#pragma once

#include <string>
#include <vector>

namespace foreduce {

/// One size: bytes, and bus bandwidths in bytes per second; low and high bound the predicted one.
struct PlotPoint {
  double bytes = 0, measured = 0, predicted = 0, low = 0, high = 0;
};

/// Measured points as dots, predicted ones as a line with its interval as a band. Points need positive values; they are drawn in the
/// order of their sizes.
std::string busbw_svg(const std::string& title, std::vector<PlotPoint> points);

}  // namespace foreduce
