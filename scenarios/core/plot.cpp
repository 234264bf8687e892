#include "scenarios/core/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "topologies/core/units.hpp"

namespace foreduce {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

constexpr double kLeft = 70, kTop = 40, kWidth = 620, kHeight = 380;

/// A decade axis over the given values.
struct Axis10 {
  double low, high, from, length;
  Axis10(double least, double most, double at, double size) : low(std::floor(std::log10(least))), high(std::ceil(std::log10(most))), from(at), length(size) {
    if (high <= low) high = low + 1;
  }
  double at(double value) const { return from + length * (std::log10(value) - low) / (high - low); }
};

}  // namespace

std::string busbw_svg(const std::string& title, std::vector<PlotPoint> points) {
  std::sort(points.begin(), points.end(), [](const PlotPoint& a, const PlotPoint& b) { return a.bytes < b.bytes; });
  double least = 1e300, most = 0;
  for (const PlotPoint& p : points) {
    least = std::min({least, p.low, p.measured});
    most = std::max({most, p.high, p.measured});
  }
  const Axis10 x(points.front().bytes, points.back().bytes, kLeft, kWidth), y(least, most, kTop + kHeight, -kHeight);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n<text x=\"{2}\" y=\"24\" font-size=\"14\">{3}</text>\n",
      kLeft + kWidth + 20, kTop + kHeight + 60, kLeft, escaped(title));
  for (double d = x.low; d <= x.high; ++d)
    svg += fmt::format("<path d=\"M{0:.1f} {1} V{2}\" stroke=\"#ddd\"/><text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n", x.at(std::pow(10, d)), kTop,
                       kTop + kHeight, kTop + kHeight + 16, d < 3 ? fmt::format("{:.0f} B", std::pow(10, d)) : d < 6 ? fmt::format("{:.0f} kB", std::pow(10, d - 3)) : d < 9 ? fmt::format("{:.0f} MB", std::pow(10, d - 6)) : fmt::format("{:.0f} GB", std::pow(10, d - 9)));
  for (double d = y.low; d <= y.high; ++d)
    svg += fmt::format("<path d=\"M{0} {1:.1f} H{2}\" stroke=\"#ddd\"/><text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n", kLeft, y.at(std::pow(10, d)),
                       kLeft + kWidth, kLeft - 6, y.at(std::pow(10, d)) + 4, to_text(BytesPerSecond{std::pow(10, d)}));
  std::string up, down, line, dots;
  for (const PlotPoint& p : points) {
    up += fmt::format("{}{:.1f} {:.1f} ", up.empty() ? "M" : "L", x.at(p.bytes), y.at(p.high));
    down = fmt::format("L{:.1f} {:.1f} ", x.at(p.bytes), y.at(p.low)) + down;
    line += fmt::format("{}{:.1f} {:.1f} ", line.empty() ? "M" : "L", x.at(p.bytes), y.at(p.predicted));
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"#c33\"/>\n", x.at(p.bytes), y.at(p.measured));
  }
  svg += fmt::format("<path d=\"{}{}Z\" fill=\"#36c\" opacity=\"0.15\"/>\n<path d=\"{}\" fill=\"none\" stroke=\"#36c\" stroke-width=\"2\"/>\n{}", up, down, line, dots);
  svg += fmt::format("<text x=\"{}\" y=\"{}\">bus bandwidth over message size; dots: published; line and band: predicted, nine of ten</text>\n</svg>\n", kLeft, kTop + kHeight + 44);
  return svg;
}

}  // namespace foreduce
