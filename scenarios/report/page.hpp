// A report as a page: one file of HTML that asks nobody for anything, with tables, charts and where
// its numbers are from.
#pragma once

#include <string>

#include "scenarios/report/document.hpp"
#include "scenarios/report/report.hpp"

namespace foreduce {

/// What the page carries besides its own text: a style sheet, its script, and Chart.js (MIT
/// licence).
extern const char* const kPageStyle;
extern const char* const kPageScript;
extern const char* const kChartLibrary;

/// The page. It is well-formed XML, too, reads well without script, and stays below 2 MB: longer
/// tables end with a sentence that says so.
std::string page_of(const Json& report, const Document& document, const View& view);

}  // namespace foreduce
