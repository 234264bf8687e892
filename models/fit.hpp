// From measured points to a few numbers with intervals: robust, non-negative least squares.
#pragma once

#include <Eigen/Core>
#include <string>
#include <vector>

#include "algorithms/core/experiment.hpp"
#include "models/profile.hpp"

namespace foreduce {

/// The solution of a linear fit.
struct LinearFit {
  Eigen::VectorXd x;           ///< ≥ 0
  Eigen::VectorXd low, high;   ///< 90 %, from resampled points
  std::vector<double> errors;  ///< fitted over measured, less 1, of each row
};

/// Minimises the Huber loss of (a·x − b)/b, so that each point counts by its relative error and
/// outliers little, with x ≥ 0 (Lawson and Hanson 1974, iteratively reweighted). `b` > 0. Rows ≥
/// columns ≥ 1; throws std::invalid_argument otherwise.
LinearFit fit_robust(const Eigen::MatrixXd& a, const Eigen::VectorXd& b);

/// A measured point-to-point experiment: what a calibration is given.
struct CalibrationPoint {
  Experiment experiment = Experiment::exchange;
  ExperimentPath path = ExperimentPath::network;
  double bytes = 0;
  int fan = 1;
  double seconds = 0;
};

/// How a calibrated model does on points, fitted or held out.
struct CalibrationError {
  Experiment experiment = Experiment::exchange;
  ExperimentPath path = ExperimentPath::network;
  bool fitted = false;
  int points = 0;
  double median = 0, worst = 0,
         bias = 0;  ///< of |predicted/measured − 1|, and the mean of the signed
};

struct Calibration {
  Profile profile;
  std::vector<CalibrationError> errors;
};

/// Fits latency, bandwidth and overhead of the network (from exchanges and bursts) and of memory,
/// and the reduction rate. `nic` is the data sheet's bandwidth of a host, `memory` that between
/// ranks of one host; `source` goes beside every number. Every second size is held out, and so are
/// all ping-pongs, pairs, one-to-many and bursts but the smallest. Throws InputError if there are
/// too few points.
Calibration calibrate(const std::vector<CalibrationPoint>& points, BytesPerSecond nic,
                      BytesPerSecond memory, const std::string& source);

}  // namespace foreduce
