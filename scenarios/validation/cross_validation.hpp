// `foreduce calibrate --reference`: fits the free numbers of the shipped profiles to what others have published.
#pragma once

#include <string>

#include "scenarios/report/report.hpp"

namespace foreduce {

struct CalibrateOptions {
  std::vector<std::string> profiles;  ///< which; empty: all that have free numbers
  std::string folder;                 ///< where the fitted profiles are written; empty: nowhere
  int rounds = 6;                     ///< of Gauss-Newton, for the fit of all sources; half of it for each left out
  int jobs = 0;
};

/// The report: errors per source and node count when fitted, when left out of the fit, and uncalibrated; and the fitted numbers.
std::string calibrate_reference(const CalibrateOptions& options, Format format);

}  // namespace foreduce
