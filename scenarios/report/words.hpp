// Words and small pieces that several reports share.
#pragma once

#include <string>
#include <vector>

#include "scenarios/report/cluster_picture.hpp"
#include "scenarios/report/document.hpp"
#include "scenarios/report/report.hpp"

namespace foreduce {

/// What every JSON report begins with.
Json report_head(const char* kind);
/// The same for a sweep: its scenario, its hash and how the engine was set.
Json sweep_head(const char* kind, const Provenance& provenance, std::size_t points);

/// The head of a sweep, its shard, and the report of each point.
template <class Point>
Json sweep_points(const char* kind, const Sweep<Point>& sweep, const Shard& shard, Cost cost) {
  Json j = sweep_head(kind, sweep.provenance, sweep.all);
  if (shard.count > 1) j["shard"] = {{"index", shard.index}, {"count", shard.count}};
  j["points"] = Json::array();
  for (const Point& p : sweep.points) j["points"].push_back(point_report(p, cost));
  for (const Point& p : sweep.points) put_cluster(j, p);  // the fastest alone has one
  return j;
}

/// "symmetric": as the `mode` of a JSON report has it.
const char* name_of(SimulationMode mode);
std::string percent(double share, int digits = 0);  ///< "48 %"
/// "62.10 ms": in the unit that suits, always with four digits.
std::string milliseconds(double seconds);
/// Cents from a dollar on, below it three significant digits.
std::string dollars(double usd);
/// "48 KiB", "1.5 GiB": three digits.
std::string size_words(double bytes);
/// "159 to 406 ms": two times in one unit.
std::string range_words(double low_s, double high_s);
/// What limits an all-reduce: "the PCIe link nic0>pcie4 (83 % busy)", "message latency", or both.
std::string bottleneck_words(const Json& point);
/// What ran, whoever chose it: "hierarchical", "nccl", "reduction-server (chosen by best)".
std::string run_words(const Json& point);
/// "ring", "double-tree LL128"; "" where there is no schedule.
std::string schedule_words(const ScheduleName& schedule);
std::string schedule_words(const std::vector<ScheduleName>& schedules);  ///< with commas between
/// The same of what NCCL chooses.
std::string schedule_words(const NcclAlgoProto& chosen);
std::string first_line(const std::string& text);
/// Null as "-", strings as they are, everything else as JSON.
std::string cell_of(const Json& value);
/// The field, or `otherwise` where it is missing or null.
double number_or(const Json& j, const char* key, double otherwise);

/// The column whose cells carry the marks of Footnotes.
inline constexpr const char* kIntervalHeading = "90 % PI";

/// The marks that rows carry and the notes below that explain them, in the order of rows.
class Footnotes {
 public:
  /// " *" for reasons that are there, with a letter where there are several notes; "" for none.
  std::string mark(const Json& reasons);
  /// Called for every row first, in order, so that marks are known.
  void note(const Json& reasons);
  /// The legend of the interval's column; nothing where `table` has no room for that.
  std::string text(const View& view, const Table& table) const;

 private:
  std::string star(std::size_t note) const;
  std::vector<std::string> notes_;
};

/// The field, or "" where it is missing or no string.
std::string text_or(const Json& j, const char* key);

/// Of a point or a report; one that names none is older than other collectives than all-reduces.
Collective collective_in(const Json& report);
/// The cluster of a point or row, see cluster_words() of scenarios/sweep/cases.hpp.
std::string cluster_words(const Json& point);
/// "; it needs some 79.6 GiB of …, and may not fit" of a point whose memory is too close to tell;
/// else "".
std::string memory_doubt(const Json& point);
/// "oversubscription 4:1, placement spread" where that is so of all points; else "".
std::string fabric_words(const Json& points);

/// Whether NCCL runs a point, as it chooses or as it is forced to.
bool by_nccl(const Json& point);

/// Whether a field differs among the points.
bool varies(const Json& points, const char* key);
/// Those of the keys in which they differ.
std::vector<const char*> varying(const Json& points, std::initializer_list<const char*> keys);

/// Which instance types' compute is estimated where another's is measured, if that decides between
/// them: if a point of the one could be as fast as one of the other. Nothing otherwise.
std::string estimates_line(const Json& points, const View& view);
/// Whether "best" could not try NCCL.
std::string best_without_nccl_line(const Json& points, const View& view);
/// Rates of computing that hardly any GPU reaches, which make a plan too good; nothing without any.
std::string doubtful_rates_line(const Json& points, const View& view);
/// What a GPU must hold and by what; where rows differ, from least to most. Nothing where its
/// memory is unknown.
std::string memory_line(const Json& points, const View& view);

/// Of points whose computing takes as long as the host launches kernels: how far off that may be;
/// empty without any.
std::string launches_line(const Json& points, const View& view);

/// "More with --wide: …".
std::string hidden_line(const Table& table, const View& view);
/// Errors that their rows had no room for.
std::string cut_errors_lines(const Table& table, const View& view);
/// "Keys without effect here: …", or nothing.
std::string unused_line(const Json& report, const View& view);
/// How SimGrid was set, for --explain.
std::string engine_line(const Json& report);
/// The largest error of what was extrapolated, which is a part of the interval. With --explain
/// always, else only where it matters.
std::string extrapolation_line(const Json& points, const View& view);

// Renderers, one a kind of report. CSV is a document of one text.
Document render_predict(const Json& report, const View& view);
Document render_compare(const Json& report, const View& view);
Document render_plan(const Json& report, const View& view);
Document render_reference(const Json& report, const View& view);
Document render_cross_validation(const Json& report, const View& view);
Document render_detection(const Json& report, const View& view);
Document render_check(const Json& report, const View& view);
Document render_run(const Json& report, const View& view);
Document render_topology(const Json& report, const View& view);
Document render_list(const Json& report, const View& view);

/// Adds a text to a list that does not have it.
void add_once(std::vector<std::string>& all, std::string one);

/// What dollars are of.
inline constexpr const char* kPricesAre =
    "Prices are on demand in us-east-1, on the days that foreduce list instances --wide has, "
    "unless cluster.prices gives others.";
/// Which instances have no price where others have one; `key`: of a point's dollars.
std::string unpriced_line(const Json& points, const char* key, const View& view);

}  // namespace foreduce
