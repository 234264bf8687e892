#include "scenarios/report/charts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

/// More lines in one chart than there are colours also differ in their dashes, and more than
/// those are not told apart; more charts are not looked at.
constexpr std::size_t kMostSeries = 8, kMostTogether = 24, kMostCharts = 6;

const char* unit_name(AxisUnit unit) {
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

const char* mark_name(Drawn as) {
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
          {"unit", unit_name(axis.unit)},
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

std::string repeated(const char* letter, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += letter;
  return out;
}

/// Names in one column.
class NameColumn {
 public:
  void add(const std::string& name) { width_ = std::max(width_, std::min(letters(name), kMost)); }
  std::string of(const std::string& name) const {
    return name + std::string(width_ - std::min(width_, letters(name)), ' ') + "  ";
  }
  std::size_t width() const { return width_ + 2; }

 private:
  static constexpr std::size_t kMost = 40;
  std::size_t width_ = 0;
};

std::string bars_text(const Chart& chart, const View& view) {
  static constexpr std::array kParts = {"█", "▓", "▒", "░"};
  NameColumn names;
  double longest = 0;
  std::vector<double> sums(chart.bars.size());
  for (const std::string& bar : chart.bars) names.add(bar);
  for (const ChartSeries& s : chart.series)
    for (const ChartPoint& p : s.points)
      longest = std::max(longest, sums.at(static_cast<std::size_t>(p.x)) += p.y);
  constexpr std::size_t kLeast = 20, kValue = 10;
  const std::size_t taken = names.width() + kValue, width = static_cast<std::size_t>(view.width),
                    room = std::max(kLeast, width > taken ? width - taken : 0);
  std::string text = chart.title + ":";
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    text += fmt::format("  {} {}", kParts[i % kParts.size()], chart.series[i].name);
  text += "\n";
  for (std::size_t bar = 0; bar < chart.bars.size(); ++bar) {
    text += names.of(chart.bars[bar]);
    double sum = 0;
    std::size_t drawn = 0;
    for (std::size_t i = 0; i < chart.series.size(); ++i) {
      sum += chart.series[i].points.at(bar).y;
      const auto until = static_cast<std::size_t>(
          std::llround(static_cast<double>(room) * (longest > 0 ? sum / longest : 0)));
      text += repeated(kParts[i % kParts.size()], until - std::min(until, drawn));
      drawn = std::max(drawn, until);
    }
    text += " " + value_words(chart.y.unit, sum) + "\n";
  }
  return text;
}

std::string series_text(const Chart& chart) {
  static constexpr std::array kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const bool log = chart.y.scale == ChartScale::logarithmic;
  const auto height = [&](double y) { return log ? std::log(std::max(y, 1e-300)) : y; };
  NameColumn names;
  double low = HUGE_VAL, high = -HUGE_VAL, left = HUGE_VAL, right = 0;
  for (const ChartSeries& s : chart.series) {
    names.add(s.name);
    for (const ChartPoint& p : s.points) {
      low = std::min(low, log ? height(p.y) : 0);
      high = std::max(high, height(p.y));
      left = std::min(left, p.x);
      right = std::max(right, p.x);
    }
  }
  std::string text = fmt::format("{}, {} from {} to {}{}:\n", chart.title, chart.x.title,
                                 value_words(chart.x.unit, left), value_words(chart.x.unit, right),
                                 log ? ", on a logarithmic scale" : "");
  for (const ChartSeries& s : chart.series) {
    if (s.points.empty()) continue;
    text += names.of(s.name);
    for (const ChartPoint& p : s.points) {
      const double share = high > low ? (height(p.y) - low) / (high - low) : 1;
      text += kHeights[static_cast<std::size_t>(
          std::clamp(std::lround(share * (kHeights.size() - 1)), 0L, 7L))];
    }
    text += fmt::format("  {} to {} {}\n", value_words(chart.y.unit, s.points.front().y),
                        value_words(chart.y.unit, s.points.back().y), unit_name(chart.y.unit));
  }
  return text;
}

}  // namespace

std::string chart_text(const Chart& chart, const View& view) {
  return chart.bars.empty() ? series_text(chart) : bars_text(chart, view);
}

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
    Json series = {{"name", s.name}, {"mark", mark_name(s.as)}, {"points", std::move(points)}};
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
  const auto at_most = [](const std::vector<ChartGroup>& groups, std::size_t series) {
    return std::all_of(groups.begin(), groups.end(),
                       [&](const ChartGroup& g) { return g.series.size() <= series; });
  };
  const std::size_t most_parts = points.empty() ? 0 : points[0].first.size();
  std::vector<ChartGroup> groups = split(0);
  for (std::size_t parts = 1; parts <= most_parts && !at_most(groups, kMostSeries); ++parts) {
    std::vector<ChartGroup> finer = split(parts);
    // A chart a line compares nothing.
    if (at_most(finer, 1) && at_most(groups, kMostTogether)) break;
    groups = std::move(finer);
  }
  groups.resize(std::min(groups.size(), kMostCharts));
  for (ChartGroup& g : groups) g.series.resize(std::min(g.series.size(), kMostTogether));
  return groups;
}

std::vector<Chart> charts_of(const Json& report) {
  static const std::map<std::string, std::vector<Chart> (*)(const Json&)> kinds = {
      {"predict", predict_charts}, {"plan", plan_charts},   {"compare", compare_charts},
      {"explain", explain_charts}, {"check", check_charts}, {"validate", validate_charts}};
  const auto at = kinds.find(text_or(report, "kind"));
  return at == kinds.end() ? std::vector<Chart>{} : at->second(report);
}

}  // namespace foreduce
