// Answers as text: JSON is the product; table and CSV are renderings of the same points.
#pragma once

#include <nlohmann/json.hpp>

#include "scenarios/sweep/sweep.hpp"

namespace foreduce {

enum class Format { table, csv, json };

/// Rows of text with headings; numbers are right-aligned.
struct Table {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;

  /// Columns aligned for people; `colour` sets the headings apart with an escape sequence.
  std::string text(bool colour) const;
  /// RFC 4180.
  std::string csv() const;
};

struct ReportOptions {
  bool colour = false;
  bool cost = true;  ///< say what each point cost to simulate; without, equal questions give equal bytes
  Shard shard;
};

/// What every JSON report begins with.
nlohmann::ordered_json report_head(const Scenario& scenario, const char* kind, std::size_t points_in_sweep);

/// Fields, with units in their names. An answer that failed has `error` and no results.
nlohmann::ordered_json to_json(const Prediction& point, bool cost);
nlohmann::ordered_json to_json(const Comparison& point, bool cost);

/// A column that tells points of a sweep apart.
struct AxisColumn {
  std::string heading;
  std::function<std::string(const Prediction&)> cell;
};
/// One for each axis that varies among the points, and always nodes, GPUs and algorithm.
std::vector<AxisColumn> axis_columns(const std::vector<Prediction>& points);

/// Which keys of the scenario had no effect; empty if all had.
std::string unused_line(const Scenario& scenario);

/// Why intervals of a report are wider than what was compared makes them. A row carries a star; where there are several reasons, a
/// letter beside it says which.
class Doubts {
 public:
  /// `compared`: of what the intervals come, with its verb.
  Doubts(const std::vector<Bounds>& bounds, std::string compared);
  /// " *" or " *b" for bounds that are extrapolated, else nothing.
  std::string mark(const Bounds& bounds) const;
  /// What the intervals are, and each reason, a line each.
  std::string text() const;

 private:
  std::string star(std::size_t reason) const;

  std::string compared_;
  std::vector<std::string> reasons_;
  bool any_ = false;
};
/// Those of predicted steps, where there is an answer.
Doubts doubts_of(const std::vector<Prediction>& points);

/// Why a point whose fits() is false cannot be trained so.
std::string crowding(const Prediction& point);

/// For people, and for programs: the whole report.
std::string text_report(const Scenario& scenario, const Sweep<Prediction>& sweep, bool colour);
std::string text_report(const Scenario& scenario, const Sweep<Comparison>& sweep, bool colour);
template <class Point>
std::string json_report(const Scenario& scenario, const Sweep<Point>& sweep, const ReportOptions& options);

/// CSV comes line by line, so that what is done can be seen, and kept when the rest is not.
template <class Point>
std::string csv_heading(const ReportOptions& options);
template <class Point>
std::string csv_line(const Point& point, const ReportOptions& options);

/// "0-2, 5, 7-9": ascending numbers; of more than twenty such ranges the first.
std::string as_ranges(const std::vector<std::size_t>& numbers);

/// Joins the JSON reports of all shards of one sweep into what one run would have printed. Throws InputError for parts of
/// different scenarios, for a point that is there twice, and for gaps. `failed`: how many points have no answer.
std::string merge_reports(const std::vector<std::string>& files, std::size_t& failed);

/// `foreduce topology`: what we believe the machine looks like.
std::string describe(const Machine& machine, Format format);

}  // namespace foreduce
