// Answers as text. JSON is the product: every answer becomes one document, and tables, Markdown and
// CSV are rendered from it, so that `foreduce show` renders a stored report as any command would
// have.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/report/table.hpp"
#include "scenarios/sweep/compare.hpp"
#include "scenarios/sweep/plan.hpp"
#include "scenarios/sweep/predict.hpp"
#include "scenarios/validation/cross_validation.hpp"
#include "scenarios/validation/detection.hpp"
#include "scenarios/validation/diagnosis.hpp"
#include "scenarios/validation/reference.hpp"

namespace foreduce {

using Json = nlohmann::ordered_json;

/// Whether a report says what each point cost to simulate; without, equal questions give equal
/// bytes.
enum class Cost : std::uint8_t { told, left_out };

/// Documents. Each has "foreduce_version" and "kind"; fields have their units in their names.
Json sweep_report(const Sweep<Prediction>& sweep, const Shard& shard, Cost cost);
Json sweep_report(const Sweep<Comparison>& sweep, const Shard& shard, Cost cost);
Json plan_report(const Scenario& scenario, const Sweep<Prediction>& sweep,
                 const TrainingPlan& plan);
Json reference_report(const ReferenceValidation& validation);
Json cross_validation_report(const CrossValidation& validation);
/// Whether a profile that was fitted to logs of one's own is good enough to predict with, by sizes
/// that its fit had not seen: 30 % off in the geometric mean at most.
bool describes_its_logs(const Json& cross_validation_report);
Json detection_report(const std::vector<DetectionRow>& rows);
Json check_report(const std::vector<CheckedLog>& logs);
Json topology_report(const Machine& machine);
/// `what`: algorithms, instances, workloads or profiles.
Json list_report(const std::string& what);

/// Any of them, or of `run` and `validate`, in the form that `view` asks for. Throws InputError for
/// a document of an unknown kind, or one that has no such form.
std::string render(const Json& report, const View& view);

/// One point of a sweep, as its report has it.
Json point_report(const Prediction& point, Cost cost);
Json point_report(const Comparison& point, Cost cost);
/// CSV comes line by line, so that what is done can be seen, and kept when the rest is not.
template <class Point>
std::string points_csv_heading();
template <class Point>
std::string point_csv(const Point& point);

/// "0-2, 5, 7-9": ascending numbers; of more than twenty such ranges the first.
std::string as_ranges(const std::vector<std::size_t>& numbers);

/// Joins the JSON reports of all shards of one sweep into what one run would have printed. Throws
/// InputError for parts of different scenarios, for a point that is there twice, and for gaps.
/// `failed`: how many points have no answer.
Json merge_reports(const std::vector<std::string>& files, std::size_t& failed);
/// Reads a stored report. Throws InputError for a file that is none.
Json load_report(const std::string& file);

/// How JSON is written to files and screens.
std::string dump(const Json& report);

}  // namespace foreduce
