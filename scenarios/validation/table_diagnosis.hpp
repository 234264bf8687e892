// Judging one table of a log, where it is known on what cluster and of which collective it is.
#pragma once

#include "scenarios/validation/diagnosis.hpp"
#include "scenarios/validation/log_cluster.hpp"

namespace foreduce {

/// The verdict on one table and, where the question wants them, the causes. Throws as check() does.
CheckedTable diagnose(const NcclLog& log, const NcclTable& table, Collective collective,
                      LogCluster cluster, const CheckQuestion& question,
                      const BatchOptions& options);

/// Whether nothing but the GPU's name says on what machine a log was made.
bool only_gpu_tells_machine(const NcclFacts& facts, const CheckQuestion& question);

}  // namespace foreduce
