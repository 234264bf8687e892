// The report of `explain`: what a point's time is made of, its critical path, and what would help.
#pragma once

#include "scenarios/report/charts.hpp"
#include "scenarios/report/document.hpp"
#include "scenarios/report/report.hpp"
#include "scenarios/sweep/explain.hpp"

namespace foreduce {

Json explain_report(const Explanation& explanation);
Document render_explain(const Json& report, const View& view);

/// A part of the time in words: "transfer, network nic0>network".
std::string part_words(const Json& part);

/// "rest", "latency": a kind of step as reports name it.
const char* name_of(PathStepKind kind);

}  // namespace foreduce
