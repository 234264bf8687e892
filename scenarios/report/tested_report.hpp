// The report of test-algorithm: what was checked, and the first case that fails.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/collective.hpp"
#include "scenarios/report/document.hpp"
#include "scenarios/report/report.hpp"

namespace foreduce {

/// One algorithm on one cluster.
struct TestedAlgorithm {
  std::string algorithm;
  Collective collective = Collective::all_reduce;
  std::string cluster;
  int ranks = 0;
  std::vector<std::pair<std::string, std::string>> checks;  ///< check, and "ok" or "fails"
  int cases = 0;                                            ///< sizes and segments that were tried
  std::string failure;      ///< what the first case that fails does; empty: none does
  std::string failed_case;  ///< "1000 elements in 3 segments"
};

Json tested_report(const std::vector<TestedAlgorithm>& rows);
Document render_tested(const Json& report, const View& view);

}  // namespace foreduce
