// What pages of `predict` and `plan` draw: scaling, where a step's time goes, and cost.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "input/counted.hpp"
#include "scenarios/report/axes.hpp"
#include "scenarios/report/charts.hpp"
#include "scenarios/report/predict_table.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

double samples_of_step(const Json& p) {
  return std::round(number_or(p, "step_time_s", 0) * number_or(p, "throughput_samples_per_s", 0));
}

/// Where micro-batches follow from the number of GPUs and the samples of a step, of which there are
/// fewer numbers then: these name a point instead.
void name_by_samples(std::vector<AxisColumn>& axes, const Json& points) {
  std::set<double> samples;
  std::set<int> micro_batches;
  for (const Json& p : points) {
    if (number_or(p, "step_time_s", 0) <= 0) continue;
    samples.insert(samples_of_step(p));
    micro_batches.insert(p.value("accumulation", 1));
  }
  if (samples.size() >= micro_batches.size()) return;
  for (AxisColumn& axis : axes)
    if (axis.heading == "accum")
      axis = {"samples/step", 0,
              [](const Json& p) { return fmt::format("{:.0f}", samples_of_step(p)); }};
}

/// The cells of the axes that vary, but for the cluster's size and what follows from it. What was
/// chosen for a point is not part of its name.
std::vector<AxisColumn> naming_axes(const Json& points) {
  std::vector<AxisColumn> axes = axis_columns(points);
  name_by_samples(axes, points);
  std::erase_if(axes, [&](const AxisColumn& axis) {
    return axis.heading == "nodes" || axis.heading == "GPUs" ||
           (axis.heading == "profile" && varies(points, "instance"));
  });
  for (AxisColumn& axis : axes)
    if (axis.heading == "algorithm") axis.cell = run_words;
  std::erase_if(axes, [&](const AxisColumn& axis) {
    return std::all_of(points.begin(), points.end(),
                       [&](const Json& p) { return axis.cell(p) == axis.cell(points[0]); });
  });
  return axes;
}

PointName point_name(const std::vector<AxisColumn>& axes, const Json& p) {
  static const std::set<std::string> kSpeaking = {"model",    "precision", "instance", "placement",
                                                  "strategy", "algorithm", "profile",  "framework"};
  PointName name;
  for (const AxisColumn& axis : axes)
    name.push_back(kSpeaking.contains(axis.heading) ? axis.cell(p)
                                                    : axis.heading + " " + axis.cell(p));
  return name;
}

/// Over nodes: `key`, which grows with the step's time or falls with it.
enum class WithStep : std::uint8_t { grows, falls };
ChartSeries over_nodes(const std::string& name, const Points& points, const char* key,
                       WithStep with) {
  ChartSeries series{name, Drawn::line, {}};
  for (const Json* p : points) {
    const double value = number_or(*p, key, 0), step = number_or(*p, "step_time_s", 0);
    if (value <= 0 || step <= 0) continue;
    const double low = number_or(*p, "step_time_low_s", step) / step,
                 high = number_or(*p, "step_time_high_s", step) / step;
    series.points.push_back({number_or(*p, "nodes", 0), value,
                             with == WithStep::grows ? value * low : value / high,
                             with == WithStep::grows ? value * high : value / low});
  }
  std::stable_sort(series.points.begin(), series.points.end(),
                   [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
  return series;
}

/// What as many GPUs would do without waiting and communication, where that is one line for all
/// series.
ChartSeries ideal(const ChartGroup& group) {
  std::map<double, double> by_nodes;
  for (const auto& [name, points] : group.series)
    for (const Json* p : points) {
      const double value = number_or(*p, "throughput_samples_per_s", 0) /
                           number_or(*p, "scaling_efficiency", HUGE_VAL);
      const auto [at, fresh] = by_nodes.try_emplace(number_or(*p, "nodes", 0), value);
      if (!fresh && std::abs(at->second - value) > 1e-6 * value) return {};
    }
  ChartSeries series{"without communication", Drawn::dashed, {}};
  for (const auto& [nodes, value] : by_nodes) series.points.push_back({nodes, value});
  return series;
}

std::string in_chart(const ChartGroup& group) {
  return group.name.empty() ? "" : ": " + group.name;
}

Chart scaling_chart(const ChartGroup& group) {
  Chart chart{"Throughput by cluster size" + in_chart(group),
              "Bands are 90 % prediction intervals.",
              {"nodes", AxisUnit::count, ChartScale::logarithmic},
              {"samples/s", AxisUnit::samples_per_s, ChartScale::logarithmic}};
  for (const auto& [name, some] : group.series)
    chart.series.push_back(over_nodes(name.empty() ? "predicted" : name, some,
                                      "throughput_samples_per_s", WithStep::falls));
  if (ChartSeries best = ideal(group); !best.points.empty())
    chart.series.push_back(std::move(best));
  return chart;
}

Chart cost_chart(const ChartGroup& group) {
  Chart chart{"Cost of a million samples by cluster size" + in_chart(group),
              "On-demand prices of the instances alone. Bands are 90 % prediction intervals.",
              {"nodes", AxisUnit::count, ChartScale::logarithmic},
              {"USD per million samples", AxisUnit::usd, ChartScale::linear}};
  for (const auto& [name, some] : group.series) {
    ChartSeries series = over_nodes(name.empty() ? "predicted" : name, some,
                                    "usd_per_million_samples", WithStep::grows);
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  return chart;
}

struct ShownPoints {
  Points points;
  std::string selected;  ///< of how many, and which; "": all
};
/// All, if these are few; else of each cluster the fastest, of the fastest clusters.
ShownPoints shown_as_bars(const Points& all) {
  constexpr std::size_t kMostBars = 24;
  if (all.size() <= kMostBars) return {all, ""};
  const auto rate = [](const Json* p) { return number_or(*p, "throughput_samples_per_s", 0); };
  std::map<std::string, const Json*> best;
  std::vector<std::string> order;
  for (const Json* p : all) {
    const std::string cluster =
        fmt::format("{}|{}|{}|{}", text_or(*p, "model"), text_or(*p, "precision"),
                    text_or(*p, "instance"), p->value("nodes", 0));
    const Json*& at = best[cluster];
    if (!at) order.push_back(cluster);
    if (!at || rate(p) > rate(at)) at = p;
  }
  Points some;
  for (const std::string& cluster : order) some.push_back(best[cluster]);
  std::string selected =
      fmt::format("{} of {} points: of each cluster the fastest.", some.size(), all.size());
  if (some.size() > kMostBars) {
    std::vector<double> rates;
    for (const Json* p : some) rates.push_back(rate(p));
    std::nth_element(rates.begin(), rates.begin() + (kMostBars - 1), rates.end(), std::greater{});
    std::erase_if(some, [&](const Json* p) { return rate(p) < rates[kMostBars - 1]; });
    some.resize(std::min(some.size(), kMostBars));  // of equal ones the first
    selected = fmt::format("{} of {} points: the {} fastest clusters, and of each the fastest.",
                           some.size(), all.size(), some.size());
  }
  return {some, selected};
}

/// What a step is made of; the parts add up to it.
Chart step_chart(const Points& all, const std::vector<AxisColumn>& axes) {
  const auto [points, selected] = shown_as_bars(all);
  Chart chart{"Where a step's time goes",
              selected,
              {"", AxisUnit::count, ChartScale::linear},
              {"time", AxisUnit::seconds, ChartScale::linear}};
  for (const Json* p : points) {
    const int nodes = p->value("nodes", 0);
    const PointName name = point_name(axes, *p);
    chart.bars.push_back(fmt::format("{}{}{}", counted(nodes, "node"), name.empty() ? "" : ", ",
                                     fmt::join(name, ", ")));
  }
  for (const auto& [key, words, colour] :
       {std::tuple("compute_time_s", "compute", 0),
        {"straggler_wait_s", "straggler wait", 4},
        {"pipeline_bubble_s", "pipeline bubble", 3},
        {"step_overhead_s", "step overhead", 2},
        {"input_wait_s", "wait for input", 5},
        {"exposed_communication_s", "exposed communication", 1}}) {
    ChartSeries part{words, Drawn::line, {}, colour};
    double most = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      part.points.push_back({static_cast<double>(i), number_or(*points[i], key, 0)});
      most = std::max(most, part.points.back().y);
    }
    if (most > 0) chart.series.push_back(std::move(part));
  }
  return chart;
}

void add_line(Chart& chart, const std::string& name, ChartPoint from, ChartPoint to) {
  chart.series.push_back({name, Drawn::dashed, {std::move(from), std::move(to)}});
}

/// Cost over time, a dot a cluster, with what no other beats in both and with the goal.
Chart front_chart(const Json& report, const std::vector<AxisColumn>& axes) {
  Chart chart{"Cost and time of the training",
              "On the line is what no other cluster beats in both.",
              {"time", AxisUnit::seconds, ChartScale::logarithmic},
              {"cost, USD", AxisUnit::usd, ChartScale::logarithmic}};
  ChartSeries front{"best choices", Drawn::guide, {}};
  ChartPoint least{HUGE_VAL, HUGE_VAL}, most;
  for (const Json& p : report.at("points")) {
    const double time = number_or(p, "time_s", 0), usd = number_or(p, "usd", 0);
    if (usd <= 0 || time <= 0) continue;
    least = {std::min(least.x, time), std::min(least.y, usd)};
    most = {std::max(most.x, time), std::max(most.y, usd)};
    const std::string instance = text_or(p, "instance");
    auto cloud = std::find_if(chart.series.begin(), chart.series.end(),
                              [&](const ChartSeries& s) { return s.name == instance; });
    if (cloud == chart.series.end())
      cloud = chart.series.insert(cloud, {instance, Drawn::dots, {}});
    const ChartPoint point{
        time, usd, 0, 0,
        fmt::format("{}, {}", cluster_words(p), fmt::join(point_name(axes, p), ", "))};
    cloud->points.push_back(point);
    if (p.value("front", false)) front.points.push_back(point);
  }
  if (chart.series.empty()) return chart;
  std::sort(front.points.begin(), front.points.end(),
            [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
  if (front.points.size() > 1) chart.series.push_back(std::move(front));
  const Json& goal = report.at("goal");
  const double deadline = number_or(goal, "deadline_s", 0),
               budget = number_or(goal, "budget_usd", 0);
  if (deadline > 0)
    add_line(chart, "deadline", {deadline, std::min(least.y, budget > 0 ? budget : least.y)},
             {deadline, std::max(most.y, budget)});
  if (budget > 0)
    add_line(chart, "budget", {std::min(least.x, deadline > 0 ? deadline : least.x), budget},
             {std::max(most.x, deadline), budget});
  return chart;
}

}  // namespace

std::vector<Chart> predict_charts(const Json& report) {
  const Json& points = report.at("points");
  Points some = answered(points);
  if (some.empty()) return {};
  // What does not fit is drawn only where nothing does.
  const auto fits = [](const Json* p) { return fits_memory(*p); };
  const auto too_large =
      some.size() - static_cast<std::size_t>(std::count_if(some.begin(), some.end(), fits));
  const bool none_fits = too_large == some.size();
  if (!none_fits) std::erase_if(some, std::not_fn(fits));
  const std::vector<AxisColumn> axes = naming_axes(points);
  std::vector<Chart> charts;
  if (varies(points, "nodes")) {
    std::vector<std::pair<PointName, const Json*>> named;
    for (const Json* p : some) named.emplace_back(point_name(axes, *p), p);
    const std::vector<ChartGroup> groups = chart_groups(named);
    for (const ChartGroup& group : groups) charts.push_back(scaling_chart(group));
    for (const ChartGroup& group : groups)
      if (Chart cost = cost_chart(group); !cost.series.empty()) charts.push_back(std::move(cost));
  }
  charts.insert(charts.begin() + (charts.empty() ? 0 : 1), step_chart(some, axes));
  if (too_large > 0)
    for (Chart& chart : charts)
      chart.note += (chart.note.empty() ? "" : " ") +
                    (none_fits ? "Nothing here fits into the GPUs' memory."
                               : fmt::format("Left out: {} beyond the GPUs' memory.",
                                             counted(static_cast<int>(too_large), "point")));
  return charts;
}

std::vector<Chart> plan_charts(const Json& report) {
  const Json& points = report.at("points");
  const std::vector<AxisColumn> axes =
      points.empty() ? std::vector<AxisColumn>{} : naming_axes(points);
  std::vector<Chart> charts;
  if (Chart front = front_chart(report, axes); !front.series.empty())
    charts.push_back(std::move(front));
  Points best;
  for (const Json& p : points)
    if (p.value("front", false)) best.push_back(&p);
  if (!best.empty()) {
    charts.push_back(step_chart(best, axes));
    charts.back().title += ", of the best choices";
  }
  return charts;
}

}  // namespace foreduce
