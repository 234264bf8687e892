// From a document to text, whatever its kind; and documents from files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>

#include "input/json.hpp"
#include "scenarios/report/compare_falls.hpp"
#include "scenarios/report/explain_report.hpp"
#include "scenarios/report/page.hpp"
#include "scenarios/report/sharding_report.hpp"
#include "scenarios/report/tested_report.hpp"
#include "scenarios/report/trace_report.hpp"
#include "scenarios/report/tuning_report.hpp"
#include "scenarios/report/validation_report.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

/// Which keys a kind of document must have, and what renders it.
struct Kind {
  std::vector<const char*> keys;
  Document (*render)(const Json&, const View&);
};

const std::map<std::string, Kind>& kinds() {
  static const std::map<std::string, Kind> all = {
      {"predict", {{"points"}, render_predict}},
      {"compare", {{"points"}, render_compare}},
      {"plan", {{"points", "goal", "ruled_out", "died"}, render_plan}},
      {"validate",
       {{"points"},
        [](const Json& j, const View& view) {
          return j.contains("sources") ? render_reference(j, view) : render_own_runs(j, view);
        }}},
      {"calibrate", {{"errors", "numbers"}, render_cross_validation}},
      {"explain", {{"point", "parts", "path", "collectives", "changes"}, render_explain}},
      {"check", {{"tables", "notes"}, render_check}},
      {"detection", {{"rows"}, render_detection}},
      {"sharded", {{"rows", "series"}, render_sharded_runs}},
      {"run", {{"rows", "layout", "environment", "iterations"}, render_run}},
      {"topology", {{"links", "citations", "parts"}, render_topology}},
      {"trace", {{"collectives", "steps", "step_of_times", "kernels"}, render_trace}},
      {"tune", {{"rows", "collective", "least_gain"}, render_tuning}},
      {"test-algorithm", {{"rows"}, render_tested}},
      {"list", {{"what"}, render_list}}};
  return all;
}

/// A point without what does not go into one cell: the members of an object become fields of their
/// own, lists of objects are for JSON alone.
Json flat(const Json& point) {
  Json fields = Json::object();
  for (const auto& [key, value] : point.items()) {
    if (value.is_object())
      for (const auto& [member, inner] : value.items()) fields[key + "_" + member] = inner;
    else if (!value.is_array() || value.empty() || !value[0].is_object()) fields[key] = value;
  }
  for (const char* key : {"collectives", "mode", "wall_seconds", "peak_rss_bytes"})
    fields.erase(key);
  return fields;
}

/// The fields of a sweep's point that has an answer.
template <class Point>
std::vector<std::string> fields_of() {
  std::vector<std::string> keys;
  const Json complete = flat(point_report(Point{}, Cost::left_out));
  for (const auto& [key, unused] : complete.items()) keys.push_back(key);
  return keys;
}

/// Points of a sweep or plan, one a line: all their fields but what follows from other points,
/// which was not known when a sweep wrote its lines.
std::string points_csv(const std::string& kind, const Json& all) {
  Json points = Json::array();
  for (const Json& p : all) points.push_back(flat(p));
  std::vector<std::string> keys =
      kind == "compare" ? fields_of<Comparison>() : fields_of<Prediction>();
  for (const Json& p : points)
    for (const auto& [key, value] : p.items())
      if (kind == "plan" && key != "error" && key != "speedup_vs_nccl" &&
          std::find(keys.begin(), keys.end(), key) == keys.end())
        keys.push_back(key);
  keys.emplace_back("error");
  std::string out = csv_line(keys);
  for (const Json& p : points) {
    std::vector<std::string> cells;
    for (const std::string& key : keys) {
      const auto at = p.find(key);
      cells.push_back(at == p.end() || at->is_null() ? ""
                      : at->is_string()              ? at->get<std::string>()
                      : at->is_array()
                          ? fmt::format("{}", fmt::join(at->get<std::vector<std::string>>(), " "))
                          : at->dump());
    }
    out += csv_line(cells);
  }
  return out;
}

/// The values of `point` under these keys, and the error.
std::string csv_of_fields(const std::vector<std::string>& keys, const Json& point,
                          const std::string& error) {
  std::vector<std::string> cells;
  for (const std::string& key : keys) {
    const auto at = point.find(key);
    cells.push_back(at == point.end() || at->is_null() ? ""
                    : at->is_string()                  ? at->get<std::string>()
                                                       : at->dump());
  }
  cells.push_back(error);
  return csv_line(cells);
}

/// That a report is a part, which says nothing of how the others compare; empty of a whole one.
std::string shard_line(const Json& report, const View& view) {
  const auto shard = report.find("shard");
  if (shard == report.end() || !shard->is_object()) return "";
  return wrapped(fmt::format("This is part {:.0f} of {:.0f} of a sweep of {:.0f} points: foreduce "
                             "merge joins the JSON reports of all parts.",
                             number_or(*shard, "index", 0), number_or(*shard, "count", 0),
                             number_or(report, "points_in_sweep", 0)),
                 view, 2);
}

}  // namespace

std::string dump(const Json& report) {
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string render(const Json& report, const View& view) {
  if (view.format == Format::json) return dump(report);
  const std::string kind = text_or(report, "kind");
  const auto at = kinds().find(kind);
  if (at == kinds().end())
    throw input_error(fmt::format("a report of kind '{}' cannot be shown", kind));
  if (view.format == Format::nccl_tests && kind != "compare" && kind != "run")
    throw input_error("--format nccl-tests is for compare and run",
                      "accepted: table, csv, json, markdown, html");
  if (view.format == Format::csv && (kind == "predict" || kind == "compare" || kind == "plan"))
    return points_csv(kind, report.at("points"));
  View how = view;
  if (view.format == Format::html)  // who gets a page has no other options to ask for
    how.wide = how.explain = true;
  Document document = at->second.render(report, how);
  document.lines(Role::notes, shard_line(report, how));
  return view.format == Format::html ? page_of(report, document, how) : document.text(how);
}

template <class Point>
std::string points_csv_heading() {
  std::vector<std::string> keys = fields_of<Point>();
  keys.emplace_back("error");
  return csv_line(keys);
}

template <class Point>
std::string point_csv(const Point& point) {
  static const std::vector<std::string> keys = fields_of<Point>();
  return csv_of_fields(keys, flat(point_report(point, Cost::left_out)), point.error);
}
template std::string points_csv_heading<Prediction>();
template std::string points_csv_heading<Comparison>();
template std::string point_csv(const Prediction&);
template std::string point_csv(const Comparison&);

std::string as_ranges(const std::vector<std::size_t>& numbers) {
  std::string text;
  int ranges = 0;
  for (std::size_t first = 0, last = 0; first < numbers.size(); first = ++last) {
    if (++ranges > 20) return text + ", …";
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += text.empty() ? "" : ", ";
    text += first == last ? fmt::format("{}", numbers[first])
                          : fmt::format("{}-{}", numbers[first], numbers[last]);
  }
  return text;
}

namespace {

/// What is read as an integer, and the greatest that it can be: converting more is undefined.
const std::map<std::string, double, std::less<>>& integers() {
  constexpr double kFew = 2e6;  // three of them are multiplied
  constexpr double kInt = std::numeric_limits<int>::max(), kElements = 0x1p62;
  static const std::map<std::string, double, std::less<>> all = {{"nodes", kInt},
                                                                 {"ranks", kInt},
                                                                 {"segments", kInt},
                                                                 {"cases", kInt},
                                                                 {"index", kInt},
                                                                 {"micro_batch", kInt},
                                                                 {"points", kInt},
                                                                 {"gpus", kFew},
                                                                 {"batch_per_gpu", kFew},
                                                                 {"accumulation", kFew},
                                                                 {"point", kElements},
                                                                 {"points_in_sweep", kElements},
                                                                 {"dedicated_servers", kInt},
                                                                 {"bytes", kElements},
                                                                 {"count", kElements}};
  return all;
}

/// Refuses numbers that no integer can hold, wherever they stand.
void check_integers(const std::string& file, const Json& part) {
  for (const auto& [key, value] : part.items()) {
    if (value.is_structured()) check_integers(file, value);
    if (!part.is_object() || !value.is_number()) continue;
    const auto known = integers().find(key);
    if (known == integers().end()) continue;
    const auto number = value.get<double>();
    if (!(number >= -1 && number <= known->second))
      throw file_error(
          file, fmt::format("{} is {}, which no report of foreduce says", key, value.dump()));
  }
}

}  // namespace

Json load_report(const std::string& file) {
  Json report = load_json<Json>(file);
  if (!report.is_object()) throw file_error(file, "not a JSON report");
  const auto kind = report.find("kind");
  const auto known = kind != report.end() && kind->is_string()
                         ? kinds().find(kind->get<std::string>())
                         : kinds().end();
  if (known == kinds().end())
    throw file_error(file, "not a report of foreduce that can be shown",
                     "the JSON of any command but schema");
  for (const char* key : known->second.keys)
    if (!report.contains(key))
      throw file_error(file, fmt::format("not a report of foreduce: '{}' is missing", key));
  check_integers(file, report);
  return report;
}

namespace {

/// Of the clusters that parts of a sweep draw that of the fastest point, as one run would have.
void take_faster_cluster(Json& whole, const Json& part, const Json& points) {
  const auto rate_of = [](const Json& cluster, const Json& of) {
    for (const Json& p : of)
      if (p.is_object() && p.value("point", Json()) == cluster.value("point", Json()))
        return std::max(number_or(p, "throughput_samples_per_s", 0), number_or(p, "busbw_GBps", 0));
    return 0.0;
  };
  const auto cluster = part.find("cluster");
  if (cluster == part.end() || !cluster->is_object() || !points.is_array()) return;
  const double rate = rate_of(*cluster, points), before = number_or(whole, "cluster_rate", -1);
  const auto number = number_or(*cluster, "point", 0);
  if (rate < before ||
      (rate == before && number > number_or(whole.value("cluster", Json::object()), "point", 0)))
    return;
  whole["cluster"] = *cluster;
  whole["cluster_rate"] = rate;
}

}  // namespace

Json merge_reports(const std::vector<std::string>& files, std::size_t& failed) {
  Json whole;
  std::map<std::size_t, std::pair<Json, std::string>>
      points;  // by number: the point, and the file it is from
  for (const std::string& file : files) {
    Json part = load_json<Json>(file);
    if (!part.is_object()) throw file_error(file, "not a JSON report");
    for (const char* key :
         {"foreduce_version", "kind", "scenario_hash", "points_in_sweep", "points"})
      if (!part.contains(key))
        throw file_error(file, fmt::format("not a report of foreduce: '{}' is missing", key));
    part.erase("shard");
    Json these = std::move(part.at("points"));
    part["points"] = Json::array();
    if (whole.is_null()) {
      whole = part;
      whole.erase("cluster");
    }
    take_faster_cluster(whole, part, these);
    for (const char* key : {"foreduce_version", "kind", "scenario_hash", "points_in_sweep"})
      if (part[key] != whole[key])
        throw file_error(
            file, fmt::format("is a part of something else: its {} is {}, that of {} is {}", key,
                              part[key].dump(), files[0], whole[key].dump()));
    if (!these.is_array()) throw file_error(file, "points is not a list");
    for (Json& p : these) {
      if (!p.is_object() || !p.contains("point") || !p.at("point").is_number_unsigned())
        throw file_error(file, "a point has no number");
      const auto number = p.at("point").get<std::size_t>();
      const auto [at, fresh] = points.try_emplace(number, std::move(p), file);
      if (!fresh)
        throw file_error(file, fmt::format("point {} is also in {}", number, at->second.second),
                         "give each part once");
    }
  }
  const auto all = whole.at("points_in_sweep").is_number_unsigned()
                       ? whole.at("points_in_sweep").get<std::size_t>()
                       : 0;
  std::vector<std::size_t> missing;
  for (std::size_t n = 0; n < std::min<std::size_t>(all, 10'000'000); ++n)
    if (!points.contains(n)) missing.push_back(n);
  if (!missing.empty())
    throw input_error(
        fmt::format("{} of {} points are missing: {}", missing.size(), all, as_ranges(missing)),
        "is a part not finished, or not given?");
  if (points.size() != all)
    throw input_error(
        fmt::format("there are {} points where the sweep has {}", points.size(), all));
  whole.erase("cluster_rate");
  failed = 0;
  for (auto& [number, point] : points) {
    failed += point.first.contains("error");
    whole.at("points").push_back(std::move(point.first));
  }
  if (text_or(whole, "kind") == "compare") mark_falls(whole.at("points"));
  return whole;
}

}  // namespace foreduce
