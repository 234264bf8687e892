// Why a point takes what it takes: its critical path, what that is made of, and what would help.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "scenarios/sweep/compare.hpp"
#include "scenarios/sweep/predict.hpp"

namespace foreduce {

/// What a part of a point's time is.
enum class PartKind : std::uint8_t {
  // of a collective, see PathStepKind
  launch,
  overhead,
  rest,
  latency,
  transfer,
  sharing,
  reduction,
  // of a training step
  forward,
  backward,
  optimizer,
  straggler,      ///< what computing takes longer on the slowest GPU
  slowed,         ///< what computing takes longer beside collectives
  beside,         ///< what a collective takes longer beside others
  cycle,          ///< until Horovod's next cycle
  step_overhead,  ///< when nothing computes or travels
  input_wait,     ///< likewise, until the next samples have come
  bubble,         ///< of a pipeline
  collective      ///< of a collective whose messages are too many to be looked at
};

/// What of a point's time, on its critical path, goes where.
struct TimePart {
  PartKind kind = PartKind::transfer;
  std::string link;                        ///< transfer, sharing: the class; empty: of no link
  LinkKind link_kind = LinkKind::network;  ///< of that
  Seconds time;
};

/// A collective that the critical path goes through.
struct ExplainedCollective {
  Stream kind = Stream::all_reduce;
  std::size_t elements = 0;     ///< as in Activity
  Bytes bytes;                  ///< of its buffer
  ScheduleName schedule;        ///< what it runs
  Seconds time;                 ///< alone
  std::vector<TimePart> parts;  ///< that add up to it, by kind and link
  /// With its path; null, and why, where it could not be recorded.
  std::shared_ptr<const CollectiveResult> recorded;
  std::string not_recorded;
};

/// A piece of a step's critical path.
struct StepPiece {
  Activity activity;  ///< from which
  Seconds start, end;
};

/// What was changed to see what it would help.
enum class ChangeKind : std::uint8_t {
  nic_bandwidth,
  network_latency,
  message_cost,
  nvlink_bandwidth,
  nvlink_latency,
  pcie_bandwidth,
  nic_and_pcie_bandwidth,  ///< where both are as busy, one alone helps little
  reduction,
  oversubscription,
  placement,
  algorithm,
  bucket,
  gradient,
  compute
};

/// Links are as busy as the busiest from this part of its utilisation on: widths that data sheets
/// give alike differ by so much in what they carry.
inline constexpr double kAsBusy = 0.95;

/// The point with one thing changed.
struct WhatIf {
  ChangeKind kind = ChangeKind::algorithm;
  std::string word = {};  ///< algorithm, gradient: which
  Bytes bytes = {};       ///< bucket: how large
  Seconds time = {};      ///< what the point would take
  Seconds saved = {};     ///< of what it takes
  /// What NCCL would choose instead; none: the same, or nothing is chosen.
  std::vector<ScheduleName> chosen = {};
};

/// Why a point takes what it takes.
struct Explanation {
  Provenance provenance;
  std::size_t points = 0;  ///< that the scenario has
  std::variant<Prediction, Comparison> point;
  Seconds time;                  ///< a step's or a collective's
  std::vector<TimePart> parts;   ///< of the critical path: they add up to `time`, longest first
  std::vector<StepPiece> steps;  ///< of a step: its critical path in order
  std::vector<ExplainedCollective> collectives;  ///< on the path
  std::vector<WhatIf> changes;                   ///< the most seconds saved first
};

/// What `explain` is asked besides the scenario.
struct ExplainOptions {
  SweepOptions sweep;   ///< its shard says which point
  bool changes = true;  ///< whether to estimate what would help
};

/// Explains one point of a scenario: a training step where it has a workload, else a collective.
/// Throws InputError where there are several points and none is chosen, and for a point without an
/// answer.
Explanation explain(const Scenario& scenario, const ExplainOptions& options);

/// What a recorded collective's critical path is made of, by kind and link. They add up to its
/// time.
std::vector<TimePart> parts_of(const CollectiveResult& recorded);

/// The critical path of a recorded step, in order, back from its end: what each piece waited for
/// ended when it began. Time between pieces is when nothing ran.
std::vector<StepPiece> critical_path(const Step& step);

/// Estimates the point with one thing changed at a time: machines, messages' costs, algorithms and
/// buckets. What cannot run is left out.
std::vector<WhatIf> what_would_help(const Scenario& scenario, const Explanation& explained,
                                    const SweepOptions& options);

}  // namespace foreduce
