// Published training runs, read from their tables and made ready to be predicted.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/profile.hpp"
#include "models/step.hpp"
#include "scenarios/validation/training_runs.hpp"

namespace foreduce {

/// One published run: what was measured, and the step that predicts it but for its all-reduces.
struct PublishedRun {
  TrainingPoint point;
  StepInput step;
  std::size_t element = 0;  ///< bytes of a gradient's element
  Machine machine;
  std::shared_ptr<const Profile> profile;
  std::string nccl;       ///< the release that it ran; empty: not said
  bool fit_flow = false;  ///< the source does not say what a TCP flow got between its hosts
};

/// Every run of models/reference/training.csv whose workload, machine (training_sources.yaml) and
/// single-GPU rate are known. Throws InputError if the data cannot be read.
std::vector<PublishedRun> published_runs();

}  // namespace foreduce
