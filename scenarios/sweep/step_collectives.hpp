// The collectives of a sharded step as questions to the estimator, and its answers as what the
// step's timeline asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "models/sharded_step.hpp"
#include "scenarios/sweep/cases.hpp"

namespace foreduce {

/// What a stream runs. What is sent to the next stage of a pipeline is a broadcast among two.
Collective collective_of(Stream kind);

/// All collectives of a step, asked and answered.
class StepCollectives {
 public:
  /// Types on the wire: of parameters and activations, and of gradients.
  struct Types {
    Type parameters = Type::f16, gradients = Type::f16;
  };
  /// Asks for all collectives of `step`, each by the method as it does that collective. Throws
  /// InputError where it does not.
  StepCollectives(const ShardedStepInput& step, const Method& method, Types types,
                  const ClusterCase& cluster, const SweepContext& context);

  /// Numbers of all questions.
  const std::vector<std::size_t>& questions() const { return questions_; }
  /// The same, those of one collective together: one of them is enough.
  std::vector<std::vector<std::size_t>> alternatives() const;
  Type type_of(Stream kind) const;

  /// Whether collectives take as long as expected, or as short or long as their interval has it.
  enum class Bound : std::uint8_t { usual, low, high };
  /// Costs by the fastest candidate for each; all questions must be answered well.
  /// `compute_shares`: see StreamSpeeds::compute.
  CollectiveCosts costs(const Batch& batch, const PerStream& compute_shares, Bound bound) const;
  /// For each stream the least of what `share` says of its candidates; 1 where computing waits.
  PerStream compute_shares(const std::function<double(const Candidate&)>& share) const;
  /// Of nodes that are not alike: as what all of them were simulated, where they are too many to be
  /// simulated as they are. Empty: as they are.
  const std::string& nodes_as() const { return nodes_as_; }
  /// The interval of the collective that takes the longest.
  Interval interval(const Batch& batch) const;
  /// The question whose answer is used for a collective.
  std::size_t answered_by(const Batch& batch, Stream kind, std::size_t elements) const;

 private:
  struct Asked {
    Stream kind = Stream::all_reduce;
    std::size_t elements = 0;
    std::vector<Candidate> candidates;
    std::vector<std::size_t> numbers;  // by candidate

    Interval interval(std::size_t candidate, Type type, const Outcome& outcome) const;
  };
  const Asked& asked(Stream kind, std::size_t elements) const;
  /// Two kinds that may run at once, and the questions that tell how they slow each other.
  struct Pair {
    Stream first = Stream::all_gather, second = Stream::reduce_scatter;
    std::size_t both = 0, alone_first = 0, alone_second = 0;
  };
  void ask_pairs(const Method& method, const ClusterCase& cluster, const SweepContext& context);
  double speed_beside(const Batch& batch, Stream kind, Stream other) const;

  ShardingPlan plan_;
  Types types_;
  int per_node_ = 1;
  std::string nodes_as_;
  std::vector<Asked> asked_;
  std::vector<Pair> pairs_;
  std::vector<std::size_t> questions_;
};

}  // namespace foreduce
