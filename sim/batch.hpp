// The one estimator: every command asks it how long collectives take. Equal questions are simulated
// once, each simulation runs in a child process, long pipelines are extrapolated from their steady
// state, and trees over many nodes from those over fewer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/alternatives.hpp"
#include "sim/fewer_nodes.hpp"
#include "sim/question.hpp"
#include "sim/readiness.hpp"
#include "sim/result_cache.hpp"

namespace foreduce {

/// The answer to one question, or why there is none.
struct Outcome {
  bool known = false;  ///< it has ended, well or not, or is not needed
  bool ok = false;
  bool needless = false;    ///< an alternative to what is faster: it was not simulated
  std::string error;        ///< why there is no answer
  CollectiveResult result;  ///< of an extrapolated pipeline: its time, and the loads of the longest
                            ///< that was simulated; of many nodes: see ManyNodes
  bool from_disk = false;   ///< an earlier run's answer
  bool extrapolated = false;
  double extrapolation_error = 0;  ///< estimate, relative to the time
};

/// How pipelines of many segments, and trees over many nodes, are simulated.
enum class LongPipelines : std::uint8_t {
  extrapolate,    ///< from the steady state of at most a quarter of the segments; see fewer_nodes
  simulate_whole  ///< always in full
};

struct BatchOptions {
  int jobs = 0;  ///< simulations at a time; 0: one a core
  /// What one simulation may take by an estimate beforehand; a larger one is an error. 0: this
  /// machine's memory, shared by the simulations at a time.
  Bytes max_memory;
  double most_seconds = 0;  ///< for one simulation; 0: as long as it takes
  /// Where answers of earlier runs are, see ResultCache; empty: nowhere.
  std::filesystem::path cache;
  /// Every schedule first sums small buffers; a wrong sum is an error. Those of plug-ins and files
  /// always do, unless their answer is known from an earlier run, which checked them.
  bool check_sums = false;
  LongPipelines long_pipelines = LongPipelines::extrapolate;
  std::function<bool()> stop;  ///< asked now and then; true ends the batch, what is done is kept
  /// Called before a simulation that takes long: how long, and why.
  std::function<void(const std::string& why)> warn;
  /// Called as simulations finish: how many of how many. The number grows where a pipeline must be
  /// simulated longer.
  std::function<void(std::size_t done, std::size_t total)> progress;
};

/// The extrapolation error, relative to the time, above which a pipeline is simulated at twice the
/// length.
inline constexpr double kSteadyStateTolerance = 0.005;

/// Collects questions, answers them together, and keeps the answers.
class Batch {
 public:
  /// Registers a question and returns its number; an equal one gets the same number. An alternative
  /// is simulated only where that may matter, unless the same is asked as no alternative.
  std::size_t ask(const Question& question, const std::optional<Alternative>& alternative = {});
  /// Answers all questions; `one_known` is called after each. The calling process must be
  /// single-threaded.
  void run(const BatchOptions& options, const std::function<void()>& one_known = nullptr);

  std::size_t size() const { return questions_.size(); }
  const Question& question(std::size_t number) const { return questions_[number]; }
  const Outcome& operator[](std::size_t number) const { return outcomes_[number]; }
  /// The question that is answered in its place: what it is a needless alternative to, or itself.
  std::size_t in_place_of(std::size_t number) const;
  bool all_known(std::span<const std::size_t> numbers) const;
  /// The definition of "best": the place in `numbers` of the outcome with the least time; the first
  /// if none has an answer.
  std::size_t fastest(std::span<const std::size_t> numbers) const;

 private:
  struct Pipeline;
  struct Derived;
  Pipeline pipeline_of(std::size_t number) const;
  std::vector<Derived> take_derived(std::vector<Pipeline>& waiting);
  void ask_fewer_nodes(Derived& derived, std::vector<Pipeline>& waiting);
  void finish_derived(std::vector<Derived>& derived, std::vector<Pipeline>& waiting);
  bool combine(const Derived& derived);
  void run_round(std::vector<Pipeline>& waiting, const BatchOptions& options,
                 const std::function<void()>& one_known);
  void finish_or_lengthen(Pipeline& pipeline);
  std::string family_of(Question q, const Alternative& alternative) const;
  Readiness readiness(std::size_t number);
  bool take_cached(std::size_t number);
  void take_cached(std::vector<Pipeline>& waiting);
  /// The key of an answer in the cache: everything that it depends on besides the program's build.
  std::string cache_key(const Question& question);
  void refuse_too_large(std::vector<Pipeline>& waiting, const BatchOptions& options);
  enum class Checked : std::uint8_t { all, not_ours };
  void check_sums(std::vector<Pipeline>& waiting, Checked which, const BatchOptions& options);

  std::map<std::string, std::size_t> known_;
  Alternatives alternatives_;
  std::map<std::pair<const Cluster*, int>, FewerNodes> fewer_nodes_;  // by how often halved
  std::map<const void*, std::string> texts_;  // of clusters and profiles: hashes of what they hold
  std::optional<ResultCache> cache_;
  LongPipelines long_pipelines_ = LongPipelines::extrapolate;
  std::vector<Question> questions_;
  std::vector<Outcome> outcomes_;
  std::size_t done_ = 0, started_ = 0;
};

}  // namespace foreduce
