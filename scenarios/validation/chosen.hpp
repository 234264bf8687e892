// What NCCL says that it chose for each size (NCCL_DEBUG_SUBSYS=TUNING), beside what is expected.
#pragma once

#include <optional>
#include <vector>

#include "scenarios/validation/diagnosis.hpp"
#include "scenarios/validation/suspect_fit.hpp"

namespace foreduce {

/// Which algorithm and protocol NCCL chose where others are expected, and at which sizes; nothing
/// where the log does not say, all are as expected, or it is no all-reduce.
std::optional<Choices> other_choices(Collective collective, const NcclFacts& facts,
                                     const std::vector<double>& sizes,
                                     const std::vector<Expectation>& expected);

/// Those choices as a cause: predicted with what NCCL chose, the sizes are `misfit` off. Nothing
/// without `choices`, see other_choices(), where NCCL's settings left it no choice, or where the
/// user stopped.
std::optional<Cause> cause_by_choice(const NcclFacts& facts, const Setup& healthy,
                                     const std::optional<Choices>& choices, const Sample& few,
                                     const PredictSetups& predict);

/// Whether sizes up to `largest` go by LL or LL128, which are for small ones, where Simple is
/// expected.
bool loses_bandwidth(const Choices& choices, Bytes largest);

}  // namespace foreduce
