// On which cluster a log was made: from what it says, and what the user adds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/core/collective.hpp"
#include "models/profile.hpp"
#include "scenarios/validation/findings.hpp"
#include "scenarios/validation/nccl_log.hpp"
#include "topologies/machine.hpp"

namespace foreduce {

/// What to do where ranks ran by themselves.
inline constexpr const char* kBuildWithMpi =
    "build nccl-tests with MPI=1; without it every process that mpirun starts runs by itself";

struct LogCluster {
  Machine machine;  ///< with the GPUs that were in use
  int nodes = 0, ranks = 0;
  std::vector<Remark> remarks;                    ///< what log and options do not agree on
  std::optional<cause::OtherGpu> other_gpu = {};  ///< the log's GPU is none of the instance type's
};

/// Whether the GPU that a log names, as CUDA does ("Tesla V100-SXM2-32GB", "NVIDIA H100 80GB
/// HBM3"), may be that model; of what either does not say, nothing is asked.
bool is_gpu_named(const std::string& named, const std::string& model);

/// Instance types, and machines outside of EC2 with RDMA, that have such GPUs and so many a node:
/// first those with as much memory.
std::vector<std::string> machines_with(const std::string& gpu, int per_node);

/// An error at a table's first row.
InputError table_error(const NcclLog& log, const NcclTable& table, std::string what,
                       std::string hint);
/// The error for a table of one rank, which sends nothing.
InputError one_rank_error(const NcclLog& log, const NcclTable& table);

/// The error for a log without a table of the collective that was asked for, or of any that can be
/// judged.
InputError nothing_to_judge(const NcclLog& log, const std::optional<Collective>& asked);

/// `instance` and `nodes` ("" and 0: from the log) say where it ran. Throws InputError where that
/// is not known, or the log contradicts it.
LogCluster cluster_of_log(const NcclLog& log, const NcclTable& table, const std::string& instance,
                          int nodes);

/// The profile that was asked for, and whether it was made for such GPUs.
remark::AskedProfile asked_profile(const Profile& profile, const Machine& machine);
/// What its nodes are joined by.
NodeNetwork network_of(const Machine& m);

}  // namespace foreduce
