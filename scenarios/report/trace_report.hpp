// The report of a training step's trace.
#pragma once

#include "scenarios/report/document.hpp"
#include "scenarios/report/report.hpp"
#include "scenarios/validation/kineto_trace.hpp"

namespace foreduce {

Json trace_report(const TrainingTrace& trace);
Document render_trace(const Json& report, const View& view);

}  // namespace foreduce
