// Times of collectives that others have published (models/reference/SOURCES.md), as data to be held
// against.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/core/collective.hpp"
#include "input/files.hpp"
#include "models/nccl_names.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

/// One published point.
struct Published {
  std::string source, instance, library;
  std::string caller = "nccl-tests";  ///< see models/caller.hpp
  std::string version;      ///< of NCCL, where the source or nccl_versions.csv says it: "2.27.7"
  std::string plugin;       ///< of aws-ofi-nccl, where nccl_versions.csv says it: "1.13.2"
  int nodes = 0, gpus = 0;  ///< gpus: of all nodes
  Collective collective = Collective::all_reduce;
  bool by_nccl = true;  ///< false: another library, or an algorithm that NCCL does not have
  std::optional<NcclAlgorithm> algorithm;  ///< that NCCL_ALGO or the like forced; null: NCCL chose
  std::optional<NcclProtocol> protocol;    ///< that NCCL_PROTO forced; null: none
  Bytes bytes;
  Seconds time;
  bool fit = true;      ///< whether a calibration may use it (models/reference/not_fitted.csv)
  std::string machine;  ///< what stands for it, see machine_named(); empty: nothing does
};

/// All points of models/reference/allreduce.csv whose time is printed, in order. `machine` is empty
/// for hardware that the catalogue has nothing like, and for what is not NCCL. Throws InputError
/// for a malformed file.
std::vector<Published> published_all_reduces(const std::filesystem::path& folder = data_folder() /
                                                                                   "models" /
                                                                                   "reference");

/// Likewise of models/reference/collectives.csv: all-gathers and others. No calibration may use
/// them.
std::vector<Published> published_collectives(const std::filesystem::path& folder = data_folder() /
                                                                                   "models" /
                                                                                   "reference");

/// What was asked for, as groups of points are called: "nccl" where NCCL chose, else our word of
/// the algorithm.
std::string asked_of(const Published& point);

/// The cluster that a point was measured on: its nodes with as many GPUs in use as it had. Points
/// of equal clusters share one.
class PublishedClusters {
 public:
  std::shared_ptr<const Cluster> of(const Published& point);
  /// For points that none of the shipped machines represents: this is theirs.
  void add(const Published& point, std::shared_ptr<const Cluster> cluster);

 private:
  using Key = std::tuple<std::string, bool, int, int>;
  static Key key_of(const Published& point);

  std::vector<std::pair<Key, std::shared_ptr<const Cluster>>> known_;
};

}  // namespace foreduce
