// What healthy clusters of one kind were measured to do, from the published runs of the same
// cluster: the bands of `check`.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scenarios/validation/nccl_log.hpp"
#include "scenarios/validation/published.hpp"

namespace foreduce {

/// Times of an all-reduce on clusters of one kind.
struct HealthyBand {
  Seconds time, low, high;  ///< the geometric mean of the sites, and what is normal around it
};

/// Whether nothing is known to have been wrong with that source's cluster
/// (models/reference/healthy.yaml).
bool is_healthy(const std::string& source);

/// Published runs of one cluster, in which NCCL chose the algorithm (or the one that is forced
/// was), as curves over sizes.
class HealthyRuns {
 public:
  /// Runs on `nodes` instances with `gpus` GPUs in use in total. `forced`: by NCCL_ALGO; null: NCCL
  /// chose. `without`: a source that is left out, so that `check` can be tested on that source's
  /// own logs. Throws InputError for a malformed data file.
  HealthyRuns(const std::string& instance, int nodes, int gpus, std::optional<NcclAlgorithm> forced,
              const std::string& without = {});

  /// What is normal at that size; nothing where nobody published one near.
  std::optional<HealthyBand> at(Bytes bytes) const;
  /// The sources, for a report.
  const std::set<std::string>& sources() const { return sources_; }

 private:
  enum class Of : std::uint8_t { the_type, one_alike };
  struct Curve {
    Of of = Of::the_type;
    std::vector<std::pair<double, double>> points;  // bytes and seconds, ascending
  };
  std::vector<Curve> curves_;
  std::set<std::string> sources_;
  double wider_ = 1;  // the band, either way
};

/// An earlier run of one cluster, which says what is normal for it.
class EarlierRun {
 public:
  /// The first table of that collective and of so many ranks. Throws InputError if the log has
  /// none.
  EarlierRun(const NcclLog& log, Collective collective, int ranks);

  /// What is normal at that size; nothing where the run measured none near.
  std::optional<HealthyBand> at(Bytes bytes) const;
  /// As the log names it; empty where it does not.
  const std::string& gpu() const { return gpu_; }
  /// Whether its sums are wrong, so that it is not to be trusted.
  bool broken() const { return broken_; }

 private:
  std::vector<std::pair<double, double>> points_;  // bytes and seconds, ascending
  std::string gpu_;
  bool broken_ = false;
};

}  // namespace foreduce
