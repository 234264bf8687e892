// What a page draws of a report: curves, dots and bars as data, for the page's script and for the
// tables that stand in where there is none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/report/report.hpp"

namespace foreduce {

/// What an axis counts. Values are in the report's units.
enum class AxisUnit : std::uint8_t {
  count,
  bytes,
  seconds,
  gb_per_s,  ///< GB/s
  samples_per_s,
  usd
};

struct ChartPoint {
  double x = 0, y = 0;
  double low = 0, high = 0;  ///< what bounds y; equal: no band
  std::string label = {};    ///< what tells the point from the others of its series
};

/// How a series is drawn.
enum class Drawn : std::uint8_t {
  line,
  dots,
  guide,  ///< a grey line that helps to read the others
  dashed  ///< the same, dashed
};

struct ChartSeries {
  std::string name;
  Drawn as = Drawn::line;
  std::vector<ChartPoint> points;
  int colour = -1;  ///< series of one number have one colour; -1: the next
};

enum class ChartScale : std::uint8_t { linear, logarithmic };

struct ChartAxis {
  std::string title;
  AxisUnit unit = AxisUnit::count;
  ChartScale scale = ChartScale::linear;
};

struct Chart {
  std::string title, note;
  ChartAxis x, y;
  /// Of stacked bars, one a bar: then x counts them from 0, and each series is a part of them.
  std::vector<std::string> bars = {};
  std::vector<ChartSeries> series = {};
};

/// The charts that suit a report; none for kinds that have only tables.
std::vector<Chart> charts_of(const Json& report);
/// Of the kinds of report, one a function.
std::vector<Chart> predict_charts(const Json& report);
std::vector<Chart> plan_charts(const Json& report);
std::vector<Chart> compare_charts(const Json& report);
std::vector<Chart> explain_charts(const Json& report);
std::vector<Chart> check_charts(const Json& report);
std::vector<Chart> validate_charts(const Json& report);

/// For the page's script.
Json chart_json(const Chart& chart);
/// The same numbers as a table.
Table chart_table(const Chart& chart);

/// The same in letters, for a terminal: a stacked bar a line, or a series a line, as high as its
/// values on the axis's scale.
std::string chart_text(const Chart& chart, const View& view);

/// Points that share one chart, by what tells them apart besides `but`.
struct ChartGroup {
  std::string name;  ///< of the chart, among several
  std::vector<std::pair<std::string, std::vector<const Json*>>> series;
};
/// What of a point says which series it belongs to, the most telling axis first; empty: nothing.
using PointName = std::vector<std::string>;
/// Splits points into charts of at most eight series: by their names' first parts, as far as
/// needed. What would leave a line a chart stays together, up to 24.
std::vector<ChartGroup> chart_groups(const std::vector<std::pair<PointName, const Json*>>& points);

}  // namespace foreduce
