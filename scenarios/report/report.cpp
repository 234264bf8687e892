#include "scenarios/report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "models/rank_layout.hpp"

namespace foreduce {
namespace {

using Json = nlohmann::ordered_json;

bool numeric(const std::string& cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) || cell[0] == '-');
}

/// Letters, not bytes: "§" is one.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

const char* kind_of(const Prediction&) { return "predict"; }
const char* kind_of(const Comparison&) { return "compare"; }

std::string csv_cells(const std::vector<std::string>& cells) {
  std::string out;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    std::string cell = cells[c];
    if (cell.find_first_of(",\"\n") != std::string::npos) {
      for (std::size_t at = 0; (at = cell.find('"', at)) != std::string::npos; at += 2) cell.insert(at, "\"");
      cell = "\"" + cell + "\"";
    }
    out += (c ? "," : "") + cell;
  }
  return out + "\n";
}

/// The values of `point` under the keys of `complete`, and the error.
std::string csv_of(const Json& complete, const Json& point, const std::string& error) {
  std::vector<std::string> cells;
  for (const auto& [key, unused] : complete.items()) {
    const auto at = point.find(key);
    cells.push_back(at == point.end() || at->is_null() ? "" : at->is_string() ? at->get<std::string>() : at->dump());
  }
  cells.push_back(error);
  return csv_cells(cells);
}

std::string engine_line() {
  return "SimGrid 3.32, model CM02; latency x1, bandwidth x1, no cross-traffic, no TCP window: a link does what its data sheet "
         "says";
}

template <class Points, class Get>
bool varies(const Points& points, Get get) {
  return std::any_of(points.begin(), points.end(), [&](const auto& p) { return get(p) != get(points[0]); });
}

std::string method(const std::string& algorithm, const std::string& inner) {
  return inner.empty() || inner == "ring" ? algorithm : algorithm + "/" + inner;
}

/// "341-402 ms": within which nine of ten measurements are expected; marked where that is a guess.
std::string interval_words(const Bounds& b, const Doubts& doubts, const std::function<std::string(Seconds)>& text) {
  return b.known ? fmt::format("{} to {}{}", text(b.low), text(b.high), doubts.mark(b)) : "-";
}

/// How many times as fast as what NCCL would choose for the same question; "-" where that was not asked.
template <class Points, class Point, class Same, class Time>
std::string against_nccl(const Points& points, const Point& p, Same same, Time time) {
  for (const Point& other : points)
    if (other.algorithm == "nccl" && other.error.empty() && same(p, other)) return fmt::format("{:.2f} x", time(other) / time(p));
  return "-";
}

void put_bounds(Json& j, const char* low, const char* high, const Bounds& b, double scale) {
  j[low] = b.known ? Json(b.low.value * scale) : Json();
  j[high] = b.known ? Json(b.high.value * scale) : Json();
  j["extrapolated"] = b.known ? Json(b.extrapolated) : Json();
  j["extrapolated_because"] = b.why.empty() ? Json() : Json(b.why);
}

std::string link_words(const std::string& link, LinkKind kind) {
  return link == "latency" ? link : fmt::format("{} ({})", link, name_of(kind));
}

}  // namespace

Json report_head(const Scenario& s, const char* kind, std::size_t points) {
  Json engine = {{"simulator", "SimGrid 3.32"}};
  for (const EngineSetting& setting : engine_settings()) engine[setting.name] = setting.value;
  return {{"foreduce_version", FOREDUCE_VERSION},
          {"kind", kind},
          {"name", s.name},
          {"scenario", s.file},
          {"scenario_hash", s.hash},
          {"points_in_sweep", points},
          {"unused_keys", s.unused},
          {"engine", engine}};
}

std::string crowding(const Prediction& p) {
  return fmt::format(
      "{} does not fit: weights, gradients and optimizer take {}, a GPU has {} (nothing is sharded here; workload.state says what "
      "a parameter takes)",
      p.model, to_text(p.state), to_text(p.gpu_memory));
}

std::string Table::text(bool colour) const {
  std::vector<std::size_t> widths;
  for (const auto& h : headings) widths.push_back(width(h));
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells, bool heading) {
    std::string one;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string space(widths[c] - width(cells[c]), ' ');
      const bool right = heading ? !rows.empty() && numeric(rows[0][c]) : numeric(cells[c]);
      one += (c ? "  " : "") + (right ? space + cells[c] : cells[c] + space);
    }
    one.erase(one.find_last_not_of(' ') + 1);
    out += (heading && colour ? "\033[1m" + one + "\033[0m" : one) + "\n";
  };
  line(headings, true);
  for (const auto& row : rows) line(row, false);
  return out;
}

std::string Table::csv() const {
  std::string out = csv_cells(headings);
  for (const auto& row : rows) out += csv_cells(row);
  return out;
}

Json to_json(const Prediction& p, bool cost) {
  Json j = {{"point", p.number},
            {"model", p.model},
            {"sample", p.sample},
            {"precision", p.precision},
            {"batch_per_gpu", p.batch_per_gpu},
            {"accumulation", p.accumulation},
            {"instance", p.instance},
            {"nodes", p.nodes},
            {"gpus", p.gpus},
            {"oversubscription", p.oversubscription},
            {"algorithm", p.algorithm},
            {"inner", p.inner},
            {"profile", p.profile},
            {"dedicated_servers", p.servers},
            {"bucket_bytes", static_cast<std::uint64_t>(p.bucket.value)},
            {"segments", p.segments},
            {"chosen", fmt::format("{}", fmt::join(p.chosen, ", "))}};
  if (!p.error.empty()) {
    j["error"] = p.error;
    return j;
  }
  j["step_time_s"] = p.step.total.value;
  put_bounds(j, "step_time_low_s", "step_time_high_s", p.step_bounds, 1);
  j["compute_time_s"] = p.step.compute.value;
  j["communication_time_s"] = p.step.communication.value;
  j["waiting_s"] = p.step.waiting.value;
  j["exposed_communication_s"] = p.step.exposed_communication.value;
  j["throughput_samples_per_s"] = p.throughput;
  j["scaling_efficiency"] = p.efficiency_gpu;
  j["scaling_efficiency_against"] = "one GPU without communication";
  j["scaling_efficiency_vs_one_node"] = p.efficiency_node > 0 ? Json(p.efficiency_node) : Json();
  j["usd_per_hour"] = p.priced ? Json(p.price.value) : Json();
  j["usd_per_million_samples"] = p.priced ? Json(p.usd_per_million_samples) : Json();
  j["bottleneck_link"] = p.bottleneck;
  j["bottleneck_utilisation"] = p.bottleneck_utilisation;
  j["buckets"] = p.step.buckets.size();
  j["compute_measured"] = p.compute_measured;
  j["compute_source"] = p.compute_source;
  j["state_bytes"] = p.state.value;
  j["gpu_memory_bytes"] = p.gpu_memory.value > 0 ? Json(p.gpu_memory.value) : Json();
  j["simulated_messages"] = p.messages;
  if (!cost) return j;
  j["mode"] = p.cached ? "cached" : p.symmetric ? "folded" : "plain";
  j["wall_seconds"] = p.wall_seconds;
  j["peak_rss_bytes"] = p.peak_rss_bytes;
  return j;
}

Json to_json(const Comparison& p, bool cost) {
  Json j = {{"point", p.number},
            {"instance", p.instance},
            {"nodes", p.nodes},
            {"ranks", p.ranks},
            {"oversubscription", p.oversubscription},
            {"algorithm", p.algorithm},
            {"chosen", p.chosen},
            {"inner", p.inner},
            {"profile", p.profile},
            {"segments", p.segments},
            {"bytes", p.bytes},
            {"count", p.count},
            {"type", p.dtype},
            {"redop", "sum"}};
  if (!p.error.empty()) {
    j["error"] = p.error;
    return j;
  }
  j["time_us"] = p.time.value * 1e6;
  put_bounds(j, "time_low_us", "time_high_us", p.bounds, 1e6);
  j["algbw_GBps"] = p.algbw();
  j["busbw_GBps"] = p.busbw();
  j["bound_time_us"] = p.bound.time.value * 1e6;
  j["bound_because"] = p.bound.because;
  j["share_of_bound"] = p.time.value > 0 ? p.bound.time / p.time : 1;
  j["bottleneck_link"] = p.bottleneck;
  j["simulated_messages"] = p.messages;
  if (!cost) return j;
  j["mode"] = p.symmetric ? "folded" : "plain";
  j["wall_seconds"] = p.wall_seconds;
  j["peak_rss_bytes"] = p.peak_rss_bytes;
  return j;
}

template <class Point>
std::string json_report(const Scenario& scenario, const Sweep<Point>& sweep, const ReportOptions& options) {
  Json j = report_head(scenario, kind_of(Point{}), sweep.all);
  if (options.shard.count > 1) j["shard"] = {{"index", options.shard.index}, {"count", options.shard.count}};
  j["points"] = Json::array();
  for (const auto& p : sweep.points) j["points"].push_back(to_json(p, options.cost));
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}
template std::string json_report(const Scenario&, const Sweep<Prediction>&, const ReportOptions&);
template std::string json_report(const Scenario&, const Sweep<Comparison>&, const ReportOptions&);

template <class Point>
std::string csv_heading(const ReportOptions& options) {
  std::vector<std::string> keys;
  const Json complete = to_json(Point{}, options.cost);
  for (const auto& [key, unused] : complete.items()) keys.push_back(key);
  keys.emplace_back("error");
  return csv_cells(keys);
}
template <class Point>
std::string csv_line(const Point& point, const ReportOptions& options) {
  return csv_of(to_json(Point{}, options.cost), to_json(point, options.cost), point.error);
}
template std::string csv_heading<Prediction>(const ReportOptions&);
template std::string csv_heading<Comparison>(const ReportOptions&);
template std::string csv_line(const Prediction&, const ReportOptions&);
template std::string csv_line(const Comparison&, const ReportOptions&);

std::string as_ranges(const std::vector<std::size_t>& numbers) {
  std::string text;
  int ranges = 0;
  for (std::size_t first = 0, last = 0; first < numbers.size(); first = ++last) {
    if (++ranges > 20) return text + ", …";
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += text.empty() ? "" : ", ";
    text += first == last ? fmt::format("{}", numbers[first]) : fmt::format("{}-{}", numbers[first], numbers[last]);
  }
  return text;
}

std::string merge_reports(const std::vector<std::string>& files, std::size_t& failed) {
  const auto fail = [](const std::string& file, std::string message, std::string hint = {}) {
    return file_error(file, std::move(message), std::move(hint));
  };
  Json whole;
  std::map<std::size_t, std::pair<Json, std::string>> points;  // by number: the point, and the file it is from
  for (const std::string& file : files) {
    Json part = Json::parse(read_text(file), nullptr, false);
    if (part.is_discarded() || !part.is_object()) throw fail(file, "not a JSON report");
    for (const char* key : {"foreduce_version", "kind", "scenario_hash", "points_in_sweep", "points"})
      if (!part.contains(key)) throw fail(file, fmt::format("not a report of foreduce: '{}' is missing", key));
    part.erase("shard");
    Json these = std::move(part["points"]);
    part["points"] = Json::array();
    if (whole.is_null()) whole = part;
    for (const char* key : {"foreduce_version", "kind", "scenario_hash", "points_in_sweep"})
      if (part[key] != whole[key])
        throw fail(file, fmt::format("is a part of something else: its {} is {}, that of {} is {}", key, part[key].dump(), files[0],
                                     whole[key].dump()));
    if (!these.is_array()) throw fail(file, "points is not a list");
    for (Json& p : these) {
      if (!p.is_object() || !p.contains("point") || !p["point"].is_number_unsigned()) throw fail(file, "a point has no number");
      const auto number = p["point"].get<std::size_t>();
      const auto [at, fresh] = points.try_emplace(number, std::move(p), file);
      if (!fresh) throw fail(file, fmt::format("point {} is also in {}", number, at->second.second), "give each part once");
    }
  }
  const auto all = whole["points_in_sweep"].is_number_unsigned() ? whole["points_in_sweep"].get<std::size_t>() : 0;
  std::vector<std::size_t> missing;
  for (std::size_t n = 0; n < std::min<std::size_t>(all, 10'000'000); ++n)
    if (!points.contains(n)) missing.push_back(n);
  if (!missing.empty())
    throw fail("", fmt::format("{} of {} points are missing: {}", missing.size(), all, as_ranges(missing)),
               "is a part not finished, or not given?");
  if (points.size() != all) throw fail("", fmt::format("there are {} points where the sweep has {}", points.size(), all));
  failed = 0;
  for (auto& [number, point] : points) {
    failed += point.first.contains("error");
    whole["points"].push_back(std::move(point.first));
  }
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string unused_line(const Scenario& s) {
  return s.unused.empty() ? "" : fmt::format("without effect here: {}\n", fmt::join(s.unused, ", "));
}

Doubts::Doubts(const std::vector<Bounds>& bounds, std::string compared) : compared_(std::move(compared)) {
  std::set<std::string> reasons;
  for (const Bounds& b : bounds) {
    any_ = any_ || b.known;
    if (b.known && b.extrapolated) reasons.insert(b.why);
  }
  reasons_.assign(reasons.begin(), reasons.end());
}

std::string Doubts::star(std::size_t reason) const {
  return reasons_.size() == 1 || reason >= 26 ? "*" : fmt::format("*{}", static_cast<char>('a' + reason));
}

std::string Doubts::mark(const Bounds& bounds) const {
  if (!bounds.known || !bounds.extrapolated) return "";
  return " " + star(static_cast<std::size_t>(std::find(reasons_.begin(), reasons_.end(), bounds.why) - reasons_.begin()));
}

std::string Doubts::text() const {
  std::string all = any_ ? fmt::format("nine of ten: of measurements, by what {} compared with\n", compared_) : "";
  for (std::size_t i = 0; i < reasons_.size(); ++i) all += fmt::format("{} extrapolated: {}\n", star(i), reasons_[i]);
  return all;
}

Doubts doubts_of(const std::vector<Prediction>& points) {
  std::vector<Bounds> bounds;
  for (const Prediction& p : points)
    if (p.error.empty()) bounds.push_back(p.step_bounds);
  return {bounds, "the profile and compute times were"};
}

std::vector<AxisColumn> axis_columns(const std::vector<Prediction>& points) {
  std::vector<AxisColumn> columns;
  const auto always = [&](const char* heading, std::function<std::string(const Prediction&)> cell) {
    columns.push_back({heading, std::move(cell)});
  };
  const auto if_varied = [&](const char* heading, const std::function<std::string(const Prediction&)>& cell) {
    if (varies(points, cell)) always(heading, cell);
  };
  if_varied("model", [](const Prediction& p) { return p.model; });
  if_varied("precision", [](const Prediction& p) { return p.precision; });
  if_varied("batch", [](const Prediction& p) { return fmt::format("{}", p.batch_per_gpu); });
  if_varied("accum", [](const Prediction& p) { return fmt::format("{}", p.accumulation); });
  if_varied("instance", [](const Prediction& p) { return p.instance; });
  always("nodes", [](const Prediction& p) { return fmt::format("{}", p.nodes); });
  always("GPUs", [](const Prediction& p) { return fmt::format("{}", p.gpus); });
  if_varied("oversub", [](const Prediction& p) { return fmt::format("{}:1", p.oversubscription); });
  always("algorithm", [](const Prediction& p) {
    const std::string chosen = p.chosen.empty()
                                   ? ""
                                   : ": " + (p.chosen.size() > 2 ? fmt::format("{} of {}", p.chosen.front(), p.chosen.size())
                                                                 : fmt::format("{}", fmt::join(p.chosen, ", ")));
    return method(p.algorithm, p.inner) + chosen;
  });
  if_varied("servers", [](const Prediction& p) { return p.servers ? fmt::format("{}", p.servers) : "-"; });
  if_varied("bucket", [](const Prediction& p) { return to_text(p.bucket); });
  if_varied("segments", [](const Prediction& p) { return p.segments ? fmt::format("{}", p.segments) : "auto"; });
  if_varied("profile", [](const Prediction& p) { return p.profile; });
  return columns;
}

std::string text_report(const Scenario& scenario, const Sweep<Prediction>& sweep, bool colour) {
  const auto& points = sweep.points;
  if (points.empty()) return scenario.name + "\n\nno points\n";
  Table table;
  const bool profiles = varies(points, [](const auto& p) { return p.profile; });
  const bool nccl = std::any_of(points.begin(), points.end(), [](const auto& p) { return p.algorithm == "nccl"; }) &&
                    varies(points, [](const auto& p) { return p.algorithm; });
  const auto same = [](const Prediction& a, const Prediction& b) {
    return std::tie(a.model, a.precision, a.batch_per_gpu, a.accumulation, a.instance, a.nodes, a.oversubscription, a.bucket.value,
                    a.profile) == std::tie(b.model, b.precision, b.batch_per_gpu, b.accumulation, b.instance, b.nodes,
                                           b.oversubscription, b.bucket.value, b.profile);
  };
  const std::vector<AxisColumn> axes = axis_columns(points);
  for (const AxisColumn& axis : axes) table.headings.push_back(axis.heading);
  for (const char* h : {"step", "nine of ten", "compute", "waits", "exposed", "samples/s"}) table.headings.emplace_back(h);
  if (nccl) table.headings.emplace_back("vs nccl");
  for (const char* h : {"eff(GPU)", "eff(node)", "$/h", "$/M samples", "busiest link"}) table.headings.emplace_back(h);
  std::set<std::string> sources, crowded;
  const Doubts doubts = doubts_of(points);
  for (const auto& p : points) {
    auto& row = table.rows.emplace_back();
    for (const AxisColumn& axis : axes) row.push_back(axis.cell(p));
    if (!p.error.empty()) {
      for (int i = 0; i < (nccl ? 11 : 10); ++i) row.emplace_back("-");
      row.push_back("error: " + p.error.substr(0, p.error.find('\n')));
      continue;
    }
    sources.insert(fmt::format("compute of {} on {}: {}", p.model, p.instance, p.compute_source));
    if (!p.fits()) crowded.insert(p.instance + ": " + crowding(p));
    row.push_back(to_text(p.step.total));
    row.push_back(interval_words(p.step_bounds, doubts, [](Seconds s) { return to_text(s); }));
    for (const Seconds s : {p.step.compute, p.step.waiting, p.step.exposed_communication}) row.push_back(to_text(s));
    row.push_back(fmt::format("{:.1f}", p.throughput));
    if (nccl) row.push_back(against_nccl(points, p, same, [](const Prediction& q) { return q.step.total.value; }));
    row.push_back(fmt::format("{:.1f} %", 100 * p.efficiency_gpu));
    row.push_back(p.efficiency_node > 0 ? fmt::format("{:.1f} %", 100 * p.efficiency_node) : "-");
    row.push_back(p.priced ? fmt::format("{:.2f}", p.price.value) : "-");
    row.push_back(p.priced ? fmt::format("{:.2f}", p.usd_per_million_samples) : "-");
    row.push_back(p.gpus == 1
                      ? "-"
                      : fmt::format("{} {:.0f} %", link_words(p.bottleneck, p.bottleneck_kind), 100 * p.bottleneck_utilisation));
  }
  std::string text = scenario.name + "\n\n" + table.text(colour) + "\n";
  text +=
      "eff(GPU): against as many times one GPU without communication; eff(node): against as many times one node, same algorithm\n";
  text +=
      "compute: of one GPU; waits: what the slowest of all takes longer; exposed: what communication adds to the step; busiest "
      "link: during the all-reduce of the largest bucket\n";
  text += doubts.text();
  if (!profiles) text += fmt::format("profile: {}\n", points.front().profile);
  const auto& precisions = scenario.workload->precision.values;
  if (scenario.workload->gradient.empty() &&
      std::any_of(precisions.begin(), precisions.end(), [](const std::string& p) { return p != "fp32"; }))
    text +=
        "gradients travel in 16 bits, as the precision; where mixed precision keeps them in fp32 (PyTorch's autocast), say "
        "workload.gradient: fp32\n";
  for (const auto& s : sources) text += s + "\n";
  for (const auto& s : crowded) text += s + "\n";
  return text + unused_line(scenario) + engine_line() + "\n";
}

std::string text_report(const Scenario& scenario, const Sweep<Comparison>& sweep, bool colour) {
  const auto& points = sweep.points;
  if (points.empty()) return scenario.name + "\n\nno points\n";
  Table table;
  const bool instances = varies(points, [](const auto&p) { return p.instance; }),
             nodes = varies(points, [](const auto&p) { return p.nodes; });
  const bool overs = varies(points, [](const auto&p) { return p.oversubscription; }),
             segments = varies(points, [](const auto&p) { return p.segments; });
  const auto head_if = [&](bool wanted, const char* name) {
    if (wanted) table.headings.emplace_back(name);
  };
  const bool profiles = varies(points, [](const auto& p) { return p.profile; });
  const bool nccl = std::any_of(points.begin(), points.end(), [](const auto& p) { return p.algorithm == "nccl"; }) &&
                    varies(points, [](const auto& p) { return p.algorithm; });
  const auto same = [](const Comparison& a, const Comparison& b) {
    return std::tie(a.instance, a.nodes, a.oversubscription, a.bytes, a.profile) ==
           std::tie(b.instance, b.nodes, b.oversubscription, b.bytes, b.profile);
  };
  head_if(instances, "instance");
  head_if(nodes, "nodes");
  head_if(overs, "oversub");
  for (const char* h : {"size", "count", "type", "redop", "algorithm"}) head_if(true, h);
  head_if(segments, "segments");
  head_if(profiles, "profile");
  for (const char* h : {"time", "nine of ten", "algbw", "busbw"}) head_if(true, h);
  head_if(nccl, "vs nccl");
  for (const char* h : {"bound", "of bound", "busiest link"}) head_if(true, h);
  std::vector<Bounds> bounds;
  for (const Comparison& p : points)
    if (p.error.empty()) bounds.push_back(p.bounds);
  const Doubts doubts(bounds, "the profile was");
  for (const auto& p : points) {
    auto& row = table.rows.emplace_back();
    const auto cell = [&](bool wanted, std::string text) {
      if (wanted) row.push_back(std::move(text));
    };
    cell(instances, p.instance);
    cell(nodes, fmt::format("{}", p.nodes));
    cell(overs, fmt::format("{}:1", p.oversubscription));
    for (std::string text : {fmt::format("{}", p.bytes), fmt::format("{}", p.count), p.dtype, std::string("sum"),
                             method(p.algorithm, p.inner) + (p.chosen.empty() ? "" : ": " + p.chosen)})
      cell(true, std::move(text));
    cell(segments, fmt::format("{}", p.segments));
    cell(profiles, p.profile);
    if (!p.error.empty()) {
      for (int i = 0; i < (nccl ? 7 : 6); ++i) row.emplace_back("-");
      row.push_back("error: " + p.error.substr(0, p.error.find('\n')));
      continue;
    }
    row.push_back(fmt::format("{:.1f}", p.time.value * 1e6));
    row.push_back(interval_words(p.bounds, doubts, [](Seconds s) { return fmt::format("{:.1f}", s.value * 1e6); }));
    row.push_back(fmt::format("{:.2f}", p.algbw()));
    row.push_back(fmt::format("{:.2f}", p.busbw()));
    cell(nccl, against_nccl(points, p, same, [](const Comparison& q) { return q.time.value; }));
    row.push_back(fmt::format("{:.1f}", p.bound.time.value * 1e6));
    row.push_back(fmt::format("{:.0f} %", p.time.value > 0 ? 100 * (p.bound.time / p.time) : 100));
    row.push_back(p.bottleneck);
  }
  const auto& first = points.front();
  const std::string where = instances || nodes ? "" : fmt::format(", {} x {}, {} ranks", first.nodes, first.instance, first.ranks);
  return scenario.name + where + "\n\n" + table.text(colour) +
         "\nsize in bytes, time and bound in us, algbw and busbw in GB/s (10^9), busbw = algbw * 2(n-1)/n as in nccl-tests\n"
         "bound: the best that any all-reduce without reduction in switches could do on this topology\n" +
         doubts.text() + (profiles ? "" : fmt::format("profile: {}\n", points.front().profile)) + unused_line(scenario) +
         engine_line() + "\n";
}

std::string describe(const Machine& m, Format format) {
  const NodeGraph graph(m);
  const auto rate = [](BytesPerSecond r) { return std::isfinite(r.value) ? to_text(r) : std::string("no limit"); };
  const auto ring_text = [](const std::vector<int>& ring) { return fmt::format("{}", fmt::join(ring, "-")); };
  std::vector<std::string> doubtful;
  for (const auto& c : m.citations)
    if (c.source == "recalled" || c.source == "assumed" || c.source == "derived" || c.source == "optcast" ||
        c.source == "OSU-hpc6a")
      doubtful.push_back(fmt::format("{} = {} ({})", c.key, c.value, c.source));
  if (format == Format::json) {
    Json j = {{"foreduce_version", FOREDUCE_VERSION},
              {"kind", "topology"},
              {"instance", m.name},
              {"gpus", m.gpus()},
              {"rails", graph.rails()}};
    j["gpu_model"] = m.gpu ? Json(m.gpu->model) : Json();
    j["node_egress_bytes_per_s"] = graph.cut_out(!m.cpu_only(), m.cpu_only()).value;
    j["node_ingress_bytes_per_s"] = graph.cut_in(!m.cpu_only(), m.cpu_only()).value;
    j["nvlink_rings"] = graph.rings();
    j["channels"] = graph.chains();
    j["links"] = Json::array();
    for (std::size_t i = 0; i < graph.link_count(); ++i)
      j["links"].push_back(
          {{"name", graph.link_name(i)},
           {"kind", name_of(graph.link(i).kind)},
           {"bytes_per_s", std::isfinite(graph.link(i).bandwidth.value) ? Json(graph.link(i).bandwidth.value) : Json()},
           {"latency_s", graph.link(i).latency.value}});
    j["citations"] = Json::array();
    for (const auto& c : m.citations) j["citations"].push_back({{"key", c.key}, {"value", c.value}, {"source", c.source}});
    return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  Table links;
  links.headings = {"link", "kind", "each way", "latency"};
  for (std::size_t i = 0; i < graph.link_count(); i += 2) {
    const Link& l = graph.link(i);
    if (format == Format::table && !std::isfinite(l.bandwidth.value)) continue;
    links.rows.push_back({graph.link_name(i), name_of(l.kind), rate(l.bandwidth), to_text(l.latency)});
  }
  if (format == Format::csv) return links.csv();

  std::string text = fmt::format("{}\n", m.name);
  if (m.gpu)
    text += fmt::format("  {} x {}, {:.4g} GB memory at {}, fp16 {}, fp32 {}\n", m.gpu->count, m.gpu->model,
                        m.gpu->memory.value / 1e9, rate(m.gpu->memory_bandwidth), to_text(m.gpu->fp16), to_text(m.gpu->fp32));
  if (m.nvlink)
    text += fmt::format("  NVLink {}: {} links of {} a GPU, {} each way\n", m.nvlink->kind, m.nvlink->links,
                        to_text(m.nvlink->bandwidth), to_text(m.nvlink->bandwidth * m.nvlink->links));
  if (m.host)
    text += fmt::format("  {} x {}, {} memory bandwidth a socket, folds {}\n", m.host->sockets, m.host->cpu,
                        rate(m.host->memory_bandwidth), to_text(m.host->reduce_bandwidth));
  text += fmt::format("  {} x {} {}{}, {} a message\n", m.nic.count, to_text(m.nic.bandwidth),
                      m.nic.efa ? fmt::format("EFA v{}", m.nic.efa) : "ENA (TCP)",
                      m.nic.gpudirect ? ", GPUDirect" : ", no GPUDirect: data cross host memory", to_text(m.nic.latency));
  if (m.nic.flow_limit.value > 0)
    text += fmt::format("  one flow gets at most {}, {} flows a connection\n", to_text(m.nic.flow_limit), m.nic.flows);
  if (!m.nic.efa_peers.empty()) text += fmt::format("  talks EFA only to {}\n", fmt::join(m.nic.efa_peers, ", "));
  if (m.price) text += fmt::format("  {} on demand ({})\n", to_text(m.price->on_demand), m.price->date);
  if (!m.note.empty()) text += "  note: " + m.note + "\n";
  text += fmt::format("\nout of the node {}, into it {} (max flow from all {})\n", rate(graph.cut_out(!m.cpu_only(), m.cpu_only())),
                      rate(graph.cut_in(!m.cpu_only(), m.cpu_only())), m.cpu_only() ? "host memory" : "GPUs");
  if (!graph.rings().empty()) {
    text += fmt::format("NVLink rings ({} at {} each):\n", graph.rings().size(), to_text(m.nvlink->bandwidth));
    for (const auto& r : graph.rings()) text += "  " + ring_text(r) + "\n";
  }
  if (!graph.chains().empty()) {
    text += "channels between nodes, in by the first GPU, out by the last:\n";
    for (std::size_t c = 0; c < graph.chains().size(); ++c) text += fmt::format("  {}: {}\n", c, ring_text(graph.chains()[c]));
  }
  if (m.gpus() > 1) {
    text += "\nbetween GPUs (narrowest link on the way):\n";
    Table pairs;
    pairs.headings.emplace_back("");
    for (int b = 0; b < m.gpus(); ++b) pairs.headings.push_back(fmt::format("gpu{}", b));
    for (int a = 0; a < m.gpus(); ++a) {
      auto& row = pairs.rows.emplace_back(std::vector<std::string>{fmt::format("gpu{}", a)});
      for (int b = 0; b < m.gpus(); ++b) {
        const Path& path = graph.inside({false, a}, {false, b});
        row.push_back(a == b
                          ? "."
                          : fmt::format("{:.4g} {}", path.bottleneck.value / 1e9,
                                        !path.links.empty() && graph.link(path.links[0]).kind == LinkKind::nvlink ? "NV" : "PCIe"));
      }
    }
    text += pairs.text(false);
  }
  text += "\n" + links.text(false);
  if (!doubtful.empty()) {
    text += "\nnot read from a source for this very machine:\n";
    for (const auto& d : doubtful) text += "  " + d + "\n";
  }
  return text;
}

}  // namespace foreduce
