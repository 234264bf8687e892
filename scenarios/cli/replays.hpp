// `run --workload`: a training step replayed on real ranks, data-parallel or sharded.
#pragma once

#include <string>
#include <vector>

#include "models/sharded_step.hpp"
#include "real/replay.hpp"
#include "scenarios/cli/launch_options.hpp"

namespace foreduce {

/// What the options of `run` say about the step.
struct ReplayOptions {
  std::string workload, gpu = "V100", precision = "fp32", sample, bucket = "25 MiB",
                        sharding = "none", hybrid, units = "block", communicators = "shared";
  int batch = 8, prefetch = 1;
  bool keep_gathered = false;  ///< reshard_after_forward: no
  double compute_scale = 1;

  /// What products are computed in.
  Precision arithmetic() const { return *value_named<Precision>(precision); }
  void add_to(CLI::App& command);
  /// Everything that the processes must agree on.
  nlohmann::json settings() const;
  /// The kinds of collectives that such a step may have.
  std::vector<Stream> kinds() const;
  /// In whose order the collectives of such a step run, see queue_of(); each is a communication
  /// stream.
  std::vector<Stream> queues() const;
  /// Throws InputError for options that contradict each other.
  void check(const LaunchOptions& launch) const;
  /// What a step computes, scaled; 0 without a workload. Throws InputError for a sample or a GPU
  /// that is not known.
  Seconds computing() const;
};

/// How the step's collectives are run.
struct ReplayMethod {
  std::vector<std::string> algorithms;
  Plan plan;  ///< 0 segments: chosen by size
  Type type = Type::f32;
  std::string dtype = "float";  ///< what reports call it
};

/// One row for each algorithm, from all processes of the session; empty in all but the first.
Json replayed_rows(Session& session, const LaunchOptions& launch, const ReplayOptions& asked,
                   const ReplayMethod& method, const MeasureOptions& options);

}  // namespace foreduce
