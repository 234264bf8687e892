// What pages of `compare`, `check` and `validate` draw: bandwidth over size, and predictions beside
// measurements.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "scenarios/report/charts.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

/// Of how many lines a page draws the bands, too (page.js).
constexpr std::size_t kMostBands = 8;

/// Whether one method was asked for with several numbers of segments; else it chooses by size.
bool segments_asked(const Json& points) {
  std::map<std::string, Json> seen;
  for (const Json& p : points) {
    std::string method;
    for (const char* key : {"instance", "nodes", "oversubscription", "placement", "algorithm",
                            "inner", "profile", "bytes"})
      method += p.value(key, Json()).dump() + "|";
    const auto [at, fresh] = seen.try_emplace(method, p.value("segments", Json()));
    if (!fresh && at->second != p.value("segments", Json())) return true;
  }
  return false;
}

/// What tells a comparison's points apart: clusters first, then methods.
class Names {
 public:
  explicit Names(const Json& points) : segments_(segments_asked(points)) {
    for (const char* key : {"instance", "nodes", "oversubscription", "placement", "algorithm",
                            "inner", "profile", "bytes"})
      if (varies(points, key)) varied_.insert(key);
  }
  PointName of(const Json& p) const {
    PointName name;
    const auto varied = [this](const char* key) { return varied_.contains(key); };
    if (varied("instance")) name.push_back(text_or(p, "instance"));
    if (varied("nodes") && varied("bytes"))
      name.push_back(fmt::format("{} nodes", p.value("nodes", 0)));
    if (varied("oversubscription"))
      name.push_back(fmt::format("{}:1", number_or(p, "oversubscription", 1)));
    if (varied("placement")) name.push_back(text_or(p, "placement"));
    const std::string inner = text_or(p, "inner");
    if (varied("algorithm") || varied("inner"))
      name.push_back(text_or(p, "algorithm") +
                     (inner.empty() || inner == kUsualInner ? "" : "/" + inner));
    if (segments_) name.push_back(fmt::format("{} segments", p.value("segments", 0)));
    if (varied("profile") && !varied("instance")) name.push_back(text_or(p, "profile"));
    return name;
  }

 private:
  std::set<std::string> varied_;
  bool segments_ = false;
};

/// Bus bandwidth, with the prediction interval.
ChartPoint busbw_of(const Json& p, const char* x) {
  const double busbw = number_or(p, "busbw_GBps", 0), time = number_or(p, "time_us", 0),
               low = number_or(p, "time_low_us", time), high = number_or(p, "time_high_us", time);
  return {number_or(p, x, 0), busbw, high > 0 ? busbw * time / high : busbw,
          low > 0 ? busbw * time / low : busbw};
}

void sort_by_x(ChartSeries& series) {
  std::stable_sort(series.points.begin(), series.points.end(),
                   [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
}

/// The bus bandwidth of the lower bound on the time, where it is one line for all series.
ChartSeries bound_of(const ChartGroup& group, const char* x) {
  std::map<double, double> bound;
  for (const auto& [name, points] : group.series)
    for (const Json* p : points) {
      const double value =
          number_or(*p, "busbw_GBps", 0) / std::max(1e-12, number_or(*p, "share_of_bound", 1));
      const auto [at, fresh] = bound.try_emplace(number_or(*p, x, 0), value);
      if (!fresh && std::abs(at->second - value) > 1e-6 * value) return {};
    }
  ChartSeries series{"bound", Drawn::dashed, {}};
  for (const auto& [at, value] : bound)
    if (value > 0) series.points.push_back({at, value});
  return series;
}

/// One size on one cluster: a bar a method.
Chart times_chart(const Json& points) {
  Chart chart{"Time by algorithm",
              "",
              {"", AxisUnit::count, ChartScale::linear},
              {"time", AxisUnit::seconds, ChartScale::linear}};
  ChartSeries time{"time", Drawn::line, {}};
  const Names names(points);
  for (const Json& p : points) {
    if (p.contains("error")) continue;
    time.points.push_back(
        {static_cast<double>(chart.bars.size()), number_or(p, "time_us", 0) * 1e-6});
    const PointName name = names.of(p);
    chart.bars.push_back(name.empty() ? text_or(p, "algorithm") : name.back());
  }
  if (chart.bars.size() > 1) chart.series.push_back(std::move(time));
  return chart;
}

/// Dots around the diagonal, where both are equal, with dashed lines 20 % off it.
Chart scatter(std::string title, const char* of, std::map<std::string, ChartSeries> clouds) {
  constexpr std::size_t kMost = 7;
  Chart chart{std::move(title),
              "On the line both are equal; the dashed lines are 20 % off it.",
              {fmt::format("measured {}", of), AxisUnit::seconds, ChartScale::logarithmic},
              {fmt::format("predicted {}", of), AxisUnit::seconds, ChartScale::logarithmic}};
  for (auto& [name, cloud] : clouds) chart.series.push_back(std::move(cloud));
  std::stable_sort(
      chart.series.begin(), chart.series.end(),
      [](const ChartSeries& a, const ChartSeries& b) { return a.points.size() > b.points.size(); });
  for (std::size_t i = kMost + 1; i < chart.series.size(); ++i) {
    auto& rest = chart.series[kMost].points;
    chart.series[kMost].name = "others";
    rest.insert(rest.end(), chart.series[i].points.begin(), chart.series[i].points.end());
  }
  if (chart.series.size() > kMost + 1) chart.series.resize(kMost + 1);
  double least = HUGE_VAL, most = 0;
  for (const ChartSeries& s : chart.series)
    for (const ChartPoint& p : s.points) {
      least = std::min(least, p.x);
      most = std::max(most, p.x);
    }
  for (const auto& [name, off, as] : {std::tuple("equal", 1.0, Drawn::guide),
                                      {"20 % slower", 1.2, Drawn::dashed},
                                      {"20 % faster", 1 / 1.2, Drawn::dashed}})
    chart.series.push_back({name, as, {{least, least * off}, {most, most * off}}});
  return chart;
}

std::vector<Chart> own_runs_charts(const Json& report) {
  std::map<std::string, std::map<double, const Json*>> fastest;
  for (const Json& r : report.at("rows")) {
    const Json*& at = fastest[text_or(r, "algorithm")][number_or(r, "bytes", 0)];
    if (!at || number_or(r, "measured_s", 0) < number_or(*at, "measured_s", 0)) at = &r;
  }
  Chart chart{"Measured and predicted times",
              "Where an algorithm ran in several ways at one size, the fastest is shown.",
              {"size", AxisUnit::bytes, ChartScale::logarithmic},
              {"time", AxisUnit::seconds, ChartScale::logarithmic}};
  for (const auto& [algorithm, by_size] : fastest) {
    ChartSeries predicted{algorithm + ", predicted", Drawn::line, {}},
        measured{algorithm + ", measured", Drawn::dots, {}};
    for (const auto& [bytes, r] : by_size) {
      predicted.points.push_back({bytes, number_or(*r, "predicted_s", 0)});
      measured.points.push_back({bytes, number_or(*r, "measured_s", 0)});
    }
    predicted.colour = measured.colour = static_cast<int>(chart.series.size() / 2);
    chart.series.push_back(std::move(predicted));
    chart.series.push_back(std::move(measured));
  }
  return {chart};
}

}  // namespace

std::vector<Chart> compare_charts(const Json& report) {
  const Json& points = report.at("points");
  const bool sizes = varies(points, "bytes"), nodes = varies(points, "nodes");
  if (!sizes && !nodes) {
    Chart chart = times_chart(points);
    return chart.series.empty() ? std::vector<Chart>{} : std::vector<Chart>{chart};
  }
  const char* x = sizes ? "bytes" : "nodes";
  const Names names(points);
  std::vector<std::pair<PointName, const Json*>> named;
  for (const Json& p : points)
    if (!p.contains("error")) named.emplace_back(names.of(p), &p);
  std::vector<Chart> charts;
  for (const ChartGroup& group : chart_groups(named)) {
    Chart chart{fmt::format("Bus bandwidth by {}{}", sizes ? "message size" : "cluster size",
                            group.name.empty() ? "" : ": " + group.name),
                group.series.size() > kMostBands ? "The table has 90 % prediction intervals."
                                                 : "Bands are 90 % prediction intervals.",
                {sizes ? "size" : "nodes", sizes ? AxisUnit::bytes : AxisUnit::count,
                 ChartScale::logarithmic},
                {"bus bandwidth, GB/s", AxisUnit::gb_per_s,
                 sizes ? ChartScale::logarithmic : ChartScale::linear}};
    for (const auto& [name, some] : group.series) {
      ChartSeries series{name.empty() ? text_or(*some[0], "algorithm") : name, Drawn::line, {}};
      for (const Json* p : some)
        if (number_or(*p, "busbw_GBps", 0) > 0) series.points.push_back(busbw_of(*p, x));
      sort_by_x(series);
      if (!series.points.empty()) chart.series.push_back(std::move(series));
    }
    if (ChartSeries bound = bound_of(group, x); !bound.points.empty()) {
      chart.note += " The bound is the best that the topology allows.";
      chart.series.push_back(std::move(bound));
    }
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  }
  return charts;
}

std::vector<Chart> check_charts(const Json& report) {
  std::vector<Chart> charts;
  for (const Json& t : report.at("tables")) {
    Chart chart{fmt::format("Measured and expected bus bandwidth: {} on {} x {}",
                            t.value("collective", "all_reduce"), cell_of(t.at("nodes")),
                            text_or(t, "instance")),
                varies(report.at("tables"), "log") ? text_or(t, "log") : "",
                {"size", AxisUnit::bytes, ChartScale::logarithmic},
                {"bus bandwidth, GB/s", AxisUnit::gb_per_s, ChartScale::logarithmic}};
    ChartSeries expected{"expected of a healthy cluster", Drawn::line, {}},
        measured{"measured", Drawn::dots, {}};
    for (const Json& r : t.at("rows")) {
      const double bytes = number_or(r, "bytes", 0), busbw = number_or(r, "busbw_GBps", 0),
                   wire = busbw * number_or(r, "measured_s", 0);
      if (bytes <= 0 || wire <= 0) continue;
      measured.points.push_back({bytes, busbw, 0, 0, text_or(r, "verdict")});
      expected.points.push_back({bytes, wire / number_or(r, "expected_s", 1),
                                 wire / number_or(r, "high_s", 1),
                                 wire / number_or(r, "low_s", 1)});
    }
    if (measured.points.empty()) continue;
    sort_by_x(expected);
    chart.series = {std::move(expected), std::move(measured)};
    charts.push_back(std::move(chart));
    if (charts.size() == 6) break;
  }
  return charts;
}

std::vector<Chart> validate_charts(const Json& report) {
  if (!report.contains("sources")) return own_runs_charts(report);
  std::map<std::string, ChartSeries> collectives, training;
  const auto add = [](std::map<std::string, ChartSeries>& clouds, const std::string& name,
                      ChartPoint point) {
    ChartSeries& cloud = clouds[name];
    cloud.name = name;
    cloud.as = Drawn::dots;
    if (point.x > 0 && point.y > 0) cloud.points.push_back(std::move(point));
  };
  for (const Json& p : report.at("points"))
    add(collectives, text_or(p, "instance"),
        {number_or(p, "published_s", 0), number_or(p, "predicted_s", 0), 0, 0,
         fmt::format("{}, {} nodes, {}", text_or(p, "source"), p.value("nodes", 0),
                     size_words(number_or(p, "size_bytes", 0)))});
  for (const Json& p : report.at("training_points"))
    add(training, text_or(p, "source"),
        {number_or(p, "published_step_s", 0), number_or(p, "predicted_step_s", 0), 0, 0,
         fmt::format("{}, {} GPUs", text_or(p, "workload"), p.value("gpus", 0))});
  std::vector<Chart> charts;
  if (!collectives.empty())
    charts.push_back(scatter("Published collectives", "time", std::move(collectives)));
  if (!training.empty())
    charts.push_back(scatter("Published training runs", "step", std::move(training)));
  return charts;
}

}  // namespace foreduce
