#include "scenarios/report/charts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

/// More lines in one chart are not told apart, and more charts are not looked at.
constexpr std::size_t kMostSeries = 8, kMostCharts = 6;

const char* name_of(AxisUnit unit) {
  switch (unit) {
    case AxisUnit::count: break;
    case AxisUnit::bytes: return "bytes";
    case AxisUnit::seconds: return "s";
    case AxisUnit::gb_per_s: return "GB/s";
    case AxisUnit::samples_per_s: return "samples/s";
    case AxisUnit::usd: return "USD";
  }
  return "";
}

const char* name_of(Drawn as) {
  switch (as) {
    case Drawn::line: break;
    case Drawn::dots: return "dots";
    case Drawn::guide: return "guide";
    case Drawn::dashed: return "dashed";
  }
  return "line";
}

Json axis_json(const ChartAxis& axis) {
  return {{"title", axis.title},
          {"unit", name_of(axis.unit)},
          {"logarithmic", axis.scale == ChartScale::logarithmic}};
}

std::string value_words(AxisUnit unit, double value) {
  switch (unit) {
    case AxisUnit::bytes: return size_words(value);
    case AxisUnit::seconds: return milliseconds(value);
    case AxisUnit::usd: return "$" + dollars(value);
    case AxisUnit::count:
    case AxisUnit::gb_per_s:
    case AxisUnit::samples_per_s: break;
  }
  return fmt::format("{:.5g}", value);
}

Table bars_table(const Chart& chart) {
  Table table;
  table.column("");
  for (const ChartSeries& s : chart.series) table.column(s.name);
  for (std::size_t bar = 0; bar < chart.bars.size(); ++bar) {
    std::vector<std::string> row{chart.bars[bar]};
    for (const ChartSeries& s : chart.series) {
      const auto at = std::find_if(s.points.begin(), s.points.end(), [&](const ChartPoint& p) {
        return p.x == static_cast<double>(bar);
      });
      row.push_back(at == s.points.end() ? "-" : value_words(chart.y.unit, at->y));
    }
    table.row(row);
  }
  return table;
}

}  // namespace

Json chart_json(const Chart& chart) {
  Json j = {{"title", chart.title}, {"x", axis_json(chart.x)}, {"y", axis_json(chart.y)}};
  if (!chart.bars.empty()) j["bars"] = chart.bars;
  j["series"] = Json::array();
  for (const ChartSeries& s : chart.series) {
    Json points = Json::array();
    for (const ChartPoint& p : s.points) {
      Json one = {{"x", p.x}, {"y", p.y}};
      if (p.low < p.high) one.update({{"low", p.low}, {"high", p.high}});
      if (!p.label.empty()) one["label"] = p.label;
      points.push_back(std::move(one));
    }
    Json series = {{"name", s.name}, {"mark", name_of(s.as)}, {"points", std::move(points)}};
    if (s.colour >= 0) series["colour"] = s.colour;
    j["series"].push_back(std::move(series));
  }
  return j;
}

Table chart_table(const Chart& chart) {
  if (!chart.bars.empty()) return bars_table(chart);
  const auto any = [&](auto has) {
    return std::any_of(chart.series.begin(), chart.series.end(), [&](const ChartSeries& s) {
      return std::any_of(s.points.begin(), s.points.end(), has);
    });
  };
  const bool bands = any([](const ChartPoint&p) { return p.low < p.high; }),
             labels = any([](const ChartPoint&p) { return !p.label.empty(); });
  Table table;
  table.column("");
  if (labels) table.column("point");
  table.column(chart.x.title);
  table.column(chart.y.title);
  if (bands) table.column("90 % PI");
  for (const ChartSeries& s : chart.series)
    for (const ChartPoint& p : s.points) {
      std::vector<std::string> row{s.name};
      if (labels) row.push_back(p.label);
      row.push_back(value_words(chart.x.unit, p.x));
      row.push_back(value_words(chart.y.unit, p.y));
      if (bands)
        row.push_back(p.low < p.high ? fmt::format("{} to {}", value_words(chart.y.unit, p.low),
                                                   value_words(chart.y.unit, p.high))
                                     : "-");
      table.row(std::move(row));
    }
  return table;
}

std::vector<ChartGroup> chart_groups(const std::vector<std::pair<PointName, const Json*>>& points) {
  const auto split = [&](std::size_t parts) {  // so many parts of a name go to the chart's
    std::vector<ChartGroup> groups;
    for (const auto& [name, point] : points) {
      const auto middle = name.begin() + static_cast<std::ptrdiff_t>(std::min(parts, name.size()));
      const std::string chart = fmt::format("{}", fmt::join(name.begin(), middle, ", ")),
                        series = fmt::format("{}", fmt::join(middle, name.end(), ", "));
      auto group = std::find_if(groups.begin(), groups.end(),
                                [&](const ChartGroup& g) { return g.name == chart; });
      if (group == groups.end()) group = groups.insert(group, {chart, {}});
      auto one = std::find_if(group->series.begin(), group->series.end(),
                              [&](const auto& s) { return s.first == series; });
      if (one == group->series.end()) one = group->series.insert(one, {series, {}});
      one->second.push_back(point);
    }
    return groups;
  };
  const std::size_t most_parts = points.empty() ? 0 : points[0].first.size();
  std::vector<ChartGroup> groups;
  for (std::size_t parts = 0; parts <= most_parts; ++parts) {
    groups = split(parts);
    if (std::all_of(groups.begin(), groups.end(),
                    [](const ChartGroup& g) { return g.series.size() <= kMostSeries; }))
      break;
  }
  groups.resize(std::min(groups.size(), kMostCharts));
  for (ChartGroup& g : groups) g.series.resize(std::min(g.series.size(), kMostSeries));
  return groups;
}

std::vector<Chart> charts_of(const Json& report) {
  static const std::map<std::string, std::vector<Chart> (*)(const Json&)> kinds = {
      {"predict", predict_charts},
      {"plan", plan_charts},
      {"compare", compare_charts},
      {"check", check_charts},
      {"validate", validate_charts}};
  const auto at = kinds.find(text_or(report, "kind"));
  return at == kinds.end() ? std::vector<Chart>{} : at->second(report);
}

}  // namespace foreduce
