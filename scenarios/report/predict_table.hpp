// The table of `predict`: a row a point.
#pragma once

#include <string>
#include <vector>

#include "scenarios/report/document.hpp"
#include "scenarios/report/report.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {

using Points = std::vector<const Json*>;

/// Samples a second with three digits at least: "0.664", "3184.2".
std::string samples_words(double per_second);

/// Whether points process different numbers of samples a GPU in a step, so that step times alone
/// do not say which is faster.
bool samples_differ(const Points& points);

/// The points with an answer.
Points answered(const Json& points);
/// Whether a point's model fits into its GPUs' memory.
bool fits_memory(const Json& point);
/// "27.3 GiB", and "100 > 40 GiB" where it does not fit.
std::string memory_cell(const Json& point);

/// `notes`: gets why intervals are wide.
Table predict_table(const Json& report, Footnotes& notes);

}  // namespace foreduce
