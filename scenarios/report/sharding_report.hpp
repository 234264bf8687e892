// What reports say of a model that is spread over GPUs: its collectives, its memory, its strategy.
#pragma once

#include <string>
#include <vector>

#include "scenarios/report/document.hpp"
#include "scenarios/report/report.hpp"
#include "scenarios/validation/sharded_runs.hpp"

namespace foreduce {

/// "all_gather", "tensor_all_reduce": what runs on a stream. Where tensor-parallel GPUs divide a
/// sequence, a reduce-scatter and an all-gather are in the place of each all-reduce.
const char* word_of(Stream kind, const ShardingPlan& plan);

/// A list with one entry a kind of collective: kind, bytes (of all buffers, as nccl-tests counts
/// them), sent_bytes_per_gpu, ranks, count, time_s and exposed_s.
Json collectives_report(const Prediction& point);
/// The same of a step in which parameters and gradients travel in these types.
Json collectives_report(const std::vector<CollectiveUse>& uses, const ShardingPlan& plan,
                        Type parameters, Type gradients);
/// Bytes of each part of a GPU's memory.
Json memory_report(const MemoryBy& memory);

/// "zero3 in groups of 8, tensor_parallel 4": how a point's model is spread; "ddp" if it is not.
std::string strategy_words(const Json& point);
/// Whether any point spreads its model, so that rows must say how.
bool any_sharded(const Json& points);
/// What of a sharded step is exposed by kind of collective, or nothing where nothing is sharded.
std::string collectives_line(const Json& points, const View& view);

/// Published runs with sharding beside their predictions.
Json sharded_runs_report(const ShardedValidation& validation);
Document render_sharded_runs(const Json& report, const View& view);

}  // namespace foreduce
