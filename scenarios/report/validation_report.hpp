// Documents and pictures of `validate`.
#pragma once

#include "scenarios/report/document.hpp"
#include "scenarios/report/report.hpp"
#include "scenarios/validation/own_runs.hpp"

namespace foreduce {

/// "halving-doubling and ring change places: measured at 2 MiB, predicted never".
std::string crossing_words(const Crossing& crossing);

Json own_runs_report(const UserRunsValidation& validation);
Document render_own_runs(const Json& report, const View& view);

/// Writes SVG pictures into `folder`: measured and predicted bus bandwidths, one a source, and all
/// training runs in one.
void draw_reference(const std::string& folder, const ReferenceValidation& validation);
/// All algorithms of one's own runs in one.
void draw_own_runs(const std::string& folder, const UserRunsValidation& validation);
/// Cost over time, a dot a cluster and a colour an instance type; false if nothing has a price.
bool draw_plan(const std::string& folder, const Scenario& scenario, const Sweep<Prediction>& sweep,
               const TrainingPlan& plan);

}  // namespace foreduce
