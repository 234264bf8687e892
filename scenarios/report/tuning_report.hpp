// The report of tune, and its choices as a file for NCCL's tuner.
#pragma once

#include <string>

#include "scenarios/report/document.hpp"
#include "scenarios/report/report.hpp"
#include "scenarios/sweep/tuning.hpp"

namespace foreduce {

/// Sizes whose fastest choice is at least `least_gain` times as fast as NCCL's own have it, others
/// NCCL's own.
Json tuning_report(const Tuning& tuning, double least_gain);
Document render_tuning(const Json& report, const View& view);

/// A file for NCCL_TUNER_CONFIG_FILE of the tuner plug-in that comes with NCCL
/// (plugins/tuner/example: nccl_tuner.conf). It names all sizes, for that plug-in takes the place
/// of AWS's, whose choices would be lost for the others.
std::string tuner_file(const Json& report);

}  // namespace foreduce
