// Tables of `validate --reference` beside that of its sources: errors by GPU, and what is inside of
// the intervals by size.
#pragma once

#include "scenarios/report/document.hpp"
#include "scenarios/report/report.hpp"
#include "scenarios/validation/interval_coverage.hpp"

namespace foreduce {

/// The JSON field `intervals` of a report: an array, one entry a range of sizes.
Json coverage_report(const std::vector<IntervalCoverage>& coverage);
/// What stands above the table of `report`'s field `intervals`.
inline constexpr const char* kCoverageWords =
    "Test set, by size: healthy sites inside the 90 % PI, and all sites inside what people "
    "publish, as all other sources tell it; widths are high over low on clusters like those "
    "compared.";
Table coverage_table(const Json& report);
/// Of the field `generations`: errors of each GPU generation, fitted and not.
Table generations_table(const Json& report);

}  // namespace foreduce
