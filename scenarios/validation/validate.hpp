// `foreduce validate --reference`: predicted beside published.
#pragma once

#include <optional>
#include <string>

#include "scenarios/report/report.hpp"

namespace foreduce {

struct ValidateOptions {
  std::string profile;  ///< for all points; empty: the shipped one made for each instance
  std::string plot;     ///< folder for SVG pictures; empty: none
  bool points = false;  ///< a row a point in table and CSV, not one a source
  std::optional<double>
      tolerance;  ///< geometric mean of the absolute error from 1 MiB on that is still accepted, all points; 0: any
  int jobs = 0;
};

/// The report; `passed` is false beyond the tolerance.
std::string validate_reference(const ValidateOptions& options, Format format, bool& passed);

}  // namespace foreduce
